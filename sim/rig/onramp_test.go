package rig_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/rig"
)

const (
	moonPay  = "FIAT_ON_RAMP_PROVIDER_MOONPAY"
	coinbase = "FIAT_ON_RAMP_PROVIDER_COINBASE"
	base     = "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_BASE"
	usdc     = "FIAT_ON_RAMP_CRYPTO_CURRENCY_USDC"
)

// onRamp is a provider that tells of purchases what a test says.
type onRamp struct {
	mu     sync.Mutex
	answer http.HandlerFunc
	asked  int
}

func (o *onRamp) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.asked++
	answer := o.answer
	o.mu.Unlock()
	answer(rw, r)
}

func (o *onRamp) says(answer http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

func (o *onRamp) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

// onRampSecret encrypts a provider's secret as clients do.
func (f *family) onRampSecret(plain string) string {
	f.t.Helper()
	var box struct{ EncappedPublic, Ciphertext string }
	if err := json.Unmarshal([]byte(sealed(f.t, hex.EncodeToString(uncompressed(f.t, client.Text(f.published(), "onRamp"))), plain)), &box); err != nil {
		f.t.Fatal(err)
	}
	from, err1 := hex.DecodeString(box.EncappedPublic)
	ciphertext, err2 := hex.DecodeString(box.Ciphertext)
	if err1 != nil || err2 != nil {
		f.t.Fatal(err1, err2)
	}
	short := slices.Concat([]byte{2 + from[64]&1}, from[1:33], ciphertext)
	sum := sha256.Sum256(short)
	sum = sha256.Sum256(sum[:])
	return base58.Encode(append(short, sum[:4]...))
}

func (f *family) onRampCredential(by *client.User, provider, public, secret string, more ...any) {
	f.t.Helper()
	in := client.Object{"onrampProvider": provider, "publishableApiKey": public, "encryptedSecretApiKey": f.onRampSecret(secret)}
	for i := 0; i < len(more); i += 2 {
		in[more[i].(string)] = more[i+1]
	}
	by.Do("CREATE_FIAT_ON_RAMP_CREDENTIAL", in)
}

// wallet makes a wallet of Ethereum, and answers its address.
func wallet(u *client.User) string {
	u.Test.Helper()
	return client.Text(u.Do("CREATE_WALLET", client.Wallet("Wallet", client.Ethereum)), "addresses", "0")
}

func buying(provider, address string, more ...any) map[string]any {
	in := map[string]any{"onrampProvider": provider, "walletAddress": address, "network": base, "cryptoCurrencyCode": usdc, "fiatCurrencyCode": "FIAT_ON_RAMP_CURRENCY_USD", "fiatCurrencyAmount": "10"}
	for i := 0; i < len(more); i += 2 {
		in[more[i].(string)] = more[i+1]
	}
	return in
}

// standing asks how a purchase stands.
func standing(u *client.User, id string, refresh bool) client.Reply {
	u.Test.Helper()
	return u.Query("get_onramp_transaction_status", client.Object{"transactionId": id, "refresh": refresh})
}

func stands(what string, u *client.User, id string, refresh bool, want string) {
	u.Test.Helper()
	if got := standing(u, id, refresh); got.Text("transactionStatus") != want {
		u.Test.Errorf("%s: %v, want %s", what, got, want)
	}
}

func moonPaySignature(secret, query string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(query))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// A sub-organization gets the page of its parent's provider, for its own address and no other, and learns how the
// purchase stands.
func TestMoonPay(t *testing.T) {
	f := newFamily(t)
	o := new(onRamp)
	f.w.site("api.moonpay.com", o)
	root := f.Root()
	sub := root.NewSubOrganization("Sub")
	above := root.As(sub.Organization, "", root.Key)
	address, parents := wallet(sub), wallet(root)
	wants(t, "no credential", sub.Submit("INIT_FIAT_ON_RAMP", buying(moonPay, address)), 404, none, "on-ramp credential not found")
	f.onRampCredential(root, moonPay, "pk_test_1", "sk_test_1", "sandboxMode", true)
	wants(t, "none of this mode", sub.Submit("INIT_FIAT_ON_RAMP", buying(moonPay, address)), 404, none, "for its live mode")
	f.onRampCredential(root, moonPay, "pk_live_1", "sk_live_1")
	f.later(time.Second)
	f.onRampCredential(root, moonPay, "pk_live_2", "sk_live_2") // the newest is taken

	got := sub.Submit("INIT_FIAT_ON_RAMP", buying(moonPay, strings.ToLower(address), "urlForSignature", "https://buy.moonpay.com?apiKey=pk_live_2&walletAddress="+address))
	made := got.Result()
	id := client.Text(made, "onRampTransactionId")
	page, err := url.Parse(client.Text(made, "onRampUrl"))
	if err != nil || got.Status != 200 {
		t.Fatalf("%v %v", err, got)
	}
	query, _, _ := strings.Cut(page.RawQuery, "&signature=")
	q := page.Query()
	if page.Host != "buy.moonpay.com" || q.Get("walletAddress") != address || q.Get("apiKey") != "pk_live_2" || q.Get("currencyCode") != "usdc_base" || q.Get("externalTransactionId") != id ||
		q.Get("signature") != moonPaySignature("sk_live_2", "?"+query) || id != got.Text("activity", "id") ||
		client.Text(made, "onRampUrlSignature") != moonPaySignature("sk_live_2", "?apiKey=pk_live_2&walletAddress="+address) {
		t.Errorf("%v", made)
	}
	if m := sub.Do("INIT_FIAT_ON_RAMP", buying(moonPay, address, "sandboxMode", true)); !strings.HasPrefix(client.Text(m, "onRampUrl"), "https://buy-sandbox.moonpay.com?apiKey=pk_test_1&") || m["onRampUrlSignature"] != nil {
		t.Errorf("%v", m)
	}

	// What would have somebody else get what is bought.
	clerk := root.NewUser("Clerk")
	for what, c := range map[string]struct {
		by   *client.User
		ask  client.Object
		code int
		says string
	}{
		"the parent's address":           {sub, buying(moonPay, parents), 400, "not an address of the organization's"},
		"nobody's address":               {sub, buying(moonPay, "0x000000000000000000000000000000000000bEEF"), 400, "not an address of the organization's"},
		"an address of another network":  {sub, buying(moonPay, address, "network", "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_SOLANA"), 400, "not an address of the network"},
		"an asset that is not there":     {sub, buying(moonPay, address, "cryptoCurrencyCode", "FIAT_ON_RAMP_CRYPTO_CURRENCY_SOL"), 400, "there is no SOL on BASE"},
		"a URL to the parent's address":  {sub, buying(moonPay, address, "urlForSignature", "https://buy.moonpay.com?apiKey=pk_live_2&walletAddress="+parents), 400, "an address that is not the organization's"},
		"a URL with an older key":        {sub, buying(moonPay, address, "urlForSignature", "https://buy.moonpay.com?apiKey=pk_live_1"), 400, "the apiKey of the organization's credential"},
		"a URL of the sandbox":           {sub, buying(moonPay, address, "urlForSignature", "https://buy-sandbox.moonpay.com?apiKey=pk_live_2"), 400, "must begin with https://buy.moonpay.com"},
		"a URL to sign for Coinbase":     {sub, buying(coinbase, address, "urlForSignature", "https://buy.moonpay.com?apiKey=pk_live_2"), 400, "only MoonPay"},
		"a provider that is none":        {sub, buying("FIAT_ON_RAMP_PROVIDER_OTHER", address), 400, "onrampProvider"},
		"a user whom no policy mentions": {clerk, buying(moonPay, parents), 403, "request not authorized"},
		"the parent, below":              {above, buying(moonPay, address), 400, "organization mismatch"},
	} {
		got := c.by.Submit("INIT_FIAT_ON_RAMP", c.ask)
		if got.Status != c.code || !strings.Contains(got.Text("message"), c.says) {
			t.Errorf("%s: %v", what, got)
		}
	}

	// How it stands, asked for at most every two seconds.
	var status atomic.Value
	status.Store("waitingPayment")
	right := func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || r.URL.Path != "/v1/transactions/ext/"+id || r.URL.RawQuery != "apiKey=pk_live_2" {
			rw.WriteHeader(400)
			return
		}
		fmt.Fprintf(rw, `[{"id":"1","status":%q,"externalTransactionId":%q}]`, status.Load(), id)
	}
	o.says(right)
	stands("the first question", sub, id, false, "PENDING")
	stands("what is known", sub, id, false, "PENDING")
	status.Store("completed")
	stands("too early", sub, id, true, "PENDING")
	if n := o.count(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	for what, answer := range map[string]http.HandlerFunc{
		"broken": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) },
		"another's": func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, `[{"status":"completed","externalTransactionId":"x"}]`)
		},
		"no JSON": func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `completed`) },
		"a redirect": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://evil.example", http.StatusFound)
		},
		"too much to say": func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, strings.Repeat(" ", 300<<10)) },
	} {
		f.later(2 * time.Second)
		o.says(answer)
		stands(what, sub, id, true, "PENDING")
	}
	liar, liarKey := authority(t, "a root of the host's")
	o.says(right)
	f.w.leads("api.moonpay.com", f.w.serve(liar, liarKey, o))
	f.later(2 * time.Second)
	n := o.count()
	stands("TLS intercepted", sub, id, true, "PENDING")
	if o.count() != n {
		t.Error("the interceptor got something")
	}
	f.w.leads("api.moonpay.com", "")
	f.later(2 * time.Second)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { standing(sub, id, true) })
	}
	all.Wait()
	if m := o.count(); m != n+1 {
		t.Errorf("eight at a time asked %d times", m-n)
	}
	stands("the parent's question", above, id, true, "COMPLETED")
	f.later(time.Minute)
	status.Store("failed")
	stands("what is done", above, id, true, "COMPLETED")
	if m := o.count(); m != n+1 {
		t.Errorf("what is done was asked about %d times", m-n-1)
	}

	wants(t, "a sibling's", standing(root.NewSubOrganization("Sub"), id, true), 404, none, "on-ramp transaction not found")
	wants(t, "the parent's own", standing(root, id, true), 404, none, "on-ramp transaction not found")
	wants(t, "another activity", standing(sub, sub.Submit("CREATE_WALLET", client.Wallet("W")).Text("activity", "id"), true), 404, none, "not found")
	wants(t, "no id", standing(sub, "x", true), 400, none, "UUID")
}

