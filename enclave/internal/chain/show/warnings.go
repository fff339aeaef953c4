package show

import "fmt"

// Warning is a warning by its number; String is its name on the wire.
type Warning uint8

// The warnings.
const (
	BlindSignature Warning = 1 + iota
	UnreadPart
	Limit
	Cut
	NotFixed
	TextTurned
	TextHidden
	TextMixed
	Lookalike
	AddressNew
	AddressBurn
	LabelClash
	LabelClaim
	KeyOutside
	TokenUnknown
	ChainAny
	ChainUnknown
	FeeHigh
	ValueAlong
	Approval
	ApprovalUnlimited
	ApprovalAll
	ControlChange
	Upgrade
	DelegateCall
	Delegation
	DelegationLent
	ContractCreation
	SafeRefund
	EncodingOdd
	TrailingBytes
	Permit
	NoExpiry
	DomainOpen
	DomainFalse
	OrderGiveaway
	MessageIsTransaction
	SignInOther
	DurableNonce
	LookupAccounts
	TokenRules
	OtherParties
	WholeBalance
	ChangeFalse
	QuorumWeaker
	RulesBroad
	RulesDenyGone
	CredentialAdded
	RootCredentialAdded
	KeyLeaves
	KeyEnters
	KeyDeleted
	InterfaceChanged
	DataLeaves
	codes // one past the last
)

// Severity is how much a warning weighs.
type Severity uint8

// The severities. At Danger, approving asks for a tick per code.
const (
	Calm Severity = iota // no warning
	Info
	Warn
	Danger
)

// String is NONE, INFO, WARN or DANGER.
func (s Severity) String() string { return [...]string{"NONE", "INFO", "WARN", "DANGER"}[s] }

