package policy

import (
	"slices"
	"strings"
)

// class is what the checker knows of a value.
type class uint8

const (
	classBool class = iota + 1
	classInt
	classUint
	classString
	classHex // its case means nothing
	classKey // in hexadecimal; its form means nothing
	classTime
	classList    // of elem
	classMap     // of elem
	classStruct  // with fields
	classDynamic // known when it is evaluated
	classNothing // the element of the empty list
)

// A shape is a type of the language.
type shape struct {
	class  class
	name   string
	elem   *shape
	fields []field
}

// A field is a member of a struct.
type field struct {
	name     string
	shape    *shape
	optional bool   // some values of the struct lack it: reading it can be an error
	read     string // the member that is read, if it has another name
}

func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

func (s *shape) String() string { return s.name }

func (s *shape) number() bool { return s.class == classInt || s.class == classUint }
func (s *shape) text() bool {
	return s.class == classString || s.class == classHex || s.class == classKey
}

var (
	boolShape    = &shape{class: classBool, name: "bool"}
	intShape     = &shape{class: classInt, name: "int"}
	uintShape    = &shape{class: classUint, name: "uint"}
	stringShape  = &shape{class: classString, name: "string"}
	hexShape     = &shape{class: classHex, name: "hex"}
	uuidShape    = &shape{class: classHex, name: "uuid"}
	emailShape   = &shape{class: classHex, name: "email"}
	keyShape     = &shape{class: classKey, name: "key"}
	timeShape    = &shape{class: classTime, name: "timestamp"}
	dynamicShape = &shape{class: classDynamic, name: "dynamic"}
	nothingShape = &shape{class: classNothing, name: "nothing"}
	stringsShape = listOf(stringShape)
	uuidsShape   = listOf(uuidShape)
	dynamicMap   = mapOf(dynamicShape)
)

func listOf(elem *shape) *shape {
	return &shape{class: classList, name: "list<" + elem.name + ">", elem: elem}
}

func mapOf(elem *shape) *shape {
	return &shape{class: classMap, name: "map<string," + elem.name + ">", elem: elem}
}

func members(s *shape, names string) []field {
	var out []field
	for _, name := range strings.Fields(names) {
		out = append(out, field{name: name, shape: s})
	}
	return out
}

func structOf(name string, fields ...[]field) *shape {
	return &shape{class: classStruct, name: name, fields: slices.Concat(fields...)}
}

// optional marks fields that not every value has.
func optional(fields ...[]field) []field {
	out := slices.Concat(fields...)
	for i := range out {
		out[i].optional = true
	}
	return out
}

func singleField(name string, s *shape) []field { return []field{{name: name, shape: s}} }

// rootID names a root by its row in roots.
type rootID uint8

// The roots that the code names: those that are not facts, and two that are.
const (
	rootApprovers rootID = iota + 1
	rootCredentials
	rootNow
	rootType
	rootKind
	rootResource
	rootAction
	rootParams
	rootWallet // the first of the facts
	rootWallets
)

// A root is where reading begins.
type root struct {
	name   string // a word, or a group and a word with a dot between; a group is no value itself
	clause Clause
	shape  *shape
	always bool // every request has it
}

