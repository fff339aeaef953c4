// Package programs verifies customers' programs, which run in enclaves of their own. It shows a share holder that an enclave
// which waits for his share is the one that he approved, and anybody that a statement was made by the program that a manifest
// names. It works offline; its input may come from anybody.
package programs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"cloister/attestation"
	"cloister/attestation/commitment"
	"cloister/shared/tvc"
)

// A Policy is what a verifier trusts and expects.
type Policy struct {
	// ManifestSHA256 is the hash of the manifest that the verifier has approved, or that the app's owner publishes: it pins
	// image, program, arguments and quorum key at once.
	ManifestSHA256 [32]byte
	// SimulatorRootPEM, when not empty, is a simulator's root, trusted instead of the AWS root.
	SimulatorRootPEM string
	// AllowDebug accepts a manifest in debug mode, whose enclave keeps no secret.
	AllowDebug bool
	// Now is the verifier's time, and MaxBootAge bounds the age of a document then; zero means that ages are not checked.
	Now        time.Time
	MaxBootAge time.Duration
}

// open reads an envelope and checks it against the policy: the manifest, its own threshold of approvals, the root.
func (p Policy) open(raw []byte) (*tvc.Envelope, attestation.Policy, error) {
	none := attestation.Policy{}
	e, err := tvc.ParseEnvelope(raw)
	if err != nil {
		return nil, none, err
	}
	hash, err := e.Check()
	m := &e.Manifest
	switch {
	case err != nil:
		return nil, none, err
	case hash != p.ManifestSHA256:
		return nil, none, errors.New("another manifest than the expected one")
	case m.Pivot.DebugMode && !p.AllowDebug:
		return nil, none, errors.New("the manifest is in debug mode")
	case p.rootSHA256() != hexSum(m.Enclave.AWSRootCertificate):
		return nil, none, errors.New("the manifest names another root than the one that is believed")
	}
	return e, attestation.Policy{
		SimulatorRootPEM: p.SimulatorRootPEM, AllowDebug: p.AllowDebug, ForeignManifest: true, Now: p.Now, MaxBootAge: p.MaxBootAge,
		AllowedManifestSHA256: []string{hex.EncodeToString(hash[:])},
		ExpectedPCRs:          map[int]string{0: m.Enclave.PCR0, 1: m.Enclave.PCR1, 2: m.Enclave.PCR2, 3: m.Enclave.PCR3},
	}, nil
}

func (p Policy) rootSHA256() [32]byte {
	if p.SimulatorRootPEM == "" {
		return tvc.AWSRootSHA256
	}
	block, _ := pem.Decode([]byte(p.SimulatorRootPEM))
	if block == nil {
		return [32]byte{}
	}
	return sha256.Sum256(block.Bytes)
}

func hexSum(text string) [32]byte {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return [32]byte{}
	}
	return sha256.Sum256(raw)
}

// A Setup is a verified enclave that waits for shares.
type Setup struct {
	Manifest tvc.Manifest
	// Given are the approvals of the share holders whose shares it has received.
	Given []tvc.Approval

	// Key is the key to which shares are encrypted, and KeyHex its 130 bytes in hex. It ends with the enclave.
	Key    tvc.Pair
	KeyHex string

	hash [32]byte
}

const registers = 32

// VerifySetup verifies the attestation of an enclave that waits for shares: image and manifest are the policy's, with a threshold
// of approvals, and the registers commit to the setup key. The document has no nonce, so it may be old; the setup key of an old
// one ended with its enclave.
func VerifySetup(a tvc.Attested, p Policy) (*Setup, error) {
	e, policy, err := p.open(a.Envelope)
	if err != nil {
		return nil, fmt.Errorf("setup: %w", err)
	}
	doc, err := attestation.VerifyDocument(a.Document, policy)
	if err != nil {
		return nil, fmt.Errorf("setup: %w", err)
	}
	text := hex.EncodeToString(doc.PublicKey)
	key, err := tvc.ParsePair(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("setup: %w", err)
	case doc.Nonce != nil || !bytes.Equal(doc.UserData, p.ManifestSHA256[:]):
		return nil, errors.New("setup: the document is of another manifest, or for something else")
	case len(doc.PCRs) != registers || doc.PCRs[commitment.SetupPCR] != commitment.SetupRegister(text, p.ManifestSHA256):
		return nil, errors.New("setup: PCR16 does not commit to setup key and manifest")
	}
	return &Setup{Manifest: e.Manifest, Given: e.ShareSetApprovals, hash: p.ManifestSHA256, Key: key, KeyHex: text}, nil
}

