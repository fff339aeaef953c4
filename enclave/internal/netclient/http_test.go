package netclient_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/enclave/internal/netclient"
)

// httpsServer is net/http's, with a certificate under our root.
func httpsServer(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{valid}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestAgreesWithNetHTTP asks net/http's server with its client and with ours, and
// wants the same of both.
func TestAgreesWithNetHTTP(t *testing.T) {
	settled(t)
	r := mrand.New(mrand.NewPCG(1, 2))
	type scene struct {
		status int
		body   []byte
		flush  int // how often in between, which makes chunks
		fields [][2]string
	}
	var scenes []scene
	statuses := []int{200, 200, 200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 409, 418, 429, 500, 502, 503, 599}
	sizes := []int{0, 1, 2, 7, 100, 2047, 2048, 2049, 4095, 4096, 4097, 65535, 65536, netclient.MaxBody - 1, netclient.MaxBody}
	for i := range 400 {
		s := scene{status: statuses[i%len(statuses)], body: make([]byte, sizes[r.IntN(len(sizes))]), flush: r.IntN(4)}
		if r.IntN(3) == 0 {
			s.body = s.body[:min(len(s.body), r.IntN(5000))]
		}
		_, _ = rand.Read(s.body)
		if s.status == 204 || s.status == 304 {
			s.body = nil
		}
		for j := range r.IntN(6) {
			value := strings.Repeat("v\t w", r.IntN(40)) + "é"
			s.fields = append(s.fields, [2]string{"X-Field-" + strconv.Itoa(j%4), strings.TrimSpace(value)})
		}
		if s.status/100 == 3 {
			s.fields = append(s.fields, [2]string{"Location", "https://elsewhere.example.com/"})
		}
		scenes = append(scenes, s)
	}
	type seen struct {
		method, uri, host, body string
		header                  http.Header
	}
	var requests []seen
	server := httpsServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, seen{r.Method, r.RequestURI, r.Host, string(body), r.Header})
		n, _ := strconv.Atoi(r.URL.Query().Get("scene"))
		s := scenes[n]
		for _, f := range s.fields {
			w.Header().Add(f[0], f[1])
		}
		w.WriteHeader(s.status)
		rest := s.body
		for i := range s.flush {
			cut := len(rest) / (i + 2)
			_, _ = w.Write(rest[:cut])
			w.(http.Flusher).Flush()
			rest = rest[cut:]
		}
		_, _ = w.Write(rest)
	})
	address := server.Listener.Addr().String()
	ours := client(t, to(address))
	theirs := &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", address)
			},
			TLSClientConfig: &tls.Config{RootCAs: root.pool()}, DisableKeepAlives: true, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for i, s := range scenes {
		ask := netclient.Request{Method: "GET", URL: fmt.Sprintf("https://%s/a%%20b/c?scene=%d&q=%%26", host, i),
			Fields: []netclient.Field{{Name: "X-Asked", Value: []byte("a; b=\"c\"")}, {Name: "User-Agent", Value: []byte("cloister")}, {Name: "Accept-Encoding-Not", Value: nil}}}
		if i%3 == 0 {
			ask.Method, ask.Body = "POST", s.body
		}
		got, err := ours.Exchange(t.Context(), ask)
		if err != nil {
			t.Errorf("scene %d (%d, %d bytes): %v", i, s.status, len(s.body), err)
			continue
		}
		request, err := http.NewRequest(ask.Method, ask.URL, bytes.NewReader(ask.Body))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range ask.Fields {
			request.Header[f.Name] = []string{string(f.Value)}
		}
		request.Header.Set("Accept-Encoding", "identity")
		answer, err := theirs.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		header := got.Header()
		for _, name := range []string{"Date", "Content-Length", "Transfer-Encoding", "Connection"} { // what net/http takes away, or changes by the second
			header.Del(name)
			answer.Header.Del(name)
		}
		if got.Status != answer.StatusCode || !bytes.Equal(got.Body, body) || !reflect.DeepEqual(header, answer.Header) {
			t.Errorf("scene %d: %d, %d bytes, %v; net/http has %d, %d bytes, %v", i, got.Status, len(got.Body), header, answer.StatusCode, len(body), answer.Header)
		}
		mine, other := requests[2*i], requests[2*i+1]
		if !reflect.DeepEqual(mine, other) {
			t.Errorf("scene %d: the server saw %+v, and from net/http %+v", i, mine, other)
		}
	}
	t.Logf("counted: %d exchanges agree with net/http", len(scenes))
}

