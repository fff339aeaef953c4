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
	"slices"
	"sync"
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
	mu    sync.Mutex
	below []link // region, zone and instance, of all devices
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
	return &Root{link: l}, nil
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
	return &Root{link: link{cert, key}}, nil
}

// renew makes the leaf anew if it does not last, or an authority above it does not. At the first call there is none.
func (d *Device) renew(now time.Time) error {
	if now.Before(d.root.cert.NotBefore) || now.Add(leafLife).After(d.root.cert.NotAfter) {
		return errors.New("the clock is outside the root's validity")
	}
	above, err := d.root.authorities(d.rand, now)
	if err != nil {
		return err
	}
	if i := len(above); len(d.chain) > i && d.chain[i-1].cert == above[i-1].cert && d.chain[i].lasts(now, margin) {
		return nil
	}
	l, err := under(d.rand, above[len(above)-1], len(above), d.moduleID, now)
	if err != nil {
		return err
	}
	d.chain = append(above, l)
	return nil
}

// authorities are those above every leaf. The first level that does not last, for the whole life of a leaf that may be made
// under it, and all below it are made anew.
func (r *Root) authorities(rand io.Reader, now time.Time) ([]link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep := 0
	for keep < len(r.below) && r.below[keep].lasts(now, leafLife) {
		keep++
	}
	below := slices.Clone(r.below[:keep])
	for i := keep; i < len(levels)-1; i++ {
		parent := r.link
		if i > 0 {
			parent = below[i-1]
		}
		l, err := under(rand, parent, i, levels[i].name+".sim-enclaves", now)
		if err != nil {
			return nil, err
		}
		below = append(below, l)
	}
	r.below = below
	return slices.Clone(below), nil
}

// lasts says whether a certificate is valid now and for as long as is needed.
func (l link) lasts(now time.Time, need time.Duration) bool {
	return !now.Before(l.cert.NotBefore) && now.Add(need).Before(l.cert.NotAfter)
}

// under issues a certificate of a level. None may outlive its issuer: verifiers check all at one time.
func under(rand io.Reader, parent link, level int, name string, now time.Time) (link, error) {
	end := now.Add(levels[level].life)
	if end.After(parent.cert.NotAfter) {
		end = parent.cert.NotAfter
	}
	return issue(rand, &parent, name, len(levels)-2-level, now.Add(-backdated), end)
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
