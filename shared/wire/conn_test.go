package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

// raw is a frame as README-level prose has it, written by other code than the
// package's.
func raw(length uint32, id uint64, kind wire.Kind, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, length)
	b = binary.BigEndian.AppendUint64(b, id)
	return append(append(b, byte(kind)), payload...)
}

func rawFrame(id uint64, kind wire.Kind, payload []byte) []byte {
	return raw(uint32(len(payload)), id, kind, payload)
}

type got struct {
	id      uint64
	kind    wire.Kind
	payload []byte
}

func readRaw(r io.Reader) (got, error) {
	var h [13]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return got{}, err
	}
	p := make([]byte, binary.BigEndian.Uint32(h[:]))
	_, err := io.ReadFull(r, p)
	return got{binary.BigEndian.Uint64(h[4:]), wire.Kind(h[12]), p}, err
}

// breaches collects what OnBreach is told.
type breaches struct {
	mu   sync.Mutex
	errs []error
}

func (b *breaches) add(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, err)
}

func (b *breaches) all() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errs
}

func echo(_ context.Context, _ wire.Kind, p []byte) (wire.Kind, []byte) { return wire.KindReply, p }

func enclaveOptions(h wire.Handler) wire.Options {
	return wire.Options{Role: wire.RoleCalls, Side: wire.SideEnclave, Handler: h, Now: time.Now, FrameTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
}

func hostOptions() wire.Options {
	return wire.Options{Role: wire.RoleCalls, Side: wire.SideHost, Now: time.Now, FrameTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
}

func TestManyAtOnce(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			h, e := pair(t, network)
			enclave := wire.NewConn(e, enclaveOptions(echo))
			defer enclave.Close()
			host := wire.NewConn(h, hostOptions())
			defer host.Close()
			var wg sync.WaitGroup
			for i := range 32 {
				wg.Go(func() {
					for j := range 20 {
						size := []int{0, 1, 100, 5000, 100_000}[(i+j)%5]
						p := bytes.Repeat([]byte{byte(i), byte(j)}, size/2)
						kind, back, err := host.Ask(t.Context(), wire.KindCall, p)
						if err != nil || kind != wire.KindReply || !bytes.Equal(p, back) {
							t.Errorf("asker %d, question %d: kind %d, %d bytes, %v", i, j, kind, len(back), err)
							return
						}
					}
				})
			}
			wg.Wait()
			// An answer can be read before its writer has counted it as written.
			waitFor(t, func() bool { s := enclave.Stats(); return s.Serving == 0 && s.Waiting == 0 })
			waitFor(t, func() bool { return host.Stats().Waiting == 0 })
			if s := host.Stats(); s.Asked != 0 || s.Late != 0 {
				t.Errorf("host: %+v", s)
			}
		})
	}
}

