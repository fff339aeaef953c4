package ledger_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// scene is a victim, a twin that nobody touches, and images of the victim at
// every length, all open in one boot that keeps one organization at a time.
type scene struct {
	*rig
	victim, twin org.ID
	images       []wire.Organization // images[n]: the store's answer when there were n entries
	full         wire.Organization
}

const sceneEntries = 10 // one more than a snapshot covers, and the twin's the same

func newScene(t *testing.T, snapshotEvery int) *scene {
	s := newStore()
	r := start(t, s, func(c *ledger.Config) { c.Limits.StateBytes, c.Limits.SnapshotEvery = 1, snapshotEvery })
	sc := &scene{rig: r, victim: orgID(1), twin: orgID(2), images: make([]wire.Organization, 1)}
	r.found(sc.victim)
	shots := uint64(0)
	for _, id := range []org.ID{sc.victim, sc.twin} {
		if id == sc.twin {
			r.found(id)
		}
		for i := 1; i <= sceneEntries-1; i++ {
			if id == sc.victim {
				sc.images = append(sc.images, s.image(wid(id)))
			}
			r.waitForCapacity(id)
			r.user(id, i, fmt.Sprintf("user %d of %x", i, id[:2]))
			if (i+1)%snapshotEvery == 0 {
				shots++
			}
			r.snapshots(shots)
		}
	}
	sc.full = s.image(wid(sc.victim))
	sc.images = append(sc.images, sc.full)
	return sc
}

// forget has the victim evicted.
func (sc *scene) forget() {
	sc.t.Helper()
	sc.waitForCapacity(sc.twin)
	sc.mustRead(sc.twin, 1, fmt.Sprintf("user 1 of %x", sc.twin[:2]))
	if n := sc.l.Stats()["organizations_open"]; n != 1 {
		sc.t.Fatalf("%d organizations are open", n)
	}
}

// attack opens the victim under a lie. It must be refused with the alarm, the
// twin must be served meanwhile, and the victim when the host is honest again.
func (sc *scene) attack(name string, a fault.Alarm, h hooks) {
	sc.t.Helper()
	sc.forget()
	before := sc.alarms.Counts()
	sc.store.lie(h)
	_, err := sc.read(sc.victim, 1)
	if err := sc.breached(err, a, before); err != nil {
		sc.t.Errorf("%s: %v", name, err)
	}
	if got, err := sc.read(sc.twin, 2); err != nil || got != fmt.Sprintf("user 2 of %x", sc.twin[:2]) {
		sc.t.Errorf("%s: the twin is not served: %v", name, err)
	}
	sc.store.lie(hooks{})
	for i := 1; i < sceneEntries; i++ {
		sc.waitForCapacity(sc.victim)
		sc.mustRead(sc.victim, i, fmt.Sprintf("user %d of %x", i, sc.victim[:2]))
	}
	if f := sc.l.Stats()["tips"]; f != 2 {
		sc.t.Errorf("%s: %d tips", name, f)
	}
	select {
	case err := <-sc.fences:
		sc.t.Errorf("%s: fenced: %v", name, err)
	default:
	}
}

// loading changes the answer that opens the victim.
func (sc *scene) loading(change func(o *wire.Organization)) hooks {
	return hooks{org: func(q wire.LoadOrganization, got wire.Organization) (wire.Organization, error) {
		if q.Organization == wid(sc.victim) {
			change(&got)
		}
		return got, nil
	}}
}

