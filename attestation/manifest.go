package attestation

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// Application is the only value of Manifest.Application and Release.Application.
const Application = "cloister"

// Values of Manifest.Kind.
const (
	KindNitro     = "nitro"     // an enclave under the AWS root
	KindSimulator = "simulator" // a process under a simulator's own root
)

// Values of Manifest.SeedSource: where the root secret of a deployment comes from at boot.
const (
	SeedDevelopmentFile = "development-file" // a file; simulator only
	SeedOperatorShares  = "operator-shares"  // M of N operators
	SeedCloudKMS        = "cloud-kms"        // a key service beside operators' shares
	SeedHandover        = "handover"         // the enclave that ran before
)

// Values of Freshness.Mode: what is promised about rollback.
const (
	// FreshSinceBoot is the mode without witnesses: within a boot nothing can be rolled back;
	// about the state that a boot begins with, nothing is promised. The enclave refuses a log
	// with parts missing, but cannot detect that a complete log is an older one.
	FreshSinceBoot = "since-boot"
	// FreshWitnessed is the mode with witnesses: nothing is rolled back across boots either, while
	// no more witnesses lie or lose their memory than LogTerms.Tolerates. In bounded mode the last
	// replies of a boot are excepted, those that ran ahead of the witnesses (LogTerms.BoundMs).
	FreshWitnessed = "witnessed"
)

// A Manifest is the configuration, approved by operators, that an enclave boots under. Its SHA-256
// is the user_data of the attestation document, so nothing in it can change during a boot.
type Manifest struct {
	Format            int    `json:"format"`            // 1
	Kind              string `json:"kind"`              // KindNitro or KindSimulator
	Application       string `json:"application"`       // Application
	Version           string `json:"version"`           // of the release
	ApplicationDigest string `json:"applicationDigest"` // SHA-256 of the enclave binary, hex
	DeploymentLabel   string `json:"deploymentLabel"`   // names the deployment
	Owner             string `json:"owner"`             // runs the deployment; may be empty
	Nonce             uint64 `json:"nonce"`             // rises with every manifest of the deployment
	// Predecessor is the SHA-256, in hex, of the manifest before this one, whose operators
	// approve this one. The first manifest has none and is approved by its own operators.
	Predecessor     string       `json:"predecessor,omitempty"`
	PCRs            Measurements `json:"pcrs"`            // of the image
	QuorumPublicKey string       `json:"quorumPublicKey"` // 130 bytes hex: encryption ‖ signing key
	Operators       Operators    `json:"operators"`       // approve the next manifest
	AdmissionKey    string       `json:"admissionKey"`    // compressed P-256, hex: signs requests for new organizations
	SeedSource      string       `json:"seedSource"`      // one of the Seed constants
	Freshness       Freshness    `json:"freshness"`       // what is promised about rollback
	MinKeyringEpoch uint64       `json:"minKeyringEpoch"` // older keyrings are refused
	// RotateRootSecret makes the first boot under this manifest draw a new root secret, split into
	// shares. It is in force once a later manifest names its quorum public key.
	RotateRootSecret bool `json:"rotateRootSecret,omitempty"`
	// RotateStorageKey makes the first boot under this manifest draw a new storage key, and wrap
	// every organization's data key with that while it serves. ForgetStorageKey makes it forget the
	// storage key before, which it refuses while a data key is wrapped with that. With either,
	// MinKeyringEpoch is the new epoch: one more than it was.
	RotateStorageKey bool `json:"rotateStorageKey,omitempty"`
	ForgetStorageKey bool `json:"forgetStorageKey,omitempty"`
	// AdoptLog lets the enclave begin the log of a range that has none with the store's content. It is
	// only for the first boot of a deployment that was made by a release without logs: under it a host
	// may show any earlier state as the newest.
	AdoptLog bool `json:"adoptLog,omitempty"`
	// ConfigurationSHA256 is the SHA-256, in hex, of the configuration that the
	// enclave runs under. Absent, it runs under none.
	ConfigurationSHA256 string `json:"configurationSha256,omitempty"`
	// Log names the witnesses of the deployment's logs, exactly where Freshness is FreshWitnessed.
	Log *LogTerms `json:"log,omitempty"`
	// Recover lists the ranges whose store lost batches that witnesses have seen, in their order.
	Recover []RecoveredLog `json:"recover,omitempty"`
	// SigningAfterRecovery is SigningOpen if the organizations of recovered ranges may sign at once. Absent, each waits until
	// its root quorum allows it: credentials that were revoked in the lost time are valid again.
	SigningAfterRecovery string `json:"signingAfterRecovery,omitempty"`
	// Drill marks a copy of the deployment that shows that a backup can be restored, and is thrown away. Its enclave answers
	// queries, derives accounts, and signs payloads that begin with DrillPrefix; it does nothing else, sends nothing and asks
	// no witness. No other enclave of the deployment accepts what it writes. No manifest comes after it.
	Drill bool `json:"drill,omitempty"`
}

