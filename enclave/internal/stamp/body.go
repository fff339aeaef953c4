package stamp

import (
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// A Body is the text of a request for which somebody answers: whoever signed it, as the
// Caller that verification made says. Two bodies have nobody's signature, and are made by
// functions that say so.
type Body struct{ text []byte }

// Bytes are the text as received. They must not be changed.
func (b Body) Bytes() []byte { return b.text }

// BodyFromEntry is the body of an entry: its signature was verified before the entry was made,
// and the ledger vouches for the entry.
func BodyFromEntry(entry []byte) Body { return Body{entry} }

// BodyFromHost is a body that the host says was sent in a read-only session. The session's token
// was verified, the body nobody has signed: that this is what was asked is the host's word,
// and queries alone take it.
func BodyFromHost(body []byte) Body { return Body{body} }

// Where tells where a body is to be answered.
func (b Body) Where() (Where, error) { return where(b.text) }

// An Unverified is a body whose signer's key is not known yet. It tells where to look
// for that, and nothing else.
type Unverified struct{ text []byte }

// Where tells where to look for the key.
func (u Unverified) Where() (Where, error) { return where(u.text) }

// Where is what a body says of where its signer is known.
type Where struct {
	Organization string // its organizationId
	Type         string // its type: of some, the organization is one below that in which the signer's credential is
}

// where reads a body as far as that goes. What is not there is empty.
func where(body []byte) (w Where, err error) {
	var head struct {
		OrganizationID strictjson.Raw `json:"organizationId"`
		Type           strictjson.Raw `json:"type"`
	}
	if err := strictjson.Decode(body, &head, strictjson.AllowUnknown()); err != nil {
		return w, fault.New(fault.InvalidArgument, "bad request body")
	}
	// What is no string is none.
	w.Organization, _ = head.OrganizationID.Text()
	w.Type, _ = head.Type.Text()
	return w, nil
}
