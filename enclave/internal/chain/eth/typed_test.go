package eth_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/fault"
)

func readJSON(t testing.TB, file string, into any) {
	b, err := os.ReadFile("testdata/" + file)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sdkFlow is a request of an official SDK.
type sdkFlow struct {
	Name     string
	Requests []struct{ Payload, Encoding string }
	EIP712   string `json:"eip712_digest"`
	EIP7702  string `json:"eip7702_digest"`
}

func sdkFlows(t testing.TB, encoding string) (out []sdkFlow) {
	var file struct {
		Flows []sdkFlow `json:"sdk_flows"`
	}
	readJSON(t, "raw_signing.json", &file)
	for _, f := range file.Flows {
		if f.Requests[0].Encoding == encoding {
			out = append(out, f)
		}
	}
	return out
}

// the message of the EIP, written as its authors do.
const etherMail = `{"types":{"EIP712Domain":[{"name":"name","type":"string"},{"name":"version","type":"string"},{"name":"chainId","type":"uint256"},{"name":"verifyingContract","type":"address"}],` +
	`"Person":[{"name":"name","type":"string"},{"name":"wallet","type":"address"}],"Mail":[{"name":"from","type":"Person"},{"name":"to","type":"Person"},{"name":"contents","type":"string"}]},` +
	`"primaryType":"Mail","domain":{"name":"Ether Mail","version":"1","chainId":1,"verifyingContract":"0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"},` +
	`"message":{"from":{"name":"Cow","wallet":"0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},"to":{"name":"Bob","wallet":"0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},"contents":"Hello, Bob!"}}`

const etherMailDigest = "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2"

func typedDigest(t testing.TB, text string) string {
	t.Helper()
	d, err := eth.ParseTypedData([]byte(text))
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return ""
	}
	sum := d.Digest()
	return hex.EncodeToString(sum[:])
}

func TestTypedData(t *testing.T) {
	type one struct{ Name, Payload, Digest string }
	var made, all []one
	readJSON(t, "typed_data.json", &made)
	all = append(append(all, one{"the example of the EIP", etherMail, "0x" + etherMailDigest}), made...)
	for name, tx := range readPolicyCases(t).Transactions {
		if tx.Encoding == "PAYLOAD_ENCODING_EIP712" {
			all = append(all, one{name, tx.Payload, tx.Digest})
		}
	}
	for _, f := range sdkFlows(t, "PAYLOAD_ENCODING_EIP712") {
		if f.EIP712 == "" { // the ethers request says what viem's says, in other words
			f.EIP712 = "0x1cec5e939d0e82deb64ed077d2bd4088146ad51ae9e34278a8981868f353bb94"
		}
		all = append(all, one{f.Name, f.Requests[0].Payload, f.EIP712})
	}
	if len(all) != 1+15+1+3 {
		t.Errorf("%d cases", len(all))
	}
	for _, c := range all {
		if got := typedDigest(t, c.Payload); "0x"+got != c.Digest {
			t.Errorf("%s: %s, want %s", c.Name, got, c.Digest)
		}
	}
}

