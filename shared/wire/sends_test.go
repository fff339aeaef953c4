package wire_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"cloister/shared/wire"
)

// TestWebhookEncodings holds what crosses for a webhook. What came before webhooks
// is encoded as it was.
func TestWebhookEncodings(t *testing.T) {
	for _, c := range []struct {
		v, into any
		want    string
	}{
		{&wire.SendMark{Kind: wire.SendTransaction, DueMs: 5}, new(wire.SendMark), "a201010205"},
		{&wire.SendMark{Kind: wire.SendWebhook, DueMs: 5, Receiver: id(7)}, new(wire.SendMark), "a3010402050350" + "07070707070707070707070707070707"},
		{&wire.SendMark{Kind: wire.SendMail, DueMs: 5, Payer: id(8)}, new(wire.SendMark), "a3010202050450" + "08080808080808080808080808080808"},
		{&wire.Opened{Found: true, Kind: wire.SendWebhook, ExpiresMs: 9, Gone: true}, new(wire.Opened), "a401f50304040914f5"},
		{&wire.Opened{Found: true, Kind: wire.SendWebhook, ExpiresMs: 9, Webhook: &wire.Webhook{URL: "https://a.example/", Head: []wire.Header{{Name: "A", Value: "b"}}, Body: []byte("{}")}},
			new(wire.Opened), "a401f50304040915a3017268747470733a2f2f612e6578616d706c652f0281a20161410261620342" + hex.EncodeToString([]byte("{}"))},
	} {
		b, err := wire.Marshal(c.v)
		if err != nil || hex.EncodeToString(b) != c.want {
			t.Errorf("%+v: %x, %v, want %s", c.v, b, err, c.want)
			continue
		}
		if err := wire.Unmarshal(b, c.into); err != nil {
			t.Errorf("%+v: %v", c.v, err)
		}
		if again, err := wire.Marshal(c.into); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%+v comes back as %x, %v", c.v, again, err)
		}
	}
	for _, wrong := range []string{"a301040205034f" + "070707070707070707070707070707", "a401f50304040914f6", "a401f503040409" + "15a0a0"} {
		b, err := hex.DecodeString(wrong)
		if err != nil {
			t.Fatal(err)
		}
		if wire.Unmarshal(b, new(wire.SendMark)) == nil || wire.Unmarshal(b, new(wire.Opened)) == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
