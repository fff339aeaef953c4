package keys_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	dcr "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/secret"
)

var benchDigest = sha256.Sum256([]byte("cloister"))

// BenchmarkSign times a signature with a cached key beside the library alone.
func BenchmarkSign(b *testing.B) {
	for _, c := range []chain.Curve{chain.Secp256k1, chain.P256, chain.Ed25519} {
		k, err := keys.GeneratePrivateKey(rand.Reader, c)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.String()+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := keys.SignBare(k, benchDigest[:]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.String()+"/bare", func(b *testing.B) {
			b.ReportAllocs()
			sign := bareSigner(b, c)
			for b.Loop() {
				sign()
			}
		})
	}
}

func bareSigner(b *testing.B, c chain.Curve) func() {
	switch c {
	case chain.Secp256k1:
		k, err := secp256k1.GeneratePrivateKey()
		if err != nil {
			b.Fatal(err)
		}
		return func() { dcr.SignCompact(k, benchDigest[:], true) }
	case chain.P256:
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		return func() { k.Sign(nil, benchDigest[:], crypto.SHA256) }
	}
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	return func() { ed25519.Sign(k, benchDigest[:]) }
}

// BenchmarkOpenWallet times mnemonic and PBKDF2 beside the library's PBKDF2.
func BenchmarkOpenWallet(b *testing.B) {
	entropy, err := keys.GenerateMnemonic(rand.Reader, 12)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w, err := keys.OpenWallet(entropy, secret.Secret{})
			if err != nil {
				b.Fatal(err)
			}
			w.Wipe()
		}
	})
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pbkdf2.Key(sha512.New, "legal winner thank year wave sausage worth useful legal winner thank yellow", []byte("mnemonic"), 2048, 64)
		}
	})
}

// BenchmarkDerive times an account key with its public key, from an open wallet.
func BenchmarkDerive(b *testing.B) {
	entropy, err := keys.GenerateMnemonic(rand.Reader, 12)
	if err != nil {
		b.Fatal(err)
	}
	w, err := keys.OpenWallet(entropy, secret.Secret{})
	if err != nil {
		b.Fatal(err)
	}
	for c, text := range map[chain.Curve]string{
		chain.Secp256k1: "m/44'/60'/0'/0/0", chain.P256: "m/44'/60'/0'/0/0", chain.Ed25519: "m/44'/501'/0'/0'"} {
		p, err := keys.ParsePath(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k, err := w.Derive(c, p)
				if err != nil {
					b.Fatal(err)
				}
				k.Wipe()
			}
		})
	}
}

// BenchmarkCache times a hit.
func BenchmarkCache(b *testing.B) {
	c := keys.NewCache[[32]byte](16, 1<<20)
	derive := func() (*keys.PrivateKey, error) { return keys.GeneratePrivateKey(rand.Reader, chain.Ed25519) }
	b.ReportAllocs()
	for b.Loop() {
		if err := c.With(benchDigest, derive, func(*keys.PrivateKey) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