func TestTypedDataFacts(t *testing.T) {
	c := readPolicyCases(t).Transactions["eip712_permit2"]
	for text, want := range map[string]any{
		c.Payload: c.Parsed["eth.eip_712"],
		`{"types":{"M":[{"name":"a","type":"uint256[][2]"},{"name":"b","type":"int256"},{"name":"c","type":"int256[]"},{"name":"d","type":"bytes3"},{"name":"e","type":"bytes"},{"name":"f","type":"bool"},
			{"name":"g","type":"N[]"}],"N":[{"name":"x","type":"string"}]},"primaryType":"M","domain":{},
			"message":{"a":[[],["0xFF","9223372036854775808"]],"b":-5,"c":["170141183460469231731687303715884105728"],"d":"0xABCDEF","e":"0x","f":true,"g":[{"x":"0xAB"}]}}`: map[string]any{
			"primary_type": "M", "domain": map[string]any{"name": "", "version": "", "chain_id": "0", "verifying_contract": ""},
			"message": map[string]any{"a": []any{[]any{}, []any{"255", "9223372036854775808"}}, "b": "-5", "c": []any{nil}, "d": "0xabcdef", "e": "0x", "f": true,
				"g": []any{map[string]any{"x": "0xAB"}}}},
		`{"types":{"M":[]},"primaryType":"M","domain":{"verifyingContract":"0xABABABABABABABABABABABABABABABABABABABAB","chainId":"0xffffffffffffffffffffffffffffffff","salt":"0x` + strings.Repeat("1", 64) + `"},"message":{}}`: map[string]any{
			"primary_type": "M", "domain": map[string]any{"name": "", "version": "", "chain_id": "340282366920938463463374607431768211455", "verifying_contract": "0xabababababababababababababababababababab"},
			"message": map[string]any{}},
	} {
		d, err := eth.ParseTypedData([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := plain(d.Facts()); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
}

// changed writes a text with one place changed.
func changed(t *testing.T, text, old, new string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("no %s", old)
	}
	return strings.Replace(text, old, new, 1)
}

// Ways to write the same.
func TestTypedDataForms(t *testing.T) {
	for _, c := range [][2]string{
		{`"chainId":1`, `"chainId":"1"`}, {`"chainId":1`, `"chainId":"0x1"`}, {`"chainId":1`, `"chainId":"0x0000000000000000000000000000000000000000000000000000000000000001"`}, {`"chainId":1`, `"chainId":"\u0031"`},
		{`0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC`, `0xcccccccccccccccccccccccccccccccccccccccc`}, {`0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC`, `0xCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC`},
		{`0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826`, `0xcD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826`}, // a wrong checksum
		{`"EIP712Domain":[{"name":"name","type":"string"},{"name":"version","type":"string"},{"name":"chainId","type":"uint256"},{"name":"verifyingContract","type":"address"}],`, ``},
		{`"EIP712Domain":[{"name":"name","type":"string"},{"name":"version","type":"string"},{"name":"chainId","type":"uint256"},{"name":"verifyingContract","type":"address"}]`, `"EIP712Domain":null`},
		{`"name":"Ether Mail","version":"1","chainId":1`, `"chainId":1,"version":"1","name":"Ether Mail"`},
		{`"contents":"Hello, Bob!"`, `"\u0063ontents" : "\u0048ello, Bob!"` + "\n\t\r "}, {`{"name":"wallet","type":"address"}`, ` { "type" : "address" , "name" : "wallet" } `},
		{`"Mail":[`, `"Unused":[{"name":"m","type":"Mail[][4]"}],"Mail":[`},
	} {
		if got := typedDigest(t, changed(t, etherMail, c[0], c[1])); got != etherMailDigest {
			t.Errorf("%s: %s", c[1], got)
		}
	}
}

// What no type names is in no hash, and policies do not see it.
func TestTypedDataUnsigned(t *testing.T) {
	signed, err := eth.ParseTypedData([]byte(etherMail))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{`"contents":"Hello, Bob!"`, `"contents":"Hello, Bob!","signatureChainId":"0xa4b1"`}, {`"contents":"Hello, Bob!"`, `"Contents":"Hello, Eve!","contents":"Hello, Bob!"`},
		{`"message":{`, `"message":{"type":"order","nonce":null,"deep":{"a":[1,{"}":"]"},[]],"contents":"Hello, Eve!"},`}, {`"message":{`, `"message":{"":1,"__proto__":{"contents":"x"},"a b":true,`},
		{`"wallet":"0xCD`, `"EIP712Domain":[],"Mail":{"from":1},"wallet":"0xCD`}, {`{"name":"Bob",`, `{"address":"0x00","name":"Bob","more":-1e9 ,`},
		{`"chainId":1`, `"chainId":1,"salt":"0x00","verifyingcontract":"0x00","spender":"me"`},
		{`"primaryType":"Mail"`, `"primaryType":"Mail","signature":"0x","account":{"address":"0x00"},"PrimaryType":"Person"`}, {`{"types":`, `{"Message":{"contents":"Hello, Eve!"},"":null,"Domain":[{"chainId":2}],"types":`},
	} {
		got, err := eth.ParseTypedData([]byte(changed(t, etherMail, c[0], c[1])))
		if err != nil {
			t.Errorf("%s: %v", c[1], err)
		} else if got.Digest() != signed.Digest() || !reflect.DeepEqual(got.Facts(), signed.Facts()) {
			t.Errorf("%s: %x, %v", c[1], got.Digest(), got.Facts())
		}
	}
	// What other software signs of texts with such members.
	var judged []struct{ Name, Payload, Digest string }
	readJSON(t, "typed_unsigned.json", &judged)
	for _, j := range judged {
		if got := typedDigest(t, j.Payload); "0x"+got != j.Digest {
			t.Errorf("%s: %s, want %s", j.Name, got, j.Digest)
		}
	}
	if len(judged) != 6 {
		t.Errorf("%d cases", len(judged))
	}
	// A domain whose type lacks what it holds.
	lacks := changed(t, etherMail, `{"name":"chainId","type":"uint256"},{"name":"verifyingContract","type":"address"}`, `{"name":"salt","type":"bytes32"}`)
	lacks = changed(t, lacks, `"chainId":1,`, `"salt":"0x`+strings.Repeat("00", 32)+`","chainId":1,`)
	got, err := eth.ParseTypedData([]byte(lacks))
	if err != nil {
		t.Fatal(err)
	}
	if d := plain(got.Facts()).(map[string]any)["domain"]; !reflect.DeepEqual(d, map[string]any{"name": "Ether Mail", "version": "1", "chain_id": "0", "verifying_contract": ""}) {
		t.Errorf("policies see %v", d)
	}
}

func TestTypedDataRefuses(t *testing.T) {
	refused := func(text, says string) {
		t.Helper()
		d, err := eth.ParseTypedData([]byte(text))
		f := fault.Of(err)
		if d != nil || f == nil || f.Code != fault.InvalidArgument || len(f.Violations) != 1 || f.Violations[0].Field != "payload" || !strings.Contains(f.Message, says) || !strings.HasPrefix(f.Message, "invalid typed data: ") {
			t.Errorf("%.300s: %v, want %s", text, err, says)
		}
	}
	for _, text := range []string{``, `null`, `[]`, `"x"`, `{`, etherMail[:len(etherMail)-1], etherMail + `x`, etherMail + etherMail, `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "\xff"} {
		refused(text, "")
	}
	refused(strings.Repeat(" ", eth.MaxTypedData)+etherMail, "more than 1048576 bytes")
	const (
		person = `"Person":[{"name":"name","type":"string"},{"name":"wallet","type":"address"}]`
		domain = `{"name":"chainId","type":"uint256"}`
	)
	for _, c := range [][3]string{
		// The outline.
		{`"primaryType":"Mail",`, ``, "missing field `primaryType`"},
		{`"primaryType":"Mail"`, `"primaryType":""`, "missing field `primaryType`"},
		{`"primaryType":"Mail"`, `"primaryType":"Letter"`, "primaryType must name one of the types"},
		{`"primaryType":"Mail"`, `"primaryType":"Mail[]"`, "primaryType must name one of the types"},
		{`"primaryType":"Mail"`, `"primaryType":"EIP712Domain"`, "primaryType must name one of the types"},
		{`"primaryType":"Mail"`, `"primaryType":"Mail","primaryType":"Mail"`, "repeated field"},
		{`"primaryType":"Mail"`, `"primaryType":"Mail","primary_type":"Mail"`, "repeated field"},
		{`"primaryType":"Mail"`, `"PrimaryType":"Mail"`, "missing field `primaryType`"},
		{`"primaryType":"Mail"`, `"primaryType":"Mail","signature":"0x","signature":"0x"`, `repeated field "signature"`},
		{`"primaryType":"Mail"`, `"primaryType":"Mail","signature":{"r":1,"\u0072":1}`, `repeated field "signature.r"`},
		{`"primaryType":"Mail"`, `"primaryType":"Mail","signature":0x`, ``},
		{`"domain":{"name"`, `"Domain":{"name"`, "missing field `domain`"},
		{`"message":{"from":`, `"message":null,"x":{"from":`, "missing field `message`"},
		{`"message":{"from":`, `"message":"","domain2":{"from":`, "message must be an object"},
		{`"types":{`, `"types":null,"types2":{`, "missing field `types`"},
		// Types.
		{`"Mail":[`, `"Mail":[],"Mail":[`, "repeated field"},
		{`{"name":"wallet","type":"address"}`, `{"name":"wallet","type":"address","components":[]}`, "unknown field"},
		{`{"name":"wallet","type":"address"}`, `{"name":"wallet","name":"wallet","type":"address"}`, "repeated field"},
		{`{"name":"wallet","type":"address"}`, `{"name":"wallet"}`, "missing field `type`"},
		{`{"name":"wallet","type":"address"}`, `{"name":"","type":"address"}`, "missing field `name`"},
		{`{"name":"wallet","type":"address"}`, `null`, "must not be null"},
		{`{"name":"wallet","type":"address"}`, `"address wallet"`, "must be an object"},
		{`{"name":"wallet","type":"address"}`, `{"name":"wallet","type":"address"},{"name":"name","type":"string"}`, "types.Person.name is there twice"},
		{`{"name":"wallet","type":"address"}`, `{"name":"a wallet","type":"address"}`, `types.Person."a wallet" is no name of a member`},
		{`{"name":"wallet","type":"address"}`, `{"name":"wallet,bool x","type":"address"}`, `is no name of a member`},
		{`{"name":"wallet","type":"address"}`, `{"name":"1wallet","type":"address"}`, `is no name of a member`},
		{`{"name":"wallet","type":"address"}`, `{"name":"w\u0000","type":"address"}`, `types.Person."w\x00" is no name of a member`},
		{`{"name":"from","type":"Person"}`, `{"name":"from","type":"person"}`, `types.Mail.from has the unknown type "person"`},
		{`{"name":"from","type":"Person"}`, `{"name":"from","type":"Mail"}`, `types.Mail.from makes the type hold itself`},
		{`{"name":"wallet","type":"address"}`, `{"name":"wallet","type":"address"},{"name":"mails","type":"Mail[]"}`, `types.Person.mails makes the type hold itself`},
		{`"Mail":[`, `"Tree":[{"name":"kids","type":"Tree[]"}],"Mail":[`, `types.Tree.kids makes the type hold itself`},
		{`"Mail":[`, `"A":[{"name":"b","type":"B"}],"B":[{"name":"a","type":"A[2]"}],"Mail":[`, `types.B.a makes the type hold itself`},
		{`"Mail":[`, `"Unused":[{"name":"b","type":"B"}],"Mail":[`, `types.Unused.b has the unknown type "B"`},
		{`"Mail":[`, `"uint256":[],"Mail":[`, `types."uint256" is no name of a type`},
		{`"Mail":[`, `"uint257":[],"Mail":[`, `is no name of a type`},
		{`"Mail":[`, `"bytes":[],"Mail":[`, `is no name of a type`},
		{`"Mail":[`, `"":[],"Mail":[`, `types."" is no name of a type`},
		{`"Mail":[`, `"3D":[],"Mail":[`, `is no name of a type`},
		{`"Mail":[`, `":Mail":[],"Mail":[`, `is no name of a type`},
		{`"Mail":[`, `"Ma il":[],"Mail":[`, `is no name of a type`},
		{`"Mail":[`, `"Mail[]":[],"Mail":[`, `is no name of a type`},
		{`"Mail":[`, `"M(bool a)":[],"Mail":[`, `is no name of a type`},
		{`"Mail":[`, `"Mä":[],"Mail":[`, `types."M\u00e4" is no name of a type`},
		{`"Mail":[`, `"` + strings.Repeat("M", 256) + `":[],"Mail":[`, `is no name of a type`},
		{`"Mail":[`, `"A:B":[{"name":"p","type":"Person"}],"Mail":[`, `types.A:B.p is a struct in or of a type whose name`},
		{`"Mail":[`, `"A$B":[],"C":[{"name":"p","type":"A$B[]"}],"Mail":[`, `types.C.p is a struct in or of a type whose name`},
		// The domain.
		{domain, `{"name":"chainId","type":"int256"}`, "types.EIP712Domain.chainId is no member"},
		{domain, `{"name":"chainId","type":"string"}`, "types.EIP712Domain.chainId is no member"},
		{domain, `{"name":"chainId","type":"uint256[]"}`, "types.EIP712Domain.chainId is no member"},
		{domain, `{"name":"chain_id","type":"uint256"}`, "types.EIP712Domain.chain_id is no member"},
		{domain, domain + `,{"name":"salt","type":"bytes31"}`, "types.EIP712Domain.salt is no member"},
		{domain, domain + `,{"name":"salt","type":"bytes32"}`, "domain.salt is missing"},
		{`{"name":"version","type":"string"}`, `{"name":"version","type":"uint256"}`, "types.EIP712Domain.version is no member"},
		{`"version":"1",`, ``, "domain.version is missing"},
		{`"version":"1"`, `"version":null`, "domain.version must be a string"},
		{`"version":"1"`, `"version":1`, "domain.version must be a string"},
		{`"chainId":1`, `"chainId":1.0`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":1e0`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":-1`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"01"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"+1"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":" 1"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":""`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"-0"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"0x"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"0X1"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"0x+1"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"-0x1"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"1_0"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"0x1_0"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":"0x1` + strings.Repeat("0", 64) + `"`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":1` + strings.Repeat("0", 100_000), "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":{"a":1}`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":[1]`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":true`, "domain.chainId must be a whole number"},
		{`"chainId":1`, `"chainId":null`, "domain.chainId must be a whole number"},
		{`"domain":{"name":"Ether Mail"`, `"domain":[1],"x":{"name":"Ether Mail"`, "domain must be an object"},
		// The message.
		{`"contents":"Hello, Bob!"`, `"contents":"Hello, Bob!","contents":"Hello, Bob!"`, `repeated field "message.contents"`},
		{`"contents":"Hello, Bob!"`, `"contents":"Hello, Bob!","more":1,"more":1`, `repeated field "message.more"`},
		{`"contents":"Hello, Bob!"`, `"contents":"Hello, Bob!","more":{"a":[{"b":1,"b":1}]}`, `repeated field "message.more.a.0.b"`},
		{`"contents":"Hello, Bob!"`, `"contents":"Hello, Bob!","more":nil`, ``},
		{`"contents":"Hello, Bob!"`, `"Contents":"Hello, Bob!"`, "message.contents is missing, of type string"},
		{`,"contents":"Hello, Bob!"`, ``, "message.contents is missing, of type string"},
		{`"contents":"Hello, Bob!"`, `"contents":null`, "message.contents must be a string"},
		{`"contents":"Hello, Bob!"`, `"contents":7`, "message.contents must be a string"},
		{`"contents":"Hello, Bob!"`, `"contents":["Hello, Bob!"]`, "message.contents must be a string"},
		{`"contents":"Hello, Bob!"`, "\"contents\":\"\xff\"", "invalid UTF-8"},
		{`"contents":"Hello, Bob!"`, `"contents":"\ud800"`, "bad escape"},
		{`"from":{"name":"Cow","wallet":"0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"}`, `"from":null`, "message.from must be an object, of type Person"},
		{`"from":{"name":"Cow","wallet":"0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},`, ``, "message.from is missing"},
		{`"from":{"name":"Cow","wallet":"0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"}`, `"from":["Cow"]`, "message.from must be an object"},
		{`"from":{"name":"Cow",`, `"from":{`, "message.from.name is missing"},
		{`"wallet":"0xCD`, `"wallet":"CD`, "message.from.wallet must be hexadecimal with 0x"},
		{`"wallet":"0xCD`, `"wallet":"0XCD`, "message.from.wallet must be hexadecimal with 0x"},
		{`"wallet":"0xCD`, `"wallet":"0xD`, "message.from.wallet must be hexadecimal"},
		{`"wallet":"0xCD`, `"wallet":"0x`, "message.from.wallet must be 20 bytes"},
		{`"wallet":"0xCD`, `"wallet":"0x00CD`, "message.from.wallet must be 20 bytes"},
		{`"wallet":"0xCD`, `"wallet":"0xGG`, "message.from.wallet must be hexadecimal"},
	} {
		refused(changed(t, etherMail, c[0], c[1]), c[2])
	}
	refused(changed(t, changed(t, etherMail, person, `"Person":[{"name":"name","type":"string"},{"name":"wallet","type":"address[]"}]`), `"0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"`,
		`["0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826","0x"]`), "message.from.wallet.1 must be 20 bytes")
	// Values of one member.
	for _, c := range [][2]string{
		{"uint", `1`}, {"int", `1`}, {"uint[]", `[]`}, {"uint0", `1`}, {"uint7", `1`}, {"uint264", `1`}, {"uint08", `1`}, {"bytes0", `"0x"`}, {"bytes33", `"0x"`}, {"byte", `"0x00"`}, {"fixed", `1`}, {"fixed128x18", `1`},
		{"function", `"0x"`}, {"tuple", `{}`}, {"mapping", `{}`}, {"bool ", `true`}, {" bool", `true`}, {"bool[", `[true]`}, {"bool]", `[true]`}, {"bool[0]", `[]`}, {"bool[01]", `[true]`}, {"bool[-1]", `[]`},
		{"bool[x]", `[]`}, {"bool[]x", `[]`}, {"[]", `[]`}, {"bool" + strings.Repeat("[]", 126), `[]`},
		{"uint8", `256`}, {"uint8", `-1`}, {"uint8", `"0x100"`}, {"uint8", `1.5`}, {"uint8", `"1.0"`}, {"uint8", `"1e2"`}, {"uint8", `1e2`}, {"uint8", `true`}, {"uint8", `null`}, {"uint8", `[1]`}, {"uint8", `"seven"`},
		{"int8", `128`}, {"int8", `-129`}, {"int8", `"0xff"`}, {"int256", `"0x8000000000000000000000000000000000000000000000000000000000000000"`}, {"uint256", `"` + strings.Repeat("9", 78) + `"`},
		{"int256", `"-57896044618658097711785492504343953926634992332820282019728792003956564819969"`},
		{"bool", `"true"`}, {"bool", `1`}, {"bool", `0`}, {"bool", `null`}, {"bool", `[]`}, {"bool", `""`},
		{"string", `1`}, {"string", `true`}, {"string", `{}`},
		{"bytes", `"0xa"`}, {"bytes", `"ab"`}, {"bytes", `""`}, {"bytes", `"0xzz"`}, {"bytes", `[1,2]`}, {"bytes", `"hello"`}, {"bytes", `null`},
		{"bytes2", `"0xab"`}, {"bytes2", `"0xababab"`}, {"bytes32", `"0x"`}, {"address", `"0x` + strings.Repeat("0", 64) + `"`}, {"address", `1`}, {"address", `"vitalik.eth"`},
		{"bool[]", `true`}, {"bool[]", `null`}, {"bool[]", `{}`}, {"bool[]", `[null]`}, {"bool[]", `[[true]]`}, {"bool[2]", `[true]`}, {"bool[2]", `[true,true,true]`}, {"bool[2]", `[]`}, {"bool[2147483648]", `[]`},
		{"bool[2147483649]", `[]`}, {"bool[][2]", `[[true]]`}, {"bool[2][]", `[[true]]`}, {"bool[2][]", `[[true,false],[true]]`}, {"bool[][]", `[true]`},
		{"N", `[]`}, {"N", `"0x"`}, {"N[]", `{}`}, {"N[]", `[{}]`}, {"N[]", `[{"c":true}]`}, {"N[]", `[{"b":true},null]`},
	} {
		refused(`{"types":{"M":[{"name":"v","type":"`+c[0]+`"}],"N":[{"name":"b","type":"bool"}]},"primaryType":"M","domain":{},"message":{"v":`+c[1]+`}}`, ".v")
	}
	for _, c := range [][2]string{{`{"x":1}`, `domain."x" is no member that domains have`}, {`{"name":1}`, "domain.name must be a string"}, {`[]`, "domain must be an object"}, {`7`, "domain must be"},
		{`{"salt":"0x00"}`, "domain.salt must be 32 bytes"}, {`{"verifyingContract":"cosmos"}`, "domain.verifyingContract must be hex"}, {`{"name":null}`, "domain.name must be a string"}} {
		refused(`{"types":{"M":[]},"primaryType":"M","domain":`+c[0]+`,"message":{}}`, c[1])
	}
	for _, text := range []string{`7`, `[]`, `""`} {
		refused(`{"types":{"M":[]},"primaryType":"M","domain":{},"message":`+text+`}`, "message must be an object")
	}
}

// No text of a megabyte takes long.
func TestTypedDataBounds(t *testing.T) {
	// Types that hold all types after them, and a message of one of each.
	var types, message strings.Builder
	const n = 900
	for i := range n {
		fmt.Fprintf(&types, `"T%03d":[{"name":"%s","type":"T%03d[]"}],`, i, strings.Repeat("a", 200), i+1)
		fmt.Fprintf(&message, `"m%d":{"%s":[]},`, i, strings.Repeat("a", 200))
	}
	fmt.Fprintf(&types, `"T%d":[],"M":[`, n)
	for i := range n {
		fmt.Fprintf(&types, `{"name":"m%d","type":"T%03d"},`, i, i)
	}
	text := `{"types":{` + types.String()[:types.Len()-1] + `]},"primaryType":"M","domain":{},"message":{` + message.String()[:message.Len()-1] + `}}`
	if _, err := eth.ParseTypedData([]byte(text)); err == nil || !strings.Contains(err.Error(), "holds too many others") {
		t.Error(err)
	}
	nested := func(levels int) string {
		return `{"types":{"M":[{"name":"v","type":"bool` + strings.Repeat("[]", levels) + `"}]},"primaryType":"M","domain":{},"message":{"v":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}}`
	}
	typedDigest(t, nested(62))
	if _, err := eth.ParseTypedData([]byte(nested(63))); err == nil || !strings.Contains(err.Error(), "too many levels") {
		t.Error(err)
	}
	many := func(n int) string {
		return `{"types":{"M":[{"name":"v","type":"bool[]"}]},"primaryType":"M","domain":{},"message":{"v":[` + strings.Repeat("true,", n-1) + `true]}}`
	}
	typedDigest(t, many(10_000))
	if _, err := eth.ParseTypedData([]byte(many(10_001))); err == nil || !strings.Contains(err.Error(), "too many elements") {
		t.Error(err)
	}
}

func FuzzTypedData(f *testing.F) {
	f.Add(etherMail)
	var made []struct{ Payload string }
	readJSON(f, "typed_data.json", &made)
	for _, m := range made {
		f.Add(m.Payload)
	}
	f.Add(readPolicyCases(f).Transactions["eip712_permit2"].Payload)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := eth.ParseTypedData([]byte(text))
		if err != nil {
			if e := fault.Of(err); d != nil || e == nil || e.Code != fault.InvalidArgument || e.Violations[0].Field != "payload" || len(e.Message) > 8192 {
				t.Errorf("%T %v", err, err)
			}
			return
		}
		// Facts have a place for all that policies read, and fit the text.
		facts := d.Facts()
		if n := weight(facts); n > 64*len(text) {
			t.Errorf("%d bytes became facts of %d", len(text), n)
		}
		again, err := eth.ParseTypedData([]byte(" " + text + " "))
		if err != nil || again.Digest() != d.Digest() || !reflect.DeepEqual(again.Facts(), facts) {
			t.Error("read again, it is another")
		}
	})
}
