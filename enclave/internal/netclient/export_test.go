package netclient

import (
	"io"
	"net/http"
)

// ReadResponse reads an answer without a connection.
func ReadResponse(from io.Reader) (*Response, error) { return readResponse(from) }

// Header is the answer's head as net/http has it.
func (r *Response) Header() http.Header {
	h := http.Header{}
	for _, f := range r.fields {
		h.Add(f.name, f.value)
	}
	return h
}

// Written is a request as it goes out.
func Written(r Request) ([]byte, error) {
	to, err := parseURL(r.URL)
	if err != nil {
		return nil, err
	}
	return r.encode(to)
}

// ParseURL takes a URL apart.
func ParseURL(s string) (secure bool, host string, port uint16, target string, err error) {
	e, err := parseURL(s)
	return e.secure, e.host, e.port, e.target, err
}

// The rest by their own names.
var (
	Stuffed   = dotStuff
	IsMessage = isMessage
	IsAddress = isAddress
	SID       = sid
	Mozilla   = mozilla
)

// Remember changes how many providers are remembered.
func (s *Issuers[K]) Remember(most int) { s.most = most }
