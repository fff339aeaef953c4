package request_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/client"
	"cloister/attestation/request"
	sim "cloister/sim/client"
	"cloister/sim/rig"
)

type object = map[string]any

// world is a real host and enclave, and the root user's way to them.
func world(t *testing.T) (*rig.Rig, *request.API) {
	t.Helper()
	r := rig.Start(t, rig.Options{})
	c := r.Credentials
	return r, &request.API{URL: r.Serve(), OrganizationID: c.OrganizationID, Key: parse(t, c.RootAPIKey.PrivateKey)}
}

func parse(t *testing.T, private string) *request.Key {
	t.Helper()
	k, err := request.ParseKey(private)
	must(t, err)
	return k
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type who struct{ OrganizationID, UserID string }

func TestRequests(t *testing.T) {
	r, root := world(t)
	ctx := t.Context()
	var me who
	must(t, root.Query(ctx, "whoami", nil, &me))
	if me.UserID != r.Credentials.RootUserID || me.OrganizationID != root.OrganizationID {
		t.Errorf("%+v", me)
	}

	// Each scheme of the wire, and each key at work at once.
	var keys []*request.Key
	var parameters []object
	for i, suffix := range []string{"", ":p256", ":secp256k1", ":ed25519"} {
		k := parse(t, strings.Repeat(fmt.Sprintf("%02x", i+1), 32)+suffix)
		keys = append(keys, k)
		parameters = append(parameters, object{"apiKeyName": fmt.Sprint("Key ", i), "publicKey": k.Public(), "curveType": k.Curve()})
	}
	a, err := root.Submit(ctx, "ACTIVITY_TYPE_CREATE_API_KEYS_V2", object{"userId": me.UserID, "apiKeys": parameters})
	must(t, err)
	var made struct{ APIKeyIDs []string }
	if must(t, a.Into(&made)); len(made.APIKeyIDs) != len(keys) {
		t.Errorf("%+v", made)
	}
	for _, k := range keys {
		got := who{}
		as := &request.API{URL: root.URL, OrganizationID: root.OrganizationID, Key: k}
		if err := as.Query(ctx, "whoami", object{}, &got); err != nil || got != me {
			t.Errorf("%s: %+v, %v", k.Curve(), got, err)
		}
	}

	// The same activity twice is two, and their proofs come along when wanted.
	root.AppProofs = true
	ids := map[string]bool{}
	root.Now = func() time.Time { return time.Now().Truncate(time.Minute) }
	for i := range 3 {
		a, err := root.Submit(ctx, "ACTIVITY_TYPE_CREATE_USER_TAG", sim.Tag(fmt.Sprint("Tag ", i)))
		must(t, err)
		if ids[a.ID] = true; a.Waits() || len(a.AppProofs) == 0 {
			t.Errorf("%+v", a)
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d activities, want 3", len(ids))
	}

	// What the interface refuses, in its words.
	for name, c := range map[string]struct {
		do     func() error
		status int
	}{
		"nothing there": {func() error { return root.Query(ctx, "get_wallet", object{"walletId": me.UserID}, nil) }, 404},
		"no such query": {func() error { return root.Query(ctx, "get_nothing", nil, nil) }, 404},
		"nobody's key": {func() error {
			return (&request.API{URL: root.URL, OrganizationID: root.OrganizationID, Key: parse(t, strings.Repeat("09", 32))}).Query(ctx, "whoami", nil, nil)
		}, 401},
		"malformed activity": {func() error {
			_, err := root.Submit(ctx, "ACTIVITY_TYPE_CREATE_USER_TAG", object{"nothing": 1})
			return err
		}, 400},
	} {
		var refusal *request.Error
		if err := c.do(); !errors.As(err, &refusal) || refusal.Status != c.status || refusal.Message == "" || refusal.Code == 0 {
			t.Errorf("%s: %+v", name, err)
		}
	}
	if status, reply, err := root.Post(ctx, "/public/v1/query/whoami", []byte("{}x")); err != nil || status != 400 {
		t.Errorf("bytes as they are: %d %s, %v", status, reply, err)
	}

	// Under signed replies, with nothing changed but the way.
	root.HTTP = &http.Client{Transport: &client.Transport{Proofs: client.Discovery(root.URL, nil),
		Policy: attestation.Policy{SimulatorRootPEM: r.Credentials.AttestationRootPEM, AllowedManifestSHA256: []string{r.Credentials.ManifestSHA256}}}}
	must(t, root.Query(ctx, "whoami", nil, &me))
	root.HTTP = &http.Client{Transport: &client.Transport{Proofs: client.Discovery(root.URL, nil), Policy: attestation.Policy{}}}
	if err := root.Query(ctx, "whoami", nil, &me); err == nil {
		t.Error("a reply of nobody known is taken")
	}
}

// An activity that wants somebody else's vote is asked after until it has it.
func TestWait(t *testing.T) {
	_, root := world(t)
	ctx := t.Context()
	pair := sim.NewKey()
	a, err := root.Submit(ctx, "ACTIVITY_TYPE_CREATE_USERS_V4", sim.Users(sim.NewUser("Second", pair)))
	must(t, err)
	must(t, a.Into(new(struct{})))
	a, err = root.Submit(ctx, "ACTIVITY_TYPE_CREATE_POLICY_V3", sim.Policy("Two", "ALLOW", "true", "approvers.count() >= 2"))
	must(t, err)
	must(t, a.Into(new(struct{})))

	second := &request.API{URL: root.URL, OrganizationID: root.OrganizationID, Key: parse(t, pair.PrivateKey)}
	for vote, want := range map[string]string{"APPROVE": "ACTIVITY_STATUS_COMPLETED", "REJECT": "ACTIVITY_STATUS_REJECTED"} {
		a, err := second.Submit(ctx, "ACTIVITY_TYPE_CREATE_USER_TAG", sim.Tag(vote))
		must(t, err)
		if !a.Waits() || a.Into(new(struct{})) == nil {
			t.Fatalf("%+v", a)
		}
		asked := 0
		a, err = second.Wait(ctx, a, func(ctx context.Context) error {
			if asked++; asked == 1 {
				return nil
			}
			_, err := root.Submit(ctx, "ACTIVITY_TYPE_"+vote+"_ACTIVITY", object{"fingerprint": a.Fingerprint})
			return err
		})
		if err != nil || a.Status != want || asked != 2 {
			t.Errorf("%s: %+v after %d questions, %v", vote, a, asked, err)
		}
		if err := a.Into(new(struct{ UserTagID string })); (err == nil) != (vote == "APPROVE") {
			t.Errorf("%s: %v", vote, err)
		}
	}
	a, err = second.Submit(ctx, "ACTIVITY_TYPE_CREATE_USER_TAG", sim.Tag("Patience"))
	must(t, err)
	over := errors.New("no more")
	if _, err := second.Wait(ctx, a, func(context.Context) error { return over }); !errors.Is(err, over) {
		t.Error(err)
	}
}

// What somebody else answers is neither followed nor taken for the interface's.
func TestOtherServers(t *testing.T) {
	elsewhere := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/public/v1/query/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/elsewhere":
			elsewhere++
		case "/public/v1/query/page":
			w.WriteHeader(502)
			fmt.Fprint(w, "<html>")
		default:
			fmt.Fprint(w, `{"activity":null}`)
		}
	}))
	defer s.Close()
	a := &request.API{URL: s.URL, OrganizationID: "o", Key: parse(t, strings.Repeat("01", 32))}
	if err := a.Query(t.Context(), "moved", nil, nil); err == nil || elsewhere > 0 {
		t.Errorf("%v, followed %d times", err, elsewhere)
	}
	var refusal *request.Error
	if err := a.Query(t.Context(), "page", nil, nil); !errors.As(err, &refusal) || refusal.Status != 502 || refusal.Message != "" {
		t.Error(err)
	}
	if _, err := a.Submit(t.Context(), "ACTIVITY_TYPE_CREATE_WALLET", object{}); err == nil {
		t.Error("no activity is taken for one")
	}
}

