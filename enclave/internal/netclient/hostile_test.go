package netclient_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloister/enclave/internal/netclient"
)

// The other ends that a host may lead us to. Each test runs in a bubble whose time
// is made: it waits for no real second, and it fails when a goroutine is left.
//
// most bounds the bytes that may have been read by then.
var hostile = []struct {
	name  string
	serve func(net.Conn)
	kind  netclient.Kind
	most  int64
}{
	// The certificate.
	{"certificate for another name", overTLS(serverTLS(root.issue(nil, "evil.example.com")), answering(ok(""))), netclient.Untrusted, 8 << 10},
	{"certificate for a name below", overTLS(serverTLS(root.issue(nil, "a."+host)), answering(ok(""))), netclient.Untrusted, 8 << 10},
	{"certificate for the common name only", overTLS(serverTLS(root.issue(func(c *x509.Certificate) { c.Subject.CommonName = host })), answering(ok(""))), netclient.Untrusted, 8 << 10},
	{"wildcard of the top", overTLS(serverTLS(root.issue(nil, "*.com")), answering(ok(""))), netclient.Untrusted, 8 << 10},
	{"expired", overTLS(serverTLS(root.issue(func(c *x509.Certificate) { c.NotAfter = year(1999) }, host)), answering(ok(""))), netclient.Untrusted, 8 << 10},
	{"not yet valid", overTLS(serverTLS(root.issue(func(c *x509.Certificate) { c.NotBefore = year(2050) }, host)), answering(ok(""))), netclient.Untrusted, 8 << 10},
	{"under another root", overTLS(serverTLS(unrelated.issue(nil, host)), answering(ok(""))), netclient.Untrusted, 8 << 10},
	{"self-signed", overTLS(serverTLS(selfSigned(host)), answering(ok(""))), netclient.Untrusted, 8 << 10},
	{"for clients", overTLS(serverTLS(root.issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, host)), answering(ok(""))),
		netclient.Untrusted, 8 << 10},
	{"issued by a server's certificate", overTLS(serverTLS(issuedByLeaf(host)), answering(ok(""))), netclient.Untrusted, 8 << 10},

	// TLS.
	{"TLS 1.0", overTLS(&tls.Config{Certificates: []tls.Certificate{valid}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, answering(ok(""))), netclient.Garbled, 8 << 10},
	{"TLS 1.1", overTLS(&tls.Config{Certificates: []tls.Certificate{valid}, MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11}, answering(ok(""))), netclient.Garbled, 8 << 10},
	{"old cipher suites only", overTLS(&tls.Config{Certificates: []tls.Certificate{valid}, MaxVersion: tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_128_CBC_SHA}}, answering(ok(""))), netclient.Garbled, 8 << 10},
	{"another protocol", overTLS(&tls.Config{Certificates: []tls.Certificate{valid}, NextProtos: []string{"smtp"}}, answering(ok(""))), netclient.Garbled, 8 << 10},
	{"plain HTTP", answeringAnything(ok("")), netclient.Garbled, 8 << 10},
	{"noise", answeringAnything(strings.Repeat("\xff", 1<<20)), netclient.Garbled, 64 << 10},
	{"a record without end", answeringAnything("\x16\x03\x03\xff\xff" + strings.Repeat("\x02\xff\xff\xff", 1<<18)), netclient.Garbled, 64 << 10},
	{"a handshake of 16 MiB", answeringAnything(strings.Repeat("\x16\x03\x03\x40\x00"+"\x02\xff\xff\xff"+strings.Repeat("x", 0x4000-4), 1<<10)), netclient.Garbled, 256 << 10},
	{"close at once", func(net.Conn) {}, netclient.Away, 0},
	{"close after the first words", func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, netclient.Away, 0},
	{"cut in the handshake", cutAfter(700), netclient.Away, 700},
	{"silence", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, netclient.Late, 0},
	{"deaf", func(c net.Conn) { time.Sleep(time.Hour) }, netclient.Late, 0},
	{"dripping handshake", drip, netclient.Late, 8 << 10},

	// HTTP.
	{"close after the request", trusted(func(c net.Conn) { _ = readRequest(c) }), netclient.Away, 8 << 10},
	{"close within the head", trusted(answering("HTTP/1.1 200 OK\r\nContent-")), netclient.Away, 8 << 10},
	{"close within the body", trusted(answering("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")), netclient.Away, 8 << 10},
	{"close within a chunk", trusted(answering(chunked("64\r\nhalf"))), netclient.Away, 8 << 10},
	{"close before the last chunk", trusted(answering(chunked("4\r\nhalf\r\n"))), netclient.Away, 8 << 10},
	{"answer before the request, then silence", trusted(func(c net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		time.Sleep(time.Hour)
	}), netclient.Late, 8 << 10},
	{"silence after the request", trusted(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), netclient.Late, 8 << 10},
	{"dripping head", trusted(dripping("HTTP/1.1 200 OK\r\n", "X: y\r\n")), netclient.Late, 64 << 10},
	{"dripping body", trusted(dripping("HTTP/1.1 200 OK\r\nContent-Length: 262144\r\n\r\n", "x")), netclient.Late, 64 << 10},
	{"dripping chunks", trusted(dripping(chunked(""), "1\r\nx\r\n")), netclient.Late, 64 << 10},
	{"endless line", trusted(endless("HTTP/1.1 200 OK\r\nX: ", strings.Repeat("x", 4000))), netclient.TooLarge, 64 << 10},
	{"endless head", trusted(endless("HTTP/1.1 200 OK\r\n", strings.Repeat("X: y\r\n", 500))), netclient.TooLarge, 64 << 10},
	{"a million fields", trusted(answering("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1_000_000) + "Content-Length: 0\r\n\r\n")), netclient.TooLarge, 64 << 10},
	{"endless interim answers", trusted(endless("", "HTTP/1.1 100 Continue\r\n\r\n")), netclient.Garbled, 64 << 10},
	{"endless body of a length", trusted(endless("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n", strings.Repeat("x", 16<<10))), netclient.TooLarge, 64 << 10},
	{"endless body without a length", trusted(endless("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 16<<10))), netclient.Garbled, 64 << 10},
	{"endless chunk", trusted(endless(chunked("fffffff\r\n"), strings.Repeat("x", 16<<10))), netclient.TooLarge, 64 << 10},
	{"endless chunks", trusted(endless(chunked(""), "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n")), netclient.TooLarge, 512 << 10},
	{"endless small chunks", trusted(endless(chunked(""), strings.Repeat("1\r\nx\r\n", 1000))), netclient.TooLarge, 2 << 20},
	{"endless size of a chunk", trusted(endless(chunked(""), strings.Repeat("0", 1000))), netclient.TooLarge, 64 << 10},
	{"size of a chunk beyond 64 bits", trusted(answering(chunked("fffffffffffffffffffffff\r\nx"))), netclient.TooLarge, 64 << 10},
	{"NUL", trusted(answering("HTTP/1.1 200 OK\r\nX: \x00\r\nContent-Length: 0\r\n\r\n")), netclient.Garbled, 64 << 10},
	{"a second answer", trusted(answering(ok("CANARY") + ok("CANARY"))), netclient.Garbled, 64 << 10},
	{"what we must not repeat", trusted(answering("CANARY\r\n")), netclient.Garbled, 64 << 10},
}

// answeringAnything writes text, whatever comes.
func answeringAnything(text string) func(net.Conn) {
	return func(c net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, _ = io.WriteString(c, text)
		time.Sleep(time.Hour) // it is for the client to close
	}
}

func trusted(serve func(net.Conn)) func(net.Conn) { return overTLS(serverTLS(valid), serve) }

// dripping writes a beginning and then a little every second.
func dripping(begin, little string) func(net.Conn) {
	return func(c net.Conn) {
		if readRequest(c) != nil {
			return
		}
		_, err := io.WriteString(c, begin)
		for err == nil {
			time.Sleep(time.Second)
			_, err = io.WriteString(c, little)
		}
	}
}

// endless writes as fast as it is read.
func endless(begin, more string) func(net.Conn) {
	return func(c net.Conn) {
		if readRequest(c) != nil {
			return
		}
		_, err := io.WriteString(c, begin)
		for err == nil {
			_, err = io.WriteString(c, more)
		}
	}
}

// drip is a server whose every byte takes a second.
func drip(c net.Conn) {
	_ = tls.Server(slow{c}, serverTLS(valid)).Handshake()
}

type slow struct{ net.Conn }

func (s slow) Write(p []byte) (int, error) {
	for i := range p {
		time.Sleep(time.Second)
		if _, err := s.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// cutAfter is a server whose connection ends after n bytes.
func cutAfter(n int) func(net.Conn) {
	return func(c net.Conn) { _ = tls.Server(&cut{c, n}, serverTLS(valid)).Handshake() }
}

type cut struct {
	net.Conn
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 {
		_ = c.Close()
		return n, io.ErrClosedPipe
	}
	return n, err
}

func selfSigned(name string) tls.Certificate {
	a := newAuthority()
	a.cert.IsCA, a.cert.DNSNames = false, []string{name}
	c := a.issue(nil, name)
	c.Certificate = c.Certificate[:1]
	return c
}

// issuedByLeaf is a certificate that the holder of another made.
func issuedByLeaf(name string) tls.Certificate {
	leaf := root.issue(nil, "evil.example.com")
	parsed := must(x509.ParseCertificate(leaf.Certificate[0]))
	c := (&authority{cert: parsed, key: leaf.PrivateKey.(*ecdsa.PrivateKey)}).issue(nil, name)
	c.Certificate = append(c.Certificate, root.cert.Raw)
	return c
}

func TestHostileServers(t *testing.T) {
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &counted{dial: served(h.serve)}
				began := time.Now()
				r, err := client(t, d.Dial).Exchange(t.Context(), netclient.Request{Method: "GET", URL: "https://" + host + "/"})
				if r != nil {
					t.Errorf("an answer came out: %+v", r)
				}
				kind(t, err, h.kind)
				if took := time.Since(began); took > netclient.DefaultWait {
					t.Errorf("it took %v", took)
				}
				if n := d.read.Load(); n > h.most {
					t.Errorf("%d bytes were read", n)
				}
				if d.dials.Load() != 1 {
					t.Errorf("%d connections were made", d.dials.Load())
				}
				gone(t)
			})
		})
	}
}

// The rig itself must let a good server through, at the same bounds.
func TestHonestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []func(net.Conn){
			trusted(answering(ok("hello"))),
			trusted(func(c net.Conn) { answering(ok("hello"))(slow{c}) }),
			overTLS(&tls.Config{Certificates: []tls.Certificate{valid}, MaxVersion: tls.VersionTLS12}, answering(ok("hello"))),
			overTLS(&tls.Config{Certificates: []tls.Certificate{valid}, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true}, answering(ok("hello"))),
		} {
			r, err := client(t, served(s)).Exchange(t.Context(), netclient.Request{Method: "GET", URL: "https://" + host + "/", Wait: time.Minute})
			if err != nil || string(r.Body) != "hello" {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}

// A name is verified, shown to the server, and an address verified as one.
func TestServerName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		config := serverTLS(valid)
		config.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			names = append(names, h.ServerName)
			return nil, nil
		}
		for _, at := range []string{host, "127.0.0.1", "[::1]"} {
			if _, err := client(t, served(overTLS(config, answering(ok(""))))).Exchange(t.Context(), netclient.Request{Method: "GET", URL: "https://" + at + "/"}); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
		if strings.Join(names, ",") != host+",," {
			t.Errorf("servers were shown %q", names)
		}
		_, err := client(t, served(overTLS(config, answering(ok(""))))).Exchange(t.Context(), netclient.Request{Method: "GET", URL: "https://127.0.0.2/"})
		kind(t, err, netclient.Untrusted)
	})
}

