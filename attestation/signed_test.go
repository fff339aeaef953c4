package attestation_test

import (
	"crypto"
	"crypto/ecdsa"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
)

var writeVector = flag.Bool("write-vector", false, "make testdata/signed_reply.json anew")

const replyVectors = "testdata/signed_reply.json"

// A vector is one request with its signed reply. Keys are fixed and signatures
// deterministic (RFC 6979), so that it can be made anew.
type vector struct {
	Method      string            `json:"method"`
	Path        string            `json:"path"`
	Credentials map[string]string `json:"credentials"`
	Request     string            `json:"request"`
	Nonce       string            `json:"nonce"`
	Status      int               `json:"status"`
	Reply       string            `json:"reply"`
	Headers     map[string]string `json:"headers"`
	Text        string            `json:"text"`
}

// statement is what a client would fill in.
func (v vector) statement(t testing.TB) attestation.SignedReply {
	endpoint, op, ok := attestation.Route(v.Method, v.Path)
	if !ok {
		t.Fatal("not routed")
	}
	credentials, err := attestation.HashCredentials(endpoint, func(name string) []string {
		if c, ok := v.Credentials[name]; ok {
			return []string{c}
		}
		return nil
	})
	must(t, err)
	return attestation.SignedReply{Endpoint: endpoint, Operation: op, Credentials: credentials, Request: attestation.Hash([]byte(v.Request)),
		Nonce: v.Nonce, Status: v.Status, Reply: attestation.Hash([]byte(v.Reply))}
}

func (v vector) headers() attestation.ReplyHeaders {
	return attestation.ReplyHeaders{Signature: v.Headers[attestation.HeaderReplySignature], Time: v.Headers[attestation.HeaderReplyTime],
		LiveKey: v.Headers[attestation.HeaderLiveKey], Deployment: v.Headers[attestation.HeaderDeployment]}
}

// signReply signs as an enclave does whose live key is k.
func signReply(t testing.TB, s attestation.SignedReply, k *ecdsa.PrivateKey) []byte {
	text, err := s.Text()
	must(t, err)
	hash := attestation.Hash(text)
	der, err := k.Sign(nil, hash[:], crypto.SHA256)
	must(t, err)
	var rs struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(der, &rs)
	must(t, err)
	if n := k.Params().N; rs.S.Cmp(new(big.Int).Rsh(n, 1)) > 0 {
		rs.S.Sub(n, rs.S)
	}
	sig := make([]byte, 64)
	rs.R.FillBytes(sig[:32])
	rs.S.FillBytes(sig[32:])
	return sig
}

func vectors(t testing.TB) []vector {
	raw, err := os.ReadFile(replyVectors)
	must(t, err)
	var out []vector
	must(t, json.Unmarshal(raw, &out))
	return out
}

// TestSignedReplyVector holds the format against stored replies: a text that
// changes needs another first line.
func TestSignedReplyVector(t *testing.T) {
	if *writeVector {
		makeVectors(t)
	}
	all := vectors(t)
	if len(all) != 3 {
		t.Fatalf("%d vectors", len(all))
	}
	for _, v := range all {
		s := v.statement(t)
		sig, err := v.headers().Into(&s)
		must(t, err)
		text, err := s.Text()
		must(t, err)
		if string(text) != v.Text {
			t.Errorf("text is\n%s", text)
		}
		must(t, attestation.VerifyReplySignature(s, sig))
		if again := signReply(t, s, fixedKey(t, 12)); string(again) != string(sig) {
			t.Error("another signature than RFC 6979 gives")
		}
	}
}

