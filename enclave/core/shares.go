package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
	"cloister/shared/wire"
)

// More names of the deployment's objects in the store.
const (
	objectShares = "shares/" // with the start of the SHA-256 of the quorum key, and the generation, behind it
	objectLaw    = "law/"    // with the number behind it
)

// sharesOf is where the share sets of a root secret lie.
func sharesOf(quorumHex string) string {
	sum := sha256.Sum256([]byte(quorumHex))
	return objectShares + hex.EncodeToString(sum[:8]) + "/"
}

func (c *Core) putOnce(ctx context.Context, name string, b []byte) error {
	if err := c.host.PutObject(ctx, wire.PutObject{Name: name, Bytes: b, Once: true}); err != nil {
		return fmt.Errorf("storing %s: %w", name, err)
	}
	return nil
}

// genesisInShares makes a deployment whose root secret nobody holds: it is drawn,
// split among the operators and forgotten. The genesis record is stored last and
// makes the deployment; what breaks off before it left nothing that was used, and
// asks for an empty store.
func (c *Core) genesisInShares(ctx context.Context, in *genesisBody) ([]byte, error) {
	if err := c.refuseDebug(); err != nil {
		return nil, err
	}
	operators := attestation.Operators{Threshold: int(in.Operators.Threshold), PublicKeys: in.Operators.PublicKeys, ShareKeys: in.Operators.ShareKeys}
	if err := operators.CheckHolders(); err != nil {
		return nil, fault.Field("operators", "%v", err)
	}
	record, err := c.host.Object(ctx, objectGenesis)
	if err != nil {
		return nil, err
	}
	if record != nil {
		return c.genesisAgain(ctx, record, operators)
	}
	for _, prefix := range []string{objectShares, objectKeyring, objectLaw} {
		got, err := c.host.LoadObject(ctx, wire.LoadObject{Name: prefix, Newest: true})
		if err != nil {
			return nil, err
		}
		if got.Found {
			return nil, fault.Named(fault.FailedPrecondition, "GENESIS_BROKEN_OFF", "the store holds a genesis that broke off: begin with an empty one")
		}
	}
	factor, err := c.newFactor(in)
	if err != nil {
		return nil, err
	}
	if factor != nil {
		defer factor.Key.Wipe()
	}
	rand := mixed{c}
	q, err := secret.New(rand, boot.SecretSize)
	if err != nil {
		return nil, err
	}
	defer q.Wipe()
	if record, err = boot.NewGenesis(rand, q, c.now(), in.ranges()); err != nil {
		return nil, err
	}
	shares, err := c.split(ctx, q, boot.Deployment(record), 1, operators, factor)
	if err != nil {
		return nil, err
	}
	if err := c.newKeyring(ctx, rand, q, record, operators); err != nil {
		return nil, err
	}
	if err := c.putOnce(ctx, objectGenesis, record); err != nil {
		return nil, err
	}
	return genesisOf(record, shares)
}

// genesisAgain answers a genesis that was made before, so that an answer which was
// lost is told once more.
func (c *Core) genesisAgain(ctx context.Context, record []byte, operators attestation.Operators) ([]byte, error) {
	g, err := boot.ParseGenesis(record)
	if err != nil {
		return nil, err
	}
	got, err := c.host.LoadObject(ctx, wire.LoadObject{Name: sharesOf(hex.EncodeToString(g.Quorum)) + generation(1)})
	if err != nil {
		return nil, err
	}
	_, set, _, err := attestation.ParseAttestedShares(got.Bytes)
	if !got.Found || err != nil || !set.Operators.Equal(operators) {
		return nil, fault.New(fault.AlreadyExists, "the store holds a deployment of other operators")
	}
	return genesisOf(record, got.Bytes)
}

func genesisOf(record, shares []byte) ([]byte, error) {
	_, set, _, err := attestation.ParseAttestedShares(shares)
	if err != nil {
		return nil, err
	}
	deployment := boot.Deployment(record)
	return json.Marshal(map[string]any{"quorumPublicKey": set.QuorumPublicKey, "deployment": hex.EncodeToString(deployment[:]), "shares": json.RawMessage(shares)})
}

func generation(n uint64) string { return fmt.Sprintf("%010d", n) }