func TestKeysRefused(t *testing.T) {
	for _, text := range []string{"", "0", "zz", strings.Repeat("00", 32), strings.Repeat("ff", 32), strings.Repeat("01", 31), strings.Repeat("01", 33), strings.Repeat("01", 64),
		strings.Repeat("01", 32) + ":", strings.Repeat("01", 32) + ":rsa", strings.Repeat("00", 32) + ":secp256k1", strings.Repeat("ff", 32) + ":secp256k1", strings.Repeat("01", 64) + ":p256",
		strings.Repeat("01", 31) + ":ed25519"} {
		k, err := request.ParseKey(text)
		if strings.HasSuffix(text, ":") && err == nil { // no curve is P-256
			continue
		}
		if err == nil || k != nil {
			t.Errorf("%q is a key", text)
		} else if len(text) > 8 && strings.Contains(err.Error(), text[:8]) {
			t.Errorf("%v tells the key", err)
		}
	}
	k := parse(t, strings.Repeat("5c", 32))
	if told := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); strings.Contains(told, "5c5c") || !strings.Contains(told, k.Public()) {
		t.Error(told)
	}
}

func TestOperation(t *testing.T) {
	for typ, want := range map[string]string{
		"ACTIVITY_TYPE_CREATE_WALLET": "create_wallet", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7": "create_sub_organization", "ACTIVITY_TYPE_INIT_OTP_AUTH_V2": "init_otp_auth",
		"ACTIVITY_TYPE_UPDATE_TVC_APP_LIVE_DEPLOYMENT": "set_tvc_app_live_deployment",
	} {
		if got := request.Operation(typ); got != want {
			t.Errorf("%s is submitted to %s, want %s", typ, got, want)
		}
	}
}

