package tlog_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	mod "golang.org/x/mod/sumdb/tlog"

	"cloister/attestation/tlog"
	"cloister/attestation/tlog/tlogtest"
)

const logs = "log.example/00112233445566778899aabbccddeeff/3"

var organizations = [...][16]byte{{1}, {2}, {3}}

// recorded is a log in which some organizations have some entries, between leaves of other kinds.
func recorded(generation int, mode tlog.Mode, adopt *tlog.Adopt) *tlogtest.World {
	w := tlogtest.New(fmt.Sprintf("%s/%d", logs, generation), 2, 3)
	w.Beside = 2
	if adopt != nil {
		w.Append(tlog.Leaf{Adopt: adopt})
	}
	w.Append(tlog.Leaf{Start: &tlog.Start{Nonce: [32]byte{1}, Mode: tlog.ModeBounded, Seed: "operator-shares", Policy: [32]byte{2}}})
	for i := range 7 {
		for _, o := range organizations {
			w.Record(tlog.Facts{Organization: o, Activity: [16]byte{byte(i)}, Type: "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", Status: "ACTIVITY_STATUS_COMPLETED",
				Fingerprint: [32]byte{4}, TimeMs: 1_700_000_000_000, Boot: 5, Mode: mode, Proofs: [][32]byte{{6}}})
		}
	}
	w.Append(tlog.Leaf{Table: &tlog.Table{Root: [32]byte{7}}})
	return w
}

func recovered() *tlog.Adopt {
	return &tlog.Adopt{How: tlog.HowRecovered, Origin: logs + "/1", Size: 40, Witnessed: 43, Root: [32]byte{8}}
}