// Without a word in the measured configuration nothing goes to any provider.
func TestOnRampNotSetUp(t *testing.T) {
	f := &family{rateClient: rateClient{t, rig.Start(t, rig.Options{})}}
	root := f.Root()
	address := wallet(root)
	f.onRampCredential(root, moonPay, "pk", "sk")
	got := root.Submit("INIT_FIAT_ON_RAMP", buying(moonPay, address))
	wants(t, "not set up", got, 400, none, "the configuration's onRamps does not name it")
	if got.Text("code") != "9" {
		t.Error(got)
	}
}

// Coinbase keeps the address in a session, for which each request has a token of its own.
func TestCoinbase(t *testing.T) {
	f := newFamily(t)
	o := new(onRamp)
	f.w.site("api.developer.coinbase.com", o)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	root := f.Root()
	address := wallet(root)
	f.onRampCredential(root, coinbase, "key-1", "unused")
	wants(t, "no private key", root.Submit("INIT_FIAT_ON_RAMP", buying(coinbase, address)), 400, none, "encryptedPrivateApiKey")
	f.later(time.Second)
	f.onRampCredential(root, coinbase, "key-2", "unused", "encryptedPrivateApiKey", f.onRampSecret(text), "projectId", "p")

	var asked, status atomic.Value
	status.Store("ONRAMP_TRANSACTION_STATUS_IN_PROGRESS")
	o.says(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !authorized(&private.PublicKey, "key-2", r, f.c.Now()) {
			rw.WriteHeader(401)
			return
		}
		if r.Method == "POST" && r.URL.Path == "/onramp/v1/token" {
			asked.Store(string(body))
			fmt.Fprint(rw, `{"token":"session/1","channel_id":""}`)
			return
		}
		fmt.Fprintf(rw, `{"transactions":[{"status":%q}],"next_page_key":""}`, status.Load())
	})
	made := root.Do("INIT_FIAT_ON_RAMP", buying(coinbase, address, "countryCode", "US", "countrySubdivisionCode", "NY"))
	id := client.Text(made, "onRampTransactionId")
	if want := "https://pay.coinbase.com/buy/select-asset?sessionToken=session%2F1&defaultNetwork=base&defaultAsset=USDC&presetFiatAmount=10&fiatCurrency=USD&partnerUserRef=" + id; client.Text(made, "onRampUrl") != want {
		t.Errorf("%v", made)
	}
	if got, _ := asked.Load().(string); !strings.HasPrefix(got, `{"addresses":[{"address":"`+address+`","blockchains":["base"]}],"assets":["USDC"]`) {
		t.Error(got)
	}
	stands("under way", root, id, true, "PENDING")
	status.Store("ONRAMP_TRANSACTION_STATUS_SUCCESS")
	f.later(2 * time.Second)
	stands("done", root, id, true, "COMPLETED")

	for what, answer := range map[string]http.HandlerFunc{
		"refuses":    func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(401) },
		"no session": func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `{"token":""}`) },
		"no JSON":    func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `x`) },
	} {
		o.says(answer)
		body := root.Body("INIT_FIAT_ON_RAMP", buying(coinbase, address))
		wants(t, what, submit(root, "INIT_FIAT_ON_RAMP", body), 503, "RPC_CALL_ERROR", "Coinbase could not be asked")
		n := o.count()
		wants(t, what+", again", submit(root, "INIT_FIAT_ON_RAMP", body), 503, "RPC_CALL_ERROR") // nothing was kept
		if o.count() != n+1 {
			t.Errorf("%s: the same body did not try again", what)
		}
	}
	f.later(time.Second)
	f.onRampCredential(root, coinbase, "key-3", "unused", "encryptedPrivateApiKey", f.onRampSecret("no key"))
	wants(t, "a key that is none", root.Submit("INIT_FIAT_ON_RAMP", buying(coinbase, address)), 503, none, "neither PEM of a P-256 key nor")
}

