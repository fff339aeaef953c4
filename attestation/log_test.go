package attestation_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/attestation/tlog"
)

// tlogKey is the key of a name that follows from a seed.
func tlogKey(t testing.TB, name string, kind, seed byte) *tlog.Key {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	k, err := tlog.NewKey(name, kind, private.Public().(ed25519.PublicKey))
	must(t, err)
	return k
}

// witnessKeys are of n witnesses, the same ones always, whose seeds are counted from 1.
func witnessKeys(t testing.TB, n int) (keys []*tlog.Key) {
	for i := range n {
		keys = append(keys, tlogKey(t, fmt.Sprintf("w%d.example", i+1), tlog.TypeCosignature, byte(i+1)))
	}
	return keys
}

// policyOf is a policy of k of n witnesses.
func policyOf(t testing.TB, k, n int) string {
	var b strings.Builder
	names := ""
	for i, key := range witnessKeys(t, n) {
		fmt.Fprintf(&b, "witness %s %s https://w%d.example/w\n", key.Name(), key, i+1)
		names += " " + key.Name()
	}
	return fmt.Sprintf("%sgroup all %d%s\nquorum all\n", b.String(), k, names)
}

// witnessed is testManifest with 3 of 4 witnesses.
func witnessed(t testing.TB) *attestation.Manifest {
	m := testManifest(t)
	m.Freshness.Mode = attestation.FreshWitnessed
	m.Log = &attestation.LogTerms{Name: "log.example", Policy: policyOf(t, 3, 4), Tolerates: 1, Mode: "bounded", ServeMs: 10_000, BoundMs: 2_000}
	return m
}

// nitro makes a manifest a real enclave's.
func nitro(t testing.TB, m *attestation.Manifest) {
	m.Kind, m.SeedSource = attestation.KindNitro, attestation.SeedOperatorShares
	m.Operators.ShareKeys = []string{compressed(t, fixedKey(t, 6)), compressed(t, fixedKey(t, 7))}
}

func TestLogTerms(t *testing.T) {
	for name, change := range map[string]func(*attestation.Manifest){
		"bounded":         func(*attestation.Manifest) {},
		"strict":          func(m *attestation.Manifest) { m.Log.Mode, m.Log.BoundMs = "strict", 0 },
		"of a real one":   func(m *attestation.Manifest) { nitro(t, m) },
		"shortest":        func(m *attestation.Manifest) { nitro(t, m); m.Log.ServeMs, m.Log.BoundMs = 1_000, 1_000 },
		"longest":         func(m *attestation.Manifest) { nitro(t, m); m.Log.ServeMs, m.Log.BoundMs = 300_000, 300_000 },
		"on a laptop":     func(m *attestation.Manifest) { m.Log.ServeMs, m.Log.BoundMs = 100, 100 },
		"all of 16":       func(m *attestation.Manifest) { m.Log.Policy, m.Log.Tolerates = policyOf(t, 16, 16), 15 },
		"2 of 3":          func(m *attestation.Manifest) { m.Log.Policy, m.Log.Tolerates = policyOf(t, 2, 3), 0 },
		"the longest":     func(m *attestation.Manifest) { m.Log.Name = strings.Repeat("n", attestation.MaxLogName) },
		"with a comment":  func(m *attestation.Manifest) { m.Log.Policy = "# <ours> & theirs\n\n" + m.Log.Policy },
		"a second set":    func(m *attestation.Manifest) { m.Log.Generation, m.Predecessor = 2, hexOf(1, 32) },
		"one of one":      func(m *attestation.Manifest) { alone(t, m) },
		"over plain http": func(m *attestation.Manifest) { m.Log.Policy = strings.ReplaceAll(m.Log.Policy, "https://", "http://") },
	} {
		m := witnessed(t)
		change(m)
		raw, err := m.Encode()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back, err := attestation.ParseManifest(raw)
		if err != nil || *back.Log != *m.Log || back.Log.Hash() != m.Log.Hash() {
			t.Errorf("%s: reads back as %+v, %v", name, back, err)
		}
	}
}