func TestVictimIsOpenedAtItsTipOnly(t *testing.T) {
	for _, snapshotEvery := range []int{1 << 30, 4} {
		sc := newScene(t, snapshotEvery)
		twin := func() wire.Organization { return sc.store.image(wid(sc.twin)) }
		for n := 1; n < sceneEntries; n++ { // rolled back, snapshot and all
			if sc.images[n].From < sc.full.From && snapshotEvery == 4 {
				continue // that snapshot's piece is gone; see below
			}
			sc.attack(fmt.Sprint("rolled back to ", n), fault.AlarmTip, sc.loading(func(o *wire.Organization) { *o = sc.images[n] }))
		}
		sc.attack("withheld", fault.AlarmTip, sc.loading(func(o *wire.Organization) { *o = wire.Organization{} }))
		sc.attack("count of none", fault.AlarmTip, sc.loading(func(o *wire.Organization) { o.Count = 0 }))
		sc.attack("without its last entry", fault.AlarmTip, sc.loading(func(o *wire.Organization) {
			o.Count--
			o.Entries = o.Entries[:len(o.Entries)-1]
		}))
		sc.attack("the twin's everything", fault.AlarmKey, sc.loading(func(o *wire.Organization) { *o = twin() }))
		sc.attack("the twin's entries", map[bool]fault.Alarm{true: fault.AlarmOpen, false: fault.AlarmSequence}[snapshotEvery > 4],
			sc.loading(func(o *wire.Organization) { o.Entries = twin().Entries }))
		sc.attack("the twin's last entry", fault.AlarmSequence, sc.loading(func(o *wire.Organization) {
			es := twin().Entries
			o.Entries[len(o.Entries)-1] = es[len(es)-1]
		}))
		sc.attack("two entries swapped", fault.AlarmSequence, sc.loading(func(o *wire.Organization) {
			n := len(o.Entries)
			o.Entries[n-1], o.Entries[n-2] = o.Entries[n-2], o.Entries[n-1]
		}))
		sc.attack("one entry twice", fault.AlarmSequence, sc.loading(func(o *wire.Organization) {
			n := len(o.Entries)
			o.Entries[n-1] = o.Entries[n-2]
		}))
		sc.attack("one entry left out", fault.AlarmSequence, sc.loading(func(o *wire.Organization) {
			n := len(o.Entries)
			o.Entries = append(o.Entries[:n-2:n-2], o.Entries[n-1])
		}))
		sc.attack("more than announced", fault.AlarmSequence, sc.loading(func(o *wire.Organization) { o.Count-- }))
		sc.attack("fewer than announced", fault.AlarmSequence, sc.loading(func(o *wire.Organization) { o.Count++ }))
		sc.attack("far more announced", fault.AlarmSequence, sc.loading(func(o *wire.Organization) { o.Count = o.From + ledger.MaxReplay }))
		sc.attack("the last one again behind", fault.AlarmSequence, sc.loading(func(o *wire.Organization) {
			o.Count++
			o.Entries = append(o.Entries, o.Entries[len(o.Entries)-1])
		}))
		for at := range len(sc.full.Entries[0]) {
			a := fault.AlarmOpen
			if at < 4 {
				a = fault.AlarmKey
			} else if at < 36 {
				a = fault.AlarmSequence
			}
			if at%7 == 0 || at < 70 {
				sc.attack(fmt.Sprint("entry with a flip at ", at), a, sc.loading(func(o *wire.Organization) { o.Entries[0][at] ^= 1 }))
			}
		}
		sc.attack("entry of another format", fault.AlarmOpen, sc.loading(func(o *wire.Organization) { o.Entries[0][0] ^= 0x80 }))
		for _, n := range []int{0, 3, 35, 36, 63, 67, 68, 95, 96, len(sc.full.Entries[0]) - 1} {
			a := fault.AlarmOpen
			sc.attack(fmt.Sprint("entry cut to ", n), a, sc.loading(func(o *wire.Organization) { o.Entries[0] = o.Entries[0][:n] }))
		}
	}
}

