package attestation_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
	"testing"

	"cloister/attestation"
)

func approvals(t testing.TB, hash [32]byte, keys ...*ecdsa.PrivateKey) []attestation.ManifestApproval {
	var out []attestation.ManifestApproval
	for _, k := range keys {
		a, err := attestation.ApproveManifest(k, hash)
		must(t, err)
		out = append(out, a)
	}
	return attestation.SortApprovals(out)
}

func TestApprovalText(t *testing.T) {
	const want = "cloister manifest approval 1\n0707070707070707070707070707070707070707070707070707070707070707\n"
	if got := attestation.ApprovalText([32]byte(bytes.Repeat([]byte{7}, 32))); string(got) != want {
		t.Errorf("%q", got)
	}
}

// The operators of testManifest are the keys 3 and 4; one of them is enough.
func TestApprovals(t *testing.T) {
	m := testManifest(t)
	raw, err := m.Encode()
	must(t, err)
	hash := attestation.Hash(raw)
	three, four, unrelated := fixedKey(t, 3), fixedKey(t, 4), fixedKey(t, 9)
	both := approvals(t, hash, three, four)
	one := approvals(t, hash, three)
	two := m.Operators
	two.Threshold = 2
	must(t, m.Operators.CheckApprovals(m, hash, one))
	must(t, m.Operators.CheckApprovals(m, hash, both))
	must(t, two.CheckApprovals(m, hash, both))
	high := approvals(t, hash, three)
	sig, err := hex.DecodeString(high[0].Signature)
	must(t, err)
	new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(sig[32:])).FillBytes(sig[32:])
	high[0].Signature = hex.EncodeToString(sig)
	altered := slices.Clone(one)
	altered[0].Signature = altered[0].Signature[:126] + "00"
	borrowed := slices.Clone(one)
	borrowed[0].Signature = approvals(t, hash, four)[0].Signature
	capitals := slices.Clone(one)
	capitals[0].PublicKey = strings.ToUpper(capitals[0].PublicKey)
	reversed := slices.Clone(both)
	slices.Reverse(reversed)
	for name, c := range map[string]struct {
		o    attestation.Operators
		list []attestation.ManifestApproval
	}{
		"none":                     {m.Operators, nil},
		"too few":                  {two, one},
		"one counted twice":        {two, append(slices.Clone(one), one...)},
		"one and a stranger":       {two, approvals(t, hash, three, unrelated)},
		"a stranger besides":       {m.Operators, approvals(t, hash, three, unrelated)},
		"of another manifest":      {m.Operators, approvals(t, [32]byte{1}, three)},
		"altered":                  {m.Operators, altered},
		"under another's name":     {m.Operators, borrowed},
		"the other s":              {m.Operators, high},
		"key in capitals":          {m.Operators, capitals},
		"not in order":             {two, reversed},
		"of no operators":          {attestation.Operators{}, one},
		"a threshold of nobody":    {attestation.Operators{PublicKeys: m.Operators.PublicKeys}, one},
		"more than there may be":   {m.Operators, slices.Repeat(one, attestation.MaxOperators+1)},
		"not as long as signature": {m.Operators, []attestation.ManifestApproval{{PublicKey: one[0].PublicKey, Signature: one[0].Signature[:126]}}},
	} {
		refused(t, c.o.CheckApprovals(m, hash, c.list), name)
	}
	if _, err := attestation.ApproveManifest(newKey(t, elliptic.P384()), hash); err == nil {
		t.Error("a key of another curve approves")
	}
}

func TestSuccession(t *testing.T) {
	m := testManifest(t)
	raw, err := m.Encode()
	must(t, err)
	hash := attestation.Hash(raw)
	check := func(change func(*attestation.Manifest), keys ...*ecdsa.PrivateKey) error {
		next := testManifest(t)
		next.Predecessor, next.Nonce = hex.EncodeToString(hash[:]), m.Nonce+1
		next.Operators.PublicKeys = []string{compressed(t, fixedKey(t, 9))} // a new set
		change(next)
		raw, err := next.Encode()
		must(t, err)
		h := attestation.Hash(raw)
		must(t, next.CheckOwnApprovals(h, nil)) // not its own to approve
		return m.CheckSuccession(hash, next, h, approvals(t, h, keys...))
	}
	must(t, check(func(*attestation.Manifest) {}, fixedKey(t, 4)))
	for name, change := range map[string]func(*attestation.Manifest){
		"the same nonce":         func(n *attestation.Manifest) { n.Nonce = m.Nonce },
		"a lower nonce":          func(n *attestation.Manifest) { n.Nonce = 0 },
		"another predecessor":    func(n *attestation.Manifest) { n.Predecessor = hexOf(1, 32) },
		"another deployment":     func(n *attestation.Manifest) { n.DeploymentLabel = "another" },
		"another kind of module": func(n *attestation.Manifest) { n.Kind, n.SeedSource = attestation.KindNitro, attestation.SeedHandover },
	} {
		refused(t, check(change, fixedKey(t, 4)), name)
	}
	refused(t, check(func(n *attestation.Manifest) {
		w := witnessed(t)
		n.Freshness, n.Log = w.Freshness, w.Log
		n.Log.Generation = 2
	}, fixedKey(t, 4)), "first witnesses in a second generation")
	refused(t, check(func(n *attestation.Manifest) {
		r := recovering(t)
		n.Freshness, n.Log, n.Recover = r.Freshness, r.Log, r.Recover
	}, fixedKey(t, 4)), "a recovery where nobody witnessed")
	refused(t, check(func(*attestation.Manifest) {}, fixedKey(t, 9)), "approved by the new set")
	refused(t, check(func(*attestation.Manifest) {}), "approved by nobody")
}