// table says of each warning its name, its weight and what an approver reads.
var table = [codes]struct {
	name     string
	severity Severity
	text     string
}{
	BlindSignature:       {"BLIND", Danger, "This cannot be read: approving signs blindly. Nobody can tell what is signed."},
	UnreadPart:           {"UNREAD", Warn, "A part of what is signed cannot be explained."},
	Limit:                {"LIMIT", Danger, "There is more in it than is read or shown."},
	Cut:                  {"CUT", Warn, "A long part is shown by its beginning only."},
	NotFixed:             {"NOT_FIXED", Info, "Number, fee and limits are set when it is approved."},
	TextTurned:           {"TEXT_BIDI", Danger, "A text holds characters that turn its order around."},
	TextHidden:           {"TEXT_HIDDEN", Warn, "A text holds characters that cannot be seen."},
	TextMixed:            {"TEXT_SCRIPTS", Warn, "A word is written in more than one alphabet."},
	Lookalike:            {"LOOKALIKE", Danger, "This looks like something that you know, and is another."},
	AddressNew:           {"ADDRESS_NEW", Info, "This address is neither yours nor in your address book."},
	AddressBurn:          {"ADDRESS_BURN", Warn, "What is sent there is lost."},
	LabelClash:           {"LABEL_CLASH", Warn, "Something else has this name, or one that looks the same."},
	LabelClaim:           {"LABEL_CLAIM", Warn, "This label claims what nobody has checked: it is what its maker wrote."},
	KeyOutside:           {"OWN_KEY_OUTSIDE", Warn, "This address is yours, but its key was imported or exported: others may have it."},
	TokenUnknown:         {"TOKEN_UNKNOWN", Warn, "This token is on no list: its amounts are raw numbers."},
	ChainAny:             {"CHAIN_ANY", Danger, "This is valid on every chain."},
	ChainUnknown:         {"CHAIN_UNKNOWN", Warn, "This chain is not known: its coin and its fees are raw numbers."},
	FeeHigh:              {"FEE_HIGH", Warn, "The fee may be unusually high."},
	ValueAlong:           {"VALUE_ALONG", Warn, "Coins go along to a function that is not known to take any."},
	Approval:             {"APPROVAL", Warn, "Whoever is named may take tokens up to this amount without asking again."},
	ApprovalUnlimited:    {"APPROVAL_UNLIMITED", Danger, "Whoever is named may take all tokens of this kind, now and later, without asking again."},
	ApprovalAll:          {"APPROVAL_ALL", Danger, "Whoever is named may take every token of this collection, now and later."},
	ControlChange:        {"CONTROL_CHANGE", Danger, "Who controls this changes."},
	Upgrade:              {"UPGRADE", Danger, "The code of this contract is replaced."},
	DelegateCall:         {"DELEGATECALL", Danger, "Code of somebody else runs as the account itself and can do anything with it."},
	Delegation:           {"DELEGATION", Danger, "The account obeys the code at this address from then on."},
	DelegationLent:       {"DELEGATION", Warn, "The account may be lent the code of the gas station, which several calls at once and calls that a sponsor pays need."},
	ContractCreation:     {"CONTRACT_CREATION", Warn, "A contract is created, and its code is not read."},
	SafeRefund:           {"SAFE_REFUND", Warn, "The Safe also pays whoever sends it, at a price that the sender set."},
	EncodingOdd:          {"ENCODING_ODD", Warn, "This is written in a way that no ordinary program writes it."},
	TrailingBytes:        {"TRAILING_DATA", Warn, "Bytes follow that nothing explains."},
	Permit:               {"PERMIT", Danger, "The signature alone lets whoever is named take tokens."},
	NoExpiry:             {"NO_EXPIRY", Warn, "This stays good for longer than 30 days, or for ever."},
	DomainOpen:           {"DOMAIN_OPEN", Warn, "This is bound to no chain, or to no contract."},
	DomainFalse:          {"DOMAIN_FALSE", Danger, "This has the name of a known contract, and is for another."},
	OrderGiveaway:        {"ORDER_GIVEAWAY", Danger, "Something is given, and nothing is got for it."},
	MessageIsTransaction: {"MESSAGE_IS_TRANSACTION", Danger, "This is called a message and is a transaction, or a part of one."},
	SignInOther:          {"SIGN_IN_OTHER", Warn, "This signs in under another address than the one that signs."},
	DurableNonce:         {"DURABLE_NONCE", Danger, "This can be sent at any time later, not only in the next minutes."},
	LookupAccounts:       {"LOOKUP_ACCOUNTS", Warn, "It uses accounts that only the chain knows."},
	TokenRules:           {"TOKEN_RULES", Warn, "The token may have rules of its own: fees, hooks, somebody who can always move it."},
	OtherParties:         {"OTHER_PARTIES", Info, "Others sign, pay or take part too."},
	WholeBalance:         {"WHOLE_BALANCE", Warn, "All coins of the account go to whoever is named. How many, only the chain knows: no sum here has them."},
	ChangeFalse:          {"CHANGE_FALSE", Danger, "This output is presented as your own change and pays somebody else."},
	QuorumWeaker:         {"QUORUM_WEAKER", Danger, "Fewer can decide everything."},
	RulesBroad:           {"RULES_BROAD", Danger, "This policy allows very much: everything, the use of every key, or giving oneself more rights."},
	RulesDenyGone:        {"RULES_DENY_GONE", Danger, "Something that is forbidden now will no longer be."},
	CredentialAdded:      {"CREDENTIAL_ADDED", Warn, "Somebody gets a way to act as this user."},
	RootCredentialAdded:  {"CREDENTIAL_ADDED", Danger, "Somebody gets a way to act as a member of the root quorum."},
	KeyLeaves:            {"KEY_LEAVES", Danger, "Keys leave the enclave for whoever holds the key named here."},
	KeyEnters:            {"KEY_ENTERS", Warn, "These keys were elsewhere before: others may have them."},
	KeyDeleted:           {"KEY_DELETED", Danger, "Keys are gone for good, with whatever they hold."},
	InterfaceChanged:     {"INTERFACE_CHANGED", Warn, "This changes how calls are explained to approvers and to policies."},
	DataLeaves:           {"DATA_LEAVES", Warn, "What happens in this organization is told to whoever is named here."},
}

// String is the name on the wire, such as APPROVAL_UNLIMITED.
func (c Warning) String() string {
	if c == 0 || c >= codes {
		return fmt.Sprintf("warning-%d", uint8(c))
	}
	return table[c].name
}

// Severity is the weight of the warning.
func (c Warning) Severity() Severity {
	if c >= codes {
		return Danger
	}
	return table[c].severity
}

// Text is what an approver reads.
func (c Warning) Text() string {
	if c >= codes {
		return ""
	}
	return table[c].text
}

// placed is a warning with the places that it is about.
type placed struct {
	code Warning
	at   []string
	more int // places beyond maxPlaces
}
