package hostile_test

import (
	"context"
	"math/rand/v2"
	"time"

	"cloister/shared/wire"
	"cloister/sim/hostile"
)

// owners are attacks with a second enclave on the same store, or with the claim
// that there is one. Each strike is another boot.
var owners = []attack{
	{name: "let a second enclave take the store", touches: "ownership", counter: "alarm_superseded", off: []string{"owner"}, strike: secondTakes},
	{name: "let two enclaves write", touches: "ownership", counter: "alarm_conflict", off: []string{"owner"}, strike: bothWrite},
	{name: "claim that another boot owns the store", touches: "answer to a renewal", counter: "alarm_superseded", off: []string{"owner"}, strike: disowned},
	{name: "answer a batch with superseded", touches: "verdict", counter: "alarm_superseded", off: []string{"owner"},
		strike: claimed(func(*wire.Batch) wire.Verdict { return wire.VerdictSuperseded })},
	{name: "answer a batch with a verdict that does not exist", touches: "verdict", counter: "alarm_conflict", off: []string{"owner"},
		strike: claimed(func(b *wire.Batch) wire.Verdict { return wire.Verdict(4 + b.Header[len(b.Header)-1]%200) })},
	{name: "answer a batch with conflict", touches: "verdict", counter: "alarm_conflict", off: []string{"owner"},
		strike: claimed(func(*wire.Batch) wire.Verdict { return wire.VerdictConflict })},
}

// deployments are attacks on what an enclave boots from.
var deployments = []attack{
	{name: "flip the keyring", touches: "object", counter: "alarm_key", off: []string{"tag"},
		strike: bootedWith(object("keyring/", func(o *wire.Object, x *spoiler) { o.Bytes = x.flip(o.Bytes, 0) }))},
	{name: "truncate the keyring", touches: "object", counter: "alarm_key", behind: "the decoder",
		strike: bootedWith(object("keyring/", func(o *wire.Object, x *spoiler) { o.Bytes = x.cut(o.Bytes) }))},
	{name: "swap deployments: the keyring", touches: "object", counter: "alarm_key", behind: "the log is of another deployment",
		strike: bootedWith(object("keyring/", func(o *wire.Object, x *spoiler) { o.Bytes = x.f.g.foreign.keyring }))},
	{name: "swap deployments: the genesis record", touches: "object", counter: "alarm_key", behind: "the log is of another deployment",
		strike: bootedWith(object("genesis", func(o *wire.Object, x *spoiler) { o.Bytes = x.f.g.foreign.genesis }))},
	{name: "a genesis record of another root secret", touches: "object", counter: "alarm_record", behind: "the root secret's key is compared",
		strike: bootedWith(object("genesis", func(o *wire.Object, x *spoiler) {
			b := append([]byte(nil), o.Bytes...)
			b[len(b)-genesisTail-1-x.IntN(130)] ^= 1 << x.IntN(8) // within the root secret's public key
			o.Bytes = b
		}))},
	{name: "let another boot have the store", touches: "answer to a taking", counter: "alarm_superseded", behind: "it would be fenced at once",
		strike: bootedWith(func(*field, *victim, *rand.Rand) hostile.Lie {
			return func(q, a any) bool {
				o, ok := q.(wire.Own)
				if !ok || o.Action != wire.OwnTake {
					return false
				}
				row := a.(*wire.Owned)
				row.OK, row.Epoch = o.Expect%2 == 0, row.Epoch+o.Expect%2+1
				return true
			}
		})},
}

// genesisTail is what follows the public key in a genesis record: 32 random
// bytes with their CBOR head and key, and the number of ranges with its key.
const genesisTail = 32 + 2 + 1 + 2

// secondTakes boots a second enclave on the honest store. The first one answers
// nothing more.
func secondTakes(f *field, v *victim, r *rand.Rand) outcome {
	f.good(v)
	return f.usurped(v, r, func(*field) {})
}

// bothWrite tells the first enclave that it still owns the store and compares
// nothing but places, as a store without owners would.
func bothWrite(f *field, v *victim, r *rand.Rand) outcome {
	f.good(v)
	return f.usurped(v, r, func(f *field) {
		f.store.Do(func(ctx context.Context, q any) (any, error, bool) {
			switch q := q.(type) {
			case wire.Own:
				return wire.Owned{OK: true, Epoch: q.Expect, Boot: q.Boot}, nil, true
			case *wire.Batch:
				e := q.Entries[0]
				o, err := f.honest.LoadOrganization(ctx, wire.LoadOrganization{Organization: e.Organization, MaxBytes: 1})
				if err != nil || o.Count <= e.Seq {
					return nil, errWithheld, true
				}
				return wire.Stored{Number: q.Number, Verdict: wire.VerdictConflict}, nil, true
			}
			return nil, nil, false
		})
	})
}

