package policies_test

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"github.com/mr-tron/base58"

	"cloister/enclave/core"
	"cloister/host/api"
	"cloister/shared/clocktest"
	"cloister/sim/authenticator"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// server is the public interface over HTTP, and organizations to be used up.
type server struct {
	t     *testing.T
	r     *rig.Rig
	url   string
	fresh []laptop.Organization
}

func newServer(t *testing.T, organizations int, clock core.Clock) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{t: t, r: rig.Start(t, rig.Options{Dir: dir, Organizations: organizations, Clock: clock})}
	a := api.New(api.Options{Enclave: s.r.Link, Ping: func(context.Context) error { return nil }, Metrics: api.NewMetrics(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Boot: "test", Wait: 30 * time.Second})
	h := httptest.NewServer(a.Public(false))
	t.Cleanup(h.Close)
	s.url = h.URL
	b, err := os.ReadFile(filepath.Join(dir, "organizations.json"))
	if err == nil {
		err = json.Unmarshal(b, &s.fresh)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// standsAt is a clock that shows a case's time.
func standsAt(t *testing.T, text string) core.Clock {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return clocktest.At(at)
}

// stamper signs a body: a header and its value.
type stamper func(body []byte) (name, value string, err error)

func apiKey(k laptop.KeyPair) stamper {
	return func(body []byte) (string, string, error) {
		head, err := laptop.Stamp(k, body)
		if err != nil {
			return "", "", err
		}
		return head[0].Name, head[0].Value, nil
	}
}

func passkey(a *authenticator.Authenticator) stamper {
	return func(body []byte) (string, string, error) {
		v, err := a.Stamp(body)
		return "X-Stamp-WebAuthn", v, err
	}
}

// world is one case's organization.
type world struct {
	s      *server
	k      *book
	id     string
	root   stamper
	stamps map[string]stamper // by the fixture's credential
	is     []string           // pairs: what the fixture calls something, what it is here
	ids    map[string]string
	made   organization
}

// call notes what something of the fixture is called here.
func (w *world) call(fixture, here string) {
	w.ids[fixture] = here
	w.is = append(w.is, fixture, here)
	if l := strings.ToLower(fixture); l != fixture {
		w.is = append(w.is, l, strings.ToLower(here))
	}
}

func (w *world) translate(text string) string { return strings.NewReplacer(w.is...).Replace(text) }

// answer is what came over HTTP.
type answer struct {
	status int
	m      map[string]any
}

func (w *world) post(path string, body []byte, by stamper) (answer, error) {
	name, value, err := by(body)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(w.s.t.Context(), http.MethodPost, w.s.url+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set(name, value)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode}
	if err := json.Unmarshal(b, &a.m); err != nil {
		return a, fmt.Errorf("%s: no JSON: %q", path, b)
	}
	return a, nil
}

// op is the path of an activity type.
func op(typ string) string {
	s := strings.ToLower(strings.TrimPrefix(typ, "ACTIVITY_TYPE_"))
	if i := strings.LastIndex(s, "_v"); i > 0 {
		if _, err := strconv.Atoi(s[i+2:]); err == nil {
			s = s[:i]
		}
	}
	return s
}

func (w *world) submit(typ string, by stamper, parameters any) (answer, error) {
	body, err := json.Marshal(map[string]any{"type": typ, "timestampMs": strconv.FormatInt(w.s.r.NowMs(), 10), "organizationId": w.id, "parameters": parameters})
	if err != nil {
		return answer{}, err
	}
	return w.post("/public/v1/submit/"+op(typ), body, by)
}

func (w *world) query(op string, request map[string]any) (answer, error) {
	request["organizationId"] = w.id
	body, err := json.Marshal(request)
	if err != nil {
		return answer{}, err
	}
	return w.post("/public/v1/query/"+op, body, w.root)
}

// must is a submit of the root user that is done; it answers the result.
func (w *world) must(typ string, parameters any) (any, error) {
	a, err := w.submit("ACTIVITY_TYPE_"+typ, w.root, parameters)
	if err == nil && (a.status != 200 || rig.Text(a.m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED") {
		err = fmt.Errorf("%s: %d %v", typ, a.status, a.m)
	}
	if err != nil {
		return nil, err
	}
	for _, r := range rig.Get(a.m, "activity", "result").(map[string]any) {
		return r, nil
	}
	return nil, fmt.Errorf("%s: no result", typ)
}

func newKey(name string) (stamper, laptop.KeyPair, map[string]any, error) {
	k, err := laptop.NewKey()
	return apiKey(k), k, map[string]any{"apiKeyName": name, "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}, err
}

// sorted are the keys of a map in order.
func sorted[V any](m map[string]V) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// build makes the organization of a case, its policies last but for the root quorum.
func (s *server) build(k *book, c *row) (*world, error) {
	if len(s.fresh) == 0 {
		return nil, errors.New("no organization is left")
	}
	o := s.fresh[0]
	s.fresh = s.fresh[1:]
	w := &world{s: s, k: k, id: o.OrganizationID, is: []string{"'04beef'", "'" + target + "'"}, root: apiKey(o.RootAPIKey), stamps: map[string]stamper{}, ids: map[string]string{}, made: k.Orgs["solo"]}
	if c.Org != "" {
		w.made = k.Orgs[c.Org]
	}
	steps := []func(*world, laptop.Organization) error{(*world).people, (*world).tags, (*world).wallets, (*world).privateKeys, (*world).passkeys, (*world).sessions}
	for _, step := range steps {
		if err := step(w, o); err != nil {
			return nil, err
		}
	}
	if c.Kind == "create_policy" {
		return w, nil
	}
	if err := w.prepare(c); err != nil {
		return nil, err
	}
	if err := w.bounded(c); err != nil {
		return nil, err
	}
	return w, w.govern(c)
}

func (w *world) people(o laptop.Organization) error {
	w.call(w.made.Users["root1"].ID, o.RootUserID)
	w.call(w.made.Credentials["root1-api"].PublicKey, o.RootAPIKey.PublicKey)
	w.stamps["root1-api"] = w.root
	if _, err := w.must("UPDATE_USER_NAME", map[string]any{"userId": o.RootUserID, "userName": "root1"}); err != nil {
		return err
	}
	names := slices.DeleteFunc(sorted(w.made.Users), func(n string) bool { return n == "root1" })
	var users []any
	for _, n := range names {
		u := w.made.Users[n]
		stamp, pair, params, err := newKey("key")
		if err != nil {
			return err
		}
		w.stamps[n+"-api"] = stamp
		w.call(w.made.Credentials[n+"-api"].PublicKey, pair.PublicKey)
		p := map[string]any{"userName": u.Alias, "apiKeys": []any{params}, "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}
		if u.Email != "" {
			p["userEmail"] = u.Email
		}
		users = append(users, p)
	}
	r, err := w.must("CREATE_USERS_V4", map[string]any{"users": users})
	for i, n := range names {
		w.call(w.made.Users[n].ID, rig.Text(r, "userIds", strconv.Itoa(i)))
	}
	return err
}

func (w *world) tags(laptop.Organization) error {
	for _, name := range sorted(w.k.Tags) {
		var users []string
		for _, n := range sorted(w.made.Users) {
			if slices.Contains(w.made.Users[n].Tags, w.k.Tags[name]) {
				users = append(users, w.ids[w.made.Users[n].ID])
			}
		}
		r, err := w.must("CREATE_USER_TAG", map[string]any{"userTagName": name, "userIds": users})
		if err != nil {
			return err
		}
		w.call(w.k.Tags[name], rig.Text(r, "userTagId"))
	}
	return nil
}

// accounts of the first wallet.
var accounts = map[string][2]string{"eth": {"CURVE_SECP256K1", "ADDRESS_FORMAT_ETHEREUM"}, "deep": {"CURVE_SECP256K1", "ADDRESS_FORMAT_ETHEREUM"},
	"sol": {"CURVE_ED25519", "ADDRESS_FORMAT_SOLANA"}, "trx": {"CURVE_SECP256K1", "ADDRESS_FORMAT_TRON"},
	"btc": {"CURVE_SECP256K1", "ADDRESS_FORMAT_BITCOIN_MAINNET_P2WPKH"}, "btctr": {"CURVE_SECP256K1", "ADDRESS_FORMAT_BITCOIN_MAINNET_P2TR"}}

// onChain is what stands for an address in a transaction: a public key or a hash.
func onChain(address string) (b []byte, err error) {
	switch {
	case strings.HasPrefix(address, "0x"):
		return hex.DecodeString(address[2:])
	case strings.HasPrefix(address, "bc1"):
		_, words, err := bech32.DecodeNoLimit(address)
		if err != nil || len(words) == 0 {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		return bech32.ConvertBits(words[1:], 5, 8, false)
	}
	if b, err = base58.Decode(address); err == nil && len(b) == 25 {
		b = b[:21]
	}
	return b, err
}

// transaction is a transaction of the book, with the addresses of here in the place of the fixture's, and the ids of the
// transactions that it spends from, here by the book's.
func (w *world) transaction(unsigned string) (out string, spent map[string]string, err error) {
	for _, n := range sorted(accounts) {
		there := w.made.WalletAccounts[n].Address
		was, err := onChain(there)
		if err != nil {
			return "", nil, err
		}
		is, err := onChain(w.ids[there])
		if err != nil {
			return "", nil, err
		}
		unsigned = strings.ReplaceAll(unsigned, hex.EncodeToString(was), hex.EncodeToString(is))
	}
	if at := internalKey.FindStringIndex(unsigned); at != nil {
		key, err := w.publicKey(w.ids[w.made.WalletAccounts["btctr"].Address])
		if err != nil {
			return "", nil, err
		}
		unsigned = unsigned[:at[1]-64] + key[2:] + unsigned[at[1]:]
	}
	out, spent = proven(unsigned)
	return out, spent, nil
}

// internalKey finds the taproot internal key of an input: key type 0x17, 32 bytes.
var internalKey = regexp.MustCompile(`011720[0-9a-f]{64}`)

// publicKey is that of an account by its address, compressed.
func (w *world) publicKey(address string) (string, error) {
	a, err := w.query("list_wallet_accounts", map[string]any{"walletId": w.ids[w.made.Wallets["w1"].ID]})
	if err != nil {
		return "", err
	}
	accounts, _ := a.m["accounts"].([]any)
	for _, one := range accounts {
		if rig.Text(one, "address") == address {
			return rig.Text(one, "publicKey"), nil
		}
	}
	return "", fmt.Errorf("no account of %s in %v", address, a.m)
}

func (w *world) wallets(o laptop.Organization) error {
	for _, n := range sorted(w.made.Wallets) {
		names := sorted(accounts)
		f := w.made.Wallets[n]
		if n != "w1" {
			names = []string{"eth"}
		}
		var params []any
		for _, a := range names {
			params = append(params, map[string]any{"curve": accounts[a][0], "pathFormat": "PATH_FORMAT_BIP32", "path": w.made.WalletAccounts[a].Path, "addressFormat": accounts[a][1]})
		}
		typ, in := "CREATE_WALLET", map[string]any{"walletName": f.Label, "accounts": params}
		if f.Imported {
			typ = "IMPORT_WALLET"
			if err := w.importing(w.root, o.RootUserID, "WALLET", []byte(mnemonic), in); err != nil {
				return err
			}
		}
		r, err := w.must(typ, in)
		if err != nil {
			return err
		}
		id := rig.Text(r, "walletId")
		w.call(f.ID, id)
		for i, a := range names {
			address := rig.Text(r, "addresses", strconv.Itoa(i))
			if n == "w1" {
				w.call(w.made.WalletAccounts[a].Address, address)
			}
			w.ids[n+" "+a] = address
		}
		if f.Exported {
			if _, err := w.must("EXPORT_WALLET", map[string]any{"walletId": id, "targetPublicKey": target}); err != nil {
				return err
			}
		}
	}
	return nil
}

// mnemonic is that of the wallet that is brought in; target is a public key whose private half is nobody's concern.
const (
	mnemonic = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	target   = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
)

// importing asks for a target of the user's and seals a secret to it, into the parameters of an import.
func (w *world) importing(by stamper, user, what string, secret []byte, in map[string]any) error {
	a, err := w.submit("ACTIVITY_TYPE_INIT_IMPORT_"+what, by, map[string]any{"userId": user})
	if err != nil {
		return err
	}
	var outer struct{ Data string }
	for _, r := range rig.Get(a.m, "activity", "result").(map[string]any) {
		if err := json.Unmarshal([]byte(rig.Text(r, "importBundle")), &outer); err != nil {
			return err
		}
	}
	data, err := hex.DecodeString(outer.Data)
	if err != nil {
		return err
	}
	var inner struct{ TargetPublic string }
	if err := json.Unmarshal(data, &inner); err != nil {
		return fmt.Errorf("%v: %w", a.m, err)
	}
	public, err := hex.DecodeString(inner.TargetPublic)
	if err != nil {
		return err
	}
	to, err := hpke.DHKEM(ecdh.P256()).NewPublicKey(public)
	if err != nil {
		return err
	}
	enc, s, err := hpke.NewSender(to, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	if err != nil {
		return err
	}
	sealed, err := s.Seal(append(bytes.Clone(enc), public...), secret)
	if err != nil {
		return err
	}
	bundle, err := json.Marshal(map[string]string{"encappedPublic": hex.EncodeToString(enc), "ciphertext": hex.EncodeToString(sealed)})
	in["userId"], in["encryptedBundle"] = user, string(bundle)
	return err
}

func (w *world) privateKeys(o laptop.Organization) error {
	for _, n := range sorted(w.made.PrivateKeys) {
		k := w.made.PrivateKeys[n]
		in := map[string]any{"privateKeyName": k.Label, "curve": "CURVE_SECP256K1", "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}}
		id := ""
		if k.Imported {
			if err := w.importing(w.root, o.RootUserID, "PRIVATE_KEY", bytes.Repeat([]byte{1}, 32), in); err != nil {
				return err
			}
			r, err := w.must("IMPORT_PRIVATE_KEY", in)
			if err != nil {
				return err
			}
			id = rig.Text(r, "privateKeyId")
		} else {
			in["privateKeyTags"] = []any{}
			r, err := w.must("CREATE_PRIVATE_KEYS_V2", map[string]any{"privateKeys": []any{in}})
			if err != nil {
				return err
			}
			id = rig.Text(r, "privateKeys", "0", "privateKeyId")
		}
		w.call(k.ID, id)
		for i, tag := range k.Tags {
			r, err := w.must("CREATE_PRIVATE_KEY_TAG", map[string]any{"privateKeyTagName": fmt.Sprint(n, " tag ", i), "privateKeyIds": []string{w.ids[k.ID]}})
			if err != nil {
				return err
			}
			w.call(tag, rig.Text(r, "privateKeyTagId"))
		}
	}
	return nil
}

func (w *world) passkeys(laptop.Organization) error {
	for _, n := range sorted(w.made.Credentials) {
		c := w.made.Credentials[n]
		if c.Type != "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR" {
			continue
		}
		a, err := authenticator.New(authenticator.ES256, "localhost", "http://localhost")
		if err != nil {
			return err
		}
		challenge := []byte("a challenge of " + n)
		reg, err := a.Register(challenge, authenticator.Packed)
		if err != nil {
			return err
		}
		if _, err := w.must("CREATE_AUTHENTICATORS_V2", map[string]any{"userId": w.ids[c.UserID], "authenticators": []any{reg.Params(n)}}); err != nil {
			return err
		}
		w.stamps[n] = passkey(a)
	}
	return nil
}

// logIn starts a session of who stamps so, under a profile if one is named.
func (w *world) logIn(by stamper, profile string) (stamper, error) {
	stamp, pair, _, err := newKey("session")
	if err != nil {
		return nil, err
	}
	in := map[string]any{"publicKey": pair.PublicKey}
	if profile != "" {
		in["sessionProfileId"] = profile
	}
	a, err := w.submit("ACTIVITY_TYPE_STAMP_LOGIN", by, in)
	if err == nil && (a.status != 200 || rig.Text(a.m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED") {
		err = fmt.Errorf("STAMP_LOGIN: %d %v", a.status, a.m)
	}
	return stamp, err
}

// sessions logs in whose credentials are those of sessions.
func (w *world) sessions(laptop.Organization) error {
	for _, n := range sorted(w.made.Credentials) {
		c := w.made.Credentials[n]
		if c.Type != "CREDENTIAL_TYPE_LOGIN" {
			continue
		}
		for _, u := range sorted(w.made.Users) {
			if w.made.Users[u].ID != c.UserID {
				continue
			}
			var err error
			if w.stamps[n], err = w.logIn(w.stamps[u+"-api"], ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// bounded puts a session with the scope of a case in the place of the credential
// that asks.
func (w *world) bounded(c *row) error {
	if c.Request.SessionScope == "" {
		return nil
	}
	r, err := w.must("CREATE_SESSION_PROFILE", map[string]any{"sessionProfileName": "bounded", "scope": w.translate(c.Request.SessionScope)})
	if err != nil {
		return err
	}
	w.stamps[c.Request.By.Credential], err = w.logIn(w.stamps[c.Request.By.User+"-api"], rig.Text(r, "sessionProfileId"))
	return err
}

// policy is a rule as parameters.
func (w *world) policy(p rule) map[string]any {
	m := map[string]any{"policyName": p.ID, "effect": p.Effect, "notes": ""}
	for field, text := range map[string]string{"consensus": p.Consensus, "condition": p.Condition, "time": p.Time} {
		if text != "" {
			m[field] = w.translate(text)
		}
	}
	return m
}

// govern makes policies and the root quorum.
func (w *world) govern(c *row) error {
	for _, p := range c.Policies {
		r, err := w.must("CREATE_POLICY_V3", w.policy(p))
		if err != nil {
			return err
		}
		w.ids["policy "+p.ID] = rig.Text(r, "policyId")
	}
	var members []string
	for _, n := range w.made.RootQuorum.Users {
		members = append(members, w.ids[w.made.Users[n].ID])
	}
	_, err := w.must("UPDATE_ROOT_QUORUM", map[string]any{"threshold": w.made.RootQuorum.Threshold, "userIds": members})
	return err
}

const nowhere = "00000000-0000-4000-8000-000000000000"

// request is the parameters of a case's request.
func (w *world) request(c *row, typ string) (map[string]any, error) {
	_, _, key, err := newKey("another")
	if err != nil {
		return nil, err
	}
	userID := c.Request.Params["userId"]
	if id, ok := userID.(string); ok {
		userID = w.ids[id]
	}
	t := &c.Request.Target
	switch op(typ) {
	case "set_payment_method":
		return map[string]any{"number": "4242424242424242", "cvv": "123", "expiryMonth": "12", "expiryYear": "2030", "cardHolderEmail": "payer@example.org", "cardHolderName": "Ada"}, nil
	case "sign_raw_payload", "sign_raw_payloads":
		with := w.ids[w.made.WalletAccounts[t.WalletAccount].Address]
		if t.PrivateKey != "" {
			with = w.ids[w.made.PrivateKeys[t.PrivateKey].ID]
		}
		x := w.k.Transactions[c.Request.Tx]
		m := map[string]any{"signWith": with, "encoding": x.Encoding, "hashFunction": x.HashFunction}
		if op(typ) == "sign_raw_payloads" {
			m["payloads"] = []string{x.Payload}
		} else {
			m["payload"] = x.Payload
		}
		return m, nil
	case "sign_transaction":
		x := w.k.Transactions[c.Request.Tx]
		unsigned, _, err := w.transaction(x.UnsignedTransaction)
		m := map[string]any{"unsignedTransaction": unsigned, "type": x.Type}
		switch {
		case strings.HasSuffix(typ, "_V2") && t.PrivateKey != "":
			m["signWith"] = w.ids[w.made.PrivateKeys[t.PrivateKey].ID]
		case strings.HasSuffix(typ, "_V2"):
			m["signWith"] = w.ids[t.Wallet+" "+t.WalletAccount]
		default: // could name a private key only
			m["privateKeyId"] = w.ids[w.made.PrivateKeys["pk1"].ID]
		}
		return m, err
	case "eth_send_transaction":
		return map[string]any{"from": w.ids[t.Wallet+" "+t.WalletAccount], "caip2": "eip155:1", "sponsor": c.Request.Sponsored,
			"to": "0x08d2b0a37f869ff76bacb5bab3278e26ab7067b7", "value": "1"}, nil
	case "update_oauth2_credential":
		return map[string]any{"oauth2CredentialId": w.id, "provider": "OAUTH2_PROVIDER_X", "clientId": "c", "encryptedClientSecret": "00"}, nil
	case "verify_otp":
		return map[string]any{"otpId": w.id, "encryptedOtpBundle": "{}"}, nil
	case "init_otp_auth":
		return map[string]any{"otpType": "OTP_TYPE_EMAIL", "contact": "user@example.org", "appName": "App", "otpLength": c.Request.PolicyParams["otp_length"]}, nil
	case "email_auth":
		return map[string]any{"email": "user@example.org", "targetPublicKey": target, "emailCustomization": map[string]any{"appName": "App"}}, nil
	case "create_policy":
		return w.policy(rule{ID: "asked for", Effect: "EFFECT_ALLOW", Condition: "false"}), nil
	case "delete_policy":
		return map[string]any{"policyId": w.ids["policy spare"]}, nil
	case "delete_wallets":
		names := t.Wallets
		if names == nil {
			names = []string{"w1"}
		}
		var ids []string
		for _, n := range names {
			ids = append(ids, w.ids[w.made.Wallets[n].ID])
		}
		return map[string]any{"walletIds": ids, "deleteWithoutExport": true}, nil
	case "export_wallet_account":
		return map[string]any{"address": w.ids[t.Wallet+" "+t.WalletAccount], "targetPublicKey": target}, nil
	case "export_private_key":
		return map[string]any{"privateKeyId": w.ids[w.made.PrivateKeys[t.PrivateKey].ID], "targetPublicKey": target}, nil
	case "init_import_wallet":
		return map[string]any{"userId": userID}, nil
	case "import_private_key":
		in := map[string]any{"privateKeyName": "asked for", "curve": "CURVE_ED25519", "addressFormats": []any{}}
		return in, w.importing(w.stamps[c.Request.By.Credential], userID.(string), "PRIVATE_KEY", bytes.Repeat([]byte{2}, 32), in)
	case "export_wallet":
		return map[string]any{"walletId": w.ids[w.made.Wallets[t.Wallet].ID], "targetPublicKey": target}, nil
	case "stamp_login":
		return map[string]any{"publicKey": key["publicKey"]}, nil
	case "create_wallet":
		return map[string]any{"walletName": "asked for", "accounts": []any{}}, nil
	case "create_wallet_accounts":
		return map[string]any{"walletId": w.ids[w.made.Wallets[t.Wallet].ID], "accounts": []any{map[string]any{"curve": "CURVE_ED25519",
			"pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/501'/7'/0'", "addressFormat": "ADDRESS_FORMAT_SOLANA"}}}, nil
	case "create_sub_organization":
		return map[string]any{"subOrganizationName": "asked for", "rootQuorumThreshold": 1, "rootUsers": []any{map[string]any{"userName": "root",
			"apiKeys": []any{key}, "authenticators": []any{}, "oauthProviders": []any{}}}}, nil
	case "delete_users":
		var ids []string
		for _, id := range c.Request.PolicyParams["user_ids"].([]any) {
			ids = append(ids, w.ids[id.(string)])
		}
		return map[string]any{"userIds": ids}, nil
	case "set_organization_feature":
		return map[string]any{"name": "FEATURE_NAME_SMS_AUTH", "value": ""}, nil
	case "update_root_quorum":
		return map[string]any{"threshold": 1, "userIds": []string{w.ids[w.made.Users["root1"].ID]}}, nil
	case "create_api_keys":
		return map[string]any{"userId": userID, "apiKeys": []any{key}}, nil
	case "delete_api_keys":
		return map[string]any{"userId": userID, "apiKeyIds": []string{w.ids["key spare"]}}, nil
	case "delete_authenticators":
		return map[string]any{"userId": userID, "authenticatorIds": []string{nowhere}}, nil
	case "disable_private_key":
		return map[string]any{"privateKeyId": w.ids[w.made.PrivateKeys[t.PrivateKey].ID]}, nil
	case "update_user_name":
		return map[string]any{"userId": userID, "userName": "asked for"}, nil
	case "spark_sign_frost":
		var signatures []any
		for _, s := range c.Request.PolicyParams["signatures"].([]any) {
			signatures = append(signatures, sparkSignature(s))
		}
		return map[string]any{"signWith": "nobody's", "signatures": signatures}, nil
	case "spark_prepare_transfer":
		leaf := func(id string) any { return map[string]any{"signingLeaf": map[string]any{"leafId": id}} }
		return map[string]any{"signWith": "nobody's", "transfer": map[string]any{"transferId": w.id, "threshold": 2, "receiverPublicKey": sparkPoint,
			"leaves": []any{map[string]any{"leafId": "leaf-1", "oldLeafDerivation": leaf("leaf-1"), "newLeafDerivation": leaf("leaf-2")}},
			"operatorRecipients": []any{map[string]any{"operatorId": "one", "encryptionPublicKey": sparkPoint},
				map[string]any{"operatorId": "two", "encryptionPublicKey": "03" + sparkPoint[2:]}}}}, nil
	}
	return map[string]any{}, nil // a kind that is not live says so before it looks
}

// interfaces uploads what describes a case's contracts.
func (w *world) interfaces(c *row) error {
	for _, n := range c.Interfaces {
		var i struct {
			Type, Address string
			ABI           json.RawMessage `json:"abi"`
			IDL           json.RawMessage `json:"idl"`
		}
		if err := json.Unmarshal(w.k.Interfaces[n], &i); err != nil {
			return err
		}
		if i.ABI == nil {
			i.ABI = i.IDL
		}
		if _, err := w.must("CREATE_SMART_CONTRACT_INTERFACE", map[string]any{"smartContractAddress": i.Address, "smartContractInterface": string(i.ABI),
			"type": i.Type, "label": strings.ReplaceAll(n, ":", " ")}); err != nil {
			return err
		}
	}
	return nil
}

// sparkPoint is twice the base point of secp256k1.
const sparkPoint = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"

// sparkSignature is one signature of a case, whose keys are too short to be any, as clients ask for it.
func sparkSignature(of any) any {
	m := map[string]any{"message": strings.Repeat("aa", 32), "verifyingKey": sparkPoint,
		"operatorCommitments": []any{map[string]any{"id": strings.Repeat("00", 31) + "01", "hiding": sparkPoint, "binding": sparkPoint}}}
	switch rig.Text(of, "derivation", "type") {
	case "signing_leaf":
		m["derivation"] = map[string]any{"signingLeaf": map[string]any{"leafId": rig.Text(of, "derivation", "signing_leaf", "leaf_id")}}
	default:
		m["derivation"] = map[string]any{"identity": map[string]any{}}
	}
	if rig.Text(of, "adaptor_public_key") != "" {
		m["adaptorPublicKey"] = sparkPoint
	}
	return m
}

// prepare makes what a request needs, or takes away.
func (w *world) prepare(c *row) error {
	if err := w.interfaces(c); err != nil {
		return err
	}
	switch op(c.Request.Type) {
	case "sign_transaction":
		_, spent, err := w.transaction(w.k.Transactions[c.Request.Tx].UnsignedTransaction)
		for is, here := range spent {
			w.call(is, here)
		}
		return err
	case "spark_prepare_transfer":
		w.call("'03bb'", "'"+sparkPoint+"'")
	case "delete_policy":
		r, err := w.must("CREATE_POLICY_V3", w.policy(rule{ID: "spare", Effect: "EFFECT_ALLOW", Condition: "false"}))
		w.ids["policy spare"] = rig.Text(r, "policyId")
		return err
	case "init_otp_auth":
		_, err := w.must("SET_ORGANIZATION_FEATURE", map[string]any{"name": "FEATURE_NAME_OTP_EMAIL_AUTH", "value": ""})
		return err
	case "delete_api_keys":
		_, _, key, err := newKey("spare")
		if err != nil {
			return err
		}
		r, err := w.must("CREATE_API_KEYS_V2", map[string]any{"userId": w.ids[c.Request.Params["userId"].(string)], "apiKeys": []any{key}})
		w.ids["key spare"] = rig.Text(r, "apiKeyIds", "0")
		return err
	}
	return nil
}
