package tlog_test

import (
	"reflect"
	"strings"
	"testing"

	"cloister/attestation/tlog"
)

// leaves are one of each kind.
func leaves() map[string]*tlog.Leaf {
	l := func(change func(*tlog.Leaf)) *tlog.Leaf {
		leaf := &tlog.Leaf{Format: tlog.LeafFormat, Epoch: 3, Boot: [16]byte{4}, Number: 5, Root: [32]byte{6}}
		change(leaf)
		return leaf
	}
	hash := [32]byte{9}
	return map[string]*tlog.Leaf{
		"batch": l(func(*tlog.Leaf) {}),
		"start": l(func(l *tlog.Leaf) {
			l.Start = &tlog.Start{Nonce: hash, Manifest: hash, LiveKey: hash, Mode: tlog.ModeStrict, Seed: "operator-shares", Policy: hash}
		}),
		"start without witnesses": l(func(l *tlog.Leaf) {
			l.Start = &tlog.Start{Nonce: hash, Manifest: hash, LiveKey: hash, Seed: "development-file"}
		}),
		"table":      l(func(l *tlog.Leaf) { l.Table = &tlog.Table{Root: hash} }),
		"close":      l(func(l *tlog.Leaf) { l.Close = &tlog.Close{Boot: [16]byte{7}} }),
		"generation": l(func(l *tlog.Leaf) { l.Close = &tlog.Close{Origin: "log/2", Policy: hash} }),
		"first":      l(func(l *tlog.Leaf) { l.Adopt = &tlog.Adopt{How: tlog.HowFirst, Table: hash, Manifest: hash} }),
		"recovered": l(func(l *tlog.Leaf) {
			l.Adopt = &tlog.Adopt{How: tlog.HowRecovered, Origin: "log/1", Size: 8, Root: hash, Table: hash, Manifest: hash, Witnessed: 11}
		}),
		"manifest": l(func(l *tlog.Leaf) { l.Manifest = &tlog.Manifest{SHA256: hash} }),
	}
}

func TestLeaves(t *testing.T) {
	hashes := map[[32]byte]string{}
	for name, l := range leaves() {
		b, err := l.Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := tlog.ParseLeaf(b)
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("%s: %+v, %v", name, again, err)
		}
		h, err := l.Hash()
		if err != nil || hashes[h] != "" || h != tlog.HashLeaf(b) {
			t.Errorf("%s hashes as %s: %v", name, hashes[h], err)
		}
		hashes[h] = name
		if name == "batch" && len(b) > 70 {
			t.Errorf("a batch's leaf of %d bytes", len(b))
		}
		for i := range len(b) * 8 { // another leaf, or none
			b[i/8] ^= 1 << (i % 8)
			if other, err := tlog.ParseLeaf(b); err == nil && reflect.DeepEqual(other, l) {
				t.Errorf("%s: bit %d counts for nothing", name, i)
			}
			b[i/8] ^= 1 << (i % 8)
		}
		for _, bad := range [][]byte{nil, b[:len(b)-1], append(append([]byte{}, b...), 0), append([]byte{0xd8, 24}, b...)} {
			if _, err := tlog.ParseLeaf(bad); err == nil {
				t.Errorf("%s: %x was taken", name, bad)
			}
		}
	}
}

func TestLeavesRefused(t *testing.T) {
	for name, change := range map[string]func(map[string]*tlog.Leaf) *tlog.Leaf{
		"another format": func(l map[string]*tlog.Leaf) *tlog.Leaf { l["batch"].Format++; return l["batch"] },
		"two kinds":      func(l map[string]*tlog.Leaf) *tlog.Leaf { l["table"].Close = l["close"].Close; return l["table"] },
		"no seed":        func(l map[string]*tlog.Leaf) *tlog.Leaf { l["start"].Start.Seed = ""; return l["start"] },
		"a long seed": func(l map[string]*tlog.Leaf) *tlog.Leaf {
			l["start"].Start.Seed = strings.Repeat("x", 33)
			return l["start"]
		},
		"no mode": func(l map[string]*tlog.Leaf) *tlog.Leaf { l["start"].Start.Mode = 3; return l["start"] },
		"witnesses and no terms": func(l map[string]*tlog.Leaf) *tlog.Leaf {
			l["start"].Start.Policy = [32]byte{}
			return l["start"]
		},
		"terms and no witnesses": func(l map[string]*tlog.Leaf) *tlog.Leaf {
			l["start"].Start.Mode = tlog.ModeNone
			return l["start"]
		},
		"an end for nobody":   func(l map[string]*tlog.Leaf) *tlog.Leaf { l["close"].Close.Boot = [16]byte{}; return l["close"] },
		"an end for two":      func(l map[string]*tlog.Leaf) *tlog.Leaf { l["generation"].Close.Boot[0] = 1; return l["generation"] },
		"a policy for a boot": func(l map[string]*tlog.Leaf) *tlog.Leaf { l["close"].Close.Policy[0] = 1; return l["close"] },
		"a generation, no policy": func(l map[string]*tlog.Leaf) *tlog.Leaf {
			l["generation"].Close.Policy = [32]byte{}
			return l["generation"]
		},
		"a long origin": func(l map[string]*tlog.Leaf) *tlog.Leaf {
			l["recovered"].Adopt.Origin = strings.Repeat("x", 256)
			return l["recovered"]
		},
		"a first after another": func(l map[string]*tlog.Leaf) *tlog.Leaf { l["first"].Adopt.Origin = "log/0"; return l["first"] },
		"a recovery of nothing": func(l map[string]*tlog.Leaf) *tlog.Leaf { l["recovered"].Adopt.Origin = ""; return l["recovered"] },
		"less witnessed than taken over": func(l map[string]*tlog.Leaf) *tlog.Leaf {
			l["recovered"].Adopt.Witnessed = 7
			return l["recovered"]
		},
		"witnessed and first":      func(l map[string]*tlog.Leaf) *tlog.Leaf { l["first"].Adopt.Witnessed = 1; return l["first"] },
		"in no way":                func(l map[string]*tlog.Leaf) *tlog.Leaf { l["recovered"].Adopt.How = 0; return l["recovered"] },
		"in a way that is not yet": func(l map[string]*tlog.Leaf) *tlog.Leaf { l["recovered"].Adopt.How = 4; return l["recovered"] },
	} {
		if b, err := change(leaves()).Encode(); err == nil {
			t.Errorf("%s: %x", name, b)
		}
	}
}

func FuzzLeaf(f *testing.F) {
	for _, l := range leaves() {
		b, err := l.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := tlog.ParseLeaf(b)
		if err != nil {
			return
		}
		if again, err := l.Encode(); err != nil || string(again) != string(b) {
			t.Errorf("%x became %x, %v", b, again, err)
		}
	})
}

func TestModes(t *testing.T) {
	for m, name := range []string{"none", "bounded", "strict"} {
		if got, err := tlog.ParseMode(name); err != nil || got != tlog.Mode(m) || got.String() != name {
			t.Errorf("%s is %s: %v", name, got, err)
		}
	}
	for _, name := range []string{"", "Strict", "strict ", "open", "mode 3", tlog.Mode(3).String(), tlog.Mode(255).String()} {
		if m, err := tlog.ParseMode(name); err == nil {
			t.Errorf("%q is %s", name, m)
		}
	}
}
