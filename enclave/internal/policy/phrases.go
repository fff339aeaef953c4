package policy

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// Names are what an organization calls its things, for Describe.
type Names struct {
	Users, Tags, Wallets, PrivateKeys NamesByID

	labels map[string]label // of fields, by their paths, once they were needed
}

// NamesByID has names by ids.
type NamesByID struct {
	names map[string]string
	times map[string]int // how many have a name
}

// Add adds a name.
func (n *NamesByID) Add(id, name string) {
	if n.names == nil {
		n.names, n.times = map[string]string{}, map[string]int{}
	}
	n.names[strings.ToLower(id)] = name
	n.times[name]++
}

// find is the name of an id, with the id if several have the name; empty if it has none.
func (n *NamesByID) find(id string) string {
	name := n.names[strings.ToLower(id)]
	switch {
	case name == "":
		return ""
	case n.times[name] > 1:
		return quoteName(name) + " (" + id + ")"
	}
	return quoteName(name)
}

// quoteName puts quotes around a name that could be read as something else than a name.
func quoteName(name string) string {
	first := true
	for _, r := range name {
		if first && !unicode.IsUpper(r) && !unicode.Is(unicode.Lo, r) || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' && r != '.' {
			return strconv.Quote(name)
		}
		first = false
	}
	return name
}

// quoteText puts quotes around a text that could be read as words.
func quoteText(text string) string {
	code := false // it has a digit, or is in capitals
	for i := range len(text) {
		c := text[i]
		if !letterOrDigit(c) && strings.IndexByte("-.:/@+", c) < 0 {
			return strconv.Quote(text)
		}
		code = code || digit(c)
	}
	if !code && (text == "" || text != strings.ToUpper(text)) {
		return strconv.Quote(text)
	}
	return text
}

// namesOf are the names for the values of a field.
func (d *describer) namesOf(path string) *NamesByID {
	switch path {
	case "approvers[].id", "credentials[].user_id", "activity.params.user_id", "activity.params.user_ids[]":
		return &d.names.Users
	case "approvers[].tags[]", "private_key.tags[]":
		return &d.names.Tags
	case "wallet.id", "wallets[].id", "activity.params.wallet_id":
		return &d.names.Wallets
	case "private_key.id":
		return &d.names.PrivateKeys
	}
	return nil
}

// literal describes a literal that a field of a path is compared with.
func (d *describer) literal(n *node, path string) string {
	l := d.labels[path]
	switch n.op {
	case opBool:
		return strconv.FormatBool(n.lit.yes)
	case opInt:
		digits := string(n.lit.appendDecimal(nil))
		for _, c := range chains {
			if l.unit == "chain" && c[0] == digits {
				return digits + " (" + c[1] + ")"
			}
		}
		for _, u := range units {
			if u.name == l.unit {
				return decimals(&n.lit, u.digits) + " " + u.name + " (" + digits + " " + u.smallest + ")"
			}
		}
		return digits
	}
	text := n.lit.string
	if names := d.namesOf(path); names != nil {
		if name := names.find(text); name != "" {
			return name
		}
	}
	if text == "" {
		return "empty"
	}
	for _, row := range credentialTypes {
		if path == "credentials[].type" && row[0] == text {
			return row[1] + " (" + text + ")"
		}
	}
	for _, row := range functions {
		if l.unit == "selector" && row[0] == strings.TrimPrefix(strings.ToLower(text), "0x") {
			return text + " (" + row[1] + ")"
		}
	}
	if strings.HasSuffix(path, ".label") || strings.HasSuffix(path, ".alias") {
		return strconv.Quote(text)
	}
	return quoteText(text)
}

// decimals is a number with so many digits behind the point, exactly.
func decimals(v *Value, digits int) string {
	n := v.big
	if n == nil {
		n = big.NewInt(v.small)
	}
	text := new(big.Int).Abs(n).String()
	if short := digits + 1 - len(text); short > 0 {
		text = strings.Repeat("0", short) + text
	}
	whole, part := text[:len(text)-digits], strings.TrimRight(text[len(text)-digits:], "0")
	if part != "" {
		whole += "." + part
	}
	if n.Sign() < 0 {
		whole = "-" + whole
	}
	return whole
}

