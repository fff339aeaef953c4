package stamp

import (
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// A Body is the text of a request whose signature was verified now, of a Caller. Nothing else makes one.
type Body struct{ text []byte }

// Bytes are the text as received. They must not be changed.
func (b Body) Bytes() []byte { return b.text }

// Where tells where to answer the body.
func (b Body) Where() (Where, error) { return where(b.text) }

// A Stored is the body in an entry. Its signature was verified before the entry was made,
// and the ledger vouches for the entry.
type Stored struct{ text []byte }

// StoredBody is the body that an entry holds.
func StoredBody(entry []byte) Stored { return Stored{entry} }

// Bytes are the text as it was received. They must not be changed.
func (s Stored) Bytes() []byte { return s.text }

// A HostBody is a body that the host says was sent in a read-only session. The session's token
// was verified, but nobody signed the body: the host may have changed it. Only queries take it.
type HostBody struct{ text []byte }

// NewHostBody is the body that the host tells.
func NewHostBody(body []byte) HostBody { return HostBody{body} }

// Bytes are the text as the host tells it. They must not be changed.
func (t HostBody) Bytes() []byte { return t.text }

// Where tells where to answer the body.
func (t HostBody) Where() (Where, error) { return where(t.text) }

// An Unverified is a body whose signer's key is not known yet. It only tells where to look for
// the key.
type Unverified struct{ text []byte }

// Where tells where to look for the key.
func (u Unverified) Where() (Where, error) { return where(u.text) }

// Where is what a body says about where its signer is known.
type Where struct {
	Organization string // its organizationId
	Type         string // its type: for some, the signer's credential is in the organization above
}

// where reads a body so far. A member that is missing or no string is empty.
func where(body []byte) (w Where, err error) {
	var head struct {
		OrganizationID strictjson.Raw `json:"organizationId"`
		Type           strictjson.Raw `json:"type"`
	}
	if err := strictjson.Decode(body, &head, strictjson.AllowUnknown()); err != nil {
		return w, fault.New(fault.InvalidArgument, "bad request body")
	}
	w.Organization, _ = head.OrganizationID.Text()
	w.Type, _ = head.Type.Text()
	return w, nil
}
