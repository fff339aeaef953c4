package eth_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/sha3"

	"cloister/enclave/internal/chain/eth"
)

func bareKeccak(b *testing.B, text []byte) {
	b.ReportAllocs()
	for b.Loop() {
		h := sha3.NewLegacyKeccak256()
		h.Write(text)
		h.Sum(nil)
	}
}

// BenchmarkTypedData times reading beside one bare hash of the text; the message of
// the EIP takes 13 hashes.
func BenchmarkTypedData(b *testing.B) {
	list := `{"types":{"M":[{"name":"v","type":"P[]"}],"P":[{"name":"a","type":"address"},{"name":"n","type":"uint256"}]},"primaryType":"M","domain":{},"message":{"v":[` +
		strings.Repeat(`{"a":"0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826","n":"123456789012345678901234567890"},`, 9999) + `{"a":"0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826","n":1}]}}`
	for name, text := range map[string]string{"mail": etherMail, "permit2": readPolicyCases(b).Transactions["eip712_permit2"].Payload, "10000 structs": list} {
		b.Run(name+"/read", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := eth.ParseTypedData([]byte(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/bare keccak", func(b *testing.B) { bareKeccak(b, []byte(text)) })
	}
	b.Run("authorization/read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a, err := eth.ParseAuthorization([]byte(someAuthorization))
			if err != nil {
				b.Fatal(err)
			}
			a.Digest()
		}
	})
	b.Run("authorization/bare keccak", func(b *testing.B) { bareKeccak(b, make([]byte, 25)) })
}

// BenchmarkInterface times reading interfaces and calls beside one bare hash of the
// same text or data.
func BenchmarkInterface(b *testing.B) {
	cases := readPolicyCases(b)
	token := string(cases.Interfaces["erc20"].ABI)
	var large strings.Builder
	for i := range 1800 {
		fmt.Fprintf(&large, `,{"type":"function","name":"f%d","inputs":[{"name":"to","type":"address","internalType":"address"},{"name":"data","type":"tuple[]","components":[{"name":"a","type":"uint256[2]"}]}]}`, i)
	}
	for name, text := range map[string]string{"erc20": token, "1800 functions": "[" + large.String()[1:] + "]"} {
		b.Run("describe/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				describe(b, text)
			}
		})
		b.Run("describe/"+name+"/bare keccak", func(b *testing.B) { bareKeccak(b, []byte(text)) })
	}
	for _, name := range []string{"eth_erc20_transfer", "eth_batch"} {
		tx := cases.Transactions[name]
		i, data := describe(b, string(cases.Interfaces[tx.Interface].ABI)), unhex(b, tx.Parsed["eth.tx"]["data"].(string)[2:])
		b.Run("call/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				i.Call(data)
			}
		})
		b.Run("call/"+name+"/bare keccak", func(b *testing.B) { bareKeccak(b, data) })
	}
}
