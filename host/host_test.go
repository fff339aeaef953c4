package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation/request"
	"cloister/host/link"
	"cloister/shared/commandline"
	"cloister/shared/variables"
	"cloister/shared/wire"
)

var update = flag.Bool("update", false, "rewrite the table of settings in the README")

// output may be written to while it is read.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

type result struct {
	code           int
	stdout, stderr string
}

var noon = time.UnixMilli(1745383555000)

func runWith(t *testing.T, stdin string, env map[string]string, args ...string) result {
	t.Helper()
	var out, errs output
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	code := run(t.Context(), &world{args, environ, func(k string) string { return env[k] }, strings.NewReader(stdin), &out, &errs, func() time.Time { return noon }, rand.Reader})
	return result{code, out.String(), errs.String()}
}

// A stamped request as a server sees it, judged by other code than ours.
type stamped struct {
	path     string
	body     []byte
	valid    bool
	public   string
	scheme   string
	logProof []string // for a logged proof
}

func judge(t *testing.T, r *http.Request) stamped {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	s := stamped{path: r.URL.Path, body: body, logProof: r.Header.Values(wire.HeaderLogProof)}
	raw, err := base64.RawURLEncoding.DecodeString(r.Header.Get("X-Stamp"))
	if err != nil {
		t.Error(err)
		return s
	}
	var v map[string]string
	if err := json.Unmarshal(raw, &v); err != nil || len(v) != 3 {
		t.Error("stamp", string(raw), err)
		return s
	}
	s.public, s.scheme = v["publicKey"], v["scheme"]
	public, _ := hex.DecodeString(v["publicKey"])
	signature, _ := hex.DecodeString(v["signature"])
	switch s.scheme {
	case "SIGNATURE_SCHEME_TK_API_P256":
		x, y := elliptic.UnmarshalCompressed(elliptic.P256(), public)
		if x == nil {
			t.Error("no point", v["publicKey"])
			return s
		}
		digest := sha256.Sum256(body)
		b := append([]byte{4}, append(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32))...)...)
		k, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), b)
		s.valid = err == nil && ecdsa.VerifyASN1(k, digest[:], signature)
	case "SIGNATURE_SCHEME_TK_API_ED25519":
		s.valid = len(public) == ed25519.PublicKeySize && ed25519.Verify(public, body, signature)
	}
	return s
}

// listener answers every request with reply and keeps what came.
func listener(t *testing.T, status int, reply string) (url string, got *[]stamped) {
	t.Helper()
	got = new([]stamped)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*got = append(*got, judge(t, r))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func testCredentials(t *testing.T, url string) (file string, key request.KeyPair) {
	t.Helper()
	key, err := request.NewKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{"apiUrl": url, "organizationId": "org-1", "rootApiKey": key, "keys": map[string]string{"signer": "04"}})
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "credentials.json", string(b)), key
}

