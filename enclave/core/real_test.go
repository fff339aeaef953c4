//go:build outward_real

// Mail from an entry to aiosmtpd, through outbox, link, host and stream. scripts/outward/test.sh runs it, for it wants a Debian package.

package core_test

import (
	"bufio"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloister/enclave/internal/org"
	"cloister/shared/wire"
	"cloister/sim/rig"
)

type arrived struct {
	Door, User, From, Content string
	To                        []string
}

func TestRealMail(t *testing.T) {
	a := newAuthority(t, "localhost")
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(a.server.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: a.server.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/usr/bin/python3", "../../scripts/outward/mail.py", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(bufio.NewReader(out))
	var ports map[string]uint16
	if err := lines.Decode(&ports); err != nil {
		t.Fatal(err)
	}
	messages := make(chan arrived, 100)
	go func() {
		defer close(messages)
		for m := (arrived{}); lines.Decode(&m) == nil; m = (arrived{}) {
			messages <- m
		}
	}()
	t.Cleanup(func() { // it ends when its input does
		_ = in.Close()
		for range messages {
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	for _, endpoint := range []string{"starttls", "login", "tls", "plain"} {
		security := map[string]string{"login": "starttls"}[endpoint]
		if security == "" {
			security = endpoint
		}
		b, err := json.Marshal(map[string]any{"roots": string(a.pem), "mail": map[string]any{"host": "localhost", "port": ports[endpoint], "security": security,
			"user": "user", "password": "pass word", "sender": map[string]any{"address": "login@example.com", "name": "Exämple"}}})
		if err != nil {
			t.Fatal(err)
		}
		r := rig.Start(t, rig.Options{Configuration: b})
		if s := ended(t, r, put(t, r, letter(t, r, "Your code is 123456."))); s.State != wire.SendIncluded {
			t.Fatalf("%s: %+v", endpoint, s)
		}
		got := <-messages
		if got.Door != endpoint || got.User != "user" || got.From != "login@example.com" || len(got.To) != 1 || got.To[0] != "ada@example.com" || !strings.Contains(got.Content, "Your code is 123456.") {
			t.Errorf("%s: %+v", endpoint, got)
		}
		for to, want := range map[string]wire.SendState{"nobody@example.com": wire.SendRefused, "spam@example.com": wire.SendRefused} {
			mail, err := (&org.Mail{To: to, Subject: "s", Text: "t", ID: messageID}).Encode()
			if err != nil {
				t.Fatal(err)
			}
			now := uint64(r.NowMs())
			if s := ended(t, r, put(t, r, org.Send{Kind: org.SendMail, DueMs: now, ExpiresMs: now + 60_000, Content: mail})); s.State != want {
				t.Errorf("%s: %s: %+v", endpoint, to, s)
			}
		}
		// What became of each is told in the server's own words.
		for to, want := range map[string]string{"ada@example.com": "250 2.0.0 queued", "nobody@example.com": "550 5.1.1 no such mailbox", "spam@example.com": "554 5.7.1 refused", "later@example.com": "451 4.2.1 try later"} {
			if to == "later@example.com" {
				put(t, r, letterTo(t, r, to, 3, "t"))
			}
			d := events(t, r, to, 2)[0]["details"].(object)
			if d["deliverySmtpResponse"] != want && d["diagnosticCode"] != want {
				t.Errorf("%s: %s: %v", endpoint, to, d)
			}
		}
		quiet(t, r)
		r.Kill()
	}
	if len(messages) != 0 {
		t.Errorf("%d more arrived", len(messages))
	}
}
