// Package tvc defines the documents and the protocol by which signer, host and the enclaves of customers' programs run
// those programs: the manifest of a program, its approvals, and the encrypted shares of its quorum key.
//
// The manifest is version 2 of the format that the hosted service's operator tools read and approve. Approvals and
// encrypted shares have that service's formats, too. Older versions are refused. Every document has exactly one
// encoding, so that it has one hash.
package tvc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of untrusted documents, in bytes unless the comment says otherwise.
const (
	MaxManifest = 64 << 10
	MaxEnvelope = 256 << 10
	MaxText     = 255
	MaxArgument = 4 << 10
	MaxArgs     = 64 // number of arguments
	MaxMembers  = 50 // number of members of a set
	MaxBridges  = 8  // number of bridges
	MaxProgram  = 256 << 20
	maxRoot     = 1024
)

// AWSRootSHA256 is the SHA-256 of the root certificate, in DER, of Nitro Enclaves' attestation.
var AWSRootSHA256 = [sha256.Size]byte{0x64, 0x1a, 0x03, 0x21, 0xa3, 0xe2, 0x44, 0xef, 0xe4, 0x56, 0x46, 0x31, 0x95, 0xd6, 0x06, 0x31,
	0x7e, 0xd7, 0xcd, 0xcc, 0x3c, 0x17, 0x56, 0xe0, 0x98, 0x93, 0xf3, 0xc6, 0x8f, 0x79, 0xbb, 0x5b}

// Version is the only version of manifests.
const Version = "v2"

// The values of Pivot.Restart: whether a program that has ended is started again.
const (
	RestartNever  = "Never"
	RestartAlways = "Always"
)

// A Manifest describes an app's enclave: the program, the app, and the operators who must approve it and who hold shares.
// Its canonical form, which is hashed, is JSON with members in the order of their names and integers as strings.
type Manifest struct {
	Enclave     Enclave   `json:"enclave"`
	ManifestSet Set       `json:"manifestSet"` // operators who approve it
	Namespace   Namespace `json:"namespace"`
	Pivot       Pivot     `json:"pivot"`
	ShareSet    Set       `json:"shareSet"` // operators who hold shares of the quorum key
	Version     string    `json:"version"`
}

// Enclave is the image in which the program runs: our base image, by its measurements.
type Enclave struct {
	AWSRootCertificate string `json:"awsRootCertificate"` // root of its attestation: DER, hex
	PCR0               string `json:"pcr0"`               // 48 bytes, hex
	PCR1               string `json:"pcr1"`
	PCR2               string `json:"pcr2"`
	PCR3               string `json:"pcr3"`      // measurement of the parent instance's IAM role; zero if it has none
	QOSCommit          string `json:"qosCommit"` // commit from which the base image was built
}

// A Set is a set of operators, of whom Threshold must act together.
type Set struct {
	Members   []Member `json:"members"`
	Threshold uint32   `json:"threshold,string"`
}

// A Member is an operator in a Set.
type Member struct {
	Alias  string `json:"alias"`
	PubKey string `json:"pubKey"` // 130 bytes, hex: encryption ‖ signing key
}

// Namespace is the manifest's app.
type Namespace struct {
	Name      string `json:"name"`
	Nonce     uint32 `json:"nonce,string"` // rises with every manifest of the app
	QuorumKey string `json:"quorumKey"`    // format of Member.PubKey
}

// Pivot is the program that the enclave runs.
type Pivot struct {
	Args         []string `json:"args"`
	BridgeConfig []Bridge `json:"bridgeConfig"` // its ports that the host can reach
	DebugMode    bool     `json:"debugMode"`    // its output may be read from outside
	Hash         string   `json:"hash"`         // SHA-256, hex
	Restart      string   `json:"restart"`      // RestartNever or RestartAlways
}

// A Bridge is a port of the program to which the host may connect. Bridges for outgoing connections don't exist.
type Bridge struct {
	Host string `json:"host"` // address on which the program listens: 0.0.0.0 or 127.0.0.1
	Port uint16 `json:"port,string"`
	Type string `json:"type"` // BridgeServer
}

// BridgeServer is the only type of a Bridge.
const BridgeServer = "server"

// ParseManifest decodes a manifest and refuses any bytes but those that Encode writes: so members that are unknown, missing,
// null, repeated or in another order.
func ParseManifest(raw []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := parse("manifest", raw, MaxManifest, m, m.Encode); err != nil {
		return nil, err
	}
	return m, nil
}

// parse decodes a document into v and refuses any bytes but those that encode then returns.
func parse(what string, raw []byte, most int, v any, encode func() ([]byte, error)) error {
	if len(raw) > most {
		return fmt.Errorf("%s: %d bytes, want at most %d", what, len(raw), most)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return fmt.Errorf("%s: not JSON of the expected form", what)
	}
	again, err := encode()
	if err != nil {
		return err
	}
	if !bytes.Equal(raw, again) {
		return fmt.Errorf("%s: not in canonical form", what)
	}
	return nil
}

