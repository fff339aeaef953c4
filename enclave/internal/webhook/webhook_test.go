package webhook_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/enclave/internal/webhook"
)

const testVectors = "../../../attestation/testdata/webhooks.json"

type vectors struct {
	PrivateKey string                      `json:"private_key"`
	PublicKey  string                      `json:"public_key"`
	JWKS       map[string][]map[string]any `json:"jwks"`
	Vectors    []struct {
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
		Result  struct {
			OK bool `json:"ok"`
		} `json:"result"`
	} `json:"vectors"`
}

func signer(t testing.TB) (*webhook.Signer, vectors) {
	raw, err := os.ReadFile(testVectors)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	seed, err := hex.DecodeString(v.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	s, err := webhook.NewSigner(secrettest.Of(seed))
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

func get(head []webhook.Header) func(string) string {
	return func(name string) string {
		for _, h := range head {
			if strings.EqualFold(h.Name, name) {
				return h.Value
			}
		}
		return ""
	}
}

// TestKey: the key set is the vectors', but for the id, which follows from the key.
func TestKey(t *testing.T) {
	s, v := signer(t)
	if s.PublicKey() != v.PublicKey {
		t.Fatalf("key %s, want %s", s.PublicKey(), v.PublicKey)
	}
	var got map[string][]map[string]any
	if err := json.Unmarshal(s.JWKS(), &got); err != nil {
		t.Fatal(err)
	}
	want := v.JWKS
	want["keys"][0]["kid"] = s.KeyID()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("key set %v, want %v", got, want)
	}
	stated, err := attestation.WebhookKeyOf(s.PublicKey())
	if err != nil || stated.ID != s.KeyID() {
		t.Errorf("the verifier calls it %s, we %s: %v", stated.ID, s.KeyID(), err)
	}
}

// TestHead: what is signed verifies, and nothing else does.
func TestHead(t *testing.T) {
	s, v := signer(t)
	keys, err := attestation.ParseWebhookKeys(s.JWKS())
	if err != nil {
		t.Fatal(err)
	}
	d := webhook.Delivery{EventID: "7aba5c57-65f7-46e1-a794-c3ef1f7a11c4", Type: "ACTIVITY_UPDATES", Organization: "05ff74cb-bf52-45c6-a81e-8d82099d7f78",
		AtMs: 1767225600000, Body: []byte(v.Vectors[0].Body)}
	head := s.Head(&d)
	names := []string{}
	for _, h := range head {
		names = append(names, h.Name)
	}
	if want := strings.Fields("X-Turnkey-Organization-Id X-Turnkey-Event-Type X-Turnkey-Timestamp X-Turnkey-Webhook-Version X-Turnkey-Event-Id " +
		"X-Turnkey-Signature-Key-Id X-Turnkey-Signature-Algorithm X-Turnkey-Signature-Version X-Turnkey-Signature"); !reflect.DeepEqual(names, want) {
		t.Errorf("headers %v", names)
	}
	for name, want := range map[string]string{"X-Turnkey-Organization-Id": d.Organization, "X-Turnkey-Event-Type": d.Type, "X-Turnkey-Webhook-Version": "1"} {
		if got := get(head)(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	at := time.UnixMilli(1767225600000)
	got, err := attestation.VerifyWebhook(get(head), d.Body, keys, at, time.Minute)
	if err != nil || got.EventID != d.EventID || got.KeyID != s.KeyID() || !got.At.Equal(at) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, h := range head {
		if h.Name == "X-Turnkey-Organization-Id" || h.Name == "X-Turnkey-Event-Type" || h.Name == "X-Turnkey-Webhook-Version" {
			continue // not signed; the body says it
		}
		changed := append([]webhook.Header{}, head...)
		for _, value := range []string{"", h.Value + "0", "0" + h.Value[1:], h.Value[:len(h.Value)-1]} {
			if value == h.Value {
				continue
			}
			changed[i].Value = value
			if got, err := attestation.VerifyWebhook(get(changed), d.Body, keys, at, 1<<62); err == nil {
				t.Errorf("%s: %q is believed: %+v", h.Name, value, got)
			}
		}
	}
	// Another attempt at the same event has the same id and another signature.
	later := d
	later.AtMs++
	again := s.Head(&later)
	if get(again)("X-Turnkey-Event-Id") != d.EventID || get(again)("X-Turnkey-Signature") == get(head)("X-Turnkey-Signature") {
		t.Errorf("again %v", again)
	}
}

func TestNoSeed(t *testing.T) {
	for _, n := range []int{0, 31, 33, 64} {
		if s, err := webhook.NewSigner(secrettest.Of(make([]byte, n))); err == nil || s != nil {
			t.Errorf("a seed of %d bytes is taken", n)
		}
	}
}

// TestNotPrinted: no verb shows the key.
func TestNotPrinted(t *testing.T) {
	s, v := signer(t)
	seed, err := hex.DecodeString(v.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
		text := fmt.Sprintf(verb, *s) + fmt.Sprintf(verb, s)
		if strings.Contains(text, v.PrivateKey) || strings.Contains(text, string(seed)) || strings.Contains(text, strings.Trim(fmt.Sprint(seed[:8]), "[]")) {
			t.Errorf("%s prints the key", verb)
		}
	}
}
