// Package tlogtest makes logs for tests of logged proofs: a log, its witnesses and the organizations whose entries
// are in it. The test has all their keys. Its trees are those of golang.org/x/mod, so that proofs are made and
// verified (package tlog) by two implementations.
package tlogtest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	mod "golang.org/x/mod/sumdb/tlog"

	"cloister/attestation/tlog"
)

// A Signer signs checkpoints as a log or a witness does.
type Signer struct {
	*tlog.Key
	Seconds uint64 // a witness's clock

	private ed25519.PrivateKey
}

// NewSigner makes the signer with a name and a type, tlog.TypeLog or tlog.TypeCosignature; the same seed gives the same key.
func NewSigner(name string, kind byte, seed string) *Signer {
	sum := sha256.Sum256([]byte(seed))
	private := ed25519.NewKeyFromSeed(sum[:])
	return &Signer{Key: must(tlog.NewKey(name, kind, private.Public().(ed25519.PublicKey))), private: private}
}

// must panics on an error, which only a mistake in the test can cause.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Line is the signer's line under a note.
func (s *Signer) Line(text string) string {
	signed := ed25519.Sign(s.private, []byte(text))
	if s.Type() == tlog.TypeCosignature {
		over := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", s.Seconds, text)
		signed = append(binary.BigEndian.AppendUint64(nil, s.Seconds), ed25519.Sign(s.private, over)...)
	}
	raw := binary.BigEndian.AppendUint32(nil, s.KeyHash())
	return "— " + s.Name() + " " + base64.StdEncoding.EncodeToString(append(raw, signed...)) + "\n"
}

// A Tree is an RFC 6962 tree, which has roots and paths for every size up to its own.
type Tree struct {
	size   int64
	stored []mod.Hash
}

// ReadHashes makes a Tree x/mod's HashReader.
func (t *Tree) ReadHashes(at []int64) ([]mod.Hash, error) {
	out := make([]mod.Hash, len(at))
	for i, n := range at {
		out[i] = t.stored[n]
	}
	return out, nil
}

// Add adds a leaf by its hash.
func (t *Tree) Add(leaf [32]byte) {
	t.stored = append(t.stored, must(mod.StoredHashesForRecordHash(t.size, leaf, t))...)
	t.size++
}

// Size is how many leaves there are.
func (t *Tree) Size() uint64 { return uint64(t.size) }

// Root is the root over the first size leaves.
func (t *Tree) Root(size uint64) [32]byte { return must(mod.TreeHash(int64(size), t)) }

// Leaf is the hash of a leaf.
func (t *Tree) Leaf(index uint64) [32]byte { return t.stored[mod.StoredHashIndex(0, int64(index))] }

// Path is the inclusion proof of a leaf under the root over the first size leaves.
func (t *Tree) Path(size, index uint64) [][]byte {
	return flat(must(mod.ProveRecord(int64(size), int64(index), t)))
}

// Consistency is the proof that the tree of size leaves is consistent with that of old.
func (t *Tree) Consistency(old, size uint64) [][]byte {
	if old == 0 || old == size {
		return nil
	}
	return flat(must(mod.ProveTree(int64(size), int64(old), t)))
}

func flat(hashes []mod.Hash) (path [][]byte) {
	for _, h := range hashes {
		path = append(path, bytes.Clone(h[:]))
	}
	return path
}

// A World is a log, its witnesses, and organizations.
type World struct {
	Log       *Signer
	Witnesses []*Signer
	Quorum    int
	Tree      Tree // of the log
	// Beside is how many other tips each batch seems to move, as a power of two.
	Beside int

	first         []byte // the leaf at 0
	organizations map[[16]byte]*organization
}

type organization struct {
	Tree
	entries []entry
	taken   uint64 // how many entries were taken over from another log
	again   batch  // the newest batch of Restate
}

// An entry is the data for the proof of an entry.
type entry struct {
	stored    [32]byte
	facts     []byte
	salt      [tlog.SaltSize]byte
	factsPath [][]byte
	batch     batch
}

type batch struct {
	index   uint64
	leaf    []byte
	opening tlog.Opening
}

// New makes a log without leaves, with witnesses of which that quorum is needed. Their clocks begin at 1,700,000,000.
func New(origin string, quorum, witnesses int) *World {
	w := &World{Log: NewSigner(origin, tlog.TypeLog, "log "+origin), Quorum: quorum, organizations: map[[16]byte]*organization{}}
	for i := range witnesses {
		name := fmt.Sprintf("w%d.example", i+1)
		s := NewSigner(name, tlog.TypeCosignature, name)
		s.Seconds = 1_700_000_000 + uint64(i)
		w.Witnesses = append(w.Witnesses, s)
	}
	return w
}

// Policy is the text of the policy. Nothing serves the URLs of its witnesses.
func (w *World) Policy() string {
	var b strings.Builder
	names := ""
	for _, s := range w.Witnesses {
		fmt.Fprintf(&b, "witness %s %s https://%[1]s/\n", s.Name(), s)
		names += " " + s.Name()
	}
	return fmt.Sprintf("%sgroup all %d%s\nquorum all\n", b.String(), w.Quorum, names)
}

// Append adds a leaf. It sets format, epoch and number, and boot and root if they are zero.
func (w *World) Append(leaf tlog.Leaf) (index uint64, encoded []byte) {
	index = w.Tree.Size()
	leaf.Format, leaf.Epoch, leaf.Number = tlog.LeafFormat, 1, index
	if leaf.Boot == [16]byte{} {
		leaf.Boot[0] = 1
	}
	if leaf.Root == [32]byte{} {
		leaf.Root = sha256.Sum256(binary.BigEndian.AppendUint64([]byte("heartbeat "+w.Log.Name()), index))
	}
	encoded = must(leaf.Encode())
	if index == 0 {
		w.first = encoded
	}
	w.Tree.Add(tlog.HashLeaf(encoded))
	return index, encoded
}

