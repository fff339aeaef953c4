package lifecycle

import (
	"encoding/base64"
	"time"

	"cloister/attestation"
)

// Configuration reads a configuration as the boot endpoint does.
func (e *Enclave) Configuration(hash string, raw []byte) error {
	_, err := e.configuration(&attestation.Manifest{ConfigurationSHA256: hash}, base64.StdEncoding.EncodeToString(raw))
	return err
}

// A Renewal is a boot proof that is made anew by a function of the test's.
type Renewal struct{ proofRenewer }

// NewRenewal makes one.
func NewRenewal(f func(now time.Time) ([]byte, error)) *Renewal {
	r := new(Renewal)
	r.make = f
	return r
}

// First makes the proof that a boot begins with.
func (r *Renewal) First(now time.Time) error { return r.first(now) }

// Current is the proof as it stands, and of when it is.
func (r *Renewal) Current(now time.Time) (string, time.Time) {
	p := r.current(now)
	return string(p.json), p.at
}
