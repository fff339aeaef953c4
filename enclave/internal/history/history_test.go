package history_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/history"
	"cloister/enclave/internal/org"
)

// sample is an entry as an export has it.
func sample(t testing.TB, seq uint64) *history.Entry {
	e := &org.Entry{Activity: org.ID{1}, Type: "T", Status: org.StatusCompleted, Body: []byte("body"), Result: []byte("{}"), TimeMs: 7,
		Votes: []org.Vote{{ID: org.ID{2}, User: org.ID{3}, PublicKey: "02"}}, Writes: []org.Write{{Key: []byte("A"), Value: []byte{0xa0}}}}
	seed := [tlog.SeedSize]byte{9}
	b, _, err := e.Encode(nil, seed, org.Place{Organization: org.ID{5}, Seq: seq})
	if err != nil {
		t.Fatal(err)
	}
	p, err := org.SplitParts(b)
	if err != nil {
		t.Fatal(err)
	}
	return &history.Entry{Seed: seed, Stored: [32]byte{4}, Parts: p.Content[:]}
}

func records(t testing.TB) []*history.Record {
	return []*history.Record{
		{Entry: sample(t, 0)}, {Old: &history.Old{Leaf: [32]byte{6}, Plain: []byte("plain")}},
		{Page: &history.Proof{Key: []byte("key"), Payload: "{}", Signature: []byte("signature")}},
		{Logged: &history.Logged{Proof: "text", Key: history.Proof{Key: []byte("key"), Payload: "{}", Signature: []byte("signature")}}},
	}
}

func file(t testing.TB, rs ...*history.Record) []byte {
	b := []byte(history.Magic)
	for _, r := range rs {
		var err error
		if b, err = history.Append(b, r); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// What is written is read, and written again it is the same.
func TestRead(t *testing.T) {
	b := file(t, records(t)...)
	again := []byte(history.Magic)
	var kinds []history.Kind
	err := history.Read(bytes.NewReader(b), func(r *history.Record) (err error) {
		kinds = append(kinds, r.Kind())
		again, err = history.Append(again, r)
		return err
	})
	if err != nil || !bytes.Equal(again, b) {
		t.Errorf("%v, %d bytes of %d", err, len(again), len(b))
	}
	for i, k := range kinds {
		if k != history.Kind(i+1) || k.String() == "" {
			t.Errorf("record %d is %d %q", i, k, k)
		}
	}
	if len(kinds) != 4 {
		t.Errorf("%d records", len(kinds))
	}
}

// An entry opens to what it was, at its place; each bit of it makes another leaf, or none.
func TestOpen(t *testing.T) {
	x := sample(t, 3)
	e, at, leaf, err := x.Open()
	if err != nil || at.Seq != 3 || at.Organization != (org.ID{5}) || string(e.Body) != "body" {
		t.Fatalf("%+v %+v %v", e, at, err)
	}
	content, err := history.Append(nil, &history.Record{Entry: x})
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(content) {
		changed := bytes.Clone(content)
		changed[bit/8] ^= 1 << (bit % 8)
		err := history.Read(strings.NewReader(history.Magic+string(changed)), func(r *history.Record) error {
			if r.Entry == nil {
				return errors.New("another record")
			}
			_, _, other, err := r.Entry.Open()
			if err == nil && other == leaf {
				t.Errorf("bit %d of byte %d: the same leaf", bit%8, bit/8)
			}
			return err
		})
		_ = err
	}
}

func TestReadRefuses(t *testing.T) {
	good := file(t, records(t)...)
	head := len(history.Magic)
	size := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	join := func(parts ...[]byte) string { return string(bytes.Join(parts, nil)) }
	for name, text := range map[string]string{
		"nothing":                "",
		"another file":           "cloister history 2\n",
		"a head cut":             string(good[:head+3]),
		"a record cut":           string(good[:len(good)-1]),
		"a kind that is none":    join([]byte(history.Magic), []byte{9}, size(1), []byte{0xa0}),
		"kind 0":                 join([]byte(history.Magic), []byte{0}, size(1), []byte{0xa0}),
		"a record too long":      join([]byte(history.Magic), []byte{1}, size(history.MaxContent+1)),
		"no CBOR":                join([]byte(history.Magic), []byte{3}, size(1), []byte{0xff}),
		"a member more":          join([]byte(history.Magic), []byte{3}, size(3), []byte{0xa1, 0x09, 0x01}),
		"members missing":        join([]byte(history.Magic), []byte{3}, size(1), []byte{0xa0}),
		"an entry without parts": join([]byte(history.Magic), []byte{1}, size(1), []byte{0xa0}),
		"a number too long":      join([]byte(history.Magic), []byte{2}, size(4), []byte{0xa1, 0x18, 0x02, 0x40}),
		"behind a record":        string(good) + "x",
	} {
		if err := history.Read(strings.NewReader(text), func(*history.Record) error { return nil }); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	if _, err := history.Append(nil, &history.Record{}); err == nil {
		t.Error("a record of nothing is written")
	}
	if _, err := history.Append(nil, &history.Record{Entry: &history.Entry{Parts: make([][]byte, 4)}}); err == nil {
		t.Error("an entry of four parts is written")
	}
	if _, err := history.Append(nil, &history.Record{Old: &history.Old{Plain: make([]byte, history.MaxContent)}}); err == nil {
		t.Error("a record over the bound is written")
	}
}

// FuzzRead: what is read has one form, and nothing breaks the reader.
func FuzzRead(f *testing.F) {
	f.Add(file(f, records(f)...))
	f.Add([]byte(history.Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		again := []byte(history.Magic)
		err := history.Read(bytes.NewReader(b), func(r *history.Record) (err error) {
			if r.Entry != nil {
				_, _, _, _ = r.Entry.Open()
			}
			again, err = history.Append(again, r)
			return err
		})
		if err == nil && !bytes.Equal(again, b) {
			t.Errorf("%x is read as %x", b, again)
		}
	})
}
