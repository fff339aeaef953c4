package logmodel_test

import (
	"errors"
	"slices"
	"testing"

	"cloister/sim/logmodel"
)

// right is W of the runs here, in ticks.
const right = 4

// asked is an answer that is given at once.
func asked(tick int, act logmodel.Act, boot, leaf int8) []logmodel.Event {
	return []logmodel.Event{{tick, act, boot, leaf, 0, 0}, {tick, logmodel.Told, 0, 0, 0, 0}}
}

// begins has a boot start on a leaf, with a quorum of two witnesses. Liars need not be named.
func begins(tick int, boot, on, leaf int8, by ...int8) []logmodel.Event {
	return cosigned([]logmodel.Event{{tick, logmodel.Start, boot, leaf, on, 0}}, by)
}

// serves has a boot decide, witnesses sign, and the boot answer.
func serves(tick int, boot, leaf int8, by ...int8) []logmodel.Event {
	return append(cosigned([]logmodel.Event{{tick, logmodel.Decide, boot, leaf, 0, 0}}, by), asked(tick, logmodel.AskSubmit, boot, leaf)...)
}

func cosigned(made []logmodel.Event, by []int8) []logmodel.Event {
	e := made[0]
	for _, w := range by {
		made = append(made, logmodel.Event{e.Tick, logmodel.Sign, 0, e.Leaf, w, 0})
	}
	return append(made, logmodel.Event{e.Tick, logmodel.Bring, e.Boot, e.Leaf, 0, 0})
}

// run has boot 0 start with leaf 0 and serve from tick 4 on, which it tells of leaf 1.
func run(more ...[]logmodel.Event) []logmodel.Event {
	return slices.Concat(begins(0, 0, -1, 0, 0, 1), serves(4, 0, 1, 0, 1), slices.Concat(more...))
}

// under has a boot start under a manifest, and witnesses sign its leaf.
func under(manifest int8, tick int, boot, on, leaf int8, by ...int8) []logmodel.Event {
	made := cosigned([]logmodel.Event{{tick, logmodel.Start, boot, leaf, on, manifest}}, by)
	return made[:len(made)-1] // what closes a generation is brought to nobody
}

// moves has boot 1 start under manifest 1, which names witnesses 3 to 5, and close generation 1 by leaf 2.
func moves(by ...int8) []logmodel.Event { return under(1, 5, 1, 1, 2, by...) }

// adopts has boot 1 go on as generation 2.
func adopts(by ...int8) []logmodel.Event {
	return cosigned([]logmodel.Event{{5, logmodel.Adopt, 1, 3, 0, 0}}, by)
}

// approves has operators say that manifest 1 recovers the log that ends with a leaf.
func approves(leaf int8) []logmodel.Event {
	return []logmodel.Event{{5, logmodel.Approve, 0, leaf, 0, 1}}
}

// recovered has boot 1 recover the log that ended with leaf 0, by leaf 2.
func recovered(by ...int8) []logmodel.Event {
	return append(append(approves(0), under(1, 5, 1, 0, 2, by...)...), logmodel.Event{5, logmodel.Bring, 1, 2, 0, 0})
}

