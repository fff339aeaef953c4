package org_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/org"
)

var (
	sampleSeed  = [tlog.SeedSize]byte{1, 2, 3}
	samplePlace = org.Place{Organization: id(20), Seq: 9, Mode: tlog.ModeStrict}
)

func encodeParts(t testing.TB, e *org.Entry, at org.Place) (b []byte, commitment [32]byte) {
	b, commitment, err := e.Encode(nil, sampleSeed, at)
	if err != nil {
		t.Fatal(err)
	}
	return b, commitment
}

func decodeParts(b []byte) (*org.Entry, org.Place, error) {
	parts, err := org.SplitParts(b)
	if err != nil {
		return nil, org.Place{}, err
	}
	return parts.Decode()
}

// The encoding and what it commits to are in every ledger: they change only with a format number.
func TestPartsAreFixed(t *testing.T) {
	for name, c := range map[string]struct {
		e                *org.Entry
		at               org.Place
		hash, commitment string
	}{
		"full":     {sampleEntry(), samplePlace, "49ce932a4d64cf5e773fd53058028dde66c77408b7ce043272478a74bef1038c", "36e59d8fc74e4bbf133404f5c30fbbc578e2646ee93dc78fdc81f964a0cb511b"},
		"verdicts": {&org.Entry{Evaluations: []org.Evaluation{sampleVerdicts()}}, org.Place{Seq: 1}, "f3167b83e838bf1f9e6860fed12292b9acf4e11d2f60ce9c972b9b14fa1b28d5", "6dc2dbbd4abadbfbaa4598af213ec79a96509b6ef826e15b81c6d72738548128"},
		"empty":    {&org.Entry{}, org.Place{}, "c5b61c5c24e7731b6e380e50791ef8ef49f8a3bbcb89581ec9ee5f135b3cfc94", "705c71a981ad638298b6c72466b5cf935fc856b853c630bcc9693aa30275ed3a"},
	} {
		b, commitment := encodeParts(t, c.e, c.at)
		if h := sha256.Sum256(b); hex.EncodeToString(h[:]) != c.hash || hex.EncodeToString(commitment[:]) != c.commitment {
			t.Errorf("%s: hash %x, commitment %x, of\n%x", name, h, commitment, b)
		}
	}
	// Byte for byte: a seed, and the parts with their lengths.
	b, _ := encodeParts(t, &org.Entry{Type: "T", StampedMs: 7, Refused: 403}, org.Place{Seq: 2, Mode: tlog.ModeBounded})
	want := "01020300000000000000000000000000" +
		"00000057" + "aa" + "0101" + "0250" + strings.Repeat("00", 16) + "0302" + "0450" + strings.Repeat("00", 16) + "056154" +
		"075820" + strings.Repeat("00", 32) + "0800" + "0900" + "0a00" + "0b01" +
		"00000003" + "a10607" + "00000005" + "a10e190193" + "00000001" + "a0" + "00000001" + "a0"
	if hex.EncodeToString(b) != want {
		t.Errorf("%x,\nwant %s", b, want)
	}
}

func TestPartsRoundTrip(t *testing.T) {
	e := sampleEntry()
	e.Evaluations = append(e.Evaluations, sampleVerdicts())
	b, commitment := encodeParts(t, e, samplePlace)
	got, at, err := decodeParts(b)
	if err != nil || !reflect.DeepEqual(got, e) || at != samplePlace {
		t.Fatalf("got %+v at %+v, %v", got, at, err)
	}
	if got.Writes[1].Value != nil || got.Writes[2].Value == nil {
		t.Fatal("a deletion and an empty record are mixed up")
	}
	// What stands in front stays, and changes nothing.
	front, again, err := e.Encode([]byte("front"), sampleSeed, samplePlace)
	if err != nil || again != commitment || !bytes.Equal(front, append([]byte("front"), b...)) {
		t.Fatal("behind something it is another entry", err)
	}
	// Every field is in one part, and in that part only.
	parts, err := org.SplitParts(b)
	if err != nil {
		t.Fatal(err)
	}
	hashes := parts.Hashes()
	if tlog.Commitment(&hashes) != commitment || parts.Seed != sampleSeed {
		t.Fatal("the parts are not those that it commits to")
	}
	facts, err := tlog.ParseFacts(parts.Content[tlog.PartFacts])
	if err != nil {
		t.Fatal(err)
	}
	want := tlog.Facts{Format: 1, Organization: samplePlace.Organization, Seq: 9, Activity: e.Activity, Type: e.Type, Status: "ACTIVITY_STATUS_COMPLETED", Fingerprint: e.Fingerprint,
		CreatedMs: e.CreatedMs, TimeMs: e.TimeMs, Boot: 5, Mode: tlog.ModeStrict, Prior: 8, Result: sha256.Sum256(e.Result), Proofs: [][32]byte{sha256.Sum256(e.Proofs[0].Payload)}}
	if !reflect.DeepEqual(*facts, want) {
		t.Errorf("facts %+v,\nwant %+v", *facts, want)
	}
	for part, field := range map[tlog.Part][]byte{tlog.PartRequest: e.Body, tlog.PartDecision: e.Result, tlog.PartWrites: {0x41, 'B'}, tlog.PartSends: {3, 0x41, 'c'}} {
		for p, content := range parts.Content {
			if is := bytes.Contains(content, field); is != (tlog.Part(p) == part) {
				t.Errorf("%q in part %d: %v", field, p, is)
			}
		}
	}
	if _, _, err := (&org.Entry{Status: 99}).Encode(nil, sampleSeed, samplePlace); err == nil {
		t.Error("an entry of a status that has no name")
	}
	if _, _, err := (&org.Entry{Type: strings.Repeat("T", tlog.MaxFacts)}).Encode(nil, sampleSeed, samplePlace); err == nil {
		t.Error("facts of any length")
	}
}

