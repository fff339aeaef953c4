package core_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/org"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

type object = map[string]any

func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// A thief has the proxy's key, which nobody outside can have.
type thief struct {
	*rig.Rig
	t   *testing.T
	key laptop.KeyPair
}

func newThief(t *testing.T, o rig.Options) *thief {
	o.AuthProxy = true
	r := rig.Start(t, o)
	id, err := org.ParseID(r.Credentials.OrganizationID)
	if err != nil {
		t.Fatal(err)
	}
	private, err := r.Enclave.ProxyKey(t.Context(), id, r.Credentials.AuthProxyConfigID)
	if err != nil {
		t.Fatal(err)
	}
	return &thief{r, t, laptop.KeyPair{PrivateKey: hex.EncodeToString(private)}}
}

// stamp stamps a body with the proxy's key.
func (f *thief) stamp(body []byte) []wire.Header {
	f.t.Helper()
	head, err := laptop.Stamp(f.key, body)
	if err != nil {
		f.t.Fatal(err)
	}
	return head
}

// at sends a body stamped with the proxy's key to an endpoint.
func (f *thief) at(endpoint wire.Endpoint, op string, body []byte) (int, string) {
	f.t.Helper()
	r := f.Enclave.Call(context.Background(), &wire.Call{Endpoint: endpoint, Op: op, Head: f.stamp(body), Body: body})
	return int(r.Status), string(r.Body)
}

// child makes a sub-organization by the root user and answers its id.
func (f *thief) child() string {
	f.t.Helper()
	key := object{"apiKeyName": "K", "publicKey": f.Credentials.RootAPIKey.PublicKey, "curveType": "API_KEY_CURVE_P256"}
	status, m := f.Submit("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", object{"subOrganizationName": "Sub", "rootQuorumThreshold": 1,
		"rootUsers": []any{object{"userName": "Root", "apiKeys": []any{key}, "authenticators": []any{}, "oauthProviders": []any{}}}})
	if status != 200 {
		f.t.Fatalf("%d %v", status, m)
	}
	return rig.Text(m, "activity", "result", "createSubOrganizationResultV8", "subOrganizationId")
}

