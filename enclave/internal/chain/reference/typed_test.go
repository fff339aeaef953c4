package reference_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"github.com/holiman/uint256"

	"cloister/enclave/internal/chain/eth"
)

type typedMember struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// typedMaker makes typed data of random types.
type typedMaker struct {
	random
	types map[string][]typedMember
}

// typeName is a type: elementary, or one of the structs from the first on.
func (m typedMaker) typeName(first int) string {
	name := ""
	switch n := m.IntN(12); {
	case n < 3 && first < 5:
		name = fmt.Sprintf("T%d", first+m.IntN(5-first))
	case n < 5:
		name = fmt.Sprintf("uint%d", 8+8*m.IntN(32))
	case n < 7:
		name = fmt.Sprintf("int%d", 8+8*m.IntN(32))
	case n < 9:
		name = fmt.Sprintf("bytes%d", 1+m.IntN(32))
	default:
		name = []string{"address", "bool", "string", "bytes"}[m.IntN(4)]
	}
	for range 3 {
		if m.IntN(4) == 0 {
			name += []string{"[]", "[1]", "[2]"}[m.IntN(3)]
		}
	}
	return name
}

// value makes a value of a type, written in one of the ways that clients use.
func (m typedMaker) value(typ string) any {
	if open := strings.LastIndexByte(typ, '['); open >= 0 {
		n := m.IntN(3)
		if typ[open+1] != ']' {
			n = int(typ[open+1] - '0')
		}
		list := make([]any, n)
		for i := range list {
			list[i] = m.value(typ[:open])
		}
		return list
	}
	if members, ok := m.types[typ]; ok {
		object := map[string]any{}
		for _, member := range members {
			object[member.Name] = m.value(member.Type)
		}
		return object
	}
	switch {
	case typ == "bool":
		return m.IntN(2) == 0
	case typ == "string":
		return []string{"", "text", "0x12", "Zoë\n\"✓\""}[m.IntN(4)]
	case typ == "bytes":
		return "0x" + hex.EncodeToString(m.bytes(m.IntN(40)))
	case typ == "address":
		return []string{m.address().Hex(), strings.ToLower(m.address().Hex())}[m.IntN(2)]
	case strings.HasPrefix(typ, "bytes"):
		n := 0
		fmt.Sscanf(typ, "bytes%d", &n)
		return "0x" + strings.ToUpper(hex.EncodeToString(m.bytes(n)))
	}
	bits := 0
	fmt.Sscanf(strings.TrimPrefix(typ, "u"), "int%d", &bits)
	n := new(big.Int).SetBytes(m.bytes(1 + m.IntN(bits/8)))
	if typ[0] == 'i' && n.Bit(bits-1) == 1 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
	}
	switch {
	case n.IsInt64() && n.Int64() < 1<<53 && n.Int64() > -1<<53 && m.IntN(2) == 0:
		return n.Int64()
	case n.Sign() >= 0 && m.IntN(2) == 0:
		return "0x" + n.Text(16)
	}
	return n.String()
}

func (m typedMaker) domain() (members []typedMember, domain map[string]any) {
	domain = map[string]any{}
	for _, d := range []typedMember{{"name", "string"}, {"version", "string"}, {"chainId", "uint256"}, {"verifyingContract", "address"}, {"salt", "bytes32"}} {
		if m.IntN(3) == 0 && d.Name != "name" { // go-ethereum takes no empty domain
			continue
		}
		members = append(members, d)
		if domain[d.Name] = m.value(d.Type); d.Type == "string" {
			domain[d.Name] = "some text"
		}
	}
	return members, domain
}

func theirDigest(text []byte) (string, error) {
	var td apitypes.TypedData
	if err := json.Unmarshal(text, &td); err != nil {
		return "", err
	}
	sum, _, err := apitypes.TypedDataAndHash(td)
	return hex.EncodeToString(sum), err
}

func ourDigest(text []byte) (string, error) {
	td, err := eth.ParseTypedData(text)
	if err != nil {
		return "", err
	}
	sum := td.Digest()
	return hex.EncodeToString(sum[:]), nil
}

