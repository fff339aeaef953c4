package storetest

import (
	"errors"
	"reflect"
	"sync"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

func testCheckpoints(t *testing.T, open Opener) {
	s, reopen := open(t)
	holds := func(want ...store.Checkpoint) {
		t.Helper()
		got := must(s.LoadCheckpoints(t.Context()))(t)
		for i := range got {
			got[i].Cosigned = append([]byte{}, got[i].Cosigned...) // nil and empty are equal
		}
		if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	put := func(c store.Checkpoint) {
		t.Helper()
		if err := s.PutCheckpoint(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	holds()
	first := store.Checkpoint{Range: 2, Generation: 1, Policy: "policy", Size: 5, Signed: []byte("five"), Cosigned: []byte{}}
	put(first)
	holds(first)
	other := store.Checkpoint{Generation: 1<<32 - 1, Policy: "other's", Size: 9, Signed: []byte("nine"), CosignedSize: 9, Cosigned: []byte("nine, cosigned")}
	put(other)
	next := store.Checkpoint{Range: 2, Generation: 2, Policy: "next", Size: 1, Signed: []byte("one"), Cosigned: []byte{}}
	put(next)
	holds(other, first, next)

	// The signed and the cosigned checkpoint advance independently.
	larger := store.Checkpoint{Range: 2, Generation: 1, Policy: "larger", Size: 8, Signed: []byte("eight"), CosignedSize: 6, Cosigned: []byte("six")}
	put(larger)
	put(first)
	put(store.Checkpoint{Range: 2, Generation: 1, Policy: "another", Size: 8, Signed: []byte("EIGHT"), CosignedSize: 6, Cosigned: []byte("SIX")})
	holds(other, larger, next)
	put(store.Checkpoint{Range: 2, Generation: 1, Policy: "less", Size: 7, Signed: []byte("seven"), CosignedSize: 7, Cosigned: []byte("seven, cosigned")})
	larger.CosignedSize, larger.Cosigned = 7, []byte("seven, cosigned")
	holds(other, larger, next)
	put(store.Checkpoint{Range: 2, Generation: 1, Policy: "newest", Size: 10, Signed: []byte("ten")})
	larger.Policy, larger.Size, larger.Signed = "newest", 10, []byte("ten")
	holds(other, larger, next)
	s = reopen()
	holds(other, larger, next)

	for name, c := range map[string]store.Checkpoint{
		"no leaves":           {Signed: []byte("x")},
		"nothing signed":      {Size: 1},
		"more cosigned":       {Size: 1, Signed: []byte("x"), CosignedSize: 2, Cosigned: []byte("y")},
		"cosigned of nothing": {Size: 1, Signed: []byte("x"), Cosigned: []byte("y")},
		"nothing cosigned":    {Size: 1, Signed: []byte("x"), CosignedSize: 1},
		"large":               {Size: 1, Signed: make([]byte, store.MaxCheckpoint+1)},
		"a large policy":      {Size: 1, Signed: []byte("x"), Policy: string(make([]byte, store.MaxCheckpoint+1))},
		"large when cosigned": {Size: 1, Signed: []byte("x"), CosignedSize: 1, Cosigned: make([]byte, store.MaxCheckpoint+1)},
		"many leaves":         {Size: 1 << 63, Signed: []byte("x")},
		"of a range":          {Range: wire.MaxRanges, Size: 1, Signed: []byte("x")},
	} {
		if err := s.PutCheckpoint(t.Context(), c); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	holds(other, larger, next)
}

// testCheckpointRace puts many checkpoints at once: the largest remain.
func testCheckpointRace(t *testing.T, open Opener) {
	s, _ := open(t)
	var all sync.WaitGroup
	for i := range uint64(8) {
		all.Go(func() {
			for n := range uint64(10) {
				size := 1 + (n*8+i*3)%80
				if err := s.PutCheckpoint(t.Context(), store.Checkpoint{Size: size, Signed: []byte{byte(size)}, CosignedSize: size, Cosigned: []byte{byte(size)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := must(s.LoadCheckpoints(t.Context()))(t)
	if len(got) != 1 || got[0].Signed[0] != byte(got[0].Size) || got[0].Cosigned[0] != byte(got[0].CosignedSize) || got[0].Size < 78 || got[0].Size != got[0].CosignedSize {
		t.Fatalf("%+v", got)
	}
}
