package restart_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/host/store/sqlite"
	"cloister/host/store/tree"
	"cloister/shared/wire"
	"cloister/sim/witness"
)

// after is a manifest that an operator approves after the one in force.
func (w *attempt) after(change func(m *attestation.Manifest)) []byte { return w.chain(change)[0] }

// chain are manifests that an operator approves one after the other.
func (w *attempt) chain(changes ...func(m *attestation.Manifest)) (all [][]byte) {
	return w.chainAs((*attestation.Manifest).Encode, changes...)
}

// chainAs is chain with bytes that need not be Encode's.
func (w *attempt) chainAs(encode func(*attestation.Manifest) ([]byte, error), changes ...func(m *attestation.Manifest)) (all [][]byte) {
	before := must(attestation.ParseManifest(must(os.ReadFile(filepath.Join(w.dir.Path, "manifest.json")))))
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	point := must(key.PublicKey.Bytes())
	before.Operators = attestation.Operators{Threshold: 1, PublicKeys: []string{hex.EncodeToString(append([]byte{2 | point[64]&1}, point[1:33]...))}}
	for _, change := range changes {
		was := must(before.Encode())
		next, hash := *before, attestation.Hash(was)
		next.Predecessor, next.Nonce, next.Recover = hex.EncodeToString(hash[:]), before.Nonce+1, nil
		change(&next)
		raw := must(encode(&next))
		approval := must(attestation.ApproveManifest(key, attestation.Hash(raw)))
		all = append(all, must(json.Marshal(map[string]any{"manifest": base64.StdEncoding.EncodeToString(raw), "predecessor": base64.StdEncoding.EncodeToString(was),
			"approvals": []attestation.ManifestApproval{approval}})))
		before = &next
	}
	return all
}

// bootUnder starts an enclave over a store under a manifest, and tells why it does not boot. The witnesses hear of its logs.
func (w *attempt) bootUnder(file string, manifest []byte, within time.Duration, before func(*witnessedEnclave)) (e *witnessedEnclave, err error) {
	e = w.start(file, w.sit, core.Limits{TableEvery: 3 + w.r.Uint64N(14)})
	w.runs = append(w.runs, e)
	w.sit.record.boots(e.store, manifest)
	if before != nil {
		before(e)
	}
	ctx, done := context.WithTimeout(context.Background(), within)
	defer done()
	d, err := w.dir.DialEnclave(ctx, e.address)
	if err != nil {
		return e, err
	}
	defer d.Close()
	if err := d.Call(ctx, "manifest", manifest, nil, nil); err != nil {
		return e, err
	}
	return e, w.dir.FollowLogs(ctx, e.address, w.sit.know)
}

// goes is bootUnder that must succeed.
func (w *attempt) goes(file string, manifest []byte) *witnessedEnclave {
	e, err := w.bootUnder(file, manifest, patience, nil)
	if err != nil {
		w.otherwise("a boot: %v", err)
	}
	return e
}

// stops is bootUnder that must be refused for a reason.
func (w *attempt) stops(file string, manifest []byte, reason string, before func(*witnessedEnclave)) {
	_, err := w.bootUnder(file, manifest, patience, before)
	switch {
	case err == nil:
		w.wrongly("it boots")
	case !strings.Contains(err.Error(), reason):
		w.otherwise("refused otherwise: %v", err)
	}
}

// reads has an enclave answer that there are so many tags.
func (w *attempt) reads(e *witnessedEnclave, a *account, tags int) {
	var got answer
	if !soonSo(func() bool {
		n, is := e.tags(a, a)
		if got = is; is.served() && n != tags {
			w.wrongly("%d tags, not %d", n, tags)
		}
		return is.served()
	}) {
		w.otherwise("who should answer does not: %v", got)
	}
}

// silent has an enclave that has booted answer nothing.
func (w *attempt) silent(e *witnessedEnclave, a *account) {
	if n, got := e.briefly(3*w.serve).tags(a, a); got.served() {
		w.wrongly("a query is answered: %d tags", n)
	}
}

// recover is what operators say who have looked at a copy.
func (w *attempt) recover(s *shot) []byte { return w.after(w.recovery(s)) }

func (w *attempt) recovery(s *shot) func(*attestation.Manifest) {
	return func(m *attestation.Manifest) {
		terms := *m.Log
		m.Log, terms.Generation = &terms, 2
		for of := range wire.Range(w.ranges) {
			edge := must(tree.NewEdge(0, nil))
			var h *header
			for _, b := range s.behind(of, nil) {
				h = parseHeader(b)
				must(edge.Append(tlog.HashLeaf(h.Leaf)))
			}
			root := must(edge.Root())
			m.Recover = append(m.Recover, attestation.RecoveredLog{Range: uint16(of), Origin: fmt.Sprintf("%s/%x/%d/%d", m.Log.Name, h.Deployment[:16], of, h.Generation),
				Size: edge.Size(), Root: hex.EncodeToString(root[:]), Witnessed: edge.Size() + uint64(max(w.missing(s, of), 0)), Generation: h.Generation + 1})
		}
	}
}

