package wire

import "fmt"

// A SendKind says what goes out. Kinds are never renumbered.
type SendKind uint8

// The kinds. A transaction the host opens and hands to a node; mails and text messages
// it has the enclave deliver, and never sees, but for mails that the measured
// configuration leaves to it.
const (
	SendTransaction SendKind = 1 // a signed transaction for a chain
	SendMail        SendKind = 2
	SendText        SendKind = 3
)

// SendWebhook is an event for one receiver. SendUsage is what an organization has used of its plan on a day, which the enclave
// tells the payment processor.
const (
	SendWebhook SendKind = 4
	SendUsage   SendKind = 5
)

// SendProgram is a word to the host about a customer's program: what it is to run now, or a share to bring there.
const SendProgram SendKind = 6

// A SendMark tells the host that an entry holds something that must go out, not
// before DueMs, and nothing of what it is.
type SendMark struct {
	Kind  SendKind `cbor:"1,keyasint"`
	DueMs uint64   `cbor:"2,keyasint"`
	// Receiver, if not zero, is who it is for: what is for one receiver goes out
	// apart from all others', and those of one activity in their order.
	Receiver ID `cbor:"3,keyasint,omitzero"`
	// Payer is the tenant in whose turn the send goes out: the organization of the top level, which is
	// the send's own organization or its parent. Zero: the send's own organization.
	//
	// It tells the host which organization a sub-organization is below. The host knows that anyway: the
	// request that makes one and its answer name both and pass it in clear, the two entries come in one
	// batch, and both ids begin with the same byte.
	Payer ID `cbor:"4,keyasint,omitzero"`
}

// A SendID names a send: its number in an entry. It is the same however often the
// send goes out.
type SendID struct {
	Organization ID     `cbor:"1,keyasint"`
	Seq          uint64 `cbor:"2,keyasint"`
	Number       uint16 `cbor:"3,keyasint"`
}

// AboutSend asks the enclave about a send. Of KindOpenSend it asks what the send holds.
// Of KindDeliver it asks the enclave to hand a mail or a text message to the server that
// its configuration names, over a stream that it dials; or for the mail itself, if the
// configuration says that the host sends it.
type AboutSend struct {
	Send SendID `cbor:"1,keyasint"`
}

// Opened answers an AboutSend of KindOpenSend. Found false means that there is none at this place,
// which stays so; Expired that it must not go out any more. Either comes alone.
// A webhook may be Gone too: nobody is to receive it any more.
type Opened struct {
	Found     bool     `cbor:"1,keyasint"`
	Expired   bool     `cbor:"2,keyasint,omitempty"`
	Kind      SendKind `cbor:"3,keyasint,omitempty"`
	ExpiresMs uint64   `cbor:"4,keyasint,omitempty"`
	// Of a transaction: the chain's CAIP-2 name, the signed bytes, and the name
	// that the network gives it, a hash or a signature, as text.
	Chain  string `cbor:"5,keyasint,omitempty"`
	Signed []byte `cbor:"6,keyasint,omitempty"`
	Name   string `cbor:"7,keyasint,omitempty"`
	// From and Nonce are of an account that counts its transactions; From is empty
	// where there is none.
	From  []byte `cbor:"8,keyasint,omitempty"`
	Nonce uint64 `cbor:"9,keyasint,omitempty"`

	Gone    bool     `cbor:"20,keyasint,omitempty"`
	Webhook *Webhook `cbor:"21,keyasint,omitempty"`
	Program *Program `cbor:"23,keyasint,omitempty"`

	// Moved is one more than the range of the send's organization, when this enclave
	// does not own it.
	Moved uint16 `cbor:"22,keyasint,omitempty"`
}

// A Program is what the host is to do about a deployment of a customer's program, as it stands when it is opened. Run and
// Share are documents of package shared/tvc, at most MaxProgram bytes; one of them is set.
type Program struct {
	Deployment string `cbor:"1,keyasint"`
	Run        []byte `cbor:"2,keyasint,omitempty"`
	// Auth is for the registry of the image that Run names: see Pull.
	Auth string `cbor:"3,keyasint,omitempty"`
	// Once tells that the send ends when the host has done what it says. Without it the deployment runs until Run says that it
	// stops: the send is opened again from time to time, and whenever a host begins.
	Once bool `cbor:"4,keyasint,omitempty"`
	// SetupKey names the enclave that Share is for.
	SetupKey string `cbor:"5,keyasint,omitempty"`
	Share    []byte `cbor:"6,keyasint,omitempty"`
}

// A ProgramWant says what is asked of a deployment.
type ProgramWant uint8

// What can be wanted.
const (
	WantReplicas ProgramWant = 1 // how many there are, and are well
	WantSetup    ProgramWant = 2 // what an enclave of it that waits for shares attests to
	WantOutput   ProgramWant = 3 // what its programs wrote last
)

// AboutProgram asks how a deployment stands at the host.
type AboutProgram struct {
	Deployment string      `cbor:"1,keyasint"`
	Want       ProgramWant `cbor:"2,keyasint"`
}

