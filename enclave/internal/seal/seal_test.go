package seal_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret/secrettest"
)

func newKey(tb testing.TB, fill byte) *seal.Key {
	tb.Helper()
	k, err := seal.NewKey(secrettest.Of(bytes.Repeat([]byte{fill}, seal.KeySize)))
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func name() seal.Name {
	n := seal.Name{Kind: seal.KindEntry, KeyID: 0x01020304, Place: 0x1112131415161718}
	fill := func(b []byte, from byte) {
		for i := range b {
			b[i] = from + byte(i)
		}
	}
	fill(n.Deployment[:], 0x20)
	fill(n.Organization[:], 0x50)
	fill(n.Owner[:], 0x70)
	fill(n.Root[:], 0x90)
	return n
}

// A name's bytes are format, kind, key id, deployment, organization, place,
// owner, root: they are in every sealed object ever stored.
func TestNameLayoutIsFixed(t *testing.T) {
	const want = "0101" + "01020304" +
		"202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f" +
		"505152535455565758595a5b5c5d5e5f" + "1112131415161718" +
		"707172737475767778797a7b7c7d7e7f" +
		"909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf"
	if got := hex.EncodeToString(name().Bytes()); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// The stored form under a fixed key and nonce never changes.
func TestSealedFormIsFixed(t *testing.T) {
	sealed, err := newKey(t, 7).Seal(bytes.NewReader(bytes.Repeat([]byte{9}, 12)), name(), []byte("cloister"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "090909090909090909090909" + "44e9ebfdcd84a413848c8002d7ce6db344e70e7e14fbffe0"
	if got := hex.EncodeToString(sealed); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// What is sealed where it stands has the same form.
func TestInPlace(t *testing.T) {
	k, nonce := newKey(t, 7), bytes.Repeat([]byte{9}, 12)
	want, err := k.Append([]byte("head"), bytes.NewReader(nonce), name(), []byte("cloister"))
	if err != nil {
		t.Fatal(err)
	}
	for _, capacity := range []int{0, 100} { // of which the tag may want more
		b := append(make([]byte, 0, 24+capacity), "head............cloister"...)
		if got, err := k.InPlace(b, 4, bytes.NewReader(nonce), name()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %x, want %x: %v", got, want, err)
		}
	}
}

func TestDerivedKeyIsFixed(t *testing.T) {
	k, err := seal.Derive(secrettest.Of([]byte("a root secret")), "keyring")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := k.Seal(bytes.NewReader(make([]byte, 12)), seal.Name{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = "000000000000000000000000" + "78f7c927008a438c2efa91cbc3704c2a"
	if got := hex.EncodeToString(sealed); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	other, err := seal.Derive(secrettest.Of([]byte("a root secret")), "another purpose")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Open(seal.Name{}, sealed); !errors.Is(err, seal.ErrOpen) {
		t.Fatalf("a key of another purpose opens: %v", err)
	}
}

func TestRoundTrip(t *testing.T) {
	k := newKey(t, 1)
	for _, size := range []int{0, 1, 15, 16, 17, 4096, 1 << 20} {
		plain := make([]byte, size)
		_, _ = rand.Read(plain)
		sealed, err := k.Seal(rand.Reader, name(), plain)
		if err != nil {
			t.Fatal(err)
		}
		if len(sealed) != size+seal.Overhead {
			t.Fatalf("%d bytes sealed have %d", size, len(sealed))
		}
		before := bytes.Clone(sealed)
		got, err := k.Open(name(), sealed)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes come back as %d, %v", size, len(got), err)
		}
		if !bytes.Equal(before, sealed) {
			t.Fatal("Open changed what it read")
		}
	}
}

func TestNoncesDiffer(t *testing.T) {
	k, seen := newKey(t, 1), map[string]bool{}
	for range 1000 {
		s, err := k.Seal(rand.Reader, name(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if seen[string(s[:12])] {
			t.Fatal("a nonce came twice")
		}
		seen[string(s[:12])] = true
	}
}

// changes is every field of a name, changed by as little as can be.
func changes(t *testing.T) map[string]seal.Name {
	out := map[string]seal.Name{}
	v := reflect.TypeOf(seal.Name{})
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Type.Kind() != reflect.Array {
			n := name()
			x := reflect.ValueOf(&n).Elem().Field(i)
			x.SetUint(x.Uint() ^ 1)
			out[f.Name] = n
			continue
		}
		for at := range f.Type.Len() {
			n := name()
			x := reflect.ValueOf(&n).Elem().Field(i).Index(at)
			x.SetUint(x.Uint() ^ 0x80)
			out[f.Name+"/"+string(rune('a'+at))] = n
		}
	}
	if len(out) != 3+32+16+16+32 {
		t.Fatalf("%d changes", len(out))
	}
	return out
}

func TestOpensUnderItsNameOnly(t *testing.T) {
	k := newKey(t, 1)
	sealed, err := k.Seal(rand.Reader, name(), []byte("a record"))
	if err != nil {
		t.Fatal(err)
	}
	for field, n := range changes(t) {
		if got, err := k.Open(n, sealed); !errors.Is(err, seal.ErrOpen) || got != nil {
			t.Errorf("%s changed: opens", field)
		}
	}
	for kind := range 256 {
		n := name()
		if n.Kind = seal.Kind(kind); n.Kind == seal.KindEntry {
			continue
		}
		if _, err := k.Open(n, sealed); !errors.Is(err, seal.ErrOpen) {
			t.Errorf("kind %d: opens", kind)
		}
	}
	if _, err := newKey(t, 2).Open(name(), sealed); !errors.Is(err, seal.ErrOpen) {
		t.Error("opens under another key")
	}
}

func TestDamageIsRefused(t *testing.T) {
	k := newKey(t, 1)
	sealed, err := k.Seal(rand.Reader, name(), []byte("a record of some bytes"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(sealed) {
		bad := bytes.Clone(sealed)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := k.Open(name(), bad); !errors.Is(err, seal.ErrOpen) {
			t.Fatalf("bit %d flipped: opens", i)
		}
	}
	for n := range sealed {
		for _, bad := range [][]byte{sealed[:n], sealed[len(sealed)-n:]} {
			if len(bad) == len(sealed) {
				continue
			}
			if _, err := k.Open(name(), bad); !errors.Is(err, seal.ErrOpen) {
				t.Fatalf("cut to %d bytes: opens", n)
			}
		}
	}
	for _, bad := range [][]byte{nil, append(bytes.Clone(sealed), 0), append([]byte{0}, sealed...), append(bytes.Clone(sealed), sealed...)} {
		if _, err := k.Open(name(), bad); !errors.Is(err, seal.ErrOpen) {
			t.Fatalf("%d bytes: opens", len(bad))
		}
	}
}

func TestKeySizes(t *testing.T) {
	for n := range 65 {
		_, err := seal.NewKey(secrettest.Of(make([]byte, n)))
		if (err == nil) != (n == seal.KeySize) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestKeyKeepsNoAlias(t *testing.T) {
	secret := secrettest.Of(bytes.Repeat([]byte{3}, seal.KeySize))
	k, err := seal.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	secret.Wipe()
	sealed, err := k.Seal(rand.Reader, name(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newKey(t, 3).Open(name(), sealed); err != nil {
		t.Fatal("the key changed with the caller's secret")
	}
}

func TestSealNeedsItsNonce(t *testing.T) {
	k := newKey(t, 1)
	for n := range 12 {
		if _, err := k.Seal(bytes.NewReader(make([]byte, n)), name(), nil); err == nil {
			t.Errorf("sealed with %d bytes of randomness", n)
		}
	}
	if _, err := k.Seal(io.LimitReader(rand.Reader, 12), name(), nil); err != nil {
		t.Fatal(err)
	}
}

// TestWycheproof runs the cases with our key and nonce sizes through the path
// that Open takes.
func TestWycheproof(t *testing.T) {
	b, err := os.ReadFile("testdata/aes_gcm_test.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TestGroups []struct {
			IvSize, KeySize, TagSize int
			Tests                    []struct {
				TcID                          int
				Key, Iv, Aad, Msg, Ct, Result string
				Tag                           string
			}
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	valid, invalid, flipped := 0, 0, 0
	for _, g := range file.TestGroups {
		for _, c := range g.Tests {
			if g.KeySize != 256 || g.TagSize != 128 {
				continue
			}
			k, err := seal.NewKey(secrettest.Of(unhex(c.Key)))
			if err != nil {
				t.Fatal(err)
			}
			sealed := append(unhex(c.Iv), append(unhex(c.Ct), unhex(c.Tag)...)...)
			got, err := k.OpenWith(unhex(c.Aad), sealed)
			if g.IvSize != 96 || c.Result != "valid" {
				invalid++ // another size of nonce is read as a nonce of ours and does not open
				if !errors.Is(err, seal.ErrOpen) {
					t.Errorf("case %d opens", c.TcID)
				}
				continue
			}
			valid++
			if err != nil || !bytes.Equal(got, unhex(c.Msg)) {
				t.Errorf("case %d: %x, %v", c.TcID, got, err)
			}
			for at := range sealed {
				bad := bytes.Clone(sealed)
				bad[at] ^= 1
				flipped++
				if _, err := k.OpenWith(unhex(c.Aad), bad); !errors.Is(err, seal.ErrOpen) {
					t.Errorf("case %d opens with byte %d flipped", c.TcID, at)
				}
			}
		}
	}
	t.Logf("%d valid, %d refused, %d flips refused", valid, invalid, flipped)
	if valid != 39 || invalid < 27 {
		t.Fatalf("%d valid, %d invalid cases", valid, invalid)
	}
}

func FuzzOpen(f *testing.F) {
	k := newKey(f, 1)
	good, err := k.Seal(bytes.NewReader(make([]byte, 12)), name(), []byte("the one record"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:27])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := k.Open(name(), b)
		if (err == nil) != bytes.Equal(b, good) {
			t.Fatalf("%x opens to %x", b, got)
		}
	})
}

func benchmark(b *testing.B, f func(k *seal.Key, plain, sealed []byte) error) {
	k, plain := newKey(b, 1), make([]byte, 4096)
	sealed, err := k.Seal(rand.Reader, name(), plain)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(4096)
	b.ReportAllocs()
	for b.Loop() {
		if err := f(k, plain, sealed); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSeal4KiB(b *testing.B) {
	benchmark(b, func(k *seal.Key, plain, _ []byte) error { _, err := k.Seal(rand.Reader, name(), plain); return err })
}

func BenchmarkOpen4KiB(b *testing.B) {
	benchmark(b, func(k *seal.Key, _, sealed []byte) error { _, err := k.Open(name(), sealed); return err })
}

func TestSealedSecrets(t *testing.T) {
	k := newKey(t, 3)
	sealed, err := k.SealSecret(rand.Reader, name(), secrettest.Of([]byte("a secret")))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := k.Open(name(), sealed); err != nil || string(b) != "a secret" {
		t.Fatalf("sealed as %q, %v", b, err)
	}
	if s, err := k.OpenSecret(name(), sealed); err != nil || string(secrettest.Bytes(s)) != "a secret" {
		t.Fatalf("another secret comes back: %v", err)
	}
	other := name()
	other.Place++
	if s, err := k.OpenSecret(other, sealed); !errors.Is(err, seal.ErrOpen) || s.Len() != 0 {
		t.Fatalf("opens under another name: %v", err)
	}
	if _, err := k.SealSecret(strings.NewReader("x"), name(), secrettest.Of([]byte("a secret"))); err == nil {
		t.Fatal("sealed without a nonce")
	}
}
