package attestation_test

import (
	"bytes"
	"crypto/ecdh"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"cloister/attestation"
)

// testSet is a set for the share keys 6 and 7 of the operators 3 and 4; boxes are
// different every time.
func testSet(t testing.TB) *attestation.ShareSet {
	m := testManifest(t)
	s := &attestation.ShareSet{Format: 1, Deployment: hexOf(1, 32), QuorumPublicKey: m.QuorumPublicKey, Generation: 1, Random: hexOf(2, 32), Operators: m.Operators}
	s.Operators.Threshold, s.Operators.ShareKeys = 2, []string{compressed(t, fixedKey(t, 6)), compressed(t, fixedKey(t, 7))}
	for i := range 2 {
		must(t, s.Add(bytes.Repeat([]byte{byte(0x10 + i)}, attestation.ShareSize)))
	}
	return s
}

func shareKey(t testing.TB, n byte) *ecdh.PrivateKey {
	k, err := fixedKey(t, n).ECDH()
	must(t, err)
	return k
}

func TestShareSetReadsBack(t *testing.T) {
	s := testSet(t)
	raw, err := s.Encode()
	must(t, err)
	back, err := attestation.ParseShareSet(raw)
	must(t, err)
	for i := range 2 {
		share, err := back.Open(i+1, shareKey(t, byte(6+i)))
		must(t, err)
		if !bytes.Equal(share, bytes.Repeat([]byte{byte(0x10 + i)}, 32)) || !s.Holds(i+1, share) {
			t.Errorf("share %d is %x", i+1, share)
		}
		if _, err := back.Open(2-i, shareKey(t, byte(6+i))); err == nil {
			t.Error("opens another's share")
		}
	}
	for _, n := range []int{0, 3, -1} {
		if _, err := back.Open(n, shareKey(t, 6)); err == nil {
			t.Errorf("share %d opens", n)
		}
	}
	if err := back.Add(make([]byte, 32)); err == nil {
		t.Error("a share for nobody")
	}
	// Boxes and commitments are of their set: the same shares elsewhere do not fit.
	for name, change := range map[string]func(*attestation.ShareSet){
		"another deployment": func(s *attestation.ShareSet) { s.Deployment = hexOf(9, 32) },
		"another set":        func(s *attestation.ShareSet) { s.Random = hexOf(9, 32) },
		"another secret":     func(s *attestation.ShareSet) { s.QuorumPublicKey = s.QuorumPublicKey[130:] + s.QuorumPublicKey[:130] },
		"another commitment": func(s *attestation.ShareSet) { s.Shares[0].Commitment = s.Shares[1].Commitment },
		"another box":        func(s *attestation.ShareSet) { s.Shares[0].Box = s.Shares[1].Box },
	} {
		other := *back
		other.Shares = append([]attestation.Share{}, back.Shares...)
		change(&other)
		if _, err := other.Open(1, shareKey(t, 6)); err == nil {
			t.Errorf("%s: opens", name)
		}
	}
}

func TestShareSetsRefused(t *testing.T) {
	for name, change := range map[string]func(*attestation.ShareSet){
		"format 2":              func(s *attestation.ShareSet) { s.Format = 2 },
		"generation 0":          func(s *attestation.ShareSet) { s.Generation = 0 },
		"generation 2^53":       func(s *attestation.ShareSet) { s.Generation = 1 << 53 },
		"a short deployment":    func(s *attestation.ShareSet) { s.Deployment = s.Deployment[2:] },
		"no randomness":         func(s *attestation.ShareSet) { s.Random = "" },
		"half a quorum key":     func(s *attestation.ShareSet) { s.QuorumPublicKey = s.QuorumPublicKey[:130] },
		"one alone":             func(s *attestation.ShareSet) { s.Operators.Threshold = 1 },
		"no keys for shares":    func(s *attestation.ShareSet) { s.Operators.ShareKeys = nil },
		"a share missing":       func(s *attestation.ShareSet) { s.Shares = s.Shares[:1] },
		"a share too many":      func(s *attestation.ShareSet) { s.Shares = append(s.Shares, s.Shares[0]) },
		"a short box":           func(s *attestation.ShareSet) { s.Shares[0].Box = s.Shares[0].Box[2:] },
		"a box in capitals":     func(s *attestation.ShareSet) { s.Shares[0].Box = strings.ToUpper(s.Shares[0].Box) },
		"a commitment too long": func(s *attestation.ShareSet) { s.Shares[0].Commitment += "00" },
	} {
		s := testSet(t)
		change(s)
		_, err := s.Encode()
		refused(t, err, name)
	}
	good, err := testSet(t).Encode()
	must(t, err)
	for name, raw := range map[string][]byte{
		"empty": nil, "trailing": append(bytes.Clone(good), '\n'), "too long": append(bytes.Repeat([]byte(" "), attestation.MaxShareSet), good...),
		"unknown member": bytes.Replace(good, []byte(`{"format"`), []byte(`{"x":1,"format"`), 1), "a blank": bytes.Replace(good, []byte(`,"generation"`), []byte(`, "generation"`), 1),
		"member twice": bytes.Replace(good, []byte(`{"format"`), []byte(`{"format":1,"format"`), 1),
	} {
		_, err := attestation.ParseShareSet(raw)
		refused(t, err, name)
	}
}

