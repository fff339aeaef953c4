package boot_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/enclave/internal/shamir"
)

var (
	qBytes     = bytes.Repeat([]byte{7}, boot.SecretSize)
	q          = secrettest.Of(qBytes)
	deployment = sha256.Sum256([]byte("a deployment"))
)

func newKeyring(tb testing.TB) *boot.Keyring {
	tb.Helper()
	k, err := boot.NewKeyring(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// plain is a keyring as it can be compared: its epoch and its keys by their names.
func plain(k *boot.Keyring) map[string]string {
	all := map[string]string{"epoch": strconv.Itoa(int(k.Epoch))}
	v := reflect.ValueOf(*k)
	for i := range v.NumField() {
		if key, ok := v.Field(i).Interface().(secret.Secret); ok && key.Len() > 0 {
			all[v.Type().Field(i).Name] = hex.EncodeToString(secrettest.Bytes(key))
		}
	}
	return all
}

func same(k, l *boot.Keyring) bool { return maps.Equal(plain(k), plain(l)) }

// stream is randomness that is the same every time.
type stream struct{ n byte }

func (s *stream) Read(b []byte) (int, error) {
	for i := range b {
		s.n++
		b[i] = s.n
	}
	return len(b), nil
}

func TestKeysAreIndependent(t *testing.T) {
	k, l := newKeyring(t), newKeyring(t)
	seen := map[string]string{strings.Repeat("00", boot.SecretSize): "nothing"}
	for _, ring := range []*boot.Keyring{k, l} {
		for name, key := range plain(ring) {
			if name == "epoch" {
				continue
			}
			if other, twice := seen[key]; twice || len(key) != 2*boot.SecretSize {
				t.Errorf("%s is %s", name, other)
			}
			seen[key] = name
		}
	}
	if len(seen) != 1+2*11 || k.Epoch != 1 {
		t.Fatalf("%d keys, epoch %d", len(seen)-1, k.Epoch)
	}
}

func TestNewKeyringNeedsRandomness(t *testing.T) {
	for n := range 11 * boot.SecretSize {
		if _, err := boot.NewKeyring(io.LimitReader(rand.Reader, int64(n))); err == nil {
			t.Fatalf("a keyring of %d bytes of randomness", n)
		}
	}
	for _, fill := range []byte{0, 0xff} { // no scalar of the curve
		if _, err := boot.NewKeyring(constant(fill)); err == nil {
			t.Fatalf("a keyring of bytes %x", fill)
		}
	}
}

type constant byte

func (c constant) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(c)
	}
	return len(b), nil
}

func TestWrapAndUnwrap(t *testing.T) {
	k := newKeyring(t)
	sealed, err := k.Wrap(rand.Reader, q, deployment)
	if err != nil {
		t.Fatal(err)
	}
	got, err := boot.Unwrap(q, deployment, sealed)
	if err != nil || !same(got, k) {
		t.Fatalf("another keyring comes back: %v", err)
	}
	for _, key := range []secret.Secret{k.Storage, k.Signer, k.Log} {
		if bytes.Contains(sealed, secrettest.Bytes(key)) {
			t.Fatal("a key stands readable")
		}
	}
	again, err := k.Wrap(rand.Reader, q, deployment)
	if err != nil || bytes.Equal(again, sealed) {
		t.Fatal("wrapped twice alike")
	}
}

// The storage key rotates alone, one step at a time, and what is kept of the one
// before goes when it is forgotten.
func TestStorageKeyRotates(t *testing.T) {
	k := newKeyring(t)
	first := plain(k)
	if err := k.ForgetStorage(); err == nil || !maps.Equal(plain(k), first) {
		t.Fatal("forgot what is not there")
	}
	if err := k.RotateStorage(io.LimitReader(rand.Reader, boot.SecretSize-1)); err == nil {
		t.Fatal("a storage key without randomness")
	}
	if !maps.Equal(plain(k), first) {
		t.Fatal("something changed")
	}
	if err := k.RotateStorage(rand.Reader); err != nil {
		t.Fatal(err)
	}
	rest := plain(k)
	if rest["Before"] != first["Storage"] || rest["Storage"] == first["Storage"] || k.Epoch != 2 {
		t.Fatalf("epoch %d", k.Epoch)
	}
	delete(rest, "Before")
	rest["Storage"], rest["epoch"] = first["Storage"], first["epoch"]
	if !maps.Equal(rest, first) {
		t.Fatal("another key changed")
	}
	if err := k.RotateStorage(rand.Reader); err == nil {
		t.Fatal("rotated while a key before is kept")
	}
	sealed, err := k.Wrap(rand.Reader, q, deployment)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := boot.Unwrap(q, deployment, sealed); err != nil || !same(got, k) {
		t.Fatalf("another keyring comes back: %v", err)
	}
	if err := k.ForgetStorage(); err != nil || k.Before.Len() != 0 || k.Epoch != 3 {
		t.Fatal(err)
	}
}