func TestTypedData(t *testing.T) {
	m := typedMaker{random: newRandom(2)}
	for range 2000 {
		m.types = map[string][]typedMember{}
		for i := range 5 {
			members := make([]typedMember, 1+m.IntN(4))
			for j := range members {
				members[j] = typedMember{fmt.Sprintf("m%d", j), m.typeName(i + 1)}
			}
			m.types[fmt.Sprintf("T%d", i)] = members
		}
		members, domain := m.domain()
		m.types["EIP712Domain"] = members
		text, err := json.Marshal(map[string]any{"types": m.types, "primaryType": "T0", "domain": domain, "message": m.value("T0")})
		if err != nil {
			t.Fatal(err)
		}
		want, err := theirDigest(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got, err := ourDigest(text); got != want {
			t.Fatalf("%s: %s, %v, want %s", text, got, err, want)
		}
		if delete(m.types, "EIP712Domain"); true {
			text, _ = json.Marshal(map[string]any{"types": m.types, "primaryType": "T0", "domain": domain, "message": json.RawMessage(messageOf(t, text))})
		}
		if got, err := ourDigest(text); got != want {
			t.Fatalf("without EIP712Domain: %s: %s, %v, want %s", text, got, err, want)
		}
	}
}

func messageOf(t *testing.T, text []byte) []byte {
	var v struct{ Message json.RawMessage }
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v.Message
}

// Where the two differ. What only go-ethereum takes would be signed as something
// that the text does not say, or that other programs hash in another way.
func TestTypedDataDifferences(t *testing.T) {
	const domain = `"EIP712Domain":[{"name":"name","type":"string"}]`
	one := func(typ, value string) string {
		return `{"types":{` + domain + `,"M":[{"name":"v","type":"` + typ + `"}]},"primaryType":"M","domain":{"name":"n"},"message":{"v":` + value + `}}`
	}
	for _, c := range []struct{ name, text, takes string }{
		{"plain", one("bool", "true"), "both"},
		{"a number beyond int8", one("int8", "200"), "theirs"},
		{"no number", one("uint8", `""`), "theirs"},
		{"leading zeros", one("uint8", `"007"`), "theirs"},
		{"a number with a fraction of nothing", one("uint8", `7.0`), "theirs"},
		{"an address without 0x", one("address", `"`+strings.Repeat("ab", 20)+`"`), "theirs"},
		{"an array of another length", one("bool[2]", `[true]`), "theirs"},
		{"a list that is not as deep as its type", one("bool[][]", `[true]`), "theirs"},
		{"an alias, which ethers hashes as uint256", one("uint", `1`), "theirs"},
		{"a member of the domain that is not hashed", strings.Replace(one("bool", "true"), `{"name":"n"}`, `{"name":"n","spender":"me"}`, 1), "both"},
		{"a member of the domain that no program knows, without a type", strings.Replace(strings.Replace(one("bool", "true"), domain+",", "", 1), `{"name":"n"}`, `{"name":"n","spender":"me"}`, 1), "none"},
		{"a member of the message that is not hashed", strings.Replace(one("bool", "true"), `"v":true`, `"v":true,"chain":"0x1"`, 1), "ours"},
		{"a member twice", strings.Replace(one("bool", "true"), `"v":true`, `"v":false,"v":true`, 1), "theirs"},
		{"a member in another case", strings.Replace(one("bool", "true"), `"message"`, `"Message"`, 1), "theirs"},
		{"a further member of the text", strings.Replace(one("bool", "true"), `"message"`, `"more":1,"message"`, 1), "both"},
		{"a large JSON number", one("uint256", `9007199254740993`), "theirs differ"}, // read as a float
		{"a larger JSON number", one("uint256", `123456789012345678901234567890`), "ours"},
		{"an empty domain", strings.Replace(strings.Replace(one("bool", "true"), domain+",", "", 1), `{"name":"n"}`, `{}`, 1), "ours"},
		{"an empty name", strings.Replace(one("bool", "true"), `{"name":"n"}`, `{"name":""}`, 1), "ours"},
		{"a domain without a type", strings.Replace(one("bool", "true"), domain+",", "", 1), "ours"},
		{"a struct of nothing", strings.Replace(one("N", "{}"), `"M":`, `"N":[],"M":`, 1), "theirs differ"},
	} {
		got, ourErr := ourDigest([]byte(c.text))
		want, theirErr := theirDigest([]byte(c.text))
		takes := "none"
		switch {
		case ourErr == nil && theirErr == nil && got == want:
			takes = "both"
		case ourErr == nil && theirErr == nil:
			takes = "theirs differ"
		case ourErr == nil:
			takes = "ours"
		case theirErr == nil:
			takes = "theirs"
		}
		if takes != c.takes {
			t.Errorf("%s: %s, not %s: %v, %v", c.name, takes, c.takes, ourErr, theirErr)
		}
	}
}

// The signature of go-ethereum over an authorization is one of our digest.
func TestAuthorization(t *testing.T) {
	r := newRandom(3)
	for range 200 {
		key, err := crypto.ToECDSA(append([]byte{1}, r.bytes(31)...))
		if err != nil {
			t.Fatal(err)
		}
		address, chainID, nonce := r.address(), r.uint256(), r.uint64()
		if r.IntN(4) == 0 {
			chainID, nonce = new(uint256.Int), uint64(r.IntN(2))
		}
		signed, err := types.SignSetCode(key, types.SetCodeAuthorization{ChainID: *chainID, Address: address, Nonce: nonce})
		if err != nil {
			t.Fatal(err)
		}
		a, err := eth.ParseAuthorization(fmt.Appendf(nil, `{"address":"%s","chainId":"%s","nonce":%d}`, address.Hex(), chainID.Dec(), nonce))
		if err != nil {
			t.Fatal(err)
		}
		sum := a.Digest()
		signature := append(signed.R.PaddedBytes(32), signed.S.PaddedBytes(32)...)
		public, err := crypto.SigToPub(sum[:], append(signature, signed.V))
		if err != nil || crypto.PubkeyToAddress(*public) != crypto.PubkeyToAddress(key.PublicKey) {
			t.Errorf("chain %s, %s, nonce %d: %v", chainID, common.Address(address), nonce, err)
		}
	}
}
