package wire

import "fmt"

// A SendKind is the kind of thing that a send delivers. Kinds are never renumbered.
type SendKind uint8

// The kinds of sends. The host opens a transaction and gives it to a node. It has the enclave
// deliver mails and text messages and never sees their content, unless the measured
// configuration says that the host sends mails.
const (
	SendTransaction SendKind = 1 // a signed transaction for a chain
	SendMail        SendKind = 2
	SendText        SendKind = 3
)

// SendWebhook is an event for one receiver. SendUsage is an organization's usage of its plan on one day, which the enclave
// reports to the payment processor.
const (
	SendWebhook SendKind = 4
	SendUsage   SendKind = 5
)

// SendProgram is an instruction to the host about a customer's program: what to run, or a share to bring to its enclave.
const SendProgram SendKind = 6

// A SendMark announces a send of an entry to the host: its kind, its time and whose it is, but
// not its content. The send must not go out before DueMs.
type SendMark struct {
	Kind  SendKind `cbor:"1,keyasint"`
	DueMs uint64   `cbor:"2,keyasint"`
	// Receiver, unless zero, identifies the receiver. Sends to one receiver are independent of those to
	// others, and those of one activity go out in order.
	Receiver ID `cbor:"3,keyasint,omitzero"`
	// Payer is the tenant by which the host shares its capacity: the top-level organization, which is the
	// send's own organization or its parent. Zero: the send's own organization.
	//
	// It discloses a sub-organization's parent to the host. The host learns that anyway: the request that
	// creates a sub-organization and its answer pass the host in clear and name both, the two entries come in
	// one batch, and both ids begin with the same byte.
	Payer ID `cbor:"4,keyasint,omitzero"`
}

// A SendID identifies a send: the entry, and the send's number in the entry. It is the same for
// each attempt.
type SendID struct {
	Organization ID     `cbor:"1,keyasint"`
	Seq          uint64 `cbor:"2,keyasint"`
	Number       uint16 `cbor:"3,keyasint"`
}

// AboutSend is the message of two questions about a send. With KindOpenSend the host asks for the send's content.
// With KindDeliver it asks the enclave to deliver a mail or a text message to the server in the enclave's
// configuration, over a stream that the enclave dials; or for the mail itself, if the
// configuration says that the host sends mails.
type AboutSend struct {
	Send SendID `cbor:"1,keyasint"`
}

// Opened answers KindOpenSend. Found is false if there is no such send and never will be; Expired means
// that it must no longer go out. No content comes with either, nor with Gone, which means
// that a webhook has no receiver any more.
type Opened struct {
	Found     bool     `cbor:"1,keyasint"`
	Expired   bool     `cbor:"2,keyasint,omitempty"`
	Kind      SendKind `cbor:"3,keyasint,omitempty"`
	ExpiresMs uint64   `cbor:"4,keyasint,omitempty"`
	// Chain, Signed and Name describe a transaction: the chain's CAIP-2 name, the signed bytes, and the
	// transaction's id on its network, a hash or a signature, as text.
	Chain  string `cbor:"5,keyasint,omitempty"`
	Signed []byte `cbor:"6,keyasint,omitempty"`
	Name   string `cbor:"7,keyasint,omitempty"`
	// From and Nonce are the sending account and its nonce, on chains where accounts have nonces; on
	// others From is empty.
	From  []byte `cbor:"8,keyasint,omitempty"`
	Nonce uint64 `cbor:"9,keyasint,omitempty"`

	Gone    bool     `cbor:"20,keyasint,omitempty"`
	Webhook *Webhook `cbor:"21,keyasint,omitempty"`
	Program *Program `cbor:"23,keyasint,omitempty"`

	// Moved is one more than the range of the send's organization if this enclave doesn't own
	// that range; otherwise 0.
	Moved uint16 `cbor:"22,keyasint,omitempty"`
}

// A Program is an instruction to the host about a deployment of a customer's program, current at the time of opening. Run and
// Share are documents of package shared/tvc, at most MaxProgram bytes; one of them is set.
type Program struct {
	Deployment string `cbor:"1,keyasint"`
	Run        []byte `cbor:"2,keyasint,omitempty"`
	// Auth are the credentials for the registry of Run's image, as in Pull.
	Auth string `cbor:"3,keyasint,omitempty"`
	// Once means that the send ends when the host has followed the instruction. Without it the deployment runs until a Run
	// stops it: hosts open the send again from time to time, and whenever they start.
	Once bool `cbor:"4,keyasint,omitempty"`
	// SetupKey identifies the enclave that Share is for.
	SetupKey string `cbor:"5,keyasint,omitempty"`
	Share    []byte `cbor:"6,keyasint,omitempty"`
}

