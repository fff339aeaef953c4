package storetest

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"
	"time"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Bench measures Append: batches of 1, 8 and 16 entries of 4 KiB, of one
// organization and of a thousand. It reports CPU time of this process per
// entry, checkpoints and hashing included, and next to it that of others (a server, may be
// nil).
func Bench(b *testing.B, open func(b *testing.B) store.Store, others func() time.Duration) {
	for _, orgs := range []uint64{1, 1000} {
		for _, size := range []int{1, 8, 16} {
			b.Run(fmt.Sprintf("orgs=%d/batch=%d", orgs, size), func(b *testing.B) {
				bench(b, open(b), others, orgs, size)
			})
		}
	}
}

func bench(b *testing.B, s store.Store, others func() time.Duration, orgs uint64, size int) {
	w := newWriter(b, s)
	seqs := make([]uint64, orgs)
	sealed := make([]byte, 4<<10)
	if _, err := rand.Read(sealed); err != nil {
		b.Fatal(err)
	}
	batch := &wire.Batch{Boot: w.boot, Epoch: w.epoch, Header: make([]byte, 200)}
	entries := make([]wire.Entry, size)
	count := uint64(0)
	next := func() {
		for i := range entries {
			n := count * 7919 % orgs
			count++
			e := wire.Entry{Organization: id(n + 1), Seq: seqs[n], Sealed: sealed, Type: "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", Status: 3, TimeMs: count}
			binary.BigEndian.PutUint64(e.Activity[:], count<<16) // as in UUIDv7: time first
			if _, err := rand.Read(e.Activity[8:]); err != nil {
				b.Fatal(err)
			}
			seqs[n]++
			entries[i] = e
		}
		batch.Number++
		batch.Entries = entries
		verdict(b, s, batch, wire.VerdictStored)
	}
	for count < 2*orgs { // every organization exists before the measurement
		next()
	}
	b.ReportAllocs()
	b.ResetTimer()
	own, other := cpu(), time.Duration(0)
	if others != nil {
		other = -others()
	}
	for b.Loop() {
		next()
	}
	each := func(d time.Duration) float64 {
		return float64(d) / float64(time.Microsecond) / float64(b.N*size)
	}
	b.ReportMetric(each(cpu()-own), "cpu-us/entry")
	if others != nil {
		b.ReportMetric(each(other+others()), "server-us/entry")
	}
}

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchPage measures lists and proofs over a history of n entries of one
// organization: pages by a type that one entry in a hundred thousand has, by a
// status that every activity once had, without filter, and one entry's proof.
func BenchPage(b *testing.B, s store.Store, n int) {
	w := newWriter(b, s)
	org := id(1)
	for seq := 0; seq < n; {
		batch := w.next()
		for ; seq < n && len(batch.Entries) < wire.MaxBatch; seq++ {
			e := wire.Entry{Organization: org, Seq: uint64(seq), Sealed: make([]byte, 64), Type: "ACTIVITY_TYPE_SIGN", Status: 1, Activity: id(uint64(1000 + seq/2)), TimeMs: uint64(seq)}
			if seq%2 == 1 {
				e.Prior, e.Status = uint64(seq), 2
			}
			if seq%100_000 == 1 {
				e.Type = "ACTIVITY_TYPE_RARE"
			}
			batch.Entries = append(batch.Entries, e)
		}
		verdict(b, s, batch, wire.VerdictStored)
	}
	pages := map[string]wire.Page{
		"plain":   {Limit: 10},
		"rare":    {Limit: 10, Types: []string{"ACTIVITY_TYPE_RARE"}},
		"pending": {Limit: 10, Statuses: []uint8{1}},
		"deep":    {Limit: 10, After: ptr(id(2000))},
		"hundred": {Limit: 100},
	}
	for name, p := range pages {
		p.Organization, p.TreeSize = org, uint64(n)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				must(s.Page(b.Context(), p))(b)
			}
		})
	}
	times := make([]uint64, 31)
	for i := range times {
		times[i] = uint64(i * n / (len(times) - 1))
	}
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			must(s.CountActivities(b.Context(), wire.CountActivities{Organization: org, TimesMs: times}))(b)
		}
	})
	b.Run("proof", func(b *testing.B) {
		for b.Loop() {
			must(s.Find(b.Context(), wire.Find{Organization: org, TreeSize: uint64(n), Seqs: []uint64{uint64(n) / 3}}))(b)
		}
	})
}