func TestDataKeyLies(t *testing.T) {
	sc := newScene(t, 1<<30)
	key := func(change func(o *wire.Organization)) hooks { return sc.loading(change) }
	twins := sc.store.image(wid(sc.twin)).Keys
	sc.attack("no key", fault.AlarmKey, key(func(o *wire.Organization) { o.Keys = nil }))
	sc.attack("the twin's key", fault.AlarmKey, key(func(o *wire.Organization) { o.Keys = twins }))
	sc.attack("the twin's key under the victim's name", fault.AlarmKey, key(func(o *wire.Organization) { o.Keys[0].Sealed = twins[0].Sealed }))
	sc.attack("the victim's key under the twin's name", fault.AlarmKey, key(func(o *wire.Organization) { o.Keys[0].Organization = wid(sc.twin) }))
	sc.attack("the twin's key beside it", fault.AlarmKey, key(func(o *wire.Organization) { o.Keys = append(o.Keys, twins...) }))
	for _, id := range []uint32{0, 2, 1 << 31, 1<<31 | 1} {
		sc.attack("under another number", fault.AlarmKey, key(func(o *wire.Organization) { o.Keys[0].KeyID = id }))
	}
	for at := range len(sc.full.Keys[0].Sealed) {
		sc.attack(fmt.Sprint("flip at ", at), fault.AlarmKey, key(func(o *wire.Organization) { o.Keys[0].Sealed[at] ^= 0x10 }))
	}
	sc.attack("cut", fault.AlarmKey, key(func(o *wire.Organization) { o.Keys[0].Sealed = o.Keys[0].Sealed[:27] }))
}

func TestSnapshotLies(t *testing.T) {
	sc := newScene(t, 4)
	if sc.full.From != 8 {
		t.Fatalf("snapshot of %d entries", sc.full.From)
	}
	sc.store.mu.Lock()
	history := sc.store.of(wid(sc.victim)).history
	twinHistory := sc.store.of(wid(sc.twin)).history
	all := sc.store.of(wid(sc.victim)).all
	entries := slices.Clone(sc.store.of(wid(sc.victim)).entries)
	sc.store.mu.Unlock()
	old := history[0] // covers 4
	// A host that kept what it was told to drop serves the old pieces too.
	hoard := func(h hooks) hooks {
		h.pieces = func(_ context.Context, q wire.LoadPieces, got wire.Pieces) (wire.Pieces, error) {
			for i, p := range q.Pieces {
				if len(got.Pieces[i]) == 0 {
					got.Pieces[i] = all[p]
				}
			}
			return got, nil
		}
		return h
	}
	plant := func(o *wire.Organization, entries []wire.Entry) {
		o.Snapshot, o.From, o.Count = old.Snapshot, old.Count, uint64(len(entries))
		o.Entries = sealedOf(entries[old.Count:])
	}
	sc.attack("an old snapshot, what came later removed", fault.AlarmTip, hoard(sc.loading(func(o *wire.Organization) { plant(o, entries[:old.Count]) })))
	sc.attack("an old snapshot and most of what came later", fault.AlarmTip, hoard(sc.loading(func(o *wire.Organization) { plant(o, entries[:sceneEntries-1]) })))
	sc.attack("an old snapshot under the new one's number", fault.AlarmOpen, hoard(sc.loading(func(o *wire.Organization) { o.Snapshot = old.Snapshot })))
	sc.attack("an old snapshot with the new one's entries", fault.AlarmSequence, hoard(sc.loading(func(o *wire.Organization) {
		o.Snapshot, o.From = old.Snapshot, old.Count
	})))
	sc.attack("no snapshot", fault.AlarmSequence, sc.loading(func(o *wire.Organization) { o.Snapshot = nil }))
	sc.attack("no snapshot, entries as if from the first", fault.AlarmSequence, sc.loading(func(o *wire.Organization) { o.Snapshot, o.From = nil, 0 }))
	sc.attack("the twin's snapshot", fault.AlarmOpen, sc.loading(func(o *wire.Organization) { o.Snapshot = twinHistory[1].Snapshot }))
	sc.attack("another number", fault.AlarmOpen, sc.loading(func(o *wire.Organization) { o.From-- }))
	sc.attack("a snapshot beyond the end", fault.AlarmSequence, sc.loading(func(o *wire.Organization) { o.Count = 3; o.Entries = nil }))
	sc.attack("an entry for a snapshot", fault.AlarmKey, sc.loading(func(o *wire.Organization) { o.Snapshot = append([]byte{9}, o.Entries[0]...) }))
	sc.attack("a piece for a snapshot", fault.AlarmOpen, sc.loading(func(o *wire.Organization) {
		for _, p := range all {
			o.Snapshot = p
		}
	}))
	for at := range len(sc.full.Snapshot) {
		a := fault.AlarmOpen
		if at < 4 {
			a = fault.AlarmKey
		}
		if at%5 == 0 || at < 40 {
			sc.attack(fmt.Sprint("snapshot with a flip at ", at), a, sc.loading(func(o *wire.Organization) { o.Snapshot[at] ^= 0x40 }))
		}
	}
	for n := 1; n < 40; n++ {
		a := fault.AlarmOpen
		if n < 4 {
			a = fault.AlarmSnapshot
		}
		sc.attack(fmt.Sprint("snapshot cut to ", n), a, sc.loading(func(o *wire.Organization) { o.Snapshot = o.Snapshot[:n] }))
	}

	pieces := func(change func(p *wire.Pieces)) hooks {
		return hooks{pieces: func(_ context.Context, q wire.LoadPieces, got wire.Pieces) (wire.Pieces, error) {
			if q.Organization == wid(sc.victim) {
				change(&got)
			}
			return got, nil
		}}
	}
	oldPiece, twinPiece := old.Pieces[0], twinHistory[1].Pieces[0]
	sc.attack("an old piece", fault.AlarmSnapshot, pieces(func(p *wire.Pieces) { p.Pieces[0] = oldPiece }))
	sc.attack("the twin's piece", fault.AlarmSnapshot, pieces(func(p *wire.Pieces) { p.Pieces[0] = twinPiece }))
	sc.attack("a piece withheld", fault.AlarmSnapshot, pieces(func(p *wire.Pieces) { p.Pieces[0] = nil }))
	sc.attack("all pieces withheld", fault.AlarmSnapshot, pieces(func(p *wire.Pieces) { p.Pieces = nil }))
	sc.attack("a piece more", fault.AlarmSnapshot, pieces(func(p *wire.Pieces) { p.Pieces = append(p.Pieces, oldPiece) }))
	size := len(history[1].Pieces[0])
	for at := 0; at < size; at += 11 {
		sc.attack(fmt.Sprint("piece with a flip at ", at), fault.AlarmSnapshot, pieces(func(p *wire.Pieces) { p.Pieces[0][at] ^= 2 }))
	}
	sc.attack("a piece cut", fault.AlarmSnapshot, pieces(func(p *wire.Pieces) { p.Pieces[0] = p.Pieces[0][:size-1] }))

	// With all that came later it is as good as the new one.
	sc.forget()
	sc.store.lie(hoard(sc.loading(func(o *wire.Organization) { plant(o, entries) })))
	sc.waitForCapacity(sc.victim)
	sc.mustRead(sc.victim, sceneEntries-1, fmt.Sprintf("user %d of %x", sceneEntries-1, sc.victim[:2]))
	sc.store.lie(hooks{})
}