// A ProgramWant selects what AboutProgram asks for.
type ProgramWant uint8

// What AboutProgram can ask for.
const (
	WantReplicas ProgramWant = 1 // how many replicas are desired and ready
	WantSetup    ProgramWant = 2 // the attestation document of a replica that waits for shares
	WantOutput   ProgramWant = 3 // the last output of its programs
)

// AboutProgram asks for the status of a deployment at the host.
type AboutProgram struct {
	Deployment string      `cbor:"1,keyasint"`
	Want       ProgramWant `cbor:"2,keyasint"`
}

// ProgramStatus answers AboutProgram. It is an unverified claim of the host, except for what Document attests to.
type ProgramStatus struct {
	Known    bool     `cbor:"1,keyasint"` // the host runs the deployment
	Desired  uint32   `cbor:"2,keyasint,omitempty"`
	Ready    uint32   `cbor:"3,keyasint,omitempty"`
	Document []byte   `cbor:"4,keyasint,omitempty"` // an attestation document
	Output   [][]byte `cbor:"5,keyasint,omitempty"` // of each replica, at most MaxProgram bytes in total
}

// A Webhook is one attempt to deliver an event: a POST of Body to URL with these
// headers and no other significant ones. Its timestamp and signature are made when
// the send is opened, so the host opens it anew for each attempt.
type Webhook struct {
	URL  string   `cbor:"1,keyasint"` // at most MaxURL bytes
	Head []Header `cbor:"2,keyasint"`
	Body []byte   `cbor:"3,keyasint"` // JSON, at most MaxWebhook bytes
}

// MailPeriodMs is the length of a mail period. The enclave stores, sealed, the delivery events of mails in one object for
// each period, organization and address, and reads those of the current period and the last one.
const MailPeriodMs = 30 * 24 * 60 * 60 * 1000

// MailObjects returns the prefix of the names of a period's objects. Names sort by period.
func MailObjects(period uint64) string { return fmt.Sprintf("mail/%08d/", period) }

// MailObject returns the name of one object. tag is a keyed hash of organization and address, which only the enclave can compute.
func MailObject(period uint64, tag Hash) string {
	return fmt.Sprintf("%s%x", MailObjects(period), tag[:])
}

// A DeliverResult is the result of an attempt to deliver a message.
type DeliverResult uint8

// The results of a delivery. After DeliverTemporary the message may have been delivered all the
// same: the connection may have ended before the server's reply came.
const (
	DeliverDone      DeliverResult = 1 // the server has accepted it
	DeliverTemporary DeliverResult = 2 // a retry may succeed
	DeliverPermanent DeliverResult = 3 // a retry would fail, too
	// DeliverByHost gives a mail to the host, which must submit it to a server itself, as the
	// measured configuration says. The host doesn't report the outcome to the enclave.
	DeliverByHost DeliverResult = 4
)

// A Mail is one complete message to one recipient, in plain text: its holder can read the
// passcode in it.
type Mail struct {
	From    string `cbor:"1,keyasint"` // From and To are the envelope's addresses, ASCII
	To      string `cbor:"2,keyasint"`
	Message []byte `cbor:"3,keyasint"` // an RFC 5322 message, lines end in CR LF; at most MaxMail bytes
}

// Delivered answers KindDeliver. Found is false if there is no such send and never will be; Expired means
// that it must no longer go out. Result is 0 in both cases.
type Delivered struct {
	Found   bool          `cbor:"1,keyasint"`
	Expired bool          `cbor:"2,keyasint,omitempty"`
	Result  DeliverResult `cbor:"3,keyasint,omitempty"`
	// Code is the server's last reply code, SMTP or HTTP; 0 for none. Text is the
	// enclave's own description of the error: it quotes neither the message nor the
	// server.
	Code uint16 `cbor:"4,keyasint,omitempty"`
	Text string `cbor:"5,keyasint,omitempty"`
	// Mail is set with DeliverByHost and with no other result.
	Mail *Mail `cbor:"6,keyasint,omitempty"`
	// Moved is as in Opened.
	Moved uint16 `cbor:"20,keyasint,omitempty"`
}

// A SendState is the delivery state of a send. States are never renumbered.
type SendState uint8

