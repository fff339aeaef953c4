package handover_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/host/store/sqlite"
	"cloister/host/store/tree"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/nsm"
	"cloister/sim/rig"
)

// copyOf copies a store's file, which nobody writes.
func (w *world) copyOf(file string) string {
	w.t.Helper()
	to := filepath.Join(w.t.TempDir(), "cloister.db")
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(file + end)
		if errors.Is(err, fs.ErrNotExist) && end != "" {
			continue
		}
		must(w.t, err)
		must(w.t, os.WriteFile(to+end, b, 0o600))
	}
	return to
}

// restore puts a backup in the place of the store.
func (w *world) restore(backup string) {
	w.t.Helper()
	w.file = w.copyOf(backup)
	s, err := sqlite.Open(context.Background(), w.file)
	must(w.t, err)
	w.t.Cleanup(func() { _ = s.Close() })
	w.store = &keeps{Store: s}
	w.cosigner, _ = rig.NewCosigner(w.t, w.store, pause)
}

// recovery is where each range goes on from what the store holds, as operators find it out.
func (w *world) recovery(lost uint64) (all []attestation.RecoveredLog) {
	w.t.Helper()
	for of := range wire.Range(ranges) {
		edge, err := tree.NewEdge(0, nil)
		must(w.t, err)
		ask := wire.LoadHeaders{Range: of, MaxBytes: 1 << 20}
		var h wire.BatchHeader
		for {
			got, err := w.store.LoadHeaders(context.Background(), ask)
			must(w.t, err)
			if len(got.Headers) == 0 {
				break
			}
			for _, b := range got.Headers {
				h = wire.BatchHeader{}
				must(w.t, wire.Unmarshal(b[:len(b)-sha256.Size], &h))
				_, err := edge.Append(tlog.HashLeaf(h.Leaf))
				must(w.t, err)
				leaf, err := tlog.ParseLeaf(h.Leaf)
				must(w.t, err)
				ask.Epoch, ask.Number = leaf.Epoch, leaf.Number+1
			}
		}
		root, err := edge.Root()
		must(w.t, err)
		all = append(all, attestation.RecoveredLog{Range: uint16(of), Origin: fmt.Sprintf("%s/%x/%d/%d", w.manifest.Log.Name, h.Deployment[:16], of, h.Generation),
			Size: edge.Size(), Root: hex.EncodeToString(root[:]), Witnessed: edge.Size() + lost, Generation: h.Generation + 1})
	}
	return all
}

// ahead is a clock that is ahead of the machine's.
type ahead struct{ by time.Duration }

func (c ahead) Now() time.Time                       { return time.Now().Add(c.by) }
func (ahead) After(d time.Duration) <-chan time.Time { return time.After(d) }

// takeAll has an enclave take all ranges, as a host does that sees nothing of their owner.
func (e *enclave) takeAll() {
	e.w.t.Helper()
	e.must("take", map[string]any{"ranges": []int{0, 1, 2, 3}})
}

// answer is the status and the code of an answer that waits for witnesses for a while.
func (e *enclave) answer(c *wire.Call) (int, string) {
	e.w.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r, err := e.link.Call(context.Background(), c)
		if err == nil && (r.Status != 503 || time.Now().After(end)) {
			var f struct{ TurnkeyErrorCode string }
			must(e.w.t, json.Unmarshal(r.Body, &f))
			return int(r.Status), f.TurnkeyErrorCode
		}
		if time.Now().After(end) {
			e.w.t.Fatal(err)
		}
	}
}

