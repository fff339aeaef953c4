package keys_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	chacha "math/rand/v2"
	"os"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/spark"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// sparkVectors are of Spark's own software: see the README beside them.
type sparkVectors struct {
	Frost []struct {
		Key, D, E, Message, VerifyingKey, Adaptor, Share string
		Operators                                        []struct{ ID, Hiding, Binding string }
	}
	Ecies  []struct{ Key, Plain, Sealed string }
	Shares []struct {
		Secret    string
		Threshold int
		Shares    []struct {
			Index  uint32
			Share  string
			Proofs []string
		}
	}
	Keys struct {
		Mnemonic string
		Accounts []struct {
			Account           int
			Identity, Deposit string
			Statics           []string
			Leaves            map[string]string
		}
	}
}

func readSparkVectors(t *testing.T) (v sparkVectors) {
	b, err := os.ReadFile("../chain/spark/testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sparkPoint(t *testing.T, text string) chain.PublicKey {
	t.Helper()
	p, err := chain.NewPublicKey(chain.Secp256k1, unhex(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func number(t *testing.T, text string) (n spark.Scalar) {
	n.SetByteSlice(unhex(t, text))
	return n
}

func sparkKey(t *testing.T, text string) *keys.PrivateKey {
	k, err := keys.PrivateKeyFromSecret(chain.Secp256k1, mustSecret(t, unhex(t, text)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signing is a vector's.
func (v *sparkVectors) signing(t *testing.T, i int) *spark.Signing {
	of := &v.Frost[i]
	s := &spark.Signing{Message: [32]byte(unhex(t, of.Message)), VerifyingKey: sparkPoint(t, of.VerifyingKey)}
	for _, o := range of.Operators {
		s.Operators = append(s.Operators, spark.Commitment{ID: [32]byte(unhex(t, o.ID)), Hiding: sparkPoint(t, o.Hiding), Binding: sparkPoint(t, o.Binding)})
	}
	if of.Adaptor != "" {
		s.Adaptor = sparkPoint(t, of.Adaptor)
	}
	return s
}

func TestSharesOfSparksSoftware(t *testing.T) {
	v := readSparkVectors(t)
	for i, of := range v.Frost {
		k, d, e := number(t, of.Key), number(t, of.D), number(t, of.E)
		made, err := keys.FrostShare(&k, &d, &e, v.signing(t, i))
		if got := hex.EncodeToString(made.Share[:]); err != nil || got != of.Share {
			t.Errorf("share %d is %s, %v, want %s", i, got, err, of.Share)
		}
		own, err := sparkKey(t, of.Key).Frost(rand.Reader, v.signing(t, i))
		if err != nil || !v.signing(t, i).Verify(sparkKey(t, of.Key).Public(), &own) || own.Share == made.Share {
			t.Errorf("a share of our own: %v", err)
		}
	}
}

// same is randomness that repeats itself, as after a rollback of a whole machine.
func same() io.Reader { return chacha.NewChaCha8([32]byte{7}) }

// Even where randomness repeats itself, no nonce makes two different shares: it depends on everything that the challenge is
// made of.
func TestNoNonceForTwoChallenges(t *testing.T) {
	v := readSparkVectors(t)
	k := sparkKey(t, v.Frost[4].Key)
	first, err := k.Frost(same(), v.signing(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := k.Frost(same(), v.signing(t, 4)); err != nil || again != first {
		t.Errorf("the same once more: %v", err)
	}
	if first.Hiding == first.Binding {
		t.Error("both nonces are the same")
	}
	seen := map[chain.PublicKey]string{first.Hiding: "the first", first.Binding: "the first"}
	other := v.signing(t, 5)
	for name, change := range map[string]func(*spark.Signing){
		"message":       func(s *spark.Signing) { s.Message[0] ^= 1 },
		"verifying key": func(s *spark.Signing) { s.VerifyingKey = other.VerifyingKey },
		"id":            func(s *spark.Signing) { s.Operators[0].ID[31] ^= 0x40 },
		"hiding":        func(s *spark.Signing) { s.Operators[0].Hiding = other.Operators[0].Hiding },
		"binding":       func(s *spark.Signing) { s.Operators[0].Binding = other.Operators[0].Hiding },
		"operators":     func(s *spark.Signing) { s.Operators = s.Operators[1:] },
		"adaptor":       func(s *spark.Signing) { s.Adaptor = other.Operators[0].Binding },
		"swap": func(s *spark.Signing) {
			o := &s.Operators[0]
			o.Hiding, o.Binding = o.Binding, o.Hiding
		},
	} {
		s := v.signing(t, 4)
		change(s)
		made, err := k.Frost(same(), s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range []chain.PublicKey{made.Hiding, made.Binding} {
			if before := seen[p]; before != "" {
				t.Errorf("another %s has a nonce of %s", name, before)
			}
			seen[p] = name
		}
	}
	of, err := sparkKey(t, v.Frost[5].Key).Frost(same(), v.signing(t, 4))
	if err != nil || seen[of.Hiding] != "" || seen[of.Binding] != "" {
		t.Errorf("another key has the same nonces: %v", err)
	}
	// And with randomness as it should be, nothing repeats itself.
	fresh, err := k.Frost(rand.Reader, v.signing(t, 4))
	if err != nil || seen[fresh.Hiding] != "" || seen[fresh.Binding] != "" {
		t.Errorf("fresh randomness: %v", err)
	}
}

// broke fails after some bytes.
type broke struct{ left int }

func (b *broke) Read(p []byte) (int, error) {
	if b.left < len(p) {
		return 0, errors.New("no more randomness")
	}
	b.left -= len(p)
	return len(p), nil
}

func TestSparkWithoutRandomness(t *testing.T) {
	v := readSparkVectors(t)
	k := sparkKey(t, v.Frost[0].Key)
	for left := range 64 {
		if made, err := k.Frost(&broke{left}, v.signing(t, 0)); err == nil || made.Share != [32]byte{} {
			t.Fatalf("a share with %d bytes of randomness", left)
		}
	}
	// Zeros are no scalar: four in a row are a broken source.
	if _, err := keys.SealTo(&broke{1 << 20}, k.Public(), nil); err == nil {
		t.Error("a box under the number zero")
	}
}

func TestKeysOfSparksSoftware(t *testing.T) {
	v := readSparkVectors(t)
	entropy, _, err := keys.ImportMnemonic(mustSecret(t, []byte(v.Keys.Mnemonic)))
	if err != nil {
		t.Fatal(err)
	}
	w, err := keys.OpenWallet(entropy, secret.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	is := func(path, want string) {
		t.Helper()
		p, err := keys.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		k, err := w.Derive(chain.Secp256k1, p)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(k.Public().Compressed()); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	for i, path := range []string{"m/8797555'/0'/0'", "m/8797555'/7'/0'"} {
		a, _ := spark.ParseAccount(path)
		of := v.Keys.Accounts[i]
		is(a.Identity(), of.Identity)
		is(a.Deposit(), of.Deposit)
		is(a.StaticDeposit(0), of.Statics[0])
		is(a.StaticDeposit(5), of.Statics[1])
		for id, want := range of.Leaves {
			is(a.Leaf(id), want)
		}
	}
}

func TestBoxes(t *testing.T) {
	v := readSparkVectors(t)
	for _, of := range v.Ecies {
		k, box := sparkKey(t, of.Key), unhex(t, of.Sealed)
		plain, err := k.OpenFrom(rand.Reader, box)
		if err != nil || hex.EncodeToString(plain) != of.Plain {
			t.Errorf("%x, %v, want %s", plain, err, of.Plain)
		}
		for i := range box {
			box[i] ^= 0x10
			if _, err := k.OpenFrom(rand.Reader, box); err == nil {
				t.Fatalf("opens with another byte %d", i)
			}
			box[i] ^= 0x10
			if _, err := k.OpenFrom(rand.Reader, box[:i]); err == nil {
				t.Fatalf("opens without the bytes behind %d", i)
			}
		}
		if _, err := sparkKey(t, v.Frost[0].Key).OpenFrom(rand.Reader, box); err == nil {
			t.Error("another key opens")
		}
		own, err := keys.SealTo(rand.Reader, k.Public(), plain)
		if err != nil || len(own) != len(box) || bytes.Equal(own, box) {
			t.Fatalf("%d bytes, %v", len(own), err)
		}
		if again, err := k.OpenFrom(rand.Reader, own); err != nil || !bytes.Equal(again, plain) {
			t.Errorf("our own box: %x, %v", again, err)
		}
	}
}

// Nothing opens but what was sealed, whatever comes.
func FuzzOpenBox(f *testing.F) {
	b, err := os.ReadFile("../chain/spark/testdata/vectors.json")
	if err != nil {
		f.Fatal(err)
	}
	var v sparkVectors
	if err := json.Unmarshal(b, &v); err != nil {
		f.Fatal(err)
	}
	secretOf := func(text string) *keys.PrivateKey {
		k, err := keys.PrivateKeyFromSecret(chain.Secp256k1, mustSecret(f, unhex(f, text)))
		if err != nil {
			f.Fatal(err)
		}
		return k
	}
	k := secretOf(v.Ecies[2].Key)
	whole := unhex(f, v.Ecies[2].Sealed)
	for _, of := range v.Ecies {
		f.Add(unhex(f, of.Sealed))
	}
	f.Add(whole[:97])
	f.Fuzz(func(t *testing.T, box []byte) {
		if plain, err := k.OpenFrom(rand.Reader, box); err == nil && !bytes.Equal(box, whole) {
			t.Errorf("%x opens: %x", box, plain)
		}
	})
}

// proven tells whether a share at an index is on the polynomial of which the proofs are the coefficients' points.
func proven(t *testing.T, index uint32, share []byte, proofs [][]byte) bool {
	var sum, at secp256k1.JacobianPoint
	var power spark.Scalar
	power.SetInt(1)
	for _, p := range proofs {
		k, err := secp256k1.ParsePubKey(p)
		if err != nil {
			t.Fatal(err)
		}
		var point, term, more secp256k1.JacobianPoint
		k.AsJacobian(&point)
		secp256k1.ScalarMultNonConst(&power, &point, &term)
		secp256k1.AddNonConst(&sum, &term, &more)
		sum = more
		power.Mul(new(spark.Scalar).SetInt(index))
	}
	var n spark.Scalar
	n.SetByteSlice(share)
	secp256k1.ScalarBaseMultNonConst(&n, &at)
	return sum.EquivalentNonConst(&at)
}

func TestShares(t *testing.T) {
	v := readSparkVectors(t)
	group := func(threshold, n int) *keys.SparkGroup {
		g := &keys.SparkGroup{Threshold: threshold}
		for i := range n {
			g.Operators = append(g.Operators, keys.SparkOperator{ID: string(rune('a' + i))})
		}
		return g
	}
	for _, of := range v.Shares {
		for _, s := range of.Shares { // what proves theirs proves ours
			var proofs [][]byte
			for _, p := range s.Proofs {
				proofs = append(proofs, unhex(t, p))
			}
			if !proven(t, s.Index, unhex(t, s.Share), proofs) {
				t.Error("a share of Spark's software is not proven")
			}
		}
		secret := number(t, of.Secret)
		made, public, err := keys.Share(rand.Reader, &secret, group(of.Threshold, len(of.Shares)))
		if err != nil || len(made) != len(of.Shares) {
			t.Fatal(err)
		}
		whole := hex.EncodeToString(secp256k1.NewPrivateKey(&secret).PubKey().SerializeCompressed())
		for i, s := range made {
			if !proven(t, uint32(i+1), s.Share, s.Proofs) || proven(t, uint32(i+2), s.Share, s.Proofs) {
				t.Errorf("share %d is not proven", i)
			}
			if hex.EncodeToString(s.Proofs[0]) != whole || len(s.Proofs) != of.Threshold {
				t.Error("the proofs are of another number")
			}
			if got := secp256k1.PrivKeyFromBytes(s.Share).PubKey().SerializeCompressed(); public[i].Operator != string(rune('a'+i)) || !bytes.Equal(got, public[i].Value) {
				t.Error("the public shares are others")
			}
			if bytes.Equal(s.Share, unhex(t, of.Secret)) {
				t.Error("an operator has the number itself")
			}
		}
	}
}

// Whoever has the user's key alone must not get a whole signature by naming it as that of all.
func TestUsersKeyIsNotVerifyingKey(t *testing.T) {
	v := readSparkVectors(t)
	entropy, _, err := keys.ImportMnemonic(mustSecret(t, []byte(v.Keys.Mnemonic)))
	if err != nil {
		t.Fatal(err)
	}
	for odd := range byte(2) {
		w, key := storedWallet(t, entropy)
		own := unhex(t, v.Keys.Accounts[0].Deposit)
		own[0] = 2 + odd
		s := v.signing(t, 1)
		s.VerifyingKey = sparkPoint(t, hex.EncodeToString(own))
		got, err := granted(t, keys.ActionSign, key).SignFrost(rand.Reader, w, []keys.FrostSigning{{Path: "m/8797555'/0'/2'", Signing: s}})
		if f := fault.Of(err); f == nil || f.Code != fault.InvalidArgument || got != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func storedWallet(t *testing.T, entropy secret.Secret) (*keys.Wallet, policy.Key) {
	w, k, err := keys.StoredWallet(entropy)
	if err != nil {
		t.Fatal(err)
	}
	return w, k
}
