package policy

import (
	"encoding/hex"
	"slices"
	"strconv"
)

// Somebody counts towards a consensus if some others could approve so that it holds,
// and if it needs him once everybody who is not needed is left out. The search tries
// each other user, each two, and all of them together.
//
// A hundred users make five thousand pairs, so users whom the expression cannot tell
// apart are tried once. That is exact: a consensus that only counts voters, by tests
// on one voter at a time, has the same value with either of two voters whose test
// results are equal.

// tests are the lambdas of a consensus that look at one voter at a time.
type tests struct {
	lambdas []voterTest
	apart   bool // the expression does more than these tests: every user must be tried
	blind   bool // who passes none of the first tests of a chain is not seen at all
}

type voterTest struct {
	lambda *node
	users  bool // it looks at users, not at credentials
	first  bool // of its chain
}

func findTests(n *node) *tests {
	t := &tests{blind: true}
	t.walk(n, false)
	return t
}

// walk looks at n, which stands inside a lambda or not.
func (t *tests) walk(n *node, inside bool) {
	if n.root != 0 { // where nothing below counts or tests it
		t.apart = true
		return
	}
	from, chain := chainRoot(n)
	if from == 0 {
		for i, k := range n.kids {
			t.walk(k, inside || n.lambda() && i == 1)
		}
		return
	}
	if inside {
		t.apart = true
		return
	}
	for i := len(chain) - 1; i >= 0; i-- {
		link := chain[i]
		first := i == len(chain)-1
		if first && link.op != opFilter && link.op != opAny {
			t.blind = false
		}
		if link.lambda() {
			t.lambdas = append(t.lambdas, voterTest{link, from == rootApprovers, first})
			t.walk(link.kids[1], true)
		}
	}
}

// chainRoot lists the filters, and at last a test or a count, that n applies to a root
// of voters, the last first. It finds no root if n is anything else.
func chainRoot(n *node) (rootID, []*node) {
	if !n.lambda() && n.op != opCount || n.op == opFilter {
		return 0, nil
	}
	chain := []*node{n}
	for n = n.kids[0]; n.op == opFilter; n = n.kids[0] {
		chain = append(chain, n)
	}
	if n.root != rootApprovers && n.root != rootCredentials {
		return 0, nil
	}
	return n.root, chain
}

// makeValues makes the values of a voter who has not approved.
func (v *voter) makeValues() *voter {
	if u := v.source; u != nil {
		v.user, v.source = userValue(u), nil
		for i := range u.Credentials {
			v.credentials = append(v.credentials, credentialValue(&u.Credentials[i]))
		}
	}
	return v
}

// setVoters makes voters the ones that approvers and credentials mean.
func (m *machine) setVoters(voters []voter) {
	m.approvers, m.credentials = m.approvers[:0], m.credentials[:0]
	for i := range voters {
		v := voters[i].makeValues()
		m.approvers = append(m.approvers, v.user)
		m.credentials = append(m.credentials, v.credentials...)
	}
}

// reach tells whether who, one of the voters, counts towards a consensus. With the
// voters so far it does not hold, or (alone) it may. It is not ok if that takes too
// many steps.
func (d *decider) reach(p *Program, who voter, alone bool) (counts, ok bool) {
	left := min(maxReachSteps, d.stepsLeft())
	r := reacher{machine: &d.machine, program: p, who: who.id, left: left}
	counts = r.reach(d.voters, d.remainingVoters(), alone)
	d.spent += left - max(r.left, 0)
	return counts && r.left >= 0, r.left >= 0
}

type reacher struct {
	machine *machine
	program *Program
	who     [16]byte
	left    int // steps
	crowd   []voter
	rest    []voter
	key     []byte // buffer for results
}

func (r *reacher) reach(voters, others []voter, alone bool) bool {
	if t := r.program.tests; t.blind && !t.apart {
		i := slices.IndexFunc(voters, func(v voter) bool { return v.id == r.who })
		if r.isInvisible(voters[i].makeValues()) {
			return false
		}
	}
	if alone && r.isNeeded(voters) {
		return true
	}
	classes := r.classes(others)
	for _, c := range classes {
		if r.left < 0 || r.isNeeded(voters, c[0]) {
			return r.left >= 0
		}
	}
	for i, a := range classes {
		if len(a) > 1 && r.isNeeded(voters, a[0], a[1]) {
			return true
		}
		for _, b := range classes[i+1:] {
			if r.left < 0 || r.isNeeded(voters, a[0], b[0]) {
				return r.left >= 0
			}
		}
	}
	all := make([]*voter, len(others))
	for i := range others {
		all[i] = &others[i]
	}
	return len(all) > 2 && r.isNeeded(voters, all...)
}

