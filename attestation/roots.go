package attestation

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hf/nitrite"
)

// AWSRootSHA256 is the SHA-256 of the DER form of the root certificate of AWS Nitro Enclaves, in lower-case
// hex. The certificate comes with a dependency; it is trusted only if it has this hash.
const AWSRootSHA256 = "641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b"

// trust is the root certificate that a document's chain must end in.
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

// root returns the one root that the policy trusts. The two kinds never mix: a policy with a simulator's root
// accepts no real documents, and the AWS root is refused as a simulator's.
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

// maxChains is how many chains a Chains holds; it is emptied when it is full. A module takes a new leaf every few hours.
const maxChains = 256

// Chains is a cache of verified certificate chains, with which further documents of a
// boot cost one signature and not five. The zero value is ready to use and safe for
// concurrent use; set it as Policy.Chains.
//
// The cache's key is the bytes of root and certificates, its value the key that may sign
// a document. Everything else about a document is checked every time.
type Chains struct {
	mu    sync.Mutex
	known map[[32]byte]chain
}

// chain is a cached chain: the leaf's key, and the time in which every certificate is valid.
type chain struct {
	leaf        *ecdsa.PublicKey
	from, until time.Time
}

// chainName is the SHA-256 of root, leaf and bundle, each after its length.
func chainName(d document, root trust) [32]byte {
	h := sha256.New()
	for _, der := range append([][]byte{root.cert.Raw, d.Certificate}, d.CABundle...) {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(der)))
		h.Write(size[:])
		h.Write(der)
	}
	return [32]byte(h.Sum(nil))
}

// leaf returns the key of a cached chain; nil if it is not cached, or not valid at this time.
func (c *Chains) leaf(d document, root trust, at time.Time) *ecdsa.PublicKey {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[chainName(d, root)]
	if !ok || at.Before(k.from) || at.After(k.until) {
		return nil
	}
	return k.leaf
}

// addChain caches the chain of a document that was verified at this time.
func (c *Chains) addChain(d document, root trust, at time.Time) {
	if c == nil {
		return
	}
	var k chain
	for i, der := range append([][]byte{d.Certificate}, d.CABundle...) {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		if i == 0 {
			pub, ok := cert.PublicKey.(*ecdsa.PublicKey)
			if !ok {
				return
			}
			k = chain{pub, root.cert.NotBefore, root.cert.NotAfter}
		}
		if cert.NotBefore.After(k.from) {
			k.from = cert.NotBefore
		}
		if cert.NotAfter.Before(k.until) {
			k.until = cert.NotAfter
		}
	}
	if at.Before(k.from) || at.After(k.until) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxChains {
		c.known = map[[32]byte]chain{}
	}
	c.known[chainName(d, root)] = k
}

// verifyCOSE verifies a document's signature under the leaf's key of a cached chain.
func verifyCOSE(raw []byte, key *ecdsa.PublicKey) error {
	var c cose
	if err := strictCOSE.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("%w COSE_Sign1", errMalformed)
	}
	signed, err := cbor.Marshal([]any{"Signature1", c.Protected, []byte{}, c.Payload})
	if err != nil {
		return fmt.Errorf("encoding what is signed: %w", err)
	}
	digest := sha512.Sum384(signed)
	if !ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(c.Signature[:pcrSize]), new(big.Int).SetBytes(c.Signature[pcrSize:])) {
		return errors.New("signature or chain: signature is wrong")
	}
	return nil
}
