package restart_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/logmodel"
)

// A witnessedKind is an attack on a deployment with witnesses.
type witnessedKind struct {
	name string
	run  func(w *attempt)
	// succeeds tells that more witnesses lie than the policy tolerates: then it must be seen to succeed, or nothing here
	// could be.
	succeeds bool
	// off is the check without which it succeeds.
	off string
}

var witnessedKinds = []witnessedKind{
	{name: "nothing", run: (*attempt).untouched},
	{name: "whole store back", run: (*attempt).storeBack, off: "right"},
	{name: "whole store back by a step", run: (*attempt).storeBackAStep},
	{name: "whole store back before the table", run: (*attempt).storeBackBeforeTable, off: "right"},
	{name: "log hidden", run: (*attempt).logHidden},
	{name: "two enclaves from one store", run: (*attempt).oneStore, off: "right"},
	{name: "two enclaves from two stores", run: (*attempt).twoStores, off: "right"},
	{name: "a superseded enclave goes on", run: (*attempt).goesOn, off: "bootwait"},
	{name: "boot leaf dropped", run: (*attempt).bootDropped, off: "right"},
	{name: "cosignatures of a boot withheld and brought late", run: (*attempt).broughtLate, off: "right"},
	{name: "cosignatures of a decision withheld and brought late", run: (*attempt).broughtLater, off: "sent"},
	{name: "crash before the store has answered", run: (*attempt).unanswered, off: "stored"},
	{name: "an older signed checkpoint for the witnesses", run: (*attempt).olderCheckpoint, off: "quorum"},
	{name: "cosignature of another size", run: lines(otherSize)},
	{name: "cosignature of another root", run: lines(otherRoot)},
	{name: "cosignature of another range", run: lines(otherRange)},
	{name: "cosignature of another generation", run: lines(otherGeneration)},
	{name: "cosignature of another deployment", run: lines(otherDeployment)},
	{name: "cosignature of another key", run: lines(otherKey)},
	{name: "line relabelled to another witness", run: two(relabelled)},
	{name: "one witness's line doubled", run: two(doubled)},
	{name: "one liar on both branches", run: liars(1)},
	{name: "two liars on both branches", run: liars(2), succeeds: true},
	{name: "two liars whom the manifest tolerates", run: (*attempt).tolerated, off: "policy"},
	{name: "one witness lost its memory", run: amnesia(1)},
	{name: "two witnesses lost their memory", run: amnesia(2), succeeds: true},
	{name: "close leaf for another boot", run: (*attempt).foreignClose, off: "bootwait"},
	{name: "close leaf of an earlier hand-over", run: (*attempt).closeAgain},
	{name: "close leaf of a boot that has not waited", run: (*attempt).earlyClose, off: "closewait"},
	{name: "mode weakened", run: (*attempt).modeWeakened},
	{name: "other witnesses in the manifest", run: (*attempt).otherWitnesses},
	{name: "recovery of a backup", run: (*attempt).recovered},
	{name: "recovery twice", run: func(w *attempt) { w.recoveredTwice(1) }, off: "right"},
	{name: "recovery from two backups", run: func(w *attempt) { w.recoveredTwice(2) }, off: "right"},
	{name: "recovery of another backup than named", run: (*attempt).recoveredAnother, off: "recovered"},
	{name: "recovery while an enclave of before runs", run: (*attempt).recoveredBeside},
	{name: "log from before a recovery, and a later manifest", run: (*attempt).recoveredBack},
	{name: "adopt leaf dropped", run: (*attempt).adoptDropped},
	{name: "other witnesses take over", run: (*attempt).moved},
	{name: "other witnesses take over an older store", run: (*attempt).movedBack, off: "closed"},
	{name: "close leaf for another generation", run: (*attempt).foreignGeneration, off: "closed"},
	{name: "log hidden from witnesses of a later generation", run: (*attempt).generationHidden, off: "generation"},
	{name: "generation before shown again", run: (*attempt).generationBefore},
	{name: "a reply while two witnesses are away", run: away(2), off: "quorum"},
	{name: "a reply while all witnesses are away", run: away(4)},
	{name: "one witness away", run: away(1)},
}

