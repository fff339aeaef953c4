package eth_test

import (
	"bytes"
	"testing"

	"golang.org/x/crypto/sha3"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
)

// BenchmarkTransaction times what is done for one signature beside the bare hash
// of the same bytes, and reading what is signed beside it.
func BenchmarkTransaction(b *testing.B) {
	by := signer(b, key)
	forms := map[string][]byte{"64KiB": with("1559", 8, bytes.Repeat([]byte{0xab}, 1<<16))}
	for name, body := range bodies {
		forms[name] = envelope(body)
	}
	for _, name := range []string{"bare", "legacy", "2930", "1559", "4844", "7702", "64KiB"} {
		unsigned := forms[name]
		tx, err := eth.Chain{}.Read(unsigned, by)
		if err != nil {
			b.Fatal(err)
		}
		signed := sign(b, key, tx)
		one := []chain.Signature{{R: [32]byte(slot), S: [32]byte(slot)}}
		for _, part := range []struct {
			name string
			do   func() error
		}{
			{"read", func() error { _, err := eth.Chain{}.Read(unsigned, by); return err }},
			{"facts", func() error { _, err := tx.Facts(nil); return err }},
			{"digest", func() error { tx.Digests(); return nil }},
			{"assemble", func() error { _, err := tx.Assemble(one); return err }},
			{"bare keccak", func() error {
				h := sha3.NewLegacyKeccak256()
				h.Write(unsigned)
				h.Sum(nil)
				return nil
			}},
			{"read signed", func() error { _, err := eth.ReadSigned(signed); return err }},
		} {
			b.Run(name+"/"+part.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := part.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