// TestBreaches: each of these costs the peer its connection, and is reported.
func TestBreaches(t *testing.T) {
	call := rawFrame(1, wire.KindCall, []byte("x"))
	for _, c := range []struct {
		name string
		sent []byte
	}{
		{"call over the limit", raw(wire.MaxCallFrame+1, 1, wire.KindCall, nil)},
		{"largest length there is", raw(1<<32-1, 1, wire.KindCall, nil)},
		{"kind of another connection", rawFrame(1, wire.KindBatch, nil)},
		{"question of the other side", rawFrame(1, wire.KindReply, nil)},
		{"hello in the middle", rawFrame(1, wire.KindHello, nil)},
		{"unknown kind", rawFrame(1, 99, nil)},
		{"kind zero", rawFrame(1, 0, nil)},
		{"failed too large", raw(1<<10+1, 1, wire.KindFailed, nil)},
		{"cancel with payload", rawFrame(1, wire.KindCancel, []byte{0})},
		{"id twice", append(bytes.Clone(call), call...)},
		{"id zero", rawFrame(0, wire.KindCall, nil)},
		{"id falling", append(rawFrame(7, wire.KindCall, nil), rawFrame(6, wire.KindCall, nil)...)},
		{"text of another protocol", []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")},
		{"ones", bytes.Repeat([]byte{0xff}, 64)},
	} {
		t.Run(c.name, func(t *testing.T) {
			peer, e := pair(t, "unix")
			var b breaches
			o := enclaveOptions(echo)
			o.OnBreach = b.add
			conn := wire.NewConn(e, o)
			defer conn.Close()
			if _, err := peer.Write(c.sent); err != nil {
				t.Fatal(err)
			}
			<-conn.Done()
			if err := conn.Err(); !errors.Is(err, wire.ErrBreach) {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, peer) // ends: the other side is closed
			waitFor(t, func() bool { return len(b.all()) == 1 })
		})
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	clocktest.Until(t, "what the test waits for has come", ok)
}

func TestAnswersAreHeldToTheQuestion(t *testing.T) {
	peer, h := pair(t, "unix")
	host := wire.NewConn(h, wire.Options{Role: wire.RoleStores, Side: wire.SideEnclave})
	defer host.Close()
	failed := make(chan error, 1)
	go func() { _, _, err := host.Ask(t.Context(), wire.KindBatch, []byte("b")); failed <- err }()
	q, err := readRaw(peer)
	if err != nil || q.kind != wire.KindBatch {
		t.Fatal(q, err)
	}
	if _, err := peer.Write(rawFrame(q.id, wire.KindOwned, nil)); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, wire.ErrClosed) || !errors.Is(err, wire.ErrBreach) {
		t.Fatal(err)
	}
}

func TestPlainLossIsNoBreach(t *testing.T) {
	whole := rawFrame(1, wire.KindCall, []byte("abcdef"))
	for _, n := range []int{0, 5, 13, 15} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			peer, e := pair(t, "unix")
			var b breaches
			o := enclaveOptions(echo)
			o.OnBreach = b.add
			conn := wire.NewConn(e, o)
			if _, err := peer.Write(whole[:n]); err != nil {
				t.Fatal(err)
			}
			// Half close: the peer would still read, and is closed all the same.
			if err := peer.(*net.UnixConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			<-conn.Done()
			if err := conn.Err(); !errors.Is(err, wire.ErrClosed) || errors.Is(err, wire.ErrBreach) {
				t.Fatal(err)
			}
			if n > 0 && !errors.Is(conn.Err(), io.ErrUnexpectedEOF) {
				t.Fatal("a cut frame must not look like a clean end:", conn.Err())
			}
			if len(b.all()) != 0 {
				t.Fatal(b.all())
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	peer, e := pair(t, "unix")
	conn := wire.NewConn(e, enclaveOptions(nil))
	if _, err := peer.Write(rawFrame(1, wire.KindCall, nil)); err != nil {
		t.Fatal(err)
	}
	<-conn.Done()
	if !errors.Is(conn.Err(), wire.ErrBreach) {
		t.Fatal(conn.Err())
	}
}

func TestLateAndUnknownAnswersAreDropped(t *testing.T) {
	peer, h := pair(t, "unix")
	host := wire.NewConn(h, hostOptions())
	defer host.Close()
	if _, err := peer.Write(append(rawFrame(400, wire.KindReply, make([]byte, 100_000)), rawFrame(0, wire.KindFailed, nil)...)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return host.Stats().Late == 2 })
	go func() {
		q, _ := readRaw(peer)
		_, _ = peer.Write(rawFrame(q.id, wire.KindReply, []byte("yes")))
	}()
	if _, p, err := host.Ask(t.Context(), wire.KindCall, nil); err != nil || string(p) != "yes" {
		t.Fatal(string(p), err)
	}
}

func TestSlowLoris(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, e := net.Pipe()
		defer peer.Close()
		var b breaches
		o := enclaveOptions(echo)
		o.OnBreach = b.add
		conn := wire.NewConn(e, o)
		// Silence between frames is allowed for ever.
		time.Sleep(time.Hour)
		if conn.Err() != nil {
			t.Fatal(conn.Err())
		}
		var slow sync.WaitGroup
		defer slow.Wait()
		slow.Go(func() {
			for _, c := range rawFrame(1, wire.KindCall, make([]byte, 30)) {
				if _, err := peer.Write([]byte{c}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		<-conn.Done()
		synctest.Wait()
		if !errors.Is(conn.Err(), wire.ErrTimeout) || len(b.all()) != 1 {
			t.Fatal(conn.Err(), b.all())
		}
	})
}

func TestSlowButInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, e := net.Pipe()
		conn := wire.NewConn(e, enclaveOptions(echo))
		for id := range uint64(20) { // each frame has its own time
			go func() {
				f := rawFrame(id+1, wire.KindCall, []byte("abc"))
				_, _ = peer.Write(f[:7])
				time.Sleep(9 * time.Second)
				_, _ = peer.Write(f[7:])
			}()
			if f, err := readRaw(peer); err != nil || f.id != id+1 || string(f.payload) != "abc" {
				t.Fatal(f, err)
			}
			time.Sleep(time.Minute)
		}
		conn.Close()
	})
}

func TestFirstFrameMustCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, e := net.Pipe()
		defer peer.Close()
		o := enclaveOptions(echo)
		o.FirstFrame = true
		conn := wire.NewConn(e, o)
		<-conn.Done()
		if !errors.Is(conn.Err(), wire.ErrTimeout) {
			t.Fatal(conn.Err())
		}
	})
}

func TestPeerThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, e := net.Pipe()
		defer peer.Close()
		conn := wire.NewConn(e, enclaveOptions(echo))
		if _, err := peer.Write(rawFrame(1, wire.KindCall, nil)); err != nil {
			t.Fatal(err)
		}
		<-conn.Done()
		if !errors.Is(conn.Err(), wire.ErrTimeout) {
			t.Fatal(conn.Err())
		}
	})
}

func TestFlood(t *testing.T) {
	peer, e := pair(t, "unix")
	release := make(chan struct{})
	o := enclaveOptions(func(context.Context, wire.Kind, []byte) (wire.Kind, []byte) {
		<-release
		return wire.KindReply, nil
	})
	o.MaxInFlight = 10
	conn := wire.NewConn(e, o)
	defer conn.Close()
	for id := range uint64(25) {
		if _, err := peer.Write(rawFrame(id+1, wire.KindCall, []byte("q"))); err != nil {
			t.Fatal(err)
		}
	}
	for range 15 {
		f, err := readRaw(peer)
		if err != nil || f.kind != wire.KindFailed || f.id <= 10 {
			t.Fatal(f, err)
		}
		var why wire.Failed
		if err := wire.Unmarshal(f.payload, &why); err != nil || why.Text != "busy" {
			t.Fatal(why, err)
		}
	}
	if s := conn.Stats(); s.Serving != 10 || s.Busy != 15 {
		t.Fatalf("%+v", s)
	}
	close(release)
	for range 10 {
		if f, err := readRaw(peer); err != nil || f.kind != wire.KindReply || f.id > 10 {
			t.Fatal(f, err)
		}
	}
}

func TestFloodWithoutReading(t *testing.T) {
	peer, e := net.Pipe() // holds nothing: the writer is stuck at once
	defer peer.Close()
	o := enclaveOptions(func(ctx context.Context, _ wire.Kind, _ []byte) (wire.Kind, []byte) {
		<-ctx.Done()
		return wire.KindFailed, nil
	})
	o.MaxInFlight, o.WriteTimeout = 5, time.Hour
	conn := wire.NewConn(e, o)
	for id := uint64(1); ; id++ {
		if _, err := peer.Write(rawFrame(id, wire.KindCall, nil)); err != nil {
			break
		}
		if id > 10_000 {
			t.Fatal("still taking questions")
		}
	}
	if !errors.Is(conn.Err(), wire.ErrBreach) {
		t.Fatal(conn.Err())
	}
}

