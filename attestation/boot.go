package attestation

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/attestation/commitment"
)

// A BootProof is the reply of get_boot_proof. Only the document and what it covers (live key, manifest) is
// attested; the other members are claims of the host, and refused where they contradict the manifest.
type BootProof struct {
	EphemeralPublicKeyHex  string    `json:"ephemeralPublicKeyHex"`        // 130 bytes, lower-case hex
	AWSAttestationDocB64   string    `json:"awsAttestationDocB64"`         // standard base64, padded
	QOSManifestB64         string    `json:"qosManifestB64"`               // the manifest's bytes
	QOSManifestEnvelopeB64 string    `json:"qosManifestEnvelopeB64"`       // EncodeEnvelope of the manifest and the operators' approvals
	DeploymentLabel        string    `json:"deploymentLabel"`              // as in the manifest
	EnclaveApp             string    `json:"enclaveApp"`                   // as the manifest's application
	Owner                  string    `json:"owner"`                        // as in the manifest
	CreatedAt              Timestamp `json:"createdAt"`                    // unattested
	QOSManifestVersion     string    `json:"qosManifestVersion,omitempty"` // unattested
}

// Timestamp is a time as seconds since 1970 and nanoseconds, both decimal text.
type Timestamp struct {
	Seconds string `json:"seconds"`
	Nanos   string `json:"nanos"`
}

// A Policy is what a verifier trusts and expects. The zero value trusts the AWS
// root and accepts no boot proof, because it pins nothing.
//
// Measurements identify the program, not the deployment: anybody can run the same image with operators and a
// root secret of his own. So a boot proof is accepted only if the policy pins the image and Operators, or the
// manifest, which names both. Take them from those who run the deployment, never from the server that you verify.
type Policy struct {
	// SimulatorRootPEM, when not empty, is a simulator's root, trusted instead of the AWS root.
	SimulatorRootPEM string
	// ExpectedPCRs are compared by index, each 48 bytes in lower-case hex. PCR
	// 0, 1 and 2 together pin an image, but no deployment of it.
	ExpectedPCRs map[int]string
	// ExpectedApplicationDigest, when not empty, is the SHA-256 of the enclave
	// binary that the manifest must name, in lower-case hex.
	ExpectedApplicationDigest string
	// AllowedManifestSHA256, when not empty, lists the acceptable manifests, each
	// 32 bytes in lower-case hex. A manifest of our format names image and root secret, so its hash
	// pins both. Every upgrade has a manifest of its own. A drill's is accepted only if it is listed.
	AllowedManifestSHA256 []string
	// Operators, when named, must have approved the manifest by their threshold. Name the operators of the first
	// manifest, or of the predecessor. They pin the deployment across upgrades. ShareKeys are not compared.
	Operators Operators
	// AllowDebug accepts an image in debug mode, whose measurements are zero:
	// nothing then shows which code runs, and the parent instance can read its console.
	AllowDebug bool
	// AllowUnpinned accepts a boot proof although image or deployment is not pinned, with
	// Boot.Pinned false: some enclave runs, and nothing shows which program, or whose deployment.
	AllowUnpinned bool
	// ForeignManifest accepts a manifest that is not of our format. Its hash is
	// checked as always; its content is not read.
	ForeignManifest bool
	// Now is the verifier's time; zero means that ages are not checked, and must not be bounded.
	Now time.Time
	// MaxBootAge and MaxProofAge bound the age of the document and of an app
	// proof at Now; zero means no bound.
	MaxBootAge, MaxProofAge time.Duration
	// MaxCheckpointAge bounds at Now the age of a logged proof's checkpoint (LoggedEntry.Time); zero means
	// no bound. An old checkpoint proves the entries in it and hides newer ones.
	MaxCheckpointAge time.Duration
	// KnownGenerations are the newest generations of logs that the verifier has seen, by the beginning of
	// their origins: NAME/DEPLOYMENT/RANGE. A logged proof of an older generation is refused.
	KnownGenerations map[string]uint32
	// Chains, when not nil, caches certificate chains from one document to the next.
	Chains *Chains
}

// A Boot is a verified boot proof.
type Boot struct {
	// Document is the boot's attestation document.
	Document *Document
	// Manifest is nil under Policy.ForeignManifest.
	Manifest *Manifest
	// ManifestHash is the SHA-256 of the manifest's bytes.
	ManifestHash [32]byte
	// PublicKeyHex is the live key, 130 bytes in lower-case hex: encryption ‖ signing key.
	PublicKeyHex string
	// Approvals are those of the envelope, each with a valid signature. They were counted
	// for the first manifest of a real enclave, and under Policy.Operators.
	Approvals []ManifestApproval
	// Pinned reports that image and deployment were compared with the policy's. It is
	// false only under Policy.AllowUnpinned and AllowDebug. See Pins.
	Pinned bool

	policy  Policy
	root    trust
	signing *ecdsa.PublicKey
}

