package attestation_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
)

type webhookVectors struct {
	PrivateKey string          `json:"private_key"`
	PublicKey  string          `json:"public_key"`
	JWKS       json.RawMessage `json:"jwks"`
	Vectors    []struct {
		Name     string            `json:"name"`
		Headers  map[string]string `json:"headers"`
		Body     string            `json:"body"`
		NowMs    int64             `json:"now_ms"`
		WindowMs int64             `json:"max_timestamp_age_ms"`
		Keys     []struct {
			ID  string `json:"keyId"`
			Key string `json:"publicKey"`
		} `json:"verification_keys"`
		Result struct {
			OK          bool   `json:"ok"`
			Reason      string `json:"reason"`
			EventID     string `json:"eventId"`
			KeyID       string `json:"keyId"`
			TimestampMs int64  `json:"timestampMs"`
		} `json:"result"`
	} `json:"vectors"`
}

func readWebhooks(t testing.TB) (v webhookVectors) {
	raw, err := os.ReadFile("testdata/webhooks.json")
	must(t, err)
	must(t, json.Unmarshal(raw, &v))
	return v
}

func header(of map[string]string) func(string) string {
	return func(name string) string {
		for k, v := range of {
			if strings.EqualFold(k, name) {
				return v
			}
		}
		return ""
	}
}

// The outcome of every vector is that of the published verifier.
func TestWebhookVectors(t *testing.T) {
	f := readWebhooks(t)
	if len(f.Vectors) < 10 {
		t.Fatalf("%d vectors", len(f.Vectors))
	}
	for _, v := range f.Vectors {
		var keys []attestation.WebhookKey
		for _, k := range v.Keys {
			raw, err := hex.DecodeString(k.Key)
			must(t, err)
			keys = append(keys, attestation.WebhookKey{ID: k.ID, Key: raw})
		}
		got, err := attestation.VerifyWebhook(header(v.Headers), []byte(v.Body), keys, time.UnixMilli(v.NowMs), time.Duration(v.WindowMs)*time.Millisecond)
		var fault attestation.WebhookFault
		switch {
		case v.Result.OK:
			if err != nil || got.EventID != v.Result.EventID || got.KeyID != v.Result.KeyID || got.At.UnixMilli() != v.Result.TimestampMs {
				t.Errorf("%s: %+v, %v", v.Name, got, err)
			}
		case got != nil || !errors.As(err, &fault) || string(fault) != v.Result.Reason:
			t.Errorf("%s: %+v, %v, want %s", v.Name, got, err, v.Result.Reason)
		}
	}
}

func TestWebhookKeys(t *testing.T) {
	f := readWebhooks(t)
	keys, err := attestation.ParseWebhookKeys(f.JWKS)
	if err != nil || len(keys) != 1 || keys[0].ID != "whk-test-1" || hex.EncodeToString(keys[0].Key) != f.PublicKey {
		t.Fatalf("%+v, %v", keys, err)
	}
	good := string(f.JWKS)
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "{", "a list": "[]", "two values": "{}{}", "a number": `{"keys":7}`, "twice": `{"keys":[],"keys":[]}`,
		"short key": strings.Replace(good, "Z329", "", 1), "padded": strings.Replace(good, "Eu9Q", "Eu9Q=", 1), "too many": `{"keys":[` + strings.Repeat("{},", 16) + `{}]}`,
	} {
		if keys, err := attestation.ParseWebhookKeys([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, keys)
		}
	}
	for name, text := range map[string]string{"another type": `"OKP"`, "another curve": `"Ed25519"`, "another algorithm": `"EdDSA"`, "no id": `"whk-test-1"`} {
		changed := strings.Replace(good, text, `"x"`, 1)
		if name == "no id" {
			changed = strings.Replace(good, text, `""`, 1)
		}
		if keys, err := attestation.ParseWebhookKeys([]byte(changed)); err != nil || len(keys) != 0 {
			t.Errorf("%s: %+v, %v", name, keys, err)
		}
	}
	k, err := attestation.WebhookKeyOf(f.PublicKey)
	if err != nil || !strings.HasPrefix(k.ID, "whk-") || len(k.ID) != 20 {
		t.Errorf("%+v, %v", k, err)
	}
	for _, text := range []string{"", f.PublicKey[2:], strings.ToUpper(f.PublicKey), f.PublicKey + "00"} {
		if _, err := attestation.WebhookKeyOf(text); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
}

// FuzzVerifyWebhook: what was not signed is not believed.
func FuzzVerifyWebhook(f *testing.F) {
	v := readWebhooks(f)
	seed, err := hex.DecodeString(v.PrivateKey)
	must(f, err)
	key := attestation.WebhookKey{ID: "k", Key: ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)}
	for _, x := range v.Vectors {
		raw, err := json.Marshal(x.Headers)
		must(f, err)
		f.Add(raw, []byte(x.Body))
	}
	f.Fuzz(func(t *testing.T, headers, body []byte) {
		var h map[string]string
		if json.Unmarshal(headers, &h) != nil {
			return
		}
		get := header(h)
		if got, err := attestation.VerifyWebhook(get, body, []attestation.WebhookKey{key}, time.UnixMilli(1767225600000), time.Hour); err == nil {
			message := "v1.ed25519.k." + get("X-Turnkey-Timestamp") + "." + got.EventID + "." + string(body)
			sig, _ := hex.DecodeString(get("X-Turnkey-Signature"))
			if !ed25519.Verify(key.Key, []byte(message), sig) {
				t.Fatalf("%+v is believed", got)
			}
		}
	})
}

// FuzzParseWebhookKeys: whatever it is, it is refused or gives keys of the right size.
func FuzzParseWebhookKeys(f *testing.F) {
	f.Add([]byte(readWebhooks(f).JWKS))
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := attestation.ParseWebhookKeys(raw)
		for _, k := range keys {
			if err != nil || len(k.Key) != ed25519.PublicKeySize || k.ID == "" {
				t.Fatalf("%+v, %v", k, err)
			}
		}
	})
}