// What we take, net/http takes with the same meaning; what we refuse it may take.
func agree(t *testing.T, text []byte) bool {
	t.Helper()
	got, err := netclient.ReadResponse(bytes.NewReader(text))
	if err != nil {
		return false
	}
	in := bufio.NewReader(bytes.NewReader(text))
	for {
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%.300q: net/http refuses what was taken: %v", text, err)
		}
		if answer.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatalf("%.300q: net/http refuses the body that was taken: %v", text, err)
		}
		header := got.Header()
		header.Del("Transfer-Encoding")
		if len(answer.TransferEncoding) > 0 && !slices.Equal(answer.TransferEncoding, []string{"chunked"}) {
			t.Fatalf("%.300q: net/http sees %v", text, answer.TransferEncoding)
		}
		// net/http adds this to the head of an answer that is not for reading on.
		if got.Status != answer.StatusCode || !bytes.Equal(got.Body, body) || !reflect.DeepEqual(header, answer.Header) {
			t.Fatalf("%.300q: %d %q %v; net/http has %d %q %v", text, got.Status, got.Body, header, answer.StatusCode, body, answer.Header)
		}
		return true
	}
}

// Answers that are taken.
var wellFormed = []string{
	ok(""),
	ok("hello"),
	ok("hello", "Content-Type: application/json", "X-Empty:", "X-Spaces: \t a  b\t "),
	"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
	"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000005\r\nhello\r\na\r\n0123456789\r\nA\r\n0123456789\r\n000\r\n\r\n",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok("hello"),
	"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200 \xe9t\xe9\r\nX: \xff\xfe\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 16000) + "\r\nContent-Length: 0\r\n\r\n",
}