// units are those in which people speak of amounts, with the digits down to the smallest.
var units = [...]struct {
	name     string
	digits   int
	smallest string
}{{"ETH", 18, "wei"}, {"gwei", 9, "wei"}, {"SOL", 9, "lamports"}, {"BTC", 8, "satoshi"}, {"TRX", 6, "sun"}}

// chains are numbers of chains that many know.
var chains = [...][2]string{{"1", "Ethereum"}, {"10", "OP Mainnet"}, {"56", "BNB Smart Chain"}, {"137", "Polygon"}, {"8453", "Base"}, {"42161", "Arbitrum One"},
	{"43114", "Avalanche"}, {"11155111", "Sepolia"}}

// credentialTypes are what people call them.
var credentialTypes = [][2]string{
	{"CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR", "a passkey"},
	{"CREDENTIAL_TYPE_API_KEY_P256", "an API key on P-256"},
	{"CREDENTIAL_TYPE_API_KEY_SECP256K1", "an API key on secp256k1"},
	{"CREDENTIAL_TYPE_API_KEY_ED25519", "an API key on Ed25519"},
	{"CREDENTIAL_TYPE_EMAIL_AUTH_KEY_P256", "a session that began with an e-mail"},
	{"CREDENTIAL_TYPE_OTP_AUTH_KEY_P256", "a session that began with a code"},
	{"CREDENTIAL_TYPE_OAUTH_KEY_P256", "a session that began with OAuth"},
	{"CREDENTIAL_TYPE_READ_WRITE_SESSION_KEY_P256", "a read-write session"},
	{"CREDENTIAL_TYPE_RECOVER_USER_KEY_P256", "a recovery"},
	{"CREDENTIAL_TYPE_LOGIN", "a login session"},
}

// functions are well-known functions of contracts by their selectors; a test computes them.
var functions = [][2]string{
	{"a9059cbb", "transfer(address,uint256)"},
	{"095ea7b3", "approve(address,uint256)"},
	{"23b872dd", "transferFrom(address,address,uint256)"},
	{"39509351", "increaseAllowance(address,uint256)"},
	{"a22cb465", "setApprovalForAll(address,bool)"},
	{"42842e0e", "safeTransferFrom(address,address,uint256)"},
	{"b88d4fde", "safeTransferFrom(address,address,uint256,bytes)"},
	{"f242432a", "safeTransferFrom(address,address,uint256,uint256,bytes)"},
	{"d505accf", "permit(address,address,uint256,uint256,uint8,bytes32,bytes32)"},
	{"40c10f19", "mint(address,uint256)"},
	{"42966c68", "burn(uint256)"},
	{"d0e30db0", "deposit()"},
	{"2e1a7d4d", "withdraw(uint256)"},
	{"ac9650d8", "multicall(bytes[])"},
	{"3659cfe6", "upgradeTo(address)"},
	{"f2fde38b", "transferOwnership(address)"},
}

// A label is what a field is called in words. Its numbers are in a unit or numbers of chains, or its texts begin with selectors.
type label struct{ text, unit string }