// shortServe is for how long a quorum gives the right to serve: most attacks wait it out.
const shortServe = 300 * time.Millisecond

func (h *witnessedHistory) remove() {
	for _, s := range h.shots {
		_ = s.read.Close()
	}
	_ = os.RemoveAll(filepath.Dir(h.shots[0].file))
	_ = os.RemoveAll(h.dir.Path)
}

// An attempt is one attack under way.
type attempt struct {
	*witnessedHistory
	r   *rand.Rand
	sit *witnesses
	// truth is what was acknowledged to clients; what was refused may still come true.
	truth, perhaps map[*account]int
	runs           []*witnessedEnclave
	cleanup        []func()

	untabled bool // no tables are made

	void   bool // there is nothing to attack
	note   string
	wrong  []string // the attack has succeeded
	unlike []string // what else is not as planned

	followed, beyond int   // runs of ranges that the model was asked about, and those that it is too small for
	refused          error // what it allows none of
}

// attempt makes an attack in a time of its own, which begins when the history has ended.
func (h *witnessedHistory) attempt(t *testing.T, r *rand.Rand, k *witnessedKind) (w *attempt) {
	virtually(t, func() { w = h.within(r).attack(r, k) })
	return w
}

func (h *witnessedHistory) attack(r *rand.Rand, k *witnessedKind) *attempt {
	w := &attempt{witnessedHistory: h, r: r, sit: h.witnesses(), truth: map[*account]int{}, perhaps: map[*account]int{}}
	for a, n := range h.newest().tags {
		w.truth[a] = n
	}
	w.sit.record = h.recorder(w.sit)
	defer func() {
		for _, e := range w.runs {
			e.end()
		}
		for _, f := range w.cleanup {
			f()
		}
		w.followed, w.beyond, w.refused = w.sit.record.follow(0)
	}()
	for range 30 { // what is drawn may not be there; then nothing has begun
		w.void = false
		if k.run(w); !w.void {
			break
		}
	}
	return w
}

// fine tells whether it went as it must. The model allows what was recorded, unless the attack succeeds: then that
// breaks one of the model's promises. Of what was answered in bounded mode and is lost the model promises nothing.
func (w *attempt) fine(k *witnessedKind) bool {
	agrees := w.refused == nil
	if k.succeeds {
		refusal, broken := errors.AsType[*logmodel.Refusal](w.refused)
		agrees = broken && refusal.Promise != "" || w.refused == nil && (w.beyond > 0 || w.mode == tlog.ModeBounded)
	}
	return len(w.unlike) == 0 && (len(w.wrong) > 0) == k.succeeds && agrees
}

func (w *attempt) wrongly(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *attempt) otherwise(format string, args ...any) {
	w.unlike = append(w.unlike, fmt.Sprintf(format, args...))
}

// some is an organization.
func (w *attempt) some() *account { return w.orgs[w.r.IntN(len(w.orgs))] }

func (w *attempt) copyOf(file string) string {
	to, remove := scrap()
	w.cleanup = append(w.cleanup, remove)
	copyStore(file, to)
	return to
}

func (w *attempt) copyNewest() string { return w.copyOf(w.newest().file) }

// live is a copy of an enclave's store as it is now.
func (w *attempt) live(e *witnessedEnclave) string {
	e.store.gate.Lock()
	defer e.store.gate.Unlock()
	return w.copyOf(e.file)
}

// boot starts an enclave over a store. before is told of it before it boots.
func (w *attempt) boot(file string, before func(e *witnessedEnclave)) *witnessedEnclave {
	limits := core.Limits{TableEvery: 3 + w.r.Uint64N(14)}
	if w.untabled {
		limits = core.Limits{}
	}
	e := w.start(file, w.sit, limits)
	w.runs = append(w.runs, e)
	if before != nil {
		before(e)
	}
	if err := e.join(w.history); err != nil {
		w.otherwise("a boot: %v", err)
	}
	return e
}