// join writes parts as they are.
func join(seed []byte, parts ...[]byte) []byte {
	b := slices.Clone(seed)
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
	}
	return b
}

func TestPartsAreRefused(t *testing.T) {
	whole, _ := encodeParts(t, sampleEntry(), samplePlace)
	good, err := org.SplitParts(whole)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(join(sampleSeed[:], good.Content[:]...), whole) {
		t.Fatal("join makes something else")
	}
	refuse := func(what string, b []byte) {
		t.Helper()
		if e, _, err := decodeParts(b); err == nil || e != nil {
			t.Errorf("%s: decodes", what)
		}
	}
	for n := range whole {
		refuse(fmt.Sprint("cut to ", n), whole[:n])
	}
	refuse("a byte behind", append(bytes.Clone(whole), 0))
	with := func(p tlog.Part, content []byte) []byte {
		all := good.Content
		all[p] = content
		return join(sampleSeed[:], all[:]...)
	}
	empty := []byte{0xa0}
	for p := range tlog.Parts {
		content := good.Content[p]
		refuse(fmt.Sprintf("part %d cut", p), with(p, content[:len(content)-1]))
		refuse(fmt.Sprintf("part %d longer", p), with(p, append(bytes.Clone(content), 0)))
		refuse(fmt.Sprintf("part %d twice in itself", p), with(p, append(bytes.Clone(content), content...)))
		refuse(fmt.Sprintf("part %d empty", p), with(p, nil))
		refuse(fmt.Sprintf("part %d an array", p), with(p, []byte{0x80}))
		refuse(fmt.Sprintf("part %d with a number of none", p), with(p, []byte{0xa1, 0x18, 0x63, 0x00}))
		refuse(fmt.Sprintf("part %d left out", p), join(sampleSeed[:], slices.Delete(slices.Clone(good.Content[:]), int(p), int(p)+1)...))
		refuse(fmt.Sprintf("part %d twice", p), join(sampleSeed[:], slices.Insert(slices.Clone(good.Content[:]), int(p), content)...))
		for q := range p {
			all := good.Content
			all[p], all[q] = all[q], all[p]
			refuse(fmt.Sprintf("parts %d and %d swapped", q, p), join(sampleSeed[:], all[:]...))
		}
		at := len(sampleSeed)
		for q := range p {
			at += 4 + len(good.Content[q])
		}
		long := bytes.Clone(whole)
		long[at] = 0xff
		refuse(fmt.Sprintf("part %d of 4 GiB", p), long)
	}
	refuse("another result than the facts'", with(tlog.PartDecision, empty))
	another := sampleEntry()
	another.Proofs[0].Payload[0] ^= 1
	changed, _ := encodeParts(t, another, samplePlace)
	split, _ := org.SplitParts(changed)
	refuse("another app proof than the facts'", with(tlog.PartDecision, split.Content[tlog.PartDecision]))
	f, _ := tlog.ParseFacts(good.Content[tlog.PartFacts])
	for name, change := range map[string]func(*tlog.Facts){
		"no status":    func(f *tlog.Facts) { f.Status = "ACTIVITY_STATUS_" },
		"a proof more": func(f *tlog.Facts) { f.Proofs = append(f.Proofs, [32]byte{}) },
		"no result":    func(f *tlog.Facts) { f.Result = [32]byte{} },
	} {
		facts := *f
		change(&facts)
		b, err := facts.Encode()
		if err != nil {
			t.Fatal(err)
		}
		refuse(name, with(tlog.PartFacts, b))
	}
	// A number of another part, and the first format in place of the second.
	refuse("a request with a result", with(tlog.PartRequest, []byte{0xa1, 0x0b, 0x41, 0x31}))
	refuse("an entry of the first format", encode(t, sampleEntry()))
}

func FuzzParts(f *testing.F) {
	for _, e := range []*org.Entry{sampleEntry(), {}, {Evaluations: []org.Evaluation{sampleVerdicts()}}} {
		b, _ := encodeParts(f, e, samplePlace)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, err := org.SplitParts(b)
		if err != nil {
			return
		}
		if !bytes.Equal(join(parts.Seed[:], parts.Content[:]...), b) {
			t.Fatalf("%x is not what it was split from", b)
		}
		e, at, err := parts.Decode()
		if err != nil {
			return
		}
		again, commitment, err := e.Encode(nil, parts.Seed, at)
		if err != nil {
			t.Fatal(err)
		}
		split, err := org.SplitParts(again)
		if err != nil || !bytes.Equal(split.Content[tlog.PartFacts], parts.Content[tlog.PartFacts]) {
			t.Fatalf("%x has other facts: %v", again, err)
		}
		hashes := split.Hashes()
		if tlog.Commitment(&hashes) != commitment {
			t.Fatalf("%x does not have its commitment", again)
		}
		if back, place, err := split.Decode(); err != nil || !reflect.DeepEqual(back, e) || place != at {
			t.Fatalf("not stable: %x, %v", again, err)
		}
	})
}
