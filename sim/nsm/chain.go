package nsm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

// What the levels below the root live, as on the real service, and how early a
// certificate is replaced. The leaf is dated back a little, so that a clock that
// was set back by a moment does not meet a certificate of the future.
const (
	rootLife  = 30 * 365 * 24 * time.Hour
	rootPast  = 365 * 24 * time.Hour
	leafLife  = 3 * time.Hour
	margin    = 5 * time.Minute
	backdated = time.Minute
)

var levels = []struct {
	name string
	life time.Duration
}{
	{"region", 20 * 24 * time.Hour},
	{"zone", 6 * 24 * time.Hour},
	{"instance", 24 * time.Hour},
	{"enclave", leafLife},
}

// A Root is a simulator's own certificate authority.
type Root struct {
	link
}

type link struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewRoot makes a root that is valid from a year before now to 30 years after,
// so that it covers every proof made under it.
func NewRoot(rand io.Reader, now time.Time) (*Root, error) {
	l, err := issue(rand, nil, "cloister.sim-enclaves", len(levels)-1, now.Add(-rootPast), now.Add(rootLife))
	if err != nil {
		return nil, fmt.Errorf("making a root: %w", err)
	}
	return &Root{l}, nil
}

// PEM is the root certificate, for verifiers.
func (r *Root) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.cert.Raw}))
}

// Marshal gives certificate and private key as two PEM blocks, to be kept and read back with ParseRoot.
func (r *Root) Marshal() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(r.key)
	if err != nil {
		return nil, fmt.Errorf("writing the root: %w", err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return append([]byte(r.PEM()), key...), nil
}

// ParseRoot reads what Marshal wrote.
func ParseRoot(raw []byte) (*Root, error) {
	r, err := parseRoot(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the root: %w", err)
	}
	return r, nil
}

func parseRoot(raw []byte) (*Root, error) {
	if len(raw) > 1<<14 {
		return nil, errors.New("too long")
	}
	certBlock, rest := pem.Decode(raw)
	keyBlock, rest := pem.Decode(rest)
	if certBlock == nil || keyBlock == nil || len(rest) != 0 ||
		certBlock.Type != "CERTIFICATE" || keyBlock.Type != "PRIVATE KEY" {
		return nil, errors.New("not a certificate and a private key")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, errors.New("malformed certificate")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, errors.New("malformed private key")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P384() || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("certificate and key do not belong together")
	}
	if !cert.IsCA || cert.CheckSignatureFrom(cert) != nil {
		return nil, errors.New("certificate is no root")
	}
	return &Root{link{cert, key}}, nil
}

// renew makes the first level that does not last, and all below it, anew. At the
// first call that is the whole chain.
func (d *Device) renew(now time.Time) error {
	if now.Before(d.root.cert.NotBefore) || now.Add(leafLife).After(d.root.cert.NotAfter) {
		return errors.New("the clock is outside the root's validity")
	}
	keep := 0
	for keep < len(d.chain) && d.lasts(keep, now) {
		keep++
	}
	chain := append([]link(nil), d.chain[:keep]...)
	for i := keep; i < len(levels); i++ {
		parent := &d.root.link
		if i > 0 {
			parent = &chain[i-1]
		}
		name := levels[i].name + ".sim-enclaves"
		if i == len(levels)-1 {
			name = d.moduleID
		}
		// None may outlive its issuer: verifiers check all at one time.
		end := now.Add(levels[i].life)
		if end.After(parent.cert.NotAfter) {
			end = parent.cert.NotAfter
		}
		l, err := issue(d.rand, parent, name, len(levels)-2-i, now.Add(-backdated), end)
		if err != nil {
			return err
		}
		chain = append(chain, l)
	}
	d.chain = chain
	return nil
}

// lasts says whether a level is valid now and long enough: an authority for the
// whole life of a leaf that may be made under it, the leaf for a margin.
func (d *Device) lasts(level int, now time.Time) bool {
	need := leafLife
	if level == len(levels)-1 {
		need = margin
	}
	c := d.chain[level].cert
	return !now.Before(c.NotBefore) && now.Add(need).Before(c.NotAfter)
}

// issue makes a key and a certificate for it. below is how many authorities may
// follow; -1 makes a leaf. Without a parent the certificate signs itself.
func issue(rand io.Reader, parent *link, name string, below int, from, to time.Time) (link, error) {
	key, err := newKey(rand)
	if err != nil {
		return link{}, err
	}
	serial := make([]byte, 16)
	if _, err := io.ReadFull(rand, serial); err != nil {
		return link{}, fmt.Errorf("reading randomness: %w", err)
	}
	serial[0] = serial[0]&0x7f | 0x40 // positive and of full length
	t := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial),
		NotBefore:    from, NotAfter: to, BasicConstraintsValid: true,
		Subject: pkix.Name{
			CommonName: short(name), Organization: []string{"Cloister Simulator"}, OrganizationalUnit: []string{"NOT AWS"},
		},
		SignatureAlgorithm: x509.ECDSAWithSHA384,
		KeyUsage:           x509.KeyUsageDigitalSignature,
	}
	if below >= 0 {
		t.IsCA, t.MaxPathLen, t.MaxPathLenZero = true, below, below == 0
		t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	}
	if parent == nil {
		parent = &link{t, key}
	}
	// Without a source of randomness the signature is deterministic (RFC 6979).
	der, err := x509.CreateCertificate(nil, t, parent.cert, &key.PublicKey, parent.key)
	if err != nil {
		return link{}, fmt.Errorf("signing a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return link{}, fmt.Errorf("reading a certificate: %w", err)
	}
	return link{cert, key}, nil
}

// newKey takes the private number itself from rand, because the library's own
// generator ignores the reader that it is given.
func newKey(rand io.Reader) (*ecdsa.PrivateKey, error) {
	raw := make([]byte, 48)
	for range 8 {
		if _, err := io.ReadFull(rand, raw); err != nil {
			return nil, fmt.Errorf("reading randomness: %w", err)
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P384(), raw); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("randomness gives no key")
}

// short keeps to the 64 characters that a common name may have.
func short(name string) string {
	if len(name) > 64 {
		return name[:64]
	}
	return name
}