// authorized verifies the token of a request by the standard library alone.
func authorized(public *ecdsa.PublicKey, id string, r *http.Request, now time.Time) bool {
	parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
	if len(parts) != 3 {
		return false
	}
	var head struct{ Alg, Kid, Nonce string }
	var claims struct {
		Iss, Sub, URI string
		Nbf, Exp      int64
	}
	a, err1 := b64d(parts[0])
	b, err2 := b64d(parts[1])
	sig, err3 := b64d(parts[2])
	if err1 != nil || err2 != nil || err3 != nil || len(sig) != 64 || json.Unmarshal(a, &head) != nil || json.Unmarshal(b, &claims) != nil {
		return false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) && head.Alg == "ES256" && head.Kid == id && claims.Sub == id && claims.Iss == "cdp" &&
		claims.URI == r.Method+" "+r.Host+r.URL.Path && claims.Nbf <= now.Unix() && claims.Exp > now.Unix() && claims.Exp <= now.Unix()+120
}

// What policies say of it, what a second approval makes of it, and what the same body gets again.
func TestOnRampByPolicyAndConsensus(t *testing.T) {
	f := newFamily(t)
	o := new(onRamp)
	f.w.site("api.developer.coinbase.com", o)
	o.says(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `{"token":"session"}`) })
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	root := f.Root()
	f.onRampCredential(root, moonPay, "pk_live", "sk_live")
	f.onRampCredential(root, coinbase, "key", "unused", "encryptedPrivateApiKey", f.onRampSecret(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))))
	address, clerk := wallet(root), root.NewUser("Clerk")
	wants(t, "before the policy", clerk.Submit("INIT_FIAT_ON_RAMP", buying(moonPay, address)), 403, "REQUEST_NOT_AUTHORIZED")
	root.Do("CREATE_POLICY_V3", client.Policy("Buying", "ALLOW", "activity.resource == 'FIAT_TRANSACTION' && activity.action == 'CREATE'",
		"approvers.any(user, user.id == '"+clerk.User+"')"))
	body := root.Body("INIT_FIAT_ON_RAMP", buying(moonPay, address))
	page := func(got client.Reply) string { return client.Text(got.Result(), "onRampUrl") }
	first := page(submit(clerk, "INIT_FIAT_ON_RAMP", body))
	if again := page(submit(clerk, "INIT_FIAT_ON_RAMP", body)); first == none || again != first {
		t.Errorf("%s, again %s", first, again)
	}

	// In a sub-organization whose second member has to agree: the session is asked for then, and once.
	sub := root.NewSubOrganization("Sub")
	second, below := sub.NewUser("Second"), wallet(sub)
	sub.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{sub.User, second.User}})
	waits := sub.Submit("INIT_FIAT_ON_RAMP", buying(coinbase, below))
	if waits.State() != "CONSENSUS_NEEDED" || o.count() != 0 {
		t.Fatalf("%v, asked %d times", waits, o.count())
	}
	id := waits.Text("activity", "id")
	wants(t, "before it is a purchase", standing(sub, id, true), 404, none, "on-ramp transaction not found")
	agreed := second.Submit("APPROVE_ACTIVITY", voteOn(waits))
	if !strings.Contains(page(agreed), "sessionToken=session&") || !strings.HasSuffix(page(agreed), "&partnerUserRef="+id) || o.count() != 1 {
		t.Errorf("%v, asked %d times", agreed, o.count())
	}
}