// classes groups users whom the expression cannot tell apart, by the first of each.
func (r *reacher) classes(others []voter) [][]*voter {
	classes := make([][]*voter, 0, len(others))
	seen := make(map[string]int, len(others))
	for i := range others {
		key := strconv.Itoa(i)
		if !r.program.tests.apart {
			key = r.results(others[i].makeValues())
		}
		at, known := seen[key]
		if !known {
			at, seen[key] = len(classes), len(classes)
			classes = append(classes, nil)
		}
		classes[at] = append(classes[at], &others[i])
	}
	return classes
}

// test runs one test on a user or a credential.
func (r *reacher) test(lambda *node, on Value) byte {
	m, steps := r.machine, max(r.left, 0)
	m.allow(steps)
	m.variables[lambda.slot] = on
	yes, ok := m.evaluateBool(lambda.kids[1])
	if r.left -= steps - m.end(); !ok {
		return 'e'
	}
	if yes {
		return 't'
	}
	return 'f'
}

// results is what all tests make of a user and of his credentials, whose order
// does not matter.
func (r *reacher) results(v *voter) string {
	key := r.testAll(r.key[:0], true, v.user)
	user := len(key)
	credentials := make([]string, len(v.credentials))
	for i, c := range v.credentials {
		key = r.testAll(key[:user], false, c)
		credentials[i] = string(key[user:])
	}
	slices.Sort(credentials)
	key = key[:user]
	for _, c := range credentials {
		key = append(append(key, '|'), c...)
	}
	r.key = key
	return string(key)
}

// testAll appends the results of all tests of users, or of credentials.
func (r *reacher) testAll(results []byte, users bool, on Value) []byte {
	for _, t := range r.program.tests.lambdas {
		if t.users == users {
			results = append(results, r.test(t.lambda, on))
		}
	}
	return results
}

// isInvisible tells whether no test of a blind expression sees a user, so that its value is
// the same without him.
func (r *reacher) isInvisible(v *voter) bool {
	for _, t := range r.program.tests.lambdas {
		sees := func(on Value) bool { return t.first && r.test(t.lambda, on) != 'f' }
		if t.users && sees(v.user) || !t.users && slices.ContainsFunc(v.credentials, sees) {
			return false
		}
	}
	return true
}

// isNeeded tells whether the consensus holds with the voters and the extra ones, and
// needs who. It leaves out everybody else without whom it still holds, and then him.
func (r *reacher) isNeeded(voters []voter, extra ...*voter) bool {
	r.crowd = append(r.crowd[:0], voters...)
	for _, v := range extra {
		r.crowd = append(r.crowd, *v.makeValues())
	}
	if !r.isFulfilledBy(r.crowd) {
		return false
	}
	for i := 0; i < len(r.crowd); {
		if r.crowd[i].id == r.who || !r.isFulfilledBy(r.votersWithout(i)) {
			i++
			continue
		}
		r.crowd = slices.Delete(r.crowd, i, i+1)
	}
	i := slices.IndexFunc(r.crowd, func(v voter) bool { return v.id == r.who })
	return !r.isFulfilledBy(r.votersWithout(i)) && r.left >= 0
}

func (r *reacher) votersWithout(i int) []voter {
	r.rest = append(append(r.rest[:0], r.crowd[:i]...), r.crowd[i+1:]...)
	return r.rest
}

// isFulfilledBy evaluates the consensus with a crowd, in one step at least. An error does not
// hold.
func (r *reacher) isFulfilledBy(crowd []voter) bool {
	m := r.machine
	m.setVoters(crowd)
	m.untilPause -= len(crowd)
	steps := min(maxSteps, max(r.left-len(crowd), 0))
	m.allow(steps)
	yes, ok := m.evaluateBool(r.program.root)
	r.left -= len(crowd) + steps - m.end()
	return yes && ok
}

// Users and credentials as values. Members must be in the order of their names.

func userValue(u *User) Value {
	tags := make([]Value, len(u.Tags))
	for i, t := range u.Tags {
		tags[i] = Hex(uuid(t))
	}
	return Value{typ: TypeStruct, members: []Member{{"alias", String(u.Name)}, {"email", Hex(u.Email)}, {"id", Hex(uuid(u.ID))}, {"tags", List(tags...)}}}
}

func credentialValue(c *Credential) Value {
	return Value{typ: TypeStruct, members: []Member{{"credential_id", String(c.CredentialID)}, {"id", Hex(uuid(c.ID))},
		{"public_key", Hex(c.PublicKey)}, {"type", String(c.Type)}, {"user_id", Hex(uuid(c.User))}}}
}

func uuid(id [16]byte) string {
	var b [32]byte
	hex.Encode(b[:], id[:])
	return string(b[:8]) + "-" + string(b[8:12]) + "-" + string(b[12:16]) + "-" + string(b[16:20]) + "-" + string(b[20:])
}