// TestRecoverySuccession: a recovery names a generation of its own in its terms, whoever witnesses it.
func TestRecoverySuccession(t *testing.T) {
	m := witnessed(t)
	raw, err := m.Encode()
	must(t, err)
	hash := attestation.Hash(raw)
	check := func(generation uint32) error {
		next := recovering(t)
		next.Predecessor, next.Nonce, next.Log.Generation = hex.EncodeToString(hash[:]), m.Nonce+1, generation
		raw, err := next.Encode()
		must(t, err)
		h := attestation.Hash(raw)
		return m.CheckSuccession(hash, next, h, approvals(t, h, fixedKey(t, 4)))
	}
	must(t, check(2))
	refused(t, check(0), "a recovery under the terms before")
}

// Two of five operators approve a manifest, and four one that recovers a log. Neither in one step nor in two do
// fewer than four recover one.
func TestRecoverThreshold(t *testing.T) {
	five := []*ecdsa.PrivateKey{fixedKey(t, 11), fixedKey(t, 12), fixedKey(t, 13), fixedKey(t, 14), fixedKey(t, 15)}
	var keys []string
	for _, k := range five {
		keys = append(keys, compressed(t, k))
	}
	m := witnessed(t)
	m.Operators = attestation.Operators{Threshold: 2, RecoverThreshold: 4, PublicKeys: keys}
	raw, err := m.Encode()
	must(t, err)
	hash := attestation.Hash(raw)
	must(t, m.CheckOwnApprovals(hash, approvals(t, hash, five[:2]...)))
	if got := m.Operators.String(); got != "2 of 5, 4 of them a recovery and who may approve one" {
		t.Errorf("in words: %s", got)
	}
	unrelated := compressed(t, fixedKey(t, 9))
	recovers := func(n *attestation.Manifest) {
		r := recovering(t)
		n.Recover, n.Log = r.Recover, r.Log
		n.Log.Generation = 2
	}
	for name, c := range map[string]struct {
		change func(*attestation.Manifest)
		want   int
	}{
		"nothing":                        {func(*attestation.Manifest) {}, 2},
		"a higher one":                   {func(n *attestation.Manifest) { n.Operators.RecoverThreshold = 5 }, 2},
		"one operator less":              {func(n *attestation.Manifest) { n.Operators.PublicKeys = keys[1:] }, 2},
		"another order":                  {func(n *attestation.Manifest) { n.Operators.PublicKeys = append(slices.Clone(keys[1:]), keys[0]) }, 2},
		"one approves":                   {func(n *attestation.Manifest) { n.Operators.Threshold = 1 }, 2},
		"four approve all":               {func(n *attestation.Manifest) { n.Operators.Threshold, n.Operators.RecoverThreshold = 4, 0 }, 2},
		"a recovery":                     {recovers, 4},
		"a recovery, a lower one":        {func(n *attestation.Manifest) { recovers(n); n.Operators.RecoverThreshold = 0 }, 4},
		"a recovery, a higher one":       {func(n *attestation.Manifest) { recovers(n); n.Operators.RecoverThreshold = 5 }, 4},
		"a lower one":                    {func(n *attestation.Manifest) { n.Operators.RecoverThreshold = 3 }, 4},
		"none":                           {func(n *attestation.Manifest) { n.Operators.RecoverThreshold = 0 }, 4},
		"three approve all":              {func(n *attestation.Manifest) { n.Operators.Threshold, n.Operators.RecoverThreshold = 3, 0 }, 4},
		"a stranger besides":             {func(n *attestation.Manifest) { n.Operators.PublicKeys = append(slices.Clone(keys), unrelated) }, 4},
		"a stranger in place of another": {func(n *attestation.Manifest) { n.Operators.PublicKeys = append(slices.Clone(keys[1:]), unrelated) }, 4},
		"a stranger, and a higher one": {func(n *attestation.Manifest) {
			n.Operators.PublicKeys, n.Operators.RecoverThreshold = append(slices.Clone(keys), unrelated), 5
		}, 4},
		"no operators": {func(n *attestation.Manifest) { n.Operators = attestation.Operators{} }, 4},
	} {
		next := *m
		next.Predecessor, next.Nonce = hex.EncodeToString(hash[:]), m.Nonce+1
		c.change(&next)
		raw, err := next.Encode()
		must(t, err)
		h := attestation.Hash(raw)
		for n := range len(five) + 1 {
			list := approvals(t, h, five[:n]...)
			if err := m.CheckSuccession(hash, &next, h, list); (err == nil) != (n >= c.want) {
				t.Errorf("%s, approved by %d of 5, want %d: %v", name, n, c.want, err)
			}
		}
		// Whom a caller pins counts alike: he sees no predecessor.
		if err := m.Operators.CheckApprovals(&next, h, approvals(t, h, five[:c.want-1]...)); err == nil {
			t.Errorf("%s: one approval less than %d is enough under what a caller pins", name, c.want)
		}
	}
}

