package inbox_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"cloister/sim/inbox"
)

func form(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

const (
	formType = "application/x-www-form-urlencoded"
	right    = "Basic dXNlcjpwYXNzd29yZA==" // user:password
)

func TestGateway(t *testing.T) {
	w := start(t)
	send := func(key, body string) string {
		a, b := w.ask("POST", "/sms", body, "Content-Type", formType, "Authorization", right, "Idempotency-Key", key)
		var out struct{ SID string }
		if err := json.Unmarshal(b, &out); err != nil || a.StatusCode != http.StatusCreated || out.SID == "" {
			t.Fatalf("%d %s: %v", a.StatusCode, b, err)
		}
		return out.SID
	}
	first := send("k1", form("To", "+15551234567", "From", "Wallet", "Body", "Your code for Wallet is 4815162342 or 481516"))
	if again := send("k1", form("To", "+15551234567", "From", "Wallet", "Body", "Your code for Wallet is 481516")); again != first {
		t.Errorf("tried again: %s is not %s", again, first)
	}
	if other := send("k2", form("To", "+15551234567", "From", "Wallet", "Body", "zwei\nZeilen")); other == first {
		t.Error("another key gave the same sid")
	}
	send("", form("To", "+4912345678", "From", "Wallet", "Body", "x"))
	send("", form("To", "+4912345678", "From", "Wallet", "Body", "x"))
	if n := len(w.messages("")); n != 4 {
		t.Errorf("%d messages", n)
	}
	m := w.messages("?to=" + url.QueryEscape("+15551234567"))
	if len(m) != 2 || m[0].Text != "zwei\nZeilen" {
		t.Fatalf("%+v", m)
	}
	if want := (inbox.Message{ID: strings.TrimPrefix(first, "SM"), Kind: "text", From: "Wallet", To: "+15551234567", Text: "Your code for Wallet is 4815162342 or 481516", ReceivedAt: noon, Code: "481516"}); m[1] != want {
		t.Errorf("got  %+v\nwant %+v", m[1], want)
	}
}

func TestGatewayRefuses(t *testing.T) {
	good := form("To", "+15551234567", "From", "Wallet", "Body", "x")
	for _, c := range []struct {
		name, body string
		status     int
		head       []string
	}{
		{"nobody", good, 401, nil},
		{"wrong password", good, 401, []string{"Authorization", "Basic dXNlcjp3cm9uZw=="}},
		{"wrong user", good, 401, []string{"Authorization", "Basic ZXZlOnBhc3N3b3Jk"}},
		{"no number", form("From", "Wallet", "Body", "x"), 400, []string{"Authorization", right}},
		{"no words", form("To", "+15551234567", "From", "Wallet"), 400, []string{"Authorization", right}},
		{"a long number", form("To", strings.Repeat("1", 33), "From", "Wallet", "Body", "x"), 400, []string{"Authorization", right}},
		{"long words", form("To", "1", "From", "Wallet", "Body", strings.Repeat("x", 6401)), 400, []string{"Authorization", right}},
		{"a long key", good, 400, []string{"Authorization", right, "Idempotency-Key", strings.Repeat("k", 129)}},
		{"a body without end", strings.Repeat("x", 1<<17), 400, []string{"Authorization", right}},
		{"another site's page", good, 403, []string{"Authorization", right, "Sec-Fetch-Site", "cross-site"}},
		{"a page of an older browser", good, 403, []string{"Authorization", right, "Origin", "http://evil.example"}},
		{"a name made to point here", good, 421, []string{"Authorization", right, "Host", "evil.example"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			a, b := w.ask("POST", "/sms", c.body, append(c.head, "Content-Type", formType)...)
			if a.StatusCode != c.status {
				t.Errorf("%d %s", a.StatusCode, b)
			}
			if m := w.messages(""); len(m) != 0 {
				t.Errorf("it arrived: %+v", m)
			}
		})
	}
}

const evil = `</title><script>alert(1)</script><img src=x onerror=alert(1)>`

// What a stranger writes reaches the browser as JSON or in a document that can do
// nothing.
func TestHostileMessage(t *testing.T) {
	w := start(t)
	if err := w.mail("a@example.com", []string{"b@example.com"}, "Subject: "+evil+"\nContent-Type: text/html\n\n"+evil); err != nil {
		t.Fatal(err)
	}
	id := w.messages("")[0].ID
	for _, path := range []string{"/", "/messages", "/messages/" + id} {
		a, b := w.ask("GET", path, "")
		if a.StatusCode != 200 || strings.Contains(string(b), "<script>alert") || strings.Contains(string(b), "<img") {
			t.Errorf("%s: %d %s", path, a.StatusCode, b)
		}
		if a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
	a, b := w.ask("GET", "/messages/"+id+"/html", "")
	if !strings.HasPrefix(string(b), `<!doctype html><meta charset="utf-8"><base target="_blank">`+evil) {
		t.Errorf("%s", b)
	}
	policy := a.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none';") || strings.Contains(policy, "script") {
		t.Errorf("policy %q", policy)
	}
}

func TestPage(t *testing.T) {
	w := start(t)
	a, b := w.ask("GET", "/", "")
	policy := a.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	for _, name := range []string{"inbox.css", "inbox.js"} {
		if !strings.Contains(string(b), `"`+name+`"`) {
			t.Errorf("the page does not load %s", name)
		}
		if a, _ := w.ask("GET", "/"+name, ""); a.StatusCode != 200 || strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %v", name, a.StatusCode, a.Header)
		}
	}
	if strings.Contains(string(b), "http://") || strings.Contains(string(b), "https://") || strings.Contains(string(b), " style=") || strings.Contains(string(b), "onclick") {
		t.Error("the page needs what its policy forbids")
	}
}

func TestJSON(t *testing.T) {
	w := start(t)
	if _, b := w.ask("GET", "/messages", ""); strings.TrimSpace(string(b)) != `{"messages":[]}` {
		t.Errorf("empty: %s", b)
	}
	id := w.box.Add(inbox.Message{Kind: "text", To: "1", Text: "x"})
	for _, c := range []struct {
		method, path string
		status       int
		head         []string
	}{
		{"GET", "/messages/" + id, 200, nil},
		{"GET", "/messages/" + id, 421, []string{"Host", "evil.example"}},
		{"GET", "/messages", 421, []string{"Host", "127.0.0.1:1"}},
		{"GET", "/messages/nothing", 404, nil},
		{"GET", "/messages/nothing/html", 404, nil},
		{"GET", "/nothing", 404, nil},
		{"PUT", "/messages", 405, nil},
		{"DELETE", "/messages", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"DELETE", "/messages", 204, []string{"Sec-Fetch-Site", "same-origin"}},
		{"GET", "/messages/" + id, 404, nil},
	} {
		if a, b := w.ask(c.method, c.path, "", c.head...); a.StatusCode != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.StatusCode, b)
		}
	}
}
