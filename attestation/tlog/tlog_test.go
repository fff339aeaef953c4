package tlog_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"cloister/attestation/tlog"
	"cloister/attestation/tlog/tlogtest"
)

// A signer signs checkpoints as a log or witness does.
type signer struct {
	*tlog.Key
	private ed25519.PrivateKey
	seconds uint64
}

func newSigner(t testing.TB, name string, kind byte, seed byte) *signer {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	k, err := tlog.NewKey(name, kind, private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return &signer{k, private, 1_700_000_000 + uint64(seed)}
}

func (s *signer) line(text string) string {
	signed := ed25519.Sign(s.private, []byte(text))
	if strings.HasPrefix(s.Name(), "w") {
		signed = binary.BigEndian.AppendUint64(nil, s.seconds)
		signed = append(signed, ed25519.Sign(s.private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", s.seconds, text))...)
	}
	raw := binary.BigEndian.AppendUint32(nil, s.KeyHash())
	return "— " + s.Name() + " " + base64.StdEncoding.EncodeToString(append(raw, signed...)) + "\n"
}

const origin = "log.example/00/0/1"

// world is a log and four witnesses, of which it takes three.
func world(t testing.TB) (log *signer, ws []*signer, policy string) {
	log = newSigner(t, origin, tlog.TypeLog, 1)
	for i := range byte(4) {
		ws = append(ws, newSigner(t, fmt.Sprintf("w%d.example", i+1), tlog.TypeCosignature, 10+i))
		policy += fmt.Sprintf("witness %s %s http://127.0.0.1:%d\n", ws[i].Name(), ws[i], 8000+int(i))
	}
	return log, ws, policy + "group all 3 w1.example w2.example w3.example w4.example\nquorum all\n"
}

func parsed(t testing.TB, policy string) *tlog.Policy {
	t.Helper()
	p, err := tlog.ParsePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func checkpoint(size uint64) string {
	c := tlog.Checkpoint{Origin: origin, Size: size, Root: [32]byte{1, 2, byte(size)}}
	return c.Text()
}

func TestVerify(t *testing.T) {
	log, ws, text := world(t)
	p := parsed(t, text)
	head := checkpoint(7)
	base := head + "\n" + log.line(head)
	one, two, three, four := ws[0].line(head), ws[1].line(head), ws[2].line(head), ws[3].line(head)
	unrelated := newSigner(t, "w9.example", tlog.TypeCosignature, 9).line(head)
	relabelled := newSigner(t, "w5.example", tlog.TypeCosignature, 10).line(head) // the first one's key
	forged := strings.Replace(one, ws[0].Name(), ws[1].Name(), 1)
	other := checkpoint(8)
	bad := []byte(two)
	bad[len(bad)-10] ^= 1
	for name, row := range map[string]struct {
		note  string
		loose bool // taken of what witnesses bring
		exact bool // and as a proof
	}{
		"three":                  {base + one + two + four, true, true},
		"all":                    {base + one + two + three + four, true, true},
		"another order":          {base + two + one + three, true, false},
		"a stranger besides":     {base + one + two + three + unrelated, true, false},
		"witnesses first":        {head + "\n" + one + two + three + log.line(head), true, false},
		"one twice":              {base + one + two + three + three, true, false},
		"two":                    {base + one + two, false, false},
		"two and one twice":      {base + one + two + two, false, false},
		"two and a stranger":     {base + one + two + unrelated, false, false},
		"two and one relabelled": {base + one + two + relabelled, false, false},
		"one in another's name":  {base + two + three + forged, false, false},
		"no log":                 {head + "\n" + one + two + three, false, false},
		"another log":            {head + "\n" + newSigner(t, "l.example", tlog.TypeLog, 1).line(head) + one + two + three, false, false},
		"another size":           {base + one + two + ws[2].line(other), false, false},
		"a bit":                  {base + one + string(bad) + three + four, false, false},
		"nothing":                {"", false, false},
		"no empty line":          {head + log.line(head) + one + two + three, false, false},
		"carriage returns":       {strings.ReplaceAll(base+one+two+three, "\n", "\r\n"), false, false},
		"too long":               {base + one + two + three + strings.Repeat(unrelated, tlog.MaxNote/len(unrelated)+1), false, false},
	} {
		c, signed, err := p.Verify(log.Key, []byte(row.note))
		if (err == nil) != row.loose {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (c.Size != 7 || c.Text() != head || len(signed) < 3 || signed[0].Seconds < 1_700_000_010) {
			t.Errorf("%s: %+v, %v", name, c, signed)
		}
		if _, _, err = p.VerifyExactly(log.Key, []byte(row.note)); (err == nil) != row.exact {
			t.Errorf("%s as a proof: %v", name, err)
		}
	}
	if _, _, err := p.Verify(ws[0].Key, []byte(base+one+two+three)); err == nil {
		t.Error("a witness passed for the log")
	}
}

// Every single bit of a proof's checkpoint counts.
// TestMissing: who has not cosigned is told of lines that make no quorum, and of a note.
func TestMissing(t *testing.T) {
	w := tlogtest.New("log.example", 3, 4).Grow(5)
	policy, err := tlog.ParsePolicy(w.Policy())
	if err != nil {
		t.Fatal(err)
	}
	signed, other := w.Checkpoint(5), w.Checkpoint(4)
	line := func(i int, note []byte) string {
		text, _, _ := strings.Cut(string(note), "\n\n")
		return w.Witnesses[i].Line(text + "\n")
	}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"no line":           {nil, "[w1.example w2.example w3.example w4.example]"},
		"two":               {[]string{line(3, signed), line(1, signed)}, "[w1.example w3.example]"},
		"one of them twice": {[]string{line(1, signed), line(1, signed)}, "[w1.example w3.example w4.example]"},
		"of other leaves":   {[]string{line(1, other), line(2, signed)}, "[w1.example w2.example w4.example]"},
		"two in one":        {[]string{line(1, signed) + line(2, signed)}, "[w1.example w2.example w3.example w4.example]"},
		"too many":          {slices.Repeat([]string{line(1, signed)}, 4*tlog.MaxWitnesses+1), "[w1.example w2.example w3.example w4.example]"},
	} {
		if got := fmt.Sprint(policy.Missing(signed, c.lines)); got != c.want {
			t.Errorf("%s: %s are missing", name, got)
		}
		if policy.Collect(signed, c.lines) != nil {
			t.Errorf("%s: a quorum", name)
		}
	}
	whole := w.Cosign(5)
	if n := policy.Count(whole); n != 3 || policy.Missing(signed, []string{line(0, signed), line(1, signed), line(2, signed), line(3, signed)}) != nil {
		t.Errorf("%d have cosigned", n)
	}
	for name, note := range map[string][]byte{"nothing": nil, "no line": []byte(strings.Split(string(whole), "\n\n")[0]), "only the log": signed, "other leaves": append(bytes.Clone(other), line(0, signed)...)} {
		if n := policy.Count(note); n != 0 {
			t.Errorf("%s: %d have cosigned", name, n)
		}
	}
	another := tlogtest.NewSigner("log.example", tlog.TypeLog, "another")
	if !w.Log.Signed(signed) || !w.Log.Signed(whole) || another.Signed(whole) || w.Witnesses[0].Signed(whole) || w.Log.Signed([]byte("note")) {
		t.Error("who has signed")
	}
}

func TestEveryBitCounts(t *testing.T) {
	log, ws, text := world(t)
	p, head := parsed(t, text), checkpoint(300)
	proof := []byte(head + "\n" + log.line(head) + ws[0].line(head) + ws[2].line(head) + ws[3].line(head))
	if _, _, err := p.VerifyExactly(log.Key, proof); err != nil {
		t.Fatal(err)
	}
	for i := range len(proof) * 8 {
		proof[i/8] ^= 1 << (i % 8)
		if _, _, err := p.VerifyExactly(log.Key, proof); err == nil {
			t.Errorf("bit %d of byte %d changed: %q", i%8, i/8, proof)
		}
		proof[i/8] ^= 1 << (i % 8)
	}
}

func TestCheckpointsRefused(t *testing.T) {
	good := checkpoint(7)
	if c, err := tlog.ParseCheckpoint(good); err != nil || c.Size != 7 {
		t.Fatal(c, err)
	}
	root := strings.Split(good, "\n")[2]
	for _, text := range []string{
		"", "\n", good[1:] + "x", strings.TrimSuffix(good, "\n"), good + "\n", good + "extension\n",
		"\n7\n" + root + "\n", "a b\n7\n" + root + "\n", "a+b\n7\n" + root + "\n", "a\t\n7\n" + root + "\n", "\xff\n7\n" + root + "\n",
		strings.Repeat("a", tlog.MaxName+1) + "\n7\n" + root + "\n",
		origin + "\n07\n" + root + "\n", origin + "\n+7\n" + root + "\n", origin + "\n-7\n" + root + "\n", origin + "\n\n" + root + "\n",
		origin + "\n9223372036854775808\n" + root + "\n", origin + "\n7\n" + root[:40] + "\n", origin + "\n7\n" + root + "AAAA\n",
		origin + "\n7\n" + root[:42] + "B=\n", origin + "\n7\n" + strings.TrimRight(root, "=") + "\n", origin + "\n7\n" + root + "\r\n",
	} {
		if c, err := tlog.ParseCheckpoint(text); err == nil {
			t.Errorf("%q was taken for %+v", text, c)
		}
	}
}

func TestPoliciesRefused(t *testing.T) {
	log, ws, good := world(t)
	w := func(i int) string { return fmt.Sprintf("witness %s %s\n", ws[i].Name(), ws[i]) }
	var many, members string
	for i := range byte(tlog.MaxWitnesses + 1) {
		k := newSigner(t, fmt.Sprintf("w%d", i), tlog.TypeCosignature, 100+i)
		many, members = many+fmt.Sprintf("witness %s %s\n", k.Name(), k), members+" "+k.Name()
	}
	twin := newSigner(t, "w7.example", tlog.TypeCosignature, 10)
	broken := strings.Replace(ws[0].String(), "+", "+0", 1)
	for name, text := range map[string]string{
		"nothing":                "",
		"no quorum":              w(0) + w(1) + "group g 1 w1.example w2.example\n",
		"another quorum":         w(0) + w(1) + "group g 1 w1.example w2.example\nquorum h\n",
		"a quorum of none":       w(0) + "quorum none\n",
		"zero of two":            w(0) + w(1) + "group g 0 w1.example w2.example\nquorum g\n",
		"three of two":           w(0) + w(1) + "group g 3 w1.example w2.example\nquorum g\n",
		"a number in two forms":  w(0) + w(1) + "group g 01 w1.example w2.example\nquorum g\n",
		"a group of some":        w(0) + w(1) + w(2) + "group g 2 w1.example w2.example\nquorum g\n",
		"a group of one twice":   w(0) + w(1) + "group g 2 w1.example w1.example\nquorum g\n",
		"a group of strangers":   w(0) + w(1) + "group g 2 w1.example w3.example\nquorum g\n",
		"two groups":             w(0) + w(1) + "group g 1 w1.example w2.example\ngroup h 1 w1.example w2.example\nquorum g\n",
		"one of two alone":       w(0) + w(1) + "quorum w1.example\n",
		"one twice":              w(0) + w(0) + "group g 2 w1.example w1.example\nquorum g\n",
		"one key in two names":   w(0) + fmt.Sprintf("witness w7.example %s\n", twin) + "group g 2 w1.example w7.example\nquorum g\n",
		"a key in another name":  fmt.Sprintf("witness other %s\nquorum other\n", ws[0]),
		"a log's key":            fmt.Sprintf("witness %s %s\nquorum %s\n", log.Name(), log, log.Name()),
		"another key id":         fmt.Sprintf("witness w1.example %s\nquorum w1.example\n", broken),
		"a witness behind":       w(0) + "quorum w1.example\n" + w(1),
		"a witness in the group": w(0) + "group g any w1.example\n" + w(1) + "quorum g\n",
		"a log":                  "log " + log.String() + "\n" + good,
		"half a line":            "witness w1.example\n" + good,
		"too many":               many + "group g all" + members + "\nquorum g\n",
		"too long":               good + strings.Repeat("#", tlog.MaxPolicy),
	} {
		if _, err := tlog.ParsePolicy(text); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// At most one of two histories gets a quorum, whatever the faulty sign.
func TestTolerates(t *testing.T) {
	for _, row := range []struct{ needed, witnesses, most int }{{1, 1, 0}, {2, 3, 0}, {3, 4, 1}, {3, 5, 0}, {4, 5, 2}, {5, 7, 2}, {7, 10, 3}, {2, 4, -1}, {1, 2, -1}} {
		var text, members string
		for i := range byte(row.witnesses) {
			k := newSigner(t, fmt.Sprintf("w%d", i), tlog.TypeCosignature, 100+i)
			text, members = text+fmt.Sprintf("witness %s %s\n", k.Name(), k), members+" "+k.Name()
		}
		p := parsed(t, fmt.Sprintf("# a comment\n\n%sgroup g %d%s # another\nquorum g\n", text, row.needed, members))
		for f := -1; f <= row.witnesses; f++ {
			if got := p.Tolerates(f); got != (f >= 0 && f <= row.most) {
				t.Errorf("%d of %d with %d faulty: %v", row.needed, row.witnesses, f, got)
			}
		}
	}
}

// The library's own notes and keys are taken, and ours by the library.
func TestBesideTheLibrary(t *testing.T) {
	private, public, err := note.GenerateKey(nil, origin)
	if err != nil {
		t.Fatal(err)
	}
	key, err := tlog.ParseKey(public)
	if err != nil || key.String() != public {
		t.Fatal(key, err)
	}
	s, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	_, ws, _ := world(t)
	p := parsed(t, fmt.Sprintf("witness w1.example %s\nquorum w1.example\n", ws[0]))
	head := checkpoint(1)
	signed, err := note.Sign(&note.Note{Text: head}, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.VerifyExactly(key, append(signed, ws[0].line(head)...)); err != nil {
		t.Error(err)
	}
}

func FuzzVerify(f *testing.F) {
	log, ws, text := world(f)
	p, head := parsed(f, text), checkpoint(7)
	base := head + "\n" + log.line(head) + ws[0].line(head) + ws[1].line(head)
	for _, s := range []string{base, base + ws[2].line(head), base + ws[1].line(head)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, signed, err := p.Verify(log.Key, b)
		if err == nil && (len(signed) < p.Quorum() || c.Origin != origin) {
			t.Errorf("%+v %v of %q", c, signed, b)
		}
		if _, _, exact := p.VerifyExactly(log.Key, b); exact == nil && err != nil {
			t.Errorf("a proof that does not verify: %q", b)
		}
	})
}

func FuzzPolicy(f *testing.F) {
	_, ws, text := world(f)
	f.Add(text)
	f.Add(fmt.Sprintf("witness w1.example %s\nquorum w1.example\n", ws[0]))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := tlog.ParsePolicy(text)
		if err != nil {
			return
		}
		keys, urls := p.Witnesses()
		if p.Quorum() < 1 || p.Quorum() > len(keys) || len(keys) > tlog.MaxWitnesses || len(urls) != len(keys) {
			t.Errorf("%d of %d by %q", p.Quorum(), len(keys), text)
		}
		for _, k := range keys {
			if again, err := tlog.ParseKey(k.String()); err != nil || again.String() != k.String() {
				t.Errorf("%s: %v", k, err)
			}
		}
	})
}
