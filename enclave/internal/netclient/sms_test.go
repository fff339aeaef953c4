package netclient_test

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/secret/secrettest"
)

func gateway(at string) netclient.Gateway {
	return netclient.Gateway{URL: at, User: "AC1", Password: secrettest.Of([]byte("pass:word")), From: "+15005550006"}
}

// The form as net/http's server reads it.
func TestText(t *testing.T) {
	settled(t)
	var got []map[string]string
	server := httpsServer(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		seen := map[string]string{"user": user, "password": password, "path": r.URL.Path, "key": r.Header.Get("Idempotency-Key"), "method": r.Method}
		if r.ParseForm() == nil {
			for k := range r.PostForm {
				seen[k] = strings.Join(r.PostForm[k], "|")
			}
		}
		got = append(got, seen)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"sid":"SM1","status":"queued","to":null,"price":-0.5}`)
	})
	c := client(t, to(server.Listener.Addr().String()))
	for _, body := range []string{"Your code is 123456", "a&To=+19999999999", "a=b%20c+d\n\"é€😀\"", strings.Repeat("é", netclient.MaxText)} {
		for _, id := range []string{"", "5f2d-1"} {
			o := c.Text(t.Context(), gateway("https://"+host+"/2010/Messages.json"), netclient.Text{ID: id, To: "+4915112345678", Body: body})
			if o.Result != netclient.Delivered || o.ID != "SM1" || o.Code != 201 || o.Err != nil {
				t.Errorf("%.20q: %+v", body, o)
				continue
			}
			want := map[string]string{"user": "AC1", "password": "pass:word", "path": "/2010/Messages.json", "key": id, "method": "POST",
				"To": "+4915112345678", "From": "+15005550006", "Body": body}
			if last := got[len(got)-1]; !maps.Equal(last, want) {
				t.Errorf("the gateway saw %v", last)
			}
		}
	}
}

func TestGatewaysThatRefuse(t *testing.T) {
	answer := func(status, body string) string {
		return strings.Replace(ok(body), "200 OK", status, 1)
	}
	const sid = `{"sid":"SM1"}`
	for _, c := range []struct {
		answer string
		result netclient.Result
		code   int
	}{
		{answer("200 OK", sid), netclient.Delivered, 200}, {answer("201 Created", ` {"a":[{}],"sid":"SM1"} `), netclient.Delivered, 201}, {answer("202 Accepted", sid), netclient.Delivered, 202},
		{answer("400 Bad Request", `{"code":21211,"message":"CANARY"}`), netclient.Permanent, 400}, {answer("401 Unauthorized", sid), netclient.Permanent, 401},
		{answer("403 Forbidden", ""), netclient.Permanent, 403}, {answer("404 Not Found", ""), netclient.Permanent, 404}, {answer("302 Found", sid), netclient.Permanent, 302},
		{answer("408 Request Timeout", ""), netclient.Temporary, 408}, {answer("425 Too Early", ""), netclient.Temporary, 425}, {answer("429 Too Many Requests", ""), netclient.Temporary, 429},
		{answer("500 Internal Server Error", sid), netclient.Temporary, 500}, {answer("502 Bad Gateway", ""), netclient.Temporary, 502}, {answer("503 Service Unavailable", ""), netclient.Temporary, 503},
		{"HTTP/1.1 204 No Content\r\n\r\n", netclient.Permanent, 204}, {answer("200 OK", ""), netclient.Permanent, 200}, {answer("200 OK", "<html>"), netclient.Permanent, 200},
		{answer("200 OK", "{}"), netclient.Permanent, 200}, {answer("200 OK", `{"sid":""}`), netclient.Permanent, 200}, {answer("200 OK", `{"sid":5}`), netclient.Permanent, 200},
		{answer("200 OK", `{"sid":null}`), netclient.Permanent, 200}, {answer("200 OK", `{"SID":"SM1"}`), netclient.Permanent, 200}, {answer("200 OK", `["SM1"]`), netclient.Permanent, 200},
		{answer("200 OK", `{"sid":"SM1","sid":"SM2"}`), netclient.Permanent, 200}, {answer("200 OK", `{"sid":"SM1"}x`), netclient.Permanent, 200},
		{answer("200 OK", `{"sid":"a\nb"}`), netclient.Permanent, 200}, {answer("200 OK", `{"sid":"`+strings.Repeat("x", 200)+`"}`), netclient.Permanent, 200},
		{answer("200 OK", `{"sid":"SM1"},"document":{"sid":"SM2"}`), netclient.Permanent, 200}, {answer("200 OK", strings.Repeat("[", 100_000)), netclient.Permanent, 200},
		{"HTTP/1.1 200 OK\r\n\r\n" + sid, netclient.Temporary, 0}, {"", netclient.Temporary, 0}, {ok(sid) + ok(sid), netclient.Temporary, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := client(t, served(trusted(answering(c.answer)))).Text(t.Context(), gateway("https://"+host+"/"), netclient.Text{To: "+4915112345678", Body: "x"})
			gone(t)
			if o.Result != c.result || o.Code != c.code || (o.Err == nil) != (c.result == netclient.Delivered) || (o.ID != "") != (c.result == netclient.Delivered) {
				t.Errorf("%.80q: %+v", c.answer, o)
			}
			if o.Err != nil && (strings.Contains(o.Err.Error(), "CANARY") || len(o.Err.Error()) > 120) {
				t.Errorf("the error tells too much: %v", o.Err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		for _, serve := range []func(net.Conn){overTLS(serverTLS(unrelated.issue(nil, host)), answering(ok(sid))), func(net.Conn) {}, trusted(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })} {
			o := client(t, served(serve)).Text(t.Context(), gateway("https://"+host+"/"), netclient.Text{To: "+4915112345678", Body: "x"})
			if o.Result != netclient.Temporary || o.Err == nil {
				t.Errorf("%+v", o)
			}
		}
	})
}

func TestRefusedTexts(t *testing.T) {
	for name, change := range map[string]func(*netclient.Gateway, *netclient.Text){
		"no URL":                  func(g *netclient.Gateway, _ *netclient.Text) { g.URL = "" },
		"plain URL":               func(g *netclient.Gateway, _ *netclient.Text) { g.URL = "http://" + host + "/" },
		"user with a colon":       func(g *netclient.Gateway, _ *netclient.Text) { g.User = "a:b" },
		"user with a line":        func(g *netclient.Gateway, _ *netclient.Text) { g.User = "a\r\nb" },
		"long user":               func(g *netclient.Gateway, _ *netclient.Text) { g.User = strings.Repeat("a", 400) },
		"password with a line":    func(g *netclient.Gateway, _ *netclient.Text) { g.Password = secrettest.Of([]byte("a\nb")) },
		"long password":           func(g *netclient.Gateway, _ *netclient.Text) { g.Password = secrettest.Of(make([]byte, 2000)) },
		"no sender":               func(g *netclient.Gateway, _ *netclient.Text) { g.From = "" },
		"sender with a line":      func(g *netclient.Gateway, _ *netclient.Text) { g.From = "a\nb" },
		"long sender":             func(g *netclient.Gateway, _ *netclient.Text) { g.From = strings.Repeat("a", 100) },
		"no number":               func(_ *netclient.Gateway, m *netclient.Text) { m.To = "" },
		"number without +":        func(_ *netclient.Gateway, m *netclient.Text) { m.To = "4915112345678" },
		"number with 0":           func(_ *netclient.Gateway, m *netclient.Text) { m.To = "+0915112345678" },
		"number with a space":     func(_ *netclient.Gateway, m *netclient.Text) { m.To = "+49 15112345678" },
		"number with a name":      func(_ *netclient.Gateway, m *netclient.Text) { m.To = "whatsapp:+4915112345678" },
		"short number":            func(_ *netclient.Gateway, m *netclient.Text) { m.To = "+4915112" },
		"long number":             func(_ *netclient.Gateway, m *netclient.Text) { m.To = "+4915112345678901" },
		"number of other digits":  func(_ *netclient.Gateway, m *netclient.Text) { m.To = "+٤٩١٥١١٢٣" },
		"no body":                 func(_ *netclient.Gateway, m *netclient.Text) { m.Body = "" },
		"long body":               func(_ *netclient.Gateway, m *netclient.Text) { m.Body = strings.Repeat("x", netclient.MaxText+1) },
		"body of no UTF-8":        func(_ *netclient.Gateway, m *netclient.Text) { m.Body = "\xff" },
		"body with a NUL":         func(_ *netclient.Gateway, m *netclient.Text) { m.Body = "a\x00b" },
		"body with an escape":     func(_ *netclient.Gateway, m *netclient.Text) { m.Body = "a\x1b[2Jb" },
		"id with a line":          func(_ *netclient.Gateway, m *netclient.Text) { m.ID = "a\r\nb" },
		"id with a space":         func(_ *netclient.Gateway, m *netclient.Text) { m.ID = "a b" },
		"long id":                 func(_ *netclient.Gateway, m *netclient.Text) { m.ID = strings.Repeat("a", 200) },
		"loopback, not permitted": func(g *netclient.Gateway, _ *netclient.Text) { g.URL = "http://127.0.0.1/" },
	} {
		g, m := gateway("https://"+host+"/"), netclient.Text{ID: "1", To: "+4915112345678", Body: "x"}
		change(&g, &m)
		o := client(t, unreached(t)).Text(t.Context(), g, m)
		if o.Result != netclient.Permanent {
			t.Errorf("%s: %+v", name, o)
		}
		kind(t, o.Err, netclient.Refused)
	}
}

// An answer's id is what encoding/json reads, or there is none.
func FuzzSID(f *testing.F) {
	for _, text := range []string{`{"sid":"SM1"}`, `{"a":{"b":[1,2,null]},"sid":"\u0065"}`, `{}`, ` {"sid":"x"} `, `{"sid":"x"},"document":{}`, `{"sid":"x","sid":"y"}`, `{"a":1,"a":1,"sid":"x"}`, `[]`, `null`, `{"a":}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		id, err := netclient.SID(text)
		if err != nil {
			return
		}
		var want map[string]any
		if err := json.Unmarshal(text, &want); err != nil || want["sid"] != id {
			t.Fatalf("%q: sid is %q; encoding/json has %v, %v", text, id, want["sid"], err)
		}
	})
}