// Measurements are the image's PCR 0, 1 and 2, each 48 bytes in hex.
type Measurements struct {
	PCR0 string `json:"0"`
	PCR1 string `json:"1"`
	PCR2 string `json:"2"`
}

// Operators are the operators of a deployment by their compressed P-256 keys in hex; Threshold of them act
// together. Threshold is 0 and PublicKeys is empty where no operators are named (simulator only).
type Operators struct {
	Threshold int `json:"threshold"`
	// RecoverThreshold is how many must approve a manifest that recovers a log, or that makes it easier to
	// approve such a manifest; see CheckApprovals. It is more than Threshold; absent: Threshold.
	RecoverThreshold int `json:"recoverThreshold,omitempty"`
	// PublicKeys verify the operators' signatures.
	PublicKeys []string `json:"publicKeys"`
	// ShareKeys, in the same order, are the keys that the shares of the root secret are encrypted
	// to: compressed P-256 keys too, none of which also signs. Absent where there are no shares.
	ShareKeys []string `json:"shareKeys,omitempty"`
}

// ParseOperators reads the operators that a caller pins in Policy.Operators, at most MaxManifest
// bytes: a manifest that names them, or {"threshold": n, "publicKeys": [hex, …]}.
func ParseOperators(raw []byte) (Operators, error) {
	if m, err := ParseManifest(raw); err == nil {
		if !m.Operators.Named() {
			return Operators{}, errors.New("operators: the manifest names none")
		}
		return m.Operators, nil
	}
	var o Operators
	err := decodeStrict(raw, MaxManifest, &o)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return Operators{}, fmt.Errorf("operators: neither a manifest nor a threshold with public keys: %w", err)
	}
	return o, nil
}

// String describes in words how many operators approve a manifest, and a recovery.
func (o Operators) String() string {
	text := fmt.Sprintf("%d of %d", o.Threshold, len(o.PublicKeys))
	if o.RecoverThreshold != 0 {
		text += fmt.Sprintf(", %d of them a recovery and who may approve one", o.RecoverThreshold)
	}
	return text
}

// Named reports whether there are any operators.
func (o Operators) Named() bool { return len(o.PublicKeys) > 0 }

// Freshness is the manifest's promise about rollback.
type Freshness struct {
	Mode string `json:"mode"` // FreshSinceBoot or FreshWitnessed
}

// ParseManifest reads a manifest of at most MaxManifest bytes. It accepts exactly
// the bytes that Encode writes, so that one manifest has one hash.
func ParseManifest(raw []byte) (*Manifest, error) {
	m, err := parseJSON[Manifest]("manifest", raw, MaxManifest)
	if err != nil {
		return nil, err
	}
	again, err := m.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(raw, again) {
		return nil, errors.New("manifest: not in canonical form")
	}
	return m, nil
}

// Encode returns the canonical bytes: JSON in the order of the struct, without
// blanks. It refuses a manifest that ParseManifest would refuse.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	out := *m
	if out.Operators.PublicKeys == nil {
		out.Operators.PublicKeys = []string{}
	}
	raw, err := encodeJSON(out)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if len(raw) > MaxManifest {
		return nil, errors.New("manifest: too long")
	}
	return raw, nil
}

