package boot_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"io"
	"reflect"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

// The field is that of AES (FIPS 197, section 4.2), whose examples these are.
func TestField(t *testing.T) {
	for _, c := range [][3]byte{{0x57, 0x83, 0xc1}, {0x57, 0x13, 0xfe}, {0x57, 0x02, 0xae}, {0x53, 0xca, 0x01}} {
		if boot.Times(c[0], c[1]) != c[2] || boot.Times(c[1], c[0]) != c[2] {
			t.Errorf("%x times %x is %x", c[0], c[1], boot.Times(c[0], c[1]))
		}
	}
	for a := range 256 {
		for b := range 256 {
			if boot.Times(byte(a), byte(b)) != slow(byte(a), byte(b)) {
				t.Fatalf("%x times %x", a, b)
			}
		}
		if want := byte(min(a, 1)); boot.Times(byte(a), boot.Inverse(byte(a))) != want {
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
			secret := make([]byte, boot.SecretSize)
			_, _ = rand.Read(secret)
			parts, err := boot.Split(rand.Reader, secrettest.Of(secret), m, n)
			if err != nil {
				t.Fatal(err)
			}
			for set := range 1 << n {
				var some []boot.Part
				for i := range n {
					if set>>i&1 == 1 {
						some = append(some, parts[i])
					}
				}
				got, err := boot.Combine(some)
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
	if parts, err := boot.Split(rand.Reader, q, 255, 255); err != nil || len(parts) != 255 {
		t.Errorf("255 shares: %v", err)
	}
}

// With all shares but one known every secret is still possible: for each there is
// one value of the missing share that gives it.
func TestOneShareShortTellsNothing(t *testing.T) {
	parts, err := boot.Split(rand.Reader, q, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[byte]bool{}
	for b := range 256 {
		share := secrettest.Bytes(parts[2].Y)
		share[0] = byte(b)
		parts[2].Y = secrettest.Of(share)
		got, err := boot.Combine(parts)
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
		if _, err := boot.Split(c.rand, c.secret, c.m, c.n); err == nil {
			t.Errorf("%s: split", name)
		}
	}
	parts, err := boot.Split(rand.Reader, q, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][]boot.Part{"none": nil, "one": parts[:1], "one twice": {parts[0], parts[0]}, "one of no place": {parts[0], {Y: parts[1].Y}}, "one without a share": {parts[0], {X: 2}}} {
		if _, err := boot.Combine(p); err == nil {
			t.Errorf("%s: combined", name)
		}
	}
}

// Under fixed coefficients the shares never change: those that are out must fit.
func TestSharesAreFixed(t *testing.T) {
	parts, err := boot.Split(&stream{}, q, 3, 5)
	if err != nil {
		t.Fatal(err)
	}
	const want = "05392d4155697db1"
	if got := hex.EncodeToString(secrettest.Bytes(parts[4].Y)[:8]); got != want {
		t.Errorf("share 5 begins with %s", got)
	}
}

func law() *boot.Law {
	return &boot.Law{Format: 1, Number: 3, Manifest: [32]byte{1}, Operators: [32]byte{2}, Quorum: make([]byte, 130)}
}

func TestLaw(t *testing.T) {
	k := newKeyring(t)
	sealed, err := k.SealLaw(rand.Reader, deployment, law())
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.OpenLaw(deployment, sealed)
	if err != nil || !reflect.DeepEqual(got, law()) {
		t.Fatalf("%+v, %v", got, err)
	}
	other := deployment
	other[0] ^= 1
	if _, err := k.OpenLaw(other, sealed); err == nil {
		t.Error("opens for another deployment")
	}
	if _, err := newKeyring(t).OpenLaw(deployment, sealed); err == nil {
		t.Error("opens under another keyring")
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if _, err := k.OpenLaw(deployment, bad); err == nil {
			t.Fatal("opens altered")
		}
	}
	for name, l := range map[string]*boot.Law{"another format": {Format: 2, Number: 1}, "no number": {Format: 1}, "half a key": {Format: 1, Number: 1, Quorum: make([]byte, 65)}} {
		sealed, err := k.SealLaw(rand.Reader, deployment, l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.OpenLaw(deployment, sealed); err == nil {
			t.Errorf("%s: opens", name)
		}
	}
}

func TestLawAllows(t *testing.T) {
	first := &attestation.Manifest{Operators: attestation.Operators{Threshold: 2, PublicKeys: []string{"a", "b"}}}
	genesis := &boot.Law{Format: 1, Number: 1, Operators: first.Operators.Digest()}
	others := &attestation.Manifest{Operators: attestation.Operators{Threshold: 1, PublicKeys: []string{"a", "b"}}}
	one, two := [32]byte{1}, [32]byte{2}
	second := &attestation.Manifest{Predecessor: hex.EncodeToString(one[:])}
	later := genesis.Next(first, one, nil)
	for name, c := range map[string]struct {
		l    *boot.Law
		m    *attestation.Manifest
		hash [32]byte
		ok   bool
	}{
		"the first":                      {genesis, first, one, true},
		"a first of others":              {genesis, others, one, false},
		"a second before the first":      {genesis, second, two, false},
		"the same again":                 {later, first, one, true},
		"another first":                  {later, first, two, false},
		"the next":                       {later, second, two, true},
		"the one behind the next":        {later.Next(second, two, nil), second, [32]byte{3}, false},
		"the first once there is a next": {later.Next(second, two, nil), first, one, false},
	} {
		if err := c.l.Allows(c.m, c.hash); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if later.Number != 2 || later.Operators != first.Operators.Digest() {
		t.Errorf("%+v", later)
	}
}

func FuzzOpenLaw(f *testing.F) {
	k, err := boot.NewKeyring(&stream{})
	if err != nil {
		f.Fatal(err)
	}
	good, err := k.SealLaw(&stream{}, deployment, law())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := k.OpenLaw(deployment, b); (err == nil) != bytes.Equal(b, good) {
			t.Fatalf("%x: %v", b, err)
		}
	})
}
