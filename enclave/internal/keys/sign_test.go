package keys_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	dcr "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/policy"
)

// granted holds a grant of the policies for an action on keys of tests.
func granted(t testing.TB, action string, ks ...policy.Key) *keys.Holder {
	t.Helper()
	user, activity := [16]byte{1}, [16]byte{15: 7}
	d, err := policy.Decide(policy.State{RootUsers: [][16]byte{user}, Threshold: 1},
		policy.Request{Organization: keys.Owner, Activity: activity, Action: action, Keys: ks, Approvals: []policy.Approval{{User: user}}})
	if err != nil || d.Grant == nil {
		t.Fatalf("no grant: %v", err)
	}
	return &keys.Holder{Grant: d.Grant, Organization: keys.Owner, Activity: activity}
}

// signs holds a grant to sign with a key.
func signs(t testing.TB, k *keys.PrivateKey) *keys.Holder {
	t.Helper()
	return granted(t, keys.ActionSign, k.Key())
}

// spent tells whether the holder's grant is.
func spent(h *keys.Holder, action string) bool {
	return h.Grant.Allows(policy.Use{Organization: h.Organization, Activity: h.Activity, Action: action}) != nil
}

// verify checks a signature with libraries that did not make it, recovery id
// included.
func verify(t testing.TB, p chain.PublicKey, message []byte, s keys.Signature) bool {
	t.Helper()
	switch p.Curve() {
	case chain.Secp256k1:
		compact := append([]byte{27 + 4 + s.V}, append(s.R[:], s.S[:]...)...)
		k, _, err := dcr.RecoverCompact(compact, message)
		var r, ss secp256k1.ModNScalar
		r.SetBytes(&s.R)
		over := ss.SetBytes(&s.S)
		return err == nil && over == 0 && !ss.IsOverHalfOrder() && bytes.Equal(k.SerializeUncompressed(), p.Bytes()) &&
			dcr.NewSignature(&r, &ss).Verify(message, k)
	case chain.P256:
		return verifyP256(t, p, message, s)
	}
	return s.V == 0 && ed25519.Verify(p.Bytes(), message, append(s.R[:], s.S[:]...))
}

type rawSigning struct {
	Vectors []struct {
		Name, Curve, Payload, Encoding, HashFunction string
		PrivateKey                                   string `json:"private_key"`
		Signed                                       string `json:"signed_bytes_hex"`
		Result                                       struct{ R, S, V string }
	}
}

// one is the only signature.
func one(sigs []keys.Signature, err error) (s keys.Signature, _ error) {
	if len(sigs) == 1 {
		s = sigs[0]
	}
	return s, err
}

func ofDigest(digest []byte) chain.Digest { return chain.Digest{Scheme: chain.ECDSA, Message: digest} }

func eddsa(messages ...[]byte) (ds []chain.Digest) {
	for _, m := range messages {
		ds = append(ds, chain.Digest{Scheme: chain.EdDSA, Message: m})
	}
	return ds
}

// request goes the way of a request: decode, then sign with a grant.
func request(t testing.TB, k *keys.PrivateKey, encoding, hash, payload string) (message []byte, s keys.Signature, err error) {
	t.Helper()
	b, err := keys.DecodePayload(encoding, payload)
	if err != nil {
		return nil, s, err
	}
	h, err := keys.ParseHashFunction(hash)
	if err != nil {
		return nil, s, err
	}
	if message, err = keys.Digest(k.Curve(), h, b); err != nil {
		return nil, s, err
	}
	s, err = one(signs(t, k).Sign(k, chain.Digest{Scheme: chain.SchemeOf(0, k.Curve()), Message: message}))
	return message, s, err
}

func TestRawSigningVectors(t *testing.T) {
	var f rawSigning
	load(t, "testdata/raw_signing.json", &f)
	curves := map[string]chain.Curve{"secp256k1": chain.Secp256k1, "p256": chain.P256, "ed25519": chain.Ed25519}
	done, flipped := 0, 0
	for _, v := range f.Vectors {
		c, ok := curves[v.Curve]
		if !ok { // BIP-340: by address, see activity
			continue
		}
		k, err := keys.PrivateKeyFromSecret(c, mustSecret(t, unhex(t, v.PrivateKey)))
		if err != nil {
			t.Fatal(err)
		}
		message, s, err := request(t, k, v.Encoding, v.HashFunction, v.Payload)
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		r, ss, vv := s.Texts()
		if hex.EncodeToString(message) != v.Signed || r != v.Result.R || ss != v.Result.S || vv != v.Result.V {
			t.Errorf("%s: %s %s %s", v.Name, r, ss, vv)
		}
		if !verify(t, k.Public(), message, s) {
			t.Errorf("%s: does not verify", v.Name)
		}
		flipped += flips(t, v.Name, k.Public(), message, s)
		done++
	}
	if done != 12 {
		t.Errorf("%d vectors done", done)
	}
	t.Logf("%d vectors equal byte for byte and verified, %d flipped bytes refused", done, flipped)
}

