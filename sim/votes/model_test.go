package votes_test

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// A set of users, by their numbers.
type set uint64

func (s set) has(u int) bool    { return u >= 0 && s&(1<<u) != 0 }
func (s set) with(u int) set    { return s | 1<<u }
func (s set) without(u int) set { return s &^ (1 << u) }
func (s set) count() int        { return bits.OnesCount64(uint64(s)) }
func setOf(us ...int) (s set) { // of users
	for _, u := range us {
		s = s.with(u)
	}
	return s
}

func (s set) list() (us []int) {
	for u := range 64 {
		if s.has(u) {
			us = append(us, u)
		}
	}
	return us
}

// What can be asked for.
type kind uint8

const (
	createUsers kind = iota
	createWallet
	sign
	updateQuorum
	createPolicy
	deletePolicy
	deleteUser
	renameUser
	createKey
	deleteKey
	kinds
)

// kindNames are what policies call them.
var kindNames = [kinds]string{"CREATE_USERS", "CREATE_WALLET", "SIGN_RAW_PAYLOAD", "UPDATE_ROOT_QUORUM", "CREATE_POLICY", "DELETE_POLICY",
	"DELETE_USERS", "UPDATE_USER_NAME", "CREATE_API_KEYS", "DELETE_API_KEYS"}

// What an activity is.
type status uint8

const (
	none status = iota // there is no activity
	consensusNeeded
	completed
	failed
	rejected
	statuses
)

var statusNames = [statuses]string{"(none)", "CONSENSUS_NEEDED", "COMPLETED", "FAILED", "REJECTED"}

func (s status) terminal() bool { return s >= completed }

// Error codes that matter here.
const (
	codeInvalid         = 3
	codeNotFound        = 5
	codePermission      = 7
	codePrecondition    = 9
	codeUnauthenticated = 16
)

var httpOf = map[int]int{0: 200, codeInvalid: 400, codePrecondition: 400, codeUnauthenticated: 401, codePermission: 403, codeNotFound: 404}

type key struct {
	no      int // the operation that made it; -1: the first
	created time.Duration
	life    time.Duration // 0: for ever
}

type person struct {
	name string
	gone bool
	keys []key
}

type policy struct {
	no   int // the operation that made it
	name int
	rule rule
}

type vote struct {
	user     int
	approved bool
	at       time.Duration
	keys     []int // with which he approved
}

// An ask is what a submit asks for, with every reference resolved when its body was made.
type ask struct {
	kind      kind
	no        int // the operation
	name      int // wallet, policy or user name
	user      int // whom it is about
	users     []int
	threshold int
	ref       int // wallet, policy or key, by the operation that made it; or nothing
	life      time.Duration
	rule      rule
}

// own tells whether somebody does to himself what he may unless a policy speaks.
func (in *ask) own(by int) bool {
	return (in.kind == createKey || in.kind == deleteKey) && in.user == by
}

type activity struct {
	no     int // the operation whose body made it
	ask    ask
	isVote bool // approve_activity or reject_activity
	target int  // of a vote: the activity's operation
	by     int
	status status
	code   int // why it failed
	told   int // error code of the first answer; again for the same bytes
	votes  []vote
	voted  set           // who has voted, whatever became of it
	opened time.Duration // the window's first approval
	result bool
	order  int // of its newest step among all
}

// nothing is a reference to what is not there; -1 is a user's first key.
const nothing = -2

const window = 24 * time.Hour

// ballots are the votes that are shown.
func (m *model) ballots(a *activity) []vote {
	if a.status.terminal() || m.flaw == flawRemoved {
		return a.votes
	}
	return slices.DeleteFunc(slices.Clone(a.votes), func(x vote) bool { return m.user(x.user) == nil || x.approved && !m.holds(&x) })
}

// holds tells whether an approver still has a key with which he approved.
func (m *model) holds(x *vote) bool {
	return m.flaw == flawKey && m.user(x.user) != nil || slices.ContainsFunc(x.keys, func(no int) bool { return m.knows(x.user, no) })
}

// approvals are the votes that count now.
func (m *model) approvals(a *activity) (v set) {
	if m.now >= a.opened+window && m.flaw != flawLapse {
		return 0
	}
	for _, x := range a.votes {
		if x.approved && (m.holds(&x) || m.flaw == flawRemoved) && (m.flaw == flawLapse || x.at > m.now-window && x.at >= a.opened && x.at < a.opened+window) {
			v = v.with(x.user)
		}
	}
	return v
}

