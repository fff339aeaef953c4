package restart_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/host/store/tree"
	"cloister/shared/wire"
	"cloister/sim/logmodel"
	"cloister/sim/witness"
)

// A recorded leaf is one that an enclave has sent to a store.
type recordedLeaf struct {
	of     wire.Range
	before *recordedLeaf
	size   uint64 // of the log that ends with it
	root   [32]byte
	edge   *tree.Edge
	says   *tlog.Leaf
	tips   []tip

	generation uint32
}

// moves tells whether its batch brings an organization to a count of entries, or beyond.
func (l *recordedLeaf) moves(a *account, count uint64) bool {
	return slices.ContainsFunc(l.tips, func(t tip) bool { return t.Organization == a.wid && t.Count >= count })
}

// leaves are known by their headers' hashes.
type recordedLeaves map[wire.Hash]*recordedLeaf

// add reads a header. It returns nil for one that is known.
func (all recordedLeaves) add(b []byte) *recordedLeaf {
	hash := sha256.Sum256(b)
	if all[hash] != nil {
		return nil
	}
	h := parseHeader(b)
	l := &recordedLeaf{of: h.Range, before: all[h.Previous], size: h.Position + 1, says: must(tlog.ParseLeaf(h.Leaf)), tips: h.Tips, generation: h.Generation}
	if l.edge = must(tree.NewEdge(0, nil)); l.before != nil && l.before.generation == l.generation {
		l.edge = l.before.edge.Clone()
	}
	must(l.edge.Append(tlog.HashLeaf(h.Leaf)))
	l.root = must(l.edge.Root())
	all[hash] = l
	return l
}

// ends tells whether it closes its generation.
func (l *recordedLeaf) ends() bool { return l.says.Close != nil && l.says.Close.Origin != "" }

// of is the leaf that a checkpoint ends with; nil: none that was stored.
func (all recordedLeaves) of(checkpoint []byte) *recordedLeaf {
	text, _, _ := bytes.Cut(checkpoint, []byte("\n\n"))
	c, err := tlog.ParseCheckpoint(string(text) + "\n")
	if err != nil {
		return nil
	}
	return all.at(c.Size, c.Root)
}

func (all recordedLeaves) at(size uint64, root [32]byte) *recordedLeaf {
	for _, l := range all {
		if l.size == size && l.root == root {
			return l
		}
	}
	return nil
}

// A recordedBoot is one ownership of a range by an enclave, whose store it is.
type recordedBoot struct {
	store   *liar
	id      [16]byte
	epoch   uint64
	brought uint64 // the largest log for which it was given a quorum
	under   int    // number of its manifest
}

// A recordedManifest is one under which enclaves were booted, after that of the history.
type recordedManifest struct {
	hash  [32]byte
	is    *attestation.Manifest
	after int // number of the manifest before it
}

// recovers is the log that it says a range goes on from.
func (m *recordedManifest) recovers(of wire.Range) *attestation.RecoveredLog {
	for i := range m.is.Recover {
		if m.is.Recover[i].Range == uint16(of) {
			return &m.is.Recover[i]
		}
	}
	return nil
}

// A recorded event is one of a range's, before its leaves and boots have numbers.
type recorded struct {
	when    time.Time
	act     logmodel.Act
	boot    *recordedBoot
	leaf    *recordedLeaf
	witness int          // number of its seat
	ask     *recordedAsk // what is asked, or was answered
	under   int          // number of the manifest that is approved
}

// A recordedAsk is a question.
type recordedAsk struct {
	told    bool // there was an answer
	boot    *recordedBoot
	leaf    *recordedLeaf // that the answer knows of; nil: of none since the history
	nowhere bool          // it knows of what no leaf has
}

// A signer is a witness that signs one generation of a range's log.
type signer struct {
	of         wire.Range
	generation uint32
	witness    int
}

// A recorder writes down what the enclaves of one attempt, their stores and witnesses do, for the model of the log.
type recorder struct {
	*witnessedHistory
	to            *witnesses
	liars, forgot int
	honest        bool // the host

	mu        sync.Mutex
	leaves    recordedLeaves
	signed    map[signer]*recordedLeaf // newest
	run       map[wire.Range][]recorded
	manifests []*recordedManifest // numbered from 1
	told      map[*liar]int       // under which a store's enclave boots; 0: that of the history
}

