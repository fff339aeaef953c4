package tlog_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	mod "golang.org/x/mod/sumdb/tlog"

	"cloister/attestation/tlog"
)

func someParts() (salts [tlog.Parts][tlog.SaltSize]byte, contents [tlog.Parts][]byte, hashes [tlog.Parts][32]byte) {
	for p := range tlog.Parts {
		salts[p] = tlog.Salt([tlog.SeedSize]byte{7}, p)
		contents[p] = bytes.Repeat([]byte{byte(p)}, int(p)*100)
		hashes[p] = tlog.HashPart(p, salts[p], contents[p])
	}
	return salts, contents, hashes
}

// verifyPart holds a part against the commitment of its entry.
func verifyPart(commitment [32]byte, part tlog.Part, salt [tlog.SaltSize]byte, content []byte, path [][]byte) error {
	leaf := tlog.HashPart(part, salt, content)
	return proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(part), uint64(tlog.Parts), leaf[:], path, commitment[:])
}

// The commitment is the root that another implementation makes of the same leaves.
func TestCommitmentIsTheRoot(t *testing.T) {
	salts, contents, hashes := someParts()
	var stored []mod.Hash
	read := mod.HashReaderFunc(func(at []int64) (out []mod.Hash, err error) {
		for _, i := range at {
			out = append(out, stored[i])
		}
		return out, nil
	})
	for p := range tlog.Parts {
		data := append(append(bytes.Clone(salts[p][:]), byte(p)), contents[p]...)
		more, err := mod.StoredHashes(int64(p), data, read)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, more...)
	}
	want, err := mod.TreeHash(int64(tlog.Parts), read)
	if err != nil {
		t.Fatal(err)
	}
	root := tlog.Commitment(&hashes)
	if root != want {
		t.Fatalf("commitment %x, want %x", root, want)
	}
	for p := range tlog.Parts {
		path := tlog.PathOf(&hashes, p)
		if err := verifyPart(root, p, salts[p], contents[p], path); err != nil {
			t.Errorf("part %d: %v", p, err)
		}
		for q := range tlog.Parts {
			if q != p && verifyPart(root, q, salts[p], contents[p], path) == nil {
				t.Errorf("part %d passes as part %d", p, q)
			}
		}
		wrongSalt := salts[p]
		wrongSalt[3] ^= 1
		if verifyPart(root, p, wrongSalt, contents[p], path) == nil {
			t.Errorf("part %d passes with another salt", p)
		}
		if verifyPart(root, p, salts[p], append([]byte{1}, contents[p]...), path) == nil {
			t.Errorf("part %d passes with other content", p)
		}
		path[0][0] ^= 1
		if verifyPart(root, p, salts[p], contents[p], path) == nil {
			t.Errorf("part %d passes with another path", p)
		}
	}
}

// An entry of the first format is hashed as a whole; one of the second by what it commits to.
func TestStoredEntriesOfBothFormats(t *testing.T) {
	first := append(binary.BigEndian.AppendUint32(nil, 1), make([]byte, 100)...)
	if got, want := tlog.HashStored(first), rfc6962.DefaultHasher.HashLeaf(first); !bytes.Equal(got[:], want) {
		t.Errorf("format 1: %x, want %x", got, want)
	}
	if _, ok := tlog.CommitmentOf(first); ok {
		t.Error("format 1 has a commitment")
	}
	second := append(binary.BigEndian.AppendUint32(nil, 1|1<<31), bytes.Repeat([]byte{9}, 100)...)
	commitment, ok := tlog.CommitmentOf(second)
	if !ok || commitment != [32]byte(bytes.Repeat([]byte{9}, 32)) {
		t.Errorf("format 2: commitment %x, %v", commitment, ok)
	}
	sum := sha256.Sum256(second)
	if got, want := tlog.HashStored(second), rfc6962.DefaultHasher.HashLeaf(append(commitment[:], sum[:]...)); !bytes.Equal(got[:], want) {
		t.Errorf("format 2: %x, want %x", got, want)
	}
	if _, ok := tlog.CommitmentOf(second[:67]); ok {
		t.Error("a commitment that is cut off")
	}
}

func TestFactsInOneForm(t *testing.T) {
	f := tlog.Facts{Format: 1, Organization: [16]byte{1}, Seq: 5, Activity: [16]byte{2}, Type: "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", Status: "ACTIVITY_STATUS_COMPLETED",
		Fingerprint: [32]byte{3}, CreatedMs: 4, TimeMs: 5, Boot: 6, Mode: tlog.ModeStrict, Prior: 3, Result: [32]byte{7}, Proofs: [][32]byte{{8}, {9}}}
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := tlog.ParseFacts(b)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := got.Encode(); !bytes.Equal(again, b) {
		t.Error("another encoding")
	}
	for name, bad := range map[string][]byte{
		"nothing": nil, "more": append(bytes.Clone(b), 0), "cut": b[:len(b)-1], "long": make([]byte, tlog.MaxFacts+1),
		"format": bytes.Replace(b, []byte{1, 1}, []byte{1, 2}, 1),
		// The same map with the length of its first number in two bytes instead of one.
		"loose": append([]byte{b[0], 1, 0x18, 1}, b[3:]...),
	} {
		if _, err := tlog.ParseFacts(bad); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzFacts(f *testing.F) {
	b, _ := (&tlog.Facts{Format: 1, Type: "T"}).Encode()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		facts, err := tlog.ParseFacts(b)
		if err != nil {
			return
		}
		if again, err := facts.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x is another form of %x", b, again)
		}
	})
}
