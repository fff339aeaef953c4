package onramp_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/secret"
)

const (
	apiKey = "pk_test_1"
	mine   = "0x000000000000000000000000000000000000dEaD"
	theirs = "0x000000000000000000000000000000000000bEEF"
	id     = "018f0000-0000-7000-8000-000000000001"
)

func secretOf(t testing.TB, text string) secret.Secret {
	s, err := secret.From([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func own(address string) (bool, error) { return strings.EqualFold(address, mine), nil }

func purchase() *onramp.Purchase {
	return &onramp.Purchase{Provider: onramp.MoonPay, Network: "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_BASE", Asset: "FIAT_ON_RAMP_CRYPTO_CURRENCY_USDC", Address: mine,
		Currency: "FIAT_ON_RAMP_CURRENCY_EUR", Amount: "10", Method: "FIAT_ON_RAMP_PAYMENT_METHOD_SEPA_BANK_TRANSFER", ID: id}
}

func TestCheck(t *testing.T) {
	if err := purchase().Check(); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(*onramp.Purchase)
		field  string
	}{
		"BTC on Base": {func(p *onramp.Purchase) { p.Asset = "FIAT_ON_RAMP_CRYPTO_CURRENCY_BTC" }, "cryptoCurrencyCode"},
		"SOL on Bitcoin": {func(p *onramp.Purchase) {
			p.Network, p.Asset = "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_BITCOIN", "FIAT_ON_RAMP_CRYPTO_CURRENCY_SOL"
		}, "cryptoCurrencyCode"},
		"no address":               {func(p *onramp.Purchase) { p.Address = "" }, "walletAddress"},
		"more than an address":     {func(p *onramp.Purchase) { p.Address = mine + "&walletAddress=" + theirs }, "walletAddress"},
		"a long address":           {func(p *onramp.Purchase) { p.Address = strings.Repeat("a", 129) }, "walletAddress"},
		"nothing to pay":           {func(p *onramp.Purchase) { p.Amount = "0.00" }, "fiatCurrencyAmount"},
		"a negative amount":        {func(p *onramp.Purchase) { p.Amount = "-1" }, "fiatCurrencyAmount"},
		"two points":               {func(p *onramp.Purchase) { p.Amount = "1.2.3" }, "fiatCurrencyAmount"},
		"no digit before a point":  {func(p *onramp.Purchase) { p.Amount = ".5" }, "fiatCurrencyAmount"},
		"an exponent":              {func(p *onramp.Purchase) { p.Amount = "1e9" }, "fiatCurrencyAmount"},
		"a long amount":            {func(p *onramp.Purchase) { p.Amount = strings.Repeat("9", 21) }, "fiatCurrencyAmount"},
		"another's payment method": {func(p *onramp.Purchase) { p.Method = "FIAT_ON_RAMP_PAYMENT_METHOD_ACH_BANK_ACCOUNT" }, "paymentMethod"},
		"a country in full":        {func(p *onramp.Purchase) { p.Country = "France" }, "countryCode"},
		"the States alone":         {func(p *onramp.Purchase) { p.Country = "US" }, "countrySubdivisionCode"},
		"a state of nowhere":       {func(p *onramp.Purchase) { p.Subdivision = "NY" }, "countrySubdivisionCode"},
	} {
		p := purchase()
		c.change(p)
		f := fault.Of(p.Check())
		if f == nil || f.Code != fault.InvalidArgument || len(f.Violations) != 1 || f.Violations[0].Field != c.field {
			t.Errorf("%s: %v", what, f)
		}
	}
}

func TestMoonPayURL(t *testing.T) {
	p := purchase()
	text := p.MoonPayURL(apiKey)
	if text != "https://buy.moonpay.com?apiKey=pk_test_1&currencyCode=usdc_base&walletAddress="+mine+"&baseCurrencyCode=eur&baseCurrencyAmount=10&paymentMethod=sepa_bank_transfer&externalTransactionId="+id {
		t.Error(text)
	}
	mac := hmac.New(sha256.New, []byte("sk_test"))
	mac.Write([]byte(text[len("https://buy.moonpay.com"):]))
	signature := onramp.SignMoonPay(text, secretOf(t, "sk_test"))
	if signature != base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		t.Error(signature)
	}
	signed, err := url.Parse(onramp.WithSignature(text, signature))
	if err != nil || signed.Query().Get("signature") != signature || onramp.CutSignature(signed.String()) != text {
		t.Error(signed, err)
	}
	if onramp.SignMoonPay(text, secret.Secret{}) != "" {
		t.Error("signed without a key")
	}
	p.Sandbox, p.Currency, p.Amount, p.Method = true, "", "", ""
	if text := p.MoonPayURL(apiKey); text != "https://buy-sandbox.moonpay.com?apiKey=pk_test_1&currencyCode=usdc_base&walletAddress="+mine+"&externalTransactionId="+id {
		t.Error(text)
	}
}

func TestToSign(t *testing.T) {
	const base = "https://buy.moonpay.com"
	for _, text := range []string{
		"?apiKey=pk_test_1",
		"/?apiKey=pk_test_1&walletAddress=" + mine,
		"/v2/buy?walletAddress=" + strings.ToLower(mine) + "&apiKey=pk_test_1&currencyCode=eth&redirectURL=https%3A%2F%2Fapp.example%2F",
		"?apiKey=pk%5Ftest_1&walletAddresses=%7B%22eth%22%3A%22" + mine + "%22%2C%22usdc%22%3A%22" + mine + "%22%7D",
		"?apiKey=pk_test_1&externalTransactionId=order-17&colorCode=%23ff00aa&theme=dark",
	} {
		if err := onramp.CheckToSign(base+text, false, apiKey, own); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if onramp.CheckToSign(base+text, true, apiKey, own) == nil {
			t.Errorf("%s: signed for the sandbox", text)
		}
		if onramp.CheckToSign(base+text, false, "pk_live_2", own) == nil {
			t.Errorf("%s: signed for another's credential", text)
		}
	}
	for what, text := range map[string]string{
		"nothing":                       "",
		"no query":                      base,
		"an empty query":                base + "?",
		"http":                          "http://buy.moonpay.com?apiKey=pk_test_1",
		"another host":                  "https://buy.moonpay.example?apiKey=pk_test_1",
		"a host behind":                 base + ".example?apiKey=pk_test_1",
		"a user":                        base + "@evil.example?apiKey=pk_test_1",
		"a user before":                 "https://x@buy.moonpay.com?apiKey=pk_test_1",
		"a port":                        base + ":443?apiKey=pk_test_1",
		"capital letters":               "https://BUY.moonpay.com?apiKey=pk_test_1",
		"a tab":                         "https://buy.moonpay.com\t?apiKey=pk_test_1",
		"a space":                       " " + base + "?apiKey=pk_test_1",
		"a backslash":                   base + "\\@evil.example?apiKey=pk_test_1",
		"a fragment":                    base + "?apiKey=pk_test_1#x",
		"no key":                        base + "?walletAddress=" + mine,
		"two keys":                      base + "?apiKey=pk_test_1&apiKey=pk_test_1",
		"a key of another spelling":     base + "?apiKey=pk_test_1&apikey=pk_live_2",
		"another's key":                 base + "?apiKey=pk_live_2",
		"a key and more":                base + "?apiKey=pk_test_1%26x",
		"a signature":                   base + "?apiKey=pk_test_1&signature=abc",
		"a signature, spelt":            base + "?apiKey=pk_test_1&Signature=abc",
		"another's address":             base + "?apiKey=pk_test_1&walletAddress=" + theirs,
		"one behind":                    base + "?apiKey=pk_test_1&walletAddress=" + mine + "&walletAddress=" + theirs,
		"one before":                    base + "?apiKey=pk_test_1&walletAddress=" + theirs + "&walletAddress=" + mine,
		"an empty one":                  base + "?apiKey=pk_test_1&walletAddress=",
		"one spelt otherwise":           base + "?apiKey=pk_test_1&WalletAddress=" + theirs,
		"one with a name escaped":       base + "?apiKey=pk_test_1&wallet%41ddress=" + theirs,
		"one in brackets":               base + "?apiKey=pk_test_1&walletAddress[]=" + theirs,
		"one behind a semicolon":        base + "?apiKey=pk_test_1;walletAddress=" + theirs,
		"one behind a question mark":    base + "?apiKey=pk_test_1&x=1?walletAddress=" + theirs,
		"one for refunds":               base + "?apiKey=pk_test_1&refundWalletAddress=" + theirs,
		"several for refunds":           base + "?apiKey=pk_test_1&refundWalletAddresses=%7B%7D",
		"a tag":                         base + "?apiKey=pk_test_1&walletAddressTag=7",
		"another's among several":       base + "?apiKey=pk_test_1&walletAddresses=%7B%22eth%22%3A%22" + mine + "%22%2C%22usdc%22%3A%22" + theirs + "%22%7D",
		"one twice among several":       base + "?apiKey=pk_test_1&walletAddresses=%7B%22eth%22%3A%22" + mine + "%22%2C%22eth%22%3A%22" + mine + "%22%7D",
		"several that are a list":       base + "?apiKey=pk_test_1&walletAddresses=%5B%22" + mine + "%22%5D",
		"several that are none":         base + "?apiKey=pk_test_1&walletAddresses=%7B%7D",
		"several that are no text":      base + "?apiKey=pk_test_1&walletAddresses=%7B%22eth%22%3A7%7D",
		"another purchase's id":         base + "?apiKey=pk_test_1&externalTransactionId=" + id,
		"another purchase's id, spelt":  base + "?apiKey=pk_test_1&externaltransactionid=" + strings.ToUpper(id),
		"a broken escape":               base + "?apiKey=pk_test_1&x=%2",
		"what is no parameter":          base + "?apiKey=pk_test_1&&",
		"what a browser writes anew":    base + "?apiKey=pk_test_1&x='y'",
		"letters of another alphabet":   base + "?apiKey=pk_test_1&x=é",
		"a long one":                    base + "?apiKey=pk_test_1&x=" + strings.Repeat("y", 4096),
		"a path that is not one":        base + "x?apiKey=pk_test_1",
		"more of them than are allowed": base + "?apiKey=pk_test_1&walletAddresses=%7B" + strings.Repeat("%22e%22%3A%22"+mine+"%22%2C", 21) + "%7D",
	} {
		err := onramp.CheckToSign(text, false, apiKey, own)
		if f := fault.Of(err); f == nil || f.Code != fault.InvalidArgument || f.Violations[0].Field != "urlForSignature" {
			t.Errorf("%s: %v", what, err)
		}
	}
	broken := errors.New("a record that is not there yet")
	if err := onramp.CheckToSign(base+"?apiKey=pk_test_1&walletAddress="+mine, false, apiKey, func(string) (bool, error) { return false, broken }); err != broken {
		t.Error(err)
	}
}

// FuzzToSign looks for a URL that is signed though the standard library sees another page, key or address in it.
func FuzzToSign(f *testing.F) {
	f.Add("https://buy.moonpay.com?apiKey=pk_test_1&walletAddress=" + mine)
	f.Add("https://buy.moonpay.com/x?walletAddresses=%7B%22eth%22%3A%22" + mine + "%22%7D&apiKey=pk_test_1")
	f.Fuzz(func(t *testing.T, text string) {
		if onramp.CheckToSign(text, false, apiKey, own) != nil {
			return
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" || u.Host != "buy.moonpay.com" || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q: %v", text, err)
		}
		q, err := url.ParseQuery(u.RawQuery)
		if err != nil || len(q["apiKey"]) != 1 || q.Get("apiKey") != apiKey {
			t.Fatalf("%q: %v", text, err)
		}
		for name, values := range q {
			for _, v := range values {
				if name == "walletAddress" && !strings.EqualFold(v, mine) || strings.EqualFold(name, "signature") {
					t.Fatalf("%q: %s", text, name)
				}
				if strings.Contains(strings.ToLower(v), strings.ToLower(theirs)) && strings.Contains(strings.ToLower(name), "address") {
					t.Fatalf("%q: %s", text, v)
				}
			}
		}
	})
}

