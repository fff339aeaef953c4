package hostile_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"

	"cloister/shared/wire"
	"cloister/sim/hostile"
)

// loads are attacks on what the enclave loads to open an organization.
var loads = []attack{
	{name: "flip a data key", touches: "wrapped key", counter: "alarm_key", off: []string{"tag"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { o.Keys[0].Sealed = x.flip(o.Keys[0].Sealed, 0) }), who)},
	{name: "truncate a data key", touches: "wrapped key", counter: "alarm_key", behind: "a key has one size",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { o.Keys[0].Sealed = x.cut(o.Keys[0].Sealed) }), who)},
	{name: "another organization's data key", touches: "wrapped key", counter: "alarm_key", behind: "the entries do not open under it",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { o.Keys[0].Sealed = x.held(x.w).Keys[0].Sealed }), who)},
	{name: "withhold the data key", touches: "wrapped key", counter: "alarm_key", behind: "nothing opens without it",
		strike: lied(organization(func(o *wire.Organization, _ *spoiler) { o.Keys = nil }), who)},
	{name: "flip an entry", touches: "sealed entry", counter: "alarm_open", off: []string{"tag", "tip"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			x.last(o, func(b []byte) []byte { return x.flip(b, entryHead) })
		}), who)},
	{name: "truncate an entry", touches: "sealed entry", counter: "alarm_open", behind: "the strict decoder",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			x.last(o, func(b []byte) []byte { return b[:len(b)-1-x.IntN(16)] })
		}), who)},
	{name: "rewrite an entry's root", touches: "root beside the entry", counter: "alarm_sequence", off: []string{"root", "name", "tip"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			x.last(o, func(b []byte) []byte { b = bytes.Clone(b); b[4+x.IntN(32)] ^= 1 << x.IntN(8); return b })
		}), who)},
	{name: "rewrite an entry's key id", touches: "key id beside the entry", counter: "alarm_key", behind: "there is no such key",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			x.last(o, func(b []byte) []byte { b = bytes.Clone(b); b[1+x.IntN(3)] ^= 1 << (1 + x.IntN(7)); return b })
		}), who)},
	{name: "reorder entries", touches: "entries behind the snapshot", counter: "alarm_sequence", off: []string{"root", "name", "tip"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			es, i := slices.Clone(o.Entries), x.IntN(len(o.Entries)-1)
			es[i], es[i+1] = es[i+1], es[i]
			o.Entries = es
		}), who)},
	{name: "omit an entry", touches: "entries behind the snapshot", counter: "alarm_sequence", off: []string{"root", "name", "tip"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			i := x.IntN(len(o.Entries) - 1)
			o.Entries = slices.Delete(slices.Clone(o.Entries), i, i+1)
			o.Count--
		}), who)},
	{name: "duplicate an entry", touches: "entries behind the snapshot", counter: "alarm_sequence", off: []string{"root", "name", "tip"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			i := x.IntN(len(o.Entries))
			o.Entries = slices.Insert(slices.Clone(o.Entries), i, o.Entries[i])
			o.Count++
		}), who)},
	{name: "announce more entries", touches: "count of entries", counter: "alarm_sequence", behind: "there is nothing to believe",
		strike: lied(organization(func(o *wire.Organization, _ *spoiler) { o.Count++ }), who)},
	{name: "announce fewer entries", touches: "count of entries", counter: "alarm_sequence", behind: "what is sent must be what was announced",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { o.Count -= 1 + x.Uint64N(2); x.whole() }), who)},
	{name: "withhold the newest entries", touches: "end of the ledger", counter: "alarm_tip", off: []string{"tip"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			n := 1 + x.IntN(len(o.Entries)-1)
			o.Entries, o.Count = o.Entries[:len(o.Entries)-n], o.Count-uint64(n)
		}), who)},
	{name: "roll back one organization", touches: "all of an organization", counter: "alarm_tip", off: []string{"tip"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			*o = x.v.old
			if x.IntN(2) == 0 {
				*o = x.v.early
			}
		}), who)},
	{name: "roll back the whole store", touches: "every organization", counter: "alarm_tip", off: []string{"tip"}, strike: rollBackAll},
	{name: "withhold an organization", touches: "all of an organization", counter: "alarm_tip", off: []string{"tip"}, strike: withhold},
	{name: "swap organizations", touches: "all of an organization", counter: "alarm_key", off: []string{"name", "target", "tip"}, closed: true, strike: swapOrganizations},
	{name: "swap deployments", touches: "all of an organization", counter: "alarm_key", behind: "another deployment has another storage key",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			*o = x.f.g.foreign.organization
			o.Keys = slices.Clone(o.Keys)
			o.Keys[0].Organization = x.v.wid
		}), who)},
	{name: "swap types: a piece as the snapshot", touches: "snapshot", counter: "alarm_open", behind: "the strict decoder",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { ps := x.v.puts[1].Pieces; o.Snapshot = ps[x.IntN(len(ps))] }), who)},
	{name: "swap types: a snapshot as an entry", touches: "sealed entry", counter: "alarm_open", behind: "the strict decoder",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			es := slices.Clone(o.Entries)
			es[0] = slices.Concat(es[0][:entryHead], x.v.puts[x.IntN(2)].Snapshot[4:])
			o.Entries = es
		}), who)},
	{name: "flip a snapshot", touches: "snapshot", counter: "alarm_open", off: []string{"tag"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { o.Snapshot = x.flip(o.Snapshot, 4) }), who)},
	{name: "truncate a snapshot", touches: "snapshot", counter: "alarm_open", behind: "the strict decoder",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { o.Snapshot = o.Snapshot[:len(o.Snapshot)-1-x.IntN(40)] }), who)},
	{name: "another organization's snapshot", touches: "snapshot", counter: "alarm_open", behind: "each organization has its own data key",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { o.Snapshot = x.w.puts[1].Snapshot }), who)},
	{name: "withhold the snapshot", touches: "snapshot", counter: "alarm_sequence", behind: "there is nothing to believe",
		strike: lied(organization(func(o *wire.Organization, _ *spoiler) { o.Snapshot = nil }), who)},
	{name: "plant an old snapshot as a newer one", touches: "snapshot", counter: "alarm_open", behind: "the snapshot itself says what it covers",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { o.Snapshot = x.v.puts[0].Snapshot }), who)},
	{name: "plant an old snapshot under the newest entries", touches: "snapshot", counter: "alarm_sequence", off: []string{"root", "name", "tip"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			o.Snapshot, o.From = x.v.puts[0].Snapshot, 4
			o.Count = 4 + uint64(len(o.Entries))
		}), who)},
	{name: "replay a hidden entry as the newest", touches: "end of the ledger", counter: "alarm_tip", off: []string{"tip"},
		strike: lied(organization(func(o *wire.Organization, x *spoiler) { x.last(o, func([]byte) []byte { return x.v.hidden }) }), hidden)},
	{name: "replay a hidden entry behind the newest", touches: "end of the ledger", counter: "alarm_sequence", behind: "the tip, under which it never stood",
		strike: lied(organization(func(o *wire.Organization, x *spoiler) {
			o.Entries = append(slices.Clone(o.Entries), x.v.hidden)
			o.Count++
		}), hidden)},
	{name: "flip a piece", touches: "piece or chunk", counter: "alarm_snapshot", off: []string{"piece", "tag"},
		strike: lied(piece(anyCall, func(p []byte, x *spoiler) []byte { return x.flip(p, 4) }), who)},
	{name: "flip a piece that is loaded when needed", touches: "piece", counter: "alarm_snapshot", off: []string{"piece", "tag"},
		strike: lied(piece(0, func(p []byte, x *spoiler) []byte { return x.flip(p, 4) }), accounts)},
	{name: "truncate a piece", touches: "piece or chunk", counter: "alarm_snapshot", behind: "the strict decoder",
		strike: lied(piece(anyCall, func(p []byte, x *spoiler) []byte { return x.cut(p) }), who)},
	{name: "withhold a piece", touches: "piece or chunk", counter: "alarm_snapshot", behind: "there is nothing to believe",
		strike: lied(piece(anyCall, func([]byte, *spoiler) []byte { return []byte{} }), who)},
	{name: "withhold a piece that is loaded when needed", touches: "piece", counter: "alarm_snapshot", behind: "there is nothing to believe",
		strike: lied(piece(0, func([]byte, *spoiler) []byte { return []byte{} }), accounts)},
	{name: "plant an old piece", touches: "piece", counter: "alarm_snapshot", off: []string{"piece"},
		strike: lied(piece(0, func(_ []byte, x *spoiler) []byte { return x.v.puts[0].Pieces[0] }), who)},
	{name: "plant an old chunk of fingerprints", touches: "chunk", counter: "alarm_snapshot", behind: "the snapshot says how many there are",
		strike: lied(piece(1, func(_ []byte, x *spoiler) []byte { return x.v.puts[0].Pieces[2] }), who)},
	{name: "another organization's piece", touches: "piece or chunk", counter: "alarm_snapshot", behind: "each organization has its own data key",
		strike: lied(piece(anyCall, func(_ []byte, x *spoiler) []byte { return x.w.puts[1].Pieces[x.call] }), who)},
	{name: "swap types: a chunk as a piece", touches: "piece", counter: "alarm_snapshot", behind: "the strict decoder",
		strike: lied(piece(0, func(_ []byte, x *spoiler) []byte { return x.v.puts[1].Pieces[1] }), who)},
	{name: "answer with fewer pieces", touches: "list of pieces", counter: "alarm_snapshot", behind: "there is nothing to believe",
		strike: lied(pieces(anyCall, func(ps [][]byte, _ *spoiler) [][]byte { return ps[:len(ps)-1] }), who)},
	{name: "answer with a piece twice", touches: "list of pieces", counter: "alarm_snapshot", behind: "there are as many as were asked for",
		strike: lied(pieces(anyCall, func(ps [][]byte, _ *spoiler) [][]byte { return append(ps, ps[0]) }), who)},
}