// serves has an enclave answer what is true, and decide.
func (w *attempt) serves(e *witnessedEnclave, a *account) bool {
	var last answer
	ok := soonSo(func() bool {
		n, got := e.tags(a, a)
		if last = got; !got.served() {
			return false
		}
		if n < w.truth[a] || n > w.truth[a]+w.perhaps[a] {
			w.wrongly("%d tags, not %d and perhaps %d: %v", n, w.truth[a], w.perhaps[a], got)
		}
		w.truth[a], w.perhaps[a] = n, 0
		if last = e.tag(a, n+1); last.served() {
			w.truth[a]++
			return true
		}
		w.perhaps[a] = 1
		return false
	})
	if !ok {
		w.otherwise("who should serve does not: %v", last)
	}
	return ok
}

// refuses has an enclave neither answer nor decide.
func (w *attempt) refuses(e *witnessedEnclave, a *account) {
	brief := e.briefly(2*w.serve + w.serve/2)
	var asked sync.WaitGroup
	var query, submit answer
	var n int
	asked.Go(func() { n, query = brief.tags(a, a) })
	asked.Go(func() { submit = brief.tag(a, w.truth[a]+1) })
	asked.Wait()
	if w.perhaps[a] = 1; query.served() {
		w.wrongly("a query is answered: %d tags, and there are %d", n, w.truth[a])
	}
	if submit.served() {
		w.wrongly("a submit is answered")
	}
}

func (w *attempt) untouched() { w.serves(w.boot(w.copyNewest(), nil), w.some()) }

// missing is how many leaves that the witnesses have signed a copy does not have.
func (w *attempt) missing(s *shot, of wire.Range) int {
	head := must(strconv.Atoi(string(sizeOf([]byte(w.heads[of])))))
	return head - len(s.behind(of, nil))
}

// back boots one of the copies that fit.
func (w *attempt) back(fits func(s *shot, of wire.Range) bool) {
	for _, i := range w.r.Perm(len(w.shots) - 1) {
		s := w.shots[i]
		a := w.some()
		if n := w.missing(s, a.of); n > 0 && fits(s, a.of) {
			w.note = fmt.Sprintf("%s lacks %d leaves", filepath.Base(s.file), n)
			w.refuses(w.boot(w.copyOf(s.file), nil), a)
			return
		}
	}
	w.void = true
}

func (w *attempt) storeBack() { w.back(func(*shot, wire.Range) bool { return true }) }

// storeBackAStep boots a copy that lacks as little as any.
func (w *attempt) storeBackAStep() {
	w.back(func(s *shot, of wire.Range) bool {
		return !slices.ContainsFunc(w.shots, func(o *shot) bool { n := w.missing(o, of); return n > 0 && n < w.missing(s, of) })
	})
}

func (w *attempt) storeBackBeforeTable() {
	w.back(func(s *shot, of wire.Range) bool {
		is, was := w.newest().table(of), s.table(of)
		return len(is) > 0 && hashOf(is) != hashOf(was)
	})
}

// logHidden says that nothing was ever done.
func (w *attempt) logHidden() {
	a := w.some()
	l := (&choice{}).lies(a.of)
	l.headers = instead(nil)
	e := w.boot(w.copyNewest(), func(e *witnessedEnclave) { e.store.tell(&l) })
	w.refuses(e, a)
}

// oneStore has two enclaves over one store, of which the first is told that it has it.
func (w *attempt) oneStore() {
	a := w.some()
	first := w.boot(w.copyNewest(), nil)
	if !w.serves(first, a) {
		return
	}
	first.store.claim(true)
	if w.serves(w.boot(first.file, nil), a) {
		w.refuses(first, a)
	}
}

// twoStores has each of two enclaves go on from a copy: the one whose leaf gets the quorum does.
func (w *attempt) twoStores() {
	a := w.some()
	first := w.boot(w.copyNewest(), nil)
	if w.note = "as before the first boot"; w.r.IntN(2) == 0 {
		if w.serves(first, a) {
			w.refuses(w.boot(w.copyNewest(), nil), a)
			w.serves(first, a)
		}
		return
	}
	if w.note = "as after it"; !w.serves(first, a) {
		return
	}
	first.bringer.only()
	if w.serves(w.boot(w.live(first), nil), a) {
		first.bringer.all()
		w.refuses(first, a)
	}
}

