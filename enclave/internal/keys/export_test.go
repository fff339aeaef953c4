package keys

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"sync/atomic"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

// Erasing reports whether this build erases stack, registers and freed heap.
const Erasing = erase.Enabled

// Owner is the organization of the keys that tests make.
var Owner = [16]byte{15: 1}

var made atomic.Uint64

// stored makes a key one that a grant can be for.
func stored(k *PrivateKey, err error) (*PrivateKey, error) {
	if err == nil {
		k.identity = identity{organization: Owner}
		binary.BigEndian.PutUint64(k.key.Owner[:], made.Add(1))
	}
	return k, err
}

// GeneratePrivateKey and PrivateKeyFromSecret make a key without a grant.
func GeneratePrivateKey(rand io.Reader, c chain.Curve) (*PrivateKey, error) {
	return stored(generatePrivateKey(rand, c))
}

func PrivateKeyFromSecret(c chain.Curve, s secret.Secret) (*PrivateKey, error) {
	return stored(privateKeyFromSecret(c, s))
}

// Key is what a grant names the key by.
func (k *PrivateKey) Key() policy.Key { return k.key }

// PrivateSecret is the key's private bytes.
func (k *PrivateKey) PrivateSecret() (secret.Secret, error) { return k.secret() }

// PrivateHex gives the private bytes to tests.
func (k *PrivateKey) PrivateHex() string {
	s, _ := k.secret()
	return hex.EncodeToString(secrettest.Bytes(s))
}

// DeriveFromSeed derives from a seed of any length, as the official vectors do,
// and gives key and chain code.
func DeriveFromSeed(seed []byte, c chain.Curve, path string) (key, code []byte, ok bool) {
	p, err := ParsePath(path)
	if err != nil {
		return nil, nil, false
	}
	var n node
	ok = schemes[c].derive(&n, seed, p.steps)
	return n.key[:], n.chain[:], ok
}

// Unexported functions under test.
var (
	MAC512  = func(key, m []byte) []byte { var o [64]byte; mac512(&o, key, m); return o[:] }
	Stretch = stretch

	OpenWallet = openWallet
	ImportKey  = importKey
	MnemonicOf = mnemonicOf
	AddP256    = addP256
	Mnemonic   = func(entropy []byte) string { return string(appendMnemonic(nil, entropy)) }
)

// SeedHex gives the seed to tests.
func (w *Wallet) SeedHex() string { return hex.EncodeToString(secrettest.Bytes(w.seed)) }

// SignBare signs without a grant, for benchmarks.
func SignBare(k *PrivateKey, message []byte) (Signature, error) {
	return k.sign(chain.SchemeOf(0, k.curve), message)
}

// Masked gives the private bytes to the memory scan, xored with mask so that the
// scan does not find what it looks for.
func (k *PrivateKey) Masked(mask [32]byte) (out [32]byte) {
	k.use(func(s curveKey) error {
		erase.Do(func() {
			s.bytes(&out)
			for i := range out {
				out[i] ^= mask[i]
			}
		})
		return nil
	})
	return out
}

// Break makes the key's next signatures faulty, as a fault in the hardware would.
func (k *PrivateKey) Break(fault func(*Signature)) {
	v := k.open()
	v.key = broken{v.key, fault}
}

type broken struct {
	curveKey
	fault func(*Signature)
}

func (b broken) sign(out *Signature, public chain.PublicKey, scheme chain.Scheme, message []byte) error {
	err := b.curveKey.sign(out, public, scheme, message)
	b.fault(out)
	return err
}

// Verify holds a signature against the key, as sign does with what it has made.
func (k *PrivateKey) Verify(sig *Signature, scheme chain.Scheme, message []byte) bool {
	return k.open().key.verify(sig, k.public, scheme, message)
}

// Flip changes one bit of a secp256k1 key that lies in memory.
func (k *PrivateKey) Flip(bit int) {
	d := &k.open().key.(*keySecp256k1).private.Key
	b := d.Bytes()
	b[bit/8] ^= 1 << (bit % 8)
	d.SetBytes(&b)
}