// alone leaves one witness, which is the quorum.
func alone(t testing.TB, m *attestation.Manifest) {
	k := witnessKeys(t, 1)[0]
	m.Log.Policy, m.Log.Tolerates = fmt.Sprintf("witness %s %s https://w1.example\nquorum %[1]s\n", k.Name(), k), 0
}

func TestLogTermsRefused(t *testing.T) {
	replace := func(old, new string) func(*attestation.Manifest) {
		return func(m *attestation.Manifest) {
			if m.Log.Policy = strings.Replace(m.Log.Policy, old, new, 1); m.Log.Policy == policyOf(t, 3, 4) {
				t.Fatalf("%q is not in the policy", old)
			}
		}
	}
	of := func(k, n, tolerates int) func(*attestation.Manifest) {
		return func(m *attestation.Manifest) { m.Log.Policy, m.Log.Tolerates = policyOf(t, k, n), tolerates }
	}
	name := func(name string) func(*attestation.Manifest) {
		return func(m *attestation.Manifest) { m.Log.Name = name }
	}
	keys := witnessKeys(t, 4)
	for why, change := range map[string]func(*attestation.Manifest){
		"terms and no word of it":      func(m *attestation.Manifest) { m.Freshness.Mode = attestation.FreshSinceBoot },
		"a word and no terms":          func(m *attestation.Manifest) { m.Log = nil },
		"empty terms":                  func(m *attestation.Manifest) { m.Log = new(attestation.LogTerms) },
		"no name":                      name(""),
		"a long name":                  name(strings.Repeat("n", attestation.MaxLogName+1)),
		"a blank in the name":          name("log example"),
		"a line break in the name":     name("log\nexample"),
		"a + in the name":              name("log+example"),
		"a no-break space":             name("log\u00a0example"),
		"a name that is no UTF-8":      name("log\xff"),
		"no policy":                    func(m *attestation.Manifest) { m.Log.Policy = "" },
		"a policy without witnesses":   func(m *attestation.Manifest) { m.Log.Policy = "group all 0\nquorum all\n" },
		"nobody's quorum":              replace("quorum all", "quorum none"),
		"no quorum":                    replace("quorum all\n", ""),
		"a quorum of 0":                of(0, 4, 0),
		"17 witnesses":                 of(17, 17, 1),
		"groups of groups":             replace("quorum all", "group more 1 all w1.example\nquorum more"),
		"a log in the policy":          replace("witness w1", "log "+keys[0].String()+"\nwitness w1"),
		"a log's key":                  replace(keys[0].String(), tlogKey(t, "w1.example", tlog.TypeLog, 1).String()),
		"one key twice":                replace("w2.example "+keys[1].String(), "w2.example "+tlogKey(t, "w2.example", tlog.TypeCosignature, 1).String()),
		"one name twice":               replace("witness w2.example", "witness w1.example"),
		"a key id of another":          replace(fmt.Sprintf("%08x", keys[0].KeyHash()), fmt.Sprintf("%08x", keys[0].KeyHash()+1)),
		"a witness without URL":        replace(" https://w3.example/w", ""),
		"a URL without a host":         replace("https://w3.example/w", "https:///w"),
		"a URL of a file":              replace("https://w3.example/w", "file:///w"),
		"a URL with a password":        replace("https://w3.example/w", "https://u:p@w3.example/w"),
		"a URL with a query":           replace("https://w3.example/w", "https://w3.example/w?a=b"),
		"a URL with an empty query":    replace("https://w3.example/w", "https://w3.example/w?"),
		"what hides from operators":    replace("witness w1", "# \x1b[8m\nwitness w1"),
		"carriage returns":             replace("\n", "\r\n"),
		"2 of 3 tolerate 1":            of(2, 3, 1),
		"3 of 5 tolerate 1":            of(3, 5, 1),
		"3 of 4 tolerate 2":            func(m *attestation.Manifest) { m.Log.Tolerates = 2 },
		"half":                         of(2, 4, 0),
		"fewer than none":              func(m *attestation.Manifest) { m.Log.Tolerates = -1 },
		"none in a real one":           func(m *attestation.Manifest) { nitro(t, m); m.Log.Tolerates = 0 },
		"one witness in a real one":    func(m *attestation.Manifest) { nitro(t, m); alone(t, m) },
		"no mode":                      func(m *attestation.Manifest) { m.Log.Mode = "" },
		"a mode without witnesses":     func(m *attestation.Manifest) { m.Log.Mode, m.Log.BoundMs = "none", 0 },
		"a mode that fails open":       func(m *attestation.Manifest) { m.Log.Mode = "open" },
		"no time to serve":             func(m *attestation.Manifest) { m.Log.ServeMs = 0 },
		"too short a time":             func(m *attestation.Manifest) { m.Log.ServeMs = 99 },
		"too short for a real one":     func(m *attestation.Manifest) { nitro(t, m); m.Log.ServeMs = 999 },
		"generation 1, said":           func(m *attestation.Manifest) { m.Log.Generation, m.Predecessor = 1, hexOf(1, 32) },
		"a late generation":            func(m *attestation.Manifest) { m.Log.Generation, m.Predecessor = 1<<20+1, hexOf(1, 32) },
		"a first manifest's second":    func(m *attestation.Manifest) { m.Log.Generation, m.Predecessor = 2, "" },
		"too long a time":              func(m *attestation.Manifest) { m.Log.ServeMs = 300_001 },
		"a time that overflows":        func(m *attestation.Manifest) { m.Log.ServeMs = 1 << 63 },
		"no bound":                     func(m *attestation.Manifest) { m.Log.BoundMs = 0 },
		"too short a bound":            func(m *attestation.Manifest) { m.Log.BoundMs = 99 },
		"too short a bound really":     func(m *attestation.Manifest) { nitro(t, m); m.Log.BoundMs = 999 },
		"too long a bound":             func(m *attestation.Manifest) { m.Log.BoundMs = 300_001 },
		"a bound in strict mode":       func(m *attestation.Manifest) { m.Log.Mode = "strict" },
		"more than fits in a manifest": replace("witness w1", "# "+strings.Repeat("x", attestation.MaxManifest)+"\nwitness w1"),
	} {
		m := witnessed(t)
		change(m)
		_, err := m.Encode()
		refused(t, err, why)
	}
}