// What older keyrings were wrapped as must open for ever, and the other way round: the
// same keys are the same bytes.
func TestWrappedFormIsFixed(t *testing.T) {
	k, err := boot.NewKeyring(&stream{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		sealed, err := k.Wrap(&stream{}, q, deployment)
		if sum := sha256.Sum256(sealed); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%x, %v", sum, err)
		}
	}
	check("0d724b703d68b1b6db241a4a2fc97c031eb1da3e47766016496a42a5d3ca1c31")
	if err := k.RotateStorage(&stream{9}); err != nil {
		t.Fatal(err)
	}
	check("e438ea48072c3ed6449b2cfc916d1919fdde2160a0727667743c3157bfc0e063")
}

func TestUnwrapRefuses(t *testing.T) {
	k := newKeyring(t)
	sealed, err := k.Wrap(rand.Reader, q, deployment)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string, q secret.Secret, d [32]byte, sealed []byte) {
		t.Helper()
		if got, err := boot.Unwrap(q, d, sealed); err == nil || got != nil {
			t.Errorf("%s: opens", what)
		}
	}
	for i := range qBytes {
		other := bytes.Clone(qBytes)
		other[i] ^= 1
		refuse("another root secret", secrettest.Of(other), deployment, sealed)
	}
	refuse("no root secret", secret.Secret{}, deployment, sealed)
	refuse("half of the root secret", secrettest.Of(qBytes[:16]), deployment, sealed)
	for i := range deployment {
		other := deployment
		other[i] ^= 1
		refuse("another deployment", q, other, sealed)
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		refuse("a flipped bit", q, deployment, bad)
		refuse("cut short", q, deployment, sealed[:i])
	}
	refuse("bytes behind", q, deployment, append(bytes.Clone(sealed), 0))
	empty := new(boot.Keyring)
	if sealed, err = empty.Wrap(rand.Reader, q, deployment); err != nil {
		t.Fatal(err)
	}
	refuse("a keyring without an epoch", q, deployment, sealed)
}

func TestWipe(t *testing.T) {
	k := newKeyring(t)
	key := k.Storage
	if k.Wipe(); !same(k, new(boot.Keyring)) || key.Len() != 0 {
		t.Fatal("something is left")
	}
	if _, err := k.Public(); err == nil {
		t.Fatal("a wiped keyring has public keys")
	}
}

// A keyring and what stands beside it print nothing and have no encoding.
func TestNothingIsPrinted(t *testing.T) {
	k := newKeyring(t)
	parts, err := shamir.Split(rand.Reader, q, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	open, _, err := boot.NewOpener(k.Session)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{"q": hex.EncodeToString(qBytes), "a share": hex.EncodeToString(secrettest.Bytes(parts[0].Y))}
	maps.Copy(known, plain(k))
	delete(known, "epoch")
	all := struct {
		k      *boot.Keyring
		ring   boot.Keyring
		parts  []shamir.Part
		factor *boot.Factor
		open   boot.Opener
		q      secret.Secret
	}{k, *k, parts, &boot.Factor{Key: q}, open, q}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"} {
		for _, x := range []any{all, &all, k, *k, parts, all.factor} {
			text := fmt.Sprintf(verb, x)
			for name, key := range known {
				b, err := hex.DecodeString(key)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(text, string(b)) || strings.Contains(strings.ToLower(text), key) || strings.Contains(text, fmt.Sprint(b)[1:20]) {
					t.Errorf("%s prints %s", verb, name)
				}
			}
		}
	}
	for _, x := range []any{k, parts[0], boot.Factor{Key: q}} {
		if b, err := json.Marshal(x); err == nil {
			t.Errorf("encoded as %s", b)
		}
		if b, err := cbor.Marshal(x); err == nil {
			t.Errorf("encoded as %x", b)
		}
	}
}