// goesOn asks a superseded enclave without a pause. Nothing that is asked once the next one has answered gets an answer.
func (w *attempt) goesOn() {
	a := w.some()
	first := w.boot(w.copyNewest(), nil)
	if !w.serves(first, a) {
		return
	}
	type call struct {
		began time.Time
		tags  int
		what  string
	}
	var calls []call
	var mu sync.Mutex
	var asking sync.WaitGroup
	end := make(chan struct{})
	brief := first.briefly(w.serve)
	ask := func(what string, f func() (int, answer)) {
		asking.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-time.After(2 * time.Millisecond):
				}
				began := time.Now()
				if n, got := f(); got.served() {
					mu.Lock()
					calls = append(calls, call{began, n, what})
					mu.Unlock()
				}
			}
		})
	}
	told := func(what string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(calls, func(c call) bool { return c.what == what })
	}
	ask("query", func() (int, answer) { return brief.tags(a, a) })
	ask("send", func() (int, answer) { return 0, brief.send(a) })
	if !soonSo(func() bool { return told("query") && told("send") }) {
		w.otherwise("the first one does not tell what a send holds")
	}
	first.bringer.only()
	file := w.live(first)
	second := w.boot(file, nil)
	before := w.truth[a]
	served := w.serves(second, a)
	answered := time.Now()
	ask("submit", func() (int, answer) { return 0, brief.tag(a, before+1) })
	time.Sleep(w.serve)
	close(end)
	asking.Wait()
	if !served {
		return
	}
	for _, c := range calls {
		if c.began.After(answered) {
			w.wrongly("a %s, %v after the next one has answered: %d tags, and there are %d", c.what, c.began.Sub(answered), c.tags, w.truth[a])
			break
		}
	}
	w.serves(second, a)
}

// bootDropped brings a boot leaf to the witnesses that the store has lost. Nobody else goes on, and that boot does.
func (w *attempt) bootDropped() {
	a := w.some()
	first := w.boot(w.copyNewest(), func(e *witnessedEnclave) { e.bringer.hold = true })
	if !first.bringer.held(a.of) {
		w.otherwise("the boot leaf is not signed")
		return
	}
	w.refuses(w.boot(w.copyNewest(), nil), a)
	w.perhaps[a] = 0
	first.bringer.tell(func(b *bringer) { b.hold = false })
	w.serves(first, a)
}

// broughtLate keeps a boot's cosignatures back while another one goes on from its store.
func (w *attempt) broughtLate() {
	a := w.some()
	w.untabled = true // the boot leaf stays the last one
	first := w.boot(w.copyNewest(), func(e *witnessedEnclave) { e.bringer.hold = true })
	if !first.bringer.held(a.of) {
		w.otherwise("the boot leaf is not signed")
		return
	}
	first.bringer.only()
	if !w.serves(w.boot(w.live(first), nil), a) {
		return
	}
	first.bringer.tell(func(b *bringer) { b.hold = false })
	if !soonSo(func() (so bool) {
		first.bringer.tell(func(b *bringer) { so = b.brought[a.of] > 0 })
		return so
	}) {
		w.otherwise("they were not brought")
	}
	w.refuses(first, a)
}

// broughtLater keeps the cosignatures of what an enclave has decided back while another one goes on from its store.
func (w *attempt) broughtLater() {
	a := w.some()
	w.untabled = true // the decision stays the last leaf
	first := w.boot(w.copyNewest(), nil)
	if !w.serves(first, a) {
		return
	}
	first.bringer.tell(func(b *bringer) { b.hold = true })
	if w.perhaps[a] = 1; first.briefly(w.serve).tag(a, w.truth[a]+1).served() { // in bounded mode
		w.truth[a]++
		w.perhaps[a] = 0
	}
	if !first.bringer.heldAgain(a.of) {
		w.otherwise("the decision is not signed")
		return
	}
	first.bringer.only()
	if !w.serves(w.boot(w.live(first), nil), a) {
		return
	}
	before := 0
	first.bringer.tell(func(b *bringer) { before, b.hold = b.brought[a.of], false })
	if !soonSo(func() (so bool) {
		first.bringer.tell(func(b *bringer) { so = b.brought[a.of] > before })
		return so
	}) {
		w.otherwise("they were not brought")
	}
	w.refuses(first, a)
}

