package core

import (
	"context"
	"encoding/base64"

	"cloister/attestation"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

// Put decides an entry with something to send, as an activity would, and answers its
// place once it is stored.
func (c *Core) Put(ctx context.Context, id org.ID, sends ...org.Send) (seq uint64, err error) {
	var n uint64
	err = c.serve.ledger.Turn(ctx, id, func(t *ledger.Turn) (err error) {
		seq = t.Tip().Count
		n, err = t.Append(&org.Entry{CreatedMs: c.now(), TimeMs: c.now(), Sends: sends}, nil)
		return err
	})
	if err == nil {
		err = c.serve.ledger.Wait(ctx, n)
	}
	return seq, err
}

// Configuration reads a configuration as the door boot does.
func (c *Core) Configuration(hash string, raw []byte) error {
	_, err := c.configuration(&attestation.Manifest{ConfigurationSHA256: hash}, base64.StdEncoding.EncodeToString(raw))
	return err
}