func text(t testing.TB, p *tlog.LoggedProof) string {
	t.Helper()
	s, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verify is what a client does with a text.
func verify(w *tlogtest.World, policy *tlog.Policy, text string) (*tlog.Logged, error) {
	p, err := tlog.ParseLoggedProof(text)
	if err != nil {
		return nil, err
	}
	return p.Verify(w.Log.Key, policy)
}

// Every entry is shown, by the batch that brought it and by each later one of its organization, under each size.
func TestLoggedProofs(t *testing.T) {
	for name, adopt := range map[string]*tlog.Adopt{"first generation": nil, "recovered": recovered(), "moved": {How: tlog.HowMoved, Origin: logs + "/1", Size: 40}} {
		generation := 1
		if adopt != nil {
			generation = 2
		}
		w := recorded(generation, tlog.ModeStrict, adopt)
		policy := parsed(t, w.Policy())
		for _, o := range organizations {
			for seq := range uint64(7) {
				by := seq + rand.Uint64N(7-seq)
				p := w.ProveAt(w.Tree.Size()-rand.Uint64N(2), o, seq, by)
				s := text(t, p)
				l, err := verify(w, policy, s)
				if err != nil {
					t.Fatalf("%s: entry %d by %d: %v\n%s", name, seq, by, err, s)
				}
				if l.Facts.Organization != o || l.Facts.Seq != seq || l.Opening.Count != by+1 || l.Index != p.Index || len(l.Signed) != 2 ||
					l.Origin.Logs() != logs || l.Origin.Generation != uint32(generation) || (l.Adopt == nil) != (adopt == nil) || adopt != nil && *l.Adopt != *adopt {
					t.Errorf("%s: %+v", name, l)
				}
				// A second implementation, which made the trees, takes the leaf as well.
				c := l.Checkpoint
				var path mod.RecordProof
				for _, hash := range p.Path {
					path = append(path, mod.Hash(hash))
				}
				if err := mod.CheckRecord(path, int64(c.Size), c.Root, int64(l.Index), mod.RecordHash(p.Entry.Leaf)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// No bit of a proof can be changed, whatever its mode and generation.
func TestEveryBitOfALoggedProofCounts(t *testing.T) {
	for name, w := range map[string]*tlogtest.World{
		"strict": recorded(1, tlog.ModeStrict, nil), "bounded": recorded(1, tlog.ModeBounded, nil),
		"strict, recovered": recorded(2, tlog.ModeStrict, recovered()), "bounded, recovered": recorded(2, tlog.ModeBounded, recovered()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.Quorum = 1 // to be quicker
			policy, good := parsed(t, w.Policy()), []byte(text(t, w.ProveAt(w.Tree.Size(), organizations[1], 3, 5)))
			if _, err := verify(w, policy, string(good)); err != nil {
				t.Fatal(err)
			}
			for i := range len(good) * 8 {
				good[i/8] ^= 1 << (i % 8)
				if l, err := verify(w, policy, string(good)); err == nil {
					t.Errorf("bit %d of byte %d changed: %+v", i%8, i/8, l)
				}
				good[i/8] ^= 1 << (i % 8)
			}
			for n := range len(good) {
				if _, err := verify(w, policy, string(good[:n])); err == nil {
					t.Errorf("the first %d bytes are taken", n)
				}
			}
			if testing.Short() {
				return
			}
			// Nor one of what the extra line holds, where base64 is not in the way.
			line := strings.TrimPrefix(strings.Split(string(good), "\n")[1], "extra ")
			extra, err := base64.StdEncoding.DecodeString(line)
			if err != nil {
				t.Fatal(err)
			}
			for i := range len(extra) * 8 {
				extra[i/8] ^= 1 << (i % 8)
				if l, err := verify(w, policy, strings.Replace(string(good), line, base64.StdEncoding.EncodeToString(extra), 1)); err == nil {
					t.Errorf("bit %d of byte %d of the extra changed: %+v", i%8, i/8, l)
				}
				extra[i/8] ^= 1 << (i % 8)
			}
		})
	}
}

// Proofs whose hashes all hold, of something that is not so.
func TestLoggedProofsRefused(t *testing.T) {
	fresh := func() *tlog.LoggedProof {
		return recorded(2, tlog.ModeStrict, recovered()).ProveAt(24, organizations[1], 3, 5)
	}
	other := recorded(2, tlog.ModeBounded, recovered()).ProveAt(24, organizations[1], 3, 5)
	w, plain := recorded(2, tlog.ModeStrict, recovered()), recorded(1, tlog.ModeStrict, nil)
	policy := parsed(t, w.Policy())
	if _, err := verify(w, policy, text(t, fresh())); err != nil {
		t.Fatal(err)
	}
	// adopting is a log of generation 2 whose first leaf is another.
	adopting := func(first tlog.Leaf) *tlog.LoggedProof {
		w := tlogtest.New(logs+"/2", 2, 3)
		_, b := w.Append(first)
		w.Record(tlog.Facts{Organization: organizations[1]})
		p := w.Prove(organizations[1], 0)
		p.Entry.Adopt, p.Entry.AdoptPath = b, w.Tree.Path(2, 0)
		return p
	}
	adopt := func(change func(*tlog.Adopt)) *tlog.LoggedProof {
		a := recovered()
		change(a)
		return adopting(tlog.Leaf{Adopt: a})
	}
	if _, err := verify(w, policy, text(t, adopt(func(*tlog.Adopt) {}))); err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*tlog.LoggedProof)) *tlog.LoggedProof {
		p := fresh()
		change(p)
		return p
	}
	for name, p := range map[string]*tlog.LoggedProof{
		"no adopt leaf":                changed(func(p *tlog.LoggedProof) { p.Entry.Adopt, p.Entry.AdoptPath = nil, nil }),
		"an adopt leaf's path alone":   changed(func(p *tlog.LoggedProof) { p.Entry.Adopt = nil }),
		"another adopt leaf":           changed(func(p *tlog.LoggedProof) { p.Entry.Adopt = adopt(func(a *tlog.Adopt) { a.Size++ }).Entry.Adopt }),
		"a first leaf that adopts not": adopting(tlog.Leaf{}),
		"one that begins":              adopting(tlog.Leaf{Adopt: &tlog.Adopt{How: tlog.HowFirst}}),
		"of another range":             adopt(func(a *tlog.Adopt) { a.Origin = strings.Replace(logs, "/3", "/4", 1) + "/1" }),
		"of another deployment":        adopt(func(a *tlog.Adopt) { a.Origin = strings.Replace(logs, "00112233", "00112234", 1) + "/1" }),
		"of itself":                    adopt(func(a *tlog.Adopt) { a.Origin = logs + "/2" }),
		"of a later one":               adopt(func(a *tlog.Adopt) { a.Origin = logs + "/3" }),
		"of no range":                  adopt(func(a *tlog.Adopt) { a.Origin = "log.example" }),
		"another leaf":                 changed(func(p *tlog.LoggedProof) { p.Index++ }),
		"another entry's facts":        changed(func(p *tlog.LoggedProof) { p.Entry.Facts = other.Entry.Facts }),
		"another entry":                changed(func(p *tlog.LoggedProof) { p.Entry = other.Entry }),
		"an adopted leaf as a batch":   changed(func(p *tlog.LoggedProof) { p.Index, p.Entry.Leaf, p.Path = 0, p.Entry.Adopt, p.Entry.AdoptPath }),
		"of another organization":      changed(func(p *tlog.LoggedProof) { p.Entry.Opening = w.Prove(organizations[0], 5).Entry.Opening }),
		"one hash more":                changed(func(p *tlog.LoggedProof) { p.Path = append(p.Path, p.Path[0]) }),
		"one hash less":                changed(func(p *tlog.LoggedProof) { p.Path = p.Path[1:] }),
		"an entry's hash more":         changed(func(p *tlog.LoggedProof) { p.Entry.Path = append(p.Entry.Path, p.Path[0]) }),
		"a tip's hash less":            changed(func(p *tlog.LoggedProof) { p.Entry.Opening.Path = p.Entry.Opening.Path[1:] }),
		"the facts' hash less":         changed(func(p *tlog.LoggedProof) { p.Entry.FactsPath = p.Entry.FactsPath[1:] }),
		"no facts":                     changed(func(p *tlog.LoggedProof) { p.Entry.Facts = nil }),
		"no leaf":                      changed(func(p *tlog.LoggedProof) { p.Entry.Leaf = nil }),
		"the log's line alone":         changed(func(p *tlog.LoggedProof) { p.Checkpoint = w.Checkpoint(24) }),
		"a line more than the policy's": changed(func(p *tlog.LoggedProof) {
			head, _, _ := bytes.Cut(p.Checkpoint, []byte("\n\n"))
			p.Checkpoint = append(p.Checkpoint, tlogtest.NewSigner("w9.example", tlog.TypeCosignature, "9").Line(string(head)+"\n")...)
		}),
		"an older checkpoint": changed(func(p *tlog.LoggedProof) { p.Checkpoint = w.Cosign(23) }),
		"no checkpoint":       changed(func(p *tlog.LoggedProof) { p.Checkpoint = nil }),
	} {
		if l, err := verify(w, policy, text(t, p)); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
	// An adopt leaf in a first generation, though it is there.
	first := tlogtest.New(logs+"/1", 2, 3)
	first.Append(tlog.Leaf{Adopt: &tlog.Adopt{How: tlog.HowFirst}})
	first.Record(tlog.Facts{Organization: organizations[1]})
	if _, err := verify(first, policy, text(t, first.Prove(organizations[1], 0))); err == nil {
		t.Error("the first generation adopts another")
	}
	// Another log's key and other witnesses.
	s := text(t, plain.Prove(organizations[0], 3))
	if _, err := verify(w, policy, s); err == nil {
		t.Error("another log's proof is taken")
	}
	if _, err := verify(plain, parsed(t, tlogtest.New("log.example", 3, 3).Policy()), s); err == nil {
		t.Error("two witnesses pass for three")
	}
	deep := fresh()
	for deep.Entry.Path = nil; len(deep.Entry.Path) < 64; {
		deep.Entry.Path = append(deep.Entry.Path, make([]byte, 32))
	}
	short := fresh()
	short.Path[0] = short.Path[0][1:]
	long := fresh()
	long.Checkpoint = make([]byte, tlog.MaxLoggedProof)
	for name, p := range map[string]*tlog.LoggedProof{"a path that is too long": deep, "half a hash": short, "a long checkpoint": long} {
		if s, err := p.Text(); err == nil {
			t.Errorf("%s: %q", name, s)
		}
	}
	if _, err := tlog.ParseLoggedProof(strings.Repeat("x", tlog.MaxLoggedProof+1)); err == nil {
		t.Error("a long text is taken")
	}
}

// A proof from a log of 2^40 leaves, by 16 witnesses of long names, fits.
func TestTheLongestProofFits(t *testing.T) {
	p := recorded(2, tlog.ModeStrict, recovered()).Prove(organizations[0], 0)
	w := tlogtest.New(strings.Repeat("n", 128)+strings.TrimPrefix(logs, "log.example")+"/2", 16, 16)
	w.Append(tlog.Leaf{})
	for i, s := range w.Witnesses {
		w.Witnesses[i] = tlogtest.NewSigner(s.Name()+strings.Repeat("w", tlog.MaxName-len(s.Name())), tlog.TypeCosignature, s.Name())
	}
	p.Checkpoint = w.Cosign(1)
	usual := *p
	usual.Checkpoint = recorded(2, tlog.ModeStrict, nil).Cosign(1)
	for _, p := range []*tlog.LoggedProof{p, &usual} {
		for path, n := range map[*[][]byte]int{&p.Path: 40, &p.Entry.AdoptPath: 40, &p.Entry.Path: 30, &p.Entry.Opening.Path: 16} {
			for *path = nil; len(*path) < n; {
				*path = append(*path, make([]byte, 32))
			}
		}
	}
	t.Logf("%d bytes; %d with 2 witnesses", len(text(t, p)), len(text(t, &usual)))
}

func TestOrigins(t *testing.T) {
	for _, s := range []string{logs + "/1", "a/b/00112233445566778899aabbccddeeff/0/4294967295"} {
		if o, err := tlog.ParseOrigin(s); err != nil || o.String() != s {
			t.Errorf("%q: %+v, %v", s, o, err)
		}
	}
	for _, s := range []string{"", "///", logs, logs + "/", logs + "/0", logs + "/01", logs + "/4294967296", logs + "/1/", "/" + logs + "/1 ",
		strings.Replace(logs, "log.example", "", 1) + "/1", strings.ToUpper(logs) + "/1", strings.Replace(logs, "/3", "/65536", 1) + "/1",
		strings.Replace(logs, "00", "", 1) + "/1", strings.Repeat("n", 255) + "/1"} {
		if o, err := tlog.ParseOrigin(s); err == nil {
			t.Errorf("%q was taken for %+v", s, o)
		}
	}
}

func FuzzLoggedProof(f *testing.F) {
	for _, w := range []*tlogtest.World{recorded(1, tlog.ModeStrict, nil), recorded(2, tlog.ModeBounded, recovered())} {
		f.Add(text(f, w.Prove(organizations[2], 4)))
	}
	w := recorded(1, tlog.ModeStrict, nil)
	policy := parsed(f, w.Policy())
	f.Fuzz(func(t *testing.T, s string) {
		p, err := tlog.ParseLoggedProof(s)
		if err != nil {
			return
		}
		if again, err := p.Text(); err != nil || again != s {
			t.Fatalf("%q is another form of %q", s, again)
		}
		_, _ = p.Verify(w.Log.Key, policy)
	})
}