// recorder begins where the history has ended.
func (h *witnessedHistory) recorder(to *witnesses) *recorder {
	r := &recorder{witnessedHistory: h, to: to, leaves: maps.Clone(h.leaves), signed: map[signer]*recordedLeaf{}, run: map[wire.Range][]recorded{}, told: map[*liar]int{}}
	for of := range wire.Range(h.ranges) {
		for i := range witnessCount {
			r.signed[signer{of, tlog.FirstGeneration, i}] = h.leaves.of([]byte(h.heads[of]))
		}
	}
	return r
}

// boots is told of the manifest that a store's enclave is given.
func (r *recorder) boots(s *liar, given []byte) {
	var in struct{ Manifest []byte }
	if err := json.Unmarshal(given, &in); err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	is, err := attestation.ParseManifest(in.Manifest)
	if err != nil {
		return // nothing boots under it
	}
	m := &recordedManifest{hash: attestation.Hash(in.Manifest), is: is}
	i := slices.IndexFunc(r.manifests, func(o *recordedManifest) bool { return o.hash == m.hash })
	if r.told[s] = i + 1; i >= 0 {
		return
	}
	m.after = 1 + slices.IndexFunc(r.manifests, func(o *recordedManifest) bool { return hex.EncodeToString(o.hash[:]) == m.is.Predecessor })
	r.manifests = append(r.manifests, m)
	r.told[s] = len(r.manifests)
	for of := range wire.Range(r.ranges) {
		if from := m.recovers(of); from != nil {
			r.addLocked(of, recorded{act: logmodel.Approve, leaf: r.leaves.at(from.Size, from.Root256()), under: len(r.manifests)})
		}
	}
}

func (r *recorder) addLocked(of wire.Range, e recorded) {
	e.when = time.Now()
	r.run[of] = append(r.run[of], e)
}

// bootLocked is the newest of an enclave.
func (r *recorder) bootLocked(s *liar, of wire.Range) *recordedBoot {
	run := r.run[of]
	for i := len(run) - 1; i >= 0; i-- {
		if run[i].act == logmodel.Start && run[i].boot.store == s {
			return run[i].boot
		}
	}
	return nil
}

// sent is told of each batch before it is stored.
func (r *recorder) sent(s *liar, b *wire.Batch) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leaves.add(b.Header)
	if l == nil {
		return // sent again
	}
	e := recorded{act: logmodel.Decide, leaf: l, boot: r.bootLocked(s, l.of)}
	if e.boot == nil || e.boot.id != l.says.Boot || e.boot.epoch != l.says.Epoch {
		e.act, e.boot = logmodel.Start, &recordedBoot{store: s, id: l.says.Boot, epoch: l.says.Epoch, under: r.told[s]}
	} else if l.says.Adopt != nil {
		e.act = logmodel.Adopt
	} else if l.says.Close != nil {
		e.act = logmodel.Close
	}
	r.addLocked(l.of, e)
}

// stored is told of each batch that is.
func (r *recorder) stored(b *wire.Batch) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.leaves[sha256.Sum256(b.Header)]; l != nil {
		r.addLocked(l.of, recorded{act: logmodel.Store, leaf: l})
	}
}

// isNowhere tells whether a leaf was sent to a store that an honest host has lost, and to nobody else.
func (r *recorder) isNowhere(l *recordedLeaf) bool {
	return r.honest && !slices.ContainsFunc(r.run[l.of], func(e recorded) bool { return e.leaf == l && (e.act == logmodel.Store || e.act == logmodel.Sign) })
}

