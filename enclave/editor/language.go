package editor

import "cloister/enclave/internal/policy"

// Language is what expressions can read, name and call.
type Language struct {
	Fields  []Field  `json:"fields"`
	Kinds   []Kind   `json:"kinds"`
	Methods []Method `json:"methods"`
}

// A Field is something that an expression can read.
type Field struct {
	Path     string `json:"path"` // such as solana.tx.transfers[].amount
	Type     string `json:"type"`
	Clause   string `json:"clause"`
	Optional bool   `json:"optional"` // a request can lack it, and reading it is an error then
	Note     string `json:"note"`     // empty: its name says what it is
}

// A Kind is what activity.kind can be.
type Kind struct {
	Name       string `json:"name"`
	Resource   string `json:"resource"`
	Action     string `json:"action"`
	RootQuorum bool   `json:"rootQuorum"` // no policy can allow it
}

// A Method is called on a list, or is a function of the time.
type Method struct {
	Name string `json:"name"`
	Form string `json:"form"`
	Note string `json:"note"`
}

func language() *Language {
	l := &Language{Methods: methods}
	for _, f := range policy.Fields() {
		l.Fields = append(l.Fields, Field{f.Path, f.Type, f.Clause.String(), f.Optional, notes[f.Path]})
	}
	for _, k := range policy.Kinds() {
		l.Kinds = append(l.Kinds, Kind(k))
	}
	return l
}

var methods = []Method{
	{"any", "list.any(x, test)", "true if the test is true of one item or more"},
	{"all", "list.all(x, test)", "true if the test is true of every item, and of an empty list"},
	{"filter", "list.filter(x, test)", "the items of which the test is true"},
	{"count", "list.count()", "the number of items"},
	{"contains", "list.contains(value)", "true if one item equals the value"},
	{"Timestamp", "Timestamp('2026-01-31T12:00:00Z')", "a time in UTC, to compare with time.now"},
	{"CronSpan", "CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris')", "true during a window that opens at these minutes, hours, days of the month, months and days of the week (0 is Sunday)"},
}

