package sol_test

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/sol"
)

func BenchmarkSign(b *testing.B) { // what no reader can avoid
	k := ed25519.NewKeyFromSeed(number(1).key())
	m := loading.message()
	for b.Loop() {
		ed25519.Sign(k, m)
	}
}

func BenchmarkRead(b *testing.B) {
	for name, d := range map[string]draft{"legacy": payment, "v0": loading} {
		b.Run(name, func(b *testing.B) {
			raw, by := d.bytes(), signerOf(b, number(1).name())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (sol.Chain{}).Read(raw, by); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFacts(b *testing.B) {
	for name, d := range map[string]draft{"legacy": payment, "v0": loading} {
		b.Run(name, func(b *testing.B) {
			tx := mustRead(b, d.bytes())
			b.ReportAllocs()
			for b.Loop() {
				tx.Facts(nil)
			}
		})
	}
	b.Run("idl", func(b *testing.B) {
		var file anchorCases
		readJSON(b, "anchor.json", &file)
		tx, d := mustRead(b, calling(unhex(b, file.Cases[1].Data), 4).bytes()), describe(b, string(file.IDLs["old"]))
		b.ReportAllocs()
		for b.Loop() {
			tx.Facts(func(string) (chain.Description, error) { return d, nil })
		}
	})
}

func BenchmarkAssemble(b *testing.B) {
	tx, s := mustRead(b, payment.bytes()), []chain.Signature{signatureOf(bytes.Repeat([]byte{1}, 64))}
	b.ReportAllocs()
	for b.Loop() {
		tx.Assemble(s)
	}
}

func BenchmarkDescribe(b *testing.B) {
	var file anchorCases
	readJSON(b, "anchor.json", &file)
	small := string(file.IDLs["old"])
	instruction := small[strings.Index(small, `"instructions": [`)+len(`"instructions": [`) : strings.Index(small, `"accounts": [],`)]
	large := strings.Replace(small, instruction, strings.Repeat(instruction[:strings.LastIndex(instruction, `{`)], 150)+instruction, 1)
	for name, text := range map[string]string{"small": small, "large": large} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (sol.Chain{}).Describe(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
