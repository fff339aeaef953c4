package attestation_test

import (
	"strings"
	"testing"
	"time"

	"cloister/attestation"
)

func historyClaim() *attestation.HistoryPage {
	return &attestation.HistoryPage{OrganizationID: "o", From: "0", To: "20", Digest: strings.Repeat("0a", 32), Root: strings.Repeat("0b", 32),
		Freshness: &attestation.ClaimFreshness{Mode: "since-boot", BootNumber: "1", SeedSource: "shares"}}
}

// What a page of a history says has one form.
func TestHistoryPage(t *testing.T) {
	at := time.UnixMilli(1767225600123)
	for name, change := range map[string]func(*attestation.HistoryPage){
		"no organization":     func(c *attestation.HistoryPage) { c.OrganizationID = "" },
		"no entries":          func(c *attestation.HistoryPage) { c.To = "0" },
		"backwards":           func(c *attestation.HistoryPage) { c.From, c.To = "5", "4" },
		"a leading zero":      func(c *attestation.HistoryPage) { c.To = "020" },
		"a negative number":   func(c *attestation.HistoryPage) { c.From = "-1" },
		"a short digest":      func(c *attestation.HistoryPage) { c.Digest = "0a" },
		"no digest":           func(c *attestation.HistoryPage) { c.Digest = "" },
		"a root of no hash":   func(c *attestation.HistoryPage) { c.Root = "x" },
		"an unknown mode":     func(c *attestation.HistoryPage) { c.Freshness.Mode = "x" },
		"a number too great":  func(c *attestation.HistoryPage) { c.To = "9007199254740993" },
		"an empty seedSource": func(c *attestation.HistoryPage) { c.Freshness.SeedSource = "" },
	} {
		c := historyClaim()
		change(c)
		if _, err := attestation.EncodePayload(at, c); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
	c := historyClaim()
	b, err := attestation.EncodePayload(at, c)
	must(t, err)
	_, got, err := attestation.ParsePayload(string(b))
	must(t, err)
	page, ok := got.(*attestation.HistoryPage)
	if from, to, err := page.Range(); !ok || err != nil || from != 0 || to != 20 || page.Root != c.Root || page.Fresh().BootNumber != "1" {
		t.Errorf("%+v %v", got, err)
	}
}