// labels are those of frequent fields, by their paths; ['…'] is an entry of a map.
var labels = [...]struct {
	path string
	label
}{
	{"approvers", label{"the users who approve", ""}},
	{"approvers[].id", label{"the user", ""}},
	{"approvers[].alias", label{"the user's name", ""}},
	{"approvers[].email", label{"the user's e-mail address", ""}},
	{"approvers[].tags", label{"the user's tags", ""}},
	{"credentials", label{"the credentials with which users approve", ""}},
	{"credentials[].id", label{"the credential", ""}},
	{"credentials[].user_id", label{"the credential's user", ""}},
	{"credentials[].type", label{"the credential", ""}},
	{"credentials[].public_key", label{"the credential's public key", ""}},
	{"activity.kind", label{"the activity", ""}},
	{"activity.type", label{"the activity and its version", ""}},
	{"activity.resource", label{"the resource", ""}},
	{"activity.action", label{"the action", ""}},
	{"activity.params.hash_function", label{"the hash function", ""}},
	{"activity.params.encoding", label{"the encoding of the payload", ""}},
	{"activity.params.payload_kind", label{"the kind of payload", ""}},
	{"activity.params.type", label{"the type of transaction", ""}},
	{"activity.params.user_id", label{"the user whose API keys are changed", ""}},
	{"activity.params.user_ids", label{"the users who are deleted", ""}},
	{"activity.params.wallet_id", label{"the wallet that is changed", ""}},
	{"activity.params.target_public_key", label{"the key that the export is encrypted to", ""}},
	{"activity.params.sign_with", label{"what signs", ""}},
	{"wallet.id", label{"the wallet", ""}},
	{"wallet.label", label{"the wallet's name", ""}},
	{"wallets", label{"the wallets", ""}},
	{"wallets[].id", label{"the wallet", ""}},
	{"wallets[].label", label{"the wallet's name", ""}},
	{"wallet_account.address", label{"the account's address", ""}},
	{"wallet_account.path_indexes", label{"the steps of the account's path", ""}},
	{"private_key.id", label{"the private key", ""}},
	{"private_key.label", label{"the private key's name", ""}},
	{"private_key.tags", label{"the private key's tags", ""}},
	{"secret.static_properties['']", label{"the secret's property", ""}},

	{"eth.tx.from", label{"the signing address", ""}},
	{"eth.tx.to", label{"the recipient", ""}},
	{"eth.tx.data", label{"the call", "selector"}},
	{"eth.tx.value", label{"the amount", "ETH"}},
	{"eth.tx.gas", label{"the gas limit", ""}},
	{"eth.tx.gas_price", label{"the gas price", "gwei"}},
	{"eth.tx.max_fee_per_gas", label{"the highest fee per gas", "gwei"}},
	{"eth.tx.max_priority_fee_per_gas", label{"the highest priority fee per gas", "gwei"}},
	{"eth.tx.max_fee_per_blob_gas", label{"the highest fee per blob gas", "gwei"}},
	{"eth.tx.chain_id", label{"the chain", "chain"}},
	{"eth.tx.nonce", label{"the nonce", ""}},
	{"eth.tx.type", label{"the type of transaction", ""}},
	{"eth.tx.function_name", label{"the called function", ""}},
	{"eth.tx.function_signature", label{"the selector of the called function", "selector"}},
	{"eth.tx.contract_call_args['']", label{"the call's argument", ""}},
	{"eth.eip_712.primary_type", label{"the type of the typed data", ""}},
	{"eth.eip_712.domain.name", label{"the domain's name", ""}},
	{"eth.eip_712.domain.version", label{"the domain's version", ""}},
	{"eth.eip_712.domain.chain_id", label{"the domain's chain", "chain"}},
	{"eth.eip_712.domain.verifying_contract", label{"the domain's contract", ""}},
	{"eth.eip_712.message['']", label{"the message's member", ""}},
	{"eth.eip_7702_authorization.address", label{"the authorized contract", ""}},
	{"eth.eip_7702_authorization.chain_id", label{"the authorization's chain", ""}},

	{"solana.tx.account_keys", label{"the accounts", ""}},
	{"solana.tx.program_keys", label{"the called programs", ""}},
	{"solana.tx.instructions", label{"the instructions", ""}},
	{"solana.tx.instructions[].program_key", label{"the called program", ""}},
	{"solana.tx.transfers", label{"the transfers", ""}},
	{"solana.tx.transfers[].from", label{"the payer", ""}},
	{"solana.tx.transfers[].to", label{"the recipient", ""}},
	{"solana.tx.transfers[].amount", label{"the amount", "SOL"}},
	{"solana.tx.authorities", label{"the accounts that are handed over", ""}},
	{"solana.tx.spl_transfers", label{"the token transfers", ""}},
	{"solana.tx.spl_transfers[].from", label{"the paying token account", ""}},
	{"solana.tx.spl_transfers[].to", label{"the receiving token account", ""}},
	{"solana.tx.spl_transfers[].amount", label{"the amount in base units", ""}},
	{"solana.tx.spl_transfers[].owner", label{"the owner", ""}},
	{"solana.tx.spl_transfers[].token_mint", label{"the token", ""}},
	{"solana.tx.spl_approvals", label{"the token approvals", ""}},
	{"solana.tx.spl_authorities", label{"the changed token authorities", ""}},
	{"solana.tx.spl_closes", label{"the closed token accounts", ""}},
	{"solana.tx.spl_burns", label{"the burned tokens", ""}},
	{"solana.tx.spl_others", label{"the other token instructions", ""}},
	{"solana.tx.address_table_lookups", label{"the address tables", ""}},
	{"bitcoin.tx.inputs", label{"the inputs", ""}},
	{"bitcoin.tx.outputs", label{"the outputs", ""}},
	{"bitcoin.tx.outputs[].value", label{"the amount", "BTC"}},
	{"bitcoin.tx.outputs[].address", label{"the recipient", ""}},
	{"bitcoin.tx.outputs[].address_type", label{"the type of address", ""}},
	{"bitcoin.tx.fee", label{"the fee", "BTC"}},
	{"tron.tx.fee_limit", label{"the fee limit", "TRX"}},
	{"tron.tx.contract[].type", label{"the type of transaction", ""}},
	{"tron.tx.contract[].owner_address", label{"the paying account", ""}},
	{"tron.tx.contract[].to_address", label{"the recipient", ""}},
	{"tron.tx.contract[].amount", label{"the amount", "TRX"}},
	{"tron.tx.contract[].contract_address", label{"the called contract", ""}},
	{"tron.tx.contract[].call_value", label{"the amount sent along", "TRX"}},
	{"tron.tx.contract[].data", label{"the call", "selector"}},
	{"tron.tx.contract[].balance", label{"the delegated stake", "TRX"}},
	{"tron.tx.contract[].frozen_balance", label{"the staked amount", "TRX"}},
	{"tron.tx.contract[].unfreeze_balance", label{"the unstaked amount", "TRX"}},
	{"tempo.tx.chain_id", label{"the chain", ""}},
	{"tempo.tx.fee_token", label{"the token that fees are paid in", ""}},
	{"tempo.tx.calls", label{"the calls", ""}},
	{"tempo.tx.calls[].to", label{"the called address", ""}},
	{"tempo.tx.calls[].input", label{"the call", "selector"}},
	{"tempo.tx.calls[].function_signature", label{"the selector of the called function", "selector"}},
}