// submits are activities that the proxy asks for, and others, all of which its key
// must not stamp at any endpoint that is open to the world.
var submits = map[string]object{
	"ACTIVITY_TYPE_INIT_OTP_V2":     {"otpType": "OTP_TYPE_EMAIL", "contact": "a@example.com", "appName": "x"},
	"ACTIVITY_TYPE_VERIFY_OTP":      {"otpId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "otpCode": "1"},
	"ACTIVITY_TYPE_OTP_LOGIN":       {"verificationToken": "x", "publicKey": "02"},
	"ACTIVITY_TYPE_OAUTH_LOGIN":     {"oidcToken": "x", "publicKey": "02"},
	"ACTIVITY_TYPE_CREATE_WALLET":   {"walletName": "W", "accounts": []any{}},
	"ACTIVITY_TYPE_STAMP_LOGIN":     {"publicKey": "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"},
	"ACTIVITY_TYPE_CREATE_USERS_V4": {"users": []any{object{"userName": "U", "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}}},
	"ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8": {"subOrganizationName": "S", "rootQuorumThreshold": 1,
		"rootUsers": []any{object{"userName": "U", "userEmail": "u@example.com", "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{}}}},
	"ACTIVITY_TYPE_DISABLE_AUTH_PROXY":          {},
	"ACTIVITY_TYPE_APPROVE_ACTIVITY":            {"fingerprint": "sha256:" + strings.Repeat("0", 64)},
	"ACTIVITY_TYPE_CREATE_READ_ONLY_SESSION":    {},
	"ACTIVITY_TYPE_EXPORT_WALLET":               {"walletId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "targetPublicKey": "02"},
	"ACTIVITY_TYPE_UPDATE_ROOT_QUORUM":          {"threshold": 1, "userIds": []any{"6ba7b810-9dad-41d1-80b4-00c04fd430c8"}},
	"ACTIVITY_TYPE_SET_ORGANIZATION_FEATURE":    {"name": "FEATURE_NAME_SMS_AUTH", "value": ""},
	"ACTIVITY_TYPE_CREATE_API_KEYS_V2":          {"userId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "apiKeys": []any{}},
	"ACTIVITY_TYPE_UPDATE_AUTH_PROXY_CONFIG":    {"allowedOrigins": []any{"*"}},
	"ACTIVITY_TYPE_CREATE_OAUTH2_CREDENTIAL":    {"provider": "OAUTH2_PROVIDER_X", "clientId": "x", "encryptedClientSecret": "00"},
	"ACTIVITY_TYPE_DELETE_ORGANIZATION":         {"organizationId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8"},
	"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2":         {"signWith": "x", "payload": "00", "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"},
	"ACTIVITY_TYPE_REMOVE_ORGANIZATION_FEATURE": {"name": "FEATURE_NAME_AUTH_PROXY"},
}

// opOf is the path of a type.
func opOf(typ string) string {
	op := strings.ToLower(strings.TrimPrefix(typ, "ACTIVITY_TYPE_"))
	if i := strings.LastIndex(op, "_v"); i > 0 && strings.Trim(op[i+2:], "0123456789") == "" {
		op = op[:i]
	}
	return op
}

// outside stamps every kind of activity and query with the proxy's key, for the
// organization, a child of it and one that is none, and answers how many.
func (f *thief) outside(child string) (n int) {
	f.t.Helper()
	for _, organization := range []string{f.Credentials.OrganizationID, child, "6ba7b810-9dad-41d1-80b4-00c04fd430c8"} {
		for typ, params := range submits {
			n++
			status, body := f.at(wire.EndpointSubmit, opOf(typ), f.BodyOf(organization, typ, params))
			if status != 401 || !strings.Contains(body, "could not find public key in organization") {
				f.t.Errorf("%s in %s: %d %s", typ, organization, status, body)
			}
		}
		for _, op := range []string{"whoami", "get_organization", "list_users", "list_suborgs", "list_verified_suborgs", "list_activities", "get_auth_proxy_config", "list_wallets"} {
			n++
			status, body := f.at(wire.EndpointQuery, op, text(object{"organizationId": organization}))
			if status != 401 || !strings.Contains(body, "could not find public key in organization") {
				f.t.Errorf("%s of %s: %d %s", op, organization, status, body)
			}
		}
	}
	return n
}

func TestProxyKeyIsNobodysOutside(t *testing.T) {
	f := newThief(t, rig.Options{Organizations: 1})
	child := f.child()
	n := 0
	for range 17 { // in three organizations each
		n += f.outside(child)
	}
	// At its own endpoint a stamp is not looked at.
	for typ, params := range submits {
		for i := range 51 {
			op := []string{opOf(typ), "signup", "account"}[i%3]
			n++
			if status, got := f.at(wire.EndpointProxy, op, f.BodyOf(f.Credentials.OrganizationID, typ, params)); status < 400 {
				t.Errorf("%s as %s: %d %s", typ, op, status, got)
			}
		}
	}
	t.Logf("%d requests refused", n)
}

// On the proxy's own way, too, only what the proxy asks for is taken, and only from
// the proxy's key.
func TestOnlyProxiedActivitiesOnTheProxysWay(t *testing.T) {
	f := newThief(t, rig.Options{})
	ctx := context.Background()
	// Even where policies would let the proxy's user do anything.
	status, m := f.Query("get_auth_proxy_config", nil)
	if status != 200 {
		t.Fatal(status, m)
	}
	user := rig.Text(m, "authProxyConfig", "userId")
	if status, m := f.Submit("update_root_quorum", "ACTIVITY_TYPE_UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{f.Credentials.RootUserID, user}}); status != 200 {
		t.Fatal(status, m)
	}
	for typ, params := range submits {
		proxied := strings.Contains("init_otp verify_otp otp_login oauth_login create_sub_organization", opOf(typ))
		for range 50 {
			body := f.Body(typ, params)
			status, got := f.Enclave.AsProxy(ctx, false, opOf(typ), f.stamp(body), body)
			if !proxied && (status != 403 || !strings.Contains(string(got), "stamps only what the proxy asks for")) {
				t.Errorf("%s: %d %s", typ, status, got)
			}
			if opOf(typ) == "create_sub_organization" && status != 200 {
				t.Errorf("%s: %d %s", typ, status, got)
			}
		}
	}
	// Another key, be it the root user's, is nobody's there.
	body := f.Body("ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", submits["ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8"])
	r, err := f.Send(ctx, wire.EndpointSubmit, "create_sub_organization", body, f.Credentials.RootAPIKey)
	if err != nil || r.Status != 200 {
		t.Fatal(r, err)
	}
}

// What the proxy did is in the history, stamped: anybody can verify it.
func TestProxyActivitiesAreStamped(t *testing.T) {
	f := newThief(t, rig.Options{})
	body := text(object{"userName": "Ada", "apiKeys": []any{object{"apiKeyName": "K", "publicKey": f.Credentials.RootAPIKey.PublicKey, "curveType": "API_KEY_CURVE_P256"}}})
	call := &wire.Call{Endpoint: wire.EndpointProxy, Op: "signup", Head: []wire.Header{{Name: "x-auth-proxy-config-id", Value: f.Credentials.AuthProxyConfigID}}, Body: body}
	r := f.Enclave.Call(context.Background(), call)
	if r.Status != 200 || r.Request != sha256.Sum256(body) || !r.Readable {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	_, config := f.Query("get_auth_proxy_config", nil)
	user := rig.Text(config, "authProxyConfig", "userId")
	_, m := f.Query("list_activities", object{"filterByType": []any{"ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7"}})
	vote := rig.Get(m, "activities", "0", "votes", "0")
	if rig.Text(vote, "userId") != user || rig.Text(vote, "scheme") != "SIGNATURE_SCHEME_TK_API_P256" || !strings.Contains(rig.Text(vote, "message"), `"userName":"Ada"`) {
		t.Errorf("%v", vote)
	}
	if got := rig.Text(m, "activities", "0", "fingerprint"); got != fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(rig.Text(vote, "message")))) {
		t.Error(got)
	}
	_, u := f.Query("get_user", object{"userId": user})
	if rig.Text(vote, "publicKey") != rig.Text(u, "user", "apiKeys", "0", "credential", "publicKey") {
		t.Errorf("%v", u)
	}
	// Its vote, put to use again, is the activity that was.
	stamp := base64.RawURLEncoding.EncodeToString(text(object{"publicKey": rig.Get(vote, "publicKey"), "scheme": rig.Get(vote, "scheme"), "signature": rig.Get(vote, "signature")}))
	message := []byte(rig.Text(vote, "message"))
	again := f.Enclave.Call(context.Background(), &wire.Call{Endpoint: wire.EndpointSubmit, Op: "create_sub_organization", Head: []wire.Header{{Name: "X-Stamp", Value: stamp}}, Body: message})
	if again.Status != 401 {
		t.Errorf("replayed: %d %s", again.Status, again.Body)
	}
}