func TestRequest(t *testing.T) {
	url, got := listener(t, 200, `{"ok":true}`)
	file, key := testCredentials(t, url)
	for _, c := range []struct {
		name, stdin string
		args        []string
		body        string
	}{
		{"query gets its organization", "", []string{"/public/v1/query/whoami", "{}"}, `{"organizationId":"org-1"}`},
		{"query with members", "", []string{"/public/v1/query/get_user", ` { "userId": "u" } `}, `{"organizationId":"org-1","userId": "u" }`},
		{"query that names one", "", []string{"/public/v1/query/whoami", `{"organizationId": "other"}`}, `{"organizationId": "other"}`},
		{"query that names one in snake case", "", []string{"/public/v1/query/whoami", `{"organization_id":"other"}`}, `{"organization_id":"other"}`},
		{"query of another organization", "", []string{"-organization", "org-2", "/public/v1/query/whoami", `{}`}, `{"organizationId":"org-2"}`},
		{"raw", "", []string{"-raw", "/public/v1/query/whoami", ` {} `}, ` {} `},
		{"no object", "", []string{"/public/v1/query/whoami", `[1]`}, `[1]`},
		{"submit as it is", "", []string{"/public/v1/submit/x", ` {"a":1}`}, ` {"a":1}`},
		{"submit filled in", "", []string{"-submit", "ACTIVITY_TYPE_X", "/public/v1/submit/x", `{"a":1}`}, `{"type":"ACTIVITY_TYPE_X","timestampMs":"1745383555000","organizationId":"org-1","parameters":{"a":1}}`},
		{"submit with proofs", "", []string{"-submit", "ACTIVITY_TYPE_X", "-proofs", "/public/v1/submit/x", `{}`}, `{"type":"ACTIVITY_TYPE_X","timestampMs":"1745383555000","organizationId":"org-1","parameters":{},"generateAppProofs":true}`},
		{"submit with its logged proof", "", []string{"-log-proof", "/public/v1/submit/x", `{}`}, `{}`},
		{"standard input", `{"b":2}`, []string{"-raw", "/public/v1/query/x"}, `{"b":2}`},
		{"standard input by name", `{"b":2}`, []string{"-raw", "/public/v1/query/x", "-"}, `{"b":2}`},
		{"file", "", []string{"-raw", "/public/v1/query/x", "@" + writeFile(t, "body", `{"c":3}`)}, `{"c":3}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			*got = nil
			r := runWith(t, c.stdin, nil, append([]string{"request", "-credentials", file}, c.args...)...)
			if r.code != exitDone || r.stdout != "{\"ok\":true}\n" || len(*got) != 1 {
				t.Fatalf("%+v, %d requests", r, len(*got))
			}
			one := (*got)[0]
			if string(one.body) != c.body || !one.valid || one.public != key.PublicKey || len(one.public) != 66 {
				t.Fatalf("body %s, want %s; stamp valid: %v", one.body, c.body, one.valid)
			}
			if wants := slices.Contains(c.args, "-log-proof"); wants != slices.Equal(one.logProof, []string{"wait"}) || !wants && one.logProof != nil {
				t.Errorf("asks for a logged proof: %q", one.logProof)
			}
			if want := c.args[len(c.args)-1]; !strings.HasPrefix(one.path, "/public/v1/") {
				t.Fatal(one.path, want)
			}
		})
	}
}

func TestRequestWithKeyFiles(t *testing.T) {
	url, got := listener(t, 200, `{}`)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := request.NewKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		p256.PrivateKey + "\n":                            p256.PublicKey,
		p256.PrivateKey + ":p256":                         p256.PublicKey,
		hex.EncodeToString(private):                       hex.EncodeToString(public),
		hex.EncodeToString(private.Seed()) + ":ed25519\n": hex.EncodeToString(public),
	} {
		*got = nil
		r := runWith(t, "", nil, "request", "-key-file", writeFile(t, "key", text), "-api-url", url+"/", "/public/v1/query/whoami", `{}`)
		if r.code != exitDone || len(*got) != 1 || !(*got)[0].valid || (*got)[0].public != want {
			t.Errorf("%+v %+v", r, *got)
		}
	}
	for _, bad := range []string{"", "abc", "zz", strings.Repeat("00", 32), strings.Repeat("ff", 32), strings.Repeat("01", 33), strings.Repeat("01", 64), p256.PrivateKey + ":rsa"} {
		r := runWith(t, "", nil, "request", "-key-file", writeFile(t, "key", bad), "-api-url", url, "/public/v1/query/whoami", `{}`)
		if r.code != exitFailed || (len(bad) > 4 && strings.Contains(r.stderr, bad)) {
			t.Errorf("%q: %+v", bad, r)
		}
	}
}

func TestRequestFails(t *testing.T) {
	url, got := listener(t, 403, `{"code":7,"message":"no","details":[]}`)
	file, _ := testCredentials(t, url)
	r := runWith(t, "", nil, "request", "-credentials", file, "/public/v1/query/whoami", "{}")
	if r.code != exitFailed || !strings.Contains(r.stdout, `"code":7`) || !strings.Contains(r.stderr, "403") {
		t.Fatalf("%+v", r)
	}
	redirect := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/elsewhere", http.StatusFound))
	defer redirect.Close()
	if r := runWith(t, "", nil, "request", "-credentials", file, "-api-url", redirect.URL, "/public/v1/query/whoami", "{}"); r.code != exitFailed || !strings.Contains(r.stderr, "302") {
		t.Fatalf("%+v", r)
	}
	*got = nil
	for name, args := range map[string][]string{
		"no path":             {"-credentials", file},
		"path is no path":     {"-credentials", file, "public/v1/query/whoami", "{}"},
		"too many arguments":  {"-credentials", file, "/p", "{}", "{}"},
		"no key":              {"/p", "{}"},
		"raw and submit":      {"-credentials", file, "-raw", "-submit", "T", "/p", "{}"},
		"proofs of nothing":   {"-credentials", file, "-proofs", "/p", "{}"},
		"a query's log proof": {"-credentials", file, "-log-proof", "/public/v1/query/whoami", "{}"},
		"unknown flag":        {"-credentials", file, "-frobnicate", "/p", "{}"},
		"no such file":        {"-credentials", file + "x", "/p", "{}"},
		"no such body":        {"-credentials", file, "/p", "@" + file + "x"},
		"not credentials":     {"-credentials", writeFile(t, "c", "no"), "/p", "{}"},
		"parameters not JSON": {"-credentials", file, "-submit", "T", "/p", "{"},
	} {
		if r := runWith(t, "", nil, append([]string{"request"}, args...)...); r.code == exitDone || r.stderr == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := runWith(t, strings.Repeat("a", wire.MaxBody+1), nil, "request", "-credentials", file, "/p"); r.code != exitFailed {
		t.Errorf("a body over the limit was sent: %+v", r)
	}
	if len(*got) != 0 {
		t.Fatalf("%d requests were sent", len(*got))
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"request", "-help"}, {"create-organization", "-help"}, {"serve", "-help"}, {"-help"}} {
		if r := runWith(t, "", nil, args...); r.code != exitDone || r.stderr != "" || !strings.Contains(r.stdout, "usage: cloister-host ") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := runWith(t, "", nil, "help"); r.code != exitDone || !strings.Contains(r.stdout, "create-organization") {
		t.Errorf("%+v", r)
	}
	if r := runWith(t, "", nil, "help", "request"); r.code != exitDone || !strings.HasPrefix(r.stdout, "usage: cloister-host request") {
		t.Errorf("%+v", r)
	}
	if r := runWith(t, "", nil, "version"); r.code != exitDone || !strings.HasPrefix(r.stdout, "cloister-host "+commandline.Release) {
		t.Errorf("%+v", r)
	}
	// Without a command nothing starts and nothing is made.
	if r := runWith(t, "", nil); r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, "create-organization") {
		t.Errorf("%+v", r)
	}
	if r := runWith(t, "", nil, "frobnicate"); r.code != exitUsage || !strings.Contains(r.stderr, `no command "frobnicate"`) {
		t.Errorf("%+v", r)
	}
	if r := runWith(t, "", nil, "request", "-frobnicate"); r.code != exitUsage || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "cloister-host request -h") {
		t.Errorf("%+v", r)
	}
}

func TestCreateOrganization(t *testing.T) {
	url, got := listener(t, 200, `{"organizationId":"org-9","rootUserId":"user-9","rootApiKeyId":"key-9"}`)
	admission, err := request.NewKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keyFile, out := writeFile(t, "admission-key", admission.PrivateKey+"\n"), filepath.Join(t.TempDir(), "credentials.json")
	args := []string{"create-organization", "-admission-key", keyFile, "-name", "Acme", "-root-user", "Ada", "-out", out, "-api-url", url}
	if r := runWith(t, "", nil, args...); r.code != exitDone || !strings.Contains(r.stdout, "org-9") {
		t.Fatalf("%+v", r)
	}
	one := (*got)[0]
	if one.path != "/boot/v1/create_organization" || !one.valid || one.public != admission.PublicKey {
		t.Fatalf("%+v", one)
	}
	var body struct {
		OrganizationName, RootUserName, TimestampMs string
		RootAPIKey                                  struct{ APIKeyName, PublicKey, CurveType string }
	}
	d := json.NewDecoder(bytes.NewReader(one.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		t.Fatal(err)
	}
	if body.OrganizationName != "Acme" || body.RootUserName != "Ada" || body.TimestampMs != "1745383555000" || body.RootAPIKey.CurveType != "API_KEY_CURVE_P256" || body.RootAPIKey.APIKeyName == "" {
		t.Fatalf("%s", one.body)
	}
	f, err := os.Stat(out)
	if err != nil || f.Mode().Perm() != 0o600 {
		t.Fatal(f.Mode(), err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var c request.Credentials
	if err := json.Unmarshal(b, &c); err != nil || c.OrganizationID != "org-9" || c.RootUserID != "user-9" || c.RootAPIKeyID != "key-9" || c.APIURL != url || c.RootAPIKey.PublicKey != body.RootAPIKey.PublicKey {
		t.Fatalf("%s %v", b, err)
	}
	// The key that was written is the one that was registered.
	*got = nil
	if r := runWith(t, "", nil, "request", "-credentials", out, "/public/v1/query/whoami", "{}"); r.code != exitDone || !(*got)[0].valid || (*got)[0].public != body.RootAPIKey.PublicKey {
		t.Fatalf("%+v", r)
	}
	if r := runWith(t, "", nil, args...); r.code != exitFailed || !strings.Contains(r.stderr, "exists already") {
		t.Fatalf("%+v", r)
	}
	if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) != 1 {
		t.Fatal("files are left behind:", left, err)
	}
}

// Plans are stamped for each range that an earlier reply does not name.
func TestPutPlans(t *testing.T) {
	url, got := listener(t, 200, `{"version":"3","ranges":[0,2],"of":3}`)
	admission, err := request.NewKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, plans := writeFile(t, "admission-key", admission.PrivateKey+"\n"), writeFile(t, "plans.json", `{"version":3,"default":"free","plans":[{"id":"free","name":"Free"}]}`)
	if r := runWith(t, "", nil, "put-plans", "-admission-key", key, "-plans", plans, "-api-url", url); r.code != exitDone || !strings.Contains(r.stdout, "version 3 are in force in 3 ranges") {
		t.Fatalf("%+v", r)
	}
	want := []string{`{"default":"free","plans":[{"id":"free","name":"Free"}],"timestampMs":"1745383555000","version":3}`,
		`{"default":"free","plans":[{"id":"free","name":"Free"}],"range":1,"timestampMs":"1745383555000","version":3}`}
	for i, one := range *got {
		if i >= len(want) || string(one.body) != want[i] || one.path != "/boot/v1/put_plans" || !one.valid || one.public != admission.PublicKey {
			t.Errorf("%+v", one)
		}
	}
	for _, args := range [][]string{{"put-plans"}, {"put-plans", "-admission-key", key}, {"put-plans", "-admission-key", key, "-plans", plans, "more"}} {
		if r := runWith(t, "", nil, args...); r.code != exitUsage {
			t.Errorf("%q: %+v", args, r)
		}
	}
	url, _ = listener(t, 400, `{"code":9,"message":"plans of version 4 are in force"}`)
	if r := runWith(t, "", nil, "put-plans", "-admission-key", key, "-plans", plans, "-api-url", url); r.code != exitFailed || !strings.Contains(r.stderr, "version 4") {
		t.Errorf("%+v", r)
	}
}

// TestCreateOrganizationAgain: a lost reply is followed by the same body, a
// refusal by a new one.
func TestCreateOrganizationAgain(t *testing.T) {
	admission, err := request.NewKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keyFile, out := writeFile(t, "admission-key", admission.PrivateKey), filepath.Join(t.TempDir(), "c.json")
	status, reply := 503, `{"code":14,"message":"away","details":[]}`
	var bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	defer s.Close()
	try := func() result {
		return runWith(t, "", nil, "create-organization", "-admission-key", keyFile, "-name", "A <&> B", "-out", out, "-api-url", s.URL)
	}
	if r := try(); r.code != exitFailed || !strings.Contains(r.stderr, "again") {
		t.Fatalf("%+v", r)
	}
	if f, err := os.Stat(out + ".pending"); err != nil || f.Mode().Perm() != 0o600 {
		t.Fatal(f, err)
	}
	status, reply = 400, `{"code":3,"message":"bad","details":[]}`
	if r := try(); r.code != exitFailed || !strings.Contains(r.stderr, "bad") {
		t.Fatalf("%+v", r)
	}
	status, reply = 200, `{"organizationId":"org-9","rootUserId":"u"}`
	if r := try(); r.code != exitDone {
		t.Fatalf("%+v", r)
	}
	if len(bodies) != 3 || bodies[0] != bodies[1] || bodies[1] == bodies[2] {
		t.Fatalf("%q", bodies)
	}
	for name, args := range map[string][]string{
		"nothing": {}, "no name": {"-admission-key", keyFile, "-out", out + "1"}, "no out": {"-admission-key", keyFile, "-name", "A"},
		"an argument": {"-admission-key", keyFile, "-name", "A", "-out", out + "1", "x"},
	} {
		if r := runWith(t, "", nil, append([]string{"create-organization"}, args...)...); r.code != exitUsage {
			t.Errorf("%s: %+v", name, r)
		}
	}
	reply = `{"something":"else"}`
	if r := runWith(t, "", nil, "create-organization", "-admission-key", keyFile, "-name", "A", "-out", out+"2", "-api-url", s.URL); r.code != exitFailed {
		t.Errorf("%+v", r)
	}
}

func TestConfig(t *testing.T) {
	get := func(env map[string]string, args ...string) (*Config, error) {
		return load(args, func(k string) string { return env[k] }, io.Discard)
	}
	c, err := get(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Enclave: "vsock://16:5000", EnclaveConnections: 1, DataDir: "cloister-data", APIAddr: "127.0.0.1:8080", AuthProxyAddr: "127.0.0.1:8081", Origins: "*",
		RequestTimeout: 30 * time.Second, StoreTimeout: 30 * time.Second, WitnessTimeout: time.Second, AttestationAge: 3 * time.Hour, ShutdownTimeout: 20 * time.Second, LogLevel: "info", AddressRate: "off", ChainTimeout: 5 * time.Second, Dashboard: true, ProgramSize: "2,1024"}
	if *c != want {
		t.Fatalf("%+v", *c)
	}
	env := map[string]string{"CLOISTER_ENCLAVE": "tcp://127.0.0.1:1", "CLOISTER_STORE": "postgres://u:secret@h/d", "CLOISTER_API_ADDR": "127.0.0.1:2", "CLOISTER_AUTH_PROXY_ADDR": "off",
		"CLOISTER_LOG_LEVEL": "debug", "CLOISTER_DATA_DIR": "/d", "CLOISTER_TRUST_FORWARDED": "true", "CLOISTER_ADDRESS_RATE": "600/m", "CLOISTER_REQUEST_TIMEOUT": "1m", "CLOISTER_ENCLAVE_CONNECTIONS": "2", "CLOISTER_ORIGINS": "https://a, https://b,",
		"CLOISTER_CHAIN": "eip155:1=https://a\n  solana:devnet=http://b/?key=c=d"}
	c, err = get(env, "-api-addr", "127.0.0.1:3", "-log-level=warn")
	if err != nil {
		t.Fatal(err)
	}
	if c.Enclave != "tcp://127.0.0.1:1" || c.Store != env["CLOISTER_STORE"] || c.APIAddr != "127.0.0.1:3" || c.AuthProxyAddr != "off" || c.LogLevel != "warn" ||
		c.DataDir != "/d" || !c.TrustForwarded || c.RequestTimeout != time.Minute || c.EnclaveConnections != 2 || c.AddressRate != "600/m" || strings.Join(c.origins(), "|") != "https://a|https://b" {
		t.Fatalf("%+v", *c)
	}
	if c.Chain.text != "eip155:1=https://a\n  solana:devnet=http://b/?key=c=d" {
		t.Fatalf("%q", c.Chain.text)
	}
	for wrong, says := range map[string]string{"-smtp=smtp://secret.example": "-smtp", "-smtp=mail.secret:587": "-smtp", "-smtp-roots=x": "-smtp"} {
		if _, err := get(nil, wrong); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if _, err := get(map[string]string{"CLOISTER_SMTP": "smtps://user:secret@mail.example"}); err != nil {
		t.Error(err)
	}
	// Flags add to each other and put aside the environment.
	c, err = get(env, "-chain", "eip155:1=https://c", "-chain=eip155:137=https://d")
	if err != nil || c.Chain.text != "eip155:1=https://c eip155:137=https://d" {
		t.Fatalf("%q, %v", c.Chain.text, err)
	}
	for name, try := range map[string]func() (*Config, error){
		"unknown flag":        func() (*Config, error) { return get(nil, "-frobnicate") },
		"argument":            func() (*Config, error) { return get(nil, "x") },
		"level":               func() (*Config, error) { return get(nil, "-log-level", "loud") },
		"no number":           func() (*Config, error) { return get(map[string]string{"CLOISTER_ENCLAVE_CONNECTIONS": "two"}) },
		"no connections":      func() (*Config, error) { return get(nil, "-enclave-connections", "0") },
		"many connections":    func() (*Config, error) { return get(nil, "-enclave-connections", "17") },
		"no duration":         func() (*Config, error) { return get(map[string]string{"CLOISTER_STORE_TIMEOUT": "30"}) },
		"negative":            func() (*Config, error) { return get(nil, "-store-timeout", "-1s") },
		"no request time":     func() (*Config, error) { return get(nil, "-request-timeout", "0s") },
		"too long":            func() (*Config, error) { return get(nil, "-request-timeout", "6m") },
		"no rate":             func() (*Config, error) { return get(nil, "-address-rate", "10") },
		"rate of none":        func() (*Config, error) { return get(map[string]string{"CLOISTER_ADDRESS_RATE": "0/s"}) },
		"no bool":             func() (*Config, error) { return get(map[string]string{"CLOISTER_TRUST_FORWARDED": "perhaps"}) },
		"no address":          func() (*Config, error) { return get(nil, "-api-addr", "") },
		"no chain time":       func() (*Config, error) { return get(nil, "-chain-timeout", "0s") },
		"no witness time":     func() (*Config, error) { return get(nil, "-witness-timeout", "0s") },
		"much witness time":   func() (*Config, error) { return get(nil, "-witness-timeout", "11s") },
		"no witness roots":    func() (*Config, error) { return get(nil, "-witness-roots", "/nowhere") },
		"empty witness roots": func() (*Config, error) { return get(nil, "-witness-roots", os.DevNull) },
		"much chain time":     func() (*Config, error) { return get(nil, "-chain-timeout", "10s") },
		"no key":              func() (*Config, error) { return get(nil, "-tls-cert", "c") },
		"no certificate":      func() (*Config, error) { return get(map[string]string{"CLOISTER_TLS_KEY": "k"}) },
		"two certificates": func() (*Config, error) {
			return get(nil, "-tls-cert", "c", "-tls-key", "k", "-acme-names", "a.example")
		},
		"no ACME names": func() (*Config, error) { return get(nil, "-acme-email", "a@example.com") },
		"chain twice": func() (*Config, error) {
			return get(nil, "-chain", "eip155:1=https://c", "-chain", "eip155:1=https://d")
		},
	} {
		if c, err := try(); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if _, err := get(map[string]string{"CLOISTER_STORE_TIMEOUT": "secret-value"}); err == nil || strings.Contains(err.Error(), "secret-value") {
		t.Errorf("%v", err)
	}
}

// TestChainsAreRefused: a pair that cannot be a node, without its address in the
// error, which may hold a key.
func TestChainsAreRefused(t *testing.T) {
	for _, text := range []string{
		"https://u:hunter2@node", "eip155:1", "eip155:1=hunter2", "eip155:1=ftp://hunter2", "eip155:1=https://", "eip155:01=https://hunter2", "eip155:x=https://hunter2",
		"eip155:=https://hunter2", "eip155:-1=https://hunter2", "bip122:1=https://hunter2", "=https://hunter2", "solana:x=https://hunter2", "eip155:99999999999999999999=https://hunter2",
		"solana:mainnet=https://hunter2 solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp=https://hunter2", "eip155:1=https://a\x00hunter2",
	} {
		for _, try := range []func() (*Config, error){
			func() (*Config, error) {
				return load([]string{"-chain", text}, func(string) string { return "" }, io.Discard)
			},
			func() (*Config, error) {
				return load(nil, func(k string) string { return map[string]string{"CLOISTER_CHAIN": text}[k] }, io.Discard)
			},
		} {
			if c, err := try(); err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: %+v, %v", text, c, err)
			}
		}
	}
}

// TestManual holds the README against the struct.
func TestManual(t *testing.T) {
	all, err := settings()
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| flag | environment | default | |\n|---|---|---|---|\n")
	for _, s := range all {
		if s.flag == "" || len(s.doc) < 20 {
			t.Errorf("setting %+v has no name or no manual", s)
		}
		value := "`" + s.value + "`"
		if s.value == "" {
			value = ""
		}
		fmt.Fprintf(&table, "| `-%s` | `%s` | %s | %s |\n", s.flag, s.env, value, s.doc)
	}
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), "<!-- settings -->\n")
	inside, after, ok2 := strings.Cut(rest, "<!-- end of settings -->")
	if !ok || !ok2 {
		t.Fatal("the README has no place for the settings")
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(before+"<!-- settings -->\n"+table.String()+"<!-- end of settings -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if inside != table.String() {
		t.Fatal("the README's settings are not those of Config: go test ./host -run TestManual -update")
	}
}

// TestServe runs the whole host against the enclave's end of the wire: serve,
// answer, stop with a request under way.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	socket := "unix:" + filepath.Join(dir, "enclave")
	l, err := link.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	arrived, release := make(chan struct{}), make(chan struct{})
	go acceptAll(l, func(_ context.Context, _ wire.Kind, p []byte) (wire.Kind, []byte) {
		var c wire.Call
		if wire.Unmarshal(p, &c) != nil {
			return wire.KindFailed, nil
		}
		body := []byte(`{"state":"serving"}`)
		if c.Op == "slow" {
			close(arrived)
			<-release
		}
		out, err := wire.Marshal(wire.Reply{Status: 200, Body: body, Request: sha256.Sum256(c.Body)})
		if err != nil {
			return wire.KindFailed, nil
		}
		return wire.KindReply, out
	})
	ctx, stop := context.WithCancel(t.Context())
	var logged output
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, &world{[]string{"serve", "-enclave", socket, "-data-dir", filepath.Join(dir, "data"), "-api-addr", "127.0.0.1:0", "-auth-proxy-addr", "127.0.0.1:0", "-ops-addr", "127.0.0.1:0"},
			nil, func(string) string { return "" }, nil, io.Discard, &logged, time.Now, rand.Reader})
	}()
	api, proxy, ops := address(t, &logged, "api-addr"), address(t, &logged, "auth-proxy-addr"), address(t, &logged, "ops-addr")
	for range 30_000 {
		if r, err := http.Get(ops + "/readyz"); err == nil {
			r.Body.Close()
			if r.StatusCode == 200 {
				break
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := status(t, http.MethodPost, api+"/public/v1/query/whoami"); got != 200 {
		t.Fatal(got, logged.String())
	}
	if got := status(t, http.MethodPost, proxy+"/v1/otp_init"); got != 200 {
		t.Fatal(got)
	}
	if got := status(t, http.MethodGet, api+"/dashboard/"); got != 200 {
		t.Fatal(got)
	}
	if got := status(t, http.MethodGet, proxy+"/dashboard/"); got == 200 {
		t.Fatal("the auth proxy's address serves the dashboard")
	}
	if got := status(t, http.MethodGet, api+"/metrics"); got != http.StatusNotFound {
		t.Fatal("the public interface answers for the operator's:", got)
	}
	slow := make(chan int, 1)
	go func() {
		r, err := http.Post(api+"/public/v1/submit/slow", "", strings.NewReader("{}"))
		if err != nil {
			slow <- 0
			return
		}
		r.Body.Close()
		slow <- r.StatusCode
	}()
	<-arrived
	stop()
	for range 300_000 { // no new connection is taken
		c, err := net.Dial("tcp", strings.TrimPrefix(api, "http://"))
		if err != nil {
			break
		}
		c.Close()
		time.Sleep(time.Millisecond)
	}
	close(release)
	if got := <-slow; got != 200 {
		t.Fatalf("the request under way got %d", got)
	}
	if code := <-done; code != exitDone {
		t.Fatal(code, logged.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "cloister.db")); err != nil {
		t.Fatal(err)
	}
}

func TestServeDoesNotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"address taken":   {"-api-addr", taken.Addr().String(), "-store", "sqlite:" + filepath.Join(dir, "a")},
		"no such store":   {"-store", "mysql://x"},
		"bad enclave":     {"-enclave", "nowhere", "-store", "sqlite:" + filepath.Join(dir, "b")},
		"no such folder":  {"-store", "sqlite:" + filepath.Join(dir, "no", "folder")},
		"second address":  {"-api-addr", "127.0.0.1:0", "-auth-proxy-addr", taken.Addr().String(), "-store", "sqlite:" + filepath.Join(dir, "c")},
		"no certificate":  {"-tls-cert", filepath.Join(dir, "no"), "-tls-key", filepath.Join(dir, "no"), "-store", "sqlite:" + filepath.Join(dir, "d")},
		"no ACME name":    {"-acme-names", "localhost", "-data-dir", filepath.Join(dir, "data")},
		"command unknown": {"-frobnicate"},
	} {
		if r := runWith(t, "", nil, append([]string{"serve"}, args...)...); r.code == exitDone || r.stderr == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A variable that is misspelt is refused by every command, as a flag would be.
func TestMisspeltVariable(t *testing.T) {
	for name := range commands {
		env := map[string]string{"CLOISTER_API_ADR": "hunter2"}
		r := runWith(t, "", env, name)
		if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, "CLOISTER_API_ADR is no variable of ours; the nearest one is CLOISTER_API_ADDR") || strings.Contains(r.stderr, "hunter2") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	all, err := settings()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if err := variables.CheckEnvironment([]string{s.env + "=x"}); err != nil {
			t.Error(err)
		}
	}
}

// What is given to the enclave comes from files of several people: the one that is empty or wrong is named, before anything is asked.
func TestBootNamesBadFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	manifest, good, key := file("manifest", "{}"), file("good", `{"publicKey":"02","signature":"00"}`), file("key", strings.Repeat("01", 32))
	for name, text := range map[string]string{"empty": "", "half": `{"publicKey":"02","sig`, "null": "null", "list": "[]", "other": `{"publicKey":"02"}`, "two": "{}{}"} {
		bad := file(name, text)
		for _, args := range [][]string{
			{"boot", "-manifest", manifest, "-approval", good, "-approval", bad, "manifest"}, {"boot", "-operator", bad, "genesis"},
			{"boot", "-key-service", bad, "genesis"}, {"put-plans", "-admission-key", key, "-plans", bad},
		} {
			if args[0] == "put-plans" && name == "other" {
				continue // an object, which the enclave judges
			}
			r := runWith(t, "", nil, args...)
			if r.code != exitFailed || !strings.Contains(r.stderr, fmt.Sprintf("%s: %d bytes, want ", bad, len(text))) {
				t.Errorf("%s, %q: %+v", name, args, r)
			}
		}
	}
	for field, flags := range map[string][]string{"manifest": {"-manifest"}, "predecessor": {"-manifest", manifest, "-predecessor"}, "configuration": {"-manifest", manifest, "-configuration"}} {
		empty := file("none", "")
		if r := runWith(t, "", nil, append(append([]string{"boot"}, flags...), empty, "manifest")...); r.code != exitFailed || !strings.Contains(r.stderr, empty+": the "+field+" is empty") {
			t.Errorf("%s: %+v", field, r)
		}
	}
}

// The help of a command is pasted elsewhere: it shows no password of the environment.
func TestHelpHidesPasswords(t *testing.T) {
	env := map[string]string{"CLOISTER_STORE": "postgres://u:hunter2@h/d", "CLOISTER_SMTP": "smtps://u:hunter2@h", "CLOISTER_CHAIN": "eip155:1=https://h/hunter2", "AWS_SECRET_ACCESS_KEY": "hunter2"}
	for name := range commands {
		for _, args := range [][]string{{name, "-help"}, {name, "-no-such-flag"}, {name, "heads", "-help"}, {name, "tail", "-help"}, {name, "verify", "-help"}, {name, "list", "-help"}} {
			if r := runWith(t, "", env, args...); strings.Contains(r.stdout+r.stderr, "hunter2") {
				t.Errorf("%q: %s", args, r.stderr)
			}
		}
	}
}

func status(t *testing.T, method, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

func address(t *testing.T, logged *output, what string) string {
	t.Helper()
	for range 300_000 {
		for line := range strings.Lines(logged.String()) {
			var l struct{ Msg, For, Address string }
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "listening" && l.For == what {
				return "http://" + l.Address
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no address of", what, logged.String())
	return ""
}

func acceptAll(l net.Listener, h wire.Handler) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		hello, err := wire.ReadHello(nc, time.Now().Add(time.Minute))
		if err != nil {
			nc.Close()
			continue
		}
		role := hello.Role
		o := wire.Options{Role: role, Side: wire.SideEnclave}
		if role == wire.RoleCalls {
			o.Handler = h
		}
		wire.NewConn(nc, o)
	}
}
