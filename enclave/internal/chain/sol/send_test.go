package sol_test

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
)

func TestSigners(t *testing.T) {
	raw := loading.bytes()
	got, err := sol.Signers(raw)
	if err != nil || !slices.Equal(got, []sol.RequiredSigner{{number(1).name(), false, true}, {number(2).name(), false, false}}) {
		t.Error(got, err)
	}
	raw[1+64+63] = 1
	got, err = sol.Signers(raw)
	if err != nil || !slices.Equal(got, []sol.RequiredSigner{{number(1).name(), false, true}, {number(2).name(), true, false}}) {
		t.Error(got, err)
	}
	_, err = sol.Signers(raw[:9])
	refused(t, err, invalid, "it ends in its signature slots")
}

func TestSignature(t *testing.T) {
	for _, v := range vectors(t) {
		signed := unhex(t, v.Signed)
		id, err := sol.Signature(signed)
		if err != nil || id != base58.Encode(signed[1:65]) {
			t.Errorf("%s: %s, %v", v.Name, id, err)
		}
		_, err = sol.Signature(unhex(t, v.Unsigned))
		refused(t, err, invalid, "the signature of "+v.SignWith+" is missing or wrong")
		for _, i := range []int{1, 64, len(signed) - 1} { // the amount is at the end
			wrong := bytes.Clone(signed)
			wrong[i] ^= 1
			_, err := sol.Signature(wrong)
			if fault.Of(err) == nil {
				t.Errorf("%s: byte %d: %v", v.Name, i, err)
			}
		}
	}
	_, err := sol.Signature(nil)
	refused(t, err, invalid, "it is empty")
}

func TestWithBlockhash(t *testing.T) {
	raw := payment.bytes()
	out, err := sol.WithBlockhash(raw, number(6).name())
	if err != nil || !bytes.Equal(raw, payment.bytes()) || !bytes.Equal(out, bytes.Replace(raw, bytes.Repeat([]byte{0xbb}, 32), number(6).key(), 1)) {
		t.Errorf("%x, %v", out, err)
	}
	same(t, factsOf(t, mustRead(t, out), nil)["recent_blockhash"], number(6).name())
	if _, err := sol.WithBlockhash(payment.with(func(d *draft) { d.calls = nil }).bytes(), number(6).name()); err != nil {
		t.Error(err)
	}
	for _, hash := range []string{"", "1", number(6).name() + "1", "0" + number(6).name()[1:],
		strings.Repeat("z", 44), strings.Repeat("1", 33), strings.Repeat("1", 1<<20)} {
		_, err := sol.WithBlockhash(raw, hash)
		if e := fault.Of(err); e == nil || e.Violations[0].Field != "recentBlockhash" {
			t.Errorf("%.50s: %v", hash, err)
		}
	}
	_, err = sol.WithBlockhash(raw[:9], number(6).name())
	refused(t, err, invalid, "it ends in its signature slots")
	raw[2] = 1
	_, err = sol.WithBlockhash(raw, number(6).name())
	refused(t, err, invalid, number(1).name()+" has signed it with another recent blockhash")
	nonce := payment.with(func(d *draft) { d.calls = []call{{2, []byte{0, 1, 0}, system(4)}, d.calls[0]} })
	_, err = sol.WithBlockhash(nonce.bytes(), number(6).name())
	refused(t, err, invalid, "a durable nonce stands in the place of its recent blockhash")
	// What cannot be read is no promise of an end either.
	if sol.IsDurable(payment.bytes()) || !sol.IsDurable(nonce.bytes()) || !sol.IsDurable(raw[:9]) || sol.IsDurable(payment.with(func(d *draft) { d.calls = nil }).bytes()) {
		t.Error("a durable nonce is not told from a blockhash")
	}
}

func TestSignedByAll(t *testing.T) {
	one, two := ed25519.NewKeyFromSeed(number(1).key()), ed25519.NewKeyFromSeed(number(2).key())
	raw := loading.bytes()
	for n, k := range map[number]ed25519.PrivateKey{1: one, 2: two} {
		raw = bytes.Replace(raw, n.key(), k.Public().(ed25519.PublicKey), 1)
	}
	for _, k := range []ed25519.PrivateKey{two, one} {
		if _, err := sol.Signature(raw); err == nil {
			t.Error("a signature is missing")
		}
		tx, err := sol.Chain{}.Read(raw, signerOf(t, base58.Encode(k.Public().(ed25519.PublicKey))))
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = tx.Assemble([]chain.Signature{signatureOf(ed25519.Sign(k, tx.Digests()[0].Message))}); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := sol.Signature(raw); err != nil || id != base58.Encode(raw[1:65]) {
		t.Error(id, err)
	}
}