func TestLogTermsInOneForm(t *testing.T) {
	good, err := witnessed(t).Encode()
	must(t, err)
	sub := func(old, new string) []byte { return bytes.Replace(good, []byte(old), []byte(new), 1) }
	for name, raw := range map[string][]byte{
		"null":               append(bytes.Clone(good[:bytes.Index(good, []byte(`"log":`))]), `"log":null}`...),
		"another order":      sub(`"tolerates":1,"mode":"bounded"`, `"mode":"bounded","tolerates":1`),
		"a member more":      sub(`"tolerates":1`, `"tolerates":1,"x":1`),
		"a member twice":     sub(`"tolerates":1`, `"tolerates":1,"tolerates":1`),
		"a member missing":   sub(`"tolerates":1,`, ""),
		"a bound of 0":       sub(`"boundMs":2000`, `"boundMs":0`),
		"a float":            sub(`"serveMs":10000`, `"serveMs":1e4`),
		"text for a number":  sub(`"serveMs":10000`, `"serveMs":"10000"`),
		"an escaped letter":  sub(`"bounded"`, `"\u0062ounded"`),
		"an escaped newline": sub(`\n`, `\u000a`),
		"a list of terms":    sub(`"log":{`, `"log":[{`),
	} {
		if bytes.Equal(raw, good) {
			t.Fatalf("%s: nothing was changed", name)
		}
		_, err := attestation.ParseManifest(raw)
		refused(t, err, name)
	}
}

