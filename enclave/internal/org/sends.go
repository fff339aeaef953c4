package org

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Send is something that must go out once its entry is stored. The host is told
// kind and time, and what is in it when the enclave opens it.
type Send struct {
	Kind    SendKind `cbor:"1,keyasint"`
	DueMs   uint64   `cbor:"2,keyasint"`
	Content []byte   `cbor:"3,keyasint"`
	// ExpiresMs is from when on it is not opened any more.
	ExpiresMs uint64 `cbor:"4,keyasint,omitempty"`
	// Receiver is who it is for, if the host is to keep that apart from others'. It
	// stands in what the host is told, once.
	Receiver ID `cbor:"-"`
}

// A SendKind says what a send is. Kinds are never renumbered.
type SendKind uint8

// The kinds, and what their content is.
const (
	SendTransaction SendKind = 1 // a Transaction; the host opens it
	SendMail        SendKind = 2 // a Mail; the enclave delivers it, the host never sees it
	SendText        SendKind = 3 // a Text; likewise
)

// SendWebhook is an event of the entry's activity for one receiver; its content is
// an Event.
const SendWebhook SendKind = 4

// Transaction is the content of a send: a signed transaction and what it takes to
// follow it.
type Transaction struct {
	Chain  string `cbor:"1,keyasint"` // CAIP-2
	Signed []byte `cbor:"2,keyasint"`
	Name   string `cbor:"3,keyasint"` // on its network: a hash or a signature, as text
	// From and Nonce are of an account that counts its transactions; From is empty
	// where none does.
	From  []byte `cbor:"4,keyasint,omitempty"`
	Nonce uint64 `cbor:"5,keyasint,omitempty"`
}

// Encode is the transaction as the content of a send.
func (t *Transaction) Encode() ([]byte, error) { return encoding.Marshal(t) }

// DecodeTransaction reads what Encode wrote, strictly.
func DecodeTransaction(b []byte) (*Transaction, error) {
	t := new(Transaction)
	if err := decoding.Unmarshal(b, t); err != nil {
		return nil, fmt.Errorf("decoding a transaction: %w", err)
	}
	return t, nil
}

// Mail is the content of a send: a mail to one recipient. It may bring a passcode.
type Mail struct {
	To string `cbor:"1,keyasint"`
	// From, Name and ReplyTo are the sender's. An empty From is the sender that the
	// configuration names, whatever the other two say.
	From    string `cbor:"2,keyasint,omitempty"`
	Name    string `cbor:"3,keyasint,omitempty"`
	ReplyTo string `cbor:"4,keyasint,omitempty"`
	Subject string `cbor:"5,keyasint"`
	Text    string `cbor:"6,keyasint"`
	HTML    string `cbor:"7,keyasint,omitempty"`
	ID      string `cbor:"8,keyasint"` // a UUID: of the message, the same in every try
	SentMs  uint64 `cbor:"9,keyasint"` // what it says it was sent at
}

// Encode is the mail as the content of a send.
func (m *Mail) Encode() ([]byte, error) { return encoding.Marshal(m) }

// DecodeMail reads what Encode wrote, strictly.
func DecodeMail(b []byte) (*Mail, error) {
	m := new(Mail)
	if err := decoding.Unmarshal(b, m); err != nil {
		return nil, errors.New("decoding a mail: malformed") // the cause could repeat it
	}
	return m, nil
}

// Text is the content of a send: a text message. It may bring a passcode.
type Text struct {
	To   string `cbor:"1,keyasint"` // E.164
	Body string `cbor:"2,keyasint"`
	ID   string `cbor:"3,keyasint"` // the same in every try
}

// Encode is the message as the content of a send.
func (t *Text) Encode() ([]byte, error) { return encoding.Marshal(t) }

// DecodeText reads what Encode wrote, strictly.
func DecodeText(b []byte) (*Text, error) {
	t := new(Text)
	if err := decoding.Unmarshal(b, t); err != nil {
		return nil, errors.New("decoding a text message: malformed")
	}
	return t, nil
}

// A SendRef names a send: its number in the entry at seq.
type SendRef struct {
	Seq    uint64 `cbor:"1,keyasint"`
	Number uint16 `cbor:"2,keyasint,omitempty"`
}

// A SendState says how far a send has come, by the host's word.
type SendState uint8

// The states, those of package wire.
const (
	SendUnknown  SendState = 0 // the host knows of no such send
	SendWaiting  SendState = 1 // no node has taken it yet
	SendAccepted SendState = 2 // a node has it
	SendIncluded SendState = 3 // it is in a block, or its server has taken it
	SendReverted SendState = 4 // it is in a block and has failed there
	SendRefused  SendState = 5 // nodes refuse it for good: it will never be in a block
	SendExpired  SendState = 6 // its time passed before a node took it
	SendReplaced SendState = 7 // another transaction stands in its place
)

// Freed tells that the send's nonce was never used and never will be by it.
func (s SendState) Freed() bool { return s == SendRefused || s == SendExpired }

// A Sender is an account of an Ethereum chain, which counts its transactions.
type Sender struct {
	Chain   uint64
	Address [20]byte
}

// NonceUse is who has been given a nonce of an account. There may be several: a
// client may name a nonce that is taken, to replace a transaction.
type NonceUse struct {
	Sends []SendRef `cbor:"1,keyasint"`
	// MinedMs is when it was first heard that the nonce is used up on the chain, or
	// 0.
	MinedMs uint64 `cbor:"2,keyasint,omitempty"`
}

func nonceKey(s Sender) string {
	return key(collectionNonces, bigEndian(s.Chain), string(s.Address[:]))
}

// Nonce returns who has a nonce, or nil.
func (t *Tx) Nonce(s Sender, nonce uint64) (*NonceUse, error) {
	return get[NonceUse](t, nonceKey(s)+bigEndian(nonce))
}

// PutNonce stores who has a nonce.
func (t *Tx) PutNonce(s Sender, nonce uint64, u *NonceUse) error {
	return put(t, nonceKey(s)+bigEndian(nonce), u)
}

// DeleteNonce forgets who had a nonce.
func (t *Tx) DeleteNonce(s Sender, nonce uint64) { t.del(nonceKey(s) + bigEndian(nonce)) }

// EachNonce visits the nonces of an account that somebody has, from from on, lowest
// first.
func (t *Tx) EachNonce(s Sender, from uint64, visit func(nonce uint64, u *NonceUse) bool) error {
	prefix := nonceKey(s)
	return list(t, stretch{from: prefix + bigEndian(from), to: above(prefix)}, func(k string, u *NonceUse) bool {
		return visit(binary.BigEndian.Uint64([]byte(k[len(prefix):])), u)
	})
}
