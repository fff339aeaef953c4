package attestation

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/hf/nitrite"
)

// AWSRootSHA256 is the SHA-256 of the DER form of the root certificate of AWS
// Nitro Enclaves, in lower-case hex. The certificate itself comes with a
// dependency; this hash is what is trusted.
const AWSRootSHA256 = "641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b"

// trust is a root that a document must lead to.
type trust struct {
	cert      *x509.Certificate
	pool      *x509.CertPool
	simulator bool
}

var awsTrust = sync.OnceValues(func() (trust, error) {
	t, err := parseRoot(nitrite.DefaultCARoots)
	if err != nil {
		return trust{}, fmt.Errorf("reading the AWS root: %w", err)
	}
	if !isAWSRoot(t.cert) {
		return trust{}, errors.New("the AWS root at hand is not the pinned one")
	}
	return t, nil
})

// root gives the one root that the policy trusts. The two kinds never mix: who
// names a simulator's root no longer accepts real documents, and the AWS root
// cannot be passed off as a simulator's.
func (p Policy) root() (trust, error) {
	if p.SimulatorRootPEM == "" {
		return awsTrust()
	}
	t, err := parseRoot(p.SimulatorRootPEM)
	if err != nil {
		return trust{}, fmt.Errorf("reading the simulator root: %w", err)
	}
	if isAWSRoot(t.cert) {
		return trust{}, errors.New("the simulator root given is the AWS root")
	}
	t.simulator = true
	return t, nil
}

func isAWSRoot(c *x509.Certificate) bool {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:]) == AWSRootSHA256
}

// parseRoot reads exactly one self-signed P-384 certificate authority.
func parseRoot(text string) (trust, error) {
	if len(text) > maxRootPEM {
		return trust{}, errors.New("certificate is too long")
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
		return trust{}, errors.New("no PEM certificate")
	}
	if strings.TrimSpace(string(rest)) != "" {
		return trust{}, errors.New("more than one PEM block")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return trust{}, fmt.Errorf("parsing certificate: %w", err)
	}
	if err := checkP384(c); err != nil {
		return trust{}, err
	}
	if !c.BasicConstraintsValid || !c.IsCA {
		return trust{}, errors.New("certificate is no authority")
	}
	if err := c.CheckSignatureFrom(c); err != nil {
		return trust{}, fmt.Errorf("checking self-signature: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return trust{cert: c, pool: pool}, nil
}
