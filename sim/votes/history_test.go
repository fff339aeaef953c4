package votes_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

type verb uint8

const (
	submit verb = iota
	approve
	reject
	again // bytes that were sent before, stamped anew
	read  // get_activity
	list  // list_activities
	pass  // the clock goes on
	verbs
)

var verbNames = [verbs]string{"submit", "approve", "reject", "again", "read", "list", "pass"}

// An op is one operation of a history. It names other operations by their numbers, so that what is left of a history from
// which operations were taken is still a history.
type op struct {
	no      int
	verb    verb
	by, key int // who stamps, with the key that this operation made; -1: the first one
	ask     ask
	target  int           // the operation that is voted on, repeated or read
	status  status        // of a list: only these; none: all
	time    time.Duration // of pass: how long; else how far the timestamp is off
}

func (o *op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%2d  %s", o.no, verbNames[o.verb])
	if o.verb == pass {
		return fmt.Sprintf("%s %s", b.String(), o.time)
	}
	switch o.verb {
	case submit:
		fmt.Fprintf(&b, " %s", o.ask.String())
	case list:
		fmt.Fprintf(&b, " %s", statusNames[o.status])
	default:
		fmt.Fprintf(&b, " %d", o.target)
	}
	fmt.Fprintf(&b, "  by user %d", o.by)
	if o.key >= 0 {
		fmt.Fprintf(&b, " with the key of %d", o.key)
	}
	if o.time != 0 {
		fmt.Fprintf(&b, "  timestamp off by %s", o.time)
	}
	return b.String()
}

func (in *ask) String() string {
	k := kindNames[in.kind]
	switch in.kind {
	case createUsers:
		return fmt.Sprintf("%s up to user %d", k, in.user-1)
	case createWallet:
		return fmt.Sprintf("%s %s", k, nameOf(in.name))
	case sign, deletePolicy:
		return fmt.Sprintf("%s of %d", k, in.ref)
	case updateQuorum:
		return fmt.Sprintf("%s %d of %v", k, in.threshold, in.users)
	case createPolicy:
		return fmt.Sprintf("%s %s: %s", k, nameOf(in.name), in.rule.String())
	case renameUser:
		return fmt.Sprintf("%s user %d %s", k, in.user, nameOf(in.name))
	case createKey:
		return fmt.Sprintf("%s user %d for %s", k, in.user, in.life)
	case deleteKey:
		return fmt.Sprintf("%s user %d key of %d", k, in.user, in.ref)
	}
	return fmt.Sprintf("%s user %d", k, in.user)
}

func script(ops []op) string {
	var b strings.Builder
	for i := range ops {
		fmt.Fprintf(&b, "%s\n", ops[i].String())
	}
	return b.String()
}

// passing is how the clock goes on; every history of a wave has the same passes.
var passing = []time.Duration{time.Minute, 30 * time.Minute, 61 * time.Minute, 5 * time.Hour, 12 * time.Hour, 12 * time.Hour, 23 * time.Hour,
	24*time.Hour - time.Millisecond, 24 * time.Hour, 25 * time.Hour, 80 * time.Hour}

func passes(r *rand.Rand) []time.Duration {
	ps := make([]time.Duration, 2+r.IntN(4))
	for i := range ps {
		ps[i] = passing[r.IntN(len(passing))]
	}
	return ps
}

// generate makes a history of n operations besides its beginning and the passes. It plays the model along, so that votes
// mostly go where they matter.
func generate(r *rand.Rand, n int, passes []time.Duration) []op {
	g := &generator{Rand: r, m: newModel()}
	g.begin()
	at := make([]int, len(passes))
	for i := range at {
		at[i] = r.IntN(n)
	}
	slices.Sort(at)
	for i := range n {
		for len(at) > 0 && at[0] == i {
			g.add(op{verb: pass, time: passes[0]})
			at, passes = at[1:], passes[1:]
		}
		g.one()
	}
	for _, d := range passes {
		g.add(op{verb: pass, time: d})
	}
	return g.ops
}

type generator struct {
	*rand.Rand
	m     *model
	ops   []op
	users int
}

