package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"cloister/host/api"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
)

// fullStore is a store on a disk that can be full: then nothing is stored, and all is read as before.
type fullStore struct {
	store.Store
	full bool
}

var errFull = errors.New("database or disk is full (13)")

func (s *fullStore) Append(ctx context.Context, b *wire.Batch) (wire.Stored, error) {
	if s.full && b.Number > 0 {
		return wire.Stored{}, errFull
	}
	return s.Store.Append(ctx, b)
}

// A full disk answers every question but a batch: /readyz, which asks Ping, must not say that requests are served.
func TestWatchedStore(t *testing.T) {
	under, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	disk := &fullStore{Store: under}
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	s := &watchedStore{Store: disk, now: func() time.Time { return now }}
	boot := wire.ID{1}
	if o, err := s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: boot}); err != nil || !o.OK {
		t.Fatalf("%+v, %v", o, err)
	}
	number := uint64(0)
	send := func() error {
		_, err := s.Append(t.Context(), &wire.Batch{Boot: boot, Epoch: 1, Number: number + 1, Header: []byte("header"),
			Entries: []wire.Entry{{Organization: wire.ID{2}, Seq: number, Sealed: []byte("entry"), Activity: wire.ID{3}, Type: "T", Status: 1, TimeMs: 5}}})
		if err == nil {
			number++
		}
		return err
	}
	ready := func(what string, want error) {
		t.Helper()
		if err := s.Ping(t.Context()); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	ready("a batch was stored", nil)
	disk.full = true
	ready("nobody has noticed", nil)
	for range 3 {
		if err := send(); !errors.Is(err, errFull) {
			t.Fatal(err)
		}
		now = now.Add(500 * time.Millisecond)
	}
	ready("full", api.ErrTakesNothing)
	ready("full, and why", errFull)
	if _, err := s.Append(t.Context(), &wire.Batch{}); !errors.Is(err, store.ErrRefused) {
		t.Fatal("a batch of nothing was not refused:", err)
	}
	ready("a batch that makes no sense tells nothing", api.ErrTakesNothing)
	disk.full = false
	if err := send(); err != nil {
		t.Fatal(err)
	}
	ready("room again", nil)
	disk.full = true
	_ = send()
	now = now.Add(takesNothingFor)
	ready("the enclave is gone, and sends nothing again", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err == nil || errors.Is(err, api.ErrTakesNothing) {
		t.Errorf("closed: %v", err)
	}
}
