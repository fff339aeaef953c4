package org

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A Send is a message or transaction that is sent once its entry is stored. The host gets its kind
// and time with the batch, and its content when the enclave opens it.
type Send struct {
	Kind    SendKind `cbor:"1,keyasint"`
	DueMs   uint64   `cbor:"2,keyasint"`
	Content []byte   `cbor:"3,keyasint"`
	// ExpiresMs is the time from which it is not opened any more.
	ExpiresMs uint64 `cbor:"4,keyasint,omitempty"`
	// Receiver, if not zero, is given to the host, which then queues each receiver's sends separately.
	Receiver ID `cbor:"-"`
}

// A SendKind is the kind of a send. Kinds are never renumbered.
type SendKind uint8

// The kinds of sends, and the type of their content.
const (
	SendTransaction SendKind = 1 // a Transaction; the host opens it
	SendMail        SendKind = 2 // a Mail or an ApprovalMail; the enclave delivers it, the host never sees it
	SendText        SendKind = 3 // a Text; likewise
	SendWebhook     SendKind = 4 // an Event, about the entry's activity
	SendUsage       SendKind = 5 // a UsageDay; the enclave delivers it
	SendProgram     SendKind = 6 // a Program; the host opens it
)

// Transaction is the content of a send: a signed transaction and the data needed to follow it.
type Transaction struct {
	Chain  string `cbor:"1,keyasint"` // CAIP-2
	Signed []byte `cbor:"2,keyasint"`
	Name   string `cbor:"3,keyasint"` // its id on the network: a hash or a signature, as text
	// From and Nonce are set where accounts count their transactions.
	From  []byte `cbor:"4,keyasint,omitempty"`
	Nonce uint64 `cbor:"5,keyasint,omitempty"`
	// Account and Execution are set for calls that the delegate's code carries out: the account, and the number of the call
	// among its executions.
	Account   []byte `cbor:"6,keyasint,omitempty"`
	Execution uint64 `cbor:"7,keyasint,omitempty"`
}

// Encode makes the content of a send.
func (t *Transaction) Encode() ([]byte, error) { return encoding.Marshal(t) }

// DecodeTransaction reads what Encode wrote, strictly.
func DecodeTransaction(b []byte) (*Transaction, error) {
	return unmarshal[Transaction](b, "decoding a transaction: %w")
}

// unmarshal decodes a record strictly. format is the format of its error.
func unmarshal[T any](b []byte, format string) (*T, error) {
	content := new(T)
	if err := decoding.Unmarshal(b, content); err != nil {
		return nil, fmt.Errorf(format, err)
	}
	return content, nil
}

// Mail is the content of a send: a mail to one recipient. It may bring a passcode.
type Mail struct {
	To string `cbor:"1,keyasint"`
	// From, Name and ReplyTo are the sender's. Without From it is the configuration's sender.
	From    string `cbor:"2,keyasint,omitempty"`
	Name    string `cbor:"3,keyasint,omitempty"`
	ReplyTo string `cbor:"4,keyasint,omitempty"`
	Subject string `cbor:"5,keyasint"`
	Text    string `cbor:"6,keyasint"`
	HTML    string `cbor:"7,keyasint,omitempty"`
	ID      string `cbor:"8,keyasint"` // a UUID: of the message, the same in every try
	SentMs  uint64 `cbor:"9,keyasint"` // time in its Date header
}

// Encode makes the content of a send.
func (m *Mail) Encode() ([]byte, error) { return encoding.Marshal(m) }

// DecodeMail reads what Encode wrote, strictly.
func DecodeMail(b []byte) (*Mail, error) {
	m := new(Mail)
	if decoding.Unmarshal(b, m) != nil {
		return nil, errors.New("decoding a mail: malformed") // the cause could quote the mail
	}
	return m, nil
}

// ApprovalMail is the content of a send: a mail to a user about the entry's activity, which waits for approvals. It is written
// when the send is opened, from the newest state. Its members have no number of Mail's, so neither decodes as the other.
type ApprovalMail struct {
	User ID `cbor:"11,keyasint"`
}

// Encode makes the content of a send.
func (m *ApprovalMail) Encode() ([]byte, error) { return encoding.Marshal(m) }

// DecodeApprovalMail reads what Encode wrote, strictly.
func DecodeApprovalMail(b []byte) (*ApprovalMail, error) {
	return unmarshal[ApprovalMail](b, "decoding a mail about an approval: %w")
}

// Text is the content of a send: a message to a telephone number. It may bring a passcode.
type Text struct {
	To       string `cbor:"1,keyasint"` // E.164
	Body     string `cbor:"2,keyasint"`
	ID       string `cbor:"3,keyasint"`           // the same in every try
	WhatsApp bool   `cbor:"4,keyasint,omitempty"` // by WhatsApp, not SMS
}

// Encode makes the content of a send.
func (t *Text) Encode() ([]byte, error) { return encoding.Marshal(t) }

// DecodeText reads what Encode wrote, strictly.
func DecodeText(b []byte) (*Text, error) {
	t := new(Text)
	if decoding.Unmarshal(b, t) != nil {
		return nil, errors.New("decoding a text message: malformed")
	}
	return t, nil
}

// UsageDay is the content of a send: the report of a day's signatures to the payment processor, once the day is over. Their number is
// in the bill.
type UsageDay struct {
	Day uint32 `cbor:"1,keyasint"` // as in DayUse
}

// Encode makes the content of a send.
func (u *UsageDay) Encode() ([]byte, error) { return encoding.Marshal(u) }

