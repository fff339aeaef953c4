package stamp

import (
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// A Body is the text of a request whose signature was verified in this call. Only a Caller returns one.
type Body struct{ text []byte }

// Bytes are the received text. They must not be changed.
func (b Body) Bytes() []byte { return b.text }

// Where tells where to answer the body.
func (b Body) Where() (Where, error) { return parseWhere(b.text) }

// A Stored is the body in an entry. Its signature was verified before the entry was made, and
// the ledger proves the entry.
type Stored struct{ text []byte }

// StoredBody makes a Stored of the body in an entry.
func StoredBody(entry []byte) Stored { return Stored{entry} }

// Bytes are the received text. They must not be changed.
func (s Stored) Bytes() []byte { return s.text }

// A HostBody is the body of a request in a read-only session. The session's token was verified, but
// the body has no signature: the host may have changed it. Only queries accept it.
type HostBody struct{ text []byte }

// NewHostBody makes a HostBody of a body that the host passed on.
func NewHostBody(body []byte) HostBody { return HostBody{body} }

// Bytes are the text from the host. They must not be changed.
func (t HostBody) Bytes() []byte { return t.text }

// Where tells where to answer the body.
func (t HostBody) Where() (Where, error) { return parseWhere(t.text) }

// An Unverified is a body whose signer's key has not been looked up yet. It has only the method
// Where, to look up the key.
type Unverified struct{ text []byte }

// Where tells where to look for the key.
func (u Unverified) Where() (Where, error) { return parseWhere(u.text) }

// Where holds the members of a body that say which organization has the signer's key.
type Where struct {
	Organization string // its organizationId
	Type         string // its type: for some, the signer's credential is in the parent organization
}

// parseWhere parses these members of a body. One that is missing or not a string is empty.
func parseWhere(body []byte) (w Where, err error) {
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