var (
	userShape       = structOf("User", singleField("id", uuidShape), singleField("email", emailShape), singleField("alias", stringShape), singleField("tags", uuidsShape))
	credentialShape = structOf("Credential", members(uuidShape, "id user_id"), members(stringShape, "type credential_id"), singleField("public_key", keyShape))
	walletShape     = structOf("Wallet", singleField("id", uuidShape), singleField("label", stringShape), members(boolShape, "imported exported"))
	accountShape    = structOf("WalletAccount", singleField("address", stringShape), singleField("path_indexes", listOf(intShape)), singleField("path_hardened", listOf(boolShape)))
	privateKeyShape = structOf("PrivateKey", singleField("id", uuidShape), singleField("label", stringShape), singleField("tags", uuidsShape), members(boolShape, "imported exported"))
	secretShape     = structOf("Secret", singleField("static_properties", mapOf(stringShape)))

	ethShape = structOf("EthereumTransaction", members(hexShape, "from to data"),
		members(intShape, "value gas gas_price chain_id nonce max_fee_per_gas max_priority_fee_per_gas max_fee_per_blob_gas"),
		members(stringShape, "type function_name"), singleField("function_signature", hexShape), optional(singleField("contract_call_args", dynamicMap)))
	typedShape = structOf("TypedData", singleField("primary_type", stringShape),
		singleField("domain", structOf("Domain", members(stringShape, "name version"), singleField("chain_id", uintShape), singleField("verifying_contract", hexShape))),
		singleField("message", dynamicMap))
	authorizationShape = structOf("Authorization", singleField("address", hexShape), members(dynamicShape, "chain_id nonce"))

	solanaLookups = listOf(structOf("AddressTableLookup", singleField("address_table_key", stringShape),
		members(listOf(intShape), "writable_indexes readonly_indexes")))
	solanaShape = structOf("SolanaTransaction", members(stringsShape, "account_keys program_keys"),
		singleField("instructions", listOf(structOf("Instruction", singleField("program_key", stringShape),
			singleField("accounts", listOf(structOf("Account", singleField("account_key", stringShape), members(boolShape, "signer writable")))),
			singleField("instruction_data_hex", hexShape), singleField("address_table_lookups", solanaLookups),
			optional(singleField("parsed_instruction_data", structOf("ParsedInstruction", singleField("instruction_name", stringShape), singleField("discriminator", hexShape),
				singleField("named_accounts", mapOf(stringShape)), []field{{name: "named_account", shape: mapOf(stringShape), read: "named_accounts"}},
				optional(singleField("program_call_args", dynamicMap)))))))),
		singleField("transfers", listOf(structOf("Transfer", members(stringShape, "from to"), singleField("amount", intShape)))),
		singleField("authorities", listOf(structOf("Authority", members(stringShape, "account type authority")))),
		singleField("spl_transfers", listOf(structOf("TokenTransfer", members(stringShape, "from to"), singleField("amount", intShape),
			singleField("owner", stringShape), singleField("signers", stringsShape), singleField("token_mint", stringShape)))),
		singleField("spl_approvals", listOf(structOf("TokenApproval", members(stringShape, "from delegate"), singleField("amount", intShape),
			singleField("owner", stringShape), singleField("signers", stringsShape), singleField("token_mint", stringShape)))),
		singleField("spl_authorities", listOf(structOf("TokenAuthority", members(stringShape, "account type authority owner"), singleField("signers", stringsShape)))),
		singleField("spl_closes", listOf(structOf("TokenClose", members(stringShape, "account to owner"), singleField("signers", stringsShape)))),
		singleField("spl_burns", listOf(structOf("TokenBurn", singleField("from", stringShape), singleField("amount", intShape),
			singleField("owner", stringShape), singleField("signers", stringsShape), singleField("token_mint", stringShape)))),
		singleField("spl_others", listOf(structOf("TokenInstruction", singleField("program_key", stringShape), singleField("instruction_data_hex", hexShape)))),
		singleField("recent_blockhash", stringShape), singleField("address_table_lookups", solanaLookups))

	bitcoinShape = structOf("BitcoinTransaction", singleField("version", stringShape),
		singleField("inputs", listOf(structOf("Input", singleField("tx_id", hexShape), members(intShape, "vout sequence")))),
		singleField("outputs", listOf(structOf("Output", singleField("value", intShape), singleField("script_pubkey", hexShape), members(stringShape, "address address_type")))),
		singleField("locktime", structOf("LockTime", singleField("amount", intShape), singleField("type", stringShape))), singleField("fee", intShape))

	tronPermission = structOf("Permission", singleField("type", stringShape), singleField("id", intShape), singleField("permission_name", stringShape),
		members(intShape, "threshold parent_id"), singleField("operations", hexShape),
		singleField("keys", listOf(structOf("PermissionKey", singleField("address", stringShape), singleField("weight", intShape)))))
	tronShape = structOf("TronTransaction", members(hexShape, "ref_block_bytes ref_block_hash"), members(intShape, "expiration timestamp"),
		singleField("data", hexShape), singleField("fee_limit", intShape),
		singleField("contract", listOf(structOf("Contract", singleField("type", stringShape), singleField("permission_id", intShape), singleField("owner_address", stringShape),
			optional(singleField("to_address", stringShape), singleField("amount", intShape), singleField("contract_address", stringShape), singleField("call_value", intShape),
				singleField("data", hexShape), members(intShape, "call_token_value token_id"), singleField("resource", stringShape), singleField("balance", intShape),
				singleField("receiver_address", stringShape), singleField("lock", boolShape), members(intShape, "lock_period frozen_balance unfreeze_balance"),
				members(tronPermission, "owner witness"), singleField("actives", listOf(tronPermission)))))))

	tempoShape = structOf("TempoTransaction", singleField("chain_id", intShape), singleField("from", hexShape),
		members(intShape, "nonce gas_limit max_fee_per_gas max_priority_fee_per_gas"), singleField("fee_token", hexShape), members(intShape, "valid_before valid_after"),
		singleField("calls", listOf(structOf("Call", members(hexShape, "to input function_signature")))))

	sparkRecipients = listOf(structOf("OperatorRecipient", singleField("operator_id", stringShape), singleField("encryption_public_key", keyShape)))
	sparkDerivation = structOf("Derivation", singleField("type", stringShape), singleField("signing_leaf", structOf("SigningLeaf", singleField("leaf_id", stringShape))),
		singleField("static_deposit", structOf("StaticDeposit", singleField("index", intShape))))
	paramsShape = structOf("Params", optional(
		members(stringShape, "hash_function encoding payload_kind type"), members(uuidShape, "user_id wallet_id session_profile_id endpoint_id"), singleField("sign_with", stringShape),
		members(uuidsShape, "user_ids api_key_ids"), singleField("target_public_key", keyShape), singleField("otp_length", intShape),
		singleField("signatures", listOf(structOf("FrostSignature", singleField("derivation", sparkDerivation), singleField("message", hexShape), singleField("verifying_key", keyShape),
			singleField("operator_commitments", listOf(structOf("Commitment", singleField("id", hexShape), members(keyShape, "hiding binding")))),
			singleField("adaptor_public_key", keyShape)))),
		singleField("transfer", structOf("SparkTransfer", singleField("transfer_id", uuidShape),
			singleField("leaves", listOf(structOf("TransferLeaf", singleField("leaf_id", stringShape), members(sparkDerivation, "old_leaf_derivation new_leaf_derivation"),
				members(hexShape, "refund_signature direct_refund_signature direct_from_cpfp_refund_signature")))),
			singleField("threshold", intShape), singleField("operator_recipients", sparkRecipients), singleField("receiver_public_key", keyShape))),
		singleField("claim", structOf("SparkClaim",
			singleField("leaves", listOf(structOf("ClaimLeaf", singleField("leaf_id", stringShape), members(hexShape, "ciphertext sender_signature")))),
			singleField("threshold", intShape), singleField("operator_recipients", sparkRecipients), singleField("transfer_id", uuidShape),
			singleField("sender_identity_public_key", keyShape))),
		singleField("lightning_receive", structOf("LightningReceive", singleField("threshold", intShape), singleField("operator_recipients", sparkRecipients)))))
)