func (n *Names) fieldLabels() map[string]label {
	if n.labels == nil {
		n.labels = make(map[string]label, len(labels))
		for _, l := range labels {
			n.labels[l.path] = l.label
		}
	}
	return n.labels
}

// kindNamed is the kind of a name that policies can allow, or nil.
func kindNamed(name string) *Kind {
	for i := range everyKind() {
		if k := &kindList.all[i]; k.Name == name && !k.RootQuorum {
			return k
		}
	}
	return nil
}

// kindPhrase says what a kind is: by the table, or by its name.
func kindPhrase(name string) string {
	for _, row := range kindPhrases {
		if row[0] == name {
			return row[1]
		}
	}
	verb, rest, _ := strings.Cut(name, "_")
	for _, row := range verbs {
		if row[0] == verb && rest != "" {
			return row[1] + " " + strings.ToLower(strings.ReplaceAll(rest, "_", " ")) + " (" + name + ")"
		}
	}
	return "the activity " + name
}

var verbs = [...][2]string{{"CREATE", "creating"}, {"DELETE", "deleting"}, {"UPDATE", "changing"}, {"INIT", "starting"}, {"ENABLE", "enabling"}, {"DISABLE", "disabling"},
	{"SET", "setting"}, {"REMOVE", "removing"}, {"RESTORE", "restoring"}, {"ACCEPT", "accepting"}, {"ACTIVATE", "activating"}}