// entryHead is what stands before a stored entry's sealed bytes: key id and root.
const entryHead = 4 + 32

// A spoiler is a lie in the making: the victim v, another organization w.
type spoiler struct {
	*rand.Rand
	f      *field
	v, w   *victim
	call   int  // which of the calls for pieces this is
	atOnce bool // all entries in the first answer
}

func newSpoiler(f *field, v *victim, r *rand.Rand) *spoiler {
	return &spoiler{Rand: rand.New(rand.NewPCG(r.Uint64(), r.Uint64())), f: f, v: v, w: f.other(v, r)}
}

// flip changes one bit of the nonce, the text or the tag of a sealed record that
// begins at from, each as likely as the others.
func (x *spoiler) flip(b []byte, from int) []byte {
	b = bytes.Clone(b)
	s := b[from:]
	parts := [][]byte{s[:12], s[12 : len(s)-16], s[len(s)-16:]}
	p := parts[x.IntN(3)]
	p[x.IntN(len(p))] ^= 1 << x.IntN(8)
	return b
}

// cut shortens b by at least one byte.
func (x *spoiler) cut(b []byte) []byte { return b[:x.IntN(len(b))] }

// whole makes the answer come at once, not in parts.
func (x *spoiler) whole() { x.atOnce = true }

// held is what the honest store holds of an organization.
func (x *spoiler) held(v *victim) wire.Organization {
	return must(x.f.store.Store.LoadOrganization(context.Background(), wire.LoadOrganization{Organization: v.wid, MaxBytes: 1 << 20}))
}