func TestWaitingBytesAreBounded(t *testing.T) {
	peer, e := pair(t, "unix")
	release := make(chan struct{})
	o := enclaveOptions(func(context.Context, wire.Kind, []byte) (wire.Kind, []byte) {
		<-release
		return wire.KindReply, nil
	})
	o.MaxWaiting = 10_000
	conn := wire.NewConn(e, o)
	defer conn.Close()
	for id := range uint64(3) {
		if _, err := peer.Write(rawFrame(id+1, wire.KindCall, make([]byte, 4000))); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := readRaw(peer); err != nil || f.kind != wire.KindFailed || f.id != 3 {
		t.Fatal(f, err)
	}
	close(release)
	for range 2 {
		if f, err := readRaw(peer); err != nil || f.kind != wire.KindReply {
			t.Fatal(f, err)
		}
	}
	waitFor(t, func() bool { return conn.Stats().Waiting == 0 })
}

func TestOwnQuestionsAreBounded(t *testing.T) {
	peer, h := pair(t, "unix")
	o := hostOptions()
	o.MaxInFlight = 2
	host := wire.NewConn(h, o)
	ended := make(chan error, 2)
	for range 2 {
		go func() { _, _, err := host.Ask(t.Context(), wire.KindCall, nil); ended <- err }()
		if _, err := readRaw(peer); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := host.Ask(t.Context(), wire.KindCall, nil); !errors.Is(err, wire.ErrBusy) {
		t.Fatal(err)
	}
	if _, _, err := host.Ask(t.Context(), wire.KindCall, make([]byte, wire.MaxCallFrame+1)); !errors.Is(err, wire.ErrTooLarge) {
		t.Fatal(err)
	}
	if _, _, err := host.Ask(t.Context(), wire.KindBatch, nil); err == nil {
		t.Fatal("a batch was asked on a connection of calls")
	}
	host.Close()
	for range 2 {
		if err := <-ended; !errors.Is(err, wire.ErrClosed) {
			t.Fatal(err)
		}
	}
	if _, _, err := host.Ask(t.Context(), wire.KindCall, nil); !errors.Is(err, wire.ErrClosed) {
		t.Fatal(err)
	}
}

func TestCancelReachesTheHandler(t *testing.T) {
	h, e := pair(t, "unix")
	started, stopped := make(chan struct{}), make(chan error, 1)
	enclave := wire.NewConn(e, enclaveOptions(func(ctx context.Context, _ wire.Kind, p []byte) (wire.Kind, []byte) {
		if string(p) != "slow" {
			return wire.KindReply, p
		}
		close(started)
		<-ctx.Done()
		stopped <- ctx.Err()
		return wire.KindReply, []byte("too late")
	}))
	defer enclave.Close()
	host := wire.NewConn(h, hostOptions())
	defer host.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, _, err := host.Ask(ctx, wire.KindCall, []byte("slow")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, p, err := host.Ask(t.Context(), wire.KindCall, []byte("next")); err != nil || string(p) != "next" {
		t.Fatal(string(p), err)
	}
	if s := host.Stats(); s.Late != 0 {
		t.Fatalf("the dropped answer was sent: %+v", s)
	}
	if _, _, err := host.Ask(ctx, wire.KindCall, nil); !errors.Is(err, context.Canceled) {
		t.Fatal("asked with an ended context:", err)
	}
}

func TestDeadlineEndsAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := net.Pipe()
		enclave := wire.NewConn(e, enclaveOptions(func(ctx context.Context, _ wire.Kind, _ []byte) (wire.Kind, []byte) {
			<-ctx.Done()
			return wire.KindFailed, nil
		}))
		defer enclave.Close()
		host := wire.NewConn(h, hostOptions())
		defer host.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, _, err := host.Ask(ctx, wire.KindCall, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := enclave.Stats(); s.Serving != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestWrongAnswersOfAHandlerStayInside(t *testing.T) {
	for name, handler := range map[string]wire.Handler{
		"other kind": func(context.Context, wire.Kind, []byte) (wire.Kind, []byte) { return wire.KindStored, nil },
		"too large": func(context.Context, wire.Kind, []byte) (wire.Kind, []byte) {
			return wire.KindReply, make([]byte, wire.MaxFrame+1)
		},
		"failed too large": func(context.Context, wire.Kind, []byte) (wire.Kind, []byte) {
			return wire.KindFailed, make([]byte, 2000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := pair(t, "unix")
			defer wire.NewConn(e, enclaveOptions(handler)).Close()
			host := wire.NewConn(h, hostOptions())
			defer host.Close()
			kind, p, err := host.Ask(t.Context(), wire.KindCall, nil)
			if err != nil || kind != wire.KindFailed || len(p) > 1000 {
				t.Fatal(kind, len(p), err)
			}
		})
	}
}

// An answer counts until the peer takes it: till then its handler's context stands.
func TestContextStandsUntilTheAnswerIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := net.Pipe() // which holds nothing itself
		defer h.Close()
		ended := make(chan struct{})
		enclave := wire.NewConn(e, enclaveOptions(func(ctx context.Context, _ wire.Kind, _ []byte) (wire.Kind, []byte) {
			context.AfterFunc(ctx, func() { close(ended) })
			return wire.KindReply, make([]byte, 1<<20)
		}))
		defer enclave.Close()
		if _, err := h.Write(rawFrame(1, wire.KindCall, nil)); err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 100)
		if _, err := io.ReadFull(h, first); err != nil { // the handler is through, the answer on its way
			t.Fatal(err)
		}
		if synctest.Wait(); closed(ended) {
			t.Fatal("the answer is not written")
		}
		if _, err := io.CopyN(io.Discard, h, 1<<20+4+8+1-100); err != nil {
			t.Fatal(err)
		}
		<-ended
	})
}