func (a *activity) approvers() (v set) {
	for _, x := range a.votes {
		if x.approved {
			v = v.with(x.user)
		}
	}
	return v
}

func (a *activity) rejecters() (v set) {
	for _, x := range a.votes {
		if !x.approved {
			v = v.with(x.user)
		}
	}
	return v
}

// A flaw is a rule that a model leaves out, to see that the enclave is noticed to keep it.
type flaw string

const (
	flawNone     flaw = ""
	flawLapse    flaw = "approvals never lapse"
	flawRemoved  flaw = "a removed user's vote counts"
	flawKey      flaw = "the vote of a deleted or expired key counts"
	flawReject   flaw = "rejections end nothing"
	flawCancel   flaw = "the initiator cannot cancel"
	flawAnybody  flaw = "everybody may vote"
	flawDeny     flaw = "deny does not beat allow"
	flawRepeat   flaw = "a known body is a new activity"
	flawQuorum   flaw = "the quorum is the one of the beginning"
	flawOwn      flaw = "nothing is allowed to oneself"
	flawTerminal flaw = "votes count after the end"
	flawBody     flaw = "the activity's own body is nobody's vote"
)

// model is one organization.
type model struct {
	flaw       flaw
	now        time.Duration
	people     []person
	root       set
	threshold  int
	wallets    []ask // made, with their names
	policies   []policy
	activities []*activity // in the order they were made
	bodies     map[int]*activity
	made       map[int]*body // by the operation that sent it first
	turns      int
}

// body is what is signed. Whatever it names is looked up when it is made; -1 stands for what is not there.
type body struct {
	no      int
	verb    verb // submit, approve or reject
	ask     ask
	target  int // of a vote: an operation
	stamped time.Duration
}

func newModel() *model {
	return &model{people: []person{{name: "Root user", keys: []key{{no: -1}}}}, root: setOf(0), threshold: 1,
		bodies: map[int]*activity{}, made: map[int]*body{}}
}

// body is what an operation sends: bytes that were sent before, or new ones.
func (m *model) body(o *op) *body {
	if o.verb == again {
		return m.made[o.target]
	}
	b := &body{no: o.no, verb: o.verb, ask: o.ask, target: o.target, stamped: m.now + o.time - time.Duration(o.no)*time.Millisecond}
	b.ask.no = o.no
	there := func(u int) int {
		if u < len(m.people) {
			return u
		}
		return -1
	}
	b.ask.rule.whom, b.ask.rule.orWhom = there(b.ask.rule.whom), there(b.ask.rule.orWhom)
	b.ask.users = nil
	for _, u := range o.ask.users {
		b.ask.users = append(b.ask.users, there(u))
	}
	ref, missing := o.ask.ref, true
	switch o.ask.kind {
	case createUsers:
		missing = false
	case sign:
		missing = !slices.ContainsFunc(m.wallets, func(w ask) bool { return w.no == ref })
	case deletePolicy:
		missing = !slices.ContainsFunc(m.policies, func(p policy) bool { return p.no == ref })
	case deleteKey:
		p := m.user(o.ask.user)
		missing = p == nil || !slices.ContainsFunc(p.keys, func(k key) bool { return k.no == ref })
	}
	if o.ask.kind != createUsers {
		b.ask.user = there(o.ask.user)
	}
	if missing {
		b.ask.ref = nothing
	}
	m.made[o.no] = b
	return b
}

func (m *model) user(u int) *person {
	if u < 0 || u >= len(m.people) || m.people[u].gone {
		return nil
	}
	return &m.people[u]
}

func (m *model) active(k *key) bool { return k.life == 0 || m.now < k.created+k.life }

// knows tells whether the key stamps for the user.
func (m *model) knows(u, no int) bool {
	p := m.user(u)
	if p == nil {
		return false
	}
	i := slices.IndexFunc(p.keys, func(k key) bool { return k.no == no })
	return i >= 0 && m.active(&p.keys[i])
}

// there are the users who have not been removed.
func (m *model) there() (s set) {
	for u := range m.people {
		if m.user(u) != nil {
			s = s.with(u)
		}
	}
	return s
}

// able are the users who can still stamp.
func (m *model) able() (s set) {
	for u := range m.people {
		if p := m.user(u); p != nil && slices.ContainsFunc(p.keys, func(k key) bool { return m.active(&k) }) {
			s = s.with(u)
		}
	}
	return s
}

// forGood tells whether a user has a key that does not end.
func (m *model) forGood(u int) bool {
	p := m.user(u)
	return p != nil && slices.ContainsFunc(p.keys, func(k key) bool { return k.life == 0 })
}