// VerifyBootProof verifies a boot proof under the policy: the document, exactly 32 registers with the
// commitment to live key and manifest in PCR17, no nonce, user_data = SHA-256(manifest), one live key
// throughout, image and deployment pinned, and a manifest of our format that fits image, root and the host's
// claims, with the approvals that it needs (see Policy.Operators).
func VerifyBootProof(b BootProof, p Policy) (*Boot, error) {
	raw, err := parseBase64("awsAttestationDocB64", b.AWSAttestationDocB64, MaxDocument)
	manifest, manifestErr := parseBase64("qosManifestB64", b.QOSManifestB64, MaxManifest)
	if err := cmp.Or(err, manifestErr); err != nil {
		return nil, fmt.Errorf("boot proof: %w", err)
	}
	root, err := p.root()
	if err != nil {
		return nil, err
	}
	doc, err := p.verifyDocument(raw, root)
	if err != nil {
		return nil, fmt.Errorf("boot proof: %w", err)
	}
	boot := &Boot{Document: doc, ManifestHash: Hash(manifest), PublicKeyHex: b.EphemeralPublicKeyHex, policy: p, root: root}
	for _, step := range []func() error{
		boot.checkKey,
		boot.checkHash,
		boot.checkCommitment,
		func() error { return boot.checkManifest(manifest, b) },
		boot.checkPinned,
		b.checkHearsay,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("boot proof: %w", err)
		}
	}
	return boot, nil
}

func (b *Boot) checkKey() (err error) {
	if hex.EncodeToString(b.Document.PublicKey) != b.PublicKeyHex {
		return errors.New("live key differs from the attested one")
	}
	b.signing, err = parsePair("live key", b.PublicKeyHex)
	return err
}

func (b *Boot) checkHash() error {
	if !bytes.Equal(b.Document.UserData, b.ManifestHash[:]) {
		return errors.New("user_data is not the hash of the manifest")
	}
	allowed := b.policy.AllowedManifestSHA256
	for _, h := range allowed {
		if err := checkHex("allowed manifest hash", h, 32); err != nil {
			return err
		}
	}
	if len(allowed) > 0 && !slices.Contains(allowed, hex.EncodeToString(b.ManifestHash[:])) {
		return errors.New("manifest is not an allowed one")
	}
	return nil
}

func (b *Boot) checkCommitment() error {
	if b.Document.Nonce != nil {
		return errors.New("document holds a nonce, so it was made for something else")
	}
	if len(b.Document.PCRs) != pcrCount {
		return errors.New("document does not hold exactly 32 PCRs")
	}
	if b.Document.PCRs[commitment.LivePCR] != commitment.LiveRegister(b.PublicKeyHex, b.ManifestHash) {
		return errors.New("PCR17 does not commit to live key and manifest")
	}
	return nil
}

func (b *Boot) checkManifest(raw []byte, said BootProof) error {
	if b.policy.ForeignManifest {
		if b.policy.ExpectedApplicationDigest != "" {
			return errors.New("a manifest of another format names no enclave binary to compare")
		}
		if b.policy.Operators.Named() {
			return errors.New("a manifest of another format has no approvals by operators: pin its SHA-256")
		}
		return nil
	}
	m, err := ParseManifest(raw)
	if err != nil {
		return err
	}
	b.Manifest = m
	if m.Drill && len(b.policy.AllowedManifestSHA256) == 0 {
		return errors.New("the manifest is of a drill, on a copy of the deployment that may be old: who means it pins its SHA-256")
	}
	if err := b.checkImage(); err != nil {
		return err
	}
	if said.DeploymentLabel != m.DeploymentLabel || said.EnclaveApp != m.Application || said.Owner != m.Owner {
		return errors.New("label, application or owner is not the manifest's")
	}
	envelope, err := parseBase64("qosManifestEnvelopeB64", said.QOSManifestEnvelopeB64, MaxEnvelope)
	if err != nil {
		return err
	}
	held, approvals, err := ParseEnvelope(envelope)
	if err != nil {
		return err
	}
	if !bytes.Equal(held, raw) {
		return errors.New("envelope does not hold the manifest")
	}
	if err := b.policy.checkApprovals(m, b.ManifestHash, approvals); err != nil {
		return err
	}
	b.Approvals = approvals
	return nil
}

// checkImage compares kind and measurements of the manifest with the document.
func (b *Boot) checkImage() error {
	if (b.Manifest.Kind == KindSimulator) != b.Document.Simulator {
		return errors.New("manifest kind does not fit the root of the document")
	}
	if want := b.policy.ExpectedApplicationDigest; want != "" && b.Manifest.ApplicationDigest != want {
		return errors.New("manifest names another enclave binary than the expected one")
	}
	for i, v := range b.Manifest.PCRs.list() {
		if got := b.Document.PCRs[i]; !b.Document.Debug && hex.EncodeToString(got[:]) != v {
			return fmt.Errorf("PCR%d is not the manifest's", i)
		}
	}
	return nil
}

