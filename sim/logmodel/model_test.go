package logmodel_test

import (
	"fmt"
	"testing"

	"cloister/sim/logmodel"
)

const limit = 40_000_000 // states

// TestPromisesHold walks through every state of small logs, and without -short of
// larger ones.
func TestPromisesHold(t *testing.T) {
	for _, row := range []struct {
		size logmodel.Size
		long bool
	}{
		{size: logmodel.Size{Boots: 2, Leaves: 3, Witnesses: 3, Needed: 2, Right: 2}},
		{size: logmodel.Size{Boots: 2, Leaves: 4, Witnesses: 1, Needed: 1, Right: 3}},
		{size: logmodel.Size{Boots: 3, Leaves: 5, Witnesses: 1, Needed: 1, Right: 1}},
		{size: logmodel.Size{Boots: 2, Leaves: 3, Witnesses: 4, Needed: 3, Liars: 1, Right: 2}},
		{size: logmodel.Size{Boots: 2, Leaves: 3, Witnesses: 4, Needed: 3, Amnesias: 1, Right: 1}},
		{size: logmodel.Size{Boots: 2, Leaves: 5, Witnesses: 2, Needed: 2, Right: 2, Honest: true}},
		{long: true, size: logmodel.Size{Boots: 2, Leaves: 4, Witnesses: 3, Needed: 2, Right: 2}},
		{long: true, size: logmodel.Size{Boots: 3, Leaves: 5, Witnesses: 1, Needed: 1, Right: 2}},
		{long: true, size: logmodel.Size{Boots: 3, Leaves: 6, Witnesses: 1, Needed: 1, Right: 1}},
		{long: true, size: logmodel.Size{Boots: 2, Leaves: 4, Witnesses: 4, Needed: 3, Liars: 1, Right: 2}},
		{long: true, size: logmodel.Size{Boots: 2, Leaves: 4, Witnesses: 5, Needed: 4, Liars: 2, Right: 2}},
		{long: true, size: logmodel.Size{Boots: 2, Leaves: 3, Witnesses: 4, Needed: 3, Amnesias: 1, Right: 2}},
		{long: true, size: logmodel.Size{Boots: 2, Leaves: 6, Witnesses: 2, Needed: 2, Right: 2, Honest: true}},
	} {
		if row.long && testing.Short() {
			continue
		}
		t.Run(fmt.Sprintf("%+v", row.size), func(t *testing.T) {
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

// TestEachRuleIsNeeded leaves out one rule after the other: a promise breaks. The
// same size with all rules is among those above, or smaller than one of them.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, size := range []logmodel.Size{
		{Boots: 2, Leaves: 4, Witnesses: 3, Needed: 2, Liars: 1, Right: 1, Without: logmodel.Quorum},
		{Boots: 2, Leaves: 4, Witnesses: 2, Needed: 1, Right: 1, Without: logmodel.Quorum},
		{Boots: 2, Leaves: 4, Witnesses: 1, Needed: 1, Amnesias: 1, Right: 1, Without: logmodel.Quorum},
		{Boots: 2, Leaves: 3, Witnesses: 1, Needed: 1, Right: 1, Honest: true, Without: logmodel.StoredFirst},
		{Boots: 2, Leaves: 4, Witnesses: 1, Needed: 1, Right: 2, Without: logmodel.LoggedFirst},
		{Boots: 2, Leaves: 4, Witnesses: 1, Needed: 1, Right: 2, Without: logmodel.MAC},
		{Boots: 2, Leaves: 4, Witnesses: 1, Needed: 1, Right: 2, Without: logmodel.SentRight},
		{Boots: 2, Leaves: 4, Witnesses: 1, Needed: 1, Right: 2, Without: logmodel.BootWait},
		{Boots: 3, Leaves: 5, Witnesses: 1, Needed: 1, Right: 1, Without: logmodel.CloseRight},
		{Boots: 2, Leaves: 5, Witnesses: 1, Needed: 1, Right: 1, Without: logmodel.Closed, Manifests: only(otherWitnesses)},
		{Boots: 3, Leaves: 4, Witnesses: 1, Needed: 1, Right: 1, Without: logmodel.Closed, Manifests: only(otherWitnesses, yetOthers)},
		{Boots: 2, Leaves: 5, Witnesses: 1, Needed: 1, Right: 1, Without: logmodel.Generation, Manifests: only(otherWitnesses)},
		{Boots: 2, Leaves: 5, Witnesses: 1, Needed: 1, Right: 1, Without: logmodel.Recovered, Manifests: only(recovers)},
		{Boots: 2, Leaves: 5, Witnesses: 1, Needed: 1, Right: 1, Without: logmodel.Known, Manifests: only(recovers)},
	} {
		t.Run(fmt.Sprint(size.Without), func(t *testing.T) {
			got, err := logmodel.Explore(size, limit)
			if err != nil || got.Broken == "" {
				t.Fatalf("nothing breaks in %d states, %v", got.States, err)
			}
			t.Logf("%d states: %s", got.States, got.Broken)
			for _, step := range got.History {
				t.Log(step)
			}
			size.Without = 0
			if !size.Sound() {
				return
			}
			if got, err := logmodel.Explore(size, limit); err != nil || got.Broken != "" {
				t.Errorf("with it: %s, %v, %q", got.Broken, err, got.History)
			}
		})
	}
}

// TestSizesThatAreNone: a policy that is no quorum is refused, as the enclave refuses it,
// and so is what does not fit into a state; what does not end in time says so.
func TestSizesThatAreNone(t *testing.T) {
	for _, size := range []logmodel.Size{
		{Boots: 2, Leaves: 3, Witnesses: 3, Needed: 2, Liars: 1, Right: 1},
		{Boots: 2, Leaves: 3, Witnesses: 3, Needed: 2, Amnesias: 1, Right: 1},
		{Boots: 2, Leaves: 3, Witnesses: 4, Needed: 2, Right: 1},
		{Boots: 2, Leaves: 33, Witnesses: 1, Needed: 1, Right: 1},
		{Boots: 7, Leaves: 3, Witnesses: 1, Needed: 1, Right: 1},
		{Boots: 2, Leaves: 3, Witnesses: 13, Needed: 13, Right: 1},
		{Boots: 2, Leaves: 3, Witnesses: 1, Right: 1},
	} {
		if _, err := logmodel.Explore(size, limit); err == nil {
			t.Errorf("%+v was explored", size)
		}
	}
	if got, err := logmodel.Explore(logmodel.Size{Boots: 2, Leaves: 4, Witnesses: 1, Needed: 1, Right: 2}, 1000); err == nil {
		t.Errorf("it ended after %d states", got.States)
	}
}
