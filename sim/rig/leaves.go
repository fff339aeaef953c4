package rig

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/host/store"
	"cloister/shared/wire"
)

// A Leaf is one of a log, which is public, with the header that the store keeps of it, which is not.
type Leaf struct {
	*tlog.Leaf
	Bytes    []byte
	Position uint64
	Header   []byte
	Tips     []wire.Tip // that its batch moves
}

// Leaves are those of a range's log, of all its generations.
func Leaves(t testing.TB, s store.Loader, of wire.Range) (all []Leaf) {
	t.Helper()
	ask := wire.LoadHeaders{Range: of, MaxBytes: 1 << 20}
	for {
		got, err := s.LoadHeaders(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Headers) == 0 {
			return all
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
			all = append(all, Leaf{leaf, h.Leaf, h.Position, b, h.Tips})
		}
	}
}

// Kind is what a leaf is.
func (l *Leaf) Kind() string {
	switch {
	case l.Start != nil:
		return "boot"
	case l.Table != nil:
		return "table"
	case l.Close != nil && l.Close.Origin != "":
		return "close of a generation"
	case l.Close != nil:
		return "close of a boot"
	case l.Adopt != nil && l.Adopt.How == tlog.HowFirst:
		return "first adopt"
	case l.Adopt != nil:
		return "adopt"
	case l.Manifest != nil:
		return "manifest"
	}
	return "batch"
}

// Length is how many bytes a leaf has, less what epoch, number and the size of the log before take: those count batches and nothing else.
func (l *Leaf) Length(t testing.TB) int {
	t.Helper()
	n, counts := len(l.Bytes), []uint64{l.Epoch, l.Number}
	if l.Adopt != nil {
		counts = append(counts, l.Adopt.Size)
	}
	for _, v := range counts {
		b, err := wire.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		n -= len(b)
	}
	return n
}

// forms are how bytes may be written.
func forms(b []byte) [][]byte {
	lower := hex.EncodeToString(b)
	return [][]byte{b, []byte(lower), []byte(strings.ToUpper(lower)), []byte(base64.StdEncoding.EncodeToString(b)), []byte(base64.RawURLEncoding.EncodeToString(b))}
}

// Secrets are what leaves must not say of the organizations whose tips they move: ids, roots, counts with what stands beside them, and what
// a guess of those would give.
func Secrets(leaves []Leaf) map[string][]byte {
	all := map[string][]byte{}
	add := func(what string, b []byte) {
		for i, f := range forms(b) {
			all[fmt.Sprint(what, ", form ", i)] = f
		}
	}
	for i := range leaves {
		for _, tip := range leaves[i].Tips {
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

// Lengths are those of leaves, by kind.
func Lengths(t testing.TB, leaves []Leaf) map[string]map[int]bool {
	t.Helper()
	all := map[string]map[int]bool{}
	for i := range leaves {
		kind := leaves[i].Kind()
		if all[kind] == nil {
			all[kind] = map[int]bool{}
		}
		all[kind][leaves[i].Length(t)] = true
	}
	return all
}
