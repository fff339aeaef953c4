package btc_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/btc"
	"cloister/enclave/internal/fault"
)

func load(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func public(t testing.TB, text string) chain.PublicKey {
	t.Helper()
	p, err := chain.NewPublicKey(chain.Secp256k1, unhex(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func TestAddressVectors(t *testing.T) {
	var d struct {
		Vectors []struct {
			Curve, Path string
			Address     *string
			Candidates  map[string]string
			Format      string `json:"address_format"`
			Public      string `json:"public_key_hex"`
		}
	}
	load(t, "../testdata/derivation.json", &d)
	set, made := btc.Addresses, map[chain.Format]int{}
	for _, v := range d.Vectors {
		f, err := chain.ParseFormat(v.Format)
		if err != nil {
			t.Fatal(err)
		}
		if set[f] == nil {
			continue
		}
		want := ""
		switch {
		case v.Address != nil:
			want = *v.Address
		case strings.HasSuffix(v.Format, "P2SH"):
			want = v.Candidates["p2sh_p2wpkh"]
		case strings.HasSuffix(v.Format, "P2WSH"):
			want = v.Candidates["p2wsh_p2pk"]
		}
		got, err := set.Address(f, public(t, v.Public))
		if err != nil || got != want || want == "" {
			t.Errorf("%s, %s: %s, want %s (%v)", v.Format, v.Path, got, want, err)
		}
		made[f]++
	}
	n := 0
	for f := range btc.Addresses {
		if made[f] == 0 {
			t.Errorf("%v: no vector", f)
		}
		n += made[f]
	}
	if len(made) != 22 {
		t.Errorf("%d formats", len(made))
	}
	t.Logf("%d addresses in %d formats", n, len(made))
}

// TestAddressesOfBIPs are the keys and addresses that the standards print.
func TestAddressesOfBIPs(t *testing.T) {
	for _, v := range []struct {
		what   string
		format chain.Format
		public string
		want   string
	}{
		{"BIP-49", chain.BitcoinTestnetP2SH, "03a1af804ac108a8a51782198c2d034b28bf90c8803f5a53f76276fa69a4eae77f", "2Mww8dCYPUpKHofjgcXcBCEGmniw9CoaiD2"},
		{"BIP-84 0/0", chain.BitcoinMainnetP2WPKH, "0330d54fd0dd420a6e5f8d3624f5f3482cae350f79d5f0753bf5beef9c2d91af3c", "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu"},
		{"BIP-84 0/1", chain.BitcoinMainnetP2WPKH, "03e775fd51f0dfb8cd865d9ff1cca2a158cf651fe997fdc9fee9c1d3b5e995ea77", "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g"},
		{"BIP-84 1/0", chain.BitcoinMainnetP2WPKH, "03025324888e429ab8e3dbaf1f7802648b9cd01e9b418485c5fa4c1b9b5700e1a6", "bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el"},
		{"BIP-86 0/0", chain.BitcoinMainnetP2TR, "02cc8a4bc64d897bddc5fbc2f670f7a8ba0b386779106cf1223c6fc5d7cd6fc115", "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr"},
		{"BIP-86 0/0, odd", chain.BitcoinMainnetP2TR, "03cc8a4bc64d897bddc5fbc2f670f7a8ba0b386779106cf1223c6fc5d7cd6fc115", "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr"},
		{"BIP-86 0/1", chain.BitcoinMainnetP2TR, "0283dfe85a3151d2517290da461fe2815591ef69f2b18a2ce63f01697a8b313145", "bc1p4qhjn9zdvkux4e44uhx8tc55attvtyu358kutcqkudyccelu0was9fqzwh"},
		{"BIP-86 1/0", chain.BitcoinMainnetP2TR, "02399f1b2f4393f29a18c937859c5dd8a77350103157eb880f02e8c08214277cef", "bc1p3qkhfews2uk44qtvauqyr2ttdsw7svhkl9nkm9s9c3x4ax5h60wqwruhk7"},
		{"BIP-173", chain.BitcoinMainnetP2WPKH, "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"},
		{"BIP-173", chain.BitcoinTestnetP2WPKH, "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"},
		{"BIP-173, of P2PK", chain.BitcoinMainnetP2WSH, "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3"},
		{"BIP-173, of P2PK", chain.BitcoinTestnetP2WSH, "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7"},
	} {
		if got, err := btc.Addresses.Address(v.format, public(t, v.public)); err != nil || got != v.want {
			t.Errorf("%s, %v: %s, want %s (%v)", v.what, v.format, got, v.want, err)
		}
	}
}

// TestAddressesOfScripts is the list of BIP-350, which is that of BIP-173 for
// version 0, read backwards; and scripts that have no address.
func TestAddressesOfScripts(t *testing.T) {
	for _, v := range [][4]string{
		{"bc", "0014751e76e8199196d454941c45d1b3a323f1433bd6", "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", "P2WPKH"},
		{"tb", "00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262", "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7", "P2WSH"},
		{"bc", "5128751e76e8199196d454941c45d1b3a323f1433bd6751e76e8199196d454941c45d1b3a323f1433bd6", "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y", ""},
		{"bc", "6002751e", "BC1SW50QGDZ25J", ""},
		{"bc", "5210751e76e8199196d454941c45d1b3a323", "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs", ""},
		{"tb", "0020000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433", "tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy", "P2WSH"},
		{"tb", "5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433", "tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c", "P2TR"},
		{"bc", "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0", "P2TR"},

		{"bc", "", "", ""},
		{"bc", "6a", "", ""},
		{"bc", "6a0548656c6c6f", "", ""}, // OP_RETURN
		{"bc", "210279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798ac", "", ""},     // P2PK
		{"bc", "51210279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f8179851ae", "", ""}, // 1 of 1
		{"bc", "0010751e76e8199196d454941c45d1b3a323", "", ""},                                       // version 0 with 16 bytes
		{"bc", "5101ff", "", ""}, // a program of one byte
		{"bc", "512979be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f8179879be667ef9dcbbac55", "", ""},  // of 41 bytes
		{"bc", "4f20751e76e8199196d454941c45d1b3a323f1433bd6751e76e8199196d454941c45", "", ""},                    // OP_1NEGATE
		{"bc", "76a914751e76e8199196d454941c45d1b3a323f1433bd688ad", "", ""},                                      // nearly P2PKH
		{"bc", "76a914751e76e8199196d454941c45d1b3a323f1433bd688ac00", "", ""},                                    // with one byte more
		{"", "76a914751e76e8199196d454941c45d1b3a323f1433bd688ac", "DFpN6QqFfUm3gKNaxN6tNcab1FArL9cZLE", "P2PKH"}, // Dogecoin
		{"", "a914751e76e8199196d454941c45d1b3a323f1433bd687", "A37YDYSwz3438rFtm1SLVcQHyD7JeueC9H", "P2SH"},
		{"", "0014751e76e8199196d454941c45d1b3a323f1433bd6", "", ""},
		{"", "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "", ""},
	} {
		text, kind := btc.AddressOf(v[0], unhex(t, v[1]))
		if text != strings.ToLower(v[2]) && text != v[2] || kind != v[3] {
			t.Errorf("%q %s: %q %q, want %q %q", v[0], v[1], text, kind, v[2], v[3])
		}
	}
}

func TestAddressRefuses(t *testing.T) {
	p := public(t, "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
	ed, err := chain.NewPublicKey(chain.Ed25519, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for f := chain.Format(0); f < 60; f++ {
		has := false
		for g := range btc.Addresses {
			has = has || f == g
		}
		if text, err := btc.Addresses.Address(f, p); has != (err == nil) || has != (text != "") || err != nil && fault.Of(err) == nil {
			t.Errorf("%v: %q, %v", f, text, err)
		}
		for _, other := range []chain.PublicKey{{}, ed} {
			if text, err := btc.Addresses.Address(f, other); fault.Of(err) == nil || text != "" {
				t.Errorf("%v with a key on %v: %q, %v", f, other.Curve(), text, err)
			}
		}
	}
}

// TestTaprootOutputKey holds the tweak against BIP-341's first script, and against
// the same formula on private keys.
func TestTaprootOutputKey(t *testing.T) {
	var f struct{ InternalPubkey, TweakedPubkey string }
	load(t, "testdata/bip341.json", &f)
	if got := p2trProgram(t, public(t, "02"+f.InternalPubkey)); got != f.TweakedPubkey {
		t.Errorf("%s, want %s", got, f.TweakedPubkey)
	}
	for i := range 100 {
		k := key(i)
		if got, want := p2trProgram(t, k.public), hex.EncodeToString(k.tweaked().xOnly()); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}

// p2trProgram is the output key as the address has it.
func p2trProgram(t testing.TB, p chain.PublicKey) string {
	t.Helper()
	text, err := btc.Addresses.Address(chain.BitcoinMainnetP2TR, p)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(program(t, text))
}

func BenchmarkAddress(b *testing.B) {
	p := public(b, "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
	for _, f := range []chain.Format{chain.BitcoinMainnetP2PKH, chain.BitcoinMainnetP2SH, chain.BitcoinMainnetP2WPKH,
		chain.BitcoinMainnetP2WSH, chain.BitcoinMainnetP2TR, chain.DogeMainnet} {
		b.Run(f.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := btc.Addresses.Address(f, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("bare point multiplication", func(b *testing.B) {
		var k secp256k1.ModNScalar
		k.SetByteSlice(unhex(b, "a60869f0dbcf1dc659c9cecbaf8050135ea9e8cdc487053f1dc6880949dc684c"))
		var p secp256k1.JacobianPoint
		for b.Loop() {
			secp256k1.ScalarBaseMultNonConst(&k, &p)
		}
	})
}