// ProgramStatus answers AboutProgram: the host's word, but for what a document proves.
type ProgramStatus struct {
	Known    bool     `cbor:"1,keyasint"` // whether it runs there
	Desired  uint32   `cbor:"2,keyasint,omitempty"`
	Ready    uint32   `cbor:"3,keyasint,omitempty"`
	Document []byte   `cbor:"4,keyasint,omitempty"` // an attestation document
	Output   [][]byte `cbor:"5,keyasint,omitempty"` // of each replica, MaxProgram bytes together
}

// A Webhook is one attempt to tell a receiver of an event: a POST of Body to URL
// with these headers and no others of meaning. Time and signature are of the
// moment in which it was opened, so it is opened anew for each attempt.
type Webhook struct {
	URL  string   `cbor:"1,keyasint"` // at most MaxURL bytes
	Head []Header `cbor:"2,keyasint"`
	Body []byte   `cbor:"3,keyasint"` // JSON, at most MaxWebhook bytes
}

// MailPeriodMs is how long the objects are written to in which the enclave keeps, sealed, what became of mails. Those of
// this period and the one before are read.
const MailPeriodMs = 30 * 24 * 60 * 60 * 1000

// MailObjects is what the names of a period's objects begin with. In their order, periods come in theirs.
func MailObjects(period uint64) string { return fmt.Sprintf("mail/%08d/", period) }

// MailObject is the name of one, by a hash that only the enclave can make.
func MailObject(period uint64, tag Hash) string {
	return fmt.Sprintf("%s%x", MailObjects(period), tag[:])
}

// A DeliverResult is what became of a message.
type DeliverResult uint8

// The results. DeliverTemporary may have been delivered all the same: the connection
// may have ended before the answer came.
const (
	DeliverDone      DeliverResult = 1 // the server has taken it
	DeliverTemporary DeliverResult = 2 // try again
	DeliverPermanent DeliverResult = 3 // trying again gives the same
	// DeliverByHost gives a mail to the host, which is to hand it in itself: so the
	// measured configuration wants it. What comes of it the enclave does not hear.
	DeliverByHost DeliverResult = 4
)

// A Mail is one message to one recipient, whole. Whoever holds it reads the passcode
// in it.
type Mail struct {
	From    string `cbor:"1,keyasint"` // addresses of the envelope, ASCII
	To      string `cbor:"2,keyasint"`
	Message []byte `cbor:"3,keyasint"` // as RFC 5322 has it, lines that end in CR LF; at most MaxMail bytes
}

// Delivered answers an AboutSend of KindDeliver. Found false means that there is none at this place,
// which stays so; Expired that it must not go out any more. Either comes without a
// result.
type Delivered struct {
	Found   bool          `cbor:"1,keyasint"`
	Expired bool          `cbor:"2,keyasint,omitempty"`
	Result  DeliverResult `cbor:"3,keyasint,omitempty"`
	// Code is what the server answered last, an SMTP code or an HTTP status; 0 for
	// none. Text says in the enclave's words what went wrong: nothing of the message
	// and nothing that the server said is in it.
	Code uint16 `cbor:"4,keyasint,omitempty"`
	Text string `cbor:"5,keyasint,omitempty"`
	// Mail comes with DeliverByHost and with nothing else.
	Mail *Mail `cbor:"6,keyasint,omitempty"`
	// Moved is that of Opened.
	Moved uint16 `cbor:"20,keyasint,omitempty"`
}

// A SendState says how far a send has come. States are never renumbered.
type SendState uint8

// The states. Up to SendAccepted a send is under way, behind it it has ended. A mail
// or a text message that its server has taken is SendIncluded: nothing more is known
// of it. It is never SendAccepted, SendReverted or SendReplaced.
const (
	SendUnknown  SendState = 0 // the host knows of no such send
	SendWaiting  SendState = 1 // no node has taken it yet
	SendAccepted SendState = 2 // a node has it
	SendIncluded SendState = 3 // it is in a block, or its server or receiver has taken it
	SendReverted SendState = 4 // it is in a block and has failed there
	SendRefused  SendState = 5 // nodes refuse it; of a webhook: a dead letter
	SendExpired  SendState = 6 // its time passed before a node took it; of a webhook: the enclave opens it no more
	SendReplaced SendState = 7 // another transaction stands in its place
)

// Ended tells that nothing more will happen to the send.
func (s SendState) Ended() bool { return s > SendAccepted }

// Sends asks where sends stand, MaxStates at most.
type Sends struct {
	Sends []SendID `cbor:"1,keyasint"`
}

// SendStates answers Sends in order.
type SendStates struct {
	States []SendStanding `cbor:"1,keyasint"`
}

// A SendStanding is where one send stands, by the host's word.
type SendStanding struct {
	State SendState `cbor:"1,keyasint"`
	// Text is the last thing that went wrong, at most MaxChainText bytes.
	Text string `cbor:"2,keyasint,omitempty"`
	// Revert is what a call that reverted returned, at most MaxRevert bytes of it.
	Revert []byte `cbor:"3,keyasint,omitempty"`
}