// checkPinned requires that the policy pins an image and a deployment, unless the image is in debug mode.
func (b *Boot) checkPinned() error {
	if b.Document.Debug {
		return nil
	}
	p := b.policy
	manifest := len(p.AllowedManifestSHA256) > 0
	image := p.pinsImage() || manifest && b.Manifest != nil
	b.Pinned = image && (manifest || p.Operators.Named())
	switch {
	case b.Pinned || p.AllowUnpinned:
		return nil
	case !image:
		return errNoImage
	}
	return errNoDeployment
}

// ErrUnpinned is in the error of a boot proof that is refused because the policy pins no image or no deployment.
var ErrUnpinned = errors.New("not pinned")

// unpinned is an ErrUnpinned with words of its own.
type unpinned string

func (u unpinned) Error() string        { return string(u) }
func (u unpinned) Is(target error) bool { return target == ErrUnpinned }

const (
	errNoImage = unpinned("no measurements to compare with: pin PCR 0, 1 and 2 with the deployment's operators, or its manifest")

	errNoDeployment = unpinned("the image is the expected one, but anybody can run it, with operators and a root secret of his own: " +
		"pin the operators of the deployment, or the SHA-256 of its manifest. Whoever runs it publishes both; take them from there, not from the server")
)

func (p Policy) pinsImage() bool {
	for i := range 3 {
		if _, ok := p.ExpectedPCRs[i]; !ok {
			return false
		}
	}
	return true
}

// Pins lists in words what was compared with the policy's: registers, enclave binary,
// manifest, operators. It is empty in debug mode, where a comparison shows nothing.
func (b *Boot) Pins() []string {
	p := b.policy
	if b.Document.Debug {
		return nil
	}
	var out []string
	if len(p.ExpectedPCRs) > 0 {
		var numbers []string
		for _, i := range slices.Sorted(maps.Keys(p.ExpectedPCRs)) {
			numbers = append(numbers, strconv.Itoa(i))
		}
		out = append(out, "PCR "+strings.Join(numbers, ", "))
	}
	if p.ExpectedApplicationDigest != "" {
		out = append(out, "the enclave binary")
	}
	if len(p.AllowedManifestSHA256) > 0 {
		out = append(out, "the manifest")
	}
	if p.Operators.Named() {
		out = append(out, fmt.Sprintf("approval by at least %d of %d operators", p.Operators.Threshold, len(p.Operators.PublicKeys)))
	}
	return out
}

func (b BootProof) checkHearsay() error {
	if err := cmp.Or(
		checkDecimal("createdAt.seconds", b.CreatedAt.Seconds, maxExactInt/1000),
		checkDecimal("createdAt.nanos", b.CreatedAt.Nanos, 999_999_999),
	); err != nil {
		return err
	}
	if len(b.QOSManifestEnvelopeB64) > 2*MaxEnvelope {
		return errors.New("qosManifestEnvelopeB64 is too long")
	}
	return cmp.Or(checkText("text", b.DeploymentLabel, 0), checkText("text", b.EnclaveApp, 0), checkText("text", b.Owner, 0), checkText("text", b.QOSManifestVersion, 0))
}

// checkMeasurements refuses debug images unless the policy allows them, and compares the
// expected registers. Nitro zeroes PCR 0, 1 and 2 together; no mode zeroes only some.
func (p Policy) checkMeasurements(d *Document) error {
	var zero [pcrSize]byte
	zeros := 0
	for i := range 3 {
		v, present := d.PCRs[i]
		if !present {
			return fmt.Errorf("attestation document: PCR%d is missing", i)
		}
		if v == zero {
			zeros++
		}
	}
	if zeros > 0 && (zeros < 3 || !p.AllowDebug) {
		return fmt.Errorf("attestation document: %w", errNoDebugImages)
	}
	d.Debug = zeros == 3
	for i, text := range p.ExpectedPCRs {
		want, err := parseHex("expected PCR", text, pcrSize)
		if err != nil {
			return err
		}
		got, present := d.PCRs[i]
		if d.Debug && i < 3 {
			continue
		}
		if !present || !bytes.Equal(got[:], want) {
			return fmt.Errorf("attestation document: PCR%d is not the expected one", i)
		}
	}
	return nil
}

func (p Policy) checkAge(what string, at time.Time, max time.Duration) error {
	if p.Now.IsZero() {
		if max != 0 {
			return errors.New("policy bounds an age but names no time")
		}
		return nil
	}
	if at.After(p.Now.Add(Skew)) {
		return fmt.Errorf("%s lies in the future", what)
	}
	if max > 0 && at.Before(p.Now.Add(-max)) {
		return fmt.Errorf("%s is too old", what)
	}
	return nil
}
