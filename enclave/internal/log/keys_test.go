package log_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/log"
	"cloister/enclave/internal/secret/secrettest"
)

var origin = tlog.Origin{Name: "log.example", Deployment: [16]byte{1, 2}, Range: 3, Generation: 1}

func newKeys(t testing.TB, of tlog.Origin, secret byte) *log.Keys {
	k, err := log.NewKeys(secrettest.Of(bytes.Repeat([]byte{secret}, 32)), of)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// others are logs that nothing of origin's fits.
func others(t testing.TB) []*log.Keys {
	ks := []*log.Keys{newKeys(t, origin, 2)}
	for i := range 3 {
		o := origin
		[]func(){func() { o.Deployment[15] = 1 }, func() { o.Range = 4 }, func() { o.Generation = 2 }}[i]()
		ks = append(ks, newKeys(t, o, 1))
	}
	return ks
}

func TestKeysFitOneLog(t *testing.T) {
	k := newKeys(t, origin, 1)
	header, root := []byte("header"), [32]byte{7}
	mac, head := k.MAC(header), k.Checkpoint(9, root)
	text, line, _ := strings.Cut(string(head), "\n\n")
	c, err := tlog.ParseCheckpoint(text + "\n")
	if err != nil || c.Origin != "log.example/01020000000000000000000000000000/3/1" || c.Size != 9 || c.Root != root || strings.Count(line, "\n") != 1 {
		t.Errorf("%+v %v %q", c, err, head)
	}
	if !k.Authentic(header, mac) || k.Authentic([]byte("headeR"), mac) || !newKeys(t, origin, 1).Authentic(header, mac) {
		t.Error("a MAC is not one")
	}
	tips := []log.Tip{tip(1, 1), tip(2, 2)}
	for i, other := range others(t) {
		if other.Authentic(header, mac) || other.Key().String() == k.Key().String() || other.MovedRoot(5, tips) == k.MovedRoot(5, tips) {
			t.Errorf("log %d has keys of another", i)
		}
	}
	if s := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); s != "log.Keys log.Keys log.Keys log.Keys" {
		t.Error(s)
	}
}

// Every tip of a batch opens under its root, in any order of the tips, and nothing else
// does; the root tells nothing of how many there are but the next power of two.
func TestOpenings(t *testing.T) {
	k := newKeys(t, origin, 1)
	for _, n := range []uint64{1, 2, 3, 5, 8, 33} {
		var tips []log.Tip
		for o := range n {
			tips = append(tips, tip(o, o+1))
		}
		root := k.MovedRoot(5, tips)
		backwards := slices.Clone(tips)
		slices.Reverse(backwards)
		if k.MovedRoot(5, backwards) != root {
			t.Errorf("%d tips in another order have another root", n)
		}
		if n&(n-1) != 0 && k.MovedRoot(6, tips) == root {
			t.Errorf("%d tips have one root in two places", n)
		}
		for i := range tips {
			o := k.Open(5, tips, i)
			if err := o.Verify(root); err != nil || o.Organization != tips[i].Organization || o.Count != tips[i].Count || o.Root != tips[i].Root || 1<<len(o.Path) < len(tips) || len(tips) > 1 && 1<<(len(o.Path)-1) >= len(tips) {
				t.Fatalf("tip %d of %d: %v, %d hashes", i, n, err, len(o.Path))
			}
			for name, change := range map[string]func(*tlog.Opening){
				"organization": func(o *tlog.Opening) { o.Organization[3]++ }, "count": func(o *tlog.Opening) { o.Count++ },
				"root": func(o *tlog.Opening) { o.Root[0]++ }, "salt": func(o *tlog.Opening) { o.Salt[0]++ }, "place": func(o *tlog.Opening) { o.Index ^= 1 },
				"depth": func(o *tlog.Opening) { o.Path = append(o.Path, make([]byte, 32)) }, "deep": func(o *tlog.Opening) { o.Path = make([][]byte, 64) },
			} {
				bad := *o
				bad.Path = slices.Clone(o.Path)
				if change(&bad); bad.Verify(root) == nil {
					t.Errorf("another %s opens", name)
				}
			}
		}
	}
}

func BenchmarkMovedRoot(b *testing.B) {
	k := newKeys(b, origin, 1)
	tips := []log.Tip{tip(1, 1)}
	b.ReportAllocs()
	for b.Loop() {
		k.MovedRoot(5, tips)
	}
}