// unanswered is no attack: an enclave and its store crash while the store is at work, and what it was at is lost. Whoever boots then
// must not be refused by witnesses that have seen that.
func (w *attempt) unanswered() {
	a := w.some()
	w.sit.record.honest = true
	first := w.boot(w.copyNewest(), nil)
	if !w.serves(first, a) {
		return
	}
	first.store.gate.Lock()
	file := w.copyOf(first.file)
	first.store.silence()
	first.store.gate.Unlock()
	if got := first.briefly(w.serve).tag(a, w.truth[a]+1); got.served() {
		w.truth[a]++
		w.wrongly("a submit is answered that is not stored")
	}
	first.end()
	second := w.boot(file, nil)
	if !soonSo(func() bool { _, got := second.tags(a, a); return got.served() }) {
		w.wrongly("nobody serves any more")
		return
	}
	w.serves(second, a)
}

// unreleased has an enclave that served release nothing, and then serve again.
func (w *attempt) unreleased(e *witnessedEnclave, a *account, stop, mend func()) {
	if !w.serves(e, a) {
		return
	}
	stop()
	if w.mode == tlog.ModeBounded { // which releases until the bound
		time.Sleep(w.serve + w.serve/10)
	} else if got := e.briefly(w.serve/2).tag(a, w.truth[a]+1); got.served() {
		w.truth[a]++
		w.wrongly("a submit is answered without a quorum")
	}
	w.perhaps[a] = 1
	time.Sleep(w.serve)
	w.refuses(e, a)
	mend()
	w.serves(e, a)
}

func (w *attempt) olderCheckpoint() {
	a := w.some()
	e := w.boot(w.copyNewest(), nil)
	var old string
	w.unreleased(e, a, func() {
		e.bringer.tell(func(b *bringer) {
			old = b.signed[a.of][0]
			b.ask = func(ask wire.Witness) wire.Witness {
				if ask.Range == a.of {
					ask.Checkpoint = []byte(old)
				}
				return ask
			}
			b.answer = func(_ wire.Witness, lines []string) []string { return append(lines, b.kept[old]...) }
		})
	}, func() { e.bringer.tell(func(b *bringer) { b.ask, b.answer = nil, nil }) })
}

// away has so many witnesses not be there.
func away(n int) func(w *attempt) {
	return func(w *attempt) {
		a := w.some()
		e := w.boot(w.copyNewest(), nil)
		there := w.r.Perm(witnessCount)[n:]
		if witnessCount-n < witnessQuorum {
			w.unreleased(e, a, func() { e.bringer.only(there...) }, e.bringer.all)
			return
		}
		e.bringer.only(there...)
		for range 3 {
			w.serves(e, a)
			time.Sleep(w.serve / 2)
		}
	}
}

// unserved boots an enclave whose witnesses' lines are changed, and then not any more.
func (w *attempt) unserved(answer func(seats []*seat, text string, lines []string) []string, there ...int) {
	a := w.some()
	e := w.boot(w.copyNewest(), func(e *witnessedEnclave) {
		e.bringer.only(there...)
		e.bringer.answer = func(ask wire.Witness, lines []string) []string {
			text, _, _ := strings.Cut(string(ask.Checkpoint), "\n\n")
			return answer(w.seats, text+"\n", lines)
		}
	})
	w.refuses(e, a)
	e.bringer.tell(func(b *bringer) { b.answer = nil; clear(b.kept) })
	e.bringer.all()
	w.serves(e, a)
}

// lines has all witnesses sign something else than the checkpoint that is asked for.
func lines(change func(r *rand.Rand, s *seat, text []string) *seat) func(w *attempt) {
	return func(w *attempt) {
		r := rand.New(rand.NewPCG(w.r.Uint64(), 0))
		w.unserved(func(seats []*seat, text string, _ []string) (all []string) {
			for _, s := range seats {
				words := strings.Split(text, "\n") // origin, size, root
				s = change(r, s, words)
				all = append(all, s.line(strings.Join(words, "\n")))
			}
			return all
		})
	}
}

func otherSize(r *rand.Rand, s *seat, text []string) *seat {
	text[1] = strconv.Itoa(must(strconv.Atoi(text[1])) + []int{-1, 1, 256}[r.IntN(3)])
	return s
}

