// Package logmodel is the witnessed log of a range as a model: a few boots, a few
// leaves, some witnesses, and a host that keeps everything, shows any of it to
// anybody, and delays or drops what it likes. Explore walks through every state that
// can come of it and tells the first history that breaks a promise.
//
// The promises are those that clients rely on:
//
//   - What was answered lies in one history, and whoever answers later knows it, in
//     whatever generation of the log; but for what a recovery has lost, which begins with
//     the very leaf that operators have named in public.
//   - Of one generation no two heads that do not fit have a quorum.
//   - Who boots under the manifest of a recovery, or one after it, answers nothing of a
//     generation before.
//   - Nothing that no enclave has made is under an answer.
//   - With an honest host a crash leaves no witness ahead of the store, or no boot
//     could be cosigned again.
//
// Follow takes what was recorded of a real log through the same steps.
//
// Each rule that the promises need can be left out, to see that they need it. The
// rules' numbers are those of the log's description in the design.
//
// # What a recovery leaves open
//
// A change of witnesses closes the generation before: the old witnesses have cosigned its last leaf when the new ones see
// the first of the next. A recovery closes nothing, since what its witnesses have seen is not there to go on from. An
// enclave of before that still runs, or that a host starts once more under a manifest of before, goes on with the old
// generation and gets its quorum. Then this is promised:
//
//   - To who was told of the new generation and believes nothing of an earlier one (Known): all of the above.
//   - To who knows the old generation only: that it is one history, in which whoever answers knows what was answered
//     in it, for as long as it is served. Not that it is the newest. Not that what he is told will last: all of it above
//     the head that operators named is lost, and what was decided after they had counted is in no number that they publish.
//     Not that anything of the new generation is heeded: a credential that was removed there still signs here.
//
// The last concerns those who know better, too, for whoever has that credential need not believe anything. And Known can be kept by who
// looks at log proofs: signed replies and app proofs name no generation, only a manifest. What ends it are the old witnesses. Where they sign
// nothing of a generation any more before the enclave that recovers it boots (Size.Retired), an answer of the old one
// comes too early to miss anything of the new one, be it believed or not; but a reply that says that something was done
// which the recovery has lost may still come late. Enough of them are all that would make a quorum impossible with every
// liar signing: n - k + 1 + f.
//
// # What operators must not approve
//
// The rules hold what enclaves and witnesses do. Of what a threshold of operators signs they need besides
// (TestWhatOperatorsMustNotApprove has the attacks):
//
//   - A recovery comes with terms of its own: its log.generation is the one that begins, though the witnesses stay. Else a
//     later manifest, which says nothing of the recovery, fits the log from before it as well as the new one: an enclave under it
//     serves what was given up, beside the new generation; and if it brings other witnesses, it begins the same generation once
//     more, with a quorum.
//   - Of two manifests after the same one that begin a generation with different witnesses, one at most is approved. It is the host
//     that says that a change of witnesses has failed; a recovery then comes after its manifest and not beside it.
package logmodel

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// A Rule is one that the promises do not hold without.
type Rule uint

// The rules.
const (
	// Quorum: 2k - n > f, so that of two histories one gets a quorum (1).
	Quorum Rule = 1 << iota
	// StoredFirst: a leaf is stored before a witness sees it (2).
	StoredFirst
	// LoggedFirst: a decision is answered when it is under a quorum (2).
	LoggedFirst
	// MAC: what lies beyond the newest signed checkpoint is believed by its MAC (3).
	MAC
	// SentRight: the right to serve counts from when its leaf was sent (8).
	SentRight
	// BootWait: a new boot waits until the right of the one before has run out (9).
	BootWait
	// CloseRight: a boot names a successor, which need not wait, only if it has
	// itself waited or been named (10).
	CloseRight
	// Closed: other witnesses take over a log that those before have cosigned closed, for these terms (5.5).
	Closed
	// Generation: witnesses are not brought to a log of a generation that they are not for.
	Generation
	// Recovered: a recovery begins with the very head that operators named (5.6).
	Recovered
	// Known: who was told of a generation believes nothing of an earlier one (5.6). It is the verifier's to keep.
	Known
)

