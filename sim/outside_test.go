package main_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/smtp"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"cloister/shared/porttest"
	sim "cloister/sim"
)

func begin(t *testing.T, args ...string) (sim.Outside, func()) {
	t.Helper()
	out, stop, err := sim.StartOutside(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out, stop
}

func get(t *testing.T, at string, into any) {
	t.Helper()
	a, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 {
		t.Fatalf("%s: %d %s %v", at, a.StatusCode, b, err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// Everything is where it is said to be, stays itself over a start, and ends.
func TestOutside(t *testing.T) {
	dir := t.TempDir()
	var kids []string
	for range 2 {
		// Nobody else is there once it has ended.
		out, stop := begin(t, "-inbox-addr", porttest.Address(t), "-inbox-smtp-addr", porttest.Address(t), "-data-dir", dir)
		if err := smtp.SendMail(out.SMTP, nil, "a@example.com", []string{"b@example.com"}, []byte("Subject: s\r\n\r\nYour code is 123456\r\n")); err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest("POST", out.SMS, strings.NewReader(url.Values{"To": {"+15551234567"}, "From": {"Wallet"}, "Body": {"Your code is 654321"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(sim.Gateway.User, sim.Gateway.Password)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != 201 {
			t.Errorf("the gateway: %d", a.StatusCode)
		}
		var got struct{ Messages []struct{ To, Code string } }
		get(t, out.Inbox+"/messages", &got)
		if len(got.Messages) != 2 || got.Messages[0].Code != "654321" || got.Messages[1].Code != "123456" {
			t.Errorf("%+v", got)
		}
		var d struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		get(t, out.Issuer+"/.well-known/openid-configuration", &d)
		if d.Issuer != out.Issuer {
			t.Errorf("%s is not %s", d.Issuer, out.Issuer)
		}
		var set struct{ Keys []struct{ Kid string } }
		get(t, d.Keys, &set)
		kids = append(kids, set.Keys[0].Kid)
		for _, at := range []string{out.XToken, out.DiscordToken} {
			a, err := http.PostForm(at, nil)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if a.StatusCode != 401 {
				t.Errorf("%s: %d", at, a.StatusCode)
			}
		}
		stop()
		for _, at := range []string{strings.TrimPrefix(out.Inbox, "http://"), out.SMTP} {
			if c, err := net.Dial("tcp", at); err == nil {
				c.Close()
				t.Errorf("%s is still open", at)
			}
		}
	}
	if kids[0] != kids[1] {
		t.Error("the provider's keys changed over a start")
	}
}

// The usual ports give way to another simulator; ports that are asked for do not.
func TestOutsideTwice(t *testing.T) {
	one, stop := begin(t, "-data-dir", t.TempDir())
	defer stop()
	two, stop := begin(t, "-data-dir", t.TempDir())
	defer stop()
	if one.Inbox == two.Inbox || one.SMTP == two.SMTP || two.Inbox == "http://"+sim.InboxAddr || two.SMTP == sim.InboxSMTPAddr {
		t.Errorf("%+v and %+v", one, two)
	}
	taken := strings.TrimPrefix(two.Inbox, "http://")
	for name, args := range map[string][]string{
		"a taken port":        {"-inbox-addr", taken},
		"a taken port, mail":  {"-inbox-addr", "127.0.0.1:0", "-inbox-smtp-addr", taken},
		"every address":       {"-inbox-addr", "0.0.0.0:0"},
		"every address, mail": {"-inbox-addr", "127.0.0.1:0", "-inbox-smtp-addr", ":0"},
		"a name":              {"-inbox-addr", "localhost:0"},
		"a bad place":         {"-inbox-addr", "127.0.0.1:0", "-inbox-smtp-addr", "127.0.0.1:0", "-idp-redirect-uris", "nowhere"},
		"no room for keys":    {"-data-dir", filepath.Join("/dev/null", "x")},
	} {
		if _, stop, err := sim.StartOutside(append([]string{"-data-dir", t.TempDir()}, args...)...); err == nil {
			stop()
			t.Errorf("%s: started", name)
		}
	}
}
