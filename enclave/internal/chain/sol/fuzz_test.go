package sol_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
)

func size(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, one := range v {
			n += size(one)
		}
	case []any:
		for _, one := range v {
			n += size(one)
		}
	}
	return n
}

// Whatever the bytes: they are refused with a fault, or what is signed is their
// message, and assembling changes the signer's slot alone.
func FuzzRead(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(unhex(f, v.Unsigned))
		f.Add(unhex(f, v.Signed))
	}
	f.Add(loading.bytes())
	f.Add(payment.message())
	var file web3
	readJSON(f, "web3.json", &file)
	for _, c := range file.Transactions {
		f.Add(unhex(f, c.Hex))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		signers, err := sol.Signers(raw)
		if err != nil {
			if e := fault.Of(err); e == nil || e.Code != fault.InvalidArgument {
				t.Fatal(err)
			}
			return
		}
		sol.Signature(raw)
		if out, err := sol.WithBlockhash(raw, number(6).name()); err == nil && len(out) != len(raw) {
			t.Fatal("another length")
		}
		for i, s := range signers {
			tx, err := sol.Chain{}.Read(raw, signerOf(t, s.Address))
			if err != nil {
				t.Fatal(err)
			}
			if message := tx.Digests()[0].Message; !bytes.Equal(message, raw[1+64*len(signers):]) {
				t.Fatalf("%x is not the message", message)
			}
			signed, err := tx.Assemble([]chain.Signature{signatureOf(bytes.Repeat([]byte{0x55}, 64))})
			copy(raw[1+64*i:], bytes.Repeat([]byte{0x55}, 64))
			if err != nil || !bytes.Equal(signed, raw) {
				t.Fatalf("%x, %v", signed, err)
			}
			copy(raw, before)
			facts := factsOf(t, tx, nil)
			if n := size(plain(facts)); n > 40_000 {
				t.Fatalf("%d facts", n)
			}
			if len(facts["account_keys"].([]string)) > 256 {
				t.Fatal("more than 256 accounts")
			}
		}
		if !bytes.Equal(raw, before) {
			t.Fatal("the input has changed")
		}
	})
}

// Whatever the text, it is taken or refused, and what is taken decodes something
// or nothing.
func FuzzDescribe(f *testing.F) {
	f.Add(someIDL, []byte{1, 2, 3, 4, 5, 6, 7, 255, 1, 0, 0, 0, 0, 0, 0, 0})
	var file anchorCases
	readJSON(f, "anchor.json", &file)
	for _, c := range file.Cases {
		var short bytes.Buffer
		json.Compact(&short, file.IDLs[c.IDL])
		f.Add(short.String(), unhex(f, c.Data))
	}
	f.Add(one(`{"coption":{"array":["f64",3]}}`, `{"name":"T","type":{"kind":"type","alias":{"defined":{"name":"T"}}}}`), []byte{7})
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		d, err := sol.Chain{}.Describe(text)
		if err != nil || len(data) > 900 {
			return
		}
		if n := size(plain(parsedOf(t, d, data, 5))); n > 25_000 {
			t.Fatalf("%d values", n)
		}
	})
}

// Whatever the data, they decode in one way: changed after the last byte, or
// short of it, they do not.
func FuzzCall(f *testing.F) {
	var file anchorCases
	readJSON(f, "anchor.json", &file)
	for i, c := range file.Cases {
		f.Add(c.IDL == "new", byte(i), unhex(f, c.Data))
	}
	f.Fuzz(func(t *testing.T, newer bool, accounts byte, data []byte) {
		if len(data) > 800 {
			return
		}
		d := describe(t, string(file.IDLs[map[bool]string{true: "new", false: "old"}[newer]]))
		parsed := parsedOf(t, d, data, int(accounts)%8)
		if parsed == nil {
			return
		}
		if parsedOf(t, d, append(slices.Clone(data), 0), 8) != nil {
			t.Fatal("decoded with a byte more")
		}
		if parsedOf(t, d, data[:len(data)-1], 8) != nil {
			t.Fatal("decoded with a byte less")
		}
	})
}
