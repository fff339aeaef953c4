package decode_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/decode"
)

const (
	organization = "11111111-1111-4111-8111-111111111111"
	wallet       = "22222222-2222-4222-8222-222222222222"
	// The key 1, which signs nothing of anybody's.
	address = "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"
	account = `{"account":{"walletAccountId":"22222222-2222-4222-8222-000000000001","walletId":"` + wallet + `","curve":"CURVE_SECP256K1","path":"m/0","addressFormat":"ADDRESS_FORMAT_ETHEREUM",` +
		`"address":"` + address + `","publicKey":"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"}}`
	// 0.5 ether to somebody, on Sepolia.
	transfer = "02f383aa36a703843b9aca008506fc23ac0082520894444444444444444444444444444444444444444488" + "06f05b59d3b2000080c0"
)

// reply is a get_activity reply about a body, with what is put in.
func reply(body, more string) string {
	message, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"activity":{"id":"33333333-3333-4333-8333-333333333333","organizationId":"%s","type":"ACTIVITY_TYPE_SIGN_TRANSACTION_V2","fingerprint":"sha256:%x",`+
		`"createdAt":{"seconds":"1795000000","nanos":"0"},"votes":[{"message":%s}]%s}}`, organization, sha256.Sum256([]byte(body)), message, more)
}

func body(parameters string) string {
	return `{"organizationId":"` + organization + `","type":"ACTIVITY_TYPE_SIGN_TRANSACTION_V2","timestampMs":"1795000000000","parameters":` + parameters + `}`
}

func sign(unsigned string) string {
	return body(`{"signWith":"` + address + `","unsignedTransaction":"` + unsigned + `","type":"TRANSACTION_TYPE_ETHEREUM"}`)
}

func shown(document []byte, digest string) string {
	return fmt.Sprintf(`,"decoded":%s,"decodedDigest":"%s"`, document, digest)
}

// Against the enclave's own documents: sim/rig.
func TestAnswer(t *testing.T) {
	q := decode.Question{Activity: reply(sign(transfer), ""), Records: []string{account}}
	a, err := q.Answer()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"title":"Send `, `"address":"0x4444444444444444444444444444444444444444"`, `"text":"0.5"`, `"name":"Sepolia"`, `"by":"` + address + `"`} {
		if !strings.Contains(string(a.Document), want) {
			t.Errorf("no %s in %s", want, a.Document)
		}
	}
	if a.Shown || len(a.Differences) > 0 {
		t.Errorf("shown %t, %v", a.Shown, a.Differences)
	}
	pretty, err := json.MarshalIndent(a.Document, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	book := `{"configs":{"features":[{"name":"FEATURE_NAME_SMS_AUTH"},{"name":"FEATURE_NAME_ADDRESS_BOOK","value":"[{\"name\":\"Payroll\",\"address\":\"0x4444444444444444444444444444444444444444\"}]"}],"quorum":{"threshold":1,"userIds":[]}}}`
	if b, err := (&decode.Question{Activity: q.Activity, Records: []string{book, account}}).Answer(); err != nil || !strings.Contains(string(b.Document), `"label":"Payroll","labelSource":"ORGANIZATION"`) || b.Digest == a.Digest {
		t.Errorf("with a name of the address book: %v, %s", err, b.Document)
	}
	for name, text := range map[string]string{"as it came": string(a.Document), "with blanks": string(pretty)} {
		q.Activity = reply(sign(transfer), shown([]byte(text), a.Digest))
		if b, err := q.Answer(); err != nil || !b.Shown || len(b.Differences) > 0 {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
	// Whatever the host puts into any one place of what it shows is found there.
	for _, change := range [][2]string{{"0.5", "0.05"}, {"0x4444", "0x4445"}, {"Sepolia", "Ethereum"}, {"FULL", "NONE"}, {`"warnings":[`, `"warnings":["x",`}, {`"fixed":true`, `"fixed":false`}} {
		if !strings.Contains(string(a.Document), change[0]) {
			t.Fatalf("no %s in %s", change[0], a.Document)
		}
		q.Activity = reply(sign(transfer), shown([]byte(strings.Replace(string(a.Document), change[0], change[1], 1)), a.Digest))
		if b, err := q.Answer(); err != nil || len(b.Differences) == 0 || b.Digest != a.Digest {
			t.Errorf("%v: %v, %v", change, b, err)
		}
	}
}

// Records of wallets, users and interfaces count as in the enclave: whether a key was outside, who made a label, what it looks like.
func TestNamesOfRecords(t *testing.T) {
	// The key 2, which gets something from the key 1.
	const second = "0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF"
	to := strings.Replace(transfer, "94"+strings.Repeat("44", 20), "94"+strings.ToLower(second[2:]), 1)
	const other = "44444444-4444-4444-8444-444444444444"
	receiver := func(details string) string {
		return `{"accounts":[{"walletAccountId":"44444444-4444-4444-8444-000000000001","walletId":"` + other + `","curve":"CURVE_SECP256K1","path":"m/0","addressFormat":"ADDRESS_FORMAT_ETHEREUM",` +
			`"address":"` + second + `","publicKey":"02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"` + details + `}]}`
	}
	details := func(flags string) string {
		return receiver(`,"walletDetails":{"walletId":"` + other + `","walletName":"Treasury"` + flags + `}`)
	}
	const (
		description = `{"smartContractInterface":{"smartContractInterfaceId":"55555555-5555-4555-8555-555555555555","smartContractAddress":"` + second + `","smartContractInterface":"[]",` +
			`"type":"SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM","label":"treasury","createdBy":"66666666-6666-4666-8666-666666666666"}}`
		maker    = `{"user":{"userId":"66666666-6666-4666-8666-666666666666","userName":"eve"}}`
		treasury = `{"wallets":[{"walletId":"` + other + `","walletName":"Treasury","exported":false,"imported":false}]}`
		private  = `{"privateKeys":[{"privateKeyId":"77777777-7777-4777-8777-777777777777","privateKeyName":"TREASURY","curve":"CURVE_SECP256K1","addresses":[],"publicKey":"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"}]}`
	)
	for name, c := range map[string]struct {
		records []string
		codes   string
		has     string
	}{
		"an own account":           {[]string{receiver("")}, "", `"to":{"address":"` + second + `"}`},
		"whose wallet is told":     {[]string{details(`,"exported":false,"imported":false`)}, "", ""},
		"that was imported":        {[]string{details(`,"exported":false,"imported":true`)}, "OWN_KEY_OUTSIDE", `"own":true,"keyOutside":true`},
		"that was exported":        {[]string{details(`,"exported":true`)}, "OWN_KEY_OUTSIDE", ""},
		"in part":                  {[]string{details(`,"keysExported":true`)}, "OWN_KEY_OUTSIDE", ""},
		"and listed by itself":     {[]string{receiver(""), `{"wallet":{"walletId":"` + other + `","walletName":"x","imported":true}}`}, "OWN_KEY_OUTSIDE", ""},
		"a label":                  {[]string{description}, "ADDRESS_NEW", `"labelBy":{"userId":"66666666-6666-4666-8666-666666666666"}`},
		"a label with its maker":   {[]string{description, maker}, "ADDRESS_NEW", `"labelBy":{"userId":"66666666-6666-4666-8666-666666666666","name":"eve","nameSource":"ORGANIZATION"}`},
		"a label like a wallet":    {[]string{description, treasury}, "LABEL_CLASH ADDRESS_NEW", ""},
		"a label like another key": {[]string{description, private}, "LABEL_CLASH ADDRESS_NEW", ""},
	} {
		a, err := (&decode.Question{Activity: reply(sign(to), ""), Records: append(c.records, account)}).Answer()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var d struct{ Warnings []struct{ Code string } }
		if err := json.Unmarshal(a.Document, &d); err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, w := range d.Warnings {
			codes = append(codes, w.Code)
		}
		if got := strings.Join(codes, " "); got != c.codes || !strings.Contains(string(a.Document), c.has) {
			t.Errorf("%s: %q, want %q and %s in %s", name, got, c.codes, c.has, a.Document)
		}
	}
}

func TestRefused(t *testing.T) {
	good := reply(sign(transfer), "")
	for name, c := range map[string]struct {
		q    decode.Question
		want string
	}{
		"nothing":                {decode.Question{}, "activity: "},
		"a body of another kind": {decode.Question{Activity: strings.ReplaceAll(reply(strings.ReplaceAll(sign(transfer), "SIGN_TRANSACTION_V2", "DELETE_USERS"), ""), "SIGN_TRANSACTION_V2", "DELETE_USERS")}, "signs nothing"},
		"no transaction":         {decode.Question{Activity: reply(sign("00"), ""), Records: []string{account}}, "decoding the body"},
		"unknown members":        {decode.Question{Activity: reply(body(`{"more":1}`), ""), Records: []string{account}}, "decoding the body"},
		"no time":                {decode.Question{Activity: strings.Replace(good, "1795000000", "yesterday", 1)}, "createdAt"},
		"a time far away":        {decode.Question{Activity: strings.Replace(good, `"1795000000"`, `"18446744073709551615"`, 1)}, "createdAt"},
		"no signer":              {decode.Question{Activity: good}, "not among the records"},
		"a member twice":         {decode.Question{Activity: strings.Replace(good, `{"activity":`, `{"activity":null,"activity":`, 1)}, "activity: "},
		"another's account":      {decode.Question{Activity: good, Records: []string{strings.Replace(account, "0x7E", "0x7F", 1)}}, "is not that of its public key"},
		"account 0":              {decode.Question{Activity: good, Records: []string{strings.Replace(account, "0001", "0000", 1)}}, "walletAccountId"},
		"a key without id":       {decode.Question{Activity: good, Records: []string{`{"privateKeys":[{}]}`}}, "privateKeyId"},
		"an interface that is":   {decode.Question{Activity: good, Records: []string{`{"smartContractInterfaces":[{}]}`}}, "smartContractInterfaceId"},
		"an address book":        {decode.Question{Activity: good, Records: []string{`{"configs":{"features":[{"name":"FEATURE_NAME_ADDRESS_BOOK","value":"[{}]"}]}}`}}, "invalid address book"},
		"too many bytes":         {decode.Question{Activity: good, Records: []string{strings.Repeat(" ", decode.MaxBytes)}}, "bytes in all"},
	} {
		a, err := c.q.Answer()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %s", name, a, err, c.want)
		}
	}
}

// All three texts are the host's. The fingerprint is made to fit, as the host could.
func FuzzAnswer(f *testing.F) {
	q := decode.Question{Activity: reply(sign(transfer), ""), Records: []string{account}}
	a, err := q.Answer()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sign(transfer), shown(a.Document, a.Digest), account)
	f.Add(sign("00"), "", `{"privateKeys":[{"privateKeyId":"`+wallet+`","curve":"CURVE_ED25519","publicKey":"00","addresses":[{"format":"ADDRESS_FORMAT_SOLANA","address":"1"}]}]}`)
	f.Add(body("{}"), `,"decoded":null`, `{"smartContractInterfaces":[{"smartContractInterfaceId":"`+wallet+`","type":"SMART_CONTRACT_INTERFACE_TYPE_SOLANA","label":"x"}]}`)
	f.Add(sign(transfer), "", `{"configs":{"features":[{"name":"FEATURE_NAME_ADDRESS_BOOK","value":"[{\"name\":\"a\",\"address\":\"0x4444444444444444444444444444444444444444\"}]"}]}}`)
	f.Fuzz(func(t *testing.T, body, more, record string) {
		a, err := (&decode.Question{Activity: reply(body, more), Records: []string{account, record}}).Answer()
		if err == nil && (!json.Valid(a.Document) || len(a.Differences) > decode.MaxDifferences) {
			t.Errorf("%s, %v", a.Document, a.Differences)
		}
	})
}