// What boots of one log must agree on is in the hash, and nothing else.
func TestLogTermsHash(t *testing.T) {
	base := witnessed(t).Log
	for name, row := range map[string]struct {
		change func(*attestation.LogTerms)
		same   bool
	}{
		"a witness that moved": {func(l *attestation.LogTerms) {
			l.Policy = strings.ReplaceAll(l.Policy, "https://w2.example/w", "http://127.0.0.1:1")
		}, true},
		"comments and blanks": {func(l *attestation.LogTerms) {
			l.Policy = "# ours\n\n  " + strings.ReplaceAll(l.Policy, " https", "   https")
		}, true},
		"no last line feed": {func(l *attestation.LogTerms) { l.Policy = strings.TrimSuffix(l.Policy, "\n") }, true},
		"another mode":      {func(l *attestation.LogTerms) { l.Mode, l.BoundMs = "strict", 0 }, true}, // a leaf names it beside
		"another bound":     {func(l *attestation.LogTerms) { l.BoundMs++ }, true},
		"more doubt":        {func(l *attestation.LogTerms) { l.Tolerates = 0 }, true}, // the quorum is what it was
		"another name":      {func(l *attestation.LogTerms) { l.Name = "log2.example" }, false},
		"another time":      {func(l *attestation.LogTerms) { l.ServeMs++ }, false},
		"another quorum":    {func(l *attestation.LogTerms) { l.Policy = policyOf(t, 4, 4) }, false},
		"a witness more":    {func(l *attestation.LogTerms) { l.Policy = policyOf(t, 3, 5) }, false},
		"another key": {func(l *attestation.LogTerms) {
			l.Policy = strings.Replace(l.Policy, witnessKeys(t, 4)[3].String(), tlogKey(t, "w4.example", tlog.TypeCosignature, 9).String(), 1)
		}, false},
		"another order": {func(l *attestation.LogTerms) {
			lines := strings.SplitAfter(l.Policy, "\n")
			lines[0], lines[1] = lines[1], lines[0]
			l.Policy = strings.Join(lines, "")
		}, false}, // it is that of cosignatures in proofs
	} {
		l := *base
		row.change(&l)
		if same := l.Hash() == base.Hash(); same != row.same || l == *base {
			t.Errorf("%s: the same hash is %t", name, same)
		}
	}
	one := attestation.LogTerms{Name: "log.example", ServeMs: 1000, Policy: "witness a b http://c # d\nquorum a\n"}
	// SHA-256 of "cloister log terms 1\nlog.example\n1000\nwitness a b\nquorum a\n"
	if h := one.Hash(); hex.EncodeToString(h[:]) != "3d2d6817057503dc3107a3406db6a42a7c6489dc3215c99d20464b96fb51dc70" {
		t.Errorf("%x", h)
	}
	one.Generation = 2 // the same lines, and "generation 2\n"
	if h := one.Hash(); hex.EncodeToString(h[:]) != "9c8d3497a41c55c628a826807c1073194e990f32e7c5b593652ac2c6b9315022" {
		t.Errorf("%x", h)
	}
}

// A claim says what its manifest says, of the two modes that there are.
func TestFreshnessOfWitnessed(t *testing.T) {
	m := newMaker(t)
	m.setManifest(witnessed(t))
	boot, err := attestation.VerifyBootProof(m.bootProof(nil), m.policy())
	must(t, err)
	c := signatureClaim("body")
	_, err = boot.VerifyAppProof(m.appProof(c))
	refused(t, err, "since boot under a manifest with witnesses")
	c.Freshness = &attestation.ClaimFreshness{Mode: attestation.FreshWitnessed, BootNumber: "4", SeedSource: "development-file"}
	_, err = boot.VerifyAppProof(m.appProof(c))
	must(t, err)
}

func TestLogTermsInWords(t *testing.T) {
	l := witnessed(t).Log
	if got, want := l.String(), "3 of 4 witnesses (w1.example, w2.example, w3.example, w4.example), of whom 1 may lie or forget; bounded: a reply is at most 2s ahead of them"; got != want {
		t.Error(got)
	}
	l.Mode, l.BoundMs = "strict", 0
	if got, want := l.String(), "; strict: a reply leaves once they have cosigned"; !strings.HasSuffix(got, want) {
		t.Error(got)
	}
	l.Generation = 3
	if got, want := l.String(), "; from generation 3 of each log on"; !strings.HasSuffix(got, want) {
		t.Error(got)
	}
	l.Policy = "quorum none"
	if got := l.String(); !strings.HasPrefix(got, "tlog: ") {
		t.Error(got)
	}
}

