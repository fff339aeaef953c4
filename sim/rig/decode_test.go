package rig_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/decode"
	"cloister/sim/client"
	"cloister/sim/rig"
)

const typedPermit = `{"types":{"EIP712Domain":[{"name":"name","type":"string"},{"name":"chainId","type":"uint256"}],"Mail":[{"name":"to","type":"address"},{"name":"text","type":"string"}]},` +
	`"primaryType":"Mail","domain":{"name":"Post","chainId":"1"},"message":{"to":"0x35cdf80606c5e1effe6cb81d969f03f0c04decc9","text":"hello"}}`

// Whoever is to approve something makes the document himself, from the body and records, and comes to the enclave's bytes. A host
// that shows something else is caught, whatever else it changes with it.
func TestDecodeOutside(t *testing.T) {
	const usdt = `{"caip19":"eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7","symbol":"USDT","decimals":6}`
	r := rig.Start(t, rig.Options{Configuration: []byte(`{"tokens":[` + usdt + `]}`)})
	root := r.Root()
	second := root.NewUser("Second")
	addresses := root.Do("CREATE_WALLET", client.Wallet("Treasury", client.Ethereum, client.Solana))["addresses"].([]any)
	address, solana := addresses[0].(string), addresses[1].(string)
	key := client.Text(root.Do("CREATE_PRIVATE_KEYS_V2", client.Object{"privateKeys": []any{client.Object{"privateKeyName": "Cold", "curve": "CURVE_SECP256K1", "privateKeyTags": []any{}, "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}}}}), "privateKeys", "0", "privateKeyId")
	root.Do("CREATE_SMART_CONTRACT_INTERFACE", client.Object{"label": "Own token", "smartContractAddress": "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
		"type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "smartContractInterface": `[{"type":"function","name":"approve","inputs":[{"name":"spender","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"}]`})
	root.Do("SET_ORGANIZATION_FEATURE", client.Object{"name": "FEATURE_NAME_ADDRESS_BOOK", "value": `[{"name":"Desk","address":"0x35cdf80606c5e1effe6cb81d969f03f0c04decc9"}]`})
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{root.User, second.User}})

	accounts := string(second.Query("list_wallet_accounts", client.Object{"includeWalletDetails": true}).Body)
	records := []string{accounts, string(second.Query("list_private_keys", nil).Body), string(second.Query("list_smart_contract_interfaces", nil).Body), string(second.Query("get_organization_configs", nil).Body),
		string(second.Query("get_user", client.Object{"userId": root.User}).Body), string(second.Query("list_wallets", nil).Body)}
	tokens := string(second.Query("list_known_tokens", nil).Body)
	if tokens != `{"tokens":[`+usdt+`]}` {
		t.Error(tokens)
	}
	answer := func(reply []byte, records ...string) (*decode.Answer, error) {
		return (&decode.Question{Activity: string(reply), Records: records, Tokens: tokens}).Answer()
	}
	replies := map[string][]byte{}
	for name, ask := range map[string]struct {
		typ    string
		params client.Object
	}{
		"a transaction":                   {"SIGN_TRANSACTION_V2", client.Object{"signWith": address, "unsignedTransaction": unlimited, "type": "TRANSACTION_TYPE_ETHEREUM"}},
		"a token that the operator lists": {"SIGN_TRANSACTION_V2", client.Object{"signWith": address, "unsignedTransaction": strings.Replace(unlimited, "a0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", "dac17f958d2ee523a2206206994597c13d831ec7", 1), "type": "TRANSACTION_TYPE_ETHEREUM"}},
		"bytes by a private key":          {"SIGN_RAW_PAYLOAD_V2", client.Payload(key, strings.Repeat("00", 32), "NO_OP")},
		"texts":                           {"SIGN_RAW_PAYLOADS", client.Object{"signWith": solana, "payloads": []any{"6869", "796f75"}, "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_NOT_APPLICABLE"}},
		"typed data":                      {"SIGN_RAW_PAYLOAD_V2", client.Object{"signWith": address, "payload": typedPermit, "encoding": "PAYLOAD_ENCODING_EIP712", "hashFunction": "HASH_FUNCTION_NO_OP"}},
		"an export":                       {"EXPORT_WALLET_ACCOUNT", client.Object{"address": address, "targetPublicKey": "04" + strings.Repeat("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296", 1) + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"}},
	} {
		asked := root.Submit(ask.typ, ask.params)
		if asked.State() != "CONSENSUS_NEEDED" {
			t.Fatal(name, asked)
		}
		replies[name] = second.Query("get_activity", client.Object{"activityId": asked.Text("activity", "id")}).Body
		a, err := answer(replies[name], records...)
		if ask.typ == "EXPORT_WALLET_ACCOUNT" {
			if err == nil || !strings.Contains(err.Error(), "signs nothing") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, digest := decodedOf(second, asked.Text("activity", "id"))
		if !a.Shown || len(a.Differences) != 0 || !bytes.Equal(a.Document, text) || a.Digest != digest {
			t.Errorf("%s: differs at %v:\n%s\n%s", name, a.Differences, a.Document, text)
		}
	}
	listed := replies["a token that the operator lists"]
	if a, err := answer(listed, records...); err != nil || !strings.Contains(string(a.Document), `"decimals":"6","decimalsSource":"OPERATOR_LIST","symbol":"USDT"`) {
		t.Errorf("%v, %v", a, err)
	}
	for name, other := range map[string]string{"no list": "", "another list": "[" + strings.Replace(usdt, ":6", ":18", 1) + "]", "the same, named": "[" + usdt + "]"} {
		a, err := (&decode.Question{Activity: string(listed), Records: records, Tokens: other}).Answer()
		if err != nil || (len(a.Differences) == 0) != (name == "the same, named") {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
	sign := replies["a transaction"]
	if a, err := answer(sign, records...); err != nil || !strings.Contains(string(a.Document), `"label":"Own token","labelSource":"INTERFACE","labelBy":{"userId":"`+root.User+`"`) || !strings.Contains(string(a.Document), `"label":"Desk","labelSource":"ORGANIZATION"`) {
		t.Errorf("%v, %v", a, err)
	}

	// What a host may put in another's place, and what comes of it.
	change := func(reply []byte, old, new string) []byte {
		t.Helper()
		if !bytes.Contains(reply, []byte(old)) {
			t.Fatalf("no %s in %s", old, reply)
		}
		return bytes.ReplaceAll(reply, []byte(old), []byte(new))
	}
	var body struct {
		Activity struct{ Votes []struct{ Message string } }
	}
	if err := json.Unmarshal(sign, &body); err != nil {
		t.Fatal(err)
	}
	message, err := json.Marshal(body.Activity.Votes[0].Message)
	if err != nil {
		t.Fatal(err)
	}
	another := bytes.ReplaceAll(message, []byte("35cdf806"), []byte("45cdf806"))
	for name, c := range map[string]struct {
		reply []byte
		want  string // of the differences, or of the error
	}{
		"another spender":        {change(sign, `"address":"0x35cD`, `"address":"0x45cD`), "[decoded.parts.0.calls.0.args.0.address]"},
		"a warning less":         {change(sign, `"code":"APPROVAL_UNLIMITED"`, `"code":"ADDRESS_NEW"`), "[decoded.warnings.0.code]"},
		"another name":           {change(sign, `Own token`, `USDC`), "[decoded.parts.0.calls.0.to.label decoded.parts.0.to.label]"},
		"a member more":          {change(sign, `"readable":"FULL"`, `"checked":"yes","readable":"FULL"`), "[decoded.checked]"},
		"members in other order": {change(sign, `"readable":"FULL","fixed":true`, `"fixed":true,"readable":"FULL"`), "[decoded]"},
		"another digest":         {change(sign, `"decodedDigest":"`, `"decodedDigest":"0`), "[decodedDigest]"},
		"another body":           {change(sign, string(message), string(another)), "its fingerprint is sha256:"},
		"another organization":   {change(sign, root.Organization, "11111111-1111-4111-8111-111111111111"), "its fingerprint is sha256:"},
		"another type":           {change(sign, `"type":"ACTIVITY_TYPE_SIGN_TRANSACTION_V2","intent"`, `"type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2","intent"`), "of another type or organization than its body"},
		"no body":                {change(sign, `"message":`, `"massage":`), "its first vote has no message"},
		"no activity":            {[]byte(`{"activities":[]}`), "its first vote has no message"},
		"no JSON":                {sign[:len(sign)-1], "activity: "},
	} {
		a, err := answer(c.reply, records...)
		got := fmt.Sprint(err)
		if a != nil {
			got = fmt.Sprint(a.Differences)
		}
		if err == nil && len(a.Differences) == 0 || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		records []string
		want    string
	}{
		"nothing":              {nil, "not among the records"},
		"without interfaces":   {records[:1], "decoded.parts.0.calls.0"},
		"without its maker":    {records[:4], "[decoded.parts.0.calls.0.to.labelBy.name decoded.parts.0.calls.0.to.labelBy.nameSource decoded.parts.0.to.labelBy.name decoded.parts.0.to.labelBy.nameSource decodedDigest]"},
		"another maker":        {[]string{accounts, strings.Replace(records[2], root.User, second.User, 1), records[3], records[4]}, "decoded.parts.0.to.labelBy.userId"},
		"a wallet of no use":   {[]string{`{"wallets":[{"walletId":"x"}]}`}, "without walletId"},
		"a user of no use":     {[]string{`{"user":{"userId":"x"}}`}, "without userId"},
		"a maker of no use":    {[]string{strings.Replace(records[2], root.User, "x", 1)}, "createdBy is no id"},
		"another key":          {[]string{strings.Replace(accounts, address, "0x35CDF80606c5E1EFfe6cb81D969f03f0c04dECC9", 1)}, "is not that of its public key"},
		"what is no record":    {[]string{"{"}, "record 1: "},
		"too many":             {make([]string, decode.MaxRecords+1), "at most 64 texts"},
		"an account of no use": {[]string{`{"account":{"walletAccountId":"x"}}`}, "without walletAccountId"},
	} {
		a, err := answer(sign, c.records...)
		got := fmt.Sprint(err)
		if a != nil {
			got = fmt.Sprint(a.Differences)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}

	// What an approval names is what was made outside.
	a, err := answer(sign, records...)
	if err != nil {
		t.Fatal(err)
	}
	var id struct{ Activity struct{ Fingerprint string } }
	if err := json.Unmarshal(sign, &id); err != nil {
		t.Fatal(err)
	}
	if got := second.Submit("APPROVE_ACTIVITY", client.Object{"fingerprint": id.Activity.Fingerprint, "decodedDigest": a.Digest}); got.State() != "COMPLETED" {
		t.Error(got)
	}
}
