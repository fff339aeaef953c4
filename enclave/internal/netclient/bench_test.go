package netclient_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/secret/secrettest"
)

// A key set as providers have it.
var benchBody = strings.Repeat("x", 2000)

// listen runs serve behind TLS for every connection.
func listen(b *testing.B, serve func(net.Conn)) string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				overTLS(&tls.Config{Certificates: []tls.Certificate{valid}}, serve)(c)
			}()
		}
	}()
	return l.Addr().String()
}

// BenchmarkHandshake is what an exchange cannot be cheaper than: dial, TLS, and one
// word each way.
func BenchmarkHandshake(b *testing.B) {
	at := listen(b, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_, _ = c.Write([]byte{1})
	})
	config := &tls.Config{RootCAs: root.pool(), ServerName: host}
	for b.Loop() {
		c := must(tls.Dial("tcp", at, config))
		_ = must(c.Write([]byte{1}))
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		_ = c.Close()
	}
}

func BenchmarkExchange(b *testing.B) {
	c := client(b, to(listen(b, answering(ok(benchBody)))))
	for b.Loop() {
		r, err := c.Exchange(b.Context(), netclient.Request{Method: "GET", URL: "https://" + host + "/keys"})
		if err != nil || len(r.Body) != len(benchBody) {
			b.Fatal(err)
		}
	}
}

func BenchmarkExchangeNetHTTP(b *testing.B) {
	at := listen(b, answering(ok(benchBody)))
	c := &http.Client{Transport: &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		return tls.Dial("tcp", at, &tls.Config{RootCAs: root.pool(), ServerName: host})
	}, DisableKeepAlives: true}}
	for b.Loop() {
		r := must(c.Get("https://" + host + "/keys"))
		if body := must(io.ReadAll(r.Body)); len(body) != len(benchBody) {
			b.Fatal(len(body))
		}
		_ = r.Body.Close()
	}
}

func BenchmarkReadResponse(b *testing.B) {
	small := ok(benchBody, "Content-Type: application/json", "Cache-Control: public, max-age=3600", "Date: Sat, 01 Jan 2000 00:00:00 GMT", "X-Request-Id: 5f2d")
	for name, text := range map[string]string{"Length": small, "Chunks": chunked(strings.Repeat("400\r\n"+strings.Repeat("x", 1024)+"\r\n", 64) + "0\r\n\r\n")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := netclient.ReadResponse(strings.NewReader(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"NetHTTP", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r := must(http.ReadResponse(bufio.NewReader(strings.NewReader(text)), nil))
				_ = must(io.ReadAll(r.Body))
			}
		})
	}
}

// BenchmarkSubmit is a whole conversation without TLS.
func BenchmarkSubmit(b *testing.B) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				(&postbox{auth: "PLAIN"}).serve(c)
			}()
		}
	}()
	c := client(b, to(l.Addr().String()), onLoopback)
	s := netclient.MailServer{Host: "127.0.0.1", Port: 25, Security: netclient.Plain, User: "user", Password: secrettest.Of([]byte("pass"))}
	m := letter
	m.Message = bytes.Repeat([]byte("a line of some length, as mails have them\r\n"), 200)
	for b.Loop() {
		if o := c.Submit(b.Context(), s, m); o.Result != netclient.Delivered {
			b.Fatal(o)
		}
	}
}