// Pieces of large collections come when they are needed, and are judged then.
func TestLatePieceLies(t *testing.T) {
	s := newStore()
	r := start(t, s, every(4))
	for o := range 2 {
		r.found(orgID(o))
		for i := range 7 {
			if _, err := r.step(orgID(o), &org.Entry{}, func(tx *org.Tx) error {
				return tx.PutChild(&org.Child{ID: itemID(i), Name: strings.Repeat("x", 100_000)})
			}); err != nil {
				t.Fatal(err)
			}
		}
		r.snapshots(uint64(2*o + 2))
	}
	if err := r.l.Release(ctx(t)); err != nil {
		t.Fatal(err)
	}
	r = start(t, s, nil)
	child := func(o, i int) error {
		return r.l.TransactOne(ctx(t), orgID(o), func(locked *ledger.Locked) error {
			c, err := org.Begin(orgID(o), locked.State, 1).Child(itemID(i))
			if err == nil && (c == nil || len(c.Name) != 100_000) {
				t.Errorf("child %d is not there", i)
			}
			return err
		})
	}
	r.waitForCapacity(orgID(0))
	r.waitForCapacity(orgID(1))
	s.mu.Lock()
	var others [][]byte
	for _, p := range s.of(wid(orgID(1))).pieces {
		others = append(others, p)
	}
	s.mu.Unlock()
	for name, change := range map[string]func([]byte) []byte{
		"withheld": func([]byte) []byte { return nil },
		"flipped":  func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut":      func(b []byte) []byte { return b[:len(b)-1] },
		"another":  func([]byte) []byte { return others[0] },
		"a second": func([]byte) []byte { return others[1] },
	} {
		before := r.alarms.Counts()
		s.lie(hooks{pieces: func(_ context.Context, q wire.LoadPieces, got wire.Pieces) (wire.Pieces, error) {
			if q.Organization == wid(orgID(0)) {
				got.Pieces[0] = change(got.Pieces[0])
			}
			return got, nil
		}})
		if err := r.breached(child(0, 3), fault.AlarmSnapshot, before); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := child(1, 3); err != nil {
			t.Errorf("%s: the twin: %v", name, err)
		}
		s.lie(hooks{})
	}
	for i := range 7 {
		if err := child(0, i); err != nil {
			t.Fatal(err)
		}
	}
}