// last changes the newest entry.
func (x *spoiler) last(o *wire.Organization, change func([]byte) []byte) {
	es := slices.Clone(o.Entries)
	es[len(es)-1] = change(es[len(es)-1])
	o.Entries = es
}

// organization lies about an organization. Half of the time it hands out the
// entries in parts.
func organization(change func(*wire.Organization, *spoiler)) forger {
	return func(f *field, v *victim, r *rand.Rand) hostile.Lie {
		x := newSpoiler(f, v, r)
		parts := x.IntN(2) == 0
		var spoiled wire.Organization
		return func(q, a any) bool {
			switch q := q.(type) {
			case wire.LoadOrganization:
				if q.Organization != v.wid {
					return false
				}
				o := a.(*wire.Organization)
				change(o, x)
				spoiled = *o
				if parts && !x.atOnce && len(o.Entries) > 1 {
					o.Entries = o.Entries[:1+x.IntN(len(o.Entries)-1)]
				}
				return true
			case wire.LoadEntries:
				if q.Organization != v.wid {
					return false
				}
				at := min(q.From-spoiled.From, uint64(len(spoiled.Entries)))
				a.(*wire.Entries).Entries = spoiled.Entries[at:]
				return true
			}
			return false
		}
	}
}

// anyCall means the pieces of records or those of fingerprints. Opening an
// organization asks for them in this order.
const anyCall = -1

