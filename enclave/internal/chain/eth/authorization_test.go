package eth_test

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/fault"
)

// zeroAuthorization is the digest of an authorization of chain 0 with nonce 0, as
// viem computes it.
const zeroAuthorization = "0xbce043d2be6b6a6257ca659ae30d27657722aeedb466b2256c750e0de08654ba"

const someAuthorization = `{"address":"0x1111111111111111111111111111111111111111","chainId":1,"nonce":7}`

func authorizationDigest(t testing.TB, text string) string {
	t.Helper()
	a, err := eth.ParseAuthorization([]byte(text))
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return ""
	}
	sum := a.Digest()
	return "0x" + hex.EncodeToString(sum[:])
}

func TestAuthorization(t *testing.T) {
	n := 0
	for _, f := range sdkFlows(t, "PAYLOAD_ENCODING_EIP7702_AUTHORIZATION") {
		if n++; f.EIP7702 == "" {
			f.EIP7702 = zeroAuthorization
		}
		if got := authorizationDigest(t, f.Requests[0].Payload); got != f.EIP7702 {
			t.Errorf("%s: %s, want %s", f.Name, got, f.EIP7702)
		}
	}
	c := readPolicyCases(t).Transactions["eip7702_auth"]
	if got := authorizationDigest(t, c.Payload); got != c.Digest || n != 2 {
		t.Errorf("%s, want %s; %d flows", got, c.Digest, n)
	}
	a, err := eth.ParseAuthorization([]byte(c.Payload))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plain(a.Facts()), any(c.Parsed["eth.eip_7702_authorization"]); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	want := authorizationDigest(t, someAuthorization)
	for _, text := range []string{
		`{"nonce":"7","chainId":"1","address":"0x1111111111111111111111111111111111111111"}`, strings.Replace(someAuthorization, "7", `"0x7"`, 1), strings.Replace(someAuthorization, "7", `"0x0007"`, 1),
		strings.Replace(someAuthorization, `:1,`, `:"0x01",`, 1), " " + strings.ReplaceAll(someAuthorization, ",", " ,\n") + " ",
	} {
		if got := authorizationDigest(t, text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, address := range []string{"0xabcdefabcdefabcdefabcdefabcdefabcdefabcd", "0xABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD", "0xaBcdefabcdefabcdefabcdefabcdefabcdefabcd"} {
		text := `{"address":"` + address + `","chainId":1099511627776,"nonce":8589934592}`
		if got := authorizationDigest(t, text); got != "0x5766318add04d24d439e62ef8f15e38733f0d778b5a7fdac581f504dd03ef00b" {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestAuthorizationRefuses(t *testing.T) {
	for _, c := range [][3]string{
		{`{"address"`, `[{"address"`, ""}, {`}`, `}}`, ""}, {`}`, `} {}`, ""}, {`}`, ``, ""},
		{`"nonce"`, `"Nonce"`, `unknown field "Nonce"`}, {`"nonce":7`, `"nonce":7,"r":"0x"`, `unknown field "r"`}, {`"nonce":7`, `"nonce":7,"nonce":7`, "repeated field"},
		{`,"nonce":7`, ``, "missing field `nonce`"}, {`"nonce":7`, `"nonce":null`, "missing field `nonce`"}, {`"chainId":1,`, ``, "missing field `chainId`"},
		{`"nonce":7`, `"nonce":-1`, "nonce must be"}, {`"nonce":7`, `"nonce":7.0`, "nonce must be"}, {`"nonce":7`, `"nonce":7e0`, "nonce must be"}, {`"nonce":7`, `"nonce":18446744073709551615`, "nonce must be"},
		{`"nonce":7`, `"nonce":"18446744073709551616"`, "nonce must be"}, {`"nonce":7`, `"nonce":"0xffffffffffffffff"`, "nonce must be"}, {`"nonce":7`, `"nonce":"07"`, "nonce must be"}, {`"nonce":7`, `"nonce":[7]`, "nonce must be"},
		{`"nonce":7`, `"nonce":""`, "nonce must be"}, {`"nonce":7`, `"nonce":true`, "nonce must be"}, {`"nonce":7`, `"nonce":{}`, "nonce must be"},
		{`"chainId":1`, `"chainId":-1`, "chainId must be"}, {`"chainId":1`, `"chainId":"0x1` + strings.Repeat("0", 64) + `"`, "chainId must be"},
		{`"chainId":1`, `"chainId":115792089237316195423570985008687907853269984665640564039457584007913129639936`, "chainId must be"}, {`"chainId":1`, `"chainId":"eip155:1"`, "chainId must be"},
		{`0x11`, `0x`, "address must be"}, {`0x11`, `11`, "address must be"}, {`0x11`, `0X11`, "address must be"}, {`0x11`, `0x1`, "address must be"}, {`0x11`, `0x1111`, "address must be"}, {`0x11`, `0xgg`, "address must be"},
		{`"0x1111111111111111111111111111111111111111"`, `null`, "missing field `address`"}, {`"0x1111111111111111111111111111111111111111"`, `7`, "must be a string"},
		{`}`, strings.Repeat(" ", 4096) + `}`, "more than 4096 bytes"},
	} {
		a, err := eth.ParseAuthorization([]byte(changed(t, someAuthorization, c[0], c[1])))
		f := fault.Of(err)
		if a != nil || f == nil || f.Code != fault.InvalidArgument || len(f.Violations) != 1 || f.Violations[0].Field != "payload" || !strings.Contains(f.Message, c[2]) || !strings.HasPrefix(f.Message, "invalid authorization: ") {
			t.Errorf("%s: %v, want %s", c[1], err, c[2])
		}
	}
}

func FuzzAuthorization(f *testing.F) {
	f.Add(someAuthorization)
	f.Add(`{"nonce":"0x7","chainId":"115792089237316195423570985008687907853269984665640564039457584007913129639935","address":"0xABABABABABABABABABABABABABABABABABABABAB"}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := eth.ParseAuthorization([]byte(text))
		if err != nil {
			if e := fault.Of(err); a != nil || e == nil || e.Code != fault.InvalidArgument || e.Violations[0].Field != "payload" {
				t.Errorf("%T %v", err, err)
			}
			return
		}
		facts := plain(a.Facts()).(map[string]any)
		again := `{"address":"` + facts["address"].(string) + `","chainId":` + facts["chain_id"].(string) + `,"nonce":"` + facts["nonce"].(string) + `"}`
		b, err := eth.ParseAuthorization([]byte(again))
		if err != nil || b.Digest() != a.Digest() || !reflect.DeepEqual(a.Facts(), b.Facts()) {
			t.Errorf("%s: %v", again, err)
		}
	})
}