// split makes a share set, attests it, keeps it in the store and answers it.
func (c *Core) split(ctx context.Context, q secret.Secret, deployment [32]byte, number uint64, operators attestation.Operators, f *boot.Factor) ([]byte, error) {
	set, err := boot.NewShareSet(mixed{c}, q, deployment, number, operators, f)
	if err != nil {
		return nil, err
	}
	raw, err := set.Encode()
	if err != nil {
		return nil, err
	}
	digest := attestation.ShareSetDigest(raw)
	doc, err := c.cfg.Device.Attest(nil, digest[:], nil)
	if err != nil {
		return nil, fmt.Errorf("attesting: %w", err)
	}
	out := attestation.EncodeAttestedShares(raw, doc)
	return out, c.putOnce(ctx, sharesOf(set.QuorumPublicKey)+generation(number), out)
}

// holders are the shares that a waiting enclave takes, and those that it has.
type holders struct {
	set    *attestation.ShareSet
	digest [32]byte
	parts  map[int]boot.Part // by operator, from 1
	factor *boot.Factor      // of the key service, once it is here
}

func (h *holders) wipe() {
	for _, p := range h.parts {
		p.Y.Wipe()
	}
	clear(h.parts)
}

// have lists the operators whose shares are here, in order.
func (h *holders) have() []int {
	out := []int{}
	for i := 1; i <= len(h.set.Shares); i++ {
		if _, ok := h.parts[i]; ok {
			out = append(out, i)
		}
	}
	return out
}

func (h *holders) status() map[string]any {
	return map[string]any{"keyService": h.set.KeyService != nil, "keyServiceHere": h.factor != nil, "threshold": h.set.Operators.Threshold, "operators": len(h.set.Shares), "have": h.have(), "generation": h.set.Generation,
		"shareSetDigest": hex.EncodeToString(h.digest[:])}
}

// holdersOf loads the newest share set of the secret that a manifest names. It may
// be split among the manifest's operators or, where these change, among those of
// its predecessor. The set is the host's word until shares fit it: what it
// could do with another is keep the enclave waiting.
func (c *Core) holdersOf(ctx context.Context, g *given) (*holders, error) {
	got, err := c.host.LoadObject(ctx, wire.LoadObject{Name: sharesOf(g.manifest.QuorumPublicKey), Newest: true})
	if err != nil {
		return nil, fmt.Errorf("loading the share set: %w", err)
	}
	if !got.Found {
		return nil, fault.Named(fault.FailedPrecondition, "SHARES_MISSING", "the store holds no shares of the secret that the manifest names")
	}
	raw, set, _, err := attestation.ParseAttestedShares(got.Bytes)
	if err != nil {
		return nil, fault.Named(fault.FailedPrecondition, "SHARES_MISSING", "the share set in the store does not decode: %v", err)
	}
	record, err := c.host.Object(ctx, objectGenesis)
	if err != nil {
		return nil, fmt.Errorf("loading the genesis record: %w", err)
	}
	deployment := boot.Deployment(record)
	fits := set.Operators.Equal(g.manifest.Operators) || g.before != nil && set.Operators.Equal(g.before.Operators)
	if set.QuorumPublicKey != g.manifest.QuorumPublicKey || set.Deployment != hex.EncodeToString(deployment[:]) || !fits {
		return nil, fault.Named(fault.FailedPrecondition, "SHARES_OF_ANOTHER", "the share set in the store is of another deployment, secret or set of operators than the manifest")
	}
	if err := fitsSource(g.manifest, set); err != nil {
		return nil, fault.Named(fault.FailedPrecondition, "SHARES_OF_ANOTHER", "%v", err)
	}
	return &holders{set: set, digest: attestation.ShareSetDigest(raw), parts: map[int]boot.Part{}}, nil
}

// share takes one operator's share and goes on to recovering when it was the last
// one needed. A refusal names what is wrong and whose it is.
func (c *Core) share(ctx context.Context, body []byte) ([]byte, error) {
	in, err := attestation.ParseShareSubmission(body)
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "%v", err)
	}
	c.bootMu.Lock()
	defer c.bootMu.Unlock()
	if state(c.state.Load()) != stateSeed {
		return nil, errNotWaiting
	}
	w := c.wait
	if err := w.take(in, c); err != nil {
		return nil, err
	}
	return c.ready(ctx)
}

