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

	"cloister/attestation/request"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
	"cloister/sim/client"
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
	in := client.SubOrganization("Sub", client.NewRootUser("Root", f.Credentials.RootAPIKey))
	return client.Text(f.Root().Do("CREATE_SUB_ORGANIZATION_V8", in), "subOrganizationId")
}

// submits are activities that the proxy asks for, and others, all of which its key
// must not stamp at any endpoint that is open to the world.
var submits = map[string]object{
	"INIT_OTP_V2":     {"otpType": "OTP_TYPE_EMAIL", "contact": "a@example.com", "appName": "x"},
	"VERIFY_OTP":      {"otpId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "otpCode": "1"},
	"OTP_LOGIN":       {"verificationToken": "x", "publicKey": "02"},
	"OAUTH_LOGIN":     {"oidcToken": "x", "publicKey": "02"},
	"CREATE_WALLET":   client.Wallet("W"),
	"STAMP_LOGIN":     {"publicKey": "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"},
	"CREATE_USERS_V4": client.Users(client.NewUser("U")),
	"CREATE_SUB_ORGANIZATION_V8": {"subOrganizationName": "S", "rootQuorumThreshold": 1,
		"rootUsers": []any{object{"userName": "U", "userEmail": "u@example.com", "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{}}}},
	"DISABLE_AUTH_PROXY":          {},
	"APPROVE_ACTIVITY":            {"fingerprint": "sha256:" + strings.Repeat("0", 64)},
	"CREATE_READ_ONLY_SESSION":    {},
	"EXPORT_WALLET":               {"walletId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "targetPublicKey": "02"},
	"UPDATE_ROOT_QUORUM":          {"threshold": 1, "userIds": []any{"6ba7b810-9dad-41d1-80b4-00c04fd430c8"}},
	"SET_ORGANIZATION_FEATURE":    {"name": "FEATURE_NAME_SMS_AUTH", "value": ""},
	"CREATE_API_KEYS_V2":          {"userId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "apiKeys": []any{}},
	"UPDATE_AUTH_PROXY_CONFIG":    {"allowedOrigins": []any{"*"}},
	"CREATE_OAUTH2_CREDENTIAL":    {"provider": "OAUTH2_PROVIDER_X", "clientId": "x", "encryptedClientSecret": "00"},
	"DELETE_ORGANIZATION":         {"organizationId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8"},
	"SIGN_RAW_PAYLOAD_V2":         {"signWith": "x", "payload": "00", "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"},
	"REMOVE_ORGANIZATION_FEATURE": {"name": "FEATURE_NAME_AUTH_PROXY"},
}

// outside stamps every kind of activity and query with the proxy's key, for the
// organization, a child of it and one that is none, and answers how many.
func (f *thief) outside(child string) (n int) {
	f.t.Helper()
	const nobodys = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	for _, organization := range []string{f.Credentials.OrganizationID, child, nobodys} {
		want, says := 401, "could not find public key in organization"
		if organization == nobodys {
			want, says = 404, "no organization found with the given ID: "+nobodys
		}
		for typ, params := range submits {
			n++
			status, body := f.at(wire.EndpointSubmit, request.Operation(typ), f.Root().As(organization, "", f.key).Body(typ, params))
			if status != want || !strings.Contains(body, says) {
				f.t.Errorf("%s in %s: %d %s", typ, organization, status, body)
			}
		}
		for _, op := range []string{"whoami", "get_organization", "list_users", "list_suborgs", "list_verified_suborgs", "list_activities", "get_auth_proxy_config", "list_wallets"} {
			n++
			status, body := f.at(wire.EndpointQuery, op, text(object{"organizationId": organization}))
			if status != want || !strings.Contains(body, says) {
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
			op := []string{request.Operation(typ), "signup", "account"}[i%3]
			n++
			if status, got := f.at(wire.EndpointProxy, op, f.Root().Body(typ, params)); status < 400 {
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
	root := f.Root()
	user := client.Text(root.Read("get_auth_proxy_config", nil), "authProxyConfig", "userId")
	root.Do("UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{root.User, user}})
	for typ, params := range submits {
		proxied := strings.Contains("init_otp verify_otp otp_login oauth_login create_sub_organization", request.Operation(typ))
		for range 50 {
			body := root.Body(typ, params)
			status, got := f.Enclave.AsProxy(ctx, false, request.Operation(typ), f.stamp(body), body)
			if !proxied && (status != 403 || !strings.Contains(string(got), "stamps only what the proxy asks for")) {
				t.Errorf("%s: %d %s", typ, status, got)
			}
			if request.Operation(typ) == "create_sub_organization" && status != 200 {
				t.Errorf("%s: %d %s", typ, status, got)
			}
		}
	}
	// Another key, be it the root user's, is nobody's there.
	if got := root.Submit("CREATE_SUB_ORGANIZATION_V8", submits["CREATE_SUB_ORGANIZATION_V8"]); got.Status != 200 {
		t.Fatal(got)
	}
}

// What the proxy did is in the history, stamped: anybody can verify it.
func TestProxyActivitiesAreStamped(t *testing.T) {
	f := newThief(t, rig.Options{})
	body := text(object{"userName": "Ada", "apiKeys": []any{client.APIKey("K", f.Credentials.RootAPIKey)}})
	call := &wire.Call{Endpoint: wire.EndpointProxy, Op: "signup", Head: []wire.Header{{Name: "x-auth-proxy-config-id", Value: f.Credentials.AuthProxyConfigID}}, Body: body}
	r := f.Enclave.Call(context.Background(), call)
	if r.Status != 200 || r.Request != sha256.Sum256(body) || !r.Readable {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	root := f.Root()
	user := root.Query("get_auth_proxy_config", nil).Text("authProxyConfig", "userId")
	m := root.Query("list_activities", object{"filterByType": []any{"ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7"}})
	vote := m.Get("activities", "0", "votes", "0")
	if client.Text(vote, "userId") != user || client.Text(vote, "scheme") != "SIGNATURE_SCHEME_TK_API_P256" || !strings.Contains(client.Text(vote, "message"), `"userName":"Ada"`) {
		t.Errorf("%v", vote)
	}
	if got := m.Text("activities", "0", "fingerprint"); got != fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(client.Text(vote, "message")))) {
		t.Error(got)
	}
	u := root.Query("get_user", object{"userId": user})
	if client.Text(vote, "publicKey") != u.Text("user", "apiKeys", "0", "credential", "publicKey") {
		t.Errorf("%v", u)
	}
	// Its vote, put to use again, is the activity that was.
	stamp := base64.RawURLEncoding.EncodeToString(text(object{"publicKey": client.Get(vote, "publicKey"), "scheme": client.Get(vote, "scheme"), "signature": client.Get(vote, "signature")}))
	message := []byte(client.Text(vote, "message"))
	again := f.Enclave.Call(context.Background(), &wire.Call{Endpoint: wire.EndpointSubmit, Op: "create_sub_organization", Head: []wire.Header{{Name: "X-Stamp", Value: stamp}}, Body: message})
	if again.Status != 401 {
		t.Errorf("replayed: %d %s", again.Status, again.Body)
	}
}
