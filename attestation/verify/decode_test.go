package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"cloister/enclave/decode"
)

// What the command says of a reply, of one in which the host shows something else, and of what the dashboard saves.
func TestDecode(t *testing.T) {
	const account = `{"account":{"walletAccountId":"22222222-2222-4222-8222-000000000001","walletId":"22222222-2222-4222-8222-222222222222","curve":"CURVE_SECP256K1","path":"m/0",` +
		`"addressFormat":"ADDRESS_FORMAT_ETHEREUM","address":"0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf","publicKey":"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"}}`
	body := `{"organizationId":"11111111-1111-4111-8111-111111111111","type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2","timestampMs":"1795000000000","parameters":` +
		`{"signWith":"0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf","payload":"hello","encoding":"PAYLOAD_ENCODING_TEXT_UTF8","hashFunction":"HASH_FUNCTION_KECCAK256"}}`
	message, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	reply := func(more string) string {
		return fmt.Sprintf(`{"activity":{"id":"33333333-3333-4333-8333-333333333333","organizationId":"11111111-1111-4111-8111-111111111111","type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2",`+
			`"fingerprint":"sha256:%x","createdAt":{"seconds":"1795000000","nanos":"0"},"votes":[{"message":%s}]%s}}`, sha256.Sum256([]byte(body)), message, more)
	}
	a, err := (&decode.Question{Activity: reply(""), Records: []string{account}}).Answer()
	if err != nil {
		t.Fatal(err)
	}
	shown := reply(fmt.Sprintf(`,"decoded":%s,"decodedDigest":"%s"`, a.Document, a.Digest))
	saved, err := json.Marshal(decode.Question{Activity: shown, Records: []string{account}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"shown.json": shown, "over.json": reply(""), "account.json": account, "tokens.json": `{"tokens":[]}`, "saved.json": string(saved),
		"false.json": strings.Replace(shown, `"decoded":{"format"`, `"decoded":{"verified":true,"format"`, 1)}
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"decode -record account.json shown.json", "\ndigest " + a.Digest + "\nThe reply shows the same.", exitVerified},
		{"decode -record account.json -tokens tokens.json shown.json", "The reply shows the same.", exitVerified},
		{"decode -record account.json -tokens account.json shown.json", "REFUSED: tokens: ", exitRefused},
		{"decode saved.json", "The reply shows the same.", exitVerified},
		{"decode -record account.json over.json", "nothing to compare", exitVerified},
		{"decode -record account.json false.json", "REFUSED: the reply shows something else, or was made with other records, at decoded.verified", exitRefused},
		{"decode shown.json", "REFUSED: the account or private key that signs is not among the records", exitRefused},
		{"decode account.json", "REFUSED: activity: its first vote has no message", exitRefused},
		{"decode missing.json", "cannot read", exitUsage},
		{"decode", "want one FILE", exitUsage},
	} {
		var out bytes.Buffer
		read := func(name string) ([]byte, error) {
			text, ok := files[name]
			if !ok {
				return nil, os.ErrNotExist
			}
			return []byte(text), nil
		}
		if code := run(strings.Fields(c.line), nil, &out, &out, read, nil); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: status %d, %s", c.line, code, &out)
		}
	}
	var out bytes.Buffer
	printDocument(&out, a)
	for _, want := range []string{"kind: RAW_PAYLOAD\n", "\nparts\n  0\n    input\n      encoding: BYTES\n", "lines\n      0: hello\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}
