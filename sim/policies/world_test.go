package policies_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/host/api"
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

func newServer(t *testing.T, organizations int) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{t: t, r: rig.Start(t, rig.Options{Dir: dir, Organizations: organizations})}
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
	w := &world{s: s, k: k, id: o.OrganizationID, root: apiKey(o.RootAPIKey), stamps: map[string]stamper{}, ids: map[string]string{}, made: k.Orgs["solo"]}
	if c.Org != "" {
		w.made = k.Orgs[c.Org]
	}
	steps := []func(*world, laptop.Organization) error{(*world).people, (*world).tags, (*world).wallets, (*world).privateKeys, (*world).passkeys}
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

// accounts of the first wallet, in the formats that are live.
var accounts = map[string][2]string{"eth": {"CURVE_SECP256K1", "ADDRESS_FORMAT_ETHEREUM"}, "deep": {"CURVE_SECP256K1", "ADDRESS_FORMAT_ETHEREUM"},
	"sol": {"CURVE_ED25519", "ADDRESS_FORMAT_SOLANA"}}

func (w *world) wallets(laptop.Organization) error {
	var params []any
	for _, n := range sorted(accounts) {
		params = append(params, map[string]any{"curve": accounts[n][0], "pathFormat": "PATH_FORMAT_BIP32", "path": w.made.WalletAccounts[n].Path, "addressFormat": accounts[n][1]})
	}
	for _, n := range sorted(w.made.Wallets) {
		if n != "w1" {
			params = []any{}
		}
		r, err := w.must("CREATE_WALLET", map[string]any{"walletName": w.made.Wallets[n].Label, "accounts": params})
		if err != nil {
			return err
		}
		w.call(w.made.Wallets[n].ID, rig.Text(r, "walletId"))
		for i, a := range sorted(accounts) {
			if n == "w1" {
				w.call(w.made.WalletAccounts[a].Address, rig.Text(r, "addresses", strconv.Itoa(i)))
			}
		}
	}
	return nil
}

func (w *world) privateKeys(laptop.Organization) error {
	for _, n := range sorted(w.made.PrivateKeys) {
		k := w.made.PrivateKeys[n]
		r, err := w.must("CREATE_PRIVATE_KEYS_V2", map[string]any{"privateKeys": []any{map[string]any{"privateKeyName": k.Label, "curve": "CURVE_SECP256K1",
			"privateKeyTags": []any{}, "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}}}})
		if err != nil {
			return err
		}
		w.call(k.ID, rig.Text(r, "privateKeys", "0", "privateKeyId"))
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
	case "sign_raw_payload", "sign_raw_payloads":
		with := w.ids[w.made.WalletAccounts[t.WalletAccount].Address]
		if t.PrivateKey != "" {
			with = w.ids[w.made.PrivateKeys[t.PrivateKey].ID]
		}
		x := w.k.Transactions[c.Request.Tx]
		if x.Kind != "RAW_PAYLOAD" {
			x.Payload, x.Encoding, x.HashFunction = "00ff", "PAYLOAD_ENCODING_HEXADECIMAL", "HASH_FUNCTION_KECCAK256"
		}
		if t.WalletAccount == "sol" {
			x.HashFunction = "HASH_FUNCTION_NOT_APPLICABLE"
		}
		m := map[string]any{"signWith": with, "encoding": x.Encoding, "hashFunction": x.HashFunction}
		if op(typ) == "sign_raw_payloads" {
			m["payloads"] = []string{x.Payload}
		} else {
			m["payload"] = x.Payload
		}
		return m, nil
	case "create_policy":
		return w.policy(rule{ID: "asked for", Effect: "EFFECT_ALLOW", Condition: "false"}), nil
	case "delete_policy":
		return map[string]any{"policyId": w.ids["policy spare"]}, nil
	case "delete_wallets":
		return map[string]any{"walletIds": []string{w.ids[w.made.Wallets["w1"].ID]}, "deleteWithoutExport": true}, nil
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
	}
	return map[string]any{}, nil // a kind that is not live says so before it looks
}

// prepare makes what a request takes away.
func (w *world) prepare(c *row) error {
	switch op(c.Request.Type) {
	case "delete_policy":
		r, err := w.must("CREATE_POLICY_V3", w.policy(rule{ID: "spare", Effect: "EFFECT_ALLOW", Condition: "false"}))
		w.ids["policy spare"] = rig.Text(r, "policyId")
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