// take holds a submission against this enclave and keeps its share.
func (w *waiting) take(in *attestation.ShareSubmission, c *Core) error {
	h := w.holders
	if in.Operator < 1 || in.Operator > len(h.set.Shares) {
		return fault.Field("operator", "there are operators 1 to %d", len(h.set.Shares))
	}
	if in.ManifestSHA256 != hex.EncodeToString(w.id[:]) {
		return fault.Named(fault.FailedPrecondition, "SHARE_FOR_ANOTHER_MANIFEST", "operator %d: the share was given for another manifest", in.Operator)
	}
	if in.ShareSetDigest != hex.EncodeToString(h.digest[:]) {
		return fault.Named(fault.FailedPrecondition, "SHARE_OF_ANOTHER_SET", "operator %d: the share is of another share set", in.Operator)
	}
	// Before the nonce: nobody else uses up an operator's.
	if err := in.Check(h.set.Operators.PublicKeys[in.Operator-1]); err != nil {
		return fault.Named(fault.PermissionDenied, "SHARE_NOT_SIGNED", "operator %d: not signed by that operator: %v", in.Operator, err)
	}
	nonce, err := nonceOf(in.Nonce)
	if err != nil {
		return err
	}
	if !w.answered(nonce, c.cfg.Clock.Now()) {
		return fault.Named(fault.FailedPrecondition, "SHARE_STALE", "operator %d: the setup document is too old, was used, or is of another enclave", in.Operator)
	}
	box, err := hex.DecodeString(in.Box)
	if err != nil {
		return fault.Field("box", "box is not hex")
	}
	opened, err := w.key.open(in.Info(), box)
	if err != nil {
		return fault.Named(fault.InvalidArgument, "SHARE_NOT_FOR_US", "operator %d: the share was not encrypted to this enclave", in.Operator)
	}
	held := false
	opened.Use(func(b []byte) { held = h.set.Holds(in.Operator, b) })
	if !held {
		opened.Wipe()
		return fault.Named(fault.InvalidArgument, "SHARE_WRONG", "operator %d: the share is not the one that was given out", in.Operator)
	}
	h.parts[in.Operator].Y.Wipe() // if it came before
	h.parts[in.Operator] = boot.Part{X: byte(in.Operator), Y: opened}
	return nil
}

// combine brings back the root secret and forgets the shares. The set is the
// host's word, so the secret is believed for its public key alone.
func (h *holders) combine() (q secret.Secret, err error) {
	defer h.wipe()
	parts := make([]boot.Part, 0, len(h.parts))
	for _, i := range h.have() {
		parts = append(parts, h.parts[i])
	}
	combined, err := boot.Combine(parts)
	if err != nil {
		return q, err
	}
	defer combined.Wipe()
	if q, err = h.factor.Reveal(h.set, combined); err != nil {
		return q, err
	}
	public, err := boot.QuorumPublicKey(q)
	if err != nil || hex.EncodeToString(public) != h.set.QuorumPublicKey {
		q.Wipe()
		return secret.Secret{}, errors.Join(errors.New("the shares make another secret than the set says"), err)
	}
	return q, nil
}

// law opens what the deployment runs under and refuses a manifest that may not
// follow.
func (c *Core) law(ctx context.Context, ring *boot.Keyring, s *serving, g *given) (*boot.Law, error) {
	got, err := c.host.LoadObject(ctx, wire.LoadObject{Name: objectLaw, Newest: true})
	if err != nil || !got.Found {
		return nil, errors.Join(errors.New("loading the law"), err)
	}
	l, err := ring.OpenLaw(s.deployment, got.Bytes)
	if err != nil {
		c.alarms.Raise(fault.AlarmRecord)
		return nil, err
	}
	if err := l.Allows(g.manifest, g.id); err != nil {
		c.alarms.Raise(fault.AlarmRecord)
		return nil, err
	}
	return l, nil
}

// putLaw writes what the deployment runs under from now on.
func (c *Core) putLaw(ctx context.Context, ring *boot.Keyring, deployment [32]byte, l *boot.Law) error {
	sealed, err := ring.SealLaw(c.cfg.Rand, deployment, l)
	if err != nil {
		return err
	}
	return c.putOnce(ctx, objectLaw+generation(l.Number), sealed)
}
