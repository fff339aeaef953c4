package attestation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloister/attestation"
)

// Nothing that is not all there becomes a text that a live key signs.
func TestHandOverText(t *testing.T) {
	m := newMaker(t)
	good := attestation.HandOver{Nonce: strings.Repeat("01", 32), Deployment: strings.Repeat("02", 32), Box: "AAAA"}
	key := m.bootProof(nil).EphemeralPublicKeyHex
	if _, err := good.Text(key, [32]byte{3}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(h *attestation.HandOver, key *string){
		"no nonce":              func(h *attestation.HandOver, _ *string) { h.Nonce = "" },
		"a short nonce":         func(h *attestation.HandOver, _ *string) { h.Nonce = h.Nonce[2:] },
		"a nonce in capitals":   func(h *attestation.HandOver, _ *string) { h.Nonce = strings.Repeat("AB", 32) },
		"a nonce of two lines":  func(h *attestation.HandOver, _ *string) { h.Nonce = h.Nonce[:63] + "\n" },
		"no deployment":         func(h *attestation.HandOver, _ *string) { h.Deployment = "" },
		"a box that is no text": func(h *attestation.HandOver, _ *string) { h.Box = "A" },
		"an endless box":        func(h *attestation.HandOver, _ *string) { h.Box = strings.Repeat("AAAA", attestation.MaxHandOverBox) },
		"half a setup key":      func(_ *attestation.HandOver, key *string) { *key = (*key)[:130] },
		"a key off the curve":   func(_ *attestation.HandOver, key *string) { *key = (*key)[:258] + "00" },
	} {
		h, k := good, key
		change(&h, &k)
		if _, err := h.Text(k, [32]byte{3}); err == nil {
			t.Errorf("%s: there is a text", name)
		}
	}
	if _, _, err := good.Verify(nil, key, [32]byte{3}); err == nil {
		t.Error("verified by nobody")
	}
	if _, _, err := good.Verify(&attestation.Boot{}, key, [32]byte{3}); err == nil {
		t.Error("verified by a boot that nobody has verified")
	}
}

func FuzzParseHandOver(f *testing.F) {
	b, err := json.Marshal(attestation.HandOver{Nonce: "01", Box: "AAAA"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"nonce":"","nonce":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := attestation.ParseHandOver(b)
		if (err == nil) != (h != nil) {
			t.Fatal("neither a hand-over nor a refusal")
		}
		if h != nil {
			_, _ = h.Text(h.BootProof.EphemeralPublicKeyHex, [32]byte{})
		}
	})
}
