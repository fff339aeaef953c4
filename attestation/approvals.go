package attestation

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// A ManifestApproval is one operator's signature over a manifest; see ApprovalText.
type ManifestApproval struct {
	PublicKey string `json:"publicKey"` // compressed P-256 key of the operator, hex
	Signature string `json:"signature"` // r ‖ s with low s, 64 bytes hex, over SHA-256
}

// ApprovalText is the text that an operator signs to approve the manifest with this SHA-256.
func ApprovalText(manifestHash [32]byte) []byte {
	return []byte("cloister manifest approval 1\n" + hex.EncodeToString(manifestHash[:]) + "\n")
}

// ApproveManifest signs a manifest with an operator's key, which must be on P-256.
func ApproveManifest(key *ecdsa.PrivateKey, manifestHash [32]byte) (ManifestApproval, error) {
	public, signature, err := signText(key, ApprovalText(manifestHash))
	return ManifestApproval{public, signature}, err
}

// CheckApprovals refuses approvals of the manifest with this hash unless each is a valid signature by another of these
// operators, and there are enough: Threshold of them, or RecoverThreshold, where that is higher, for a manifest that
// recovers a log, or under which fewer of these operators, or others, could approve a recovery. Otherwise Threshold of
// them could approve such a manifest first, and then recover.
func (o Operators) CheckApprovals(m *Manifest, hash [32]byte, approvals []ManifestApproval) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := checkSignatures(hash, approvals); err != nil {
		return err
	}
	for _, a := range approvals {
		if !slices.Contains(o.PublicKeys, a.PublicKey) {
			return errors.New("approvals: one is by nobody of the operators")
		}
	}
	want := o.Threshold
	if len(m.Recover) > 0 || o.easier(m.Operators) {
		want = o.toRecover()
	}
	if len(approvals) < want {
		return fmt.Errorf("approvals: %d of %d operators, want %d", len(approvals), len(o.PublicKeys), want)
	}
	return nil
}

// toRecover is how many operators must approve a manifest that recovers a log.
func (o Operators) toRecover() int { return max(o.Threshold, o.RecoverThreshold) }

// easier reports whether under the next manifest's operators fewer of these, or others, could approve a recovery.
func (o Operators) easier(next Operators) bool {
	other := func(key string) bool { return !slices.Contains(o.PublicKeys, key) }
	return next.toRecover() < o.toRecover() || slices.ContainsFunc(next.PublicKeys, other)
}

// CheckOwnApprovals refuses a first manifest unless the operators that it names have approved
// it. A manifest that names none passes, and so does a later one: its predecessor's approve it.
func (m *Manifest) CheckOwnApprovals(hash [32]byte, approvals []ManifestApproval) error {
	if m.Predecessor != "" || !m.Operators.Named() {
		return nil
	}
	return m.Operators.CheckApprovals(m, hash, approvals)
}

// CheckSuccession refuses a manifest that may not follow this one, whose hash is given: it must name this one as its
// predecessor, have the same label and kind, a higher nonce and log terms that may follow (LogTerms.CheckNext), and be
// approved by this one's operators (CheckApprovals). No manifest follows a drill.
func (m *Manifest) CheckSuccession(hash [32]byte, next *Manifest, nextHash [32]byte, approvals []ManifestApproval) error {
	switch {
	case next.Predecessor != hex.EncodeToString(hash[:]):
		return errors.New("manifest names another predecessor")
	case next.Nonce <= m.Nonce:
		return errors.New("nonce is not above the predecessor's")
	case next.DeploymentLabel != m.DeploymentLabel || next.Kind != m.Kind:
		return errors.New("predecessor is of another deployment")
	}
	if m.Drill {
		return errors.New("nothing comes after a drill")
	}
	if err := m.Log.CheckNext(next.Log); err != nil && !next.Drill {
		return err
	}
	// Otherwise a later manifest, which recovers nothing, would fit the log of before the recovery as well.
	if len(next.Recover) > 0 && m.Log.Continues(next.Log) {
		return errors.New("recover: it comes with terms of its own: log.generation is one more, though the witnesses stay")
	}
	return m.Operators.CheckApprovals(next, nextHash, approvals)
}

func (p Policy) checkApprovals(m *Manifest, hash [32]byte, approvals []ManifestApproval) error {
	if err := checkSignatures(hash, approvals); err != nil {
		return err
	}
	if m.Kind == KindNitro { // proofs of simulators are older than approvals
		if err := m.CheckOwnApprovals(hash, approvals); err != nil {
			return err
		}
	}
	if p.Operators.Named() {
		return p.Operators.CheckApprovals(m, hash, approvals)
	}
	return nil
}

