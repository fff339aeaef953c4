package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"

	"cloister/enclave/internal/authproxy"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/stamp"
	"cloister/shared/wire"
)

// stamp signs a body with the proxy's key, which is opened for that alone.
func (x *Call) stamp(ctx context.Context, body []byte) (head []wire.Header, err error) {
	var private secret.Secret
	defer func() { private.Wipe() }()
	public := ""
	err = x.access.WithLock(ctx, x.config.Organization, func(t *ledger.Locked) (err error) {
		tx := t.Begin(x.proxy.now())
		if public, err = proxyKey(tx, x.config.ID); err != nil {
			return err
		}
		private, err = x.proxy.cfg.Open(t, x.config.AuthProxy)
		return err
	})
	if err != nil {
		return nil, err
	}
	return stampBy(private, public, body)
}

// proxyKey is the public half of a configuration's key. The organization may have deleted
// the user or the key.
func proxyKey(tx *org.Tx, config org.ID) (string, error) {
	p, err := tx.AuthProxy(config)
	if err != nil || p == nil {
		return "", errors.Join(err, authproxy.UnknownConfig())
	}
	u, err := tx.User(p.User)
	if err != nil {
		return "", err
	}
	if u != nil {
		for i := range u.APIKeys {
			if u.APIKeys[i].ID == p.Key {
				return u.APIKeys[i].PublicKey, nil
			}
		}
	}
	return "", fault.New(fault.PermissionDenied, "the auth proxy's user or key was deleted: disable the auth proxy and enable it again")
}

// stampBy is the header X-Stamp over body.
func stampBy(private secret.Secret, public string, body []byte) ([]wire.Header, error) {
	var signature p256.Signature
	var err error
	erase.Do(func() {
		var key *p256.Signer
		if key, _, err = p256.NewSigner(private); err == nil {
			signature, err = key.Sign(sha256.Sum256(body))
		}
	})
	if err != nil {
		return nil, errors.New("the auth proxy's key does not sign")
	}
	text := `{"publicKey":"` + public + `","scheme":"` + stamp.P256.String() + `","signature":"` + hex.EncodeToString(signature.DER()) + `"}`
	return []wire.Header{{Name: "X-Stamp", Value: base64.RawURLEncoding.EncodeToString([]byte(text))}}, nil
}

// aheadMs is how far timestamps of the enclave's own bodies may run ahead of its clock.
const aheadMs = 60_000

// timestamp is a time in milliseconds that no other body of the enclave's has, so that two
// equal requests are two activities. It may run ahead of the clock.
func (p *Proxy) timestamp() (uint64, error) {
	nowMs := p.now()
	for {
		last := p.lastMs.Load()
		at := max(nowMs, last+1)
		if at > nowMs+aheadMs {
			return 0, ledger.ErrBusy
		}
		if p.lastMs.CompareAndSwap(last, at) {
			return at, nil
		}
	}
}