// backups are copies that lack something in the range of an organization, the older one first.
func (w *attempt) backups(n int) (a *account, all []*shot) {
	a = w.some()
	for _, i := range w.r.Perm(len(w.shots) - 1) {
		s := w.shots[i]
		if w.missing(s, a.of) > 0 && !slices.ContainsFunc(all, func(o *shot) bool { return o.tags[a] == s.tags[a] || w.missing(o, a.of) == w.missing(s, a.of) }) {
			all = append(all, s)
		}
	}
	if len(all) < n {
		w.void = true
		return a, nil
	}
	all = all[:n]
	slices.SortFunc(all, func(a, b *shot) int { return int(slices.Index(w.shots, a)) - int(slices.Index(w.shots, b)) })
	return a, all
}

// recovered is the control: a backup is gone on with as operators say, and by whoever boots later.
func (w *attempt) recovered() {
	a, all := w.backups(1)
	if w.void {
		return
	}
	s := all[0]
	manifest := w.recover(s)
	first := w.goes(w.copyOf(s.file), manifest)
	w.reads(first, a, s.tags[a])
	if got := first.tag(a, s.tags[a]+1); got.served() || !strings.Contains(string(got.Body), "RECOVERED_RECENTLY") {
		w.otherwise("what may be of the lost time: %v", got)
	}
	first.bringer.only()
	w.reads(w.goes(w.live(first), manifest), a, s.tags[a])
}

// recoveredTwice has the same backup recovered by two enclaves, or two backups, each under a manifest that says so.
func (w *attempt) recoveredTwice(backups int) {
	a, all := w.backups(backups)
	if w.void {
		return
	}
	w.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	one, other := all[0], all[len(all)-1]
	first := w.goes(w.copyOf(one.file), w.recover(one))
	w.reads(first, a, one.tags[a])
	second := w.goes(w.copyOf(other.file), w.recover(other))
	w.silent(second, a)
	w.reads(first, a, one.tags[a])
}

// recoveredAnother shows an older backup than the manifest recovers.
func (w *attempt) recoveredAnother() {
	a, all := w.backups(2)
	if w.void {
		return
	}
	older, named := all[0], all[1]
	e, err := w.bootUnder(w.copyOf(older.file), w.recover(named), patience, nil)
	if err != nil && !strings.Contains(err.Error(), "RECOVERY_HEAD") {
		w.otherwise("refused otherwise: %v", err)
	}
	if err == nil {
		w.reads(e, a, named.tags[a])
	}
}

// recoveredBeside is what a recovery leaves open: nobody tells an enclave of before, nor those who witness its generation, so that
// both are served (package logmodel says what is promised then).
func (w *attempt) recoveredBeside() {
	a, all := w.backups(1)
	if w.void {
		return
	}
	s := all[0]
	before := w.boot(w.copyNewest(), nil)
	if !w.serves(before, a) {
		return
	}
	first := w.goes(w.copyOf(s.file), w.recover(s))
	w.reads(first, a, s.tags[a])
	w.serves(before, a)
	w.reads(first, a, s.tags[a])
}

// recoveredBack shows the log as it was before a recovery to an enclave under the manifest that comes after that one's.
func (w *attempt) recoveredBack() {
	a, all := w.backups(1)
	if w.void {
		return
	}
	s, next := all[0], func(*attestation.Manifest) {}
	if w.note = "the same witnesses"; w.r.IntN(2) == 0 {
		w.note = "other witnesses"
		others := w.others("x")
		next = func(m *attestation.Manifest) { others(m); m.Log.Generation = 3 }
	}
	manifests := w.chain(w.recovery(s), next)
	first := w.goes(w.copyOf(s.file), manifests[0])
	w.reads(first, a, s.tags[a])
	w.stops(w.copyNewest(), manifests[1], "LOG_WITNESSES_CHANGED", nil)
	w.reads(w.goes(w.live(first), manifests[1]), a, s.tags[a])
}

// adoptDropped shows a recovered log without the leaf that began it, or without all of it.
func (w *attempt) adoptDropped() {
	a, all := w.backups(1)
	if w.void {
		return
	}
	s := all[0]
	manifest := w.recover(s)
	first := w.goes(w.copyOf(s.file), manifest)
	w.reads(first, a, s.tags[a])
	headers := w.shotOf(first).behind(a.of, nil)
	begins := slices.IndexFunc(headers, func(b []byte) bool { return parseHeader(b).Generation == 2 })
	l := (&choice{table: s.table(a.of)}).lies(a.of)
	behind := s.behind(a.of, s.table(a.of))
	if w.note = "all of it"; w.r.IntN(2) == 0 {
		w.note = "the leaf"
		behind = append(slices.Clone(behind), headers[begins+1:]...)
	}
	l.headers = instead(behind)
	e, err := w.bootUnder(w.live(first), manifest, patience, func(e *witnessedEnclave) { e.store.tell(&l) })
	if err == nil {
		w.silent(e, a)
	}
	w.reads(first, a, s.tags[a])
}