type verdict uint8

const (
	allow verdict = iota
	needs         // more votes
	denyExplicit
	denyImplicit
)

// reaches tells whether user counts towards the rule, once one or two others or all have approved: it holds then, and of those
// who are needed for it he is one.
func (m *model) reaches(r *rule, a *activity, v set, user int) bool {
	others := m.able() &^ a.rejecters() &^ v
	us := others.list()
	tries := []set{0, others}
	for i, x := range us {
		tries = append(tries, setOf(x))
		for _, y := range us[i+1:] {
			tries = append(tries, setOf(x, y))
		}
	}
	for _, t := range tries {
		w := v | t
		if !w.has(user) || !r.consensus(w) {
			continue
		}
		for _, x := range append(w.without(user).list(), user) {
			if r.consensus(w.without(x)) {
				w = w.without(x)
			}
		}
		if w.has(user) {
			return true
		}
	}
	return false
}

// rootReaches tells whether enough root members have approved or still can.
func (m *model) rootReaches(a *activity, v set) bool {
	return ((v | m.able()&^a.rejecters()) & m.root).count() >= m.threshold
}

// decide is section 7 of the policy document.
func (m *model) decide(a *activity) verdict {
	v := m.approvals(a)
	if (v & m.root).count() >= m.threshold {
		return allow
	}
	byRoot := m.root.has(a.by) && m.rootReaches(a, v)
	if a.ask.kind == updateQuorum {
		if m.root.has(a.by) {
			return needs
		}
		return denyImplicit
	}
	if m.user(a.by) == nil {
		return denyImplicit // what a removed user asked for no policy carries
	}
	var allowed, wanted, denied, spoken bool
	for i := range m.policies {
		r := &m.policies[i].rule
		if !r.matches(a.ask.kind) {
			continue
		}
		if len(r.kinds) > 0 {
			spoken = true
		}
		switch holds := r.consensus(v); {
		case holds && r.deny && m.flaw == flawDeny:
		case holds && r.deny:
			denied = true
		case holds && v == 0:
			wanted = true // all have lapsed
		case holds:
			allowed = true
		case !r.deny && m.reaches(r, a, v, a.by):
			wanted = true
		}
	}
	own := m.flaw != flawOwn && a.ask.own(a.by) && v.has(a.by)
	switch {
	case denied && byRoot:
		return needs
	case denied:
		return denyExplicit
	case allowed:
		return allow
	case wanted:
		return needs
	case own && !spoken:
		return allow
	case byRoot:
		return needs
	}
	return denyImplicit
}

// mayVote tells whether a user's vote is of any weight.
func (m *model) mayVote(a *activity, u int) bool { return m.counts(a, u, m.approvals(a)) }

// counts tells whether a user's vote is of any weight beside approvals. The initiator's always is.
func (m *model) counts(a *activity, u int, v set) bool {
	if m.root.has(u) || u == a.by || m.flaw == flawAnybody {
		return true
	}
	if a.ask.kind == updateQuorum {
		return false
	}
	for i := range m.policies {
		r := &m.policies[i].rule
		if !r.deny && r.matches(a.ask.kind) && m.reaches(r, a, v.with(u), u) {
			return true
		}
	}
	return false
}

// canPass tells whether the activity can still be granted: by the root quorum, or, unless a policy denies it, by a policy that
// allows or because nothing need be asked.
func (m *model) canPass(a *activity) bool {
	v := m.approvals(a)
	if m.rootReaches(a, v) || m.flaw == flawReject {
		return true
	}
	if a.ask.kind == updateQuorum {
		return false
	}
	all := v | m.able()&^a.rejecters()
	can, spoken := false, false
	for i := range m.policies {
		r := &m.policies[i].rule
		if !r.matches(a.ask.kind) {
			continue
		}
		if r.deny && r.consensus(v) {
			return false
		}
		can = can || !r.deny && r.consensus(all)
		spoken = spoken || len(r.kinds) > 0
	}
	return can || a.ask.own(a.by) && all.has(a.by) && !spoken
}

// An answer is what the caller is told: an error code, or an activity as he sees it.
type answer struct {
	code               int
	or                 int // this code will do as well
	a                  *activity
	canApprove, reject bool
	own                *activity // this one will do as well
}

func (m *model) shown(a *activity, u int) answer {
	approved := m.approvals(a)
	if a.status.terminal() { // what has ended does not lapse
		approved = a.approvers()
	}
	may := m.counts(a, u, approved&m.there())
	return answer{a: a, canApprove: may && !approved.has(u), reject: may && !a.rejecters().has(u)}
}