func TestWithOrganization(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: `{"organizationId":"o"}`, ` { "a" : 1 } `: `{"organizationId":"o","a" : 1 }`, `{"organizationId":"p"}`: `{"organizationId":"p"}`,
		`{"organization_id":"p"}`: `{"organization_id":"p"}`, `[]`: `[]`, `null`: `null`, `{`: `{`, ``: ``,
	} {
		if got := string(request.WithOrganization([]byte(in), "o")); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// Credentials come in two forms, and an error repeats nothing of a key.
func TestCredentials(t *testing.T) {
	pair, err := request.NewKeyPair(rand.Reader)
	must(t, err)
	for _, c := range []struct{ text, err string }{
		{`{"apiUrl":"http://h","organizationId":"o","rootApiKey":{"publicKey":"` + pair.PublicKey + `","privateKey":"` + pair.PrivateKey + `"}}`, ""},
		{`{"apiUrl":"http://h","organizationId":"o","publicKey":"` + pair.PublicKey + `","privateKey":"` + pair.PrivateKey + `"}`, ""},
		{`{"apiUrl":"http://h","organizationId":"o"}`, "neither rootApiKey.privateKey nor privateKey is in it"},
		{`{"apiUrl":"http://h","organizationId":"o","privateKey":"` + pair.PrivateKey[1:] + `"}`, "its private key: "},
		{`{"apiUrl":7,"privateKey":"` + pair.PrivateKey + `"}`, "not readable as credentials"},
		{pair.PrivateKey, "not readable as credentials"},
		{``, "not readable as credentials"},
	} {
		got, err := request.ParseCredentials([]byte(c.text))
		var key *request.Key
		if err == nil {
			key, err = got.Key()
		}
		if c.err == "" && (err != nil || got.APIURL != "http://h" || got.OrganizationID != "o" || key.Public() != pair.PublicKey) {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
		if c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err) || strings.Contains(err.Error(), pair.PrivateKey[2:])) {
			t.Errorf("%s: %v, want %q", c.text, err, c.err)
		}
	}
}

// A file with a key is credentials in either form, or the key alone.
func TestKeyFile(t *testing.T) {
	pair, err := request.NewKeyPair(rand.Reader)
	must(t, err)
	for text, want := range map[string]string{
		pair.PrivateKey:                "",
		"\n " + pair.PrivateKey + "\n": "",
		`{"rootApiKey":{"privateKey":"` + pair.PrivateKey + `"}}`:               "",
		` {"organizationId":"o","privateKey":"` + pair.PrivateKey + `"}` + "\n": "",
		`{"organizationId":"o"}`:                    "neither rootApiKey.privateKey nor privateKey is in it",
		`{"privateKey":"` + pair.PrivateKey:         "not readable as credentials",
		`{"privateKey":"x` + pair.PrivateKey + `"}`: "its private key: ",
		`"` + pair.PrivateKey + `"`:                 "private key: ",
		``:                                          "private key: ",
	} {
		key, err := request.ParseKeyFile([]byte(text))
		switch {
		case want == "" && (err != nil || key.Public() != pair.PublicKey):
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), pair.PrivateKey[2:])):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