var ruleNames = []string{"quorum", "stored first", "logged first", "mac", "sent right", "boot wait", "close right", "closed", "generation", "recovered", "known"}

func (r Rule) String() string {
	var names []string
	for i, n := range ruleNames {
		if r&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// A Manifest is one that operators approve after the first, whose number is 0 and whose terms and witness are 0.
type Manifest struct {
	After int // the manifest before it
	// Terms are whose cosignatures it takes; those of another number are for one generation more. Witness is the first of
	// their n: the same, some or none of those before.
	Terms, Witness int
	// Recovers: a log is gone on with that ends with one leaf, any, which operators name.
	Recovers bool
}

// A Size bounds a model. At most 6 boots, 32 leaves, 12 witnesses, 3 generations.
type Size struct {
	Boots, Leaves     int
	Witnesses, Needed int  // n and k
	Liars             int  // witnesses that sign whatever the host likes
	Amnesias          int  // how often an honest witness loses its memory
	Right             int  // W, in ticks
	Honest            bool // the host shows each boot the newest store, and forges nothing
	Without           Rule // rules left out

	Manifests []Manifest // in the order in which they are approved: whenever the first boot under each comes
	// Retired: once operators have named with which leaf a generation begins, no witness signs an earlier one. The system
	// leaves that to those who run the witnesses.
	Retired bool
}

// Sound tells whether the size keeps the rule for quorums: liars and witnesses that
// lose their memory count alike.
func (s Size) Sound() bool { return 2*s.Needed-s.Witnesses > s.Liars+s.Amnesias }

const (
	maxBoots       = 6
	maxLeaves      = 32 // as many as signed and answered have bits
	maxWitnesses   = 12
	maxManifests   = 4
	maxGenerations = 3
	none           = -1 // the empty log
	unnamed        = -2 // what a recovery begins with is not said yet
)

type leafKind uint8

const (
	bootLeaf leafKind = iota
	batchLeaf
	closeLeaf
	forgedLeaf
	// endLeaf closes a generation, and adoptLeaf is the first of the next one.
	endLeaf
	adoptLeaf
)

// A leaf stands for the history that ends with it.
type leaf struct {
	before int8 // the leaf before
	kind   leafKind
	boot   int8 // whose
	names  int8 // the next boot, in a close leaf; the next terms, in an end leaf
	age    int8 // ticks since it was sent, W at most
	stored bool

	generation, terms int8 // in force
}

// A boot knows its own leaves and what it was told of them.
type boot struct {
	quorum, closed, named bool
	head, logged          int8 // its newest leaf; its newest under a quorum
	right, wait           int8 // ticks
	manifest              int8
}

// A state is one moment. It has no gaps between its fields: they would take half of the time. A witness that is
// honest signs what goes on from where it stands.
type state struct {
	answered  uint32                             // leaves that answers told of
	signed    [maxWitnesses]uint32               // leaves whose cosignature the host has
	at        [maxWitnesses][maxGenerations]int8 // where witnesses stand
	heads     [maxManifests]int8                 // what recoveries begin with
	leaves    [maxLeaves]leaf
	boots     [maxBoots]boot
	count     int8 // leaves
	started   int8 // boots
	forgotten int8 // memories lost
}

// A step leads from one state to the next.
type step struct {
	form  string
	args  [5]int8 // as many as the form wants
	broke string  // the promise that does not hold, if any
	to    state
}

func (s *step) text() string {
	args := make([]any, strings.Count(s.form, "%d"))
	for i := range args {
		args[i] = s.args[i]
	}
	return fmt.Sprintf(s.form, args...)
}

// A Result is what an exploration found.
type Result struct {
	States  int
	Broken  string   // a promise; empty if all hold
	History []string // the steps that lead there
}

// Explore walks through all states, nearest first, and ends at the first broken promise
// or after limit states, with an error then.
func Explore(size Size, limit int) (Result, error) {
	if !size.fits() || size.Liars+size.Needed < 1 {
		return Result{}, fmt.Errorf("logmodel: no such size")
	}
	if !size.Sound() && size.Without&Quorum == 0 {
		return Result{}, fmt.Errorf("logmodel: %d of %d with %d liars is no quorum", size.Needed, size.Witnesses, size.Liars+size.Amnesias)
	}
	first := empty()
	// Of states that are done with, only a hash is kept, and which step of which state
	// led there.
	type origin struct {
		from int
		step uint8
	}
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{maphash.Comparable(seed, first): {}}
	origins := []origin{{from: none}}
	history := func(i int) (path []uint8) {
		for ; origins[i].from != none; i = origins[i].from {
			path = append(path, origins[i].step)
		}
		slices.Reverse(path)
		return path
	}
	m := newMoment(&size, first)
	done := 0
	for near, far := []state{first}, []state(nil); len(near) > 0; near, far = far, near[:0] {
		for _, m.state = range near {
			m.next = m.next[:0]
			m.steps()
			for i := range m.next {
				next := &m.next[i]
				if next.broke != "" {
					return Result{len(origins), next.broke, texts(&size, append(history(done), uint8(i)))}, nil
				}
				hash := maphash.Comparable(seed, next.to)
				if _, known := seen[hash]; known {
					continue
				}
				if len(origins) == limit {
					return Result{States: limit}, fmt.Errorf("logmodel: more than %d states", limit)
				}
				seen[hash] = struct{}{}
				far, origins = append(far, next.to), append(origins, origin{done, uint8(i)})
			}
			done++
		}
	}
	return Result{States: len(origins)}, nil
}

// texts tells of the steps of a path.
func texts(size *Size, path []uint8) (told []string) {
	m := newMoment(size, empty())
	for _, i := range path {
		m.next = nil
		m.steps()
		told, m.state = append(told, m.next[i].text()), m.next[i].to
	}
	return told
}

// empty is the state before anything has happened.
func empty() (s state) {
	for i := range s.at {
		for g := range s.at[i] {
			s.at[i][g] = none
		}
	}
	for i := range s.heads {
		s.heads[i] = unnamed
	}
	return s
}

// fits tells whether states have room for a size.
func (s *Size) fits() bool {
	if s.Boots > maxBoots || s.Leaves > maxLeaves || s.Witnesses > maxWitnesses || len(s.Manifests) >= maxManifests {
		return false
	}
	first := [maxManifests]int{1: none, none, none} // witnesses, by terms
	for i, is := range s.Manifests {
		if is.After < 0 || is.After > i || is.Terms < 0 || is.Terms >= maxManifests || is.Witness < 0 || is.Witness+s.Witnesses > maxWitnesses {
			return false
		}
		if first[is.Terms] != none && first[is.Terms] != is.Witness {
			return false
		}
		first[is.Terms] = is.Witness
	}
	return true
}

// sortWitnesses makes states the same that differ in the order of witnesses, which means nothing among those of the same terms.
func (m *moment) sortWitnesses(s *state) {
	for i := 1; i < m.witnesses; i++ {
		for j := i; j > 0 && m.sits[j] == m.sits[j-1]; j-- {
			if c := slices.Compare(s.at[j][:], s.at[j-1][:]); c > 0 || c == 0 && s.signed[j] >= s.signed[j-1] {
				break
			}
			s.at[j], s.at[j-1] = s.at[j-1], s.at[j]
			s.signed[j], s.signed[j-1] = s.signed[j-1], s.signed[j]
		}
	}
}

// extends tells whether leaf a lies at or below leaf b.
func (s *state) extends(a, b int8) bool {
	for ; a != b; a = s.leaves[a].before {
		if a == none {
			return false
		}
	}
	return true
}

// A moment is a state from which steps are taken.
type moment struct {
	size *Size
	state
	next []step
	// followed is of a recorded run: witnesses are told apart, and steps that change nothing are not left out.
	followed bool

	witnesses int                 // that are no liars, of all terms
	sits      [maxWitnesses]uint8 // for which terms a witness sits, a bit each
	first     [maxManifests]int   // witness, by terms
	from      [maxManifests]int8  // the first generation that a manifest's terms are for
}

func newMoment(size *Size, s state) moment {
	m := moment{size: size, state: s}
	for i := range len(size.Manifests) + 1 {
		is := m.manifest(int8(i))
		if m.from[i] = m.from[is.After]; is.Terms != m.manifest(int8(is.After)).Terms {
			m.from[i]++
		}
		m.first[is.Terms] = is.Witness
		for w := is.Witness; w < is.Witness+size.Witnesses-size.Liars; w++ {
			m.sits[w] |= 1 << is.Terms
			m.witnesses = max(m.witnesses, w+1)
		}
	}
	return m
}

func (m *moment) manifest(i int8) Manifest {
	if i == 0 {
		return Manifest{}
	}
	return m.size.Manifests[i-1]
}

// What steps say of themselves, of those that recorded runs have too.
const (
	startsOn      = "boot %d starts on leaf %d: leaf %d, under manifest %d"
	startsNaming  = "boot %d starts on leaf %d: leaf %d, under manifest %d, which recovers leaf %d"
	adopts        = "boot %d adopts what is closed: leaf %d"
	decides       = "boot %d decides: leaf %d"
	closesFor     = "boot %d closes for boot %d: leaf %d"
	hasQuorum     = "boot %d has a quorum for leaf %d"
	answersBound  = "boot %d answers a query, bounded, at leaf %d"
	answersQuery  = "boot %d answers a query at leaf %d"
	answersSubmit = "boot %d answers what it decided in leaf %d"
	signs         = "a witness signs leaf %d"
	forgets       = "a witness forgets that it has seen leaf %d"
	isStored      = "leaf %d is stored"
)

func (m *moment) off(r Rule) bool { return m.size.Without&r != 0 }

func (m *moment) step(to *state, broke, form string, args ...int8) {
	m.next = append(m.next, step{form: form, broke: broke, to: *to})
	s := &m.next[len(m.next)-1]
	copy(s.args[:], args)
	if !m.followed {
		m.sortWitnesses(&s.to)
	}
}

func (m *moment) steps() {
	m.tick()
	m.start()
	for b := range int8(m.started) {
		if !m.boots[b].closed {
			m.append(b)
			m.answer(b)
		}
		m.deliver(b)
	}
	m.cosign()
	m.store()
}

// tick lets time pass, for every enclave alike.
func (m *moment) tick() {
	to := m.state
	for i := range to.leaves[:m.count] {
		to.leaves[i].age = min(to.leaves[i].age+1, int8(m.size.Right))
	}
	for i := range to.boots[:m.started] {
		b := &to.boots[i]
		b.right, b.wait = max(b.right-1, 0), max(b.wait-1, 0)
	}
	m.step(&to, "", "a tick")
}

// add puts a leaf behind another. There may be no room for it.
func (m *moment) add(to *state, l leaf) (int8, bool) {
	if int(to.count) == m.size.Leaves {
		return none, false
	}
	l.stored = !m.off(StoredFirst)
	if l.before != none {
		before := &to.leaves[l.before]
		l.generation, l.terms = before.generation, before.terms
	}
	switch l.kind {
	case adoptLeaf:
		if l.generation++; l.generation == maxGenerations {
			return none, false
		}
		fallthrough
	case bootLeaf:
		l.terms = int8(m.manifest(to.boots[l.boot].manifest).Terms)
	}
	to.leaves[to.count] = l
	to.count++
	return to.count - 1, true
}

// start boots the next enclave under any manifest on any history that the host has, one of its own
// making behind it where nothing tells them apart.
func (m *moment) start() {
	if int(m.started) == m.size.Boots {
		return
	}
	for i := range len(m.size.Manifests) + 1 {
		under := int8(i)
		switch is := m.manifest(under); {
		case m.manifest(int8(is.After)).Recovers && m.heads[is.After] == unnamed:
			continue // a manifest comes after it that is not approved
		case is.Recovers && m.heads[under] == unnamed && !m.followed:
			for head := range m.count {
				to := m.state
				to.heads[under] = head
				m.startUnder(to, under, startsNaming)
			}
			continue
		}
		m.startUnder(m.state, under, startsOn)
	}
}

func (m *moment) startUnder(s state, under int8, form string) {
	for on := int8(none); on < m.count; on++ {
		if m.size.Honest && !m.newest(on) {
			continue
		}
		m.startOn(s, under, on, form)
		if m.off(MAC) && !m.size.Honest {
			to := s
			if forged, ok := m.add(&to, leaf{before: on, kind: forgedLeaf, boot: none}); ok {
				m.startOn(to, under, forged, "boot %d starts on leaf %d, which the host made: leaf %d, under manifest %d")
			}
		}
	}
}

// begins tells with which leaf a boot under a manifest goes on from a history, if it does.
func (m *moment) begins(s *state, under, on int8) (kind leafKind, goes bool) {
	is := m.manifest(under)
	from, terms := m.from[under], int8(is.Terms)
	if m.off(Generation) {
		from = 0
	}
	if on == none {
		return bootLeaf, !is.Recovers && from == 0
	}
	l := &s.leaves[on]
	if head := s.heads[under]; is.Recovers && head == unnamed {
		return 0, false
	} else if is.Recovers && l.generation <= s.leaves[head].generation {
		return adoptLeaf, (on == head || m.off(Recovered)) && from <= l.generation+1
	}
	if left := int8(m.manifest(int8(is.After)).Terms); left != terms && l.terms == left {
		switch {
		case l.kind != endLeaf:
			return endLeaf, from <= l.generation+1
		case l.names != terms && !m.off(Closed):
			return 0, false
		}
		return adoptLeaf, from <= l.generation+1 && m.isClosed(s, on)
	}
	return bootLeaf, l.kind != endLeaf && l.terms == terms && from <= l.generation
}

// isClosed tells whether those who witness a log have cosigned the leaf that closes it.
func (m *moment) isClosed(s *state, end int8) bool { return m.off(Closed) || m.cosigned(s, end) }

// cosigned tells whether a quorum of those whom a leaf's terms name has signed it.
func (m *moment) cosigned(s *state, x int8) bool {
	signed, first := m.size.Liars, m.first[s.leaves[x].terms]
	for _, leaves := range s.signed[first : first+m.size.Witnesses-m.size.Liars] {
		signed += int(leaves >> x & 1)
	}
	return signed >= m.size.Needed
}

// newest tells whether a leaf is the last stored one. An honest host has one store, so
// that a boot which is left behind gets no further leaf stored.
func (m *moment) newest(on int8) bool {
	last := int8(none)
	for i := range m.leaves[:m.count] {
		if m.leaves[i].stored {
			last = int8(i)
		}
	}
	return on == last
}

func (m *moment) startOn(to state, under, on int8, form string) {
	kind, goes := m.begins(&to, under, on)
	if !goes {
		return
	}
	b := to.started
	to.boots[b].manifest = under
	own, ok := m.add(&to, leaf{before: on, kind: kind, boot: b, names: int8(m.manifest(under).Terms)})
	if !ok {
		return
	}
	// Nobody names who recovers: what it begins with was there before it.
	named := on != none && kind != adoptLeaf && to.leaves[on].kind == closeLeaf && to.leaves[on].names == b
	to.boots[b] = boot{head: own, logged: none, named: named, manifest: under}
	to.started++
	broke := ""
	for w := range m.witnesses {
		for _, at := range to.at[w] {
			if m.size.Honest && at != none && !to.extends(own, at) {
				broke = fmt.Sprintf("a witness has seen leaf %d, which the store does not have", at)
			}
		}
	}
	m.step(&to, broke, form, b, on, own, under, to.heads[under])
}

// append lets a boot decide: a batch, or its end and who comes after it.
func (m *moment) append(b int8) {
	is := &m.boots[b]
	if m.size.Honest && !m.newest(is.head) && !m.off(StoredFirst) {
		return
	}
	to := m.state
	if m.leaves[is.head].kind == endLeaf {
		if own, ok := m.add(&to, leaf{before: is.head, kind: adoptLeaf, boot: b}); ok && m.isClosed(&to, is.head) {
			to.boots[b].head = own
			m.step(&to, "", adopts, b, own)
		}
		return
	}
	if own, ok := m.add(&to, leaf{before: is.head, kind: batchLeaf, boot: b}); ok {
		to.boots[b].head = own
		m.step(&to, "", decides, b, own)
	}
	if (!is.quorum || is.wait > 0) && !m.off(CloseRight) {
		return
	}
	for next := m.started; next == m.started || int(next) < m.size.Boots; next++ {
		to = m.state
		if own, ok := m.add(&to, leaf{before: is.head, kind: closeLeaf, boot: b, names: next}); ok {
			to.boots[b].head, to.boots[b].closed = own, true
			m.step(&to, "", closesFor, b, next, own)
		}
	}
}

// cosign lets a witness sign any leaf that was sent, and an honest one forget. What counts for nothing it does not sign.
func (m *moment) cosign() {
	for w := range m.witnesses {
		if !m.followed && w > 0 && m.sits[w] == m.sits[w-1] && m.at[w] == m.at[w-1] && m.signed[w] == m.signed[w-1] {
			continue // as good as the one before
		}
		for x := range m.count {
			l := &m.leaves[x]
			at := m.at[w][l.generation]
			if l.kind == forgedLeaf || m.sits[w]>>l.terms&1 == 0 || m.isRetired(l.generation) || x == at || at != none && !m.extends(x, at) {
				continue
			}
			to := m.state
			to.at[w][l.generation] = x
			to.signed[w] |= 1 << x
			m.step(&to, "", signs, x, int8(w))
		}
		if int(m.forgotten) == m.size.Amnesias {
			continue
		}
		if at := slices.Max(m.at[w][:]); at != none {
			to := m.state
			to.at[w] = empty().at[w]
			to.forgotten++
			m.step(&to, "", forgets, at, int8(w))
		}
	}
}

// isRetired tells whether operators have seen to it that nobody signs a generation any more.
func (m *moment) isRetired(generation int8) bool {
	return m.size.Retired && slices.ContainsFunc(m.heads[:], func(head int8) bool { return head != unnamed && generation <= m.leaves[head].generation })
}

// store lets an honest host store the oldest leaf that is not, if it is sent before.
func (m *moment) store() {
	if !m.off(StoredFirst) {
		return
	}
	for x := range m.count {
		if before := m.leaves[x].before; !m.leaves[x].stored && (before == none || m.leaves[before].stored) {
			if m.size.Honest && before != none && !m.newest(before) {
				continue
			}
			to := m.state
			to.leaves[x].stored = true
			m.step(&to, "", isStored, x)
		}
	}
}

// deliver brings a boot the cosignatures of one of its leaves.
func (m *moment) deliver(b int8) {
	is := &m.boots[b]
	for x := range m.count {
		kind := m.leaves[x].kind
		if m.leaves[x].boot != b || kind == forgedLeaf || kind == endLeaf || is.logged != none && m.extends(is.logged, x) || !m.cosigned(&m.state, x) {
			continue
		}
		to := m.state
		now := &to.boots[b]
		now.logged = x
		right := int8(m.size.Right) - m.leaves[x].age
		if m.off(SentRight) {
			right = int8(m.size.Right)
		}
		now.right = max(now.right, right)
		if !now.quorum {
			now.quorum = true
			if !now.named && !m.off(BootWait) {
				now.wait = int8(m.size.Right)
			}
		}
		m.step(&to, m.twice(x), hasQuorum, b, x)
	}
}

// answer lets a boot answer: a query, which is to know whatever was answered before, or
// a decision, which is to lie in one history with it.
func (m *moment) answer(b int8) {
	is := &m.boots[b]
	if !is.quorum || is.wait > 0 {
		return
	}
	if is.right > 0 {
		// In bounded mode it does not wait for a quorum: what it tells of may be lost,
		// but what others have told of it knows.
		m.step(&m.state, m.stale(is.head), answersBound, b, is.head)
		// Else it tells of nothing that lies beyond its newest quorum.
		to := m.state
		to.answered |= 1 << is.logged
		m.step(&to, m.told(is.logged, m.stale(is.logged)), answersQuery, b, is.logged)
	}
	for x := range m.count {
		l := &m.leaves[x]
		if l.boot != b || l.kind != batchLeaf || m.answered&(1<<x) != 0 && !m.followed || !m.off(LoggedFirst) && !m.extends(is.logged, x) {
			continue
		}
		to := m.state
		to.answered |= 1 << x
		m.step(&to, m.told(x, m.fork(x)), answersSubmit, b, x)
	}
}

// twice says that there is another head of leaf x's generation with a quorum.
func (m *moment) twice(x int8) string {
	if len(m.size.Manifests) == 0 {
		return "" // an answer at both breaks another promise
	}
	for y := range m.count {
		if l := &m.leaves[y]; l.generation == m.leaves[x].generation && l.kind != forgedLeaf && !m.extends(x, y) && !m.extends(y, x) && m.cosigned(&m.state, y) {
			return fmt.Sprintf("leaf %d of the same generation has a quorum, too", y)
		}
	}
	return ""
}

// stale says that an answer at leaf x does not know of another. Whoever was told of a later generation does not believe it
// in any case.
func (m *moment) stale(x int8) string {
	for y := range m.count {
		if m.answered&(1<<y) != 0 && !m.extends(x, y) && !m.isLost(y, x) && (m.off(Known) || !m.isLost(x, y)) {
			return fmt.Sprintf("it does not know of leaf %d, which was answered before", y)
		}
	}
	return m.foregone(x)
}

// fork says that leaf x and one that was answered lie in two histories. What is lost may still be told of to who has waited for
// it: it tells of nothing else.
func (m *moment) fork(x int8) string {
	for y := range m.count {
		if m.answered&(1<<y) != 0 && !m.extends(x, y) && !m.extends(y, x) && !m.isLost(y, x) && !m.isLost(x, y) {
			return fmt.Sprintf("leaf %d, which was answered before, is in another history", y)
		}
	}
	return m.foregone(x)
}

// foregone says that an answer at leaf x is of a generation that its boot's manifest comes after.
func (m *moment) foregone(x int8) string {
	l := &m.leaves[x]
	for i := m.boots[l.boot].manifest; i != 0; i = int8(m.manifest(i).After) {
		if head := m.heads[i]; m.manifest(i).Recovers && head != unnamed && l.generation <= m.leaves[head].generation {
			return fmt.Sprintf("leaf %d is of a generation that was recovered by manifest %d, which the boot knows", x, i)
		}
	}
	return ""
}

// isLost tells whether leaf y, which leaf x does not extend, was lost by a recovery under x: of an earlier generation, that begins
// with the leaf that operators have named.
func (m *moment) isLost(y, x int8) bool {
	if len(m.size.Manifests) == 0 {
		return false
	}
	for ; x != none && m.leaves[x].generation > m.leaves[y].generation; x = m.leaves[x].before {
		if l := &m.leaves[x]; l.kind == adoptLeaf && m.heads[m.boots[l.boot].manifest] == l.before {
			return true
		}
	}
	return false
}

// told adds to what is wrong with an answer at leaf x that something under it is
// nobody's.
func (m *moment) told(x int8, broke string) string {
	for ; x != none && broke == ""; x = m.leaves[x].before {
		if m.leaves[x].kind == forgedLeaf {
			broke = fmt.Sprintf("no enclave has made leaf %d", x)
		}
	}
	return broke
}