// checkSignatures verifies all approvals. They must be in the envelope's order, so that no operator counts twice.
func checkSignatures(hash [32]byte, approvals []ManifestApproval) error {
	if len(approvals) > MaxOperators {
		return errors.New("approvals: too many")
	}
	text := ApprovalText(hash)
	for i, a := range approvals {
		if i > 0 && approvals[i-1].PublicKey >= a.PublicKey {
			return errors.New("approvals: not in the order of their keys, or one twice")
		}
		if err := verifyText(a.PublicKey, text, a.Signature); err != nil {
			return fmt.Errorf("approvals: %w", err)
		}
	}
	return nil
}

// SortApprovals sorts approvals by public key, the order of the envelope, and drops a second one of a key.
func SortApprovals(approvals []ManifestApproval) []ManifestApproval {
	out := slices.SortedStableFunc(slices.Values(approvals), func(a, b ManifestApproval) int { return strings.Compare(a.PublicKey, b.PublicKey) })
	return slices.CompactFunc(out, func(a, b ManifestApproval) bool { return a.PublicKey == b.PublicKey })
}

// envelope is the JSON of a manifest with its approvals.
type envelope struct {
	Manifest  Manifest           `json:"manifest"`
	Approvals []ManifestApproval `json:"manifestSetApprovals"`
}

// EncodeEnvelope writes the JSON of a manifest's bytes with the operators' approvals,
// which must be in the order of their keys; see SortApprovals.
func EncodeEnvelope(manifest []byte, approvals ...ManifestApproval) []byte {
	list := []byte("[]")
	if len(approvals) > 0 {
		list, _ = encodeJSON(approvals) // two texts each: nothing can fail
	}
	return fmt.Appendf(nil, `{"manifest":%s,"manifestSetApprovals":%s}`, manifest, list)
}

// ParseEnvelope reads exactly the bytes that EncodeEnvelope writes, at most MaxEnvelope, and returns
// the manifest's bytes and the approvals. It verifies no signature.
func ParseEnvelope(raw []byte) (manifest []byte, approvals []ManifestApproval, err error) {
	var e envelope
	if err := decodeStrict(raw, MaxEnvelope, &e); err != nil {
		return nil, nil, fmt.Errorf("envelope: %w", err)
	}
	if len(e.Approvals) > MaxOperators {
		return nil, nil, errors.New("envelope: too many approvals")
	}
	if manifest, err = e.Manifest.Encode(); err != nil {
		return nil, nil, fmt.Errorf("envelope: %w", err)
	}
	for i, a := range e.Approvals {
		if i > 0 && e.Approvals[i-1].PublicKey >= a.PublicKey {
			return nil, nil, errors.New("envelope: approvals are not in order, or one twice")
		}
		if err := a.check(); err != nil {
			return nil, nil, fmt.Errorf("envelope: %w", err)
		}
	}
	if !bytes.Equal(raw, EncodeEnvelope(manifest, e.Approvals...)) {
		return nil, nil, errors.New("envelope: not in canonical form")
	}
	return manifest, e.Approvals, nil
}

func (a ManifestApproval) check() error {
	return cmp.Or(checkCompressed("approval key", a.PublicKey), checkHex("approval", a.Signature, signatureSize))
}

var halfOrder = new(big.Int).Rsh(elliptic.P256().Params().N, 1)

// signText signs a text with low s. The caller has put a domain into the text.
func signText(key *ecdsa.PrivateKey, text []byte) (public, signature string, err error) {
	if key == nil || key.Curve != elliptic.P256() {
		return "", "", errors.New("operator key is not on P-256")
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return "", "", errors.New("operator key is no key")
	}
	digest := sha256.Sum256(text)
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", "", fmt.Errorf("signing: %w", err)
	}
	if s.Cmp(halfOrder) > 0 {
		s.Sub(elliptic.P256().Params().N, s)
	}
	var sig [signatureSize]byte
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return hex.EncodeToString(compressPoint(point)), hex.EncodeToString(sig[:]), nil
}

// verifyText verifies a signature of signText. It requires low s, so that a signature has one encoding.
func verifyText(public string, text []byte, signature string) error {
	point, err := decompress("operator key", public)
	if err != nil {
		return err
	}
	sig, err := parseHex("signature", signature, signatureSize)
	if err != nil {
		return err
	}
	key, err := parsePoint(point)
	if err != nil {
		return err
	}
	if new(big.Int).SetBytes(sig[32:]).Cmp(halfOrder) > 0 || !hasSigned(key, text, sig) {
		return errors.New("a signature does not verify")
	}
	return nil
}

// compressPoint gives the 33 bytes of an uncompressed P-256 point.
func compressPoint(point []byte) []byte {
	return append([]byte{2 | point[len(point)-1]&1}, point[1:33]...)
}