// roots is the one table of what expressions can read. The checker takes names and
// types from it, the evaluator checks facts by it, and a test holds the documentation
// against it. Row 0 is no root.
var roots = [...]root{
	{},
	{"approvers", ClauseConsensus, listOf(userShape), true},
	{"credentials", ClauseConsensus, listOf(credentialShape), true},
	{"time.now", ClauseTime, timeShape, true},
	{"activity.type", ClauseCondition, stringShape, true},
	{"activity.kind", ClauseCondition, stringShape, true},
	{"activity.resource", ClauseCondition, stringShape, true},
	{"activity.action", ClauseCondition, stringShape, true},
	{"activity.params", ClauseCondition, paramsShape, false},
	{"wallet", ClauseCondition, walletShape, false},
	{"wallets", ClauseCondition, listOf(walletShape), false},
	{"wallet_account", ClauseCondition, accountShape, false},
	{"private_key", ClauseCondition, privateKeyShape, false},
	{"secret", ClauseCondition, secretShape, false},
	{"eth.tx", ClauseCondition, ethShape, false},
	{"eth.eip_712", ClauseCondition, typedShape, false},
	{"eth.eip_7702_authorization", ClauseCondition, authorizationShape, false},
	{"solana.tx", ClauseCondition, solanaShape, false},
	{"bitcoin.tx", ClauseCondition, bitcoinShape, false},
	{"tron.tx", ClauseCondition, tronShape, false},
	{"tempo.tx", ClauseCondition, tempoShape, false},
}

