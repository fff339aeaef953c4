package rig_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"cloister/attestation"
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
	leaves  [][]byte
	parsed  []*tlog.Leaf
	tips    [][]wire.Tip // by leaf
	headers [][]byte     // not public: a control
	tiles   [][]byte
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
	p := &public{}
	ask := wire.LoadHeaders{MaxBytes: 1 << 20}
	for {
		got, err := r.Store.LoadHeaders(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Headers) == 0 {
			break
		}
		for _, b := range got.Headers {
			var h wire.BatchHeader
			if err := wire.Unmarshal(b[:len(b)-sha256.Size], &h); err != nil {
				t.Fatal(err)
			}
			leaf, err := tlog.ParseLeaf(h.Leaf)
			if err != nil {
				t.Fatal(err)
			}
			ask.Epoch, ask.Number = leaf.Epoch, leaf.Number+1
			p.leaves, p.parsed, p.tips, p.headers = append(p.leaves, h.Leaf), append(p.parsed, leaf), append(p.tips, h.Tips), append(p.headers, b)
		}
	}
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

// lengths are those of leaves by kind, less what epoch and number take, which count batches and nothing else.
func (p *public) lengths(t *testing.T) map[string][]int {
	t.Helper()
	all := map[string][]int{}
	for i, l := range p.parsed {
		kind := "batch"
		switch {
		case l.Start != nil:
			kind = "boot"
		case l.Table != nil:
			kind = "table"
		case l.Close != nil:
			kind = "close"
		case l.Adopt != nil:
			kind = "adopt"
		case l.Manifest != nil:
			kind = "manifest"
		}
		n := len(p.leaves[i])
		for _, v := range []uint64{l.Epoch, l.Number} {
			b, err := cbor.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			n -= len(b)
		}
		if !slices.Contains(all[kind], n) {
			all[kind] = append(all[kind], n)
		}
	}
	return all
}

// forms are how bytes may be written.
func forms(b []byte) [][]byte {
	lower := hex.EncodeToString(b)
	return [][]byte{b, []byte(lower), []byte(strings.ToUpper(lower)), []byte(base64.StdEncoding.EncodeToString(b)), []byte(base64.RawURLEncoding.EncodeToString(b))}
}

// said is what of an organization must be nowhere: its id, its roots, and counts with what stands beside them.
func (p *public) said() map[string][]byte {
	all := map[string][]byte{}
	add := func(what string, b []byte) {
		for i, f := range forms(b) {
			all[fmt.Sprint(what, ", form ", i)] = f
		}
	}
	for i, tips := range p.tips {
		for _, tip := range tips {
			add(fmt.Sprintf("id %x", tip.Organization), tip.Organization[:])
			all[fmt.Sprintf("id %x as text", tip.Organization)] = []byte(attestation.UUID(tip.Organization))
			at := fmt.Sprintf(" of %x in leaf %d", tip.Organization, i)
			add("root"+at, tip.Root[:])
			add("count and root"+at, append(binary.BigEndian.AppendUint64(nil, tip.Count), tip.Root[:]...))
			// What whoever guesses id, count and root could compute, without the salt that nobody can.
			guess := tlog.Opening{Organization: [16]byte(tip.Organization), Count: tip.Count, Root: [32]byte(tip.Root)}
			hash := guess.Hash()
			add("unsalted tip"+at, hash[:])
			bare := sha256.Sum256(append(binary.BigEndian.AppendUint64(append([]byte{0}, tip.Organization[:]...), tip.Count), tip.Root[:]...))
			add("bare tip"+at, bare[:])
		}
	}
	return all
}

// entries is how many there are on the average in a batch that moves tips, and how many tips at most.
func (p *public) entries() (each float64, most int) {
	last, sum, batches := map[wire.ID]uint64{}, uint64(0), 0
	for _, tips := range p.tips {
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
	one, each := quiet.lengths(t), 0
	other := busy.lengths(t)
	if !slices.Equal(slices.Sorted(maps.Keys(one)), slices.Sorted(maps.Keys(other))) || len(one["batch"]) == 0 || len(one["boot"]) == 0 || len(one["table"]) == 0 {
		t.Fatalf("kinds of leaves: %v and %v", one, other)
	}
	for kind := range one {
		if len(one[kind]) != 1 || !slices.Equal(one[kind], other[kind]) {
			t.Errorf("%s leaves have %v and %v bytes besides their numbers", kind, one[kind], other[kind])
		}
		each++
	}
	few, fewTips := quiet.entries()
	many, manyTips := busy.entries()
	if many < 1.5*few || manyTips <= fewTips {
		t.Fatalf("the two do not differ: %.1f and %.1f entries in a batch, %d and %d tips at most", few, many, fewTips, manyTips)
	}
	for name, p := range map[string]*public{"quiet": quiet, "busy": busy} {
		said, shown, hidden := p.said(), bytes.Join(append(slices.Clone(p.leaves), p.tiles...), nil), bytes.Join(p.headers, nil)
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
		for i, l := range p.parsed { // what a leaf says besides the above is this and no more
			bare := tlog.Leaf{Format: l.Format, Epoch: l.Epoch, Boot: l.Boot, Number: l.Number, Root: l.Root, Start: l.Start, Table: l.Table, Close: l.Close, Adopt: l.Adopt, Manifest: l.Manifest}
			if b, err := bare.Encode(); err != nil || !bytes.Equal(b, p.leaves[i]) {
				t.Errorf("%s: leaf %d says more: %x, %v", name, i, p.leaves[i], err)
			}
		}
		t.Logf("counted: %s: %d leaves and %d tiles searched for %d texts of organizations: none; %d of them in headers", name, len(p.leaves), len(p.tiles), len(said), controls)
	}
	t.Logf("counted: leaves of %d kinds have equal lengths at %.1f and %.1f entries in a batch, of %d and %d organizations at most", each, few, many, fewTips, manyTips)
}
