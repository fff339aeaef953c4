package core

import (
	"context"
	"encoding/hex"
	"errors"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/webauthn"
	"cloister/shared/wire"
)

// signer is who stamped a request, as far as it is known. An API key has proven
// itself; a passkey waits for its public key, which is in the organization's
// records, and until then nothing may be taken from the body but where to look.
// Who reads in a session has stamped nothing: the body is what the host says it is.
type signer struct {
	caller  *stamp.Caller
	passkey *stamp.Passkey
	session *login.Session // of who only reads; none of the others then
	// attested is a stamp by nobody's key, for which a token vouches; caller is set
	// once that is verified.
	attested *stamp.Attested
	voucher  voucher
	body     []byte
	toll     *toll // paid once the credential is found
	proxy    bool  // the enclave itself has stamped, with the auth proxy's key

	checked *org.Authenticator // whose key caller was verified with
	counter uint32             // that its authenticator told, 0 if it does not count
	// above are records of parents whose rules on origins were needed; batch is what
	// a reply that knows them waits for.
	above map[org.ID]*org.Organization
	batch uint64
}

// read finds the stamp of a call and verifies it as far as it can be.
func (c *Core) read(call *wire.Call, t *toll) (*signer, error) {
	if token, ok := inSession(call); ok {
		return c.readSession(call, token, t)
	}
	head := make([]stamp.Header, len(call.Head))
	for i, h := range call.Head {
		head[i] = stamp.Header{Name: h.Name, Value: h.Value}
	}
	caller, passkey, attested, err := c.stamps.Read(head, call.Body)
	if err != nil {
		return nil, err
	}
	s := &signer{caller: caller, passkey: passkey, attested: attested, toll: t, proxy: call.Door == wire.DoorProxy}
	switch {
	case passkey != nil:
		s.body = passkey.Unverified()
	case attested != nil && call.Door != wire.DoorSubmit:
		return nil, errAttested
	case attested != nil:
		s.body = attested.Unverified()
		s.voucher, err = c.readVoucher(attested)
	default:
		s.body = caller.Body()
	}
	return s, err
}

// name is under what an organization knows the signer's credential.
func (s *signer) name() (curve, publicKey string) {
	if s.session != nil {
		return "", s.session.PublicKey
	}
	if s.passkey != nil {
		return org.PasskeyCurve, hex.EncodeToString(s.passkey.CredentialID())
	}
	if s.attested != nil {
		return "", s.attested.PublicKey()
	}
	return s.caller.Curve(), s.caller.PublicKey()
}

// needsOrigins says that a passkey can be verified only with the parent's rules.
type needsOrigins struct{ parent org.ID }

func (*needsOrigins) Error() string { return "the parent's origins are needed" }

// verify checks a passkey's stamp with the authenticator that the records name.
func (s *signer) verify(tx *org.Tx, a *org.Authenticator) error {
	if s.checked != nil && s.checked.ID == a.ID && string(s.checked.PublicKey) == string(a.PublicKey) {
		return nil // in an earlier turn of this request
	}
	o, err := tx.Organization()
	if err != nil {
		return err
	}
	var parent *org.Organization
	if !o.Parent.Zero() {
		if parent = s.above[o.Parent]; parent == nil {
			return &needsOrigins{o.Parent}
		}
	}
	counter, err := tx.Counter(a.ID)
	if err != nil {
		return err
	}
	cred := &webauthn.Credential{ID: a.CredentialID, PublicKey: a.PublicKey, RPIDHash: a.RPIDHash, Origin: a.Origin}
	caller, n, err := s.passkey.Verify(cred, counter, activity.WebAuthnOrigins(o, parent))
	if err != nil {
		return err
	}
	s.caller, s.checked, s.counter = caller, a, n
	return nil
}

// turn is the ledger's, for a request whose signer may be a passkey: what its
// verification needs of the parent is brought in between.
func (c *Core) turn(ctx context.Context, id org.ID, s *signer, f func(*ledger.Turn) error) error {
	return c.origins(ctx, s, func() error { return c.serve.ranges.Turn(ctx, id, f) })
}

// pair is turn over a sub-organization and its parent.
func (c *Core) pair(ctx context.Context, parent, id org.ID, s *signer, f func(t, above *ledger.Turn) error) error {
	return c.origins(ctx, s, func() error { return c.serve.ranges.Pair(ctx, parent, id, f) })
}

func (c *Core) origins(ctx context.Context, s *signer, turn func() error) error {
	for {
		err := turn()
		var n *needsOrigins
		if !errors.As(err, &n) || s.above[n.parent] != nil {
			return err
		}
		err = c.serve.ranges.Turn(ctx, n.parent, func(t *ledger.Turn) error {
			o, err := org.Begin(t.ID(), t.State, c.now()).Organization()
			if err != nil {
				return err
			}
			if s.above == nil {
				s.above = map[org.ID]*org.Organization{}
			}
			s.above[n.parent] = o
			s.batch = max(s.batch, t.Batch())
			return nil
		})
		if err != nil {
			return err
		}
	}
}