// Share encrypts a member's share, tvc.ShareSize bytes, to the enclave. The member's key signs his approval of this manifest.
func (s *Setup) Share(rand io.Reader, member tvc.Member, signing *ecdsa.PrivateKey, share []byte) (*tvc.PostedShare, error) {
	if len(share) != tvc.ShareSize {
		return nil, errors.New("share is of another size")
	}
	box, err := tvc.Seal(rand, s.Key.Encryption, share)
	if err != nil {
		return nil, err
	}
	signature, err := tvc.Approve(signing, s.hash)
	if err != nil {
		return nil, err
	}
	return &tvc.PostedShare{Approval: tvc.NewApproval(member, signature), Box: hex.EncodeToString(box)}, nil
}

// A Boot is a verified enclave with a program that runs.
type Boot struct {
	Manifest tvc.Manifest
	*attestation.Boot
}

// VerifyBoot verifies a boot proof of a program, as the interface returns it, under the policy.
func VerifyBoot(b attestation.BootProof, p Policy) (*Boot, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(b.QOSManifestEnvelopeB64)
	if err != nil {
		return nil, errors.New("boot proof: envelope is not base64")
	}
	e, policy, err := p.open(raw)
	if err != nil {
		return nil, fmt.Errorf("boot proof: %w", err)
	}
	boot, err := attestation.VerifyBootProof(b, policy)
	if err != nil {
		return nil, err
	}
	return &Boot{Manifest: e.Manifest, Boot: boot}, nil
}

// BootProof converts the attestation of a running enclave, made at a time, into the interface's form. It verifies nothing.
func BootProof(a tvc.Attested, at time.Time) (attestation.BootProof, error) {
	e, err := tvc.ParseEnvelope(a.Envelope)
	if err != nil {
		return attestation.BootProof{}, err
	}
	manifest, err := e.Manifest.Encode()
	if err != nil {
		return attestation.BootProof{}, err
	}
	return attestation.BootProof{
		EphemeralPublicKeyHex: a.PublicKey, AWSAttestationDocB64: base64.StdEncoding.EncodeToString(a.Document),
		QOSManifestB64: base64.StdEncoding.EncodeToString(manifest), QOSManifestEnvelopeB64: base64.StdEncoding.EncodeToString(a.Envelope),
		DeploymentLabel: e.Manifest.Namespace.Name, EnclaveApp: e.Manifest.Namespace.Name, QOSManifestVersion: tvc.Version,
		CreatedAt: attestation.Timestamp{Seconds: strconv.FormatInt(at.Unix(), 10), Nanos: strconv.Itoa(at.Nanosecond())},
	}, nil
}

// VerifyProof verifies an app proof of this boot, decodes its payload into claim, and returns the payload's timestampMs. claim
// is a pointer to a struct with every member that the program's payloads have; others are refused.
func (b *Boot) VerifyProof(a attestation.AppProof, claim any) (time.Time, error) {
	if a.PublicKey != b.PublicKeyHex {
		return time.Time{}, errors.New("app proof: not signed by the live key of this boot")
	}
	if err := attestation.VerifyAppProofSignature(a); err != nil {
		return time.Time{}, err
	}
	if err := attestation.CheckJSON([]byte(a.ProofPayload), attestation.MaxPayload); err != nil {
		return time.Time{}, fmt.Errorf("app proof: %w", err)
	}
	var payload map[string]json.RawMessage
	var ms string
	if json.Unmarshal([]byte(a.ProofPayload), &payload) != nil || json.Unmarshal(payload["timestampMs"], &ms) != nil {
		return time.Time{}, errors.New("app proof: no object with timestampMs")
	}
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("app proof: timestampMs is no number")
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(a.ProofPayload)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(claim); err != nil {
		return time.Time{}, errors.New("app proof: it says something else than expected")
	}
	return time.UnixMilli(at), nil
}

// VerifyCertified verifies a message that the program's quorum key signed. The signature outlasts boots and manifests of the app.
// The holders of the key's shares can make one too.
func VerifyCertified(m *tvc.Manifest, message, signature []byte) error {
	return tvc.CheckSignature(m.Namespace.QuorumKey, message, signature)
}