func makeVectors(t *testing.T) {
	all := []vector{
		{Method: "POST", Path: "/public/v1/query/whoami", Credentials: map[string]string{"X-Stamp": "c3RhbXA"}, Request: `{"organizationId":"11111111-1111-4111-8111-111111111111"}`,
			Nonce: "AAECAwQFBgcICQoLDA0ODw", Status: 200, Reply: `{"organizationId":"11111111-1111-4111-8111-111111111111","userId":"u"}`},
		{Method: "POST", Path: "/v1/signup", Credentials: map[string]string{"X-Auth-Proxy-Config-Id": "22222222-2222-4222-8222-222222222222", "X-Captcha-Token": "cap"},
			Request: `{"ä":"→"}`, Nonce: "n", Status: 403, Reply: `{"code":7,"message":"no","details":[]}`},
		{Method: "GET", Path: "/public/v1/discovery/keys", Nonce: strings.Repeat("-_", 32), Status: 200, Reply: `{}`},
	}
	live := hex.EncodeToString(append(point(t, fixedKey(t, 11)), point(t, fixedKey(t, 12))...))
	for i := range all {
		v := &all[i]
		s := v.statement(t)
		s.Deployment, s.LiveKey, s.TimeMs = [32]byte{1, 2, 31: 3}, live, 1767225600123
		text, err := s.Text()
		must(t, err)
		v.Text = string(text)
		v.Headers = map[string]string{attestation.HeaderReplySignature: hex.EncodeToString(signReply(t, s, fixedKey(t, 12))),
			attestation.HeaderReplyTime: strconv.FormatUint(s.TimeMs, 10), attestation.HeaderLiveKey: live, attestation.HeaderDeployment: hex.EncodeToString(s.Deployment[:])}
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	must(t, err)
	must(t, os.WriteFile(replyVectors, append(raw, '\n'), 0o644))
}

// aReply is a reply that the maker's live key has signed.
func (m *maker) aReply() (attestation.SignedReply, []byte) {
	s := attestation.SignedReply{
		Deployment: [32]byte{1}, LiveKey: m.liveHex, Endpoint: attestation.EndpointSubmit, Operation: "create_wallet", Credentials: [32]byte{2},
		Request: [32]byte{3}, Nonce: "nonce", Status: 200, Reply: [32]byte{4}, TimeMs: uint64(m.now.Add(time.Minute).UnixMilli()),
	}
	return s, signReply(m.t, s, m.live)
}

func TestSignedReplies(t *testing.T) {
	m := newMaker(t)
	p := m.policy()
	p.Now, p.MaxProofAge = m.now.Add(2*time.Minute), time.Hour
	boot, err := attestation.VerifyBootProof(m.bootProof(nil), p)
	must(t, err)
	s, sig := m.aReply()
	must(t, boot.VerifyReply(s, sig))
	must(t, attestation.VerifyReplySignature(s, sig))

	twin := append([]byte{}, sig...) // the other signature of the same text states the same
	new(big.Int).Sub(m.live.Params().N, new(big.Int).SetBytes(sig[32:])).FillBytes(twin[32:])
	must(t, boot.VerifyReply(s, twin))

	other := newMaker(t)
	for name, change := range map[string]func(*attestation.SignedReply){
		"another deployment":           func(s *attestation.SignedReply) { s.Deployment[31]++ },
		"another live key":             func(s *attestation.SignedReply) { s.LiveKey = other.liveHex },
		"another endpoint":             func(s *attestation.SignedReply) { s.Endpoint = attestation.EndpointQuery },
		"another operation":            func(s *attestation.SignedReply) { s.Operation = "delete_wallet" },
		"other credentials":            func(s *attestation.SignedReply) { s.Credentials[0]++ },
		"another request":              func(s *attestation.SignedReply) { s.Request[0]++ },
		"another nonce":                func(s *attestation.SignedReply) { s.Nonce = "Nonce" },
		"a longer nonce":               func(s *attestation.SignedReply) { s.Nonce += "x" },
		"another status":               func(s *attestation.SignedReply) { s.Status = 201 },
		"another body":                 func(s *attestation.SignedReply) { s.Reply[31]++ },
		"another time":                 func(s *attestation.SignedReply) { s.TimeMs++ },
		"no endpoint":                  func(s *attestation.SignedReply) { s.Endpoint = "" },
		"an endpoint with a line feed": func(s *attestation.SignedReply) { s.Endpoint += "\n" },
		"no operation":                 func(s *attestation.SignedReply) { s.Operation = "" },
		"an operation with a path":     func(s *attestation.SignedReply) { s.Operation = "create_wallet/x" },
		"an operation and a line":      func(s *attestation.SignedReply) { s.Operation = "create_wallet\nnonce: nonce" },
		"no nonce":                     func(s *attestation.SignedReply) { s.Nonce = "" },
		"a nonce of 65 bytes":          func(s *attestation.SignedReply) { s.Nonce = strings.Repeat("n", 65) },
		"a nonce with a line feed":     func(s *attestation.SignedReply) { s.Nonce = "nonce\n" },
		"status 0":                     func(s *attestation.SignedReply) { s.Status = 0 },
		"status 1200":                  func(s *attestation.SignedReply) { s.Status = 1200 },
		"time 0":                       func(s *attestation.SignedReply) { s.TimeMs = 0 },
		"a time beyond exact numbers":  func(s *attestation.SignedReply) { s.TimeMs = 1 << 53 },
		"a live key in upper case":     func(s *attestation.SignedReply) { s.LiveKey = strings.ToUpper(s.LiveKey) },
	} {
		changed := s
		change(&changed)
		refused(t, boot.VerifyReply(changed, sig), name)
		if attestation.VerifyReplySignature(changed, sig) == nil {
			t.Errorf("%s: the signature alone holds", name)
		}
	}
	for i := range sig {
		bad := append([]byte{}, sig...)
		bad[i] ^= 1
		if boot.VerifyReply(s, bad) == nil {
			t.Errorf("accepted with byte %d of the signature flipped", i)
		}
	}
	for _, bad := range [][]byte{nil, {}, sig[:63], append(append([]byte{}, sig...), 0), make([]byte, 64)} {
		refused(t, boot.VerifyReply(s, bad), "signature of another form")
	}
	// Signed by the live key, and yet not to be believed.
	for name, at := range map[string]time.Time{
		"older than its boot": m.now.Add(-attestation.Skew - time.Second), "in the future": p.Now.Add(attestation.Skew + time.Second),
		"after the root's end": m.root.NotAfter.Add(time.Second),
	} {
		dated := s
		dated.TimeMs = uint64(at.UnixMilli())
		refused(t, boot.VerifyReply(dated, signReply(t, dated, m.live)), name)
	}
	p.Now = m.now.Add(2 * time.Hour)
	late, err := attestation.VerifyBootProof(m.bootProof(nil), p)
	must(t, err)
	refused(t, late.VerifyReply(s, sig), "older than the policy allows")
	refused(t, new(attestation.Boot).VerifyReply(s, sig), "a boot that nobody verified")
}

// TestReplyIsNoAppProof: the live key signs two kinds of texts, and neither passes
// for the other.
func TestReplyIsNoAppProof(t *testing.T) {
	m := newMaker(t)
	boot, err := attestation.VerifyBootProof(m.bootProof(nil), m.policy())
	must(t, err)
	s, sig := m.aReply()
	text, err := s.Text()
	must(t, err)
	_, err = boot.VerifyAppProof(attestation.AppProof{Scheme: attestation.Scheme, PublicKey: m.liveHex, ProofPayload: string(text), Signature: hex.EncodeToString(sig)})
	refused(t, err, "a signed reply as an app proof")
}

func TestReplyHeaders(t *testing.T) {
	good := vectors(t)[0].headers()
	var s attestation.SignedReply
	if _, err := good.Into(&s); err != nil || s.TimeMs != 1767225600123 || s.LiveKey != good.LiveKey || s.Deployment != [32]byte{1, 2, 31: 3} {
		t.Fatalf("%+v, %v", s, err)
	}
	type h = attestation.ReplyHeaders
	for name, change := range map[string]func(*h){
		"nothing":                func(g *h) { *g = h{} },
		"no signature":           func(g *h) { g.Signature = "" },
		"no time":                func(g *h) { g.Time = "" },
		"no live key":            func(g *h) { g.LiveKey = "" },
		"no deployment":          func(g *h) { g.Deployment = "" },
		"upper-case signature":   func(g *h) { g.Signature = strings.ToUpper(g.Signature) },
		"signature and more":     func(g *h) { g.Signature += "00" },
		"time with a sign":       func(g *h) { g.Time = "+" + g.Time },
		"time with a zero ahead": func(g *h) { g.Time = "0" + g.Time },
		"time in seconds' form":  func(g *h) { g.Time += ".0" },
		"time beyond 2^53":       func(g *h) { g.Time = "9007199254740993" },
		"half a live key":        func(g *h) { g.LiveKey = g.LiveKey[130:] },
		"live key off the curve": func(g *h) { g.LiveKey = "04" + hexOf(1, 64) + g.LiveKey[130:] },
		"deployment of 31 bytes": func(g *h) { g.Deployment = g.Deployment[2:] },
	} {
		g := good
		change(&g)
		_, err := g.Into(new(attestation.SignedReply))
		refused(t, err, name)
	}
}

func TestRoutes(t *testing.T) {
	for _, c := range []struct{ method, path, endpoint, op string }{
		{"POST", "/public/v1/submit/create_wallet", "submit", "create_wallet"},
		{"POST", "/public/v1/query/whoami", "query", "whoami"},
		{"POST", "/v1/otp_init_v2", "proxy", "otp_init_v2"},
		{"POST", "/boot/v1/status", "boot", "status"},
		{"GET", "/public/v1/discovery/keys", "boot", "discovery_keys"},
		{"GET", "/.well-known/jwks.json", "boot", "discovery_openid_keys"},
	} {
		if endpoint, op, ok := attestation.Route(c.method, c.path); !ok || endpoint != c.endpoint || op != c.op {
			t.Errorf("%s %s: %s, %s, %v", c.method, c.path, endpoint, op, ok)
		}
	}
	for _, c := range [][2]string{{"GET", "/public/v1/query/whoami"}, {"post", "/public/v1/query/whoami"}, {"HEAD", "/public/v1/discovery/keys"}, {"POST", "/public/v1/discovery/keys"},
		{"POST", "/public/v1/query/"}, {"POST", "/public/v1/query/who/ami"}, {"POST", "/public/v1/query/Whoami"}, {"POST", "/public/v1/query/whoami\n"},
		{"POST", "public/v1/query/whoami"}, {"POST", "//public/v1/query/whoami"}, {"POST", "/public/v2/query/whoami"}, {"POST", "/v1/" + strings.Repeat("a", 129)}, {"GET", "/"}, {"", ""}} {
		if endpoint, op, ok := attestation.Route(c[0], c[1]); ok {
			t.Errorf("%s %s leads to %s %s", c[0], c[1], endpoint, op)
		}
	}
}

func TestHashCredentials(t *testing.T) {
	of := func(endpoint string, h map[string][]string) ([32]byte, error) {
		return attestation.HashCredentials(endpoint, func(name string) []string { return h[name] })
	}
	type head = map[string][]string
	seen := map[[32]byte]string{}
	for name, h := range map[string]head{
		"none": {}, "stamp": {"X-Stamp": {"a"}}, "session": {"X-Session": {"a"}}, "both": {"X-Stamp": {"a"}, "X-Session": {"a"}},
		"empty": {"X-Stamp": {""}}, "other value": {"X-Stamp": {"A"}}, "passkey": {"X-Stamp-WebAuthn": {"a"}},
	} {
		sum, err := of("query", h)
		must(t, err)
		if seen[sum] != "" {
			t.Errorf("%s is hashed as %s", name, seen[sum])
		}
		seen[sum] = name
	}
	if sum, err := of("query", head{"X-Captcha-Token": {"c"}, "X-Auth-Proxy-Config-Id": {"c"}}); err != nil || seen[sum] != "none" {
		t.Error("headers of another endpoint count")
	}
	for name, h := range map[string]head{
		"twice": {"X-Stamp": {"a", "a"}}, "line feed": {"X-Stamp": {"a\nx-session: b"}}, "not ASCII": {"X-Stamp": {"ä"}}, "too long": {"X-Stamp": {strings.Repeat("a", 20<<10)}},
	} {
		_, err := of("submit", h)
		refused(t, err, name)
	}
}

func FuzzReplyHeaders(f *testing.F) {
	g := vectors(f)[0].headers()
	f.Add(g.Signature, g.Time, g.LiveKey, g.Deployment)
	f.Add("", "", "", "")
	f.Fuzz(func(t *testing.T, signature, at, live, deployment string) {
		var s attestation.SignedReply
		sig, err := attestation.ReplyHeaders{Signature: signature, Time: at, LiveKey: live, Deployment: deployment}.Into(&s)
		if err != nil {
			return
		}
		// What is taken has one spelling.
		if hex.EncodeToString(sig) != signature || strconv.FormatUint(s.TimeMs, 10) != at || s.LiveKey != live || hex.EncodeToString(s.Deployment[:]) != deployment {
			t.Fatal("read something else than stands there")
		}
	})
}