// DecodeUsageDay reads what Encode wrote, strictly.
func DecodeUsageDay(b []byte) (*UsageDay, error) {
	return unmarshal[UsageDay](b, "decoding a usage: %w")
}

// A SendRef identifies a send: by its entry's seq and its number in the entry.
type SendRef struct {
	Seq    uint64 `cbor:"1,keyasint"`
	Number uint16 `cbor:"2,keyasint,omitempty"`
}

// A SendState is the state of a send, as the host reports it.
type SendState uint8

// The states of sends, with the numbers of package wire.
const (
	SendUnknown  SendState = 0 // the host has no such send
	SendWaiting  SendState = 1 // no node has taken it yet
	SendAccepted SendState = 2 // a node has it
	SendIncluded SendState = 3 // it is in a block, or its server has taken it
	SendReverted SendState = 4 // it is in a block and has failed there
	SendRefused  SendState = 5 // nodes have refused it
	SendExpired  SendState = 6 // its time passed before a node took it
	SendReplaced SendState = 7 // another transaction has its nonce
)

// IsRefused reports that no node accepts the send. That proves nothing: anyone with the signed transaction may still have it
// mined, until another one has used its nonce.
func (s SendState) IsRefused() bool { return s == SendRefused || s == SendExpired }

// IsMissing reports that the host has given up the send and reports it as in no block.
func (s SendState) IsMissing() bool { return s.IsRefused() || s == SendReplaced }

// A Sender is an account of an Ethereum chain, which counts its transactions.
type Sender struct {
	Chain   uint64
	Address [20]byte
}

// NonceUse records the sends with a nonce: several, if a transaction replaces another.
type NonceUse struct {
	Sends []SendRef `cbor:"1,keyasint"`
	// MinedMs is the time of the first report that the nonce is used up on the chain, or 0.
	MinedMs uint64 `cbor:"2,keyasint,omitempty"`
	// FeeCap and Tip are the highest of all transactions that were signed with this nonce, big-endian.
	FeeCap []byte `cbor:"3,keyasint,omitempty"`
	Tip    []byte `cbor:"4,keyasint,omitempty"`
}

func nonceKey(s Sender) string {
	return key(collectionNonces, bigEndian(s.Chain), string(s.Address[:]))
}

// Nonce returns the use of a nonce, or nil.
func (t *Tx) Nonce(s Sender, nonce uint64) (*NonceUse, error) {
	return get[NonceUse](t, nonceKey(s)+bigEndian(nonce))
}

// PutNonce stores the use of a nonce.
func (t *Tx) PutNonce(s Sender, nonce uint64, u *NonceUse) error {
	return put(t, nonceKey(s)+bigEndian(nonce), u)
}

// DeleteNonce deletes the use of a nonce.
func (t *Tx) DeleteNonce(s Sender, nonce uint64) { t.del(nonceKey(s) + bigEndian(nonce)) }

// EachNonce visits the used nonces of an account, ascending, beginning at from.
func (t *Tx) EachNonce(s Sender, from uint64, visit func(nonce uint64, u *NonceUse) bool) error {
	prefix := nonceKey(s)
	return list(t, keyRange{from: prefix + bigEndian(from), to: nextPrefix(prefix)}, func(k string, u *NonceUse) bool {
		return visit(binary.BigEndian.Uint64([]byte(k[len(prefix):])), u)
	})
}

// maxRivals bounds the sends in a Rivals record.
const maxRivals = 64

// Rivals are sends that were signed with the same number of a Counter. A chain can include only one of them.
type Rivals struct {
	Sends []SendRef `cbor:"1,keyasint"`
}

func rivalsKey(c Counter, number uint64) string {
	return key(collectionRivals, string([]byte{byte(c.Of)}), bigEndian(c.Account.Chain), string(c.Account.Address[:])) + bigEndian(number)
}

// Rivals returns the sends that share a number, or nil if at most one send has it.
func (t *Tx) Rivals(c Counter, number uint64) ([]SendRef, error) {
	r, err := get[Rivals](t, rivalsKey(c, number))
	if r == nil || err != nil {
		return nil, err
	}
	return r.Sends, nil
}

// AddRival records permanently that a send has the same number as those before it. It drops the first of more than maxRivals.
func (t *Tx) AddRival(c Counter, number uint64, before []SendRef, ref SendRef) error {
	known, err := t.Rivals(c, number)
	if err != nil {
		return err
	}
	all := slices.Clone(known)
	for _, r := range append(slices.Clone(before), ref) {
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	if len(all) < 2 {
		return nil
	}
	return put(t, rivalsKey(c, number), &Rivals{all[max(0, len(all)-maxRivals):]})
}

// Program is the content of a send: an order to the host about a deployment of a customer's program. The order to run is
// computed from the newest records when the send is opened; a share is contained in the send.
type Program struct {
	App        ID     `cbor:"1,keyasint"`
	Deployment ID     `cbor:"2,keyasint"`
	Once       bool   `cbor:"3,keyasint,omitempty"` // a single change: another send keeps the deployment running
	SetupKey   string `cbor:"4,keyasint,omitempty"` // of the enclave that Share is for
	Share      []byte `cbor:"5,keyasint,omitempty"`
}

// Encode makes the content of a send.
func (p *Program) Encode() ([]byte, error) { return encoding.Marshal(p) }

// DecodeProgram reads what Encode wrote, strictly.
func DecodeProgram(b []byte) (*Program, error) {
	return unmarshal[Program](b, "decoding a program: %w")
}
