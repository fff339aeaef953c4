package sweep_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// A point is the call that fails: the nth of its name, so that it is the same one
// in every run however concurrent calls fall. The zero value lets all succeed.
type point struct {
	name string // "store " and a method, or "frame " and a kind
	n    int    // counted from 1
	mode mode
}

func (p point) String() string { return fmt.Sprintf("%s %d %s", p.name, p.n, modes[p.mode]) }

type mode uint8

const (
	before mode = iota // nothing happened
	after              // it happened and the answer is lost
	half               // of a frame one half arrived
)

var modes = map[mode]string{before: "before", after: "after", half: "half"}

// faults counts calls and lets one of them fail.
type faults struct {
	at point

	mu    sync.Mutex
	off   bool
	calls map[string]int // so far, by name
}

// strike counts one call and tells whether it is the one that fails.
func (f *faults) strike(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.off {
		return false
	}
	f.calls[name]++
	return f.at.name == name && f.at.n == f.calls[name]
}

// stop ends counting and failing.
func (f *faults) stop() {
	f.mu.Lock()
	f.off = true
	f.mu.Unlock()
}

// hit tells whether the call that was to fail was made.
func (f *faults) hit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at.n > 0 && f.calls[f.at.name] >= f.at.n
}

var errInjected = errors.New("injected")

// A faultyStore is a real store, one call of which fails.
type faultyStore struct {
	store.Store
	f *faults
}

func try[Q, A any](ctx context.Context, s *faultyStore, name string, do func(context.Context, Q) (A, error), q Q) (A, error) {
	if !s.f.strike("store " + name) {
		return do(ctx, q)
	}
	var none A
	if s.f.at.mode == after {
		if _, err := do(ctx, q); err != nil {
			return none, err
		}
	}
	return none, errInjected
}

func (s *faultyStore) Own(ctx context.Context, q wire.Own) (wire.Owned, error) {
	name := [...]string{wire.OwnLook: "look", wire.OwnTake: "take", wire.OwnRenew: "renew", wire.OwnRelease: "release"}[q.Action]
	return try(ctx, s, "own "+name, s.Store.Own, q)
}

func (s *faultyStore) Append(ctx context.Context, b *wire.Batch) (wire.Stored, error) {
	return try(ctx, s, "append", s.Store.Append, b)
}

func (s *faultyStore) PutSnapshot(ctx context.Context, q wire.PutSnapshot) (wire.Done, error) {
	return try(ctx, s, "put snapshot", s.Store.PutSnapshot, q)
}

func (s *faultyStore) PutObject(ctx context.Context, q wire.PutObject) (wire.Done, error) {
	return try(ctx, s, "put object", s.Store.PutObject, q)
}

func (s *faultyStore) LoadOrganization(ctx context.Context, q wire.LoadOrganization) (wire.Organization, error) {
	return try(ctx, s, "load organization", s.Store.LoadOrganization, q)
}

func (s *faultyStore) LoadEntries(ctx context.Context, q wire.LoadEntries) (wire.Entries, error) {
	return try(ctx, s, "load entries", s.Store.LoadEntries, q)
}

func (s *faultyStore) LoadPieces(ctx context.Context, q wire.LoadPieces) (wire.Pieces, error) {
	return try(ctx, s, "load pieces", s.Store.LoadPieces, q)
}

func (s *faultyStore) LoadObject(ctx context.Context, q wire.LoadObject) (wire.Object, error) {
	return try(ctx, s, "load object", s.Store.LoadObject, q)
}

func (s *faultyStore) Find(ctx context.Context, q wire.Find) (wire.Proven, error) {
	return try(ctx, s, "find", s.Store.Find, q)
}

func (s *faultyStore) Page(ctx context.Context, q wire.Page) (wire.Proven, error) {
	return try(ctx, s, "page", s.Store.Page, q)
}

func (s *faultyStore) CountActivities(ctx context.Context, q wire.CountActivities) (wire.ActivityCounts, error) {
	return try(ctx, s, "count activities", s.Store.CountActivities, q)
}

func (s *faultyStore) PageIndex(ctx context.Context, q wire.PageIndex) (wire.IndexRows, error) {
	return try(ctx, s, "page index", s.Store.PageIndex, q)
}

// writes tells which calls of the store have an effect that can outlive a lost
// answer.
func writes(name string) bool {
	return name == "store append" || strings.HasPrefix(name, "store put ") || strings.HasPrefix(name, "store own ") && name != "store own look"
}

// A proxy carries frames between host and enclave and cuts one connection.
type proxy struct {
	f  *faults
	l  net.Listener
	to string
}

// between starts a proxy in front of the enclave and returns its address.
func (f *faults) between(t testing.TB, enclave string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{f, l, strings.TrimPrefix(enclave, "tcp://")}
	go p.serve()
	return "tcp://" + l.Addr().String()
}

func (p *proxy) serve() {
	for {
		host, err := p.l.Accept()
		if err != nil {
			return
		}
		enclave, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = host.Close()
			continue
		}
		cut := sync.OnceFunc(func() { _, _ = host.Close(), enclave.Close() })
		go p.carry(host, enclave, cut)
		go p.carry(enclave, host, cut)
	}
}

const headSize = 4 + 8 + 1 // of a frame; see shared/wire

var kinds = map[wire.Kind]string{
	wire.KindHello: "hello", wire.KindCall: "call", wire.KindReply: "reply", wire.KindOwn: "own", wire.KindOwned: "owned", wire.KindBatch: "batch",
	wire.KindStored: "stored", wire.KindLoadOrganization: "load organization", wire.KindOrganization: "organization", wire.KindLoadEntries: "load entries",
	wire.KindEntries: "entries", wire.KindLoadPieces: "load pieces", wire.KindPieces: "pieces", wire.KindFind: "find", wire.KindPage: "page",
	wire.KindPageIndex: "page index", wire.KindIndexRows: "index rows", wire.KindCountActivities: "count activities", wire.KindActivityCounts: "activity counts", wire.KindProven: "proven", wire.KindLoadObject: "load object", wire.KindObject: "object", wire.KindPutSnapshot: "put snapshot",
	wire.KindPutObject: "put object", wire.KindDone: "done", wire.KindFailed: "failed", wire.KindCancel: "cancel",
}

// carry takes frames one way until the connection ends or is cut.
func (p *proxy) carry(from, to net.Conn, cut func()) {
	defer cut()
	for {
		frame := make([]byte, headSize)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(frame)
		if size > wire.MaxFrame {
			return
		}
		frame = append(frame, make([]byte, size)...)
		if _, err := io.ReadFull(from, frame[headSize:]); err != nil {
			return
		}
		strike := p.f.strike("frame " + kinds[wire.Kind(frame[12])])
		switch {
		case strike && p.f.at.mode == before:
			return
		case strike && p.f.at.mode == half:
			frame = frame[:len(frame)/2]
		}
		if _, err := to.Write(frame); err != nil || strike {
			return
		}
	}
}