// notes tell what a field is, where its name does not say it whole.
var notes = map[string]string{
	"approvers":                             "the users who have approved; who sends the request approves by that",
	"approvers[].id":                        "the user's id",
	"approvers[].alias":                     "the user's name; case matters",
	"approvers[].email":                     "the user's e-mail address",
	"approvers[].tags":                      "ids of the user's tags",
	"credentials":                           "the credentials with which the approvers have approved",
	"credentials[].type":                    "such as a passkey or an API key",
	"credentials[].user_id":                 "the user who owns it",
	"credentials[].public_key":              "hexadecimal digits without 0x",
	"time.now":                              "when the request is decided",
	"activity.kind":                         "what is asked for, whichever version",
	"activity.type":                         "one version of what is asked for; better compare activity.kind",
	"activity.resource":                     "what it is about",
	"activity.action":                       "what is done to it",
	"activity.params":                       "parameters of the activity",
	"activity.params.payload_kind":          "what a raw payload is",
	"activity.params.hash_function":         "of raw payloads",
	"activity.params.encoding":              "of raw payloads",
	"activity.params.type":                  "the chain, of SIGN_TRANSACTION",
	"activity.params.user_id":               "the user whose API keys are made or deleted",
	"activity.params.user_ids":              "the users who are deleted",
	"activity.params.wallet_id":             "the wallet that is changed",
	"activity.params.target_public_key":     "the key to which an export is encrypted",
	"activity.params.sign_with":             "of Spark activities: the address or id that signs",
	"wallet":                                "the wallet whose account signs, or which is exported",
	"wallet.id":                             "the wallet's id",
	"wallet.label":                          "the wallet's name; case matters",
	"wallets":                               "the wallets that are deleted",
	"wallet_account.address":                "the address that signs",
	"wallet_account.path_indexes":           "steps of its path, such as [44, 60, 0, 0, 0]",
	"private_key":                           "the private key that signs, or is exported or deleted",
	"private_key.id":                        "the private key's id",
	"private_key.label":                     "the private key's name; case matters",
	"private_key.tags":                      "ids of the private key's tags",
	"secret.static_properties":              "the secret's properties by their names",
	"eth.tx":                                "an Ethereum transaction, or one call of it",
	"eth.tx.from":                           "the address that signs",
	"eth.tx.to":                             "the address that is called or paid; '' where a contract is created",
	"eth.tx.value":                          "amount in wei: 1 ETH is 1000000000000000000",
	"eth.tx.data":                           "the calldata; '0x' for none",
	"eth.tx.gas":                            "the gas limit",
	"eth.tx.gas_price":                      "in wei per unit of gas: 1 gwei is 1000000000",
	"eth.tx.max_fee_per_gas":                "in wei per unit of gas: 1 gwei is 1000000000",
	"eth.tx.max_priority_fee_per_gas":       "in wei per unit of gas: 1 gwei is 1000000000",
	"eth.tx.max_fee_per_blob_gas":           "in wei per unit of blob gas: 1 gwei is 1000000000",
	"eth.tx.chain_id":                       "1 is Ethereum, 8453 is Base",
	"eth.tx.nonce":                          "the account's transaction number",
	"eth.tx.type":                           "LEGACY, TYPE_1, TYPE_2, TYPE_3 or TYPE_4",
	"eth.tx.function_name":                  "from the uploaded ABI; '' without one",
	"eth.tx.function_signature":             "the selector, such as '0xa9059cbb'; '' without an uploaded ABI",
	"eth.tx.contract_call_args":             "arguments by their names in the uploaded ABI",
	"eth.eip_712":                           "typed data that is signed",
	"eth.eip_712.primary_type":              "such as Permit",
	"eth.eip_712.domain.verifying_contract": "the contract's address",
	"eth.eip_712.message":                   "the signed members by their names",
	"eth.eip_7702_authorization":            "an authorization by which an account takes on a contract's code",
	"eth.eip_7702_authorization.address":    "the contract's address",
	"eth.eip_7702_authorization.chain_id":   "0 means every chain",
	"solana.tx":                             "a Solana transaction; addresses are base58",
	"solana.tx.account_keys":                "all accounts",
	"solana.tx.program_keys":                "the programs that are called",
	"solana.tx.transfers":                   "what the System program moves",
	"solana.tx.transfers[].amount":          "in lamports: 1 SOL is 1000000000",
	"solana.tx.spl_transfers":               "tokens that are moved",
	"solana.tx.spl_transfers[].from":        "the token account, not its owner",
	"solana.tx.spl_transfers[].to":          "the token account, not its owner",
	"solana.tx.spl_transfers[].amount":      "in base units: of a token with 6 decimals 1 is 1000000",
	"solana.tx.spl_transfers[].token_mint":  "'' if the instruction does not name it",
	"solana.tx.spl_approvals":               "token accounts of which somebody else may take an amount",
	"solana.tx.authorities":                 "accounts that are handed to somebody",
	"solana.tx.address_table_lookups":       "address tables, through which unknown accounts come",
	"bitcoin.tx":                            "a Bitcoin transaction",
	"bitcoin.tx.outputs":                    "what is paid, change included",
	"bitcoin.tx.outputs[].value":            "in satoshi: 1 BTC is 100000000",
	"bitcoin.tx.outputs[].address":          "'' for a script without one",
	"bitcoin.tx.outputs[].address_type":     "P2PKH, P2SH, P2WPKH, P2WSH or P2TR",
	"bitcoin.tx.fee":                        "in satoshi: 1 BTC is 100000000",
	"tron.tx":                               "a Tron transaction",
	"tron.tx.contract":                      "what it does: one element",
	"tron.tx.contract[].type":               "such as TransferContract",
	"tron.tx.contract[].to_address":         "who receives, in TransferContract",
	"tron.tx.contract[].amount":             "in sun: 1 TRX is 1000000",
	"tron.tx.fee_limit":                     "in sun: 1 TRX is 1000000",
	"tempo.tx":                              "a Tempo transaction",
	"tempo.tx.calls":                        "the calls, 1 to 100",
	"tempo.tx.calls[].to":                   "the address that is called",
	"tempo.tx.calls[].function_signature":   "the first 4 bytes of the calldata",
}
