package api_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloister/host/api"
	"cloister/shared/wire"
)

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// at once is an enclave that costs nothing, to see what HTTP alone costs.
type atOnce struct{ api.Enclave }

var kept = []byte(`{"activity":"` + strings.Repeat("x", 4000) + `"}`)

func (atOnce) Call(_ context.Context, c *wire.Call) (*wire.Reply, error) {
	return &wire.Reply{Status: 200, Body: kept, Phases: []uint32{100, 20, 300, 900}}, nil
}

// BenchmarkHTTP sends requests of 1 KiB, answered by 4 KB, over loopback by 16
// clients that do as little as they can. "bare" is net/http alone, "api" adds
// this package, "link" also the wire to a peer in this process. cpu-us/op is
// the CPU of everything, clients included.
func BenchmarkHTTP(b *testing.B) {
	r := start(b, nil)
	r.answer = func(_ context.Context, c *wire.Call) *wire.Reply {
		return &wire.Reply{Status: 200, Body: kept, Request: sha256.Sum256(c.Body), Phases: []uint32{100, 20, 300, 900}}
	}
	quick := start(b, func(o *api.Options) { o.Enclave = atOnce{o.Enclave} })
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(kept)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &http.Server{Handler: bare}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	for _, c := range []struct{ name, at string }{{"bare", "http://" + l.Addr().String()}, {"api", quick.at}, {"link", r.at}} {
		b.Run(c.name, func(b *testing.B) { hammer(b, c.at) })
	}
}

func hammer(b *testing.B, at string) {
	body := strings.Repeat("b", 600)
	req := fmt.Appendf(nil, "POST /public/v1/submit/sign_raw_payload HTTP/1.1\r\nHost: a\r\nX-Stamp: %s\r\nContent-Length: %d\r\n\r\n%s", strings.Repeat("s", 400), len(body), body)
	begin := cpu()
	var wg sync.WaitGroup
	const clients = 16
	for i := range clients {
		n := b.N / clients
		if i < b.N%clients {
			n++
		}
		wg.Go(func() {
			c, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			in := bufio.NewReaderSize(c, 16<<10)
			for range n {
				if _, err := c.Write(req); err != nil {
					b.Error(err)
					return
				}
				if err := skipResponse(in); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(cpu()-begin)/float64(b.N)/1e3, "cpu-us/op")
}

func skipResponse(in *bufio.Reader) error {
	length, chunked := 0, false
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !strings.HasPrefix(string(line), "HTTP/1.1 200") {
			return fmt.Errorf("%q", line)
		}
		if len(line) == 2 {
			break
		}
		if v, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			_, _ = fmt.Sscan(v, &length)
		}
		chunked = chunked || strings.HasPrefix(string(line), "Transfer-Encoding")
	}
	if !chunked {
		_, err := in.Discard(length)
		return err
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if _, err := fmt.Sscanf(string(line), "%x", &length); err != nil {
			return err
		}
		if _, err := in.Discard(length + 2); err != nil || length == 0 {
			return err
		}
	}
}

// BenchmarkHandler is this package without net/http around it.
func BenchmarkHandler(b *testing.B) {
	quick := start(b, func(o *api.Options) { o.Enclave = atOnce{o.Enclave} })
	h := quick.api.Public(true)
	body := strings.Repeat("b", 600)
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequest(http.MethodPost, "/public/v1/submit/sign_raw_payload", strings.NewReader(body))
		req.Header["X-Stamp"] = []string{"s"}
		req.RemoteAddr = "127.0.0.1:1"
		h.ServeHTTP(&discard{h: http.Header{}}, req)
	}
}

type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