// paramKinds tells which kinds have which members of activity.params.
var paramKinds = [...][2]string{
	{"hash_function encoding payload_kind", "SIGN_RAW_PAYLOAD SIGN_RAW_PAYLOADS"},
	{"type", "SIGN_TRANSACTION"},
	{"user_ids", "DELETE_USERS"},
	{"user_id", "CREATE_API_KEYS DELETE_API_KEYS"},
	{"api_key_ids", "DELETE_API_KEYS"},
	{"target_public_key", "EXPORT_WALLET EXPORT_WALLET_ACCOUNT EXPORT_PRIVATE_KEY EXPORT_SECRETS"},
	{"wallet_id", "UPDATE_WALLET"},
	{"otp_length", "INIT_OTP_AUTH"},
	{"session_profile_id", "OTP_LOGIN STAMP_LOGIN OAUTH_LOGIN"},
	{"endpoint_id", "UPDATE_WEBHOOK_ENDPOINT DELETE_WEBHOOK_ENDPOINT RESEND_WEBHOOK_DELIVERIES"},
	{"sign_with", "SPARK_SIGN_FROST SPARK_PREPARE_TRANSFER SPARK_CLAIM_TRANSFER SPARK_PREPARE_LIGHTNING_RECEIVE"},
	{"signatures", "SPARK_SIGN_FROST"},
	{"transfer", "SPARK_PREPARE_TRANSFER"},
	{"claim", "SPARK_CLAIM_TRANSFER"},
	{"lightning_receive", "SPARK_PREPARE_LIGHTNING_RECEIVE"},
}

// carries tells whether every activity of a kind has what a node reads.
func carries(k *Kind, n *node) bool {
	if n.op == opMember && n.kids[0].root == rootParams {
		return slices.ContainsFunc(paramKinds[:], func(row [2]string) bool {
			return slices.Contains(strings.Fields(row[0]), n.name) && slices.Contains(strings.Fields(row[1]), k.Name)
		})
	}
	switch roots[n.root].name {
	case "wallet":
		return k.Resource == "WALLET" && k.Action == "EXPORT"
	case "wallets":
		return k.Name == "DELETE_WALLETS"
	case "wallet_account":
		return k.Name == "EXPORT_WALLET_ACCOUNT"
	case "private_key":
		return k.Resource == "PRIVATE_KEY" && k.Action == "EXPORT"
	case "secret":
		return k.Name == "IMPORT_SECRETS" || k.Name == "EXPORT_SECRETS"
	}
	return false
}

// solanaLists tells of lists of transfers in which others of solana.tx stands what gives the same away without a transfer.
var solanaLists = map[string][]string{
	"transfers":     {"authorities"},
	"spl_transfers": {"spl_approvals", "spl_authorities", "spl_closes", "spl_burns", "spl_others"},
}

// findRoot is the root of this name, or 0.
func findRoot(name string) rootID {
	return rootID(max(slices.IndexFunc(roots[:], func(r root) bool { return r.name == name }), 0))
}

// group tells whether a word is the first of roots of two words.
func group(word string) bool {
	return slices.ContainsFunc(roots[:], func(r root) bool { return strings.HasPrefix(r.name, word+".") })
}

// keyword tells whether a word cannot be a variable, as it has another meaning.
func keyword(name string) bool {
	switch name {
	case "true", "false", "in", opTexts[opTimestamp], opTexts[opCronSpan]:
		return true
	}
	return group(name) || findRoot(name) != 0
}

// A Field is something that expressions can read.
type Field struct {
	Path   string // such as solana.tx.transfers[].amount
	Type   string // such as int; hex, uuid and email are strings whose comparisons ignore case
	Clause Clause
	// Optional: a request can lack it, and reading it is an error then.
	Optional bool
}

// Fields lists all that expressions can read: roots in their order, members of a
// struct below it.
func Fields() []Field {
	var out []Field
	for _, r := range roots[1:] {
		out = appendFields(out, Field{r.name, r.shape.name, r.clause, !r.always}, r.shape)
	}
	return out
}

func appendFields(out []Field, f Field, s *shape) []Field {
	out = append(out, f)
	for s.class == classList {
		f.Path, s = f.Path+"[]", s.elem
	}
	for _, m := range s.fields {
		out = appendFields(out, Field{f.Path + "." + m.name, m.shape.name, f.Clause, m.optional}, m.shape)
	}
	return out
}
