package tron_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/mr-tron/base58"
	"golang.org/x/crypto/sha3"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/tron"
	"cloister/enclave/internal/fault"
)

func load(t testing.TB, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func publicKey(t testing.TB, c chain.Curve, text string) chain.PublicKey {
	t.Helper()
	p, err := chain.NewPublicKey(c, unhex(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// signer is the key of the vectors.
func signer(t testing.TB) chain.SigningKey {
	p := publicKey(t, chain.Secp256k1, "0390c9c99541bfc8aa65747f8963c542e937454adb17233bb9f6f44fc8474269a8")
	return chain.SigningKey{Public: p, Format: chain.Tron, Address: "TUJ2YbSDGtCqzRz7quPQidRCMC98jDAPXc"}
}

// signature reads r‖s‖v, with v 27 or 28 as tronweb has it or 0 or 1.
func signature(t testing.TB, text string) (s chain.Signature) {
	t.Helper()
	b := unhex(t, text)
	if len(b) != 65 {
		t.Fatalf("%s is no signature", text)
	}
	copy(s.R[:], b)
	copy(s.S[:], b[32:])
	s.V = b[64] % 27
	return s
}

// plain writes facts as JSON would have them.
func plain(v any) any {
	switch v := v.(type) {
	case chain.Struct:
		out := map[string]any{}
		for k, x := range v {
			out[k] = plain(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	case chain.Hex:
		return string(v)
	case int64:
		return float64(v)
	}
	return v
}

func read(t testing.TB, raw []byte, by chain.SigningKey) (chain.Transaction, map[string]any) {
	t.Helper()
	tx, err := tron.Chain{}.Read(raw, by)
	if err != nil {
		t.Fatalf("%x: %v", raw, err)
	}
	facts, err := tx.Facts(nil)
	if err != nil {
		t.Fatal(err)
	}
	return tx, plain(facts).(map[string]any)
}

// refused checks that an error names the field and begins as it should.
func refused(t testing.TB, what string, err error, name, message string) {
	t.Helper()
	e := fault.Of(err)
	if e == nil || e.Code != fault.InvalidArgument || e.Name != name || len(e.Violations) != 1 || e.Violations[0].Field != "unsignedTransaction" ||
		!strings.Contains(e.Message, message) {
		t.Errorf("%s: %v, want %s %q", what, err, name, message)
	}
}

const (
	invalid     = "INVALID_TRANSACTION"
	unsupported = "UNSUPPORTED_TRANSACTION_TYPE"
)

func TestAddress(t *testing.T) {
	by := signer(t)
	if got, err := tron.Addresses.Address(chain.Tron, by.Public); err != nil || got != by.Address {
		t.Errorf("%s, %v", got, err)
	}
	ed := publicKey(t, chain.Ed25519, strings.Repeat("01", 32))
	for f, p := range map[chain.Format]chain.PublicKey{chain.Ethereum: by.Public, 0: by.Public, chain.Tron: ed} {
		if got, err := tron.Addresses.Address(f, p); fault.Of(err) == nil || got != "" {
			t.Errorf("%v: %q, %v", f, got, err)
		}
	}
}

func TestVectors(t *testing.T) {
	var d struct {
		Vectors []struct {
			Name, Txid string
			Type       string `json:"transaction_type"`
			SignWith   string `json:"sign_with"`
			Unsigned   string `json:"unsigned_transaction"`
			Signed     string `json:"signed_transaction"`
			Signature  string `json:"signature_v_00_01"`
		}
	}
	load(t, "testdata/transactions.json", &d)
	n := 0
	for _, v := range d.Vectors {
		if v.Type != "TRANSACTION_TYPE_TRON" {
			continue
		}
		n++
		by := signer(t)
		if by.Address != v.SignWith {
			t.Fatalf("%s is signed by another key", v.Name)
		}
		tx, _ := read(t, unhex(t, v.Unsigned), by)
		if got := tx.Digests(); len(got) != 1 || got[0].Scheme != chain.ECDSA || hex.EncodeToString(got[0].Message) != v.Txid {
			t.Errorf("%s: digests %v", v.Name, got)
		}
		got, err := tx.Assemble([]chain.Signature{signature(t, v.Signature)})
		if err != nil || hex.EncodeToString(got) != v.Signed {
			t.Errorf("%s: %x, %v", v.Name, got, err)
		}
		if tx.Root() != "tron.tx" {
			t.Errorf("root %s", tx.Root())
		}
	}
	if n != 1 {
		t.Errorf("%d vectors", n)
	}
}

// TestPolicyCases holds the facts against those that the cases of the policy
// language give for their transactions, whole and with nothing beside.
func TestPolicyCases(t *testing.T) {
	var d struct {
		Transactions map[string]struct {
			Type, Txid string
			Unsigned   string `json:"unsignedTransaction"`
			Parsed     map[string]map[string]any
		}
	}
	load(t, "../../policy/testdata/policy-cases.json", &d)
	n, bad := 0, 0
	for name, v := range d.Transactions {
		if v.Type != "TRANSACTION_TYPE_TRON" {
			continue
		}
		raw := unhex(t, v.Unsigned)
		if v.Parsed == nil {
			_, err := tron.Chain{}.Read(raw, signer(t))
			refused(t, name, err, invalid, "")
			bad++
			continue
		}
		tx, facts := read(t, raw, signer(t))
		if !reflect.DeepEqual(facts, v.Parsed["tron.tx"]) {
			t.Errorf("%s: %v, want %v", name, facts, v.Parsed["tron.tx"])
		}
		if hex.EncodeToString(tx.Digests()[0].Message) != v.Txid {
			t.Errorf("%s: another txid", name)
		}
		n++
	}
	if n != 4 || bad != 1 {
		t.Errorf("%d transactions, %d bad", n, bad)
	}
}

type built struct {
	Name, Signature, TxID string
	Raw                   string `json:"raw_data_hex"`
	Parsed                map[string]any
}

func tronweb(t testing.TB) (good, bad []built) {
	t.Helper()
	var d struct{ Read, Refused []built }
	load(t, "testdata/tronweb.json", &d)
	if len(d.Read) != 20 || len(d.Refused) != 12 {
		t.Fatalf("%d and %d transactions of tronweb", len(d.Read), len(d.Refused))
	}
	return d.Read, d.Refused
}

// TestTronweb reads what tronweb has built, against what tronweb reads.
func TestTronweb(t *testing.T) {
	good, bad := tronweb(t)
	types := map[any]bool{}
	for _, v := range good {
		raw := unhex(t, v.Raw)
		tx, facts := read(t, raw, signer(t))
		want := ofTronweb(t, v.Parsed)
		if !reflect.DeepEqual(facts, want) {
			t.Errorf("%s:\n%v, want\n%v", v.Name, facts, want)
		}
		types[facts["contract"].([]any)[0].(map[string]any)["type"]] = true
		if hex.EncodeToString(tx.Digests()[0].Message) != v.TxID {
			t.Errorf("%s: another txid", v.Name)
		}
		s := signature(t, v.Signature)
		got, err := tx.Assemble([]chain.Signature{s})
		if err != nil || !bytes.Contains(got, raw) || !bytes.HasSuffix(got, append(append([]byte{0x12, 65}, append(s.R[:], s.S[:]...)...), s.V)) {
			t.Errorf("%s: %x, %v", v.Name, got, err)
		}
	}
	if len(types) != 7 {
		t.Errorf("%d types of contracts", len(types))
	}
	for _, v := range bad {
		_, err := tron.Chain{}.Read(unhex(t, v.Raw), signer(t))
		refused(t, v.Name, err, unsupported, "contract type")
	}
	t.Logf("%d transactions of %d types read, %d of other types refused", len(good), len(types), len(bad))
}

// ofTronweb puts what tronweb reads in the terms of policies.
func ofTronweb(t *testing.T, raw map[string]any) map[string]any {
	t.Helper()
	base58check := func(v any) string {
		b := unhex(t, v.(string))
		return base58.Encode(append(b, sum(sum(b))[:4]...))
	}
	lower := func(v any) string { return strings.ToLower(v.(string)) }
	out := map[string]any{}
	for _, k := range []string{"expiration", "timestamp", "fee_limit"} {
		out[k] = raw[k]
	}
	for _, k := range []string{"ref_block_bytes", "ref_block_hash", "data"} {
		out[k] = lower(raw[k])
	}
	permission := func(v map[string]any) map[string]any {
		p := map[string]any{"type": "Owner", "id": 0.0, "parent_id": 0.0}
		for k, x := range v {
			p[k] = x
		}
		p["operations"] = lower(v["operations"])
		for _, k := range v["keys"].([]any) {
			k := k.(map[string]any)
			k["address"] = base58check(k["address"])
		}
		return p
	}
	c := raw["contract"].([]any)[0].(map[string]any)
	facts := map[string]any{"type": c["type"], "permission_id": c["Permission_id"]}
	for k, v := range c["parameter"].(map[string]any)["value"].(map[string]any) {
		switch {
		case v == nil: // no witness
		case strings.HasSuffix(k, "address"):
			facts[k] = base58check(v)
		case k == "data":
			facts[k] = lower(v)
		case k == "owner" || k == "witness":
			facts[k] = permission(v.(map[string]any))
		case k == "actives":
			list := []any{}
			for _, a := range v.([]any) {
				list = append(list, permission(a.(map[string]any)))
			}
			facts[k] = list
		default:
			facts[k] = v
		}
	}
	out["contract"] = []any{facts}
	return out
}

func TestSigners(t *testing.T) {
	good, _ := tronweb(t)
	raw := unhex(t, good[0].Raw)
	by := signer(t)
	other := publicKey(t, chain.Secp256k1, "031ca6aa2737ffe0ae184de68c48ce68f4e5950514cfbb223bec576fdc6c419a1d")
	for name, s := range map[string]chain.SigningKey{
		"by its id":             {Public: by.Public},
		"as an Ethereum key":    {Public: by.Public, Format: chain.Ethereum, Address: "0x"},
		"a key of a permission": {Public: other, Format: chain.Tron},
	} {
		if _, err := (tron.Chain{}).Read(raw, s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, s := range map[string]chain.SigningKey{
		"no key":      {},
		"P-256":       {Public: publicKey(t, chain.P256, "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296")},
		"ed25519":     {Public: publicKey(t, chain.Ed25519, strings.Repeat("01", 32))},
		"for taproot": {Public: by.Public, Format: chain.BitcoinMainnetP2TR},
		"for Spark":   {Public: by.Public, Format: chain.SparkMainnet},
	} {
		_, err := tron.Chain{}.Read(raw, s)
		refused(t, name, err, invalid, "secp256k1")
	}
	tx, _ := read(t, raw, by)
	for n := range 4 {
		if got, err := tx.Assemble(make([]chain.Signature, n)); (err == nil) != (n == 1) || (got == nil) != (n != 1) {
			t.Errorf("%d signatures: %x, %v", n, got, err)
		}
	}
}

// TestBytesAreCopied changes the caller's bytes after they have been read.
func TestBytesAreCopied(t *testing.T) {
	good, _ := tronweb(t)
	raw := unhex(t, good[0].Raw)
	tx, _ := read(t, raw, signer(t))
	before := tx.Digests()[0].Message
	clear(raw)
	if !bytes.Equal(tx.Digests()[0].Message, before) {
		t.Error("the digest changed with the caller's bytes")
	}
}

func BenchmarkAddress(b *testing.B) {
	p := signer(b).Public
	b.Run("address", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tron.Addresses.Address(chain.Tron, p)
		}
	})
	b.Run("keccak and checksum alone", func(b *testing.B) {
		point := p.Bytes()[1:]
		for b.Loop() {
			h := sha3.NewLegacyKeccak256()
			h.Write(point)
			sum(sum(h.Sum(nil)))
		}
	})
}

func BenchmarkRead(b *testing.B) {
	good, _ := tronweb(b)
	by := signer(b)
	for _, v := range good {
		if v.Name != "transfer" && v.Name != "call" && v.Name != "permissions" {
			continue
		}
		raw := unhex(b, v.Raw)
		b.Run(v.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tx, err := tron.Chain{}.Read(raw, by)
				if err != nil {
					b.Fatal(err)
				}
				tx.Facts(nil)
				tx.Digests()
			}
		})
		b.Run(v.Name+"/sha256 alone", func(b *testing.B) {
			for b.Loop() {
				sum(raw)
			}
		})
	}
}