// pieces lies about the pieces asked for by one call since the lie was armed.
func pieces(call int, change func([][]byte, *spoiler) [][]byte) forger {
	return func(f *field, v *victim, r *rand.Rand) hostile.Lie {
		x := newSpoiler(f, v, r)
		x.call = call
		if call == anyCall {
			x.call = x.IntN(2)
		}
		n := 0
		return func(q, a any) bool {
			switch q := q.(type) {
			case wire.LoadOrganization:
				if q.Organization == v.wid {
					n = 0
				}
			case wire.LoadPieces:
				if q.Organization == v.wid {
					n++
					if n-1 == x.call {
						p := a.(*wire.Pieces)
						p.Pieces = change(p.Pieces, x)
						return true
					}
				}
			}
			return false
		}
	}
}

// piece lies about one piece.
func piece(call int, change func([]byte, *spoiler) []byte) forger {
	return pieces(call, func(ps [][]byte, x *spoiler) [][]byte {
		ps = slices.Clone(ps)
		i := x.IntN(len(ps))
		ps[i] = change(ps[i], x)
		return ps
	})
}

// rollBackAll serves everything from the store as it stood at entry 8.
func rollBackAll(f *field, v *victim, r *rand.Rand) outcome {
	f.good(v)
	lie := func(q, a any) bool {
		ctx := context.Background()
		switch q := q.(type) {
		case wire.LoadOrganization:
			*a.(*wire.Organization) = must(f.before.LoadOrganization(ctx, q))
		case wire.LoadEntries:
			*a.(*wire.Entries) = must(f.before.LoadEntries(ctx, q))
		case wire.LoadPieces:
			*a.(*wire.Pieces) = must(f.before.LoadPieces(ctx, q))
		default:
			return false
		}
		return true
	}
	f.arm(r, lie)
	f.good(v) // open: nothing is loaded
	w := f.other(v, r)
	a := f.whoami(w)
	for end := 0; f.told() == 0 && end < 1000; end++ { // the enclave was busy
		a = f.whoami(w)
	}
	f.disarm()
	f.good(w)
	return judged(a.refused(), a.Status == 200, "%.200s", a)
}

// withhold claims that there is no such organization.
func withhold(f *field, v *victim, r *rand.Rand) outcome {
	f.good(v)
	f.arm(r, organization(func(o *wire.Organization, _ *spoiler) { *o = wire.Organization{} })(f, v, r))
	a := f.provoke(v, func() answer { return f.whoami(v) })
	f.good(f.twin(v))
	f.disarm()
	return judged(a.refused(), a.Status == 404, "%.200s", a)
}

// swapOrganizations serves organization w where v is asked for. Whoever owns w
// would then decide for v.
func swapOrganizations(f *field, v *victim, r *rand.Rand) outcome {
	w := f.other(v, r)
	f.arm(r, func(q, a any) bool {
		ctx := context.Background()
		switch q := q.(type) {
		case wire.LoadOrganization:
			if q.Organization != v.wid {
				return false
			}
			o := a.(*wire.Organization)
			q.Organization = w.wid
			*o = must(f.store.Store.LoadOrganization(ctx, q))
			o.Keys[0].Organization = v.wid
		case wire.LoadPieces:
			if q.Organization != v.wid {
				return false
			}
			q.Organization = w.wid
			*a.(*wire.Pieces) = must(f.store.Store.LoadPieces(ctx, q))
		default:
			return false
		}
		return true
	})
	a := f.provoke(v, func() answer { return f.queryBy(v.by(w.Key), "whoami", nil) })
	third := f.twin(v)
	f.good(third)
	f.disarm()
	return judged(a.refused(), a.Status == 200, "%.200s", a)
}

// hidden asks for an organization to which this boot has added an entry of its
// own, at the place where an earlier boot had put the hidden one.
func hidden(f *field, v *victim, _ *rand.Rand) func() answer {
	if f.head(v) == 11 {
		f.rename(v, "Name 011")
	}
	return func() answer { return f.whoami(v) }
}

// head is how many entries the honest store holds.
func (f *field) head(v *victim) uint64 {
	return must(f.store.Store.LoadOrganization(context.Background(), wire.LoadOrganization{Organization: v.wid, MaxBytes: 1})).Count
}