func TestClosingEndsHandlers(t *testing.T) {
	h, e := pair(t, "unix")
	ended := make(chan struct{})
	enclave := wire.NewConn(e, enclaveOptions(func(ctx context.Context, _ wire.Kind, _ []byte) (wire.Kind, []byte) {
		<-ctx.Done()
		close(ended)
		return wire.KindFailed, nil
	}))
	host := wire.NewConn(h, hostOptions())
	go func() { _, _, _ = host.Ask(context.Background(), wire.KindCall, nil) }()
	waitFor(t, func() bool { return enclave.Stats().Serving == 1 })
	host.Close()
	waitFor(t, func() bool { return closed(ended) && closed(enclave.Done()) })
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestStorm mixes cancellations, closings and questions both sides cannot keep
// up with; run it with -race.
func TestStorm(t *testing.T) {
	for round := range 5 {
		h, e := pair(t, "unix")
		o := enclaveOptions(func(ctx context.Context, _ wire.Kind, p []byte) (wire.Kind, []byte) {
			if len(p)%3 == 0 {
				<-ctx.Done()
			}
			return wire.KindReply, p
		})
		o.MaxInFlight = 16
		enclave, host := wire.NewConn(e, o), wire.NewConn(h, hostOptions())
		ask := func(wait time.Duration, size int) (wire.Kind, error) {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			kind, back, err := host.Ask(ctx, wire.KindCall, make([]byte, size))
			if err == nil && kind == wire.KindReply && len(back) != size {
				t.Error("an answer of another question")
			}
			return kind, err
		}
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 30 {
					_, _ = ask(time.Duration(rand.IntN(2000))*time.Microsecond, rand.IntN(5000))
				}
				// Who is turned away, asks again, and waits is answered in the end.
				kind, err := ask(wire.MaxWait, 1)
				for n := 0; n < 300_000 && host.Err() == nil && (kind != wire.KindReply || err != nil); n++ {
					time.Sleep(time.Millisecond)
					kind, err = ask(wire.MaxWait, 1)
				}
				if round < 4 && (kind != wire.KindReply || err != nil) {
					t.Errorf("no answer at all: kind %d, %v", kind, err)
				}
			})
		}
		if round == 4 {
			enclave.Close()
		}
		wg.Wait()
		if round < 4 {
			if err := host.Err(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { return host.Stats().Waiting == 0 && enclave.Stats().Serving == 0 })
		}
		host.Close()
		enclave.Close()
	}
}