func TestOwnApprovals(t *testing.T) {
	m := testManifest(t)
	raw, err := m.Encode()
	must(t, err)
	h := attestation.Hash(raw)
	refused(t, m.CheckOwnApprovals(h, nil), "a first manifest without approvals")
	must(t, m.CheckOwnApprovals(h, approvals(t, h, fixedKey(t, 3))))
	m.Operators = attestation.Operators{}
	must(t, m.CheckOwnApprovals(h, nil))
}

func TestEnvelope(t *testing.T) {
	raw, err := testManifest(t).Encode()
	must(t, err)
	hash := attestation.Hash(raw)
	list := approvals(t, hash, fixedKey(t, 3), fixedKey(t, 4))
	for _, want := range [][]attestation.ManifestApproval{nil, list[:1], list} {
		manifest, got, err := attestation.ParseEnvelope(attestation.EncodeEnvelope(raw, want...))
		must(t, err)
		if !bytes.Equal(manifest, raw) || !slices.Equal(got, want) {
			t.Fatalf("%d approvals come back as %d", len(want), len(got))
		}
	}
	good := attestation.EncodeEnvelope(raw, list...)
	sub := func(old, new string) []byte { return bytes.Replace(good, []byte(old), []byte(new), 1) }
	for name, b := range map[string][]byte{
		"empty":                  nil,
		"the manifest alone":     raw,
		"trailing bytes":         append(slices.Clone(good), ' '),
		"a blank":                sub(`{"manifest"`, `{ "manifest"`),
		"unknown member":         sub(`{"manifest"`, `{"x":1,"manifest"`),
		"approvals twice":        sub(`,"manifestSetApprovals"`, `,"manifestSetApprovals":[],"manifestSetApprovals"`),
		"no approvals":           append(bytes.TrimSuffix(attestation.EncodeEnvelope(raw), []byte(`,"manifestSetApprovals":[]}`)), '}'),
		"null for approvals":     bytes.Replace(attestation.EncodeEnvelope(raw), []byte("[]}"), []byte("null}"), 1),
		"a manifest that is not": sub(`"format":1`, `"format":2`),
		"a key in capitals":      sub(list[0].PublicKey, strings.ToUpper(list[0].PublicKey)),
		"a short signature":      sub(list[0].Signature, list[0].Signature[2:]),
		"out of order":           attestation.EncodeEnvelope(raw, list[1], list[0]),
		"one twice":              attestation.EncodeEnvelope(raw, list[0], list[0]),
		"too many":               attestation.EncodeEnvelope(raw, slices.Repeat(list, 40)...),
		"too long":               append(slices.Clone(good), bytes.Repeat([]byte(" "), attestation.MaxEnvelope)...),
	} {
		_, _, err := attestation.ParseEnvelope(b)
		refused(t, err, name)
	}
}

func FuzzEnvelope(f *testing.F) {
	raw, err := testManifest(f).Encode()
	must(f, err)
	f.Add(attestation.EncodeEnvelope(raw))
	f.Add(attestation.EncodeEnvelope(raw, approvals(f, attestation.Hash(raw), fixedKey(f, 3))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		manifest, list, err := attestation.ParseEnvelope(b)
		if err == nil && !bytes.Equal(b, attestation.EncodeEnvelope(manifest, list...)) {
			t.Fatal("an accepted envelope is not its own encoding")
		}
	})
}

// A boot proof's approvals count against the operators that the caller names.
func TestBootProofApprovals(t *testing.T) {
	m := newMaker(t)
	hash := attestation.Hash(m.manifest)
	with := func(list ...attestation.ManifestApproval) attestation.BootProof {
		b := m.bootProof(nil)
		b.QOSManifestEnvelopeB64 = base64.StdEncoding.EncodeToString(attestation.EncodeEnvelope(m.manifest, list...))
		return b
	}
	p := m.policy()
	p.Operators = testManifest(t).Operators
	boot, err := attestation.VerifyBootProof(with(approvals(t, hash, fixedKey(t, 4))...), p)
	must(t, err)
	if len(boot.Approvals) != 1 {
		t.Error("approvals are not told")
	}
	_, err = attestation.VerifyBootProof(with(), p)
	refused(t, err, "none")
	_, err = attestation.VerifyBootProof(with(approvals(t, [32]byte{}, fixedKey(t, 4))...), m.policy())
	refused(t, err, "of another manifest, also where no operators are expected")
	p.Operators.PublicKeys = []string{compressed(t, fixedKey(t, 9))}
	p.Operators.Threshold = 1
	_, err = attestation.VerifyBootProof(with(approvals(t, hash, fixedKey(t, 4))...), p)
	refused(t, err, "by other operators")
}