// repeated answers bytes that have been sent before.
func (m *model) repeated(a *activity, u int) answer {
	if a.told != 0 {
		return answer{code: a.told, a: a}
	}
	if a.isVote {
		t := m.shown(m.bodies[a.target], u)
		if t.a.status.terminal() { // it may be too old to be found by its fingerprint
			t.own = a
		}
		return t
	}
	return m.shown(a, u)
}

// approvesByBody tells whether the activity's own body is its sender's approval.
func (m *model) approvesByBody(a *activity, b *body, u int) bool {
	return m.flaw != flawBody && !a.isVote && !a.status.terminal() && u != a.by && !a.voted.has(u) && live(b.stamped-m.now) && m.mayVote(a, u)
}

// live is the time for which a new body is taken.
func live(off time.Duration) bool { return off > -time.Hour && off <= 5*time.Minute }

// submit is a body with a new ask.
func (m *model) submit(in ask, u, key int) answer {
	a := &activity{no: in.no, ask: in, by: u, status: failed, opened: m.now, votes: []vote{{u, true, m.now, []int{key}}}}
	if code := m.shape(&in); code != 0 {
		return answer{code: code}
	}
	m.keep(a)
	switch m.decide(a) {
	case allow:
		m.execute(a)
		a.told = a.code
	case needs:
		a.status = consensusNeeded
	default:
		a.code, a.told = codePermission, codePermission
	}
	if a.told != 0 {
		return answer{code: a.told, a: a}
	}
	return m.shown(a, u)
}

func (m *model) keep(a *activity) {
	m.touch(a)
	m.activities = append(m.activities, a)
	m.bodies[a.no] = a
}

func (m *model) touch(a *activity) {
	m.turns++
	a.order = m.turns
}

// listed are the activities of one status, or all: those with the newest step first.
func (m *model) listed(s status) (as []*activity) {
	for _, a := range m.activities {
		if s == none || a.status == s {
			as = append(as, a)
		}
	}
	slices.SortFunc(as, func(a, b *activity) int { return b.order - a.order })
	return as
}

// shape is what is wrong with the body by itself: then there is no activity.
func (m *model) shape(in *ask) int {
	if in.kind == updateQuorum && (in.threshold < 1 || in.threshold > len(in.users)) {
		return codeInvalid
	}
	return 0
}

// vote is approve_activity or reject_activity. One that is refused leaves nothing, nor
// does one that changes nothing.
func (m *model) vote(no, target, u, key int, approve bool) answer {
	a := m.bodies[target]
	switch {
	case a == nil:
		return answer{code: codeNotFound}
	case a.status.terminal() && m.flaw != flawTerminal:
		return answer{code: codePrecondition, or: codeNotFound}
	case !m.mayVote(a, u):
		return answer{code: codePermission}
	}
	live := approve && m.approvals(a).has(u)
	i := slices.IndexFunc(a.votes, func(x vote) bool { return x.user == u })
	twice := a.rejecters().has(u)
	if twice && (approve || m.canPass(a)) || live && slices.Contains(a.votes[i].keys, key) {
		return m.shown(a, u) // a second no looks again whether it can still pass
	}
	m.keep(&activity{no: no, isVote: true, target: target, by: u, status: completed, result: true, votes: []vote{{user: u, approved: true, at: m.now}}, opened: m.now})
	m.touch(a)
	switch {
	case twice:
		a.votes = m.ballots(a)
	case live: // another key, but no other vote
		a.votes = m.ballots(a)
		i = slices.IndexFunc(a.votes, func(x vote) bool { return x.user == u })
		a.votes[i].keys = append(slices.Clone(a.votes[i].keys), key)
	default:
		m.cast(a, u, key, approve)
		return m.shown(a, u)
	}
	m.follow(a, u, approve)
	return m.shown(a, u)
}

// cast adds a vote, in the place of an earlier one, and does what comes of it.
func (m *model) cast(a *activity, u, key int, approve bool) {
	a.votes = slices.DeleteFunc(m.ballots(a), func(x vote) bool { return x.user == u })
	if approve && m.now >= a.opened+window {
		a.opened = m.now
	}
	a.votes, a.voted = append(a.votes, vote{u, approve, m.now, []int{key}}), a.voted.with(u)
	m.follow(a, u, approve)
}

// follow is what comes of a vote.
func (m *model) follow(a *activity, u int, approve bool) {
	switch {
	case !approve && (u == a.by && m.flaw != flawCancel || !m.canPass(a)):
		a.status = rejected
	case approve:
		switch m.decide(a) {
		case allow:
			m.execute(a)
		case denyExplicit:
			a.status, a.code = failed, codePermission
		}
	}
}

