package client_test

import (
	"net/http"
	"testing"
)

// BenchmarkWhoami compares a query over HTTP, plain, with its reply signed, and with
// a client that verifies it.
func BenchmarkWhoami(b *testing.B) {
	w := newWorld(b)
	for _, c := range []struct {
		name string
		via  http.RoundTripper
	}{{"plain", w.way}, {"signed", asking{w.way}}, {"verified", w.transport()}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if got, err := w.whoami(c.via); err != nil || got.status != 200 {
					b.Fatal(got, err)
				}
			}
		})
	}
}

// asking asks for signatures and does not look at them.
type asking struct{ http.RoundTripper }

func (a asking) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Cloister-Sign-Reply", "n")
	return a.RoundTripper.RoundTrip(r)
}
