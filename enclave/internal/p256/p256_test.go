package p256_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"testing"

	"cloister/enclave/internal/p256"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// RFC 6979, A.2.5: P-256 with SHA-256. For "test" s is the lower already, for
// "sample" it is the larger.
func TestSign(t *testing.T) {
	key, point, err := p256.NewKey(unhex(t, "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := hex.EncodeToString(point[:]), "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"+
		"7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"; got != want {
		t.Errorf("point %s, want %s", got, want)
	}
	order := elliptic.P256().Params().N
	for _, c := range []struct {
		message, r, s string
		negated       bool
	}{
		{"sample", "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
			"f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8", true},
		{"test", "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367",
			"019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083", false},
	} {
		digest := sha256.Sum256([]byte(c.message))
		sig, err := p256.Sign(key, digest)
		if err != nil {
			t.Fatal(err)
		}
		s := new(big.Int).SetBytes(unhex(t, c.s))
		der, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(unhex(t, c.r)), s})
		if err != nil {
			t.Fatal(err)
		}
		read, negated, err := p256.FromDER(der)
		if err != nil || negated != c.negated || read != sig {
			t.Errorf("%s: from DER %x, %t, %v; want %x, %t", c.message, read, negated, err, sig, c.negated)
		}
		if c.negated {
			s = new(big.Int).Sub(order, s)
		}
		want := append(unhex(t, c.r), s.FillBytes(make([]byte, 32))...)
		if !bytes.Equal(sig[:], want) {
			t.Errorf("%s: %x, want %x", c.message, sig, want)
		}
		back := sig.DER()
		if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], back) || len(back) > 72 {
			t.Errorf("%s: DER %x does not verify", c.message, back)
		}
		if !p256.Verify(&key.PublicKey, digest, sig[:]) {
			t.Errorf("%s: r and s do not verify", c.message)
		}
		for i := range sig {
			bad := sig
			bad[i] ^= 1
			if p256.Verify(&key.PublicKey, digest, bad[:]) {
				t.Errorf("%s: verifies with byte %d changed", c.message, i)
			}
		}
		for _, n := range []int{0, 63} {
			if p256.Verify(&key.PublicKey, digest, sig[:n]) {
				t.Errorf("%s: verifies with %d bytes", c.message, n)
			}
		}
		if p256.Verify(&key.PublicKey, digest, append(sig[:], 0)) {
			t.Errorf("%s: verifies with a byte more", c.message)
		}
	}
}

func TestNewKeyRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"none": nil, "short": make([]byte, 31), "zero": make([]byte, 32), "long": bytes.Repeat([]byte{1}, 33),
		"order": elliptic.P256().Params().N.Bytes(),
	} {
		if _, _, err := p256.NewKey(b); err == nil {
			t.Errorf("%s: is a key", name)
		}
	}
}

func TestFromDERRefuses(t *testing.T) {
	order := elliptic.P256().Params().N
	pair := func(r, s *big.Int) []byte {
		der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	one := big.NewInt(1)
	if _, _, err := p256.FromDER(pair(one, one)); err != nil {
		t.Errorf("the smallest pair: %v", err)
	}
	for name, der := range map[string][]byte{
		"none": nil, "r of zero": pair(new(big.Int), one), "s of zero": pair(one, new(big.Int)),
		"r of the order": pair(order, one), "s of the order": pair(one, order), "negative": pair(big.NewInt(-1), one),
		"257 bits": pair(new(big.Int).Lsh(one, 256), one), "a byte more": append(pair(one, one), 0),
		"cut": pair(one, one)[:7], "not shortest": unhex(t, "300702020001020101"),
	} {
		if s, _, err := p256.FromDER(der); err == nil {
			t.Errorf("%s: read as %x", name, s)
		}
	}
}

func TestPoints(t *testing.T) {
	for range 64 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		long, err := key.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		short := p256.Compressed((*[p256.PointSize]byte)(long))
		for _, b := range [][]byte{long, short[:]} {
			point, ok := p256.Uncompressed(b)
			if !ok || !bytes.Equal(point[:], long) {
				t.Fatalf("%x: %x, %t; want %x", b, point, ok, long)
			}
			parsed, err := p256.ParsePublicKey(b)
			if err != nil || !parsed.Equal(&key.PublicKey) {
				t.Fatalf("%x: another key, %v", b, err)
			}
		}
		hybrid := append([]byte{6 | long[64]&1}, long[1:]...)
		off := bytes.Clone(long)
		off[64] ^= 1
		for name, b := range map[string][]byte{
			"none": nil, "infinity": {0}, "hybrid": hybrid, "off the curve": off, "cut": long[:64], "a byte more": append(long, 0),
			"compressed under 04": append([]byte{4}, short[1:]...), "x of the field": append([]byte{2}, bytes.Repeat([]byte{0xff}, 32)...),
			"uncompressed under 02": append([]byte{2}, long[1:]...),
		} {
			if _, ok := p256.Uncompressed(b); ok {
				t.Errorf("%s: %x is a point", name, b)
			}
			if _, err := p256.ParsePublicKey(b); err == nil {
				t.Errorf("%s: %x is a key", name, b)
			}
		}
	}
}

// What is read as DER is written as the same DER, unless s was the larger one.
func FuzzFromDER(f *testing.F) {
	f.Add(unhex(f, "3006020101020101"))
	f.Fuzz(func(t *testing.T, der []byte) {
		s, negated, err := p256.FromDER(der)
		if err != nil {
			return
		}
		back := s.DER()
		if negated == bytes.Equal(back, der) {
			t.Errorf("%x is written as %x (negated %t)", der, back, negated)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	key, _, err := p256.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := p256.Sign(key, [32]byte{1}); err != nil {
			b.Fatal(err)
		}
	}
}

// The recovery id is that of the signature's own key and digest, and of no others;
// that it recovers the key is held in keys.
func TestRecoveryID(t *testing.T) {
	key, _, err := p256.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := p256.NewKey(bytes.Repeat([]byte{8}, 32))
	if err != nil {
		t.Fatal(err)
	}
	seen := [2]int{}
	for i := range byte(40) {
		digest := [32]byte{31: i} // zero among them
		s, err := p256.Sign(key, digest)
		if err != nil {
			t.Fatal(err)
		}
		id, ok := p256.RecoveryID(&key.PublicKey, digest, &s)
		if !ok || id > 1 {
			t.Fatalf("digest %d: %d, %t", i, id, ok)
		}
		seen[id]++
		if _, ok := p256.RecoveryID(&other.PublicKey, digest, &s); ok {
			t.Errorf("digest %d: another key's", i)
		}
		if _, ok := p256.RecoveryID(&key.PublicKey, [32]byte{0: 1, 31: i}, &s); ok {
			t.Errorf("digest %d: another digest's", i)
		}
		for b := range s {
			bad := s
			bad[b] ^= 1
			if _, ok := p256.RecoveryID(&key.PublicKey, digest, &bad); ok {
				t.Errorf("digest %d: byte %d may be flipped", i, b)
			}
		}
	}
	if seen[0] == 0 || seen[1] == 0 {
		t.Errorf("ids %v", seen)
	}
	if _, ok := p256.RecoveryID(&key.PublicKey, [32]byte{1}, new(p256.Signature)); ok {
		t.Error("zeros are a signature")
	}
}