// The whole store as it was some entries ago, within a boot.
func TestWholeStoreRolledBack(t *testing.T) {
	s := newStore()
	r := start(t, s, func(c *ledger.Config) { c.Limits.StateBytes = 1 })
	for o := range 6 {
		r.found(orgID(o))
		r.user(orgID(o), 1, "old")
	}
	old := map[wire.ID]wire.Organization{}
	for o := range 6 {
		old[wid(orgID(o))] = s.image(wid(orgID(o)))
	}
	for o := range 5 { // the sixth has not moved since
		r.user(orgID(o), 1, "new")
	}
	s.lie(hooks{org: func(q wire.LoadOrganization, got wire.Organization) (wire.Organization, error) {
		return old[q.Organization], nil
	}})
	r.mustRead(orgID(5), 1, "old")
	for o := range 5 {
		before := r.alarms.Counts()
		_, err := r.read(orgID(o), 1)
		if err := r.breached(err, fault.AlarmTip, before); err != nil {
			t.Errorf("organization %d: %v", o, err)
		}
	}
	s.lie(hooks{})
	for o := range 5 {
		r.mustRead(orgID(o), 1, "new")
	}
}

// An entry that an earlier boot sealed and the host hid.
func TestHiddenEntryOfAnEarlierBoot(t *testing.T) {
	s := newStore()
	one := start(t, s, nil)
	one.found(orgID(1))
	one.found(orgID(2))
	one.user(orgID(1), 1, "first")
	g := newGate(s)
	for i := 2; i < 4; i++ { // decided, sealed, seen by the host, never stored
		if _, err := one.step(orgID(1), &org.Entry{}, func(tx *org.Tx) error { return tx.PutUser(&org.User{ID: itemID(i), Name: "hidden"}) }); err != nil {
			t.Fatal(err)
		}
	}
	b := <-g.seen
	hidden := bytes.Clone(b.Entries[0].Sealed)
	one.l.Close()
	s.lie(hooks{})

	two := start(t, s, tiny)
	two.mustRead(orgID(1), 2, "")
	behind := func(change func(o *wire.Organization)) hooks {
		return hooks{org: func(q wire.LoadOrganization, got wire.Organization) (wire.Organization, error) {
			if q.Organization == wid(orgID(1)) {
				change(&got)
			}
			return got, nil
		}}
	}
	try := func(what string, a fault.Alarm, h hooks) {
		t.Helper()
		two.mustRead(orgID(2), 1, "")
		before := two.alarms.Counts()
		s.lie(h)
		_, err := two.read(orgID(1), 1)
		if err := two.breached(err, a, before); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		s.lie(hooks{})
		two.mustRead(orgID(1), 1, "first")
	}
	// It opens, and it joins the history: only the tip tells.
	try("behind the tip", fault.AlarmTip, behind(func(o *wire.Organization) { o.Count++; o.Entries = append(o.Entries, hidden) }))
	two.user(orgID(1), 2, "second")
	try("in the place of another", fault.AlarmTip, behind(func(o *wire.Organization) { o.Entries[2] = hidden }))
	two.user(orgID(1), 3, "third")
	try("under a later one", fault.AlarmSequence, behind(func(o *wire.Organization) { o.Entries[2] = hidden }))
	two.mustRead(orgID(1), 2, "second")
	// Nor in a boot that has seen nothing yet: entries of two histories never join.
	two.l.Close()
	three := start(t, s, nil)
	s.lie(behind(func(o *wire.Organization) { o.Entries[2] = hidden }))
	_, err := three.read(orgID(1), 1)
	if err := three.breached(err, fault.AlarmSequence, map[string]uint64{}); err != nil {
		t.Error(err)
	}
	s.lie(hooks{})
	three.mustRead(orgID(1), 3, "third")
}