// execute does what was asked for, or fails and does nothing.
func (m *model) execute(a *activity) {
	a.code = m.effect(&a.ask)
	a.status, a.result = completed, true
	if a.code != 0 {
		a.status, a.result = failed, false
	}
}

func (m *model) effect(in *ask) int {
	named := func(name string) bool {
		return slices.ContainsFunc(m.people, func(p person) bool { return !p.gone && p.name == name })
	}
	switch in.kind {
	case createUsers:
		for u := len(m.people); u < in.user; u++ {
			m.people = append(m.people, person{name: fmt.Sprintf("user %d", u), keys: []key{{no: -1, created: m.now}}})
		}
	case createWallet:
		if slices.ContainsFunc(m.wallets, func(w ask) bool { return w.name == in.name }) {
			return codeInvalid
		}
		m.wallets = append(m.wallets, *in)
	case sign:
		if !slices.ContainsFunc(m.wallets, func(w ask) bool { return w.no == in.ref }) {
			return codeNotFound
		}
	case updateQuorum:
		able := 0
		for _, u := range in.users {
			if m.user(u) == nil {
				return codeInvalid
			}
			if m.forGood(u) {
				able++
			}
		}
		if able < in.threshold {
			return codeInvalid
		}
		if m.flaw == flawQuorum && in.no > 5 {
			return 0
		}
		m.root, m.threshold = setOf(in.users...), in.threshold
	case createPolicy:
		if slices.ContainsFunc(m.policies, func(p policy) bool { return p.name == in.name }) {
			return codeInvalid
		}
		m.policies = append(m.policies, policy{in.no, in.name, in.rule})
	case deletePolicy:
		i := slices.IndexFunc(m.policies, func(p policy) bool { return p.no == in.ref })
		if i < 0 {
			return codeNotFound
		}
		m.policies = slices.Delete(slices.Clone(m.policies), i, i+1)
	case deleteUser:
		switch {
		case m.user(in.user) == nil:
			return codeNotFound
		case m.root.has(in.user):
			return codeInvalid
		}
		m.people[in.user].gone = true // his votes on what waits are shown and count no more
	case renameUser:
		p, name := m.user(in.user), nameOf(in.name)
		switch {
		case p == nil:
			return codeNotFound
		case p.name != name && named(name):
			return codeInvalid
		}
		p.name = name
	case createKey:
		p := m.user(in.user)
		if p == nil {
			return codeNotFound
		}
		p.keys = append(p.keys, key{in.no, m.now, in.life})
	case deleteKey:
		p := m.user(in.user)
		if p == nil {
			return codeNotFound
		}
		i := slices.IndexFunc(p.keys, func(k key) bool { return k.no == in.ref })
		if i < 0 {
			return codeNotFound
		}
		old := p.keys
		p.keys = slices.Delete(slices.Clone(old), i, i+1)
		if m.root.has(in.user) {
			able := 0
			for _, u := range m.root.list() {
				if m.forGood(u) {
					able++
				}
			}
			if old[i].life == 0 && !m.forGood(in.user) && able < m.threshold {
				p.keys = old
				return codeInvalid
			}
		}
	}
	return 0
}

func nameOf(i int) string { return fmt.Sprintf("name %d", i) }

// step is one operation of a history.
func (m *model) step(o *op) answer {
	switch o.verb {
	case pass:
		m.now += o.time
		return answer{}
	case read, list:
		if !m.knows(o.by, o.key) {
			return answer{code: codeUnauthenticated}
		}
		a := m.bodies[o.target]
		if o.verb == list {
			return answer{}
		}
		if a == nil {
			return answer{code: codeNotFound}
		}
		return m.shown(a, o.by)
	}
	b := m.body(o)
	if !m.knows(o.by, o.key) {
		return answer{code: codeUnauthenticated}
	}
	if a := m.bodies[b.no]; a != nil && m.flaw != flawRepeat {
		if m.approvesByBody(a, b, o.by) {
			m.touch(a)
			m.cast(a, o.by, o.key, true)
			return m.shown(a, o.by)
		}
		return m.repeated(a, o.by)
	}
	if !live(b.stamped - m.now) {
		return answer{code: codeInvalid}
	}
	if b.verb == submit {
		return m.submit(b.ask, o.by, o.key)
	}
	return m.vote(b.no, b.target, o.by, o.key, b.verb == approve)
}