func (g *generator) add(o op) {
	o.no = len(g.ops)
	g.ops = append(g.ops, o)
	g.m.step(&g.ops[o.no])
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// begin makes users, perhaps a wallet and policies, and the root quorum.
func (g *generator) begin() {
	g.users = 3 + g.IntN(4)
	root := func(in ask) { g.add(op{verb: submit, key: -1, ask: in}) }
	root(ask{kind: createUsers, user: g.users})
	if g.chance(50) {
		root(ask{kind: createWallet, name: 0})
	}
	for i := range g.IntN(4) {
		root(ask{kind: createPolicy, name: i, rule: g.rule()})
	}
	members := []int{0, 1, 2}[:1+g.IntN(3)]
	root(ask{kind: updateQuorum, users: slices.Clone(members), threshold: 1 + g.IntN(len(members))})
}

func (g *generator) rule() rule {
	r := rule{deny: g.chance(20), whom: -1}
	switch g.IntN(6) {
	case 0, 1, 2:
		r.count = 1 + g.IntN(4)
	case 3:
		r.whom, r.orWhom, r.either = g.IntN(g.users), g.IntN(g.users), g.chance(50)
	case 4:
		r.whom, r.count = g.IntN(g.users), 2+g.IntN(2)
	}
	switch g.IntN(8) {
	case 0, 1, 2, 3:
		for range 1 + g.IntN(3) {
			r.kinds = append(r.kinds, createWallet+kind(g.IntN(int(kinds-createWallet))))
		}
	case 4:
		r.broken = g.chance(50)
	}
	return r
}

// who is a user, mostly one who is there, and one of his keys.
func (g *generator) who() (u, k int) {
	u, k = g.IntN(g.users), -1
	if g.chance(2) {
		return g.users + 1, -1 // a stranger
	}
	if p := g.m.user(u); p != nil && len(p.keys) > 0 && g.chance(85) {
		k = pick(g, p.keys).no
	}
	return u, k
}

// open are the activities that wait for votes; all if there are none.
func (g *generator) open() (nos []int) {
	for _, a := range g.m.activities {
		if !a.status.terminal() {
			nos = append(nos, a.no)
		}
	}
	if len(nos) == 0 || g.chance(8) {
		for i := range g.ops {
			if g.ops[i].verb <= reject {
				nos = append(nos, i)
			}
		}
		nos = append(nos, len(g.ops)+50) // never sent
	}
	return nos
}

func (g *generator) late() time.Duration {
	if g.chance(92) {
		return 0
	}
	return pick(g, []time.Duration{-59 * time.Minute, 5 * time.Minute, -61 * time.Minute, 6 * time.Minute, -48 * time.Hour})
}

func (g *generator) one() {
	o := op{time: g.late()}
	o.by, o.key = g.who()
	switch n := g.IntN(100); {
	case n < 36:
		o.verb, o.ask = submit, g.ask(o.by)
	case n < 66:
		o.verb, o.target = approve, pick(g, g.open())
	case n < 78:
		o.verb, o.target = reject, pick(g, g.open())
		if a := g.m.bodies[o.target]; a != nil && g.chance(20) {
			o.by, o.key = a.by, -1
		}
	case n < 88:
		o.verb, o.time = again, 0
		var sent []int
		for i := range g.ops {
			if g.ops[i].verb <= reject {
				sent = append(sent, i)
			}
		}
		o.target = sent[max(0, len(sent)-1-g.IntN(8))]
		if b := g.ops[o.target]; g.chance(60) {
			o.by, o.key = b.by, b.key
		}
	case n < 95:
		o.verb, o.time, o.target = read, 0, pick(g, g.open())
	case n < 98:
		o.verb, o.time, o.status = list, 0, status(g.IntN(int(statuses)))
	default: // somebody who has voted goes
		o.verb, o.by, o.key, o.time, o.ask = submit, 0, -1, 0, ask{kind: deleteUser, user: g.IntN(g.users), ref: nothing, rule: rule{whom: -1}}
		for _, a := range g.m.activities {
			if a.status == consensusNeeded && a.by > 0 {
				o.ask.user = a.votes[g.IntN(len(a.votes))].user
			}
		}
	}
	g.add(o)
}

func (g *generator) ask(by int) ask {
	in := ask{kind: pick(g, []kind{createWallet, createWallet, sign, sign, updateQuorum, updateQuorum, createPolicy, createPolicy, deletePolicy, deleteUser,
		renameUser, createKey, deleteKey}), ref: nothing, name: g.IntN(4), user: g.IntN(g.users), rule: rule{whom: -1}}
	switch in.kind {
	case sign:
		if len(g.m.wallets) > 0 && g.chance(95) {
			in.ref = pick(g, g.m.wallets).no
		} else {
			in.kind = createWallet
		}
	case updateQuorum:
		for u := range g.users {
			if (g.m.user(u) != nil || g.chance(5)) && g.chance(45) {
				in.users = append(in.users, u)
			}
		}
		if len(in.users) == 0 {
			in.users = []int{0}
		}
		in.threshold = 1 + g.IntN(min(3, len(in.users)))
		if g.chance(4) {
			in.threshold = len(in.users) + 1
		}
	case createPolicy:
		in.rule = g.rule()
	case deletePolicy:
		if len(g.m.policies) > 0 {
			in.ref = pick(g, g.m.policies).no
		}
	case createKey:
		in.life = pick(g, []time.Duration{0, 0, 20 * time.Minute, 6 * time.Hour, 30 * time.Hour})
		if g.chance(70) && by < g.users {
			in.user = by
		}
	case deleteKey:
		if g.chance(60) && by < g.users {
			in.user = by
		}
		if p := g.m.user(in.user); p != nil && len(p.keys) > 0 {
			in.ref = pick(g, p.keys).no
		}
	}
	return in
}

// shrink takes operations away, first many, then one, while what is left still disagrees.
func shrink(ops []op, disagrees func([]op) bool) []op {
	for size := len(ops) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(ops); {
			less := slices.Delete(slices.Clone(ops), i, i+size)
			if disagrees(less) {
				ops = less
			} else {
				i += size
			}
		}
	}
	return ops
}
