package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"

	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/hostile"
)

// histories are attacks on old entries, which the enclave asks for one by one or
// in pages.
var histories = []attack{
	{name: "flip an old entry", touches: "proven entry", counter: "alarm_inclusion", off: []string{"inclusion", "tag"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { e := x.pick(p); e.Sealed = x.flip(e.Sealed, entryHead) }), past)},
	{name: "truncate an old entry", touches: "proven entry", counter: "alarm_inclusion", behind: "the tag and the strict decoder",
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { e := x.pick(p); e.Sealed = x.cut(e.Sealed) }), past)},
	{name: "flip a proof", touches: "inclusion proof", counter: "alarm_inclusion", off: []string{"inclusion"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			e := x.pick(p)
			e.Proof = slices.Clone(e.Proof)
			e.Proof[x.IntN(len(e.Proof))][x.IntN(32)] ^= 1 << x.IntN(8)
		}), past)},
	{name: "truncate a proof", touches: "inclusion proof", counter: "alarm_inclusion", off: []string{"inclusion"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { e := x.pick(p); e.Proof = e.Proof[:x.IntN(len(e.Proof))] }), past)},
	{name: "lengthen a proof", touches: "inclusion proof", counter: "alarm_inclusion", off: []string{"inclusion"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			e := x.pick(p)
			for range 1 + x.IntN(50) {
				e.Proof = append(e.Proof, e.Proof[0])
			}
		}), past)},
	{name: "reorder a proof", touches: "inclusion proof", counter: "alarm_inclusion", off: []string{"inclusion"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			e := x.pick(p)
			e.Proof = slices.Clone(e.Proof)
			i := x.IntN(len(e.Proof) - 1)
			e.Proof[i], e.Proof[i+1] = e.Proof[i+1], e.Proof[i]
		}), past)},
	{name: "give an old entry another place", touches: "seq of a proven entry", counter: "alarm_inclusion", off: []string{"inclusion", "name"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { e := x.pick(p); e.Seq = (e.Seq + 1 + x.Uint64N(7)) % 8 }), past)},
	{name: "give an old entry a place outside of the tree", touches: "seq of a proven entry", counter: "alarm_inclusion", behind: "its name says another place",
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { x.pick(p).Seq = 12 + x.Uint64() }), past)},
	{name: "another organization's old entry", touches: "proven entry", counter: "alarm_inclusion", behind: "each organization has its own data key",
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { *x.pick(p) = x.find(x.w, 3) }), past)},
	{name: "an entry of an older tree", touches: "inclusion proof", counter: "alarm_inclusion", off: []string{"inclusion"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			e := x.pick(p)
			*e = must(x.f.before.Find(context.Background(), wire.Find{Organization: x.v.wid, TreeSize: e.Seq + 1, Seqs: []uint64{e.Seq}})).Entries[0]
			e.Proof = append(e.Proof, wire.Hash{})
		}), first)},
	{name: "present a hidden entry of an earlier boot", touches: "proven entry", counter: "alarm_inclusion", off: []string{"inclusion"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			e := x.find(x.v, 11)
			e.Sealed = x.v.hidden
			p.Entries = []wire.ProvenEntry{e}
		}), hiddenActivity)},
	{name: "answer with another activity", touches: "answer to a search", counter: "alarm_index", off: []string{"answer"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			seq := p.Entries[0].Seq
			*x.pick(p) = x.find(x.v, 1+(seq+x.Uint64N(9))%10)
		}), past)},
	{name: "answer with two activities", touches: "answer to a search", counter: "alarm_index", behind: "one was asked for",
		strike: lied(proven(func(p *wire.Proven, _ *spoiler) { p.Entries = append(p.Entries, p.Entries[0]) }), past)},
	{name: "withhold the answer to a known body", touches: "answer to a search", counter: "alarm_index", behind: "there is nothing to believe",
		strike: lied(proven(func(p *wire.Proven, _ *spoiler) { p.Entries = nil }), again)},
	{name: "answer a known body with another entry", touches: "answer to a search", counter: "alarm_index", behind: "the whole fingerprint is compared",
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { *x.pick(p) = x.find(x.v, 1+x.Uint64N(9)) }), again)},
	{name: "reorder a page", touches: "page", counter: "alarm_index", off: []string{"answer"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			i := x.IntN(len(p.Entries) - 1)
			p.Entries[i], p.Entries[i+1] = p.Entries[i+1], p.Entries[i]
		}), listed)},
	{name: "duplicate in a page", touches: "page", counter: "alarm_index", off: []string{"answer"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			i := x.IntN(len(p.Entries) - 1)
			p.Entries[i+1] = p.Entries[i]
		}), listed)},
	{name: "more in a page than asked for", touches: "page", counter: "alarm_index", off: []string{"answer"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			for seq := p.Entries[len(p.Entries)-1].Seq; seq > 1; seq-- {
				p.Entries = append(p.Entries, x.find(x.v, seq-1))
			}
		}), listed)},
	{name: "another type in a page", touches: "page", counter: "alarm_index", off: []string{"answer"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { p.Entries[0] = x.find(x.v, 8+x.Uint64N(3)) }), renamings)},
	{name: "what is no activity in a page", touches: "page", counter: "alarm_index", off: []string{"answer"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { p.Entries[len(p.Entries)-1] = x.find(x.v, 0) }), listed)},
	{name: "flip an entry in a page", touches: "page", counter: "alarm_inclusion", off: []string{"inclusion", "tag"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { e := x.pick(p); e.Sealed = x.flip(e.Sealed, entryHead) }), listed)},
	{name: "a hidden entry of an earlier boot in a page", touches: "page", counter: "alarm_inclusion", off: []string{"inclusion"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { p.Entries[0].Sealed = x.v.hidden }), hiddenListed)},
	{name: "roll back a page", touches: "page", counter: "alarm_inclusion", off: []string{"inclusion"},
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			*p = must(x.f.before.Page(context.Background(), wire.Page{Organization: x.v.wid, TreeSize: 8, Limit: 5}))
		}), listed)},
	{name: "a cursor that nobody gave is unknown", touches: "page", counter: "alarm_index", behind: "there is nothing to believe",
		strike: lied(proven(func(p *wire.Proven, _ *spoiler) { *p = wire.Proven{Unknown: true} }), listed)},
	{name: "another boot's proof than asked for", touches: "object", counter: "alarm_index", off: []string{"answer"}, prepare: anotherBoot,
		strike: lied(object("bootproof/", func(o *wire.Object, x *spoiler) {
			var p map[string]any
			if err := json.Unmarshal(o.Bytes, &p); err != nil {
				panic(err)
			}
			for k, s := range p {
				if t, ok := s.(string); ok && len(t) == 260 { // the boot's key, in hex
					p[k] = string(t[1+x.IntN(2)]) + t[1:]
					if p[k] == t {
						p[k] = "f" + t[1:]
					}
				}
			}
			o.Bytes = must(json.Marshal(p))
		}), bootProof)},
}

