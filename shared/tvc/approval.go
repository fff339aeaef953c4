package tvc

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// An Approval is one member's signature of a manifest: ECDSA P-256 over the SHA-256 of the manifest's hash.
type Approval struct {
	Member    Member `json:"member"`
	Signature string `json:"signature"` // r ‖ s, 64 bytes, hex
}

// Approve signs a manifest's hash and returns the signature, r ‖ s.
func Approve(key *ecdsa.PrivateKey, manifest [32]byte) ([]byte, error) {
	return Sign(key, manifest[:])
}

// Sign signs the SHA-256 of a message by ECDSA and returns the signature, r ‖ s.
func Sign(key *ecdsa.PrivateKey, message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	out := make([]byte, SignatureSize)
	r.FillBytes(out[:SignatureSize/2])
	s.FillBytes(out[SignatureSize/2:])
	return out, nil
}

// CheckApproval verifies a member's signature of a manifest's hash. It accepts low and high s, as tools differ; both
// count for the same member.
func CheckApproval(pubKey string, manifest [32]byte, signature []byte) error {
	return CheckSignature(pubKey, manifest[:], signature)
}

// CheckSignature verifies a signature of Sign by the signing key of a pair.
func CheckSignature(pubKey string, message, signature []byte) error {
	pair, err := ParsePair(pubKey)
	if err != nil {
		return err
	}
	if len(signature) != SignatureSize {
		return errors.New("signature is not 64 bytes")
	}
	digest := sha256.Sum256(message)
	r, s := new(big.Int).SetBytes(signature[:SignatureSize/2]), new(big.Int).SetBytes(signature[SignatureSize/2:])
	if !ecdsa.Verify(pair.Signing, digest[:], r, s) {
		return errors.New("signature does not verify")
	}
	return nil
}

// CheckApprovals verifies approvals. It refuses them unless each is by a different member of the set and they reach its threshold.
func (s *Set) CheckApprovals(manifest [32]byte, approvals []Approval) error {
	if len(approvals) > MaxMembers {
		return errors.New("approvals: too many")
	}
	counted := map[Member]bool{}
	for _, a := range approvals {
		switch {
		case !slices.Contains(s.Members, a.Member):
			return errors.New("approvals: one is by nobody of the set")
		case counted[a.Member]:
			return errors.New("approvals: two by one member")
		}
		signature, err := unhex("signature", a.Signature)
		if err != nil {
			return err
		}
		if err := CheckApproval(a.Member.PubKey, manifest, signature); err != nil {
			return err
		}
		counted[a.Member] = true
	}
	if len(counted) < int(s.Threshold) {
		return fmt.Errorf("approvals: %d of %d members, want %d", len(counted), len(s.Members), s.Threshold)
	}
	return nil
}

// An Envelope is a manifest with its approvals.
type Envelope struct {
	Manifest             Manifest   `json:"manifest"`
	ManifestSetApprovals []Approval `json:"manifestSetApprovals"`
	ShareSetApprovals    []Approval `json:"shareSetApprovals"` // of the members whose shares the enclave has
}

// ParseEnvelope decodes an envelope and refuses any bytes but those that Encode writes. It verifies no signature.
func ParseEnvelope(raw []byte) (*Envelope, error) {
	e := new(Envelope)
	if err := parse("envelope", raw, MaxEnvelope, e, e.Encode); err != nil {
		return nil, err
	}
	return e, nil
}

// Encode returns the canonical JSON.
func (e *Envelope) Encode() ([]byte, error) {
	for _, list := range [][]Approval{e.ManifestSetApprovals, e.ShareSetApprovals} {
		if len(list) > MaxMembers {
			return nil, errors.New("envelope: too many approvals")
		}
		for _, a := range list {
			if err := a.check(); err != nil {
				return nil, fmt.Errorf("envelope: %w", err)
			}
		}
	}
	if _, err := e.Manifest.Encode(); err != nil {
		return nil, err
	}
	out := *e
	out.normalize()
	return encode(out)
}

// normalize replaces nil lists by empty ones.
func (e *Envelope) normalize() {
	e.Manifest.normalize()
	for _, list := range []*[]Approval{&e.ManifestSetApprovals, &e.ShareSetApprovals} {
		if *list == nil {
			*list = []Approval{}
		}
	}
}

// Check verifies what an enclave demands before it runs the manifest: approvals of its ManifestSet up to the threshold. It returns
// the manifest's hash.
func (e *Envelope) Check() (hash [32]byte, err error) {
	raw, err := e.Manifest.Encode()
	if err != nil {
		return hash, err
	}
	hash = Hash(raw)
	return hash, e.Manifest.ManifestSet.CheckApprovals(hash, e.ManifestSetApprovals)
}

func (a *Approval) check() error {
	return cmp.Or(checkText("alias", a.Member.Alias, 1, MaxText), checkPair("pubKey", a.Member.PubKey), checkHex("signature", a.Signature, SignatureSize))
}

// NewApproval returns the Approval of a member with a signature by Approve.
func NewApproval(m Member, signature []byte) Approval {
	return Approval{Member: m, Signature: hex.EncodeToString(signature)}
}