// Hash is the SHA-256 of a manifest's bytes, as user_data carries it.
func Hash(manifest []byte) [32]byte { return sha256.Sum256(manifest) }

func (m *Manifest) check() error {
	switch {
	case m.Format != 1:
		return errors.New("format is not 1")
	case m.Application != Application:
		return errors.New("application is not " + Application)
	case m.RotateStorageKey && m.ForgetStorageKey || (m.RotateStorageKey || m.ForgetStorageKey) && (m.MinKeyringEpoch < 2 || m.Predecessor == ""):
		return errors.New("rotateStorageKey or forgetStorageKey: one of them, in a later manifest, with the epoch that comes of it")
	case m.Nonce > maxExactInt || m.MinKeyringEpoch > maxExactInt:
		return errors.New("nonce or minKeyringEpoch is out of range")
	}
	if err := cmp.Or(
		m.checkKind(),
		checkFreshMode(m.Freshness.Mode),
		m.checkLog(),
		m.checkRecovery(),
		m.checkDrill(),
		checkText("version", m.Version, 1),
		checkText("deploymentLabel", m.DeploymentLabel, 1),
		checkText("owner", m.Owner, 0),
		checkHex("applicationDigest", m.ApplicationDigest, 32),
		checkHex("PCR0", m.PCRs.PCR0, pcrSize),
		checkHex("PCR1", m.PCRs.PCR1, pcrSize),
		checkHex("PCR2", m.PCRs.PCR2, pcrSize),
		checkPair("quorumPublicKey", m.QuorumPublicKey),
		checkCompressed("admissionKey", m.AdmissionKey),
		checkOptionalHash("configurationSha256", m.ConfigurationSHA256),
		checkOptionalHash("predecessor", m.Predecessor),
	); err != nil {
		return err
	}
	shares := m.SeedSource == SeedOperatorShares || m.SeedSource == SeedCloudKMS // never without operators
	if shares && len(m.Operators.ShareKeys) == 0 {
		return errors.New("operators: no keys for shares, which seedSource asks for")
	}
	if m.Kind == KindSimulator && !m.Operators.Named() && m.Operators.Threshold == 0 && m.Operators.RecoverThreshold == 0 && len(m.Operators.ShareKeys) == 0 {
		return nil
	}
	return m.Operators.check()
}

// allowsSource reports whether a boot under the manifest may have got the root
// secret from this source: the manifest's own, or the enclave before it.
func (m *Manifest) allowsSource(source string) bool {
	return source == m.SeedSource || source == SeedHandover && m.Predecessor != "" && m.SeedSource != SeedDevelopmentFile
}

// checkKind checks kind and seed source. It keeps development secrets out of real enclaves.
func (m *Manifest) checkKind() error {
	if m.Kind != KindNitro && m.Kind != KindSimulator {
		return errors.New("unknown kind")
	}
	switch m.SeedSource {
	case SeedOperatorShares, SeedCloudKMS, SeedHandover:
		return nil
	case SeedDevelopmentFile:
		if m.Kind == KindSimulator {
			return nil
		}
		return errors.New("a development seed outside the simulator")
	}
	return errors.New("unknown seedSource")
}

func (o Operators) check() error {
	n := len(o.PublicKeys)
	if n > MaxOperators || o.Threshold < 1 || o.Threshold > n {
		return errors.New("operators: threshold or number is out of range")
	}
	if o.RecoverThreshold != 0 && (o.RecoverThreshold <= o.Threshold || o.RecoverThreshold > n) {
		return errors.New("operators: recoverThreshold is absent, or above threshold and at most their number")
	}
	if len(o.ShareKeys) != 0 && len(o.ShareKeys) != n {
		return errors.New("operators: not as many keys for shares as operators")
	}
	seen := make(map[string]bool, 2*n)
	for _, k := range slices.Concat(o.PublicKeys, o.ShareKeys) {
		if err := checkCompressed("operator key", k); err != nil {
			return err
		}
		if seen[k] {
			return errors.New("operators: a key appears twice")
		}
		seen[k] = true
	}
	return nil
}

func (m Measurements) list() [3]string { return [3]string{m.PCR0, m.PCR1, m.PCR2} }
