package spark_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/spark"
)

type commitment struct{ ID, Hiding, Binding string }

// vectors are of Spark's own software: see testdata/README.md.
var vectors struct {
	User  string
	Frost []struct {
		Key, D, E, Message, VerifyingKey, Adaptor, Share string
		commitment
		Operators []commitment
	}
	Hashes struct {
		TransferID, Transfer string
		Packages             map[string]string
	}
	Packages struct{ Send, Claim, Share string }
}

func TestMain(m *testing.M) {
	b, err := os.ReadFile("testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(b, &vectors)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func key(t *testing.T, text string) chain.PublicKey {
	t.Helper()
	k, err := chain.NewPublicKey(chain.Secp256k1, unhex(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func scalar(t *testing.T, text string) (n spark.Scalar) {
	n.SetByteSlice(unhex(t, text))
	return n
}

func public(n *spark.Scalar) string {
	return hex.EncodeToString(secp256k1.NewPrivateKey(n).PubKey().SerializeCompressed())
}

// signing is a vector's, with the share that Spark's software has made.
func signing(t *testing.T, i int) (*spark.Signing, *spark.Share) {
	v := &vectors.Frost[i]
	s := &spark.Signing{Message: [32]byte(unhex(t, v.Message)), VerifyingKey: key(t, v.VerifyingKey)}
	for _, o := range v.Operators {
		s.Operators = append(s.Operators, spark.Commitment{ID: [32]byte(unhex(t, o.ID)), Hiding: key(t, o.Hiding), Binding: key(t, o.Binding)})
	}
	if v.Adaptor != "" {
		s.Adaptor = key(t, v.Adaptor)
	}
	return s, &spark.Share{Share: [32]byte(unhex(t, v.Share)), Hiding: key(t, v.Hiding), Binding: key(t, v.Binding)}
}

func TestSharesOfSparksSoftware(t *testing.T) {
	if got := hex.EncodeToString(spark.UserID[:]); got != vectors.User {
		t.Errorf("the user is %s, want %s", got, vectors.User)
	}
	seen := map[[3]bool]bool{}
	for i, v := range vectors.Frost {
		s, made := signing(t, i)
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		terms, err := s.Terms(made.Hiding, made.Binding)
		if err != nil {
			t.Fatal(err)
		}
		secret, d, e := scalar(t, v.Key), scalar(t, v.D), scalar(t, v.E)
		user := key(t, public(&secret))
		e.Mul(&terms.Binding).Add(&d)
		if terms.NegateNonces {
			e.Negate()
		}
		if terms.NegateKey {
			secret.Negate()
		}
		secret.Mul(&terms.Challenge).Add(&e)
		if got := secret.Bytes(); got != made.Share {
			t.Errorf("share %d is %x, want %s", i, got, v.Share)
		}
		if !s.Verify(user, made) {
			t.Errorf("share %d does not verify", i)
		}
		seen[[3]bool{terms.NegateNonces, terms.NegateKey, v.Adaptor != ""}] = true
	}
	if len(seen) != 8 {
		t.Errorf("the vectors have %d of 8 cases", len(seen))
	}
}

// What a share is bound to: another value of anything, and it is nobody's share, or not this user's.
func TestShareIsOfOneSigning(t *testing.T) {
	for i, v := range vectors.Frost {
		secret := scalar(t, v.Key)
		user := key(t, public(&secret))
		_, whole := signing(t, i)
		for name, change := range map[string]func(*spark.Signing, *spark.Share){
			"message":   func(s *spark.Signing, _ *spark.Share) { s.Message[31] ^= 1 },
			"key":       func(s *spark.Signing, _ *spark.Share) { s.VerifyingKey = s.Operators[0].Hiding },
			"id":        func(s *spark.Signing, _ *spark.Share) { s.Operators[0].ID[31] ^= 0x40 },
			"hiding":    func(s *spark.Signing, _ *spark.Share) { s.Operators[0].Hiding = whole.Hiding },
			"binding":   func(s *spark.Signing, _ *spark.Share) { s.Operators[0].Binding = whole.Hiding },
			"swapped":   func(s *spark.Signing, r *spark.Share) { r.Hiding, r.Binding = r.Binding, r.Hiding },
			"adaptor":   func(s *spark.Signing, _ *spark.Share) { s.Adaptor = whole.Binding },
			"share":     func(_ *spark.Signing, r *spark.Share) { r.Share[31] ^= 1 },
			"too large": func(_ *spark.Signing, r *spark.Share) { r.Share = [32]byte(bytes.Repeat([]byte{0xff}, 32)) },
			"operator": func(s *spark.Signing, _ *spark.Share) {
				s.Operators = append(s.Operators, spark.Commitment{ID: [32]byte{31: 99}, Hiding: whole.Hiding, Binding: whole.Binding})
			},
		} {
			s, made := signing(t, i)
			before := s.Context()
			change(s, made)
			if s.Verify(user, made) {
				t.Errorf("%d: the share of another %s verifies", i, name)
			}
			if ours := *made == *whole; ours && bytes.Equal(s.Context(), before) {
				t.Errorf("%d: the context does not tell another %s", i, name)
			}
		}
		s, made := signing(t, i)
		before := s.Context()
		slices.Reverse(s.Operators)
		if !s.Verify(user, made) || !bytes.Equal(s.Context(), before) {
			t.Errorf("%d: the order of the operators counts", i)
		}
		other := made.Hiding
		if s.Verify(other, made) {
			t.Errorf("%d: the share verifies under another key", i)
		}
	}
}

func TestIdentifiers(t *testing.T) {
	s, _ := signing(t, 4)
	for name, c := range map[string]struct {
		change func()
		says   string
	}{
		"zero":      {func() { s.Operators[1].ID = [32]byte{} }, "from 1 to the order"},
		"too large": {func() { s.Operators[1].ID = [32]byte(bytes.Repeat([]byte{0xff}, 32)) }, "from 1 to the order"},
		"user's":    {func() { s.Operators[1].ID = spark.UserID }, "id of the user"},
		"double":    {func() { s.Operators[1].ID = s.Operators[0].ID }, "the same id"},
		"none":      {func() { s.Operators = nil }, "must be an operator"},
	} {
		s, _ = signing(t, 4)
		c.change()
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The adaptor is no part of the binding factors: whoever chooses it last can take the rest of R away.
func TestAdaptorThatCancelsOut(t *testing.T) {
	s, made := signing(t, 0)
	s.Adaptor = chain.PublicKey{}
	v := vectors.Frost[0]
	of := func(id [32]byte) *spark.Scalar { // the binding factor, from the user's own terms
		other := *s
		other.Operators = slices.Clone(s.Operators)
		all := append(other.Operators, spark.Commitment{ID: spark.UserID, Hiding: made.Hiding, Binding: made.Binding})
		slices.SortFunc(all, func(a, b spark.Commitment) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		const suite = "FROST-secp256k1-SHA256-TR-v1"
		x, _ := s.VerifyingKey.Taproot()
		message := sha256.Sum256(append([]byte(suite+"msg"), s.Message[:]...))
		list := []byte(suite + "com")
		for _, c := range all {
			list = slices.Concat(list, c.ID[:], c.Hiding.Compressed(), c.Binding.Compressed())
		}
		sum := sha256.Sum256(list)
		n := spark.HashToScalar(suite+"rho", []byte{2}, x[:], message[:], sum[:], id[:])
		return &n
	}
	d, e := scalar(t, v.D), scalar(t, v.E)
	// One operator, whose nonces are 1 and 2.
	one, two := new(spark.Scalar).SetInt(1), new(spark.Scalar).SetInt(2)
	s.Operators = []spark.Commitment{{ID: [32]byte{31: 1}, Hiding: key(t, public(one)), Binding: key(t, public(two))}}
	rest := e.Mul(of(spark.UserID)).Add(&d).Add(one).Add(two.Mul(of(s.Operators[0].ID))).Negate()
	if _, err := s.Terms(made.Hiding, made.Binding); err != nil {
		t.Error(err)
	}
	s.Adaptor = key(t, public(rest))
	if _, err := s.Terms(made.Hiding, made.Binding); err != spark.ErrNoSignature {
		t.Errorf("a signature over no nonce: %v", err)
	}
	if s.Verify(made.Hiding, made) {
		t.Error("and it verifies")
	}
}

func TestPaths(t *testing.T) {
	a, ok := spark.ParseAccount("m/8797555'/7'/0'")
	if !ok || a.Identity() != "m/8797555'/7'/0'" || a.Deposit() != "m/8797555'/7'/2'" || a.StaticDeposit(5) != "m/8797555'/7'/3'/5'" {
		t.Errorf("%q %v", a, ok)
	}
	for _, path := range []string{"", "m", "m/8797555'", "m/8797555'/0'", "m/8797555'/0'/1'", "m/8797555'/0'/0", "m/8797555'/0/0'", "m/8797555/0'/0'", "m/8797555'/00'/0'",
		"m/8797555'/+1'/0'", "m/8797555'/'/0'", "m/8797555'/2147483648'/0'", "m/8797555'/0'/0'/0'", "m/8797555'/0'/0'/", "m/44'/0'/0'"} {
		if a, ok := spark.ParseAccount(path); ok {
			t.Errorf("%s is account %s", path, a)
		}
	}
}

func TestPackagesOfSparksSoftware(t *testing.T) {
	h := &vectors.Hashes
	var packages []spark.Entry
	for operator, text := range h.Packages {
		packages = append(packages, spark.Entry{Operator: operator, Value: unhex(t, text)})
	}
	id := [16]byte(unhex(t, strings.ReplaceAll(h.TransferID, "-", "")))
	if got := spark.PackageHash(id, packages); hex.EncodeToString(got[:]) != h.Transfer {
		t.Errorf("the packages hash to %x", got)
	}
	packages[0].Value = append(packages[0].Value, 0)
	if got := spark.PackageHash(id, packages); hex.EncodeToString(got[:]) == h.Transfer {
		t.Error("other packages have the same hash")
	}
	fill := func(n int, b byte) []byte { return bytes.Repeat([]byte{b}, n) }
	tweak := spark.LeafTweak{ID: "leaf", Share: spark.SecretShare{Share: fill(32, 9), Proofs: [][]byte{fill(33, 2), fill(33, 3)}},
		Shares: []spark.Entry{{Operator: "b", Value: fill(33, 4)}, {Operator: "a", Value: fill(33, 5)}}}
	if got := hex.EncodeToString(spark.AppendLeafTweaks(nil, []spark.LeafTweak{tweak})); got != vectors.Packages.Claim {
		t.Errorf("a claim is %s", got)
	}
	if got := hex.EncodeToString(spark.AppendSecretShare(nil, &tweak.Share)); got != vectors.Packages.Share {
		t.Errorf("a share is %s", got)
	}
	tweak.Cipher, tweak.Signature, tweak.Refunds = fill(129, 6), fill(64, 7), [3][]byte{fill(64, 8), nil, fill(64, 10)}
	long := tweak
	long.ID = strings.Repeat("m", 200)
	if got := hex.EncodeToString(spark.AppendLeafTweaks(nil, []spark.LeafTweak{tweak, long})); got != vectors.Packages.Send {
		t.Errorf("a transfer is %s", got)
	}
}
