package org

import "errors"

// A MailEvent is a delivery event of a mail. It contains nothing of the mail's content.
type MailEvent struct {
	ID      ID            `cbor:"1,keyasint"`
	Kind    MailEventKind `cbor:"2,keyasint"`
	Message string        `cbor:"3,keyasint"` // the mail's Message-ID, without brackets
	From    string        `cbor:"4,keyasint"`
	To      string        `cbor:"5,keyasint"`
	TimeMs  uint64        `cbor:"6,keyasint"`
	// Text is the server's reply, or the reason why there was none.
	Text string `cbor:"7,keyasint,omitempty"`
	// TookMs is the time from the decision to the delivery.
	TookMs uint64 `cbor:"8,keyasint,omitempty"`
	Away   bool   `cbor:"9,keyasint,omitempty"` // the server could not be reached
}

// A MailEventKind is the kind of a MailEvent. Kinds are never renumbered.
type MailEventKind uint8

// The kinds of mail events.
const (
	MailSent      MailEventKind = 1 // it is being submitted, or given to the host for that
	MailDelivered MailEventKind = 2 // the server has accepted it
	MailDelayed   MailEventKind = 3 // another attempt follows
	MailBounced   MailEventKind = 4 // the server refuses it for good
)

// EncodeMailEvents encodes events.
func EncodeMailEvents(es []MailEvent) ([]byte, error) { return encoding.Marshal(es) }

// DecodeMailEvents decodes the result of EncodeMailEvents strictly.
func DecodeMailEvents(b []byte) (es []MailEvent, err error) {
	if decoding.Unmarshal(b, &es) != nil {
		return nil, errors.New("decoding mail events: malformed")
	}
	return es, nil
}
