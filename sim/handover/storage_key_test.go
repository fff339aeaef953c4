package handover_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

// boot starts the first program under a manifest by shares, and has it take all.
func (w *world) boot(m, before *attestation.Manifest) *enclave {
	w.t.Helper()
	e := w.start(program, nil)
	e.must("manifest", w.submission(m, before, w.operators))
	e.shares(m)
	return e
}

// refused starts it and answers why it does not serve.
func (w *world) refused(m, before *attestation.Manifest) string {
	w.t.Helper()
	e := w.start(program, nil)
	defer e.stop()
	if _, refusal := e.ask("manifest", w.submission(m, before, w.operators)); refusal != "" {
		return refusal
	}
	return e.give(w.manifest)
}

// step is a manifest of the same program that may come after m.
func step(t testing.TB, m *attestation.Manifest, change func(*attestation.Manifest)) *attestation.Manifest {
	next := after(t, m)
	next.ApplicationDigest, next.PCRs = m.ApplicationDigest, m.PCRs
	next.RotateStorageKey, next.ForgetStorageKey = false, false
	change(next)
	return next
}

func (e *enclave) counter(name string) (n int) {
	e.w.t.Helper()
	var all map[string]int
	must(e.w.t, json.Unmarshal(e.must("status", nil)["counters"], &all))
	n, ok := all[name]
	if !ok {
		return -1
	}
	return n
}

// entries are what is stored of an organization, sealed.
func (w *world) entries(o *organization) string {
	w.t.Helper()
	id, err := hex.DecodeString(strings.ReplaceAll(o.Organization, "-", ""))
	must(w.t, err)
	got, err := w.store.Store.LoadOrganization(context.Background(), wire.LoadOrganization{Organization: wire.ID(id), MaxBytes: 1 << 20})
	must(w.t, err)
	return fmt.Sprintf("%x", got.Entries)
}

// The drill of a new storage key: one manifest makes it, all data keys are wrapped anew
// while the deployment serves, another manifest forgets the old one. Entries stay as
// they are, every key signs, and the old one is not forgotten too early.
func TestStorageKeyRotates(t *testing.T) {
	w := newWorld(t)
	e := w.serving()
	var orgs []*organization
	for range 6 {
		orgs = append(orgs, w.organization(e.link))
	}
	use := func(e *enclave) {
		t.Helper()
		for _, o := range orgs {
			send(t, e.link, o.sign([]byte("used")))
		}
	}
	use(e)
	stop := func(e *enclave) { // in good order, so that the next need not wait
		ctx, cancel := context.WithTimeout(context.Background(), clocktest.Patience)
		defer cancel()
		must(t, e.core.Stop(ctx))
		e.stop()
	}
	stop(e)
	history := w.entries(orgs[0])

	wrong := step(t, w.manifest, func(m *attestation.Manifest) { m.RotateStorageKey, m.MinKeyringEpoch = true, 3 })
	if why := w.refused(wrong, w.manifest); !strings.Contains(why, "minKeyringEpoch") {
		t.Fatalf("an epoch that does not come of it: %q", why)
	}
	early := step(t, w.manifest, func(m *attestation.Manifest) { m.ForgetStorageKey, m.MinKeyringEpoch = true, 2 })
	if why := w.refused(early, w.manifest); !strings.Contains(why, "no storage key before") {
		t.Fatalf("forgotten what is not there: %q", why)
	}

	// While the host hides the data keys none is wrapped anew; what is opened opens.
	w.hide(true)
	second := step(t, w.manifest, func(m *attestation.Manifest) { m.RotateStorageKey, m.MinKeyringEpoch = true, 2 })
	e = w.boot(second, w.manifest)
	use(e)
	stop(e)
	w.hide(false)
	third := step(t, second, func(m *attestation.Manifest) { m.ForgetStorageKey, m.MinKeyringEpoch = true, 3 })
	if why := w.refused(third, second); !strings.Contains(why, "6 of 6 data keys are still under the storage key before") {
		t.Fatalf("forgotten too early: %q", why)
	}

	e = w.boot(second, w.manifest) // once more: nothing rotates twice
	orgs = append(orgs, w.organization(e.link))
	clocktest.Until(t, "all data keys are wrapped anew", func() bool { return e.counter("data_keys_rewrapping") == 0 })
	if n := e.counter("data_keys_rewrapped"); n != 6 {
		t.Errorf("%d data keys wrapped anew", n)
	}
	use(e)
	stop(e)
	if now := w.entries(orgs[0]); !strings.HasPrefix(now, strings.TrimSuffix(history, "]")) {
		t.Error("what was stored has changed")
	}

	e = w.boot(third, second)
	if n := e.counter("data_keys_rewrapping"); n != -1 {
		t.Errorf("the old storage key is still kept: %d", n)
	}
	use(e)
	stop(e)
	// Neither manifest before it starts anything any more.
	if why := w.refused(second, w.manifest); why == "" {
		t.Error("started under the manifest before")
	}
}

func (w *world) hide(yes bool) {
	w.store.mu.Lock()
	w.store.hide = yes
	w.store.mu.Unlock()
}
