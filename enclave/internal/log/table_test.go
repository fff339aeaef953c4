package log_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cloister/enclave/internal/log"
	"cloister/shared/wire"
)

// A keeper is a host that keeps the pages.
type keeper struct {
	pages map[int][]byte
	asked int
}

func (k *keeper) ask(page int) ([]byte, error) {
	k.asked++
	return k.pages[page], nil
}

func (k *keeper) keep(c *log.Change) *log.Table {
	for i, n := range c.Numbers {
		k.pages[n] = c.Pages[i]
	}
	return c.Table
}

func tip(organization, count uint64) log.Tip {
	t := log.Tip{Count: count, Root: [32]byte{byte(organization), byte(count)}}
	binary.BigEndian.PutUint64(t.Organization[:], organization*0x9e3779b97f4a7c15)
	return t
}

// A table knows what a map knows, whatever the order and size of the updates.
func TestTableIsAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	k := &keeper{pages: map[int][]byte{}}
	table, want := new(log.Table), map[[16]byte]log.Tip{}
	for round := range 200 {
		var moved []log.Tip
		named := map[uint64]bool{}
		for range r.IntN(1 << r.IntN(9)) {
			o := r.Uint64N(uint64(20 + round*20))
			if !named[o] {
				named[o] = true
				moved = append(moved, tip(o, max(1, want[tip(o, 0).Organization].Count+r.Uint64N(3))))
			}
		}
		k.asked = 0
		c, err := table.Update(moved, k.ask)
		if err != nil {
			t.Fatal(err)
		}
		grown := c.Table.Pages() - table.Pages()
		if len(c.Numbers) > len(moved)+2*grown || k.asked > len(moved)+grown {
			t.Fatalf("%d tips and %d new pages changed %d, and %d were asked for", len(moved), grown, len(c.Numbers), k.asked)
		}
		table = k.keep(c)
		for _, m := range moved {
			want[m.Organization] = m
		}
		if table.Tips() != len(want) || table.Pages() != (len(want)+31)/32 {
			t.Fatalf("%d tips on %d pages, not %d", table.Tips(), table.Pages(), len(want))
		}
	}
	for o := range uint64(5000) {
		id := tip(o, 0).Organization
		w, exists := want[id]
		page, _ := k.ask(table.Page(id))
		if got, is, err := table.Find(id, page); err != nil || is != exists || got != w {
			t.Fatalf("%x: %v %v %v, want %v", id, got, is, err, w)
		}
	}
	// The same tips make the same table, and what was remembered of it is the table.
	all := make([]log.Tip, 0, len(want))
	for _, w := range want {
		all = append(all, w)
	}
	once, err := new(log.Table).Update(all, nil)
	if err != nil || once.Table.Root() != table.Root() {
		t.Errorf("at once it is another table: %v", err)
	}
	again, err := log.NewTable(table.Hashes(), table.Tips())
	if err != nil || again.Root() != table.Root() {
		t.Errorf("it is not what it remembers: %v", err)
	}
}

func TestTableRefuses(t *testing.T) {
	var tips []log.Tip
	for o := range uint64(100) {
		tips = append(tips, tip(o, 5))
	}
	k := &keeper{pages: map[int][]byte{}}
	c, err := new(log.Table).Update(tips, nil)
	if err != nil {
		t.Fatal(err)
	}
	table := k.keep(c)
	root, id := table.Root(), tips[7].Organization
	n := table.Page(id)
	good := k.pages[n]
	other := k.pages[(n+1)%table.Pages()]
	newer, err := table.Update([]log.Tip{tip(7, 6)}, k.ask)
	if err != nil || newer.Table.Root() == root || table.Root() != root {
		t.Fatal("an update is not one", err)
	}
	for name, page := range map[string][]byte{"another page": other, "nothing": nil, "a page of later": newer.Pages[0],
		"half": good[:len(good)/2], "an organization left out": slices.Concat(good[:56], good[112:]), "one more byte": append(slices.Clone(good), 0)} {
		if _, _, err := table.Find(id, page); err == nil {
			t.Errorf("%s was taken", name)
		}
		k.pages[n] = page
		if _, err := table.Update([]log.Tip{tip(7, 6)}, k.ask); err == nil {
			t.Errorf("%s was changed", name)
		}
	}
	for i := range len(good) * 8 {
		bad := slices.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, _, err := table.Find(id, bad); err == nil {
			t.Fatalf("bit %d counts for nothing", i)
		}
	}
	k.pages[n] = good
	for name, moved := range map[string][]log.Tip{"back": {tip(7, 4)}, "twice": {tip(7, 6), tip(8, 6), tip(7, 7)}} {
		if _, err := table.Update(moved, k.ask); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	away := errors.New("away")
	if _, err := table.Update([]log.Tip{tip(7, 6)}, func(int) ([]byte, error) { return nil, away }); !errors.Is(err, away) {
		t.Error(err)
	}
	if _, err := log.NewTable(table.Hashes(), 1000); err == nil {
		t.Error("pages for another number of tips")
	}
	if table.Root() != root || !bytes.Equal(k.pages[n], good) {
		t.Error("refusing changed it")
	}
	if _, exists, err := new(log.Table).Find(id, nil); err != nil || exists {
		t.Error("an empty table holds something", err)
	}
}

// The largest table fits into what is kept of it, however large everything else in there is.
func TestLargestTable(t *testing.T) {
	k := wire.KeptTable{Format: wire.KeptFormat, Covers: 1<<62 - 1, Previous: wire.Hash{1}, Edge: make([]byte, 62*32), Tips: log.MaxTips,
		Epoch: math.MaxUint64, Number: math.MaxUint64, Policy: wire.Hash{1}, Mode: math.MaxUint8, Boots: math.MaxUint64, Generation: math.MaxInt32, Recovered: math.MaxUint32,
		RecoveredMs: math.MaxUint64, ManifestNonce: math.MaxUint64, WaitMs: math.MaxUint64}
	block := make([]byte, wire.BlockPages*sha256.Size)
	hash := sha256.Sum256(block)
	k.Blocks = bytes.Repeat(hash[:], log.MaxTips/32/wire.BlockPages)
	b, err := wire.Marshal(&k)
	if err != nil || len(b) > wire.MaxTable {
		t.Fatalf("%d bytes, %d are the most: %v", len(b), wire.MaxTable, err)
	}
	if wire.MaxTable-len(b) > 4<<10 {
		t.Errorf("%d bytes are left", wire.MaxTable-len(b))
	}
	start, err := log.Begin(newKeys(t, origin, 1), place, b, func(asked []wire.Hash) ([][]byte, error) {
		return slices.Repeat([][]byte{block}, len(asked)), nil
	})
	if err != nil || start.Table.Tips() != log.MaxTips {
		t.Error(err)
	}
}

func BenchmarkUpdate(b *testing.B) {
	k := &keeper{pages: map[int][]byte{}}
	var tips []log.Tip
	for o := range uint64(1_000_000) {
		tips = append(tips, tip(o, 1))
	}
	c, err := new(log.Table).Update(tips, nil)
	if err != nil {
		b.Fatal(err)
	}
	table := k.keep(c)
	for b.Loop() {
		var moved []log.Tip
		for o := range uint64(1000) {
			moved = append(moved, tip(o*997, 2))
		}
		if c, err = table.Update(moved, k.ask); err != nil {
			b.Fatal(err)
		}
		c.Table.Root()
	}
}