// Encode returns the canonical JSON. It refuses manifests that ParseManifest would refuse.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	out := *m
	out.normalize()
	raw, err := encode(out)
	if err == nil && len(raw) > MaxManifest {
		err = errors.New("manifest: too long")
	}
	return raw, err
}

// normalize replaces nil lists by empty ones.
func (m *Manifest) normalize() {
	if m.Pivot.Args == nil {
		m.Pivot.Args = []string{}
	}
	if m.Pivot.BridgeConfig == nil {
		m.Pivot.BridgeConfig = []Bridge{}
	}
}

// encode returns the canonical JSON of v, whose strings must be printable: for those encoding/json's form is canonical.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// Hash returns the SHA-256 of a manifest's bytes, which operators approve and the enclave attests to.
func Hash(manifest []byte) [32]byte { return sha256.Sum256(manifest) }

func (m *Manifest) check() error {
	if m.Version != Version {
		return errors.New("version is not " + Version)
	}
	if err := cmp.Or(
		m.Enclave.check(),
		m.Pivot.check(),
		checkText("namespace.name", m.Namespace.Name, 1, MaxText),
		checkPair("namespace.quorumKey", m.Namespace.QuorumKey),
	); err != nil {
		return err
	}
	if err := m.ManifestSet.Check(1); err != nil {
		return fmt.Errorf("manifestSet: %w", err)
	}
	if err := m.ShareSet.Check(2); err != nil {
		return fmt.Errorf("shareSet: %w", err)
	}
	return nil
}

func (e *Enclave) check() error {
	root, err := unhex("awsRootCertificate", e.AWSRootCertificate)
	if err != nil {
		return err
	}
	if len(root) == 0 || len(root) > maxRoot {
		return errors.New("awsRootCertificate: empty or too long")
	}
	return cmp.Or(
		checkHex("pcr0", e.PCR0, 48), checkHex("pcr1", e.PCR1, 48), checkHex("pcr2", e.PCR2, 48), checkHex("pcr3", e.PCR3, 48),
		checkText("qosCommit", e.QOSCommit, 0, MaxText),
	)
}

func (p *Pivot) check() error {
	if p.Restart != RestartNever && p.Restart != RestartAlways {
		return errors.New("pivot.restart is neither " + RestartNever + " nor " + RestartAlways)
	}
	if len(p.Args) > MaxArgs || len(p.BridgeConfig) > MaxBridges {
		return fmt.Errorf("pivot: more than %d arguments or %d ports", MaxArgs, MaxBridges)
	}
	for _, arg := range p.Args {
		if err := checkText("pivot.args", arg, 0, MaxArgument); err != nil {
			return err
		}
	}
	seen := map[uint16]bool{}
	for _, b := range p.BridgeConfig {
		switch host, err := netip.ParseAddr(b.Host); {
		case b.Type != BridgeServer:
			return errors.New("pivot.bridgeConfig: only servers are bridged, no ways out")
		case err != nil || host != netip.IPv4Unspecified() && host != netip.AddrFrom4([4]byte{127, 0, 0, 1}):
			return errors.New("pivot.bridgeConfig: host is neither 0.0.0.0 nor 127.0.0.1")
		case b.Port == 0 || seen[b.Port]:
			return errors.New("pivot.bridgeConfig: port 0, or one twice")
		}
		seen[b.Port] = true
	}
	return checkHex("pivot.hash", p.Hash, sha256.Size)
}

// Check refuses a set with fewer members than its threshold, with a threshold below least, or with two members of the
// same alias or key, who may be one person.
func (s *Set) Check(least uint32) error {
	if len(s.Members) > MaxMembers || s.Threshold < least || int64(s.Threshold) > int64(len(s.Members)) {
		return errors.New("threshold or number of members is out of range")
	}
	seen := map[string]bool{}
	for _, m := range s.Members {
		if err := cmp.Or(checkText("alias", m.Alias, 1, MaxText), checkPair("pubKey", m.PubKey)); err != nil {
			return err
		}
		for _, own := range []string{"alias " + m.Alias, "encryption " + m.PubKey[:2*PointSize], "signing " + m.PubKey[2*PointSize:]} {
			if seen[own] {
				return errors.New("two members of one alias or key")
			}
			seen[own] = true
		}
	}
	return nil
}

// checkText refuses text that isn't least to most bytes of printable characters: operators must be able to read what they
// approve, without control characters or changes of direction.
func checkText(name, text string, least, most int) error {
	if len(text) < least || len(text) > most || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s: not %d to %d bytes of printable text", name, least, most)
	}
	return nil
}