var kindPhrases = [...][2]string{
	{"SIGN_TRANSACTION", "signing a transaction"},
	{"SIGN_RAW_PAYLOAD", "signing a raw payload"},
	{"SIGN_RAW_PAYLOADS", "signing several raw payloads"},
	{"ETH_SEND_TRANSACTION", "sending an Ethereum transaction"},
	{"ETH_SEND_RAW_TRANSACTION", "sending a signed Ethereum transaction"},
	{"SOL_SEND_TRANSACTION", "sending a Solana transaction"},
	{"EXECUTE_SWAP", "swapping tokens"},
	{"CREATE_WALLET", "creating a wallet"},
	{"CREATE_WALLET_ACCOUNTS", "creating accounts of a wallet"},
	{"UPDATE_WALLET", "renaming a wallet"},
	{"UPDATE_WALLET_ACCOUNT_NAME", "renaming an account of a wallet"},
	{"DELETE_WALLETS", "deleting wallets"},
	{"DELETE_WALLET_ACCOUNTS", "deleting accounts of wallets"},
	{"EXPORT_WALLET", "exporting a wallet"},
	{"EXPORT_WALLET_ACCOUNT", "exporting an account of a wallet"},
	{"INIT_IMPORT_WALLET", "starting the import of a wallet"},
	{"IMPORT_WALLET", "importing a wallet"},
	{"CREATE_PRIVATE_KEYS", "creating private keys"},
	{"DELETE_PRIVATE_KEYS", "deleting private keys"},
	{"DISABLE_PRIVATE_KEY", "disabling a private key"},
	{"EXPORT_PRIVATE_KEY", "exporting a private key"},
	{"INIT_IMPORT_PRIVATE_KEY", "starting the import of a private key"},
	{"IMPORT_PRIVATE_KEY", "importing a private key"},
	{"CREATE_PRIVATE_KEY_TAG", "creating a tag for private keys"},
	{"UPDATE_PRIVATE_KEY_TAG", "changing a tag of private keys"},
	{"DELETE_PRIVATE_KEY_TAGS", "deleting tags of private keys"},
	{"CREATE_USERS", "creating users"},
	{"CREATE_API_ONLY_USERS", "creating users with API keys only"},
	{"CREATE_USER_TAG", "creating a tag for users"},
	{"UPDATE_USER_TAG", "changing a tag of users"},
	{"DELETE_USER_TAGS", "deleting tags of users"},
	{"DELETE_USERS", "deleting users"},
	{"UPDATE_USER", "changing a user"},
	{"UPDATE_USER_NAME", "changing a user's name"},
	{"UPDATE_USER_EMAIL", "changing a user's e-mail address"},
	{"UPDATE_USER_PHONE_NUMBER", "changing a user's phone number"},
	{"CREATE_INVITATIONS", "inviting users"},
	{"DELETE_INVITATION", "deleting an invitation"},
	{"CREATE_API_KEYS", "creating API keys"},
	{"DELETE_API_KEYS", "deleting API keys"},
	{"CREATE_AUTHENTICATORS", "adding passkeys"},
	{"DELETE_AUTHENTICATORS", "deleting passkeys"},
	{"CREATE_OAUTH_PROVIDERS", "adding OAuth providers to a user"},
	{"DELETE_OAUTH_PROVIDERS", "deleting OAuth providers of a user"},
	{"CREATE_POLICY", "creating a policy"},
	{"CREATE_POLICIES", "creating policies"},
	{"UPDATE_POLICY", "changing a policy"},
	{"DELETE_POLICY", "deleting a policy"},
	{"DELETE_POLICIES", "deleting policies"},
	{"CREATE_SUB_ORGANIZATION", "creating a sub-organization"},
	{"DELETE_SUB_ORGANIZATION", "deleting a sub-organization"},
	{"DELETE_ORGANIZATION", "deleting the organization"},
	{"EMAIL_AUTH", "starting a session by e-mail"},
	{"INIT_OTP", "sending a code to sign in with"},
	{"VERIFY_OTP", "checking a code to sign in with"},
	{"OTP_LOGIN", "signing in with a code"},
	{"OAUTH_LOGIN", "signing in with OAuth"},
	{"STAMP_LOGIN", "signing in with a credential"},
	{"CREATE_READ_WRITE_SESSION", "starting a session that may write"},
	{"CREATE_READ_ONLY_SESSION", "starting a session that may only read"},
	{"INIT_USER_EMAIL_RECOVERY", "starting the recovery of a user by e-mail"},
	{"RECOVER_USER", "recovering a user"},
	{"IMPORT_SECRETS", "importing secrets"},
	{"INIT_IMPORT_SECRETS", "starting the import of secrets"},
	{"EXPORT_SECRETS", "exporting secrets"},
	{"DELETE_SECRETS", "deleting secrets"},
	{"CREATE_WEBHOOK_ENDPOINT", "creating a webhook endpoint"},
	{"UPDATE_WEBHOOK_ENDPOINT", "changing a webhook endpoint"},
	{"RESEND_WEBHOOK_DELIVERIES", "sending webhook events again"},
	{"DELETE_WEBHOOK_ENDPOINT", "deleting a webhook endpoint"},
	{"CREATE_SMART_CONTRACT_INTERFACE", "uploading a contract's interface"},
	{"DELETE_SMART_CONTRACT_INTERFACE", "deleting a contract's interface"},
	{"UPDATE_ALLOWED_ORIGINS", "changing the allowed origins"},
	{"SET_IP_ALLOWLIST", "setting an IP allowlist"},
	{"REMOVE_IP_ALLOWLIST", "removing an IP allowlist"},
	{"SPARK_SIGN_FROST", "signing for Spark"},
	{"SPARK_PREPARE_TRANSFER", "preparing a transfer on Spark"},
	{"SPARK_CLAIM_TRANSFER", "claiming a transfer on Spark"},
	{"SPARK_PREPARE_LIGHTNING_RECEIVE", "preparing to receive by Lightning"},
}