func otherRoot(r *rand.Rand, s *seat, text []string) *seat {
	h := hashOf(random(r, 32))
	text[2] = base64.StdEncoding.EncodeToString(h[:])
	return s
}

// origin changes a part of an origin, counted from its end.
func origin(text []string, part int, to string) {
	parts := strings.Split(text[0], "/")
	parts[len(parts)-1-part] = to
	text[0] = strings.Join(parts, "/")
}

func otherRange(_ *rand.Rand, s *seat, text []string) *seat {
	to := "0"
	if strings.HasSuffix(text[0], "/0/1") {
		to = "1"
	}
	origin(text, 1, to)
	return s
}

func otherGeneration(_ *rand.Rand, s *seat, text []string) *seat {
	origin(text, 0, "2")
	return s
}

func otherDeployment(r *rand.Rand, s *seat, text []string) *seat {
	origin(text, 2, fmt.Sprintf("%x", random(r, 16)))
	return s
}

// otherKey signs with the key of another witness under the name of this.
func otherKey(r *rand.Rand, s *seat, _ []string) *seat {
	return &seat{s.name, newSeats(fmt.Sprint("other ", r.Uint32(), " "))[0].key}
}

// two has two witnesses answer, and their lines stand for more.
func two(change func(w *attempt, seats []*seat, lines []string) []string) func(w *attempt) {
	return func(w *attempt) {
		there := w.r.Perm(witnessCount)[:2]
		w.unserved(func(seats []*seat, _ string, lines []string) []string {
			if len(lines) == 0 {
				return nil
			}
			return change(w, seats, lines)
		}, there...)
	}
}

func relabelled(_ *attempt, seats []*seat, lines []string) []string {
	all := slices.Clone(lines)
	for _, line := range lines {
		words := strings.Fields(line)
		raw := must(base64.StdEncoding.DecodeString(words[2]))
		for _, s := range seats {
			if s.name != words[1] {
				id := s.public().KeyHash()
				as := append([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}, raw[4:]...)
				all = append(all, "— "+s.name+" "+words[2]+"\n", "— "+s.name+" "+base64.StdEncoding.EncodeToString(as)+"\n")
			}
		}
	}
	return all
}

func doubled(_ *attempt, _ []*seat, lines []string) []string { return slices.Repeat(lines, 3) }

// liars has two enclaves go on from one store, and so many witnesses sign for both. The others see one of them.
func liars(n int) func(w *attempt) {
	return func(w *attempt) {
		w.sit.record.liars = n
		for _, s := range w.sit.sit[:n] {
			s.Lie(true)
		}
		w.split(func(*witnessedEnclave) {}, n > witnessLiars)
	}
}

// tolerated has operators approve that two witnesses may lie, of whom three make a quorum. Two do.
func (w *attempt) tolerated() {
	a := w.some()
	w.sit.record.liars = 2
	for _, s := range w.sit.sit[:2] {
		s.Lie(true)
	}
	manifest := w.chainAs(func(m *attestation.Manifest) ([]byte, error) {
		raw, err := m.Encode()
		return bytes.Replace(raw, []byte(`"tolerates":1`), []byte(`"tolerates":2`), 1), err
	}, func(*attestation.Manifest) {})[0]
	first, err := w.bootUnder(w.copyNewest(), manifest, patience, func(e *witnessedEnclave) { e.bringer.only(0, 1, 2) })
	if err != nil {
		if !strings.Contains(err.Error(), "do not tolerate 2") {
			w.otherwise("refused otherwise: %v", err)
		}
		w.serves(w.boot(w.copyNewest(), nil), a)
		return
	}
	if w.otherwise("it boots"); !w.serves(first, a) {
		return
	}
	second, err := w.bootUnder(w.copyNewest(), manifest, patience, func(e *witnessedEnclave) { e.bringer.only(0, 1, 3) })
	if err != nil {
		w.otherwise("a boot: %v", err)
	}
	w.serves(second, a) // which knows nothing of what the first one has done
}

