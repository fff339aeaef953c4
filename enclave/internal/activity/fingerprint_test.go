package activity_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
)

// A vote names an activity as the interface writes its fingerprint, or it is refused.
func TestFingerprintText(t *testing.T) {
	want := org.Hash{0: 0x01, 15: 0xab, 31: 0xff}
	text := string(activity.AppendFingerprint(nil, want))
	for _, good := range []string{text, "sha256:" + strings.ToUpper(text[7:])} {
		if got, ok := activity.ParseFingerprint(good); !ok || got != want {
			t.Errorf("%s: %x", good, got)
		}
	}
	for _, bad := range []string{"", "sha256:", text[7:], strings.ToUpper(text), text + "0", text + "00", text[:70], text[:69], " " + text, text + "\n",
		"sha512:" + text[7:], "sha256:" + strings.Repeat("g", 64), "sha256:" + strings.Repeat("é", 32)} {
		if got, ok := activity.ParseFingerprint(bad); ok {
			t.Errorf("%q was read as %x", bad, got)
		}
	}
}
