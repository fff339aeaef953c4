package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/client"
	"cloister/attestation/request"
	sim "cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// A world is an enclave and a host, real, and a way to them that somebody may have
// a hand on.
type world struct {
	*rig.Rig
	t          testing.TB
	api, proxy string
	way        *way
	asked      atomic.Int64 // for boot proofs
}

// A way carries requests and lets alter change their replies, which have their
// bodies read.
type way struct {
	alter  func(r *http.Request, resp *http.Response, body []byte) []byte
	before func(r *http.Request)
}

func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.before != nil {
		r = r.Clone(r.Context())
		w.before(r)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || w.alter == nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	body = w.alter(r, resp, body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

func newWorld(t testing.TB) *world { return start(t, rig.Options{AuthProxy: true}) }

func start(t testing.TB, o rig.Options) *world {
	r := rig.Start(t, o)
	return &world{t: t, Rig: r, api: r.Serve(), proxy: r.ServeProxy(), way: &way{}}
}

func policyOf(c *laptop.Credentials) attestation.Policy {
	pcrs := map[int]string{}
	for i := range 3 {
		pcrs[i] = c.PCRs[strconv.Itoa(i)]
	}
	return attestation.Policy{SimulatorRootPEM: c.AttestationRootPEM, ExpectedPCRs: pcrs, AllowedManifestSHA256: []string{c.ManifestSHA256}}
}

// transport is a client's, new and with nothing remembered.
func (w *world) transport() *client.Transport {
	find := client.Discovery(w.api, nil)
	return &client.Transport{Policy: policyOf(w.Credentials), Base: w.way, Proofs: func(ctx context.Context, key string) (attestation.BootProof, error) {
		w.asked.Add(1)
		return find(ctx, key)
	}}
}

type answer struct {
	status int
	body   string
}

// send posts a stamped body.
func (w *world) send(t http.RoundTripper, url string, body []byte) (answer, error) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := stampWith(w.Credentials.RootAPIKey)(r.Header, body); err != nil {
		w.t.Fatal(err)
	}
	return w.do(t, r)
}

func (w *world) do(t http.RoundTripper, r *http.Request) (answer, error) {
	w.t.Helper()
	resp, err := (&http.Client{Transport: t, Timeout: time.Minute}).Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{resp.StatusCode, string(raw)}, nil
}

func stampWith(k laptop.KeyPair) func(http.Header, []byte) error {
	return func(h http.Header, body []byte) error {
		key, err := request.ParseKey(k.PrivateKey)
		if err != nil {
			return err
		}
		return key.Set(h, body)
	}
}

func (w *world) whoami(t http.RoundTripper) (answer, error) {
	w.t.Helper()
	return w.send(t, w.api+"/public/v1/query/whoami", []byte(`{"organizationId":"`+w.Credentials.OrganizationID+`"}`))
}

func TestSignedReplies(t *testing.T) {
	w := newWorld(t)
	c := w.transport()
	c.Now, c.Policy.MaxProofAge = time.Now, time.Minute

	got, err := w.whoami(c)
	if err != nil || got.status != 200 || !strings.Contains(got.body, w.Credentials.RootUserID) {
		t.Fatalf("query: %+v, %v", got, err)
	}
	// A submit, what it made, and the same body again.
	body := w.Root().Body("CREATE_USER_TAG", sim.Tag("signed"))
	first, err := w.send(c, w.api+"/public/v1/submit/create_user_tag", body)
	if err != nil || first.status != 200 || !strings.Contains(first.body, "ACTIVITY_STATUS_COMPLETED") {
		t.Fatalf("submit: %+v, %v", first, err)
	}
	if again, err := w.send(c, w.api+"/public/v1/submit/create_user_tag", body); err != nil || again != first {
		t.Errorf("repeat: %+v, %v", again, err)
	}
	// Refusals are signed like everything that the enclave says.
	for name, r := range map[string]struct {
		path, body string
		status     int
	}{
		"no such operation":   {"/public/v1/query/nothing_like_it", `{"organizationId":"` + w.Credentials.OrganizationID + `"}`, 404},
		"no JSON":             {"/public/v1/query/whoami", `{`, 400},
		"foreign":             {"/public/v1/query/whoami", `{"organizationId":"11111111-1111-4111-8111-111111111111"}`, 404},
		"type of another":     {"/public/v1/submit/create_wallet", string(w.Root().Body("CREATE_USER_TAG", sim.Tag("x"))), 400},
		"too old":             {"/public/v1/submit/create_user_tag", strings.Replace(string(body), `"timestampMs":"`, `"timestampMs":"1`, 1), 400},
		"whole body of bytes": {"/public/v1/query/whoami", "\xff\x00", 400},
	} {
		got, err := w.send(c, w.api+r.path, []byte(r.body))
		if err != nil || got.status != r.status || !strings.Contains(got.body, `"code"`) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// The auth proxy, whose callers have no key, success and refusal.
	for config, status := range map[string]int{w.Credentials.AuthProxyConfigID: 200, "11111111-1111-4111-8111-111111111111": 403} {
		r, err := http.NewRequest(http.MethodPost, w.proxy+"/v1/wallet_kit_config", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Auth-Proxy-Config-ID", config)
		if got, err := w.do(c, r); err != nil || got.status != status {
			t.Errorf("auth proxy: %+v, %v", got, err)
		}
	}
	// Documents that everybody may read.
	for path, status := range map[string]int{"/public/v1/discovery/keys": 200, "/public/v1/discovery/webhooks/jwks": 200, "/.well-known/jwks.json": 404} {
		r, err := http.NewRequest(http.MethodGet, w.api+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.do(c, r); err != nil || got.status != status {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
	if n := w.asked.Load(); n != 1 {
		t.Errorf("%d boot proofs fetched for one live key", n)
	}
}

// TestHostileReplies: whatever a host makes of a reply, its caller gets an error.
func TestHostileReplies(t *testing.T) {
	w, unrelated := newWorld(t), newWorld(t)
	honest, err := w.whoami(w.transport())
	if err != nil {
		t.Fatal(err)
	}
	// An old reply to the very same request, and one to another.
	old := func(path, body string) (*http.Response, []byte) {
		var kept *http.Response
		var bytes []byte
		w.way.alter = func(_ *http.Request, resp *http.Response, b []byte) []byte { kept, bytes = resp, b; return b }
		defer func() { w.way.alter = nil }()
		if _, err := w.send(w.transport(), w.api+path, []byte(body)); err != nil {
			t.Fatal(err)
		}
		return &http.Response{Header: kept.Header.Clone(), StatusCode: kept.StatusCode}, bytes
	}
	whoami := `{"organizationId":"` + w.Credentials.OrganizationID + `"}`
	before, beforeBody := old("/public/v1/query/whoami", whoami)
	other, otherBody := old("/public/v1/query/list_users", whoami)
	refusal, refusalBody := old("/public/v1/query/whoami", `{`)
	as := func(kept *http.Response, body []byte) func(*http.Request, *http.Response, []byte) []byte {
		return func(_ *http.Request, resp *http.Response, _ []byte) []byte {
			resp.Header, resp.StatusCode = kept.Header.Clone(), kept.StatusCode
			return body
		}
	}
	head := func(f func(h http.Header)) func(*http.Request, *http.Response, []byte) []byte {
		return func(_ *http.Request, resp *http.Response, b []byte) []byte { f(resp.Header); return b }
	}
	const sig, at, live, deployment = attestation.HeaderReplySignature, attestation.HeaderReplyTime, attestation.HeaderLiveKey, attestation.HeaderDeployment
	attacker := newSigner(t)
	for name, alter := range map[string]func(*http.Request, *http.Response, []byte) []byte{
		"body altered":              func(_ *http.Request, _ *http.Response, b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"body cut":                  func(_ *http.Request, _ *http.Response, b []byte) []byte { return b[:len(b)-1] },
		"body with a blank more":    func(_ *http.Request, _ *http.Response, b []byte) []byte { return append(b, ' ') },
		"body gone":                 func(_ *http.Request, _ *http.Response, _ []byte) []byte { return nil },
		"status altered":            func(_ *http.Request, r *http.Response, b []byte) []byte { r.StatusCode = 201; return b },
		"a refusal made of it":      func(_ *http.Request, r *http.Response, b []byte) []byte { r.StatusCode = 403; return b },
		"an old reply":              as(before, beforeBody),
		"reply of another request":  as(other, otherBody),
		"refusal of another":        as(refusal, refusalBody),
		"another reply's body":      func(*http.Request, *http.Response, []byte) []byte { return otherBody },
		"another reply's signature": head(func(h http.Header) { h.Set(sig, other.Header.Get(sig)) }),
		"no signature":              head(func(h http.Header) { h.Del(sig) }),
		"empty signature":           head(func(h http.Header) { h.Set(sig, "") }),
		"zero signature":            head(func(h http.Header) { h.Set(sig, strings.Repeat("0", 128)) }),
		"two signatures":            head(func(h http.Header) { h.Add(sig, h.Get(sig)) }),
		"no time":                   head(func(h http.Header) { h.Del(at) }),
		"another time":              head(func(h http.Header) { h.Set(at, before.Header.Get(at)) }),
		"no live key":               head(func(h http.Header) { h.Del(live) }),
		"another live key":          head(func(h http.Header) { h.Set(live, unrelated.liveKey(t)) }),
		"no deployment":             head(func(h http.Header) { h.Del(deployment) }),
		"another deployment":        head(func(h http.Header) { h.Set(deployment, strings.Repeat("ab", 32)) }),
		"nothing left":              head(func(h http.Header) { clear(h) }),
		"a made-up key": func(r *http.Request, resp *http.Response, _ []byte) []byte {
			body := []byte(`{"userId":"mallory"}`)
			attacker.sign(t, r, resp, body)
			return body
		},
		"compressed": func(_ *http.Request, resp *http.Response, b []byte) []byte {
			var z bytes.Buffer
			g := gzip.NewWriter(&z)
			_, _ = g.Write(b)
			_ = g.Close()
			resp.Header.Set("Content-Encoding", "gzip")
			return z.Bytes()
		},
	} {
		w.way.alter = alter
		if got, err := w.whoami(w.transport()); err == nil {
			t.Errorf("%s: accepted: %+v", name, got)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	w.way.alter = nil

	// What the host does to the request shows in the reply.
	for name, before := range map[string]func(*http.Request){
		"other path":      func(r *http.Request) { r.URL.Path = "/public/v1/query/get_organization" },
		"other endpoint":  func(r *http.Request) { r.URL.Path = "/boot/v1/status" },
		"other nonce":     func(r *http.Request) { r.Header.Set(attestation.HeaderSignReply, "mine") },
		"no nonce":        func(r *http.Request) { r.Header.Del(attestation.HeaderSignReply) },
		"bad nonce":       func(r *http.Request) { r.Header.Set(attestation.HeaderSignReply, "a b") },
		"two nonces":      func(r *http.Request) { r.Header.Add(attestation.HeaderSignReply, "n") },
		"no stamp":        func(r *http.Request) { r.Header.Del("X-Stamp") },
		"one stamp more":  func(r *http.Request) { r.Header.Set("X-Session", "s") },
		"other body":      func(r *http.Request) { setBody(r, `{"organizationId":"22222222-2222-4222-8222-222222222222"}`) },
		"another's stamp": func(r *http.Request) { restamp(t, r, attacker.api, whoami) },
		"a blank more":    func(r *http.Request) { setBody(r, whoami+" ") },
	} {
		w.way.before = before
		if got, err := w.whoami(w.transport()); err == nil {
			t.Errorf("%s: accepted: %+v", name, got)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	w.way.before = nil
	if again, err := w.whoami(w.transport()); err != nil || again != honest {
		t.Errorf("honest again: %+v, %v", again, err)
	}
}

// TestUntrustedEnclaves: a signature is worth what is known of its key.
func TestUntrustedEnclaves(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	for name, change := range map[string]func(*client.Transport){
		"another image": func(c *client.Transport) { c.Policy.ExpectedPCRs[1] = strings.Repeat("ab", 48) },
		"nothing pinned": func(c *client.Transport) {
			c.Policy = attestation.Policy{SimulatorRootPEM: c.Policy.SimulatorRootPEM}
		},
		"the image alone": func(c *client.Transport) { c.Policy.AllowedManifestSHA256 = nil },
		"the image, by its name": func(c *client.Transport) {
			c.Policy.AllowedManifestSHA256, c.Deployment = nil, w.deployment(t)
		},
		"the image of anybody": func(c *client.Transport) {
			c.Policy.AllowedManifestSHA256, c.Policy.AllowUnpinned = nil, true
		},
		"AWS root":              func(c *client.Transport) { c.Policy.SimulatorRootPEM = "" },
		"another root":          func(c *client.Transport) { c.Policy.SimulatorRootPEM = other.Credentials.AttestationRootPEM },
		"another manifest":      func(c *client.Transport) { c.Policy.AllowedManifestSHA256 = []string{strings.Repeat("ab", 32)} },
		"another deployment":    func(c *client.Transport) { c.Deployment = strings.Repeat("ab", 32) },
		"no source of proofs":   func(c *client.Transport) { c.Proofs = nil },
		"proofs of another":     func(c *client.Transport) { c.Proofs = client.Discovery(other.api, nil) },
		"another live key's":    func(c *client.Transport) { c.Proofs = other.anyProof },
		"a host that has none":  func(c *client.Transport) { c.Proofs = client.Discovery(w.proxy, nil) },
		"an age beyond allowed": func(c *client.Transport) { c.Now, c.Policy.MaxBootAge = ahead(time.Hour), time.Minute },
		"an age and no clock":   func(c *client.Transport) { c.Policy.MaxProofAge = time.Minute },
		"a reply from long ago": func(c *client.Transport) { c.Now, c.Policy.MaxProofAge = ahead(time.Hour), time.Minute },
		"a reply yet to come":   func(c *client.Transport) { c.Now = ahead(-time.Hour) },
	} {
		c := w.transport()
		change(c)
		if got, err := w.whoami(c); err == nil {
			t.Errorf("%s: accepted: %+v", name, got)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	// By manifest, by deployment, and with a member's query for the proof.
	c := w.transport()
	c.Policy = attestation.Policy{SimulatorRootPEM: w.Credentials.AttestationRootPEM, AllowedManifestSHA256: []string{w.Credentials.ManifestSHA256}}
	c.Deployment = w.deployment(t)
	c.Proofs = client.Query(w.api, w.Credentials.OrganizationID, nil, stampWith(w.Credentials.RootAPIKey))
	if got, err := w.whoami(c); err != nil || got.status != 200 {
		t.Errorf("%+v, %v", got, err)
	}
	// A transport that has seen one deployment takes no other's replies, genuine as they are.
	c = w.transport()
	if _, err := w.whoami(c); err != nil {
		t.Fatal(err)
	}
	c.Policy, c.Proofs = policyOf(other.Credentials), client.Discovery(other.api, nil)
	if got, err := other.whoami(c); err == nil {
		t.Errorf("accepted: %+v", got)
	}
}

func ahead(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

// TestBootsLast: a transport outlives the age that it allows a reply.
func TestBootsLast(t *testing.T) {
	w := newWorld(t)
	c := w.transport()
	var by time.Duration
	c.Now, c.Policy.MaxProofAge = func() time.Time { return time.Now().Add(by) }, 10*time.Minute
	if _, err := w.whoami(c); err != nil {
		t.Fatal(err)
	}
	by = -4 * time.Minute // within the skew: a clock that was put right
	if _, err := w.whoami(c); err != nil {
		t.Error(err)
	}
	if by = time.Hour; w.asked.Load() != 1 {
		t.Error("the boot was fetched twice")
	}
	if got, err := w.whoami(c); err == nil {
		t.Errorf("an hour old by the caller's clock: %+v", got)
	}
}

// TestEarlierBoots: a boot's proof is found when another one serves.
func TestEarlierBoots(t *testing.T) {
	dir := t.TempDir()
	first := start(t, rig.Options{Dir: dir})
	key, policy := first.liveKey(t), policyOf(first.Credentials)
	first.Stop()
	second := start(t, rig.Options{Dir: dir})
	if second.liveKey(t) == key {
		t.Fatal("two boots have one live key")
	}
	for _, k := range []string{key, second.liveKey(t)} {
		proof, err := client.Discovery(second.api, nil)(context.Background(), k)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := attestation.VerifyBootProof(proof, policy); err != nil || b.PublicKeyHex != k {
			t.Errorf("%+v, %v", b, err)
		}
	}
	for name, k := range map[string]string{"unknown": strings.Repeat("04", 130), "short": key[2:], "upper case": strings.ToUpper(key), "a path": "../keys", "empty": ""} {
		if p, err := client.Discovery(second.api, nil)(context.Background(), k); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, body := range []string{"", key[2:], strings.ToUpper(key), key + "\n", strings.Repeat("zz", 130)} {
		resp, err := http.Post(second.api+"/boot/v1/discovery_boot_proof", "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != 400 {
			t.Errorf("%q: %d", body, resp.StatusCode)
		}
	}
}

// The host's own answers are told from the enclave's.
func TestUnsigned(t *testing.T) {
	w := newWorld(t)
	c := w.transport()
	w.Enclave.Close()
	_, err := w.whoami(c)
	var unsigned *client.Unsigned
	if !errors.As(err, &unsigned) || unsigned.Status != 503 {
		t.Errorf("enclave away: %v", err)
	}
	r, err := http.NewRequest(http.MethodPost, w.api+"/public/v1/query/whoami", strings.NewReader(strings.Repeat("x", client.MaxRequest+1)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.do(c, r); err == nil {
		t.Errorf("too large: %+v", got)
	}
	for _, path := range []string{"/", "/healthz", "/metrics", "/public/v1/query/Whoami", "/dashboard/"} {
		r, err := http.NewRequest(http.MethodGet, w.api+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.do(c, r); err == nil || errors.As(err, &unsigned) && unsigned.Status == 0 {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// TestManyAtOnce shares one transport: no reply is taken for another's.
func TestManyAtOnce(t *testing.T) {
	w := newWorld(t)
	c := w.transport()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 5 {
				name := fmt.Sprintf("tag-%d-%d", i, n)
				got, err := w.send(c, w.api+"/public/v1/submit/create_user_tag", w.Root().Body("CREATE_USER_TAG", sim.Tag(name)))
				if err != nil || got.status != 200 || !strings.Contains(got.body, `"`+name+`"`) {
					t.Errorf("%s: %+v, %v", name, got, err)
				}
			}
		})
	}
	all.Wait()
}

func (w *world) document(t testing.TB) (d struct{ BootProof attestation.BootProof }) {
	resp, err := http.Get(w.api + "/public/v1/discovery/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (w *world) liveKey(t *testing.T) string { return w.document(t).BootProof.EphemeralPublicKeyHex }

func (w *world) anyProof(context.Context, string) (attestation.BootProof, error) {
	return w.document(w.t).BootProof, nil
}

func (w *world) deployment(t *testing.T) string {
	resp, err := http.Post(w.api+"/boot/v1/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var s struct{ Deployment string }
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s.Deployment
}
