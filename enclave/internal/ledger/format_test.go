package ledger_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/shared/wire"
)

// A scribe writes an organization's entries as an enclave does, and as none would.
type scribe struct {
	t       *testing.T
	id      org.ID
	key     *seal.Key
	wrapped wire.WrappedKey
	stored  []wire.Entry
}

func newScribe(t *testing.T, id org.ID) *scribe {
	key := secrettest.Of(bytes.Repeat([]byte{3}, seal.KeySize))
	sealing, err := seal.NewKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := storageKey(t).SealSecret(rand.Reader, seal.Name{Kind: seal.KindDataKey, KeyID: 1, Deployment: deployment, Organization: id}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &scribe{t: t, id: id, key: sealing, wrapped: wire.WrappedKey{Organization: wid(id), KeyID: 1, Sealed: sealed}}
}

// entry is the one that comes next: the organization's record, and then users 1, 2, and so on.
func (s *scribe) entry() *org.Entry {
	n := len(s.stored)
	tx := org.Begin(s.id, org.NewState(), 1)
	err := tx.PutOrganization(&org.Organization{ID: s.id, Name: "o"})
	if n > 0 {
		tx = org.Begin(s.id, org.NewState(), 1)
		err = tx.PutUser(&org.User{ID: itemID(n), Name: fmt.Sprint("user ", n)})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	writes, err := tx.Writes()
	if err != nil {
		s.t.Fatal(err)
	}
	return &org.Entry{Activity: itemID(n), Type: "T", Status: org.StatusCompleted, Result: []byte(`{"a":{}}`), TimeMs: uint64(n), Boot: 1, Writes: writes}
}

func (s *scribe) place() org.Place { return org.Place{Organization: s.id, Seq: uint64(len(s.stored))} }

// store seals a record as the next entry, behind a commitment if it is of the second format.
func (s *scribe) store(keyID uint32, commitment, plain []byte) {
	s.t.Helper()
	name := seal.Name{Kind: seal.KindEntry, KeyID: keyID, Deployment: deployment, Organization: s.id, Place: uint64(len(s.stored)), Root: rootOf(leaves(s.stored))}
	b := slices.Concat(binary.BigEndian.AppendUint32(nil, keyID), name.Root[:], commitment)
	b, err := s.key.Append(b, rand.Reader, name, plain)
	if err != nil {
		s.t.Fatal(err)
	}
	s.stored = append(s.stored, wire.Entry{Organization: wid(s.id), Seq: name.Place, Sealed: b, Activity: wid(itemID(len(s.stored))), Type: "T", Status: uint8(org.StatusCompleted)})
}

// first writes the next entry as releases before the second format did.
func (s *scribe) first() {
	s.t.Helper()
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := mode.Marshal(s.entry())
	if err != nil {
		s.t.Fatal(err)
	}
	s.store(1, nil, b)
}

// second writes the next entry as it is written now.
func (s *scribe) second() {
	s.t.Helper()
	b, commitment, err := s.entry().Encode(nil, [tlog.SeedSize]byte{1}, s.place())
	if err != nil {
		s.t.Fatal(err)
	}
	s.store(1|1<<31, commitment[:], b)
}

// boot is an enclave over what was written, which takes it as it finds it.
func (s *scribe) boot() *rig {
	s.t.Helper()
	m := newStore()
	o := m.of(wid(s.id))
	o.entries, o.keys = slices.Clone(s.stored), []wire.WrappedKey{s.wrapped}
	return start(s.t, m, nobody)
}

// A ledger holds entries of both formats in any order, goes on in the second one, and is read
// again; what is old is hashed as ever.
func TestFormatsMix(t *testing.T) {
	s := newScribe(t, orgID(1))
	for i := range 12 {
		if i < 5 || i%3 == 0 {
			s.first()
		} else {
			s.second()
		}
	}
	r := s.boot()
	for i := 1; i < 12; i++ {
		r.mustRead(s.id, i, fmt.Sprint("user ", i))
	}
	r.user(s.id, 12, "user 12")
	view := r.view(s.id)
	for seq := range uint64(13) {
		e, err := view.Entry(ctx(t), seq)
		if err != nil || e.Seq != seq || e.Activity != itemID(int(seq)) || seq < 12 && string(e.Result) != `{"a":{}}` {
			t.Errorf("entry %d: %+v, %v", seq, e, err)
		}
	}
	got := r.store.of(wid(s.id)).entries
	for i, e := range got {
		stored, leaf := []byte(e.Sealed), tlog.HashStored(e.Sealed)
		if i < 12 && leaf != tlog.HashStored(s.stored[i].Sealed) {
			t.Errorf("entry %d has another leaf", i)
		}
		if second := stored[0] == 0x80; second != (i >= 5 && i%3 != 0 || i == 12) {
			t.Errorf("entry %d is of the second format: %v", i, second)
		} else if !second && leaf != sha256.Sum256(append([]byte{0}, stored...)) {
			t.Errorf("entry %d is not hashed as a whole", i)
		}
	}
	if tip := r.tip(s.id); tip.Count != 13 || tip.Root != rootOf(leaves(got)) {
		t.Errorf("the tip is %+v", tip)
	}
	if err := r.l.Release(ctx(t)); err != nil {
		t.Fatal(err)
	}
	next := start(t, r.store, nil)
	for i := 1; i < 13; i++ {
		next.mustRead(s.id, i, fmt.Sprint("user ", i))
	}
	r.quiet()
	next.quiet()
}

// Stored entries of each format, byte for byte, and their leaves.
func TestStoredEntriesAreFixed(t *testing.T) {
	s := newScribe(t, orgID(1))
	for _, c := range []struct{ stored, leaf string }{
		{"00000001e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855a470fe98511cf9e5da5ee6bd3d25b66c9fe3b51057b7dc88baaaf27c" +
			"f97060a50635148510a027f1eadea252d6af884da09470488935effcbbe01622811bfe141769cbd83cdd032949d83fdb4d07894db355f778f8c24286a8e83073" +
			"ab59acfee423bbf3c4fd30df45ce43cc67de68eea1080c30fce55b36ceabfcca64bb88042d848da0d6230a7884274aa6073904455748178ba29563c82c2611e8" +
			"21a4ea31526a80d1804f02d9054bd1c724c256739207f84ad8a8888b39baad0e4a550130f4887f83a516dd0d421dac7a",
			"f01b67c49284d83ac5336efc434722b039318b283f4d621ab3a0ef8f614aad1e"},
		{"80000001f01b67c49284d83ac5336efc434722b039318b283f4d621ab3a0ef8f614aad1e0b9f70f9341d501291654d4e657f13fc598486ee633faf8f6a8946c8" +
			"43d7ebd4b91d07bc39de548a19c28960875a5befcb745cde6d6c3a50ec116114cd0171bccdf6064d35ebafbe13149fbfafaa30a03bdf7473d48a9822df1f1b10" +
			"ccfb1c55c502f4cbb2dde3ece84a89fabec39ce185c259aac88c249b264db53f530240607666e2563bea00c8347802dbd8c8016fc0c31b949717f1335b285ac2" +
			"eb9fdd35eafa1b17c8ea18f7a2202f8205f72063708f9f56880df9834e6e9121fa573e4d9b358f98963969abcead5f573338efde61c986a175defb4c23ee9e72" +
			"18da9925e232497896441400a12ac39b96f2b051a977c1bb9c08130eb472b8246aaa2f54d58868f29b0a1ae1e0a4e9507513b8f2ef9632a0e5cf2a1e6c2bd1e6" +
			"761efacf599fb7c83b00f8bff95a1197edcc24cf9b8d574d290fefd8a94c4174",
			"c298f82b4522cbfc2760f07d630a575023dce4670a4acf826dc989f4183fd708"},
	} {
		b, err := hex.DecodeString(c.stored)
		if err != nil {
			t.Fatal(err)
		}
		if leaf := tlog.HashStored(b); hex.EncodeToString(leaf[:]) != c.leaf {
			t.Errorf("leaf %x, want %s", leaf, c.leaf)
		}
		s.stored = append(s.stored, wire.Entry{Organization: wid(s.id), Seq: uint64(len(s.stored)), Sealed: b, Activity: wid(itemID(len(s.stored))), Type: "T", Status: uint8(org.StatusCompleted)})
	}
	r := s.boot()
	r.mustRead(s.id, 1, "user 1")
	r.quiet()
}

// Whatever a store holds under the organization's own key, it is opened only as what an enclave
// writes: the parts that it commits to, and facts of this place.
func TestSecondFormatIsRefused(t *testing.T) {
	encode := func(s *scribe, at org.Place) (plain, commitment []byte) {
		b, c, err := s.entry().Encode(nil, [tlog.SeedSize]byte{1}, at)
		if err != nil {
			t.Fatal(err)
		}
		return b, c[:]
	}
	// committed makes a plain text of parts, and what they commit to.
	committed := func(parts *org.Parts) (plain, commitment []byte) {
		plain = slices.Clone(parts.Seed[:])
		for _, p := range parts.Content {
			plain = append(binary.BigEndian.AppendUint32(plain, uint32(len(p))), p...)
		}
		hashes := parts.Hashes()
		c := tlog.Commitment(&hashes)
		return plain, c[:]
	}
	split := func(plain []byte) *org.Parts {
		parts, err := org.SplitParts(plain)
		if err != nil {
			t.Fatal(err)
		}
		return parts
	}
	for name, c := range map[string]struct {
		alarm bool // no: it is nothing that a host could have done
		write func(s *scribe)
	}{
		"facts of another organization": {true, func(s *scribe) {
			plain, commitment := encode(s, org.Place{Organization: orgID(2), Seq: 1})
			s.store(1|1<<31, commitment, plain)
		}},
		"facts of the entry before": {true, func(s *scribe) {
			plain, commitment := encode(s, org.Place{Organization: s.id})
			s.store(1|1<<31, commitment, plain)
		}},
		"facts of the entry behind": {true, func(s *scribe) {
			plain, commitment := encode(s, org.Place{Organization: s.id, Seq: 2})
			s.store(1|1<<31, commitment, plain)
		}},
		"another commitment": {true, func(s *scribe) {
			plain, commitment := encode(s, s.place())
			commitment[31] ^= 1
			s.store(1|1<<31, commitment, plain)
		}},
		"the entry before's commitment": {true, func(s *scribe) {
			before, _ := tlog.CommitmentOf(s.stored[0].Sealed)
			plain, _ := encode(s, s.place())
			s.store(1|1<<31, before[:], plain)
		}},
		"another seed": {true, func(s *scribe) {
			plain, commitment := encode(s, s.place())
			plain[0] ^= 1
			s.store(1|1<<31, commitment, plain)
		}},
		"a part that was not committed to": {true, func(s *scribe) {
			plain, commitment := encode(s, s.place())
			parts := split(plain)
			parts.Content[tlog.PartSends] = []byte{0xa1, 0x10, 0x80}
			plain, _ = committed(parts)
			s.store(1|1<<31, commitment, plain)
		}},
		"a part cut": {false, func(s *scribe) {
			plain, _ := encode(s, s.place())
			parts := split(plain)
			parts.Content[tlog.PartWrites] = parts.Content[tlog.PartWrites][:5]
			plain, commitment := committed(parts)
			s.store(1|1<<31, commitment, plain)
		}},
		"a part longer": {false, func(s *scribe) {
			plain, _ := encode(s, s.place())
			parts := split(plain)
			parts.Content[tlog.PartRequest] = append(slices.Clone(parts.Content[tlog.PartRequest]), 0)
			plain, commitment := committed(parts)
			s.store(1|1<<31, commitment, plain)
		}},
		"two parts swapped": {false, func(s *scribe) {
			plain, _ := encode(s, s.place())
			parts := split(plain)
			parts.Content[tlog.PartWrites], parts.Content[tlog.PartSends] = parts.Content[tlog.PartSends], parts.Content[tlog.PartWrites]
			plain, commitment := committed(parts)
			s.store(1|1<<31, commitment, plain)
		}},
		"bytes behind": {false, func(s *scribe) {
			plain, commitment := encode(s, s.place())
			s.store(1|1<<31, commitment, append(plain, 0))
		}},
		"the first format in the second": {false, func(s *scribe) {
			mode, _ := cbor.CoreDetEncOptions().EncMode()
			plain, _ := mode.Marshal(s.entry())
			s.store(1|1<<31, make([]byte, 32), plain)
		}},
		"the second format in the first": {false, func(s *scribe) {
			plain, _ := encode(s, s.place())
			s.store(1, nil, plain)
		}},
		"a commitment behind the key id of the first": {true, func(s *scribe) {
			s.second()
			s.stored[1].Sealed[0] ^= 0x80
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScribe(t, orgID(1))
			s.second()
			c.write(s)
			r := s.boot()
			_, err := r.read(s.id, 1)
			if err == nil {
				t.Fatal("believed")
			}
			if n := r.alarms.Counts()[fault.AlarmOpen.String()]; (n > 0) != c.alarm {
				t.Errorf("%d alarms: %v", n, err)
			}
		})
	}
}

// The facts of an entry have the mode that its reply waited for.
func TestFactsHaveTheMode(t *testing.T) {
	for _, mode := range []tlog.Mode{tlog.ModeNone, tlog.ModeBounded, tlog.ModeStrict} {
		s, id := newStore(), orgID(1)
		var r *rig
		if mode == tlog.ModeNone {
			r = start(t, s, nil)
		} else {
			w, all := terms(t, mode)
			s.witnesses = all
			r = start(t, s, witnessed(w))
			known(t, r, all)
		}
		r.found(id)
		o := s.of(wid(id))
		key, err := storageKey(t).OpenSecret(seal.Name{Kind: seal.KindDataKey, KeyID: 1, Deployment: deployment, Organization: id}, o.keys[0].Sealed)
		if err != nil {
			t.Fatal(err)
		}
		opening, err := seal.NewKey(key)
		if err != nil {
			t.Fatal(err)
		}
		stored := o.entries[0].Sealed
		plain, err := opening.Open(seal.Name{Kind: seal.KindEntry, KeyID: 1 | 1<<31, Deployment: deployment, Organization: id, Root: [32]byte(stored[4:])}, stored[68:])
		if err != nil {
			t.Fatal(err)
		}
		parts, err := org.SplitParts(plain)
		if err != nil {
			t.Fatal(err)
		}
		if _, at, err := parts.Decode(); err != nil || at != (org.Place{Organization: id, Mode: mode}) {
			t.Errorf("%s: %+v, %v", mode, at, err)
		}
		r.quiet()
	}
}
