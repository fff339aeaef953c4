package attestation

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// maxChains bounds the chains that a Chains remembers. A module takes a new leaf
// every few hours.
const maxChains = 256

// Chains remembers which leaf certificates led to which root, so that the further
// documents of a boot cost one signature and not five. The zero value is ready; it
// is safe for concurrent use, and given to verifiers as Policy.Chains.
//
// A chain is named by the bytes of its certificates and its root. It says who may have
// signed a document; everything else about the document is checked as ever.
type Chains struct {
	mu    sync.Mutex
	known map[[32]byte]chain
}

// chain is a leaf's key and the time in which every certificate is valid.
type chain struct {
	leaf        *ecdsa.PublicKey
	from, until time.Time
}

// name is the hash of root, leaf and bundle, each behind its length.
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

// leaf gives the key that a chain led to before; nil if it did not, or is not valid at this time.
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

// keep remembers the chain of a document that was verified at this time.
func (c *Chains) keep(d document, root trust, at time.Time) {
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

// verifyCOSE checks a document's signature under a key whose chain is known.
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