func TestPublicTexts(t *testing.T) {
	k := newKeyring(t)
	p, err := k.Public()
	if err != nil {
		t.Fatal(err)
	}
	point := func(key secret.Secret) (plain, short string) {
		s, err := ecdh.P256().NewPrivateKey(secrettest.Bytes(key))
		if err != nil {
			t.Fatal(err)
		}
		b := s.PublicKey().Bytes()
		return hex.EncodeToString(b), hex.EncodeToString(append([]byte{2 + b[64]&1}, b[1:33]...))
	}
	signer, _ := point(k.Signer)
	encrypt, _ := point(k.SignerEncrypt)
	session, _ := point(k.Session)
	otp, _ := point(k.Token)
	fetcher, _ := point(k.FetcherSecret)
	_, legacy := point(k.TokenLegacy)
	_, onRamp := point(k.OnRamp)
	want := boot.PublicKeys{Signer: signer, SignerPair: encrypt + signer, Session: session, OTP: otp, OTPLegacy: legacy, FetcherEncrypt: fetcher, OnRamp: onRamp}
	if p != want {
		t.Fatalf("got  %+v\nwant %+v", p, want)
	}
	sizes := map[string]int{"Signer": 65, "Session": 65, "OTP": 65, "FetcherEncrypt": 65, "OnRamp": 33, "OTPLegacy": 33, "SignerPair": 130}
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		field, text := v.Type().Field(i).Name, v.Field(i).String()
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != sizes[field] || text != strings.ToLower(text) {
			t.Errorf("%s is %q", field, text)
			continue
		}
		if len(b) == 33 {
			if x, _ := elliptic.UnmarshalCompressed(elliptic.P256(), b); x == nil {
				t.Errorf("%s is not on the curve", field)
			}
		} else if _, err := ecdh.P256().NewPublicKey(b[:65]); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestGenesis(t *testing.T) {
	record, err := boot.NewGenesis(rand.Reader, q, 1234567890123, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := boot.ParseGenesis(record)
	if err != nil || g.Format != 3 || !g.Logged() || g.CreatedMs != 1234567890123 {
		t.Fatalf("%+v, %v", g, err)
	}
	if pub, err := boot.QuorumPublicKey(q); err != nil || !bytes.Equal(pub, g.Quorum) || len(pub) != 130 {
		t.Fatalf("quorum key of %d bytes, %v", len(pub), err)
	}
	if boot.Deployment(record) != sha256.Sum256(record) {
		t.Fatal("the deployment is not the record's hash")
	}
	again, err := boot.NewGenesis(rand.Reader, q, 1234567890123, 1)
	if err != nil || boot.Deployment(again) == boot.Deployment(record) {
		t.Fatal("two deployments of one root secret have one name")
	}
	if _, err := boot.NewGenesis(io.LimitReader(rand.Reader, 31), q, 1, 1); err == nil {
		t.Fatal("a genesis without randomness")
	}
}

// The genesis encoding and the quorum key's derivation name every deployment
// that there is.
func TestGenesisIsFixed(t *testing.T) {
	record, err := boot.NewGenesis(&stream{}, q, 1700000000000, 1)
	if err != nil {
		t.Fatal(err)
	}
	const want, earlier = "eadc024060b7bd512573c10190d24f2170a012a6753adb3adf28abafed5dfe16", "44b6786375cc4780835323a211045ce832a81ea0a83998627ea01f047f1063e9"
	if d := boot.Deployment(record); hex.EncodeToString(d[:]) != want {
		t.Fatalf("deployment %x of record %x", d, record)
	}
	record = formatOne(record)
	if d := boot.Deployment(record); hex.EncodeToString(d[:]) != earlier {
		t.Fatalf("deployment %x of record %x", d, record)
	}
	if g, err := boot.ParseGenesis(record); err != nil || g.Logged() || g.Ranges != 1 {
		t.Fatalf("%+v, %v", g, err)
	}
}

// formatOne is a record of one range as releases before logs made it.
func formatOne(record []byte) []byte {
	b := bytes.Clone(record[:len(record)-2]) // without ranges, the last member
	b[0]--
	b[2] = 1
	return b
}

func TestGenesisOfRanges(t *testing.T) {
	for _, n := range []int{1, 2, 16, boot.MaxRanges} {
		record, err := boot.NewGenesis(&stream{}, q, 1700000000000, n)
		if err != nil {
			t.Fatal(err)
		}
		if g, err := boot.ParseGenesis(record); err != nil || g.Format != 3 || int(g.Ranges) != n {
			t.Fatalf("%d ranges: %+v, %v", n, g, err)
		}
		earlier := bytes.Clone(record)
		earlier[2] = 2
		if g, err := boot.ParseGenesis(earlier); (err == nil) != (n > 1) || err == nil && (g.Logged() || int(g.Ranges) != n) {
			t.Fatalf("%d ranges before logs: %+v, %v", n, g, err)
		}
	}
	for _, n := range []int{-1, 0, boot.MaxRanges + 1, 256} {
		if _, err := boot.NewGenesis(&stream{}, q, 1700000000000, n); err == nil {
			t.Errorf("a deployment of %d ranges", n)
		}
	}
}

func TestQuorumPublicKey(t *testing.T) {
	one, err := boot.QuorumPublicKey(q)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(one[:65], one[65:]) {
		t.Fatal("one key for two uses")
	}
	for _, half := range [][]byte{one[:65], one[65:]} {
		if _, err := ecdh.P256().NewPublicKey(half); err != nil {
			t.Fatal(err)
		}
	}
	other := bytes.Clone(qBytes)
	other[31] ^= 1
	if two, err := boot.QuorumPublicKey(secrettest.Of(other)); err != nil || bytes.Equal(one, two) {
		t.Fatal("two root secrets with one public key")
	}
}

func TestParseGenesisRefuses(t *testing.T) {
	record, err := boot.NewGenesis(&stream{}, q, 1700000000000, 1)
	if err != nil {
		t.Fatal(err)
	}
	record = formatOne(record)
	refuse := func(what string, b []byte) {
		t.Helper()
		if g, err := boot.ParseGenesis(b); err == nil || g != nil {
			t.Errorf("%s: parses", what)
		}
	}
	for n := range record {
		refuse("cut short", record[:n])
	}
	refuse("bytes behind", append(bytes.Clone(record), 0))
	edit := func(what string, f func([]byte) []byte) { t.Helper(); refuse(what, f(bytes.Clone(record))) }
	edit("another format", func(b []byte) []byte { b[2] = 2; return b })
	edit("format 3 without ranges", func(b []byte) []byte { b[2] = 3; return b })
	edit("format 4", func(b []byte) []byte { b[0]++; b[2] = 4; return append(b, 5, 1) })
	edit("ranges in format 1", func(b []byte) []byte { b[0]++; return append(b, 5, 2) })
	for n, last := range map[string][]byte{"one range": {5, 1}, "no range": {5, 0}, "too many ranges": {5, 0x18, 65}, "ranges in a long form": {5, 0x18, 16}} {
		edit(n, func(b []byte) []byte { b[0]++; b[2] = 2; return append(b, last...) })
	}
	edit("five fields", func(b []byte) []byte { b[0]++; return append(b, 5, 0) })
	edit("a key twice", func(b []byte) []byte { b[0]++; return append(b, 1, 1) })
	edit("three fields", func(b []byte) []byte { b[0]--; return b[:len(b)-35] })
	edit("keys out of order", func(b []byte) []byte { return append([]byte{b[0]}, append(bytes.Clone(b[3:]), 1, 1)...) })
	edit("a long form of a number", func(b []byte) []byte { return append([]byte{b[0], 1, 0x18, 1}, b[3:]...) })
	edit("a short random", func(b []byte) []byte { b[len(b)-33]--; return b[:len(b)-1] })
	edit("a long random", func(b []byte) []byte { b[len(b)-33]++; return append(b, 1) })
	edit("an indefinite map", func(b []byte) []byte { b[0] = 0xbf; return append(b, 0xff) })
	edit("a tag", func(b []byte) []byte { return append([]byte{0xd9, 0xd9, 0xf7}, b...) })
	refuse("an array", []byte{0x84, 1, 1, 0x40, 0x40})
	refuse("no quorum key", []byte{0xa4, 1, 1, 2, 1, 3, 0x40, 4, 0x40})
	refuse("nothing", nil)
}

func FuzzParseGenesis(f *testing.F) {
	record, err := boot.NewGenesis(&stream{}, q, 1700000000000, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(record)
	f.Add(record[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := boot.ParseGenesis(b)
		if (err == nil) != (g != nil) {
			t.Fatal("neither a record nor a refusal")
		}
		if g != nil && (g.Format < 1 || g.Format > 3 || g.Ranges < 1 || len(g.Quorum) != 130) {
			t.Fatalf("accepted %+v", g)
		}
	})
}

func FuzzUnwrap(f *testing.F) {
	k, err := boot.NewKeyring(&stream{})
	if err != nil {
		f.Fatal(err)
	}
	good, err := k.Wrap(&stream{}, q, deployment)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := boot.Unwrap(q, deployment, b); (err == nil) != bytes.Equal(b, good) {
			t.Fatalf("%x: %v", b, err)
		}
	})
}