// flips alters each byte of the message, of r, s and v in turn; all must fail.
func flips(t *testing.T, name string, p chain.PublicKey, message []byte, s keys.Signature) (n int) {
	t.Helper()
	for i := range message {
		m := bytes.Clone(message)
		m[i] ^= 1
		if verify(t, p, m, s) {
			t.Errorf("%s: message byte %d may be flipped", name, i)
		}
		n++
	}
	for i := range 65 {
		a := s
		switch {
		case i < 32:
			a.R[i] ^= 1
		case i < 64:
			a.S[i-32] ^= 1
		default:
			a.V ^= 1
		}
		if verify(t, p, message, a) {
			t.Errorf("%s: signature byte %d may be flipped", name, i)
		}
		n++
	}
	return n
}

// TestAgainstLibrary holds our signatures against decred's own signing function, and
// a digest above the order against verification.
func TestAgainstLibrary(t *testing.T) {
	for i := range 500 {
		raw, digest := make([]byte, 32), make([]byte, 32)
		rand.Read(raw)
		rand.Read(digest)
		k, err := keys.PrivateKeyFromSecret(chain.Secp256k1, mustSecret(t, raw))
		if err != nil {
			t.Fatal(err)
		}
		s, err := one(signs(t, k).Sign(k, ofDigest(digest)))
		if err != nil {
			t.Fatal(err)
		}
		want := dcr.SignCompact(secp256k1.PrivKeyFromBytes(raw), digest, false)
		if got := append([]byte{27 + s.V}, append(s.R[:], s.S[:]...)...); !bytes.Equal(got, want) {
			t.Fatalf("%d: %x, want %x", i, got, want)
		}
	}
	for _, c := range []chain.Curve{chain.Secp256k1, chain.P256} {
		ids := [2]int{}
		for i := range 60 {
			k, err := keys.GeneratePrivateKey(rand.Reader, c)
			if err != nil {
				t.Fatal(err)
			}
			digest := bytes.Repeat([]byte{[]byte{0, 255}[i%2]}, 32)
			s, err := one(signs(t, k).Sign(k, ofDigest(digest)))
			if err != nil || !verify(t, k.Public(), digest, s) {
				t.Fatalf("%v, digest %x…: %v", c, digest[0], err)
			}
			ids[s.V]++
		}
		if ids[0] == 0 || ids[1] == 0 {
			t.Errorf("%v: recovery ids %v", c, ids)
		}
	}
}

// TestRFC6979 is appendix A.2.5 of the RFC, for P-256 with SHA-256, whose s is
// brought to its lower form.
func TestRFC6979(t *testing.T) {
	x := "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"
	for message, want := range map[string][2]string{
		"sample": {"efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716", "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"},
		"test":   {"f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367", "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083"},
	} {
		k, err := keys.PrivateKeyFromSecret(chain.P256, mustSecret(t, unhex(t, x)))
		if err != nil {
			t.Fatal(err)
		}
		_, s, err := request(t, k, "PAYLOAD_ENCODING_TEXT_UTF8", "HASH_FUNCTION_SHA256", message)
		if err != nil {
			t.Fatal(err)
		}
		if r, ss, _ := s.Texts(); r != want[0] || ss != lowP256(want[1]) {
			t.Errorf("%s: %s %s", message, r, ss)
		}
	}
}

func TestBatchIsAllOrNone(t *testing.T) {
	k, err := keys.GeneratePrivateKey(rand.Reader, chain.Secp256k1)
	if err != nil {
		t.Fatal(err)
	}
	good := ofDigest(make([]byte, 32))
	for name, batch := range map[string][]chain.Digest{
		"none": {}, "nil": nil, "one short": {good, ofDigest(good.Message[:31])}, "one long": {good, ofDigest(make([]byte, 33))},
		"another curve's": {good, {Scheme: chain.EdDSA, Message: good.Message}}, "no scheme": {{Message: good.Message}}, "a scheme that is none": {{Scheme: 9, Message: good.Message}},
		"too many": slices.Repeat([]chain.Digest{good}, keys.MaxDigests+1)} {
		h := signs(t, k)
		if s, err := h.Sign(k, batch...); fault.Of(err) == nil || s != nil {
			t.Errorf("%s: %d signatures, %v", name, len(s), err)
		}
		if !spent(h, keys.ActionSign) {
			t.Errorf("%s: the grant is good for another try", name)
		}
	}
	if s, err := signs(t, k).Sign(k, slices.Repeat([]chain.Digest{good}, keys.MaxBatch)...); err != nil || len(s) != keys.MaxBatch {
		t.Errorf("a full batch: %v", err)
	}
	ed, err := keys.GeneratePrivateKey(rand.Reader, chain.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	p, err := keys.GeneratePrivateKey(rand.Reader, chain.P256)
	if err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []chain.Scheme{chain.ECDSA, chain.Taproot, chain.Schnorr} {
		if _, err := signs(t, ed).Sign(ed, chain.Digest{Scheme: scheme, Message: good.Message}); fault.Of(err) == nil {
			t.Errorf("ed25519 signs by scheme %d", scheme)
		}
		if _, err := signs(t, p).Sign(p, chain.Digest{Scheme: scheme, Message: good.Message}); (fault.Of(err) == nil) != (scheme == chain.ECDSA) {
			t.Errorf("P-256 signs by scheme %d: %v", scheme, err)
		}
	}
	if _, err := signs(t, ed).Sign(ed, eddsa(make([]byte, keys.MaxPayload+1))...); fault.Of(err) == nil {
		t.Error("a message that is too large is signed")
	}
}
