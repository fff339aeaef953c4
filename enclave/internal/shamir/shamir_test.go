package shamir_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/enclave/internal/shamir"
)

var (
	qBytes = bytes.Repeat([]byte{7}, shamir.Size)
	q      = secrettest.Of(qBytes)
)

// stream is no randomness: 1, 2, 3.
type stream struct{ n byte }

func (s *stream) Read(b []byte) (int, error) {
	for i := range b {
		s.n++
		b[i] = s.n
	}
	return len(b), nil
}

// The field is that of AES (FIPS 197, section 4.2), whose examples these are.
func TestField(t *testing.T) {
	for _, c := range [][3]byte{{0x57, 0x83, 0xc1}, {0x57, 0x13, 0xfe}, {0x57, 0x02, 0xae}, {0x53, 0xca, 0x01}} {
		if shamir.Times(c[0], c[1]) != c[2] || shamir.Times(c[1], c[0]) != c[2] {
			t.Errorf("%x times %x is %x", c[0], c[1], shamir.Times(c[0], c[1]))
		}
	}
	for a := range 256 {
		for b := range 256 {
			if shamir.Times(byte(a), byte(b)) != slow(byte(a), byte(b)) {
				t.Fatalf("%x times %x", a, b)
			}
		}
		if want := byte(min(a, 1)); shamir.Times(byte(a), shamir.Inverse(byte(a))) != want {
			t.Errorf("%x has no inverse", a)
		}
	}
}

// slow multiplies as polynomials and reduces, with branches.
func slow(a, b byte) byte {
	var p int
	for i := range 8 {
		if b>>i&1 == 1 {
			p ^= int(a) << i
		}
	}
	for i := 14; i >= 8; i-- {
		if p>>i&1 == 1 {
			p ^= 0x11b << (i - 8)
		}
	}
	return byte(p)
}

func TestSplitAndCombine(t *testing.T) {
	for n := 2; n <= 7; n++ {
		for m := 2; m <= n; m++ {
			secret := make([]byte, shamir.Size)
			_, _ = rand.Read(secret)
			parts, err := shamir.Split(rand.Reader, secrettest.Of(secret), m, n)
			if err != nil {
				t.Fatal(err)
			}
			for set := range 1 << n {
				var some []shamir.Part
				for i := range n {
					if set>>i&1 == 1 {
						some = append(some, parts[i])
					}
				}
				got, err := shamir.Combine(some)
				switch {
				case len(some) < 2:
					if err == nil {
						t.Fatalf("%d shares combine", len(some))
					}
				case err != nil:
					t.Fatal(err)
				case bytes.Equal(secrettest.Bytes(got), secret) != (len(some) >= m):
					t.Fatalf("%d of %d, threshold %d: equal is %v", len(some), n, m, bytes.Equal(secrettest.Bytes(got), secret))
				}
			}
		}
	}
	if parts, err := shamir.Split(rand.Reader, q, 255, 255); err != nil || len(parts) != 255 {
		t.Errorf("255 shares: %v", err)
	}
}

// With all shares but one known every secret is still possible: for each there is
// one value of the missing share that gives it.
func TestOneShareShortTellsNothing(t *testing.T) {
	parts, err := shamir.Split(rand.Reader, q, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[byte]bool{}
	for b := range 256 {
		share := secrettest.Bytes(parts[2].Y)
		share[0] = byte(b)
		parts[2].Y = secrettest.Of(share)
		got, err := shamir.Combine(parts)
		if err != nil {
			t.Fatal(err)
		}
		seen[secrettest.Bytes(got)[0]] = true
	}
	if len(seen) != 256 {
		t.Errorf("only %d secrets are possible", len(seen))
	}
}

func TestSplitRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		rand   io.Reader
		secret secret.Secret
		m, n   int
	}{
		"one alone":           {rand.Reader, q, 1, 3},
		"nobody":              {rand.Reader, q, 0, 0},
		"more than there are": {rand.Reader, q, 4, 3},
		"too many":            {rand.Reader, q, 2, 256},
		"a short secret":      {rand.Reader, secrettest.Of(qBytes[:31]), 2, 3},
		"no secret":           {rand.Reader, secret.Secret{}, 2, 3},
		"no randomness":       {strings.NewReader("x"), q, 2, 3},
	} {
		if _, err := shamir.Split(c.rand, c.secret, c.m, c.n); err == nil {
			t.Errorf("%s: split", name)
		}
	}
	parts, err := shamir.Split(rand.Reader, q, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][]shamir.Part{"none": nil, "one": parts[:1], "one twice": {parts[0], parts[0]}, "one of no place": {parts[0], {Y: parts[1].Y}}, "one without a share": {parts[0], {X: 2}}} {
		if _, err := shamir.Combine(p); err == nil {
			t.Errorf("%s: combined", name)
		}
	}
}

// Under fixed coefficients the shares never change: those that are out must fit.
func TestSharesAreFixed(t *testing.T) {
	parts, err := shamir.Split(&stream{}, q, 3, 5)
	if err != nil {
		t.Fatal(err)
	}
	const want = "05392d4155697db1"
	if got := hex.EncodeToString(secrettest.Bytes(parts[4].Y)[:8]); got != want {
		t.Errorf("share 5 begins with %s", got)
	}
}

// Shares that Node's arithmetic made, by tables of logarithms, come together here.
func TestSharesOfAnother(t *testing.T) {
	raw, err := os.ReadFile("../../../shared/tvc/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		QuorumSeed string
		Shares     []string
	}
	if err := json.Unmarshal(raw, &v); err != nil || len(v.Shares) != 3 {
		t.Fatalf("%d shares: %v", len(v.Shares), err)
	}
	for _, pair := range [][2]int{{0, 1}, {2, 0}, {1, 2}} {
		var parts []shamir.Part
		for _, i := range pair {
			share, err := hex.DecodeString(v.Shares[i])
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, shamir.Part{X: share[0], Y: secrettest.Of(share[1:])})
		}
		if got, err := shamir.Combine(parts); err != nil || hex.EncodeToString(secrettest.Bytes(got)) != v.QuorumSeed {
			t.Errorf("shares %v: %v", pair, err)
		}
	}
}
