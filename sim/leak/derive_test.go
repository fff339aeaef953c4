package leak_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/tyler-smith/go-bip39/wordlists"
)

// What the enclave derives is derived here once more, by other code: BIP-39,
// BIP-32 and SLIP-0010 from the standards.

// words is the mnemonic of 16 to 32 bytes, a multiple of 4.
func words(entropy []byte) string {
	sum := sha256.Sum256(entropy)
	n := new(big.Int).SetBytes(append(append([]byte{}, entropy...), sum[0]))
	n.Rsh(n, uint(8-len(entropy)/4))
	count := len(entropy) * 8 * 33 / 32 / 11
	out := make([]string, count)
	for i := count - 1; i >= 0; i-- {
		out[i] = wordlists.English[new(big.Int).And(n, big.NewInt(2047)).Int64()]
		n.Rsh(n, 11)
	}
	return strings.Join(out, " ")
}

func seedOf(t testing.TB, entropy []byte) []byte {
	seed, err := pbkdf2.Key(sha512.New, words(entropy), []byte("mnemonic"), 2048, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

type curve struct {
	name, master string
	order        *big.Int // nil: every step is hardened and replaces the key
}

var curves = map[string]curve{
	"CURVE_SECP256K1": {"CURVE_SECP256K1", "Bitcoin seed", secp256k1.Params().N},
	"CURVE_P256":      {"CURVE_P256", "Nist256p1 seed", number("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551")},
	"CURVE_ED25519":   {"CURVE_ED25519", "ed25519 seed", nil},
}

func number(text string) *big.Int {
	n, _ := new(big.Int).SetString(text, 16)
	return n
}

// public is the compressed public key in hex.
func (c curve) public(t testing.TB, key []byte) string {
	switch c.name {
	case "CURVE_SECP256K1":
		return hex.EncodeToString(secp256k1.PrivKeyFromBytes(key).PubKey().SerializeCompressed())
	case "CURVE_P256":
		k, err := ecdh.P256().NewPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		p := k.PublicKey().Bytes()
		return hex.EncodeToString(append([]byte{2 | p[64]&1}, p[1:33]...))
	}
	return hex.EncodeToString(ed25519.NewKeyFromSeed(key).Public().(ed25519.PublicKey))
}

// nodes are the private keys on the way from the master to the end of a path.
func (c curve) nodes(t testing.TB, seed []byte, path string) (keys [][]byte) {
	mac := hmac.New(sha512.New, []byte(c.master))
	mac.Write(seed)
	i := mac.Sum(nil)
	key, chain := i[:32], i[32:]
	keys = append(keys, key)
	for _, step := range strings.Split(path, "/")[1:] {
		n, err := strconv.ParseUint(strings.TrimSuffix(step, "'"), 10, 31)
		if err != nil {
			t.Fatal(err)
		}
		index := uint32(n)
		if strings.HasSuffix(step, "'") || c.order == nil {
			index |= 1 << 31
		}
		m := append([]byte{0}, key...)
		if index < 1<<31 {
			if m, err = hex.DecodeString(c.public(t, key)); err != nil {
				t.Fatal(err)
			}
		}
		mac := hmac.New(sha512.New, chain)
		mac.Write(binary.BigEndian.AppendUint32(m, index))
		i := mac.Sum(nil)
		if c.order != nil {
			sum := new(big.Int).Add(new(big.Int).SetBytes(i[:32]), new(big.Int).SetBytes(key))
			sum.Mod(sum, c.order).FillBytes(i[:32]) // a refused value has a chance of 2^-32
		}
		key, chain = i[:32], i[32:]
		keys = append(keys, key)
	}
	return keys
}

// The first vectors of BIP-32, SLIP-0010 and BIP-39.
func TestDerivation(t *testing.T) {
	seed, _ := hex.DecodeString("000102030405060708090a0b0c0d0e0f")
	for name, want := range map[string]string{
		"CURVE_SECP256K1": "471b76e389e528d6de6d816857e012c5455051cad6660850e58372a6c3e6e7c8",
		"CURVE_P256":      "21c4f269ef0a5fd1badf47eeacebeeaa3de22eb8e5b0adcd0f27dd99d34d0119",
		"CURVE_ED25519":   "8f94d394a8e8fd6b1bc2f3f49f5c47e385281d5c17e65324b0f62483e37e8793",
	} {
		keys := curves[name].nodes(t, seed, "m/0'/1/2'/2/1000000000")
		if got := hex.EncodeToString(keys[5]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if w := words(make([]byte, 16)); w != strings.Repeat("abandon ", 11)+"about" {
		t.Errorf("words of nothing: %s", w)
	}
	if !bytes.HasPrefix(seedOf(t, make([]byte, 16)), []byte{0x5e, 0xb0, 0x0b, 0xbd}) {
		t.Error("seed of nothing")
	}
}