// amnesia has so many witnesses forget what they have signed.
func amnesia(n int) func(w *attempt) {
	return func(w *attempt) {
		w.split(func(first *witnessedEnclave) {
			first.end() // or it would be remembered again
			for i, s := range w.sit.sit[:n] {
				if err := w.sit.record.forget(i, s.Forget); err != nil {
					w.otherwise("%v", err)
				}
			}
		}, n > witnessLiars)
	}
}

// split has one enclave served with three witnesses, and then another on the store of before, with whoever signs.
func (w *attempt) split(between func(first *witnessedEnclave), succeeds bool) {
	a := w.some()
	first := w.boot(w.copyNewest(), func(e *witnessedEnclave) { e.bringer.only(0, 1, 2) })
	if !w.serves(first, a) {
		return
	}
	truth := w.truth[a]
	between(first)
	second := w.boot(w.copyNewest(), func(e *witnessedEnclave) {
		if succeeds {
			e.bringer.only(0, 1, 3)
		}
	})
	if !succeeds {
		w.refuses(second, a)
		return
	}
	w.serves(second, a) // which is wrong: it knows nothing of what the first one has done
	if w.truth[a] == truth+1 {
		w.otherwise("it knows of the first one")
	}
}

// moved asks for ranges at the boot endpoint.
func (e *witnessedEnclave) moved(op string, of wire.Range, more string) string {
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	reply, err := e.link.Call(ctx, &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: fmt.Appendf(nil, `{"ranges":[%d]%s}`, of, more)})
	if err != nil {
		return err.Error()
	}
	if reply.Status != 200 {
		return string(reply.Body)
	}
	return ""
}

// to names an enclave to a giver.
func (e *witnessedEnclave) to() string {
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	reply := must(e.link.Call(ctx, &wire.Call{Endpoint: wire.EndpointBoot, Op: "ranges"}))
	t, _, err := wire.ParseTable(reply.Body)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`,"to":%s`, must(json.Marshal(t.Boot)))
}

const handed = `,"handed":true`

// foreignClose has a range that was given to one boot be taken by another, which is not named.
func (w *attempt) foreignClose() {
	a := w.some()
	first := w.boot(w.copyNewest(), nil)
	if !w.serves(first, a) {
		return
	}
	honest := func(e *witnessedEnclave) { e.store.honest = true }
	named, other := w.boot(first.file, honest), w.boot(first.file, honest)
	if refused := first.moved("give", a.of, named.to()); refused != "" {
		w.otherwise("give: %s", refused)
		return
	}
	if w.note = "taken by who is named"; w.r.IntN(4) == 0 {
		if refused := named.moved("take", a.of, handed); refused != "" {
			w.otherwise("take: %s", refused)
			return
		}
		w.serves(named, a)
		return
	}
	w.note = "taken by another"
	began := time.Now()
	if refused := other.moved("take", a.of, ""); refused != "" {
		w.otherwise("take: %s", refused)
		return
	}
	w.serves(other, a)
	if took := time.Since(began); took < w.serve {
		w.wrongly("who is not named answers after %v", took)
	}
}

// closeAgain shows a boot the log as it was when it was named, after it has given the range on.
func (w *attempt) closeAgain() {
	a := w.some()
	first := w.boot(w.copyNewest(), nil)
	if !w.serves(first, a) {
		return
	}
	second := w.boot(first.file, func(e *witnessedEnclave) { e.store.honest = true })
	step := func(e *witnessedEnclave, op, more string) bool {
		refused := e.moved(op, a.of, more)
		if refused != "" {
			w.otherwise("%s: %s", op, refused)
		}
		return refused == ""
	}
	if !step(first, "give", second.to()) {
		return
	}
	old := w.shotOf(first)
	if !step(second, "take", handed) || !w.serves(second, a) || !step(second, "give", first.to()) || !step(first, "take", handed) || !w.serves(first, a) {
		return
	}
	c := &choice{table: old.table(a.of)}
	l := c.lies(a.of)
	l.headers = instead(old.behind(a.of, c.table))
	l.orgs = map[wire.ID]shown{}
	for _, b := range w.orgs {
		l.orgs[b.wid] = shown{from: old.read, id: b.wid}
	}
	second.store.tell(&l)
	first.store.claim(true)
	if refused := second.moved("take", a.of, []string{"", handed}[w.r.IntN(2)]); refused == "" {
		w.refuses(second, a)
		w.otherwise("taken")
	} else {
		w.note = refused
	}
}