// proven lies about old entries.
func proven(change func(*wire.Proven, *spoiler)) forger {
	return func(f *field, v *victim, r *rand.Rand) hostile.Lie {
		x := newSpoiler(f, v, r)
		return func(q, a any) bool {
			p, ok := a.(*wire.Proven)
			if !ok || about(q) != v.wid {
				return false
			}
			p.Entries = slices.Clone(p.Entries)
			change(p, x)
			return true
		}
	}
}

// about is the organization that a search is about.
func about(q any) wire.ID {
	switch q := q.(type) {
	case wire.Find:
		return q.Organization
	case wire.Page:
		return q.Organization
	}
	return wire.ID{}
}

func (x *spoiler) pick(p *wire.Proven) *wire.ProvenEntry { return &p.Entries[x.IntN(len(p.Entries))] }

// find is the true entry at seq, with a true proof under the newest tree.
func (x *spoiler) find(v *victim, seq uint64) wire.ProvenEntry {
	got := must(x.f.store.Store.Find(context.Background(), wire.Find{Organization: v.wid, TreeSize: x.f.head(v), Seqs: []uint64{seq}}))
	e := got.Entries[0]
	e.Sealed = bytes.Clone(e.Sealed)
	return e
}

// object lies about a small object whose name begins with prefix.
func object(prefix string, change func(*wire.Object, *spoiler)) forger {
	return func(f *field, v *victim, r *rand.Rand) hostile.Lie {
		x := newSpoiler(f, v, r)
		return func(q, a any) bool {
			o, ok := q.(wire.LoadObject)
			if !ok || len(o.Name) < len(prefix) || o.Name[:len(prefix)] != prefix {
				return false
			}
			change(a.(*wire.Object), x)
			return true
		}
	}
}

// first asks for an entry that the older store holds too.
func first(f *field, v *victim, r *rand.Rand) func() answer {
	id := v.activities[r.IntN(7)]
	return func() answer { return f.query(v, "get_activity", client.Object{"activityId": id}) }
}

// again sends a known body once more.
func again(f *field, v *victim, _ *rand.Rand) func() answer {
	op := "create_wallet"
	if len(v.activities) > 10 {
		op = "update_user_name"
	}
	return func() answer { return f.send(call(v.Request(wire.EndpointSubmit, op, v.body))) }
}

// hiddenActivity asks for the activity that an earlier boot made and the host
// has hidden.
func hiddenActivity(f *field, v *victim, r *rand.Rand) func() answer {
	hidden(f, v, r)
	return func() answer { return f.query(v, "get_activity", client.Object{"activityId": v.hiddenActivity}) }
}

func hiddenListed(f *field, v *victim, r *rand.Rand) func() answer {
	hidden(f, v, r)
	return listed(f, v, r)
}

// bootProof asks for the proof of an earlier boot.
func bootProof(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer { return f.query(v, "get_boot_proof", client.Object{"ephemeralKey": f.earlierKey}) }
}

// anotherBoot makes this boot an earlier one.
func anotherBoot(f *field) {
	v := f.victims[0]
	a := f.served(func() answer { return f.query(v, "get_latest_boot_proof", client.Object{"appName": "cloister"}) })
	f.earlierKey = a.Text("bootProof", "ephemeralPublicKeyHex")
	f.rig.Stop()
	f.proxy.Close()
	f.boot(f.limits, 0)
}