// Grow adds heartbeats until there are size leaves.
func (w *World) Grow(size uint64) *World {
	for w.Tree.Size() < size {
		w.Append(tlog.Leaf{})
	}
	return w
}

// Record adds an entry to its organization's ledger, and its batch to the log. It sets the facts' format and
// seq.
func (w *World) Record(f tlog.Facts) (seq uint64) {
	o := w.organizations[f.Organization]
	if o == nil {
		o = new(organization)
		w.organizations[f.Organization] = o
	}
	seq = o.Size()
	f.Format, f.Seq = tlog.FactsFormat, seq
	e := entry{facts: must(f.Encode())}
	e.stored = sha256.Sum256(append([]byte("stored"), e.facts...))
	seed := [tlog.SeedSize]byte(e.stored[:])
	var parts [tlog.Parts][32]byte
	for p := range tlog.Parts {
		content := []byte{byte(p)}
		if p == tlog.PartFacts {
			content = e.facts
		}
		parts[p] = tlog.HashPart(p, tlog.Salt(seed, p), content)
	}
	e.salt, e.factsPath = tlog.Salt(seed, tlog.PartFacts), tlog.PathOf(&parts, tlog.PartFacts)
	o.Add(tlog.HashEntry(tlog.Commitment(&parts), e.stored))

	e.batch = w.move(f.Organization, seed)
	o.entries = append(o.entries, e)
	return seq
}

// Restate adds a batch that moves an organization to its present tip. Proofs of entries that were taken over use it.
func (w *World) Restate(id [16]byte) {
	o := w.organizations[id]
	o.again = w.move(id, [tlog.SeedSize]byte{byte(w.Tree.Size())})
}

// move adds a batch that moves an organization to its present tip.
func (w *World) move(id [16]byte, seed [tlog.SeedSize]byte) (b batch) {
	o := w.organizations[id]
	opening := tlog.Opening{Organization: id, Count: o.Size(), Root: o.Root(o.Size()), Salt: [16]byte(seed[:])}
	tips := new(Tree)
	for i := range uint64(1) << w.Beside {
		if i == uint64(1)<<w.Beside>>1 {
			opening.Index = i
			tips.Add(opening.Hash())
			continue
		}
		tips.Add(sha256.Sum256(binary.BigEndian.AppendUint64(seed[:], i)))
	}
	opening.Path = tips.Path(tips.Size(), opening.Index)
	b.opening = opening
	b.index, b.leaf = w.Append(tlog.Leaf{Root: tips.Root(tips.Size())})
	return b
}

// Entries is how many entries an organization has.
func (w *World) Entries(organization [16]byte) uint64 {
	if o := w.organizations[organization]; o != nil {
		return o.Size()
	}
	return 0
}

// TakeOver starts with the first entries of an organization's ledger from another log. Proofs of them use the batch that
// comes next.
func (w *World) TakeOver(before *World, id [16]byte, entries uint64) {
	old := before.organizations[id]
	w.organizations[id] = &organization{Tree: Tree{int64(entries), slices.Clone(old.stored[:mod.StoredHashCount(int64(entries))])}, entries: slices.Clone(old.entries[:entries]), taken: entries}
}

// Batch is the index in its log of the batch that added an entry.
func (w *World) Batch(organization [16]byte, seq uint64) uint64 {
	return w.organizations[organization].entries[seq].batch.index
}

// Idle reports whether no batch of this log moves an organization yet.
func (w *World) Idle(organization [16]byte) bool {
	o := w.organizations[organization]
	return o != nil && o.taken == o.Size() && o.again.leaf == nil
}

// Checkpoint is the checkpoint of the log's first size leaves, signed by the log alone.
func (w *World) Checkpoint(size uint64) []byte {
	c := tlog.Checkpoint{Origin: w.Log.Name(), Size: size, Root: w.Tree.Root(size)}
	return []byte(c.Text() + "\n" + w.Log.Line(c.Text()))
}

// Cosign is the Checkpoint with the cosignatures of the first witnesses that make a quorum.
func (w *World) Cosign(size uint64) []byte {
	note := w.Checkpoint(size)
	text, _, _ := bytes.Cut(note, []byte("\n\n"))
	for _, s := range w.Witnesses[:w.Quorum] {
		note = append(note, s.Line(string(text)+"\n")...)
	}
	return note
}

// Prove makes the proof of an entry by the batch that added it, under the newest checkpoint.
func (w *World) Prove(organization [16]byte, seq uint64) *tlog.LoggedProof {
	return w.ProveAt(w.Tree.Size(), organization, seq, seq)
}

// ProveAt makes the proof of an entry under a checkpoint of size leaves, by the batch that added that or another entry.
func (w *World) ProveAt(size uint64, organization [16]byte, seq, by uint64) *tlog.LoggedProof {
	o := w.organizations[organization]
	e, b := o.entries[seq], o.again
	if by = max(by, o.taken); by < o.Size() {
		b = o.entries[by].batch
	}
	p := &tlog.LoggedProof{Index: b.index, Path: w.Tree.Path(size, b.index), Checkpoint: w.Cosign(size), Entry: tlog.LoggedEntry{
		Leaf: b.leaf, Opening: b.opening, Path: o.Path(b.opening.Count, seq), Stored: e.stored, Facts: e.facts, Salt: e.salt, FactsPath: e.factsPath}}
	if first := must(tlog.ParseLeaf(w.first)); first.Adopt != nil {
		p.Entry.Adopt, p.Entry.AdoptPath = w.first, w.Tree.Path(size, 0)
	}
	return p
}