// A tenant whose provider hangs has a few questions under way and no more, and leaves room for others.
func TestOnRampsLeaveCapacity(t *testing.T) {
	w, c := newWorldOutside(t), clocktest.New()
	options := w.options()
	options.Clock, options.Organizations = c, 1
	f := familyIn(w, c, options)
	root, other := f.Root(), f.Others()[0]
	release := make(chan struct{})
	o := new(onRamp)
	f.w.site("api.moonpay.com", o)
	o.says(func(rw http.ResponseWriter, _ *http.Request) {
		<-release
		rw.WriteHeader(404)
	})
	purchases := func(u *client.User, n int) (ids []string) {
		f.onRampCredential(u, moonPay, "pk", "sk")
		address := wallet(u)
		for range n {
			ids = append(ids, client.Text(u.Do("INIT_FIAT_ON_RAMP", buying(moonPay, address)), "onRampTransactionId"))
		}
		return ids
	}
	theirs, mine := purchases(other, 1)[0], purchases(root, 30)
	var all sync.WaitGroup
	answered := make(chan string, len(mine)+1)
	for _, id := range mine {
		all.Go(func() { answered <- standing(root, id, true).Text("transactionStatus") })
	}
	const refused = 15 // at least: who may not ask is told at once what is known
	for range refused {
		if status := <-answered; status != "CREATED" {
			t.Errorf("%s", status)
		}
	}
	before := o.count()
	all.Go(func() { answered <- standing(other, theirs, true).Text("transactionStatus") })
	clocktest.Until(t, "the provider is asked", func() bool { return o.count() > before })
	close(release)
	all.Wait()
	if n := o.count(); n > len(mine) { // far fewer, unless the machine is so slow that questions have ended meanwhile
		t.Errorf("the provider was asked %d times: everything was", n)
	}
}