// The delivery states. SendUnknown to SendAccepted may change; the others are final. A mail
// or a text message is SendIncluded once its server has accepted it: the host learns nothing
// later. It is never SendAccepted, SendReverted or SendReplaced.
const (
	SendUnknown  SendState = 0 // the host has no such send
	SendWaiting  SendState = 1 // no node has accepted it yet
	SendAccepted SendState = 2 // a node has accepted it
	SendIncluded SendState = 3 // it is in a block, or its server or receiver has accepted it
	SendReverted SendState = 4 // it is in a block and has failed there
	SendRefused  SendState = 5 // nodes refuse it; of a webhook: a dead letter
	SendExpired  SendState = 6 // it expired before a node accepted it; of a webhook: the enclave no longer opens it
	SendReplaced SendState = 7 // another transaction has taken its nonce
)

// Ended reports whether the state is final.
func (s SendState) Ended() bool { return s > SendAccepted }

// Sends asks for the states of at most MaxStates sends.
type Sends struct {
	Sends []SendID `cbor:"1,keyasint"`
}

// SendStates answers Sends, in the same order.
type SendStates struct {
	Statuses []SendStatus `cbor:"1,keyasint"`
}

// A SendStatus is the state of one send, an unverified claim of the host.
type SendStatus struct {
	State SendState `cbor:"1,keyasint"`
	// Text is the last error, at most MaxChainText bytes.
	Text string `cbor:"2,keyasint,omitempty"`
	// Revert is the data that a reverted call returned, cut to MaxRevert bytes.
	Revert []byte `cbor:"3,keyasint,omitempty"`
}

// Deliveries asks for the sends for one receiver, the one with the latest time first.
type Deliveries struct {
	Receiver ID `cbor:"1,keyasint"`
	// Failed selects those that were not delivered: with a failed attempt, refused or expired.
	Failed bool           `cbor:"2,keyasint,omitempty"`
	After  *DeliveryPlace `cbor:"3,keyasint,omitempty"` // begins after this one; nil: with the first
	Limit  uint32         `cbor:"4,keyasint"`           // 1 to MaxDeliveries
}

// A DeliveryPlace is the place of a send in the order of Deliveries.
type DeliveryPlace struct {
	TimeMs uint64 `cbor:"1,keyasint"`
	Send   SendID `cbor:"2,keyasint"`
}

// DeliveryList answers Deliveries.
type DeliveryList struct {
	Deliveries []Delivery `cbor:"1,keyasint"`
}

// A Delivery is the state of a send for a receiver, an unverified claim of the host.
type Delivery struct {
	Send  SendID    `cbor:"1,keyasint"`
	State SendState `cbor:"2,keyasint"`
	Tries uint32    `cbor:"3,keyasint,omitempty"`
	// Text is the last error, at most MaxChainText bytes.
	Text string `cbor:"4,keyasint,omitempty"`
	// TimeMs is when the next attempt is due or, in a final state, when it ended.
	TimeMs uint64 `cbor:"5,keyasint,omitempty"`
}

// A ChainWant is a bit set of what Chain asks for.
type ChainWant uint8

// What Chain can ask for. WantNonces and WantGas concern the account From, WantDelegation concerns Account.
const (
	WantNonces    ChainWant = 1 << 0
	WantFees      ChainWant = 1 << 1
	WantGas       ChainWant = 1 << 2
	WantBlockhash ChainWant = 1 << 3
	// WantDelegation asks for the account's EIP-7702 delegate, and how many executions its code has counted.
	WantDelegation ChainWant = 1 << 4
	// WantExisting asks which of Accounts there are.
	WantExisting ChainWant = 1 << 5
)

// MaxChainAccounts bounds Chain.Accounts: as many as there are bits in ChainState.Existing.
const MaxChainAccounts = 64

// Chain asks for the state of a chain, or, with Want 0, whether the host has a node
// of it.
type Chain struct {
	Name string    `cbor:"1,keyasint"` // CAIP-2, such as eip155:1
	Want ChainWant `cbor:"2,keyasint,omitempty"`
	From []byte    `cbor:"3,keyasint,omitempty"` // 20 bytes
	// To, Value and Data are the call whose gas is to be estimated. To is empty for one that
	// creates a contract; Value is big-endian without leading zeros.
	To    []byte `cbor:"4,keyasint,omitempty"`
	Value []byte `cbor:"5,keyasint,omitempty"`
	Data  []byte `cbor:"6,keyasint,omitempty"`
	// Account is 20 bytes.
	Account []byte `cbor:"7,keyasint,omitempty"`
	// Accounts are those of Solana that a transaction changes, 32 bytes each: WantFees asks what others pay to change them.
	Accounts [][]byte `cbor:"8,keyasint,omitempty"`
}

