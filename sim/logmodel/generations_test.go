package logmodel_test

import (
	"testing"

	"cloister/sim/logmodel"
)

// Manifests that operators may approve after the first one, or after the one before them. Where more than one witness makes
// a quorum, the terms of otherWitnesses leave one out and take one more.
var (
	otherWitnesses = logmodel.Manifest{Terms: 1, Witness: 1}
	yetOthers      = logmodel.Manifest{Terms: 2, Witness: 2}
	fourOthers     = logmodel.Manifest{Terms: 1, Witness: 4}
	recovers       = logmodel.Manifest{Terms: 1, Recovers: true} // terms of its own, of the same witnesses
)

// then puts a manifest behind the last one of a list.
func then(before []logmodel.Manifest, m logmodel.Manifest) []logmodel.Manifest {
	m.After = len(before)
	return append(before, m)
}

func only(all ...logmodel.Manifest) []logmodel.Manifest { return all }

// one has a single witness in each of its terms, which is enough of them where none lies.
func one(boots, leaves, right int, manifests []logmodel.Manifest) logmodel.Size {
	return logmodel.Size{Boots: boots, Leaves: leaves, Witnesses: 1, Needed: 1, Right: right, Manifests: manifests}
}

// of has more of them.
func of(n, k int, s logmodel.Size) logmodel.Size {
	s.Witnesses, s.Needed = n, k
	return s
}

func but(s logmodel.Size, change func(s *logmodel.Size)) logmodel.Size {
	change(&s)
	return s
}

// TestGenerationsHold walks through every state of logs that go on with other witnesses, or from a backup.
func TestGenerationsHold(t *testing.T) {
	honest := func(s *logmodel.Size) { s.Honest = true }
	lying := func(s *logmodel.Size) { s.Liars = 1 }
	forgetful := func(s *logmodel.Size) { s.Amnesias = 1 }
	// Who knows nothing of the next generation is told nothing more of the one before, where its witnesses sign that no more.
	retired := func(s *logmodel.Size) { s.Retired, s.Without = true, logmodel.Known }
	for _, row := range []struct {
		name string
		size logmodel.Size
		long bool
	}{
		{name: "other witnesses", size: one(2, 5, 1, only(otherWitnesses))},
		{name: "other witnesses by two manifests", size: one(3, 4, 1, only(otherWitnesses, yetOthers))},
		{name: "other witnesses, an honest host", size: but(one(3, 5, 1, only(otherWitnesses)), honest)},
		{name: "a recovery", size: one(2, 5, 1, only(recovers))},
		{name: "two recoveries of one generation", size: one(3, 4, 1, only(recovers, recovers))},
		{name: "a recovery, and a next manifest", size: one(3, 4, 1, then(only(recovers), logmodel.Manifest{Terms: 1}))},
		{name: "a recovery, and other witnesses", size: one(3, 4, 1, then(only(recovers), logmodel.Manifest{Terms: 2, Witness: 1}))},
		{name: "a recovery of what nobody signs any more", size: but(one(3, 4, 1, only(recovers)), retired)},

		{name: "other witnesses", long: true, size: one(2, 6, 2, only(otherWitnesses))},
		{name: "other witnesses of three boots", long: true, size: one(3, 6, 1, only(otherWitnesses))},
		{name: "one other of three witnesses", long: true, size: of(3, 2, one(2, 4, 1, only(otherWitnesses)))},
		{name: "other witnesses, one lies", long: true, size: but(of(4, 3, one(2, 4, 1, only(fourOthers))), lying)},
		{name: "one other of four, one forgets", long: true, size: but(of(4, 3, one(2, 3, 1, only(otherWitnesses))), forgetful)},
		{name: "other witnesses by two manifests", long: true, size: one(3, 5, 1, only(otherWitnesses, yetOthers))},
		{name: "other witnesses twice", long: true, size: one(3, 5, 1, then(only(otherWitnesses), yetOthers))},
		{name: "a recovery", long: true, size: one(3, 5, 2, only(recovers))},
		{name: "a recovery under other witnesses", long: true, size: one(3, 5, 1, only(logmodel.Manifest{Terms: 1, Witness: 1, Recovers: true}))},
		{name: "a recovery of what nobody signs any more", long: true, size: but(one(3, 5, 1, only(recovers)), retired)},
		{name: "two recoveries of one generation", long: true, size: one(3, 5, 1, only(recovers, recovers))},
		{name: "two recoveries, one after the other", long: true, size: one(3, 5, 1, then(only(recovers), logmodel.Manifest{Terms: 2, Recovers: true}))},
		{name: "a recovery, and a next manifest", long: true, size: one(3, 5, 1, then(only(recovers), logmodel.Manifest{Terms: 1}))},
		{name: "a recovery, and other witnesses", long: true, size: one(3, 5, 1, then(only(recovers), logmodel.Manifest{Terms: 2, Witness: 1}))},
		{name: "other witnesses, and a recovery", long: true, size: one(3, 5, 1, then(only(otherWitnesses), logmodel.Manifest{Terms: 2, Witness: 1, Recovers: true}))},
	} {
		if row.long && testing.Short() {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			got, err := logmodel.Explore(row.size, limit)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states", got.States)
			if got.States < 20_000 || got.Broken != "" {
				t.Errorf("%d states, %s: %q", got.States, got.Broken, got.History)
			}
		})
	}
}

// TestWhatOperatorsMustNotApprove keeps all rules, and breaks a promise all the same: by what manifests say that threshold
// signatures make true. Those that differ in this alone are among the ones that hold.
func TestWhatOperatorsMustNotApprove(t *testing.T) {
	const twice = "leaf 3 of the same generation has a quorum, too"
	same := only(logmodel.Manifest{Recovers: true})
	for _, row := range []struct {
		name   string
		size   logmodel.Size
		broken string
	}{
		{"a recovery under the terms before, and a next manifest", one(3, 4, 1, then(same, logmodel.Manifest{})),
			"leaf 3 is of a generation that was recovered by manifest 1, which the boot knows"},
		{"a recovery under the terms before, and other witnesses", one(3, 4, 1, then(same, otherWitnesses)), twice},
		{"other witnesses, and a recovery by a manifest that comes after the same one", one(3, 4, 1, only(otherWitnesses, logmodel.Manifest{Terms: 2, Recovers: true})),
			"leaf 2 of the same generation has a quorum, too"},
	} {
		got, err := logmodel.Explore(row.size, limit)
		if err != nil || got.Broken != row.broken {
			t.Errorf("%s: %q, %v", row.name, got.Broken, err)
		}
		for _, step := range got.History {
			t.Log(step)
		}
	}
}
