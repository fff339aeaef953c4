package drill_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"testing"

	secp256k1 "github.com/decred/dcrd/dcrec/secp256k1/v4"
	k1 "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/mr-tron/base58"
	"golang.org/x/crypto/sha3"

	"cloister/host/drill"
)

func keccak(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}

type signed struct {
	key      drill.Key
	r, s     string
	computed bool
}

// signatures are one of each curve over "payload".
func signatures(t *testing.T) map[string]signed {
	t.Helper()
	all := map[string]signed{}
	k, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	sig := k1.Sign(k, keccak([]byte("payload")))
	r, s := sig.R(), sig.S()
	rb, sb := r.Bytes(), s.Bytes()
	address := "0x" + hex.EncodeToString(keccak(k.PubKey().SerializeUncompressed()[1:])[12:])
	all["ethereum"] = signed{drill.Key{Curve: "CURVE_SECP256K1", PublicKey: hex.EncodeToString(k.PubKey().SerializeCompressed()), Format: "ADDRESS_FORMAT_ETHEREUM", Address: address},
		hex.EncodeToString(rb[:]), hex.EncodeToString(sb[:]), true}
	all["secp256k1"] = signed{drill.Key{Curve: "CURVE_SECP256K1", PublicKey: hex.EncodeToString(k.PubKey().SerializeUncompressed()), Format: "ADDRESS_FORMAT_COMPRESSED", Address: "x"},
		hex.EncodeToString(rb[:]), hex.EncodeToString(sb[:]), false}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ed := ed25519.Sign(private, []byte("payload"))
	all["solana"] = signed{drill.Key{Curve: "CURVE_ED25519", PublicKey: hex.EncodeToString(public), Format: "ADDRESS_FORMAT_SOLANA", Address: base58.Encode(public)},
		hex.EncodeToString(ed[:32]), hex.EncodeToString(ed[32:]), true}
	p, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("payload"))
	x, y, err := ecdsa.Sign(rand.Reader, p, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	pad := func(n *big.Int) string { return hex.EncodeToString(n.FillBytes(make([]byte, 32))) }
	whole, err := p.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"p256": elliptic.MarshalCompressed(elliptic.P256(), p.X, p.Y), "p256 whole": whole} {
		all[name] = signed{drill.Key{Curve: "CURVE_P256", PublicKey: hex.EncodeToString(b)}, pad(x), pad(y), false}
	}
	return all
}

func TestVerify(t *testing.T) {
	all := signatures(t)
	for name, x := range all {
		if _, err := x.key.Hash(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if computed, err := x.key.Verify([]byte("payload"), x.r, x.s); err != nil || computed != x.computed {
			t.Errorf("%s: %v, %v", name, computed, err)
		}
		if _, err := x.key.Verify([]byte("other"), x.r, x.s); err == nil {
			t.Errorf("%s: signature of something else", name)
		}
		if _, err := x.key.Verify([]byte("payload"), x.s, x.r); err == nil {
			t.Errorf("%s: halves swapped", name)
		}
		for _, short := range [][2]string{{x.r[2:], x.s}, {x.r, x.s + "00"}, {"", ""}, {x.r[:62] + "zz", x.s}} {
			if _, err := x.key.Verify([]byte("payload"), short[0], short[1]); err == nil {
				t.Errorf("%s: signature %v", name, short)
			}
		}
		other := signatures(t)[name].key.PublicKey
		for _, public := range []string{other, "", "00", x.key.PublicKey[2:], "zz"} {
			k := x.key
			k.PublicKey = public
			if _, err := k.Verify([]byte("payload"), x.r, x.s); err == nil {
				t.Errorf("%s: public key %q", name, public)
			}
		}
		if x.computed {
			k := x.key
			k.Address = signatures(t)[name].key.Address
			if _, err := k.Verify([]byte("payload"), x.r, x.s); err == nil {
				t.Errorf("%s: the address of another key", name)
			}
		}
		k := x.key
		k.Curve = "CURVE_OTHER"
		if _, err := k.Verify([]byte("payload"), x.r, x.s); err == nil {
			t.Errorf("%s: unknown curve", name)
		}
		if _, err := k.Hash(); err == nil {
			t.Errorf("%s: hash of an unknown curve", name)
		}
	}
}