func TestFollow(t *testing.T) {
	one := func(tick int, act logmodel.Act, boot, leaf, other int8) []logmodel.Event {
		return []logmodel.Event{{tick, act, boot, leaf, other, 0}}
	}
	size := logmodel.Size{Boots: 3, Leaves: 6, Witnesses: 3, Needed: 2, Right: right}
	lying, forgetful := size, size
	lying.Liars, forgetful.Amnesias = 1, 1
	moving, recovering := size, size
	moving.Manifests = only(logmodel.Manifest{Terms: 1, Witness: 3}, logmodel.Manifest{Terms: 2, Witness: 6})
	recovering.Manifests = then(only(logmodel.Manifest{Recovers: true}), logmodel.Manifest{})
	honest := size
	honest.Honest = true
	unordered := honest
	unordered.Without = logmodel.StoredFirst
	stored := func(tick int, leaf int8) []logmodel.Event { return one(tick, logmodel.Store, 0, leaf, 0) }
	begun, decided, signed := begins(0, 0, -1, 0, 0, 1), one(4, logmodel.Decide, 0, 1, 0), one(4, logmodel.Sign, 0, 1, 0)
	const noStep = "there is no such step"
	for _, row := range []struct {
		name   string
		size   logmodel.Size
		run    []logmodel.Event
		refuse string // what is said of it; empty: nothing
	}{
		{"nothing", size, nil, ""},
		{"as it should be", size, run(asked(6, logmodel.AskQuery, 0, 1)), ""},
		{"before its turn, by a tick", size, append(begins(0, 0, -1, 0, 0, 1), serves(3, 0, 1, 0, 1)...), ""},
		{"before its turn", size, append(begins(0, 0, -1, 0, 0, 1), serves(1, 0, 1, 0, 1)...), noStep},
		{"asked before its turn", size, slices.Concat(begins(0, 0, -1, 0, 0, 1), cosigned(one(1, logmodel.Decide, 0, 1, 0), []int8{0, 1}),
			one(1, logmodel.AskSubmit, 0, 1, 0), one(9, logmodel.Told, 0, 0, 0)), ""},
		{"after its right", size, run(asked(11, logmodel.AskQuery, 0, 1)), noStep},
		{"bounded, after its right", size, run(asked(11, logmodel.AskBounded, 0, 1)), noStep},
		{"not cosigned", size, run(one(5, logmodel.Decide, 0, 2, 0), asked(5, logmodel.AskSubmit, 0, 2)), noStep},
		{"a query of what is not cosigned", size, run(one(5, logmodel.Decide, 0, 2, 0), asked(5, logmodel.AskQuery, 0, 2)), noStep},
		{"bounded, of what is not cosigned", size, run(one(5, logmodel.Decide, 0, 2, 0), asked(5, logmodel.AskBounded, 0, 2)), ""},
		{"of no leaf", size, run(asked(5, logmodel.AskQuery, 0, 5)), noStep},
		{"of no boot", size, run(asked(5, logmodel.AskQuery, -1, -1)), noStep},
		{"one has signed", size, run(one(5, logmodel.Decide, 0, 2, 0), one(5, logmodel.Sign, 0, 2, 0), one(5, logmodel.Bring, 0, 2, 0)), noStep},
		{"the next one", size, run(begins(6, 1, 1, 2, 0, 1), serves(10, 1, 3, 0, 1)), ""},
		{"the next one, too early", size, run(begins(6, 1, 1, 2, 0, 1), serves(7, 1, 3, 0, 1)), noStep},
		{"the next one, before what was told", size, run(begins(6, 1, 0, 2, 0)[:2]), noStep},
		{"the next one, named", size, run(one(5, logmodel.Close, 0, 2, 1), begins(5, 1, 2, 3, 0, 1), serves(5, 1, 4, 0, 1)), ""},
		{"the next one, another named", size, run(one(5, logmodel.Close, 0, 2, 2), begins(5, 1, 2, 3, 0, 1), serves(5, 1, 4, 0, 1)), noStep},
		{"after its end", size, run(one(5, logmodel.Close, 0, 2, 1), asked(5, logmodel.AskQuery, 0, 1)), noStep},
		{"closed before its turn", size, append(begins(0, 0, -1, 0, 0, 1), one(1, logmodel.Close, 0, 1, 1)...), noStep},
		{"two branches, nobody lies", size, run(begins(6, 1, 0, 2, 2, 1)[:3]), noStep},
		{"two branches, and too many lie", lying, slices.Concat(begins(0, 0, -1, 0, 0), serves(4, 0, 1, 0), begins(6, 1, 0, 2, 1), serves(10, 1, 3, 1)),
			"leaf 1, which was answered before, is in another history"},
		{"two branches, a memory lost", forgetful, run(one(5, logmodel.Forget, 0, 0, 0), begins(6, 1, 0, 2, 0, 2), serves(10, 1, 3, 0, 2)),
			"leaf 1, which was answered before, is in another history"},
		{"other witnesses", moving, run(moves(0, 1), adopts(3, 4), serves(9, 1, 4, 3, 4)), ""},
		{"other witnesses, too early", moving, run(moves(0, 1), adopts(3, 4), serves(6, 1, 4, 3, 4)), noStep},
		{"other witnesses, of an older log", moving, run(under(1, 5, 1, 0, 2, 0)), noStep},
		{"other witnesses, not closed", moving, run(moves(0), adopts()[:1]), noStep},
		{"other witnesses, and those before sign", moving, run(moves(0, 1), adopts(0)[:2]), noStep},
		{"other witnesses, and the manifest before", moving, run(moves(0, 1), under(0, 5, 2, 2, 3)), noStep},
		{"other witnesses, who are not named", moving, run(moves(0, 1), under(2, 5, 2, 2, 3)), noStep},
		{"other witnesses, and nothing is there", moving, run(under(1, 5, 1, -1, 2)), noStep},
		{"a closed log that another goes on with", moving, run(moves(0, 1), under(1, 5, 2, 2, 3, 3, 4)), ""},
		{"decided behind the end", moving, run(moves(0, 1), one(5, logmodel.Decide, 1, 3, 0)), noStep},
		{"no such manifest", moving, run(under(3, 5, 1, 1, 2)), noStep},
		{"a recovery", recovering, run(recovered(0, 1), serves(9, 1, 3, 0, 1)), ""},
		{"a recovery, too early", recovering, run(recovered(0, 1), serves(6, 1, 3, 0, 1)), noStep},
		{"a recovery of what is not named", recovering, run(approves(1), under(1, 5, 1, 0, 2)), noStep},
		{"a recovery that nobody has approved", recovering, run(under(1, 5, 1, 0, 2)), noStep},
		{"an approval that recovers nothing", moving, run(approves(0)), noStep},
		{"a recovery twice", recovering, run(recovered(0, 1), under(1, 5, 2, 0, 3, 0)), noStep},
		{"a recovery, and those before go on", recovering, run(recovered(0, 1), cosigned(one(7, logmodel.Decide, 0, 3, 0), []int8{0, 1}),
			serves(9, 1, 4, 0, 1), serves(9, 0, 5, 0, 1)), ""},
		{"a recovery, and a later manifest goes back", recovering, run(recovered(0, 1),
			under(2, 5, 2, 1, 3, 0, 1), one(5, logmodel.Bring, 2, 3, 0), serves(9, 2, 4, 0, 1)),
			"leaf 4 is of a generation that was recovered by manifest 1, which the boot knows"},
		{"an honest host, and the next one", honest, run(begins(6, 1, 1, 2, 0, 1), serves(10, 1, 3, 0, 1)), ""},
		{"an honest host, and the next one on an older leaf", honest, run(begins(6, 1, 0, 2)[:1]), noStep},
		{"stored, where that is so from the first", honest, run(stored(5, 1)), noStep},
		{"stored, then seen", unordered, slices.Concat(begun, stored(0, 0), decided, stored(4, 1), signed, begins(6, 1, 1, 2)[:1]), ""},
		{"seen, then stored", unordered, slices.Concat(begun, stored(0, 0), decided, signed, stored(4, 1), begins(6, 1, 1, 2)[:1]), ""},
		{"seen, and never stored", unordered, slices.Concat(begun, stored(0, 0), decided, signed, begins(6, 1, 0, 2)[:1]),
			"a witness has seen leaf 1, which the store does not have"},
		{"stored before what lies under it", unordered, slices.Concat(begun, decided, stored(4, 1)), noStep},
		{"stored twice", unordered, slices.Concat(begun, stored(0, 0), stored(0, 0)), noStep},
		{"no memory to lose", size, run(one(5, logmodel.Forget, 0, 0, 0)), noStep},
	} {
		err := logmodel.Follow(row.size, row.run)
		refusal, refused := errors.AsType[*logmodel.Refusal](err)
		switch {
		case err == nil && row.refuse != "":
			t.Errorf("%s: allowed", row.name)
		case refused && (row.refuse == "" || refusal.At != len(row.run)-1 || row.refuse != noStep && refusal.Promise != row.refuse):
			t.Errorf("%s: %v", row.name, err)
		case err != nil && !refused:
			t.Errorf("%s: %v", row.name, err)
		}
	}
	for _, size := range []logmodel.Size{{Boots: 7, Leaves: 6}, {Boots: 3, Leaves: 33}, {Boots: 3, Leaves: 6, Witnesses: 13}} {
		if err := logmodel.Follow(size, nil); !errors.Is(err, logmodel.ErrLong) {
			t.Errorf("%+v: %v", size, err)
		}
	}
}