// Logs go on under the same witnesses, name and time, in no weaker mode.
func TestLogTermsContinue(t *testing.T) {
	terms := func(change func(*attestation.LogTerms)) *attestation.LogTerms {
		l := *witnessed(t).Log
		change(&l)
		return &l
	}
	same := func(*attestation.LogTerms) {}
	strict := func(l *attestation.LogTerms) { l.Mode, l.BoundMs = "strict", 0 }
	for name, c := range map[string]struct {
		terms, next *attestation.LogTerms
		goesOn      bool
	}{
		"none":            {nil, nil, true},
		"the first ones":  {nil, terms(same), true},
		"the same":        {terms(same), terms(same), true},
		"a stronger mode": {terms(same), terms(strict), true},
		"another bound":   {terms(same), terms(func(l *attestation.LogTerms) { l.BoundMs = 5_000 }), true},
		"a moved witness": {terms(same), terms(func(l *attestation.LogTerms) { l.Policy = strings.Replace(l.Policy, "https://w1", "https://moved", 1) }), true},
		"none any more":   {terms(same), nil, false},
		"a weaker mode":   {terms(strict), terms(same), false},
		"another name":    {terms(same), terms(func(l *attestation.LogTerms) { l.Name = "other.example" }), false},
		"another time":    {terms(same), terms(func(l *attestation.LogTerms) { l.ServeMs = 5_000 }), false},
		"another quorum":  {terms(same), terms(func(l *attestation.LogTerms) { l.Policy = policyOf(t, 4, 4) }), false},
		"more witnesses":  {terms(same), terms(func(l *attestation.LogTerms) { l.Policy = policyOf(t, 4, 5) }), false},
	} {
		if c.terms.Continues(c.next) != c.goesOn {
			t.Errorf("%s: %v", name, !c.goesOn)
		}
	}
}

// Other terms are the next generation's, each time one more.
func TestLogTermsNext(t *testing.T) {
	terms := func(generation uint32, change func(*attestation.LogTerms)) *attestation.LogTerms {
		l := *witnessed(t).Log
		l.Generation = generation
		if change != nil {
			change(&l)
		}
		return &l
	}
	others := func(l *attestation.LogTerms) { l.Policy = policyOf(t, 4, 5) }
	strict := func(l *attestation.LogTerms) { l.Mode, l.BoundMs = "strict", 0 }
	for name, c := range map[string]struct {
		terms, next *attestation.LogTerms
		may         bool
	}{
		"none":                             {nil, nil, true},
		"the first ones":                   {nil, terms(0, nil), true},
		"the same":                         {terms(0, nil), terms(0, nil), true},
		"a stronger mode":                  {terms(2, nil), terms(2, strict), true},
		"others":                           {terms(0, nil), terms(2, others), true},
		"others again":                     {terms(2, others), terms(3, nil), true},
		"a weaker mode":                    {terms(0, strict), terms(2, nil), true},
		"the same in the next generation":  {terms(0, nil), terms(2, nil), true},
		"the first ones in the second":     {nil, terms(2, nil), false},
		"none any more":                    {terms(0, nil), nil, false},
		"others in the same generation":    {terms(0, nil), terms(0, others), false},
		"a weaker mode in the same":        {terms(2, strict), terms(2, nil), false},
		"others in the one after the next": {terms(0, nil), terms(3, others), false},
		"others in an earlier one":         {terms(3, nil), terms(2, others), false},
		"the same in an earlier one":       {terms(3, nil), terms(2, nil), false},
	} {
		if err := c.terms.CheckNext(c.next); (err == nil) != c.may {
			t.Errorf("%s: %v", name, err)
		}
	}
}
