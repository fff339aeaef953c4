package handover_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/host/link"
	"cloister/shared/wire"
	"cloister/sim/rig"
	"cloister/sim/witness"
)

// witnessedBy gives a world five witnesses, any four of which are a set.
func (w *world) witnessedBy() witness.Locals {
	w.witnesses = rig.StartWitnesses(w.t, rig.WitnessOptions{Count: 5, Quorum: 3})
	return w.witnesses.Locals
}

// termsOf are the terms under which three of some witnesses cosign.
func termsOf(of witness.Locals, mode tlog.Mode, generation uint32) *attestation.LogTerms {
	l := &attestation.LogTerms{Name: "hand-over", Policy: of.Policy(3), Tolerates: 1, Mode: mode.String(), ServeMs: 20_000, Generation: generation}
	if mode == tlog.ModeBounded {
		l.BoundMs = 2_000
	}
	return l
}

// logKeys are the keys of an enclave's logs, and of their next generations.
func (e *enclave) logKeys() (now, next []string) {
	e.w.t.Helper()
	var logs []struct{ VKey, NextVKey string }
	must(e.w.t, json.Unmarshal(e.must("status", nil)["logs"], &logs))
	for _, l := range logs {
		now = append(now, l.VKey)
		if l.NextVKey != "" {
			next = append(next, l.NextVKey)
		}
	}
	return now, next
}

// logs are the origins of an enclave's logs.
func (e *enclave) logs() (origins []string) {
	e.w.t.Helper()
	now, _ := e.logKeys()
	for _, vkey := range now {
		k, err := tlog.ParseKey(vkey)
		must(e.w.t, err)
		origins = append(origins, k.Name())
	}
	return origins
}

// An enclave tells the keys of the logs' next generations before the next manifest exists, so that new witnesses can know
// them before a range moves. The next manifest may give the logs another name: they are told once it has the keyring.
func TestNextLogsTold(t *testing.T) {
	w := newWorld(t)
	all := w.witnessedBy()
	w.manifest.Log = termsOf(all[:4], tlog.ModeStrict, 0)
	w.manifest.Log.ServeMs = 300 // nothing was before
	first := w.serving()
	_, told := first.logKeys()
	m := after(t, w.manifest)
	m.Log = termsOf(all[1:], tlog.ModeStrict, 2)
	second := w.waiting(m, w.manifest, nil)
	w.upgrade(first, second)
	logs, next := second.logKeys()
	if len(logs) != ranges || !slices.Equal(logs, told) {
		t.Errorf("the logs are %q, told were %q", logs, told)
	}
	last := after(t, m)
	last.Log = termsOf(all[1:], tlog.ModeStrict, 3)
	last.Log.Name = "another.example"
	third := w.waiting(last, m, nil)
	second.must(wire.OpHandOver, w.documents(second, third).body())
	_, told = second.logKeys()
	w.upgrade(second, third)
	if logs, _ := third.logKeys(); len(logs) != ranges || !slices.Equal(logs, told) || slices.Equal(told, next) {
		t.Errorf("the logs are %q, told were %q, before the manifest %q", logs, told, next)
	}
}

// Without witnesses nobody needs to know a key before the log begins.
func TestNextLogsNone(t *testing.T) {
	w := newWorld(t)
	w.manifest.Log, w.manifest.Freshness.Mode = nil, attestation.FreshSinceBoot
	if now, next := w.serving().logKeys(); len(now) != ranges || len(next) != 0 {
		t.Errorf("logs %q, next %q", now, next)
	}
}

// Under load one witness is replaced by another, and the mode becomes a weaker one: nobody is refused, and what was signed
// before is there.
func TestWitnessReplacedUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: a change of witnesses under real load")
	}
	w := newWorld(t)
	all := w.witnessedBy()
	w.manifest.Log = termsOf(all[:4], tlog.ModeStrict, 0)
	w.manifest.Log.ServeMs = 300 // nothing was before
	old := w.start(program, nil)
	old.must("manifest", w.submission(w.manifest, nil, w.operators))
	old.shares(w.manifest)
	m := after(t, w.manifest)
	m.Log = termsOf(all[1:], tlog.ModeBounded, 2)
	next := w.waiting(m, w.manifest, nil)
	hosts := []*link.Links{w.host(old, next), w.host(old, next)}
	var orgs []*organization
	for range 8 {
		orgs = append(orgs, w.organization(hosts[0]))
	}
	var stop atomic.Bool
	results := make([][]seen, len(orgs))
	var clients sync.WaitGroup
	for i, o := range orgs {
		clients.Go(func() { results[i] = w.client(hosts[i%2], o, fmt.Sprint("client ", i), &stop) })
	}
	w.signs(50)
	all[0].Stop() // it is away, which is why it is replaced
	w.signs(50)
	began := time.Now()
	w.upgrade(old, next)
	took := time.Since(began)
	w.signs(50)
	stop.Store(true)
	clients.Wait()
	if took > 15*time.Second {
		t.Errorf("the move took %v: as if nobody had been named", took)
	}
	origins := next.logs()
	for _, origin := range origins {
		if !strings.HasSuffix(origin, "/2") {
			t.Errorf("a log is %s", origin)
		}
	}
	if len(origins) != ranges {
		t.Errorf("%d logs", len(origins))
	}
	signed, again, longest := 0, 0, time.Duration(0)
	for i, o := range orgs {
		for _, s := range results[i] {
			signed, again, longest = signed+1, again+s.tries-1, max(longest, s.took)
			r, err := next.link.Call(context.Background(), s.call)
			if err != nil || r.Status != 200 || signature(r.Body) != s.signature {
				t.Fatalf("client %d: a signature was lost or is another: %v", i, err)
			}
		}
		if n := w.count(next, o); n != len(results[i]) {
			t.Errorf("client %d: %d activities for %d bodies", i, n, len(results[i]))
		}
	}
	t.Logf("measured: one of four witnesses replaced under load in %d ms; %d signatures, %d sent again, longest %.1f ms", took.Milliseconds(), signed, again, ms(longest))

	// The next enclave's next boots need no word of the one before, and the old manifest gets nothing.
	next.stop()
	third := w.start(newer, nil)
	third.must("manifest", w.submission(m, w.manifest, w.operators))
	third.shares(m)
}

// Terms that are not the next generation's are nobody's to approve, and a hand-over to others is refused.
func TestOtherTermsRefused(t *testing.T) {
	w := newWorld(t)
	all := w.witnessedBy()
	w.manifest.Log = termsOf(all[:4], tlog.ModeStrict, 0)
	for what, terms := range map[string]*attestation.LogTerms{
		"others in the same generation": termsOf(all[1:], tlog.ModeStrict, 0),
		"a weaker mode":                 termsOf(all[:4], tlog.ModeBounded, 0),
		"a generation left out":         termsOf(all[1:], tlog.ModeStrict, 3),
		"none":                          nil,
	} {
		m := after(t, w.manifest)
		m.Log = terms
		if terms == nil {
			m.Freshness.Mode = attestation.FreshSinceBoot
		}
		e := w.start(newer, nil)
		if _, refusal := e.ask("manifest", w.submission(m, w.manifest, w.operators)); !strings.Contains(refusal, "MANIFEST_NOT_APPROVED") {
			t.Errorf("%s: %q", what, refusal)
		}
		e.stop()
	}
}