// Certificates are judged at the enclave's time, not at the machine's.
func TestTimeIsHandedIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		brief := root.issue(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().AddDate(1, 0, 0), time.Now().AddDate(2, 0, 0)
		}, host)
		for years, want := range map[int]netclient.Kind{0: netclient.Untrusted, 1: 0, 3: netclient.Untrusted} {
			c := client(t, served(overTLS(serverTLS(brief), answering(ok("")))), func(c *netclient.Config) { c.Clock = clock{time.Duration(years) * 366 * 24 * time.Hour} })
			_, err := c.Exchange(t.Context(), netclient.Request{Method: "GET", URL: "https://" + host + "/"})
			if netclient.KindOf(err) != want {
				t.Errorf("%d years ahead: %v", years, err)
			}
		}
	})
}

// The one deadline is bounded, and holds while nobody answers the dial; who asked
// can give up earlier.
func TestDeadlines(t *testing.T) {
	never := func(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, c := range map[string]struct {
		dial   netclient.Dial
		wait   time.Duration
		giveUp time.Duration
		kind   netclient.Kind
		took   time.Duration
	}{
		"the usual":             {never, 0, 0, netclient.Late, netclient.DefaultWait},
		"negative":              {never, -time.Second, 0, netclient.Late, netclient.DefaultWait},
		"shorter":               {never, time.Second, 0, netclient.Late, time.Second},
		"longer than allowed":   {never, time.Hour, 0, netclient.Late, netclient.MaxWait},
		"after dialing":         {served(func(c net.Conn) { time.Sleep(time.Hour) }), 3 * time.Second, 0, netclient.Late, 3 * time.Second},
		"given up":              {never, 0, time.Second, netclient.Away, time.Second},
		"given up, and reading": {served(trusted(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })), 0, time.Second, netclient.Away, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.giveUp > 0 {
					time.AfterFunc(c.giveUp, cancel)
				}
				began := time.Now()
				_, err := client(t, c.dial).Exchange(ctx, netclient.Request{Method: "GET", URL: "https://" + host + "/", Wait: c.wait})
				kind(t, err, c.kind)
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				gone(t)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // a deadline of the caller's is one
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client(t, never).Exchange(ctx, netclient.Request{Method: "GET", URL: "https://" + host + "/"})
		kind(t, err, netclient.Late)
	})
	synctest.Test(t, func(t *testing.T) { // nothing is dialed for who has given up already, or it ends at once
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := client(t, served(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })).Exchange(ctx, netclient.Request{Method: "GET", URL: "https://" + host + "/"})
		kind(t, err, netclient.Away)
	})
}

// A large request that nobody takes.
func TestUnreadRequests(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(net.Conn)
		kind  netclient.Kind
	}{
		"closed":  {trusted(func(c net.Conn) { _, _ = c.Read(make([]byte, 1000)) }), netclient.Away},
		"ignored": {trusted(func(c net.Conn) { time.Sleep(time.Hour) }), netclient.Late},
		"answered early": {trusted(func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1000))
			_, _ = io.WriteString(c, ok("CANARY"))
		}), netclient.Late},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := netclient.Request{Method: "POST", URL: "https://" + host + "/", Body: make([]byte, netclient.MaxBody)}
				_, err := client(t, served(c.serve)).Exchange(t.Context(), r)
				kind(t, err, c.kind)
				gone(t)
			})
		})
	}
}

// Without TLS only where it is allowed.
func TestLoopback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, at := range []string{"127.0.0.1", "[::1]", "localhost", "LOCALHOST:8080"} {
			r, err := client(t, served(answering(ok("hello"))), onLoopback).Exchange(t.Context(), netclient.Request{Method: "POST", URL: "http://" + at + "/", Body: []byte("x")})
			if err != nil || string(r.Body) != "hello" {
				t.Errorf("%s: %+v, %v", at, r, err)
			}
		}
	})
}
