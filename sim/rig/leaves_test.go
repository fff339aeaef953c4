package rig_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/host/tiles"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// What is public of a run, and what must not be in it.
type public struct {
	leaves []rig.Leaf
	tiles  [][]byte
}

// published has a deployment work, and reads what everybody may see of its log.
func published(t *testing.T, organizations int, work func(all []*client.User)) *public {
	t.Helper()
	w := rig.StartWitnesses(t, rig.WitnessOptions{Mode: tlog.ModeStrict, Serve: 500 * time.Millisecond})
	o := rig.Options{Dir: t.TempDir(), Witnesses: w, Limits: core.Limits{TableEvery: 16}, Organizations: organizations}
	for range 2 { // a second boot has a leaf too
		r := rig.Start(t, o)
		work(append([]*client.User{r.Root()}, r.Others()...))
		r.Stop()
	}
	r := rig.Start(t, o)
	p := &public{leaves: rig.Leaves(t, r.Store, 0)}
	p.serve(t, r)
	return p
}

// serve reads every tile that a host serves of the newest cosigned checkpoint, and the checkpoint.
func (p *public) serve(t *testing.T, r *rig.Rig) {
	t.Helper()
	server, size := tiles.New(r.Store, time.Now), uint64(0)
	clocktest.Until(t, fmt.Sprintf("a checkpoint of nearly %d leaves is served", len(p.leaves)), func() bool {
		note, err := server.Checkpoint(t.Context(), 0)
		if err != nil {
			return false
		}
		text, _, _ := strings.Cut(string(note), "\n\n")
		c, err := tlog.ParseCheckpoint(text + "\n")
		if err != nil {
			t.Fatal(err)
		}
		size, p.tiles = c.Size, [][]byte{note}
		return size+2 >= uint64(len(p.leaves))
	})
	for level, n := 0, size; n > 0; level, n = level+1, n>>8 {
		for tile := range (n + 255) / 256 {
			for _, kind := range []string{fmt.Sprint(level), "entries"} {
				path := fmt.Sprintf("%s/%03d", kind, tile)
				if width := n - tile*256; width < 256 {
					path += fmt.Sprintf(".p/%d", width)
				}
				if kind == "entries" && level > 0 {
					continue
				}
				b, err := server.Tile(t.Context(), 0, path)
				if err != nil {
					t.Fatal(path, err)
				}
				p.tiles = append(p.tiles, b)
			}
		}
	}
}

// entries is how many there are on the average in a batch that moves tips, and how many tips at most.
func (p *public) entries() (each float64, most int) {
	last, sum, batches := map[wire.ID]uint64{}, uint64(0), 0
	for i := range p.leaves {
		tips := p.leaves[i].Tips
		for _, tip := range tips {
			sum += tip.Count - last[tip.Organization]
			last[tip.Organization] = tip.Count
		}
		if most = max(most, len(tips)); len(tips) > 0 {
			batches++
		}
	}
	return float64(sum) / float64(max(batches, 1)), most
}

// Two deployments that differ in organizations, amounts and entries for each batch look the same to strangers.
func TestLeavesTellNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: leaves of logs that real rounds publish")
	}
	pay := func(u *client.User, n int, amount string) {
		in := client.Tag(fmt.Sprint(amount, " ", n, " ", u.Times.Next()))
		if r, err := u.Client.Submit(t.Context(), "CREATE_USER_TAG", in); err != nil || r.Status != 200 {
			t.Error(err, r)
		}
	}
	quiet := published(t, 0, func(all []*client.User) {
		for n := range 20 {
			pay(all[0], n, "1")
		}
	})
	busy := published(t, 8, func(all []*client.User) {
		var clients sync.WaitGroup
		for _, u := range all {
			for range 3 {
				clients.Go(func() {
					for n := range 10 {
						pay(u, n, "1000000000000000000000000000000000000000000000000000000000000")
					}
				})
			}
		}
		clients.Wait()
	})
	one, other := rig.Lengths(t, quiet.leaves), rig.Lengths(t, busy.leaves)
	for _, kind := range []string{"batch", "boot", "table"} { // sim/handover has the others
		if len(one[kind]) != 1 {
			t.Errorf("%s leaves have %v bytes besides their numbers", kind, one[kind])
		}
	}
	if !reflect.DeepEqual(one, other) {
		t.Errorf("leaves have other kinds or lengths: %v and %v", one, other)
	}
	few, fewTips := quiet.entries()
	many, manyTips := busy.entries()
	if many < 1.5*few || manyTips <= fewTips {
		t.Fatalf("the two do not differ: %.1f and %.1f entries in a batch, %d and %d tips at most", few, many, fewTips, manyTips)
	}
	for name, p := range map[string]*public{"quiet": quiet, "busy": busy} {
		said, shown, hidden := rig.Secrets(p.leaves), bytes.Join(p.tiles, nil), []byte(nil)
		for i := range p.leaves {
			shown, hidden = append(shown, p.leaves[i].Bytes...), append(hidden, p.leaves[i].Header...)
		}
		controls := 0
		for what, b := range said {
			if bytes.Contains(shown, b) {
				t.Errorf("%s: %s is in a leaf or tile", name, what)
			}
			if bytes.Contains(hidden, b) {
				controls++
			}
		}
		if controls == 0 || len(p.tiles) < 3 {
			t.Errorf("%s: the search finds nothing in headers, where tips are; %d tiles", name, len(p.tiles))
		}
		for i, l := range p.leaves { // what a leaf says besides the above is this and no more
			bare := tlog.Leaf{Format: l.Format, Epoch: l.Epoch, Boot: l.Boot, Number: l.Number, Root: l.Root, Start: l.Start, Table: l.Table, Close: l.Close, Adopt: l.Adopt, Manifest: l.Manifest}
			if b, err := bare.Encode(); err != nil || !bytes.Equal(b, l.Bytes) {
				t.Errorf("%s: leaf %d says more: %x, %v", name, i, l.Bytes, err)
			}
		}
		t.Logf("counted: %s: %d leaves and %d tiles searched for %d texts of organizations: none; %d of them in headers", name, len(p.leaves), len(p.tiles), len(said), controls)
	}
	t.Logf("counted: leaves of %d kinds have equal lengths at %.1f and %.1f entries in a batch, of %d and %d organizations at most", len(one), few, many, fewTips, manyTips)
}