// A ChainWant is a set of things to know of a chain.
type ChainWant uint8

// What can be wanted. Nonces and Gas are of the account From, Delegation is of Account.
const (
	WantNonces    ChainWant = 1 << 0
	WantFees      ChainWant = 1 << 1
	WantGas       ChainWant = 1 << 2
	WantBlockhash ChainWant = 1 << 3
	// WantDelegation is what code an account has taken on, and how many executions that has counted for it.
	WantDelegation ChainWant = 1 << 4
)

// Chain asks how a chain stands, or with nothing wanted whether there is a node
// of it at all.
type Chain struct {
	Name string    `cbor:"1,keyasint"` // CAIP-2, such as eip155:1
	Want ChainWant `cbor:"2,keyasint,omitempty"`
	From []byte    `cbor:"3,keyasint,omitempty"` // 20 bytes
	// What a call would be that is to be estimated. To is empty for one that
	// makes a contract; Value is big-endian without leading zeros.
	To    []byte `cbor:"4,keyasint,omitempty"`
	Value []byte `cbor:"5,keyasint,omitempty"`
	Data  []byte `cbor:"6,keyasint,omitempty"`
	// Account is 20 bytes.
	Account []byte `cbor:"7,keyasint,omitempty"`
}

// A ChainVerdict says what a ChainState is worth.
type ChainVerdict uint8

// The verdicts. All but ChainKnown come without anything that was wanted.
const (
	ChainKnown   ChainVerdict = 1
	ChainNoNode  ChainVerdict = 2 // none is configured for this name
	ChainLate    ChainVerdict = 3 // the node did not answer in time
	ChainWrong   ChainVerdict = 4 // what it answered makes no sense, or it could not be asked
	ChainReverts ChainVerdict = 5 // the call to estimate would fail
)

// ChainState answers Chain. All of it is the host's word.
type ChainState struct {
	Verdict ChainVerdict `cbor:"1,keyasint"`
	// Text is what the node said, at most MaxChainText bytes.
	Text string `cbor:"2,keyasint,omitempty"`
	// Latest is how many transactions of the account are in blocks, Pending also
	// those that wait without a gap.
	Latest  uint64 `cbor:"3,keyasint,omitempty"`
	Pending uint64 `cbor:"4,keyasint,omitempty"`
	// BaseFee and Tip are prices of gas in the coin's smallest unit.
	BaseFee   uint64 `cbor:"5,keyasint,omitempty"`
	Tip       uint64 `cbor:"6,keyasint,omitempty"`
	Gas       uint64 `cbor:"7,keyasint,omitempty"`
	Blockhash Hash   `cbor:"8,keyasint"`
	// Delegate is the contract whose code the account has, 20 bytes, or empty for none.
	Delegate   []byte `cbor:"9,keyasint,omitempty"`
	Executions uint64 `cbor:"10,keyasint,omitempty"`
	// Transactions are how many of the account are in blocks.
	Transactions uint64 `cbor:"11,keyasint,omitempty"`
}

// ReadChain asks what there is on a chain: which tokens the operator names, and of
// Address, unless it is empty, how much of each it has; and of Transactions, by their names on the
// network and MaxStates at most, in which block they are.
type ReadChain struct {
	Name         string   `cbor:"1,keyasint"` // CAIP-2
	Address      string   `cbor:"2,keyasint,omitempty"`
	Transactions []string `cbor:"3,keyasint,omitempty"`
}

// ChainReading answers ReadChain. All of it is the host's word, and most of it a node's.
type ChainReading struct {
	Verdict ChainVerdict `cbor:"1,keyasint"`
	Text    string       `cbor:"2,keyasint,omitempty"` // that of ChainState
	// Coin is how much the address has of the chain's own coin, Tokens are all that the
	// operator names. Amounts are big-endian, in the smallest unit.
	Coin         []byte  `cbor:"3,keyasint,omitempty"`
	Tokens       []Token `cbor:"4,keyasint,omitempty"`
	Transactions []Mined `cbor:"5,keyasint,omitempty"` // in the order of the question
}

// A Token is an asset that the operator names.
type Token struct {
	CAIP19   string `cbor:"1,keyasint"`
	Symbol   string `cbor:"2,keyasint"`
	Name     string `cbor:"3,keyasint"`
	Decimals uint8  `cbor:"4,keyasint"`
	LogoURL  string `cbor:"5,keyasint,omitempty"`
	Stable   bool   `cbor:"6,keyasint,omitempty"`
	Balance  []byte `cbor:"7,keyasint,omitempty"`
}

// Mined is where a transaction is. Without a hash it is in no block that its node knows.
type Mined struct {
	Block  uint64 `cbor:"1,keyasint"`
	Hash   string `cbor:"2,keyasint,omitempty"` // of the block, as its network writes it
	TimeMs uint64 `cbor:"3,keyasint,omitempty"` // of the block
	Fee    []byte `cbor:"4,keyasint,omitempty"` // like an amount
	Failed bool   `cbor:"5,keyasint,omitempty"`
	Final  bool   `cbor:"6,keyasint,omitempty"` // no other block takes its place any more
}