func TestMoonPayStatus(t *testing.T) {
	r := onramp.MoonPayStatus("https://api.moonpay.com", id, "pk&x")
	if r.Method != "GET" || r.URL != "https://api.moonpay.com/v1/transactions/ext/"+id+"?apiKey=pk%26x" {
		t.Error(r.URL)
	}
	one := func(status string) string {
		return `{"id":"x","status":"` + status + `","externalTransactionId":"` + id + `","createdAt":"2026"}`
	}
	for _, c := range []struct {
		status int
		body   string
		want   onramp.State // empty: refused
	}{
		{404, `{"message":"Not found"}`, onramp.Created}, {200, `[]`, onramp.Created},
		{200, `[` + one("waitingPayment") + `]`, onramp.Pending}, {200, `[` + one("pending") + `]`, onramp.Pending}, {200, `[` + one("waitingAuthorization") + `]`, onramp.Pending},
		{200, `[` + one("completed") + `]`, onramp.Completed}, {200, `[` + one("failed") + `]`, onramp.Failed},
		{200, `[` + one("failed") + `,` + one("completed") + `]`, onramp.Completed}, {200, `[` + one("failed") + `,` + one("pending") + `]`, onramp.Pending},
		{200, `[` + one("done") + `]`, ""}, {200, `[{"status":"completed","externalTransactionId":"another"}]`, ""}, {200, `[{"status":"completed"}]`, ""},
		{200, one("completed"), ""}, {200, ``, ""}, {200, `[` + one("completed") + `],"x":[]`, ""}, {500, `[` + one("completed") + `]`, ""}, {302, ``, ""},
		{200, `[{"status":"completed","status":"failed","externalTransactionId":"` + id + `"}]`, ""},
	} {
		got, err := onramp.ReadMoonPay(c.status, []byte(c.body), id)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%d %s: %q %v", c.status, c.body, got, err)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(200, []byte(`[{"status":"completed","externalTransactionId":"`+id+`"}]`))
	f.Add(200, []byte(`{"transactions":[{"status":"ONRAMP_TRANSACTION_STATUS_SUCCESS"}],"token":"abc"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		for _, read := range []func() (onramp.State, error){
			func() (onramp.State, error) { return onramp.ReadMoonPay(status, body, id) },
			func() (onramp.State, error) { return onramp.ReadCoinbase(status, body) },
		} {
			s, err := read()
			if (s == "") != (err != nil) || s == onramp.Completed && status != 200 {
				t.Errorf("%d %q: %q %v", status, body, s, err)
			}
		}
		if token, err := onramp.ReadCoinbaseSession(status, body); (token == "") != (err != nil) {
			t.Errorf("%d %q: %q %v", status, body, token, err)
		}
	})
}

// keyTexts are private keys in the forms in which they are given out.
func keyTexts(t testing.TB) (map[string]string, *ecdsa.PublicKey, ed25519.PublicKey) {
	ec, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	public, ed, err2 := ed25519.GenerateKey(rand.Reader)
	sec1, err3 := x509.MarshalECPrivateKey(ec)
	pkcs8, err4 := x509.MarshalPKCS8PrivateKey(ec)
	pkcs8ed, err5 := x509.MarshalPKCS8PrivateKey(ed)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}))
	return map[string]string{
		"ES256 SEC 1": text, "ES256 escaped": strings.ReplaceAll(text, "\n", `\n`),
		"ES256 PKCS 8": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		"EdDSA":        base64.StdEncoding.EncodeToString(ed), "EdDSA PKCS 8": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8ed})),
	}, &ec.PublicKey, public
}

func TestCoinbaseRequests(t *testing.T) {
	texts, ec, ed := keyTexts(t)
	for name, text := range texts {
		key := onramp.CoinbaseKey{ID: "organizations/o/apiKeys/k", Private: secretOf(t, text), Rand: rand.Reader, NowMs: 1_700_000_000_999}
		p := purchase()
		session, err := p.CoinbaseSession("https://api.developer.coinbase.com", "::ffff:192.0.2.7", key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(session.Body) != `{"addresses":[{"address":"`+mine+`","blockchains":["base"]}],"assets":["USDC"],"clientIp":"192.0.2.7"}` || session.URL != "https://api.developer.coinbase.com/onramp/v1/token" {
			t.Errorf("%s %s", session.URL, session.Body)
		}
		status, err := onramp.CoinbaseStatus("https://api.developer.coinbase.com", id, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			r    *login.Request
			want string
		}{{session, "POST api.developer.coinbase.com/onramp/v1/token"}, {status, "GET api.developer.coinbase.com/onramp/v1/buy/user/" + id + "/transactions"}} {
			token := bearer(t, c.r)
			parts := strings.Split(token, ".")
			var head, claims map[string]any
			decode(t, parts[0], &head)
			decode(t, parts[1], &claims)
			signed := []byte(parts[0] + "." + parts[1])
			signature, err := base64.RawURLEncoding.DecodeString(parts[2])
			if err != nil || len(signature) != 64 {
				t.Fatal(err)
			}
			digest := sha256.Sum256(signed)
			good := head["alg"] == "EdDSA" && ed25519.Verify(ed, signed, signature)
			if strings.HasPrefix(name, "ES256") {
				good = head["alg"] == "ES256" && ecdsa.Verify(ec, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
			}
			if !good || head["kid"] != key.ID || len(head["nonce"].(string)) != 32 || claims["uri"] != c.want || claims["sub"] != key.ID || claims["iss"] != "cdp" ||
				claims["nbf"] != 1_700_000_000. || claims["exp"] != 1_700_000_120. {
				t.Errorf("%s: %v %v %t", name, head, claims, good)
			}
		}
		if r, err := p.CoinbaseSession("https://api.developer.coinbase.com", "nowhere", key); err != nil || strings.Contains(string(r.Body), "clientIp") {
			t.Errorf("%v", err)
		}
	}
}

func bearer(t *testing.T, r *login.Request) string {
	for _, h := range r.Header {
		if token, ok := strings.CutPrefix(string(h.Value), "Bearer "); ok && h.Name == "Authorization" {
			return token
		}
	}
	t.Fatal("no token")
	return ""
}

func decode(t *testing.T, part string, into any) {
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCoinbaseKeysThatAreNone(t *testing.T) {
	texts, _, _ := keyTexts(t)
	_, other, _ := ed25519.GenerateKey(rand.Reader)
	mixed, _ := base64.StdEncoding.DecodeString(texts["EdDSA"])
	copy(mixed[32:], other[32:])
	p384, err1 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	der, err2 := x509.MarshalECPrivateKey(p384)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"a word": "sk_live", "half a key": texts["EdDSA"][:44], "another's public half": base64.StdEncoding.EncodeToString(mixed), "PEM of nothing": "-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----\n",
		"cut": texts["ES256 SEC 1"][:100], "another curve": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
	} {
		_, err := onramp.CoinbaseStatus("https://api.developer.coinbase.com", id, onramp.CoinbaseKey{ID: "k", Private: secretOf(t, text), Rand: rand.Reader})
		if f := fault.Of(err); f == nil || f.Code != fault.Unavailable || strings.Contains(f.Message, text) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestCoinbaseAnswers(t *testing.T) {
	p := purchase()
	p.Provider, p.Method = onramp.Coinbase, "FIAT_ON_RAMP_PAYMENT_METHOD_CREDIT_DEBIT_CARD"
	if text := p.CoinbaseURL("a+b"); text != "https://pay.coinbase.com/buy/select-asset?sessionToken=a%2Bb&defaultNetwork=base&defaultAsset=USDC&presetFiatAmount=10&fiatCurrency=EUR&defaultPaymentMethod=CARD&partnerUserRef="+id ||
		onramp.CutSignature(text) != onramp.CutSignature(p.CoinbaseURL("other")) {
		t.Error(text)
	}
	p.Sandbox = true
	if text := p.CoinbaseURL("a"); !strings.HasPrefix(text, "https://pay-sandbox.coinbase.com/") {
		t.Error(text)
	}
	one := func(status string) string {
		return `{"transactions":[{"status":"ONRAMP_TRANSACTION_STATUS_` + status + `"}],"total_count":"1"}`
	}
	for _, c := range []struct {
		status int
		body   string
		want   onramp.State
	}{
		{200, `{"transactions":[]}`, onramp.Created}, {200, one("IN_PROGRESS"), onramp.Pending}, {200, one("CREATED"), onramp.Created}, {200, one("SUCCESS"), onramp.Completed}, {200, one("FAILED"), onramp.Failed},
		{200, one("ELSE"), ""}, {404, one("SUCCESS"), ""}, {200, `[]`, ""},
	} {
		if got, err := onramp.ReadCoinbase(c.status, []byte(c.body)); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%d %s: %q %v", c.status, c.body, got, err)
		}
	}
	for _, body := range []string{`{}`, `{"token":""}`, `{"token":7}`, `token`, `{"token":"` + strings.Repeat("a", 5000) + `"}`} {
		if token, err := onramp.ReadCoinbaseSession(200, []byte(body)); err == nil {
			t.Errorf("%s: %s", body, token)
		}
	}
}