// earlyClose has a boot give a range on before the one before it has lost the right to serve. Nothing that is asked of that one once
// the third has answered gets an answer.
func (w *attempt) earlyClose() {
	a := w.some()
	first := w.boot(w.copyNewest(), nil)
	if !w.serves(first, a) {
		return
	}
	first.bringer.only()
	second := w.boot(w.live(first), nil)
	third := w.boot(second.file, func(e *witnessedEnclave) { e.store.honest = true })
	if refused := second.moved("give", a.of, third.to()); refused != "" {
		w.otherwise("give: %s", refused)
		return
	}
	if refused := third.moved("take", a.of, handed); refused != "" {
		w.otherwise("take: %s", refused)
		return
	}
	if !w.serves(third, a) {
		return
	}
	if n, got := first.briefly(w.serve/10).tags(a, a); got.served() {
		w.wrongly("a query is answered: %d tags, and there are %d", n, w.truth[a])
	}
	w.refuses(first, a)
	w.serves(third, a)
}

// shotOf copies an enclave's store to read from it.
func (w *attempt) shotOf(e *witnessedEnclave) *shot {
	s := &shot{read: must(sqlite.Open(context.Background(), w.live(e)))}
	w.cleanup = append([]func(){func() { _ = s.read.Close() }}, w.cleanup...)
	return s
}

// wholeFiles leaves out what attempts beside this one are writing: until it is whole it has another name.
type wholeFiles struct{ fs.FS }

func (w wholeFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(w.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".new-") }), err
}

// under boots with another manifest, whose terms f makes; nil: none.
func (w *attempt) under(f func() (mode tlog.Mode, seats []*seat, serve time.Duration, name string), reason string) {
	dir := *w.dir
	dir.Path = must(os.MkdirTemp(scratch, "manifest-"))
	w.cleanup = append(w.cleanup, func() { _ = os.RemoveAll(dir.Path) })
	if err := os.CopyFS(dir.Path, wholeFiles{os.DirFS(w.dir.Path)}); err != nil {
		panic(err)
	}
	if f == nil {
		dir.Log = nil
		if err := os.Remove(filepath.Join(dir.Path, "manifest.json")); err != nil {
			panic(err)
		}
	} else {
		mode, seats, serve, name := f()
		dir.Log = termsOf(seats, mode, serve)
		dir.Log.Name = name
	}
	h := &witnessedHistory{history: &history{ranges: w.ranges, root: w.root, pages: w.pages, times: w.times, network: w.network, dir: &dir}}
	e := h.start(w.copyNewest(), w.sit, core.Limits{})
	w.runs = append(w.runs, e)
	err := e.join(h.history)
	if err == nil {
		w.wrongly("it boots")
	} else if !strings.Contains(err.Error(), reason) {
		w.otherwise("refused otherwise: %v", err)
	}
	w.serves(w.boot(w.copyNewest(), nil), w.some())
}

const ourName = "restart.example"

func (w *attempt) modeWeakened() {
	if w.mode == tlog.ModeBounded || w.r.IntN(2) == 0 {
		w.note = "none"
		w.under(nil, "LOG_WITNESSES_CHANGED")
		return
	}
	w.note = "bounded"
	w.under(func() (tlog.Mode, []*seat, time.Duration, string) { return tlog.ModeBounded, w.seats, w.serve, ourName }, "LOG_MODE_WEAKENED")
}

func (w *attempt) otherWitnesses() {
	seats, serve, name := w.seats, w.serve, ourName
	switch w.r.IntN(4) {
	case 0:
		w.note, seats = "all others", newSeats("x")
	case 1:
		w.note, seats = "one other", append(slices.Clone(w.seats[:3]), newSeats("x")[3])
	case 2:
		w.note, serve = "another time", 2*w.serve
	case 3:
		w.note, name = "another name", "other.example"
	}
	w.under(func() (tlog.Mode, []*seat, time.Duration, string) { return w.mode, seats, serve, name }, "LOG_WITNESSES_CHANGED")
}