// others are terms of other witnesses, which sit beside those of the history, for the next generation.
func (w *attempt) others(prefix string) func(*attestation.Manifest) {
	seats := newSeats(prefix)
	w.sit.join(seats)
	return func(m *attestation.Manifest) {
		m.Log = termsOf(seats, w.mode, w.serve)
		m.Log.Generation = 2
	}
}

// join has more witnesses sit down, who know the logs and have seen nothing.
func (w *witnesses) join(seats []*seat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seats = append(slices.Clone(w.seats), seats...)
	for _, s := range seats {
		one := must(witness.New(witness.Options{Name: s.name, Key: s.key, Now: time.Now}))
		for _, k := range w.logs {
			if err := one.Add(k); err != nil {
				panic(err)
			}
		}
		w.sit = append(w.sit, one)
	}
}

// moved is the control: other witnesses take over, and the manifest before gets nothing any more.
func (w *attempt) moved() {
	a := w.some()
	first := w.goes(w.copyNewest(), w.after(w.others("x")))
	if w.serves(first, a) {
		w.refuses(w.boot(w.copyNewest(), nil), a) // with the store as it was before
	}
	w.serves(first, a)
}

// movedBack has other witnesses take over a copy that lacks something: those before would have to see it closed.
func (w *attempt) movedBack() {
	a, all := w.backups(1)
	if w.void {
		return
	}
	e, err := w.bootUnder(w.copyOf(all[0].file), w.after(w.others("x")), 4*w.serve+time.Second, nil)
	if err == nil {
		w.reads(e, a, w.newest().tags[a])
	}
}

// isClosed tells whether a store has a log whose newest leaf closes it.
func (w *attempt) isClosed(file string) bool {
	s := must(sqlite.Open(context.Background(), file))
	defer s.Close()
	for of := range wire.Range(w.ranges) {
		all := must(s.LoadHeaders(context.Background(), wire.LoadHeaders{Range: of, MaxBytes: loadBytes})).Headers
		if len(all) > 0 && must(tlog.ParseLeaf(parseHeader(all[len(all)-1]).Leaf)).Close != nil {
			return true
		}
	}
	return false
}

// foreignGeneration shows a log that was closed for one manifest to an enclave under another one.
func (w *attempt) foreignGeneration() {
	a := w.some()
	manifest := w.after(w.others("x"))
	file := w.copyNewest()
	for within := w.serve + time.Second; !w.isClosed(file); within *= 2 { // until the log is closed, however slow the machine is
		closing, err := w.bootUnder(file, manifest, within, func(e *witnessedEnclave) { e.bringer.only() }) // those before are away
		if closing.end(); err == nil {
			w.wrongly("it boots, and nobody has seen the log closed")
			return
		}
	}
	other := w.others("y")
	if w.note = "other witnesses"; w.r.IntN(2) == 0 {
		w.note = "another origin"
		other = func(m *attestation.Manifest) {
			m.Log = termsOf(newSeats("x"), w.mode, w.serve)
			m.Log.Generation, m.Log.Name = 2, "other.example"
		}
	}
	w.stops(w.copyOf(file), w.after(other), "LOG_WITNESSES_CHANGED", nil)
	w.serves(w.goes(file, manifest), a)
}

// generationHidden shows an enclave whose witnesses are for the second generation that there never was a log.
func (w *attempt) generationHidden() {
	a := w.some()
	manifest := w.after(w.others("x"))
	first := w.goes(w.copyNewest(), manifest)
	w.serves(first, a)
	l := (&choice{}).lies(a.of)
	l.headers = instead(nil)
	w.stops(w.live(first), manifest, "LOG_GENERATION", func(e *witnessedEnclave) { e.store.tell(&l) })
	w.serves(first, a)
}

// generationBefore shows the log of the first generation, as it was, under the manifest before and after.
func (w *attempt) generationBefore() {
	a := w.some()
	manifest := w.after(w.others("x"))
	first := w.goes(w.copyNewest(), manifest)
	if !w.serves(first, a) {
		return
	}
	if w.note = "the manifest before"; w.r.IntN(2) == 0 {
		w.refuses(w.boot(w.copyNewest(), nil), a)
	} else {
		w.note = "the manifest of the next"
		if e, err := w.bootUnder(w.copyNewest(), manifest, 4*w.serve+time.Second, nil); err == nil {
			w.refuses(e, a)
		}
	}
	w.serves(first, a)
}