// Deployments do not mix, though their storage key were the same.
func TestAnotherDeployment(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(1))
	r.l.Close()
	r = unstarted(t, s, func(c *ledger.Config) { c.Deployment[0] ^= 1 })
	if err := r.l.Take(ctx(t), nil); err == nil || r.alarms.Counts()["log"] != 1 {
		t.Fatal(err, r.alarms.Counts())
	}
}

// A withheld answer is no breach and takes nobody else's time.
func TestStoreThatDoesNotAnswer(t *testing.T) {
	s := newStore()
	r := start(t, s, tiny)
	r.found(orgID(1))
	r.found(orgID(2))
	s.lie(hooks{org: func(q wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
		if q.Organization == wid(orgID(1)) {
			return wire.Organization{}, context.DeadlineExceeded
		}
		return o, nil
	}})
	r.mustRead(orgID(2), 1, "")
	for range 3 {
		if _, err := r.read(orgID(1), 1); fault.Of(err) != ledger.ErrBusy {
			t.Fatal(err)
		}
	}
	s.lie(hooks{})
	r.mustRead(orgID(1), 1, "")
	r.quiet()
}

// FuzzLoad gives the bytes that open an organization; only the stored ones do.
func FuzzLoad(f *testing.F) {
	s := newStore()
	r := start(f, s, func(c *ledger.Config) { c.Limits.StateBytes, c.Limits.SnapshotEvery = 1, 4 })
	for o := range 2 {
		r.found(orgID(o))
		for i := range 5 {
			r.waitForCapacity(orgID(o))
			r.user(orgID(o), i, "x")
		}
		r.snapshots(uint64(o + 1))
	}
	good := s.image(wid(orgID(0)))
	f.Add(good.Snapshot, good.Entries[0], good.Keys[0].Sealed, uint64(0))
	f.Add([]byte{}, good.Entries[1], []byte{}, uint64(4))
	f.Add(good.Snapshot[:30], []byte{}, good.Keys[0].Sealed[:27], uint64(1<<63))
	f.Fuzz(func(t *testing.T, snapshot, entry, key []byte, count uint64) {
		r.t = t
		s.lie(hooks{})
		r.waitForCapacity(orgID(1))
		s.lie(hooks{org: func(q wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
			if q.Organization == wid(orgID(0)) {
				o.Snapshot, o.Entries[0], o.Keys[0].Sealed, o.Count = snapshot, entry, key, o.Count^count
			}
			return o, nil
		}})
		_, err := r.read(orgID(0), 1)
		same := bytes.Equal(snapshot, good.Snapshot) && bytes.Equal(entry, good.Entries[0]) && bytes.Equal(key, good.Keys[0].Sealed) && count == 0
		if (err == nil) != same {
			t.Fatalf("believed: %v, the stored bytes: %v; %v", err == nil, same, err)
		}
	})
}

func TestStoredFormOfAnEntry(t *testing.T) {
	// The stored form of an entry is key id, root before it, commitment to its parts, sealed record.
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(1))
	root := r.tip(orgID(1)).Root
	r.user(orgID(1), 1, "a name that must not stand readable")
	es := s.image(wid(orgID(1))).Entries
	if binary.BigEndian.Uint32(es[1]) != 1|1<<31 || wire.Hash(es[1][4:36]) != root {
		t.Fatalf("prefix %x", es[1][:36])
	}
	if bytes.Contains(es[1], []byte("must not stand")) {
		t.Fatal("it stands readable")
	}
}