// A ChainVerdict is the result of a question about a chain.
type ChainVerdict uint8

// The chain verdicts. The answer has the wanted values with ChainKnown only.
const (
	ChainKnown   ChainVerdict = 1
	ChainNoNode  ChainVerdict = 2 // no node is configured for this chain
	ChainLate    ChainVerdict = 3 // the node did not answer in time
	ChainWrong   ChainVerdict = 4 // the node's answer is malformed, or the node was not reached
	ChainReverts ChainVerdict = 5 // the call to be estimated would fail
)

// ChainState answers Chain. All of it is an unverified claim of the host.
type ChainState struct {
	Verdict ChainVerdict `cbor:"1,keyasint"`
	// Text is the node's message, at most MaxChainText bytes.
	Text string `cbor:"2,keyasint,omitempty"`
	// Latest is the account's next nonce by the newest block, Pending the one after
	// the transactions that wait in the mempool without a gap.
	Latest  uint64 `cbor:"3,keyasint,omitempty"`
	Pending uint64 `cbor:"4,keyasint,omitempty"`
	// BaseFee and Tip (the priority fee) are prices of gas in the coin's smallest unit; on Solana Tip is the price of a unit
	// of computation in millionths of that.
	BaseFee   uint64 `cbor:"5,keyasint,omitempty"`
	Tip       uint64 `cbor:"6,keyasint,omitempty"`
	Gas       uint64 `cbor:"7,keyasint,omitempty"`
	Blockhash Hash   `cbor:"8,keyasint"`
	// Delegate is the contract that the account delegates to, 20 bytes, or empty for none.
	Delegate   []byte `cbor:"9,keyasint,omitempty"`
	Executions uint64 `cbor:"10,keyasint,omitempty"`
	// Transactions is how many transactions of Account are in blocks.
	Transactions uint64 `cbor:"11,keyasint,omitempty"`
	// Existing has bit i set if there is account i of Accounts.
	Existing uint64 `cbor:"12,keyasint,omitempty"`
}

// ReadChain asks for the tokens that the operator has configured for a chain; for the balances of
// Address, unless it is empty; and for the blocks of Transactions, at most MaxStates ids as the
// network writes them.
type ReadChain struct {
	Name         string   `cbor:"1,keyasint"` // CAIP-2
	Address      string   `cbor:"2,keyasint,omitempty"`
	Transactions []string `cbor:"3,keyasint,omitempty"`
}

// ChainReading answers ReadChain. All of it is an unverified claim of the host, and most of it its node's.
type ChainReading struct {
	Verdict ChainVerdict `cbor:"1,keyasint"`
	Text    string       `cbor:"2,keyasint,omitempty"` // as in ChainState
	// Coin is the address's balance of the chain's own coin, Tokens are all tokens that the
	// operator has configured. Amounts are big-endian, in the smallest unit.
	Coin         []byte  `cbor:"3,keyasint,omitempty"`
	Tokens       []Token `cbor:"4,keyasint,omitempty"`
	Transactions []Mined `cbor:"5,keyasint,omitempty"` // in the order of ReadChain.Transactions
}

// A Token is an asset that the operator has configured, with the address's balance of it.
type Token struct {
	CAIP19   string `cbor:"1,keyasint"`
	Symbol   string `cbor:"2,keyasint"`
	Name     string `cbor:"3,keyasint"`
	Decimals uint8  `cbor:"4,keyasint"`
	LogoURL  string `cbor:"5,keyasint,omitempty"`
	Stable   bool   `cbor:"6,keyasint,omitempty"`
	Balance  []byte `cbor:"7,keyasint,omitempty"`
}

// Mined is the block of a transaction. Hash is empty if the node has it in no block.
type Mined struct {
	Block  uint64 `cbor:"1,keyasint"`
	Hash   string `cbor:"2,keyasint,omitempty"` // of the block, as its network writes it
	TimeMs uint64 `cbor:"3,keyasint,omitempty"` // of the block
	Fee    []byte `cbor:"4,keyasint,omitempty"` // amount, as ChainReading.Coin
	Failed bool   `cbor:"5,keyasint,omitempty"`
	Final  bool   `cbor:"6,keyasint,omitempty"` // the block is final: it can't be replaced
}