func TestSubmissions(t *testing.T) {
	live := newMaker(t)
	s := &attestation.Setup{PublicKeyHex: live.liveHex, ManifestHash: [32]byte{1}, Nonce: [32]byte{2}}
	in, err := s.Submit([]byte("a set"), 1, make([]byte, 32), fixedKey(t, 3))
	must(t, err)
	must(t, in.Check(compressed(t, fixedKey(t, 3))))
	refused(t, in.Check(compressed(t, fixedKey(t, 4))), "another operator's")
	for name, change := range map[string]func(*attestation.ShareSubmission){
		"another place":    func(s *attestation.ShareSubmission) { s.Operator = 2 },
		"another manifest": func(s *attestation.ShareSubmission) { s.ManifestSHA256 = hexOf(9, 32) },
		"another set":      func(s *attestation.ShareSubmission) { s.ShareSetDigest = hexOf(9, 32) },
		"another nonce":    func(s *attestation.ShareSubmission) { s.Nonce = hexOf(9, 32) },
		"another box":      func(s *attestation.ShareSubmission) { s.Box = hexOf(9, 113) },
		"a short box":      func(s *attestation.ShareSubmission) { s.Box = s.Box[2:] },
		"no signature":     func(s *attestation.ShareSubmission) { s.Signature = "" },
	} {
		other := *in
		change(&other)
		refused(t, other.Check(compressed(t, fixedKey(t, 3))), name)
	}
	raw, err := json.Marshal(in)
	must(t, err)
	back, err := attestation.ParseShareSubmission(raw)
	must(t, err)
	if *back != *in {
		t.Errorf("%+v", back)
	}
	for name, raw := range map[string][]byte{"empty": nil, "trailing": append(raw, 'x'), "unknown member": []byte(`{"x":1}`), "too long": bytes.Repeat([]byte(" "), attestation.MaxSubmission+1)} {
		_, err := attestation.ParseShareSubmission(raw)
		refused(t, err, name)
	}
	if _, err := s.Submit(nil, 1, make([]byte, 32), nil); err == nil {
		t.Error("signed by nobody")
	}
	if got := string(in.Info()); got != "cloister setup share 1\n01"+strings.Repeat("00", 31)+"\n"+in.ShareSetDigest+"\n02"+strings.Repeat("00", 31)+"\n1\n" {
		t.Errorf("%q", got)
	}
}

func TestBoxes(t *testing.T) {
	key := shareKey(t, 6)
	box, err := attestation.SealToPoint(key.PublicKey().Bytes(), []byte("for this"), []byte("a secret"))
	must(t, err)
	if got, err := attestation.OpenBox(key, []byte("for this"), box); err != nil || string(got) != "a secret" {
		t.Fatalf("%q, %v", got, err)
	}
	for name, f := range map[string]func() ([]byte, error){
		"for another purpose": func() ([]byte, error) { return attestation.OpenBox(key, []byte("for that"), box) },
		"with another key":    func() ([]byte, error) { return attestation.OpenBox(shareKey(t, 7), []byte("for this"), box) },
		"with no key":         func() ([]byte, error) { return attestation.OpenBox(nil, []byte("for this"), box) },
		"cut":                 func() ([]byte, error) { return attestation.OpenBox(key, []byte("for this"), box[:80]) },
		"nothing":             func() ([]byte, error) { return attestation.OpenBox(key, []byte("for this"), nil) },
	} {
		if got, err := f(); err == nil || got != nil {
			t.Errorf("%s: opens", name)
		}
	}
	if _, err := attestation.SealToPoint(make([]byte, 65), nil, nil); err == nil {
		t.Error("sealed to no point")
	}
	if _, err := attestation.SealTo(hex.EncodeToString(make([]byte, 130)), nil, nil); err == nil {
		t.Error("sealed to no key")
	}
}

func FuzzShareSet(f *testing.F) {
	raw, err := testSet(f).Encode()
	must(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := attestation.ParseShareSet(b)
		if err != nil {
			return
		}
		again, err := s.Encode()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("an accepted set is not its own encoding: %v", err)
		}
	})
}

func FuzzShareSubmission(f *testing.F) {
	f.Add([]byte(`{"operator":1,"manifestSha256":"","shareSetDigest":"","nonce":"","box":"","signature":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := attestation.ParseShareSubmission(b); err == nil {
			_ = s.Check(compressed(t, fixedKey(t, 3)))
		}
	})
}

func TestSetupAnswersRefused(t *testing.T) {
	for name, raw := range map[string][]byte{"empty": nil, "unknown member": []byte(`{"x":1}`), "twice": []byte(`{"document":"","document":""}`), "trailing": []byte(`{} x`)} {
		_, err := attestation.ParseSetupAnswer(raw)
		refused(t, err, name)
	}
}