func TestHello(t *testing.T) {
	h, e := pair(t, "unix")
	deadline := time.Now().Add(time.Minute)
	if err := wire.WriteHello(h, wire.Hello{Role: wire.RoleLoads}, deadline); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write([]byte("next")); err != nil {
		t.Fatal(err)
	}
	hello, err := wire.ReadHello(e, deadline)
	if err != nil || hello != (wire.Hello{Version: wire.Version, Role: wire.RoleLoads}) {
		t.Fatal(hello, err)
	}
	rest := make([]byte, 4)
	if _, err := io.ReadFull(e, rest); err != nil || string(rest) != "next" {
		t.Fatal("hello took more than its frame:", string(rest), err)
	}
	for name, sent := range map[string][]byte{
		"another kind":     rawFrame(0, wire.KindCall, []byte{0xa2, 1, 1, 2, 1}),
		"id":               rawFrame(1, wire.KindHello, []byte{0xa2, 1, 1, 2, 1}),
		"version":          rawFrame(0, wire.KindHello, []byte{0xa2, 1, 2, 2, 1}),
		"role 0":           rawFrame(0, wire.KindHello, []byte{0xa2, 1, 1, 2, 0}),
		"role 9":           rawFrame(0, wire.KindHello, []byte{0xa2, 1, 1, 2, 9}),
		"no ticket":        rawFrame(0, wire.KindHello, []byte{0xa2, 1, 1, 2, 7}),
		"ticket too soon":  rawFrame(0, wire.KindHello, append([]byte{0xa3, 1, 1, 2, 6, 3, 0x50}, make([]byte, 16)...)),
		"ticket too short": rawFrame(0, wire.KindHello, append([]byte{0xa3, 1, 1, 2, 7, 3, 0x4f}, make([]byte, 15)...)),
		"ticket too long":  rawFrame(0, wire.KindHello, append([]byte{0xa3, 1, 1, 2, 7, 3, 0x51}, make([]byte, 17)...)),
		"ticket null":      rawFrame(0, wire.KindHello, []byte{0xa3, 1, 1, 2, 7, 3, 0xf6}),
		"too long":         rawFrame(0, wire.KindHello, make([]byte, 65)),
		"longest length":   raw(1<<32-1, 0, wire.KindHello, nil),
		"not a message":    rawFrame(0, wire.KindHello, []byte("hello")),
		"cut":              rawFrame(0, wire.KindHello, []byte{0xa2, 1, 1, 2, 1})[:15],
		"nothing":          {},
		"something else":   []byte("GET / HTTP/1.1\r\n\r\n"),
		"member too much":  rawFrame(0, wire.KindHello, []byte{0xa3, 1, 1, 2, 1, 3, 0}),
	} {
		t.Run(name, func(t *testing.T) {
			h, e := pair(t, "unix")
			if _, err := h.Write(sent); err != nil {
				t.Fatal(err)
			}
			h.Close()
			if hello, err := wire.ReadHello(e, deadline); err == nil {
				t.Fatalf("accepted, role %d", hello.Role)
			}
		})
	}
}

func TestHelloMustComeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := net.Pipe()
		defer h.Close()
		_, err := wire.ReadHello(e, time.Now().Add(5*time.Second))
		var slow net.Error
		if !errors.As(err, &slow) || !slow.Timeout() {
			t.Fatal(err)
		}
	})
}

func TestTimeoutsNeedAClock(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("a time-out without a clock was taken")
		}
	}()
	_, e := pair(t, "unix")
	wire.NewConn(e, wire.Options{Role: wire.RoleCalls, Side: wire.SideHost, WriteTimeout: time.Second})
}

// FuzzFrames throws bytes at both ends of each connection: it must end, and
// what the handler sees must be within bounds.
func FuzzFrames(f *testing.F) {
	f.Add(uint8(1), uint8(2), append(rawFrame(1, wire.KindCall, []byte("a")), rawFrame(2, wire.KindCall, []byte("b"))...))
	f.Add(uint8(1), uint8(2), append(rawFrame(1, wire.KindCall, nil), rawFrame(1, wire.KindCancel, nil)...))
	f.Add(uint8(2), uint8(1), rawFrame(3, wire.KindBatch, make([]byte, 200)))
	f.Add(uint8(3), uint8(2), rawFrame(1, wire.KindProven, []byte("late")))
	f.Add(uint8(4), uint8(1), raw(1<<31, 3, wire.KindPutSnapshot, nil))
	f.Fuzz(func(t *testing.T, role, side uint8, sent []byte) {
		peer, c := net.Pipe()
		conn := wire.NewConn(c, wire.Options{Role: wire.Role(role%wire.Roles + 1), Side: wire.Side(side%2 + 1),
			Handler: func(_ context.Context, kind wire.Kind, p []byte) (wire.Kind, []byte) {
				if len(p) > len(sent) || len(p) > wire.MaxFrame || kind == wire.KindCancel {
					t.Errorf("kind %d with %d bytes", kind, len(p))
				}
				return kind + 1, p
			}})
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		_, _ = peer.Write(sent)
		peer.Close()
		<-conn.Done()
	})
}