// witness has a witness sign, and nothing else happens meanwhile.
func (r *recorder) witness(w *witness.Witness, body string, sign func() (signed bool)) {
	if r == nil {
		sign()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, checkpoint, _ := strings.Cut(body, "\n\n")
	i := r.to.seat(w)
	if l := r.leaves.of([]byte(checkpoint)); sign() && l != nil && i >= r.liars && r.signed[signer{l.of, l.generation, i}] != l {
		r.signed[signer{l.of, l.generation, i}] = l
		r.addLocked(l.of, recorded{act: logmodel.Sign, leaf: l, witness: i})
	}
}

// forget has a witness lose its memory.
func (r *recorder) forget(i int, forget func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgot++
	maps.DeleteFunc(r.signed, func(by signer, _ *recordedLeaf) bool { return by.witness == i })
	for of := range wire.Range(r.ranges) {
		r.addLocked(of, recorded{act: logmodel.Forget, witness: i})
	}
	return forget()
}

// brings is told of lines that an enclave gets.
func (r *recorder) brings(s *liar, ask wire.Witness, lines []string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l, b := r.leaves.of(ask.Checkpoint), r.bootLocked(s, ask.Range)
	if l == nil || b == nil || l.ends() || l.size <= b.brought || must(tlog.ParsePolicy(ask.Policy)).Collect(ask.Checkpoint, lines) == nil {
		return
	}
	b.brought = l.size
	r.addLocked(ask.Range, recorded{act: logmodel.Bring, boot: b, leaf: l})
}

// asks is told of a question about an organization. What it returns is told of the answer, and of a query's, how many tags it knows.
func (r *recorder) asks(s *liar, a *account, act logmodel.Act) func(got answer, tags int) {
	if r == nil {
		return func(answer, int) {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ask, since, modelled := new(recordedAsk), len(r.run[a.of]), act
	if r.mode == tlog.ModeBounded {
		modelled = logmodel.AskBounded // also of a submit: it may be lost as well
	}
	r.addLocked(a.of, recorded{act: modelled, ask: ask})
	return func(got answer, tags int) {
		if !got.served() {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		ask.told, ask.boot = true, r.bootLocked(s, a.of)
		if then := r.newest(); act == logmodel.AskSubmit {
			ask.leaf = r.movesLocked(ask.boot, a, 0, since)
			ask.nowhere = ask.leaf == nil
		} else if more := tags - then.tags[a]; more > 0 {
			ask.leaf = r.movesLocked(ask.boot, a, then.tip(a).Count+uint64(more), 0)
			ask.nowhere = ask.leaf == nil
		}
		r.addLocked(a.of, recorded{act: logmodel.Told, ask: ask})
	}
}

// movesLocked is the first leaf that brings an organization to a count of entries: of those that a boot has made or gone on from,
// recorded from a place on.
func (r *recorder) movesLocked(b *recordedBoot, a *account, count uint64, since int) (first *recordedLeaf) {
	run := r.run[a.of]
	i := len(run) - 1
	for ; i >= 0 && (run[i].boot != b || run[i].act > logmodel.Close); i-- {
	}
	if i < 0 {
		return nil
	}
	for l := run[i].leaf; l != nil; l = l.before {
		if l.moves(a, count) && slices.ContainsFunc(run[since:], func(e recorded) bool { return e.leaf == l && e.act <= logmodel.Close }) {
			first = l
		}
	}
	return first
}

// rightTicks are how many ticks the right to serve lasts in the model.
const rightTicks = 6

// follow takes the runs of all ranges through the model, or what it would be without some rules. done counts them, and beyond those
// that are too long for it.
func (r *recorder) follow(without logmodel.Rule) (done, beyond int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of := range wire.Range(r.ranges) {
		size, events := r.events(of, without)
		if size.Boots == 2 {
			continue
		}
		switch refused := logmodel.Follow(size, events); {
		case errors.Is(refused, logmodel.ErrLong):
			beyond++
		case refused != nil:
			done, err = done+1, refused
		default:
			done++
		}
	}
	return done, beyond, err
}

// events numbers what was recorded of a range; 2 boots if no enclave has begun there. Boot 0 has made all that was there before,
// of which only those leaves are told that something goes on from.
func (r *recorder) events(of wire.Range, without logmodel.Rule) (size logmodel.Size, events []logmodel.Event) {
	run := slices.DeleteFunc(slices.Clone(r.run[of]), func(e recorded) bool {
		return e.act <= logmodel.Close && e.act != logmodel.Start && r.isNowhere(e.leaf)
	})
	head := r.witnessedHistory.leaves.of([]byte(r.heads[of]))
	number, before := map[*recordedBoot]int8{}, []*recordedLeaf{head}
	var made []*recordedLeaf
	for _, e := range run {
		switch e.act {
		case logmodel.Start:
			number[e.boot] = int8(len(number)) + 1
			if b := e.leaf.before; b != nil && !slices.Contains(made, b) {
				before = append(before, b)
			}
			fallthrough
		case logmodel.Decide, logmodel.Adopt, logmodel.Close:
			made = append(made, e.leaf)
		case logmodel.Approve:
			if e.leaf != nil && !slices.Contains(made, e.leaf) {
				before = append(before, e.leaf)
			}
		}
	}
	slices.SortFunc(before, func(a, b *recordedLeaf) int { return cmp.Compare(a.size, b.size) })
	before = slices.Compact(before)
	if size = (logmodel.Size{Boots: len(number) + 2, Leaves: 1 + len(before) + len(made), Witnesses: witnessCount, Needed: witnessQuorum,
		Liars: r.liars, Amnesias: r.forgot, Right: rightTicks, Honest: r.honest, Without: without, Manifests: r.approved(of)}); len(number) == 0 || size.Leaves > math.MaxInt8 {
		return size, nil
	}
	place := map[*recordedLeaf]int8{nil: -1}
	for i, l := range slices.Concat(before, made) {
		place[l] = int8(i) + 1
	}
	under := 0
	add := func(tick int, act logmodel.Act, boot, leaf, other int8) {
		events = append(events, logmodel.Event{Tick: tick, Act: act, Boot: boot, Leaf: leaf, Other: other, Under: int8(under)})
	}
	stored := func(tick int, leaf int8) {
		if without&logmodel.StoredFirst != 0 {
			add(tick, logmodel.Store, 0, leaf, 0)
		}
	}
	add(0, logmodel.Start, 0, 0, -1)
	stored(0, 0)
	for i := range before {
		add(0, logmodel.Decide, 0, int8(i)+1, 0)
		stored(0, int8(i)+1)
	}
	for i := range witnessCount - r.liars {
		add(0, logmodel.Sign, 0, place[head], int8(i))
	}
	add(0, logmodel.Bring, 0, place[head], 0)
	const begin = rightTicks + 2 // boot 0 has waited for its turn
	add(begin, logmodel.AskSubmit, 0, place[head], 0)
	add(begin, logmodel.Told, 0, 0, 0)

	var open []*recordedAsk // by place; nil: none
	for i, e := range run {
		tick := begin + int(e.when.Sub(run[0].when)*rightTicks/r.serve)
		leaf, known := place[e.leaf]
		switch under = e.under; e.act {
		case logmodel.Start:
			under = e.boot.under
			add(tick, e.act, number[e.boot], leaf, place[e.leaf.before])
		case logmodel.Approve:
			add(tick, e.act, 0, leaf, 0)
		case logmodel.Decide, logmodel.Adopt, logmodel.Bring:
			add(tick, e.act, number[e.boot], leaf, 0)
		case logmodel.Close:
			next := int8(len(number)) + 1 // who never comes
			if n := slices.IndexFunc(run[i:], func(n recorded) bool { return n.act == logmodel.Start && n.boot.id == e.leaf.says.Close.Boot }); n >= 0 {
				next = number[run[i+n].boot]
			}
			add(tick, e.act, number[e.boot], leaf, next)
		case logmodel.Store:
			stored(tick, leaf)
		case logmodel.Sign:
			if known { // else one that has forgotten sees again what was there before
				add(tick, e.act, 0, leaf, int8(e.witness-r.liars))
			}
		case logmodel.Forget:
			if e.witness >= r.liars {
				add(tick, e.act, 0, 0, int8(e.witness-r.liars))
			}
		case logmodel.Told:
			i := slices.Index(open, e.ask)
			open[i] = nil
			add(tick, e.act, 0, 0, int8(i))
		default:
			if !e.ask.told {
				continue
			}
			i := slices.Index(open, nil)
			if i < 0 {
				i, open = len(open), append(open, nil)
			}
			open[i] = e.ask
			boot, begun := number[e.ask.boot]
			leaf := place[e.ask.leaf]
			if !begun || e.ask.nowhere {
				boot = -1
			}
			add(tick, e.act, boot, leaf, int8(i))
		}
	}
	return size, events
}

// approved are the manifests after that of the history.
func (r *recorder) approved(of wire.Range) (all []logmodel.Manifest) {
	terms := [][32]byte{r.dir.Log.Hash()}
	for _, m := range r.manifests {
		hash := m.is.Log.Hash()
		if !slices.Contains(terms, hash) {
			terms = append(terms, hash)
		}
		all = append(all, logmodel.Manifest{After: m.after, Terms: slices.Index(terms, hash), Witness: r.to.first(m.is.Log.Policy), Recovers: m.recovers(of) != nil})
	}
	return all
}

// seat is the number of a witness.
func (w *witnesses) seat(of *witness.Witness) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Index(w.sit, of)
}

// first is the number of the first witness of a policy, which names the next ones as well.
func (w *witnesses) first(policy string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.seats {
		if len(w.seats) >= i+witnessCount && policyOf(w.seats[i:i+witnessCount]) == policy {
			return i
		}
	}
	panic("a policy of others")
}
