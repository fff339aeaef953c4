package org

import "errors"

// A MailEvent is something that became of a mail. Nothing of the mail's content is in it.
type MailEvent struct {
	ID      ID            `cbor:"1,keyasint"`
	Kind    MailEventKind `cbor:"2,keyasint"`
	Message string        `cbor:"3,keyasint"` // the mail's Message-ID, without brackets
	From    string        `cbor:"4,keyasint"`
	To      string        `cbor:"5,keyasint"`
	TimeMs  uint64        `cbor:"6,keyasint"`
	// Text is what the server answered, or why there was no answer.
	Text string `cbor:"7,keyasint,omitempty"`
	// TookMs is how long after it was decided a mail was delivered.
	TookMs uint64 `cbor:"8,keyasint,omitempty"`
	Away   bool   `cbor:"9,keyasint,omitempty"` // the server could not be asked
}

// A MailEventKind says what became of a mail. Kinds are never renumbered.
type MailEventKind uint8

// The kinds.
const (
	MailSent      MailEventKind = 1 // it is being handed in, or given to the host to do that
	MailDelivered MailEventKind = 2 // the server has taken it
	MailDelayed   MailEventKind = 3 // it is tried again
	MailBounced   MailEventKind = 4 // the server refuses it for good
)

// EncodeMailEvents makes a record of events.
func EncodeMailEvents(es []MailEvent) ([]byte, error) { return encoding.Marshal(es) }

// DecodeMailEvents reads what EncodeMailEvents wrote, strictly.
func DecodeMailEvents(b []byte) (es []MailEvent, err error) {
	if decoding.Unmarshal(b, &es) != nil {
		return nil, errors.New("decoding mail events: malformed")
	}
	return es, nil
}