// kindsOf describes the kinds of activities that some of the tests name, which all must hold, and gives the other tests.
func (d *describer) kindsOf(tests []*node) (head string, rest []*node) {
	for _, n := range tests {
		if head := d.kinds(n); head != "" {
			return head, without(tests, n)
		}
	}
	var named []*node
	var texts []string
	for _, n := range tests {
		root, literals := comparedRoot(n)
		if (root != rootResource && root != rootAction) || n.op != opEq || len(literals) != 1 || kindsThat(func(k *Kind) bool { return k.constantAt(root) == literals[0].lit.string }) == (kindSet{}) {
			continue
		}
		named, texts = append(named, n), append(texts, roots[root].name+" is "+quoteText(literals[0].lit.string))
	}
	if len(named) == 0 {
		return "", tests
	}
	set := matchedKinds(&node{op: opAnd, kids: named})
	var phrases []string
	for _, k := range set.list() {
		phrases = append(phrases, kindPhrase(k.Name))
	}
	switch {
	case len(phrases) == 0:
		return "", tests
	case len(phrases) <= maxInText+1:
		head = either(phrases)
	default:
		head = kindGroup(set, named)
	}
	return head + " (" + strings.Join(texts, " and ") + ")", without(tests, named...)
}

// kindGroup describes the many kinds that have a resource or an action, or both.
func kindGroup(set kindSet, tests []*node) string {
	first := set.list()[0]
	root, _ := comparedRoot(tests[0])
	for _, row := range actionPhrases {
		if row[0] == first.Action && (len(tests) == 1 && root == rootAction || row[0] == "SIGN" && !set.any(func(k *Kind) bool { return k.Action != "SIGN" })) {
			return row[1]
		}
	}
	for _, row := range resourcePhrases {
		if row[0] == first.Resource && len(tests) == 1 && root == rootResource {
			return "everything about " + row[1]
		}
	}
	return "every activity"
}

var actionPhrases = [...][2]string{{"CREATE", "creating anything"}, {"UPDATE", "changing anything"}, {"DELETE", "deleting anything"}, {"IMPORT", "importing anything"},
	{"SIGN", "signing anything"}}

var resourcePhrases = [...][2]string{{"AUTH", "signing in, and OAuth 2 credentials"}, {"CREDENTIAL", "API keys, passkeys and OAuth providers"}, {"POLICY", "policies"}, {"PRIVATE_KEY", "private keys, and signing with wallets too"},
	{"USER", "users and their tags"}, {"WALLET", "wallets, except signing with them"}}

func without(all []*node, some ...*node) (rest []*node) {
	for _, n := range all {
		is := false
		for _, s := range some {
			is = is || s == n
		}
		if !is {
			rest = append(rest, n)
		}
	}
	return rest
}

// kinds describes a test that is true of activities of some kinds, all known, and of no others; empty: it is another test.
func (d *describer) kinds(n *node) string {
	parts := []*node{n}
	if n.op == opOr {
		parts = n.kids
	}
	var phrases []string
	for _, part := range parts {
		root, literals := comparedRoot(part)
		if root != rootKind && root != rootType || part.op != opEq && part.op != opIn && part.op != opContains || len(literals) == 0 {
			return ""
		}
		for _, lit := range literals {
			k := kindNamed(meaning(root, lit))
			if k == nil {
				return ""
			}
			text := kindPhrase(k.Name)
			if root == rootType {
				text += " (only " + lit.lit.string + ")"
			}
			phrases = append(phrases, text)
		}
	}
	return either(phrases)
}
