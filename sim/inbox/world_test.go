package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"strings"
	"testing"
	"time"

	"cloister/sim/inbox"
	"cloister/sim/loopback"
)

var (
	noon    = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	gateway = inbox.Gateway{User: "user", Password: "password"}
)

// A world is an inbox with its two listeners.
type world struct {
	t    *testing.T
	box  *inbox.Box
	smtp string
	url  string
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, box: inbox.NewBox(func() time.Time { return noon })}
	l, err := loopback.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.box.ServeMail(ctx, l) }()
	s := httptest.NewUnstartedServer(nil)
	s.Config.Handler = loopback.Guard(s.Listener.Addr(), w.box.Handler(gateway))
	s.Start()
	t.Cleanup(func() {
		s.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.smtp, w.url = l.Addr().String(), s.URL
	return w
}

// mail sends by the standard library's client.
func (w *world) mail(from string, to []string, text string) error {
	return smtp.SendMail(w.smtp, nil, from, to, []byte(strings.ReplaceAll(text, "\n", "\r\n")))
}

// line is a raw conversation: everything of text is sent, everything that comes
// back is returned.
func (w *world) line(text string) string {
	w.t.Helper()
	c, err := net.Dial("tcp", w.smtp)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = io.WriteString(c, text) }() // the server may hang up first
	b, _ := io.ReadAll(c)
	return string(b)
}

// ask sends an HTTP request and reads the answer.
func (w *world) ask(method, path string, body string, head ...string) (*http.Response, []byte) {
	w.t.Helper()
	r, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		if head[i] == "Host" {
			r.Host = head[i+1]
		}
		r.Header.Set(head[i], head[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return a, b
}

// messages are those that the JSON interface tells.
func (w *world) messages(query string) []inbox.Message {
	w.t.Helper()
	a, b := w.ask("GET", "/messages"+query, "")
	var out struct{ Messages []inbox.Message }
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil || a.StatusCode != 200 {
		w.t.Fatalf("%d %s: %v", a.StatusCode, b, err)
	}
	return out.Messages
}
