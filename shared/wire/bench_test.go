package wire_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloister/shared/wire"
)

// pair returns both ends of a real connection, hello done.
func pair(tb testing.TB, network string) (host, enclave net.Conn) {
	tb.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(tb.TempDir(), "s")
	}
	l, err := net.Listen(network, at)
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	got := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			close(got)
			return
		}
		got <- c
	}()
	if host, err = net.Dial(network, l.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	enclave = <-got
	if enclave == nil {
		tb.Fatal("no peer")
	}
	tb.Cleanup(func() { host.Close(); enclave.Close() })
	return host, enclave
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAsk is a call of 1 KiB answered by 4 KiB, both decoded and encoded;
// cpu-us/op is the CPU of both ends.
func BenchmarkAsk(b *testing.B) {
	for _, network := range []string{"unix", "tcp"} {
		for _, askers := range []int{1, 16} {
			b.Run(network+map[int]string{1: "/1", 16: "/16"}[askers], func(b *testing.B) { benchmarkAsk(b, network, askers) })
		}
	}
}

func benchmarkAsk(b *testing.B, network string, askers int) {
	h, e := pair(b, network)
	body := bytes.Repeat([]byte("x"), 4096)
	enclave := wire.NewConn(e, wire.Options{Role: wire.RoleCalls, Side: wire.SideEnclave, Now: time.Now, FrameTimeout: time.Minute, WriteTimeout: time.Minute,
		Handler: func(_ context.Context, _ wire.Kind, p []byte) (wire.Kind, []byte) {
			var c wire.Call
			if wire.Unmarshal(p, &c) != nil {
				return wire.KindFailed, nil
			}
			out, _ := wire.Marshal(wire.Reply{Status: 200, Body: body, Phases: []uint32{1, 2, 3, 4}})
			return wire.KindReply, out
		}})
	defer enclave.Close()
	host := wire.NewConn(h, wire.Options{Role: wire.RoleCalls, Side: wire.SideHost, Now: time.Now, FrameTimeout: time.Minute, WriteTimeout: time.Minute})
	defer host.Close()
	call := wire.Call{Endpoint: wire.EndpointSubmit, Op: "sign_raw_payload", Head: []wire.Header{{Name: "X-Stamp", Value: string(body[:400])}}, Body: body[:600]}
	b.ReportAllocs()
	begin := cpu()
	var wg sync.WaitGroup
	for i := range askers {
		n := b.N / askers
		if i < b.N%askers {
			n++
		}
		wg.Go(func() {
			for range n {
				p, _ := wire.Marshal(call)
				k, p, err := host.Ask(context.Background(), wire.KindCall, p)
				var r wire.Reply
				if err != nil || k != wire.KindReply || wire.Unmarshal(p, &r) != nil {
					b.Error(k, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(cpu()-begin)/float64(b.N)/1e3, "cpu-us/op")
}

func BenchmarkCodec(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 4096)
	call, _ := wire.Marshal(wire.Call{Endpoint: 1, Op: "sign_raw_payload", Head: []wire.Header{{Name: "X-Stamp", Value: string(body[:400])}}, Body: body[:600]})
	reply, _ := wire.Marshal(wire.Reply{Status: 200, Body: body, Phases: []uint32{1, 2, 3, 4}})
	batch := wire.Batch{Number: 7, Header: body[:300], Entries: make([]wire.Entry, 16)}
	for i := range batch.Entries {
		batch.Entries[i] = wire.Entry{Seq: uint64(i), Sealed: body, Type: "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2"}
	}
	batched, _ := wire.Marshal(&batch)
	b.Run("call/unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v wire.Call
			_ = wire.Unmarshal(call, &v)
		}
	})
	b.Run("reply/unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v wire.Reply
			_ = wire.Unmarshal(reply, &v)
		}
	})
	b.Run("reply/marshal", func(b *testing.B) {
		b.ReportAllocs()
		v := wire.Reply{Status: 200, Body: body, Phases: []uint32{1, 2, 3, 4}}
		for b.Loop() {
			_, _ = wire.Marshal(&v)
		}
	})
	b.Run("batch16/unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v wire.Batch
			_ = wire.Unmarshal(batched, &v)
		}
	})
	b.Run("batch16/marshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = wire.Marshal(&batch)
		}
	})
}