// The whole way from the loss of a store to serving: a backup that misses what witnesses have seen is served under a manifest
// that operators have approved for it, once, and organizations sign once their root quorum lets them.
func TestRecovery(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: a recovery that waits for real rights to serve")
	}
	w := newWorld(t)
	w.configuration = []byte(`{"gas":{"prices":{"eip155:1":2500000000}}}`)
	prices := sha256.Sum256(w.configuration)
	w.manifest.ConfigurationSHA256 = hex.EncodeToString(prices[:])
	first := w.serving()
	var orgs []*organization
	for range 6 {
		orgs = append(orgs, w.organization(first.link))
	}
	var kept []*wire.Call
	for i, o := range orgs {
		kept = append(kept, o.sign(fmt.Appendf(nil, "kept %d", i)))
		send(t, first.link, kept[i])
	}
	address := client.Text(send(t, first.link, orgs[0].activity("CREATE_WALLET", client.Wallet("W", client.Ethereum))).Result(), "addresses", "0")
	sponsored := func() *wire.Call {
		return orgs[0].activity("ETH_SEND_TRANSACTION_V2", client.Object{"from": address, "caip2": "eip155:1", "calls": []client.Object{{"to": address, "value": "1"}}, "sponsor": true,
			"gasLimit": "400000", "maxFeePerGas": "3000000000"})
	}
	send(t, first.link, orgs[0].activity("UPSERT_GAS_USAGE_CONFIG", client.Object{"orgWindowLimitUsd": "5", "subOrgWindowLimitUsd": "1", "windowDurationMinutes": "60"}))
	first.stop()
	old := w.copyOf(w.file)
	second := w.serving()
	second.takeAll()
	var lost []*wire.Call
	for i := range 50 {
		c := orgs[i%len(orgs)].sign(fmt.Appendf(nil, "lost %d", i))
		if status, code := second.answer(c); status != 200 {
			t.Fatalf("%d %s", status, code)
		}
		lost = append(lost, c)
	}
	second.stop()
	w.restore(old)

	// Under the manifest that there is the log stands still.
	still := w.serving()
	still.takeAll()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	if r, err := still.link.Call(ctx, orgs[0].sign([]byte("still"))); err == nil && r.Status == 200 {
		t.Fatal("a store that lost what witnesses have seen is served")
	}
	cancel()
	still.stop()
	w.restore(old)
	began := time.Now()
	m := after(t, w.manifest)
	m.Recover = w.recovery(30)
	terms := *m.Log
	m.Log, terms.Generation = &terms, 2
	e := w.waiting(m, w.manifest, nil)
	e.shares(m)
	e.takeAll()
	for _, origin := range e.logs() {
		if !strings.HasSuffix(origin, "/2") {
			t.Errorf("a log is %s", origin)
		}
	}
	if status, code := e.answer(lost[49]); status != 400 || code != "RECOVERED_RECENTLY" {
		t.Errorf("what was lost is done again: %d %s", status, code)
	}
	t.Logf("measured: from a recovery manifest to serving in %d ms, of which the boot before had the right to serve for %d", time.Since(began).Milliseconds(), w.manifest.Log.ServeMs)
	if status, code := e.answer(orgs[0].sign([]byte("soon"))); status != 400 || code != "RECOVERED_RECENTLY" {
		t.Errorf("a body stamped just now: %d %s", status, code)
	}
	e.stop()

	// Another boot, later, under the same manifest: organizations do all but use keys.
	e = w.start(newer, func(_ *nsm.Config, c *core.Config) { c.Clock = ahead{7 * time.Minute} })
	w.times.Now = ahead{7 * time.Minute}.Now
	e.must("manifest", w.submission(m, w.manifest, w.operators))
	e.shares(m)
	e.takeAll()
	o := orgs[0]
	thaw := func(o *organization) *wire.Call {
		return o.activity("REMOVE_ORGANIZATION_FEATURE", client.Object{"name": "FEATURE_NAME_SIGNING_FROZEN"})
	}
	frozen := o.sign([]byte("frozen"))
	for what, c := range map[string]struct {
		call   *wire.Call
		status int
		code   string
	}{
		"a tag":             {o.activity("CREATE_USER_TAG", client.Tag("one")), 200, ""},
		"a signature":       {frozen, 400, "SIGNING_FROZEN"},
		"an export":         {o.export(w.operators[0]), 400, "SIGNING_FROZEN"},
		"freezing":          {o.activity("SET_ORGANIZATION_FEATURE", client.Object{"name": "FEATURE_NAME_SIGNING_FROZEN", "value": ""}), 400, ""},
		"what was lost":     {lost[49], 400, "INVALID_TIME"},
		"another signature": {orgs[1].sign([]byte("frozen")), 400, "SIGNING_FROZEN"},
	} {
		if status, code := e.answer(c.call); status != c.status || code != c.code {
			t.Errorf("%s: %d %q", what, status, code)
		}
	}
	// What was spent in the lost time is not known.
	usage, err := e.link.Call(t.Context(), o.query("get_gas_usage", nil))
	if err != nil || usage.Status != 200 || !strings.Contains(string(usage.Body), `"usageUsd":"5"`) {
		t.Errorf("the sponsor's window: %v, %s", err, usage.Body)
	}
	// What was decided before this generation of the log stands, and has its proof in the reply though its organization has decided
	// nothing in it: to the caller it is at no time undone.
	proven := *kept[2]
	proven.Head = append(slices.Clone(proven.Head), wire.Header{Name: wire.HeaderLogProof, Value: attestation.LogProofWait})
	if status, code := e.answer(&proven); status != 200 {
		t.Errorf("with its proof: %d %q", status, code)
	}
	if status, code := e.answer(kept[2]); status != 200 {
		t.Errorf("what was kept: %d %q", status, code)
	}
	if status, code := e.answer(orgs[2].activity("CREATE_USER_TAG", client.Tag("two"))); status != 200 {
		t.Errorf("a tag: %d %q", status, code)
	}
	if status, code := e.answer(&proven); status != 200 {
		t.Errorf("with its proof: %d %q", status, code)
	}
	if status, code := e.answer(thaw(o)); status != 200 {
		t.Fatalf("the root quorum lets it sign: %d %s", status, code)
	}
	if status, code := e.answer(frozen); status != 200 {
		t.Errorf("signing the same body again: %d %s", status, code)
	}
	refused, err := e.link.Call(t.Context(), sponsored())
	if err != nil || refused.Status != 429 || !strings.Contains(string(refused.Body), "orgWindowLimitUsd counts as used up until") {
		t.Errorf("a sponsored transaction: %v, %s", err, refused.Body)
	}
	if status, _ := e.answer(thaw(o)); status == 200 {
		t.Error("let sign twice")
	}
	if status, code := e.answer(orgs[1].sign([]byte("frozen still"))); code != "SIGNING_FROZEN" {
		t.Errorf("another organization: %d %q", status, code)
	}
	made := w.organization(e.link)
	if status, code := e.answer(made.sign([]byte("new"))); status != 200 {
		t.Errorf("an organization that was made after: %d %s", status, code)
	}
	e.stop()

	// An hour after the recovery the window is free.
	later := ahead{time.Since(began) + time.Hour}
	e = w.start(newer, func(_ *nsm.Config, c *core.Config) { c.Clock = later })
	w.times.Now = later.Now
	e.must("manifest", w.submission(m, w.manifest, w.operators))
	e.shares(m)
	e.takeAll()
	if status, code := e.answer(sponsored()); status != 200 {
		t.Errorf("a sponsored transaction once the window has passed: %d %s", status, code)
	}
	e.stop()

	// From the same backup it is not recovered again.
	w.restore(old)
	e = w.start(newer, nil)
	e.must("manifest", w.submission(m, w.manifest, w.operators))
	e.shares(m)
	e.takeAll()
	ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if r, err := e.link.Call(ctx, o.query("whoami", nil)); err == nil && r.Status == 200 {
		t.Error("recovered twice")
	}
}