// Answers that are refused, and how.
var malformed = []struct {
	text string
	kind netclient.Kind
}{
	{"", 0}, {"\r\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\n", 0}, {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", 0},
	// The status line.
	{"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 101 Switching Protocols\r\n\r\n" + ok(""), netclient.Garbled},
	{" HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"ICY 200 OK\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"SSH-2.0-OpenSSH_9.2\r\n", netclient.Garbled}, {"HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 6) + ok(""), netclient.Garbled},
	// Line ends.
	{"HTTP/1.1 200 OK\nContent-Length: 0\n\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nX: a\r\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	// Fields.
	{"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nX\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nX: \x00\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nX\x00: a\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nX: \x7f\r\nContent-Length: 0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nX\xe9: a\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nX(: a\r\nContent-Length: 0\r\n\r\n", netclient.Garbled},
	// The length.
	{"HTTP/1.1 200 OK\r\n\r\nuntil it closes", netclient.Garbled}, {"HTTP/1.0 200 OK\r\n\r\nuntil it closes", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nhello", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nContent-Length: 5 5\r\n\r\nhello", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nContent-Length: 5.0\r\n\r\nhello", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nContent-Length: \xd9\xa5\r\n\r\nhello", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nContent-Length: 262145\r\n\r\n", netclient.TooLarge}, {"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551621\r\n\r\nhello", netclient.TooLarge},
	{"HTTP/1.1 200 OK\r\nContent-Length: " + strings.Repeat("9", 5000) + "\r\n\r\n", netclient.TooLarge},
	{"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", netclient.Garbled}, {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello", netclient.Garbled},
	// Codings.
	{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", netclient.Garbled}, {"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n", netclient.Garbled},
	{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", netclient.Garbled},
	{"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", netclient.Garbled},
	// Chunks.
	{chunked("5\r\nhello\r\n"), 0}, {chunked("5\r\nhello\r\n0\r\n"), 0}, {chunked("5\r\nhel"), 0},
	{chunked("5;a=b\r\nhello\r\n0\r\n\r\n"), netclient.Garbled}, {chunked("5 \r\nhello\r\n0\r\n\r\n"), netclient.Garbled}, {chunked(" 5\r\nhello\r\n0\r\n\r\n"), netclient.Garbled},
	{chunked("+5\r\nhello\r\n0\r\n\r\n"), netclient.Garbled}, {chunked("-1\r\nhello\r\n0\r\n\r\n"), netclient.Garbled}, {chunked("0x5\r\nhello\r\n0\r\n\r\n"), netclient.Garbled},
	{chunked("5_0\r\nhello\r\n0\r\n\r\n"), netclient.Garbled}, {chunked("\r\nhello\r\n0\r\n\r\n"), netclient.Garbled}, {chunked("g\r\nhello\r\n0\r\n\r\n"), netclient.Garbled},
	{chunked("5\nhello\n0\n\n"), netclient.Garbled}, {chunked("5\r\nhello0\r\n\r\n"), netclient.Garbled}, {chunked("5\r\nhelloo\r\n0\r\n\r\n"), netclient.Garbled},
	{chunked("5\r\nhello\n0\r\n\r\n"), netclient.Garbled}, {chunked("5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"), netclient.Garbled},
	{chunked("5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n"), netclient.Garbled}, {chunked("40001\r\n"), netclient.TooLarge}, {chunked("ffffffff\r\n"), netclient.TooLarge},
	{chunked("100000005\r\nhello\r\n0\r\n\r\n"), netclient.TooLarge}, {chunked("10000000000000005\r\nhello\r\n0\r\n\r\n"), netclient.TooLarge},
	{chunked("3ffff\r\n" + strings.Repeat("x", 0x3ffff) + "\r\n2\r\nxx\r\n0\r\n\r\n"), netclient.TooLarge},
	// Too much.
	{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", netclient.MaxHead), netclient.TooLarge}, {"HTTP/1.1 200 " + strings.Repeat("x", netclient.MaxHead), netclient.TooLarge},
	{"HTTP/1.1 200 OK\r\n" + strings.Repeat("x:\r\n", 300), netclient.TooLarge}, {"HTTP/1.1 200 OK\r\n" + strings.Repeat("x: "+strings.Repeat("y", 200)+"\r\n", 90), netclient.TooLarge},
	{"HTTP/1.1 100 Continue\r\nX: " + strings.Repeat("x", 10000) + "\r\n\r\n" + ok("", "X: "+strings.Repeat("x", 10000)), netclient.TooLarge},
	// A second answer.
	{ok("hello") + ok("again"), netclient.Garbled}, {ok("hello") + "\r\n", netclient.Garbled}, {"HTTP/1.1 204 No Content\r\n\r\nx", netclient.Garbled},
	{chunked("0\r\n\r\n") + ok("again"), netclient.Garbled},
}

func chunked(body string) string {
	return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
}

func TestWellFormed(t *testing.T) {
	for _, text := range wellFormed {
		if !agree(t, []byte(text)) {
			_, err := netclient.ReadResponse(strings.NewReader(text))
			t.Errorf("%.100q is refused: %v", text, err)
		}
		// Cut anywhere it is no answer; a body must not end where the stream does.
		for i := 0; i < len(text); i += 1 + i/200 {
			if _, err := netclient.ReadResponse(strings.NewReader(text[:i])); err == nil {
				t.Errorf("%.100q is taken though it is cut at %d", text, i)
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		_, err := netclient.ReadResponse(strings.NewReader(c.text))
		switch {
		case err == nil:
			t.Errorf("%.100q is taken", c.text)
		case c.kind == 0 && err != io.ErrUnexpectedEOF:
			t.Errorf("%.100q: %v", c.text, err)
		case c.kind != 0:
			if k := netclient.KindOf(err); k != c.kind {
				t.Errorf("%.100q: kind %s (%v), want %s", c.text, k, err, c.kind)
			}
		}
	}
}

func TestField(t *testing.T) {
	r, err := netclient.ReadResponse(strings.NewReader(ok("", "Cache-Control: max-age=5", "Set-Cookie: a", "Set-Cookie: b")))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := r.Field("cache-CONTROL"); v != "max-age=5" || !ok {
		t.Errorf("Cache-Control is %q, %t", v, ok)
	}
	for _, name := range []string{"Set-Cookie", "Missing", ""} {
		if v, ok := r.Field(name); v != "" || ok {
			t.Errorf("%s is %q, %t", name, v, ok)
		}
	}
}

func FuzzReadResponse(f *testing.F) {
	for _, text := range wellFormed {
		if len(text) < 1000 {
			f.Add([]byte(text))
		}
	}
	for _, c := range malformed {
		if len(c.text) < 1000 { // long ones only cost time
			f.Add([]byte(c.text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) { agree(t, text) })
}

// Requests that do not go out: nobody is dialed.
func TestRefusedRequests(t *testing.T) {
	get := func(url string, fields ...netclient.Field) netclient.Request {
		return netclient.Request{Method: "GET", URL: url, Fields: fields}
	}
	field := func(name, value string) netclient.Request {
		return get("https://a.example.com/", netclient.Field{Name: name, Value: []byte(value)})
	}
	cases := []netclient.Request{
		{Method: "PUT", URL: "https://a.example.com/"}, {Method: "get", URL: "https://a.example.com/"}, {Method: "", URL: "https://a.example.com/"},
		{Method: "GET / HTTP/1.1\r\nX: y\r\n\r\nGET", URL: "https://a.example.com/"}, {Method: "GET", URL: "https://a.example.com/", Body: []byte("x")},
		{Method: "POST", URL: "https://a.example.com/", Body: make([]byte, netclient.MaxBody+1)},
		get("http://a.example.com/"), get("http://127.0.0.1/"), get("http://localhost/"), get("ftp://a.example.com/"), get(""), get("https://"), get("https:///x"),
		get("//a.example.com/"), get("https:a.example.com/"), get("HTTPS://a.example.com/"), get("https://user@a.example.com/"), get("https://user:pass@a.example.com/"),
		get("https://a.example.com/#x"), get("https://a.example.com/ x"), get("https://a.example.com/\r\nX: y"), get("https://a.example.com/\nX"),
		get("https://a.example.com\r\n/"), get("https://a.example.com/\x00"), get("https://a.example.com/é"), get("https://é.example.com/"),
		get("https://a.example.com/%"), get("https://a.example.com/%2"), get("https://a.example.com/%zz"), get("https://a.example.com/<x>"), get(`https://a.example.com\@b/`),
		get(`https://a.example.com/\`), get("https://a.example.com:/"), get("https://a.example.com:0/"), get("https://a.example.com:65536/"), get("https://a.example.com:0443/"),
		get("https://a.example.com:+443/"), get("https://a.example.com:443:443/"), get("https://a..example.com/"), get("https://.example.com/"), get("https://a.example.com./"),
		get("https://-a.example.com/"), get("https://a-.example.com/"), get("https://a_b.example.com/"), get("https://*.example.com/"), get("https://127.1/"),
		get("https://0x7f.0.0.1/"), get("https://2130706433/"), get("https://127.0.0.01/"), get("https://[::1"), get("https://[::1]x/"), get("https://[fe80::1%25eth0]/"),
		get("https://[127.0.0.1]/"), get("https://::1/"), get("https://[::ffff:127.0.0.1]/"), get("https://[0:0:0:0:0:0:0:1]/"), get("https://[a.example.com]/"),
		get("https://" + strings.Repeat("a", 64) + ".example.com/"), get("https://" + strings.Repeat("a.", 127) + "com/"), get("https://a.example.com/" + strings.Repeat("x", netclient.MaxURL)),
		field("", "x"), field("X Y", "x"), field("X:", "x"), field("X\r\nY", "x"), field("X\x00", "x"), field("é", "x"), field("X", "a\r\nY: b"), field("X", "a\nb"), field("X", "a\rb"),
		field("X", "a\x00b"), field("X", "é"), field("X", " a"), field("X", "a "), field("X", "a\tb"), field("X", "\x7f"), field("X", strings.Repeat("x", netclient.MaxFields)),
		field("Host", "b"), field("host", "b"), field("Content-Length", "5"), field("CONTENT-LENGTH", "5"), field("Transfer-Encoding", "chunked"), field("Connection", "keep-alive"),
		field("Accept-Encoding", "gzip"), field("Expect", "100-continue"), field("Upgrade", "h2c"), field("TE", "trailers"), field("Trailer", "X"), field("Keep-Alive", "1"),
		field("Proxy-Connection", "x"), field("Proxy-Authorization", "x"),
	}
	c := client(t, unreached(t))
	for _, r := range cases {
		_, err := c.Exchange(t.Context(), r)
		if netclient.KindOf(err) != netclient.Refused {
			t.Errorf("%q %.80q %.80q: %v", r.Method, r.URL, r.Fields, err)
		}
	}
	loose := client(t, unreached(t), onLoopback)
	for _, u := range []string{"http://a.example.com/", "http://127.0.0.2/", "http://localhost.example.com/", "http://[::2]/", "http://0.0.0.0/", "http://10.0.0.1/"} {
		if _, err := loose.Exchange(t.Context(), get(u)); netclient.KindOf(err) != netclient.Refused {
			t.Errorf("%s: %v", u, err)
		}
	}
}

// unreached fails the test when something is dialed.
func unreached(t *testing.T) netclient.Dial {
	return func(context.Context, string, uint16) (net.Conn, error) {
		t.Error("a connection was made")
		return nil, io.EOF
	}
}

// What is dialed, and what is said there.
func TestWhereItGoes(t *testing.T) {
	for _, c := range []struct{ url, dialed, host, target string }{
		{"https://a.example.com", "a.example.com:443", "a.example.com", "/"},
		{"https://A.Example.COM:8443/x", "a.example.com:8443", "a.example.com:8443", "/x"},
		{"https://a.example.com:443/x?y=z", "a.example.com:443", "a.example.com", "/x?y=z"},
		{"https://a.example.com?y=/z", "a.example.com:443", "a.example.com", "/?y=/z"},
		{"https://192.0.2.1/", "192.0.2.1:443", "192.0.2.1", "/"},
		{"https://[2001:db8::1]:8443//x", "[2001:db8::1]:8443", "[2001:db8::1]:8443", "//x"},
		{"http://localhost:8080/", "localhost:8080", "localhost:8080", "/"},
		{"http://[::1]/", "[::1]:80", "[::1]", "/"},
		{"https://idp:80/", "idp:80", "idp:80", "/"},
	} {
		d := &counted{dial: func(context.Context, string, uint16) (net.Conn, error) { return nil, io.EOF }}
		_, err := client(t, d.Dial, onLoopback).Exchange(t.Context(), netclient.Request{Method: "GET", URL: c.url})
		kind(t, err, netclient.Away)
		if len(d.asked) != 1 || d.asked[0] != c.dialed {
			t.Errorf("%s: dialed %v", c.url, d.asked)
		}
		text, err := netclient.Written(netclient.Request{Method: "GET", URL: c.url})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil || r.Host != c.host || r.RequestURI != c.target || r.Method != "GET" || !r.Close {
			t.Errorf("%s: net/http reads %q as %+v, %v", c.url, text, r, err)
		}
	}
}

// Every URL that is taken, net/url understands in the same way.
func FuzzURL(f *testing.F) {
	for _, u := range []string{"https://a.example.com/x?y=z", "http://[::1]:80/%20", "https://1.2.3.4:5?", "https://a.example.com:65535//@:", "https://[2001:db8::1]"} {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, text string) {
		secure, host, port, target, err := netclient.ParseURL(text)
		if err != nil {
			return
		}
		u, err := url.Parse(text)
		if err != nil {
			t.Fatalf("%q is taken, and net/url refuses it: %v", text, err)
		}
		wantPort := u.Port()
		if wantPort == "" {
			wantPort = map[string]string{"https": "443", "http": "80"}[u.Scheme]
		}
		if secure != (u.Scheme == "https") || host != strings.ToLower(u.Hostname()) || strconv.Itoa(int(port)) != wantPort || target != u.RequestURI() || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q is %t %q %d %q, net/url has %+v", text, secure, host, port, target, u)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	whole := netclient.Config{Dial: unreached(t), Clock: clock{}, Rand: rand.Reader, Roots: root.pool()}
	for name, spoil := range map[string]func(*netclient.Config){
		"dial": func(c *netclient.Config) { c.Dial = nil }, "clock": func(c *netclient.Config) { c.Clock = nil },
		"randomness": func(c *netclient.Config) { c.Rand = nil }, "roots": func(c *netclient.Config) { c.Roots = nil },
	} {
		c := whole
		spoil(&c)
		if _, err := netclient.New(c); err == nil {
			t.Errorf("no %s, and no error", name)
		}
	}
}