// usurped lets a second enclave take the store and write, and then asks the
// first one to. The second one stays.
func (f *field) usurped(v *victim, r *rand.Rand, first func(*field)) outcome {
	first(f)
	old := *f // the first enclave and its host
	before := old.alarms()
	f.boot(f.limits, 0)
	f.rename(v, "Name second")
	count := f.head(v)
	c, _ := v.naming(r)
	c.WithinMs = 0
	a := old.send(c)
	out := judged(a.Status == 503 && f.head(v) == count, a.Status == 200 && f.head(v) == count, "%.200s", a)
	if out.refused {
		// A fenced enclave answers no query either.
		old.counted(before)
		if b := old.send(briefly(v.fine())); b.Status == 200 {
			out = judged(false, false, "a fenced enclave answered")
		}
	}
	out.before, out.after = before, old.alarms()
	old.rig.Kill()
	old.proxy.Close()
	return out
}

// counted waits until the enclave has noticed that it lost the store.
func (f *field) counted(before map[string]uint64) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		now := f.alarms()
		if now["alarm_superseded"] > before["alarm_superseded"] || now["alarm_conflict"] > before["alarm_conflict"] {
			return
		}
	}
}

// disowned answers renewals of the lease with another owner.
func disowned(f *field, v *victim, r *rand.Rand) outcome {
	f.good(v)
	before := f.alarms()
	lies := make(chan struct{}, 1000)
	f.store.Do(func(_ context.Context, q any) (any, error, bool) {
		o, ok := q.(wire.Own)
		if !ok || o.Action != wire.OwnRenew {
			return nil, nil, false
		}
		lies <- struct{}{}
		return wire.Owned{OK: r.IntN(2) == 0, Epoch: o.Expect + 1 + r.Uint64N(9), Boot: wire.ID{1}}, nil, true
	})
	<-lies
	if !insecureBuild {
		f.counted(before)
	}
	a := f.send(briefly(v.fine()))
	out := judged(a.Status == 503, a.Status == 200 && len(lies) < cap(lies), "%.200s", a)
	return f.succeeded(out, before)
}

// claimed answers a batch with a verdict by which the store is lost.
func claimed(verdict func(*wire.Batch) wire.Verdict) func(*field, *victim, *rand.Rand) outcome {
	return func(f *field, v *victim, r *rand.Rand) outcome {
		f.good(v)
		before := f.alarms()
		count := f.head(v)
		f.store.Do(func(_ context.Context, q any) (any, error, bool) {
			b, ok := q.(*wire.Batch)
			if !ok {
				return nil, nil, false
			}
			return wire.Stored{Number: b.Number, Verdict: verdict(b)}, nil, true
		})
		c, _ := v.naming(r)
		c.WithinMs = 0
		a := f.send(c)
		out := judged(a.Status == 503 && f.head(v) == count, a.Status == 200 && f.head(v) == count, "%.200s", a)
		if !insecureBuild {
			f.counted(before)
		}
		return f.succeeded(out, before)
	}
}

// succeeded ends a fenced enclave and boots the next one.
func (f *field) succeeded(out outcome, before map[string]uint64) outcome {
	out.before, out.after = before, f.alarms()
	f.rig.Kill()
	f.proxy.Close()
	f.boot(f.limits, 0)
	return out
}

// bootedWith boots an enclave while a lie is told. It does not serve; the next
// one, told the truth, does.
func bootedWith(forge forger) func(*field, *victim, *rand.Rand) outcome {
	return func(f *field, v *victim, r *rand.Rand) outcome {
		f.rig.Stop()
		f.proxy.Close()
		lie := forge(f, v, r)
		bad, s, p, err := f.try(f.limits, 0, func(s *hostile.Store) { s.Arm(lie) })
		out := outcome{refused: err != nil && s.CountChanged() > 0, believed: err == nil && s.CountChanged() > 0, note: "booted"}
		if err != nil {
			out.note = err.Error()
		}
		out.before, out.after = map[string]uint64{}, bad.Counters()
		bad.Kill()
		p.Close()
		if !out.believed {
			f.boot(f.limits, 0)
		}
		return out
	}
}
