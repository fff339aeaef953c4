package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Warning is advice about a policy; it never blocks.
type Warning struct {
	Clause   string `json:"clause"`   // consensus, condition, time, or empty: the policy as a whole
	Position int    `json:"position"` // byte of the clause, from 0
	Code     string `json:"code"`     // stable, such as DENY_CAN_ERROR
	Message  string `json:"message"`  // sentences: what the policy does, and what to write instead
}

// Surroundings are the organization of a policy, as far as it is known.
type Surroundings struct {
	Policies  []*Policy // of the organization
	RootUsers [][16]byte
	Threshold uint32
	Users     []User
}

// maxWarnings is what Lint says at most about one policy.
const maxWarnings = 32

// Lint looks for what is allowed and likely wrong, in the order of clauses and
// positions. It is for package enclave/lint: a test of the released enclave holds that
// it is not linked there.
func Lint(p *Policy, s Surroundings) []Warning { return LintEach([]*Policy{p}, s, 0)[0] }

// LintEach is Lint of several policies, of which each is compared with what all others come to. With voterSteps, the searches
// for voters together take no more steps than that.
func LintEach(ps []*Policy, s Surroundings, voterSteps int) [][]Warning {
	if voterSteps <= 0 {
		voterSteps = len(ps) * maxReachSteps
	}
	l := &linter{surroundings: s, voterSteps: voterSteps, lacking: map[string]kindSet{}, ofConsensus: map[string]string{}}
	out := make([][]Warning, len(ps))
	for i, p := range ps {
		l.policy, l.warnings = p, nil
		out[i] = l.lint()
	}
	return out
}

func (l *linter) lint() []Warning {
	p := l.policy
	if p.Effect == EffectAllow && p.Condition == nil && p.Consensus == nil {
		l.warn("", 0, "ALLOWS_EVERYTHING", "This policy lets every user do everything, including signing any transaction. Write a consensus (who must approve) and a condition (what it is about).")
	}
	for _, c := range []*Program{p.Consensus, p.Condition, p.Time} {
		if c != nil {
			l.clause(c)
		}
	}
	l.keys()
	l.denies()
	l.solana()
	l.steps()
	l.voters()
	slices.SortStableFunc(l.warnings, func(a, b Warning) int {
		return cmp.Or(strings.Compare(a.Clause, b.Clause), a.Position-b.Position)
	})
	return l.warnings[:min(len(l.warnings), maxWarnings)]
}

type linter struct {
	policy       *Policy
	surroundings Surroundings
	warnings     []Warning

	// What is the same for all policies, once it was needed.
	guards      *guards
	total       int                // of the steps of all policies
	dearest     *Policy            // the one that takes the most
	lacking     map[string]kindSet // kinds that can lack what a node reads, by the node's key
	member      []voter            // of the root quorum
	other       []voter            // who are not
	voterSteps  int                // that are left for searches
	ofConsensus map[string]string  // codes of the warnings about voters, by the source of the consensus
}

func (l *linter) warn(clause string, pos int, code, message string) {
	w := Warning{clause, pos, code, message}
	if !slices.Contains(l.warnings, w) {
		l.warnings = append(l.warnings, w)
	}
}

func (l *linter) clause(p *Program) {
	clause := p.clause.String()
	branches := []*node{p.root}
	if p.root.op == opOr {
		branches = p.root.kids // each may be dead by itself
	}
	for _, b := range branches {
		if never(b) || p.clause == ClauseCondition && matchedKinds(b) == (kindSet{}) {
			l.warn(clause, b.pos, "NEVER_TRUE", "This can never be true. Correct what it compares, or remove it.")
		}
	}
	p.root.find(func(n *node) bool {
		switch {
		case n.comparison() || n.op == opContains:
			l.attribute(clause, n)
		case n.op == opAll && p.clause == ClauseCondition:
			l.checkAllCall(p, n)
		case n.op == opString:
			if why := badAddress(n.lit.string); why != "" {
				l.warn(clause, n.pos, "ADDRESS_CHECKSUM", why)
			}
		}
		return false
	})
	if p.clause != ClauseCondition {
		return
	}
	if a, b := neverTogether(p.root); a != nil {
		l.warn(clause, b.pos, "ROOTS_NEVER_MEET", "No request has both "+roots[a.root].name+" and "+roots[b.root].name+
			", and both sides of && and || are always evaluated, so this condition is always an error. Write a policy for each.")
	}
	if resource, action := pairOf(p.root); resource != nil && action != nil && kindsOf(p) == (kindSet{}) {
		l.warn(clause, action.pos, "NO_SUCH_RESOURCE_ACTION", "No activity has the resource "+resource.lit.string+" and the action "+action.lit.string+". Name the activity by activity.kind.")
	}
}

// attribute looks at a comparison of an attribute of the activity with literals.
func (l *linter) attribute(clause string, n *node) {
	root, literals := comparedRoot(n)
	unknown := map[rootID]string{rootType: "UNKNOWN_TYPE", rootKind: "UNKNOWN_KIND", rootResource: "UNKNOWN_RESOURCE", rootAction: "UNKNOWN_ACTION"}[root]
	for _, lit := range literals {
		means := meaning(root, lit)
		switch {
		case unknown == "":
		case !slices.ContainsFunc(everyKind(), func(k Kind) bool { return k.constantAt(root) == means && (!k.RootQuorum || means == "") }):
			l.warn(clause, lit.pos, unknown, "No activity that policies decide about has the "+strings.TrimPrefix(roots[root].name, "activity.")+" '"+shorten(lit.lit.string, 60)+"'. Check how it is spelt.")
		case root == rootType:
			l.warn(clause, lit.pos, "EXACT_ACTIVITY_TYPE", "This names one version of an activity, and clients move on to newer versions. Compare activity.kind with '"+means+"' instead, which covers all.")
		}
	}
}

// checkAllCall looks at .all(), which is true on a list without elements.
func (l *linter) checkAllCall(p *Program, n *node) {
	list := n.kids[0]
	if list.op == opList && len(list.kids) > 0 || list.root == rootWallets {
		return
	}
	guard := p.root.find(func(g *node) bool {
		return (g.op == opCount || g.op == opAny || g.op == opIndex) && g.kids[0].equals(list)
	})
	if guard == nil {
		l.warn("condition", n.pos, "ALL_ON_EMPTY_LIST", "all() is true of an empty list. Also demand "+shorten(p.source[list.pos:list.end], 60)+".count() > 0.")
	}
}

// chainRoots are those of which a request has one at most.
var chainRoots = []string{"eth.tx", "eth.eip_712", "eth.eip_7702_authorization", "solana.tx", "bitcoin.tx", "tron.tx", "tempo.tx"}

// neverTogether finds two roots that no request has both.
func neverTogether(n *node) (a, b *node) {
	var seen []*node
	b = n.find(func(n *node) bool {
		if n.root < rootWallet {
			return false
		}
		if i := slices.IndexFunc(seen, func(m *node) bool { return apart(roots[m.root].name, roots[n.root].name) }); i >= 0 {
			a = seen[i]
			return true
		}
		if !slices.ContainsFunc(seen, func(m *node) bool { return m.root == n.root }) {
			seen = append(seen, n)
		}
		return false
	})
	return a, b
}

// apart tells whether no request has both roots.
func apart(x, y string) bool {
	switch {
	case x == y:
		return false
	case x == "secret" || y == "secret", slices.Contains(chainRoots, x) && slices.Contains(chainRoots, y):
		return true
	}
	return x == "private_key" && strings.HasPrefix(y, "wallet") || y == "private_key" && strings.HasPrefix(x, "wallet")
}

func pairOf(n *node) (resource, action *node) {
	for _, part := range conjuncts(n) {
		if root, literals := comparedRoot(part); part.op == opEq && len(literals) == 1 {
			switch root {
			case rootResource:
				resource = literals[0]
			case rootAction:
				action = literals[0]
			}
		}
	}
	return resource, action
}

func conjuncts(n *node) []*node {
	if n.op == opAnd {
		return n.kids
	}
	return []*node{n}
}

// never tells whether an expression is false by its literals, or because it demands two
// things of one value.
func never(n *node) bool {
	switch n.op {
	case opOr:
		return !slices.ContainsFunc(n.kids, func(k *node) bool { return !never(k) })
	case opAnd:
		for i, a := range n.kids {
			if never(a) || slices.ContainsFunc(n.kids[:i], func(b *node) bool { return contradict(a, b) }) {
				return true
			}
		}
		return false
	}
	_, no := known(n, false)
	return no == kindSet{}.not()
}

// contradict tells whether two comparisons of one value exclude each other.
func contradict(a, b *node) bool {
	x, opA, litA := bound(a)
	y, opB, litB := bound(b)
	if x == nil || y == nil || !x.equals(y) {
		return false
	}
	if opB == opEq || opA == opGt || opA == opGe { // so that a is the equality or the upper bound
		opA, litA, opB, litB = opB, litB, opA, litA
	}
	if x.shape.text() {
		same := litA.lit.string == litB.lit.string || equalFold(litA.lit.string, litB.lit.string) && (x.shape.class == classHex || strings.HasSuffix(x.read, "address")) ||
			x.shape.class == classKey && sameKey(litA.lit.string, litB.lit.string)
		return opA == opEq && (opB == opEq && !same || opB == opNe && same)
	}
	order := litA.lit.compare(&litB.lit)
	if opA == opEq {
		return !opB.allowsOrder(order)
	}
	return (opA == opLt || opA == opLe) && (opB == opGt || opB == opGe) && (order < 0 || order == 0 && (opA == opLt || opB == opGt))
}

// bound takes a comparison with a literal apart, as if the literal were on the right.
func bound(n *node) (of *node, o op, lit *node) {
	if !n.comparison() || n.op == opIn {
		return nil, 0, nil
	}
	a, b, o := n.kids[0], n.kids[1], n.op
	if a.literal() || a.op == opTimestamp {
		a, b = b, a
		o = map[op]op{opEq: opEq, opNe: opNe, opLt: opGt, opGt: opLt, opLe: opGe, opGe: opLe}[o]
	}
	if !b.literal() && b.op != opTimestamp || a.shape.class == classBool || a.shape.class == classDynamic || a.literal() {
		return nil, 0, nil
	}
	return a, o, b
}

func readsOne(p *Program, names ...string) bool {
	return p != nil && slices.ContainsFunc(names, func(name string) bool { return readsField(p.root, name) })
}

// keys looks at what an ALLOW policy lets people sign, and with which keys.
func (l *linter) keys() {
	p := l.policy
	if p.Effect != EffectAllow {
		return
	}
	matched := kindsOf(p.Condition)
	if !matched.any(func(k *Kind) bool { return k.Action == "SIGN" }) {
		return
	}
	named := p.Condition != nil && p.Condition.root.find(func(n *node) bool { return n.op == opMember && n.name == "sign_with" }) != nil
	if !named && !readsOne(p.Condition, "wallet", "wallets", "wallet_account", "private_key") {
		l.warn("condition", 0, "ALLOW_SIGN_ANY_KEY", "This policy allows signing with every key of the organization. Name a wallet, an account or a private key, such as wallet.id == '…'.")
	}
	raw := matched.any(func(k *Kind) bool { return strings.HasPrefix(k.Name, "SIGN_RAW_PAYLOAD") })
	if raw && !readsOne(p.Condition, chainRoots...) && !readsOne(p.Condition, "activity.params") {
		l.warn("condition", 0, "SIGN_INCLUDES_RAW_PAYLOADS", "This policy also allows signing raw payloads, digests and whole transactions among them. Add activity.kind == 'SIGN_TRANSACTION', or name what may be signed, such as activity.params.payload_kind == 'MESSAGE'.")
	}
}

// denies looks at a DENY policy that is skipped where it is an error.
func (l *linter) denies() {
	p := l.policy
	if p.Effect != EffectDeny {
		return
	}
	for _, c := range []*Program{p.Condition, p.Consensus} {
		if c == nil {
			continue
		}
		matched := kindsOf(c)
		var lacking kindSet
		lacks := c.root.find(func(n *node) bool {
			lacking = l.lackingKinds(n, matched)
			return lacking != kindSet{}
		})
		if lacks != nil && !l.guarded(func(g *guards) bool { return g.kinds.and(lacking) != kindSet{} }) {
			l.warn(c.clause.String(), lacks.pos, "DENY_CAN_ERROR", "On a request without "+shorten(c.source[lacks.pos:lacks.end], 60)+
				" this policy is an error, and an error denies nothing. Name the kind of activity, such as activity.kind == 'SIGN_TRANSACTION', or deny the other requests by another policy.")
		}
		data := c.root.find(failsByData)
		if data == nil {
			continue
		}
		of := data.kids[0]
		if !l.guarded(func(g *guards) bool { return g.values[string(of.appendKey(nil))] }) {
			l.warn(c.clause.String(), data.pos, "DENY_CAN_ERROR", "Where "+shorten(c.source[of.pos:of.end], 60)+
				" is too short or lacks this, the policy is an error, and an error denies nothing. Deny such requests by another policy.")
		}
	}
}

// solana looks at policies about what leaves by a Solana transaction, for what they do not see.
func (l *linter) solana() {
	p := l.policy.Condition
	if p == nil {
		return
	}
	var list, address *node
	sees := map[string]bool{}
	p.root.find(func(n *node) bool {
		if n.op != opMember {
			return false
		}
		ofTx := n.kids[0].root == solanaTx
		if ofTx {
			sees[n.name] = true
		}
		if list == nil && ofTx && solanaLists[n.name] != nil {
			list = n
		}
		if address == nil && (ofTx && n.name == "account_keys" || slices.Contains(solanaAccounts, n.kids[0].shape) && n.shape != intShape && n.shape != boolShape && n.name != "type") {
			address = n
		}
		return false
	})
	if l.policy.Effect == EffectAllow {
		if list != nil && !sees["program_keys"] && !sees["instructions"] {
			l.warn("condition", list.pos, "OTHER_PROGRAMS_MOVE_TOO", "solana.tx."+list.name+" lists only what this transaction's own instructions to the System and token programs move."+
				" Other programs can move more: say in solana.tx.program_keys which programs may be called.")
		}
		return
	}
	if list != nil && len(p.unread) > 0 {
		l.warn("condition", list.pos, "GIVEN_WITHOUT_TRANSFER", "This policy does not see what is given away without a transfer. Also read solana.tx."+strings.Join(p.unread, ", solana.tx.")+".")
	}
	if address != nil && !sees["address_table_lookups"] && !l.guarded(func(g *guards) bool { return g.tables }) {
		l.warn("condition", address.pos, "ADDRESS_BEHIND_TABLE", "An account that comes through an address table on the chain is 'ADDRESS_TABLE_LOOKUP' here, whoever's it is,"+
			" so this policy does not deny it. Also deny solana.tx.address_table_lookups.count() > 0.")
	}
}

// solanaAccounts are the structs of solana.tx whose texts are accounts.
var solanaAccounts = func() (out []*shape) {
	for _, f := range solanaShape.fields {
		if f.shape.class == classList && f.shape.elem.class == classStruct && f.name != "instructions" && f.name != "address_table_lookups" && f.name != "spl_others" {
			out = append(out, f.shape.elem)
		}
	}
	instruction := solanaShape.field("instructions").shape.elem
	return append(out, instruction.field("accounts").shape.elem, instruction.field("parsed_instruction_data").shape.field("named_accounts").shape)
}()

// lackingKinds are those of the kinds whose activities can lack what a node reads. A
// transaction of another chain lacks it with good reason; a raw payload may be the
// digest of one that has it.
func (l *linter) lackingKinds(n *node, matched kindSet) kindSet {
	if (n.root == 0 || roots[n.root].always || n.root == rootParams) && (n.op != opMember || n.kids[0].root != rootParams) {
		return kindSet{}
	}
	reads := string(n.appendKey(nil))
	lack, ok := l.lacking[reads]
	if !ok {
		chain := n.root != 0 && slices.Contains(chainRoots, roots[n.root].name)
		lack = kindsThat(func(k *Kind) bool { return !carries(k, n) && (!chain || strings.HasPrefix(k.Name, "SIGN_RAW_PAYLOAD")) })
		l.lacking[reads] = lack
	}
	return lack.and(matched)
}

// failsByData tells whether a node can be an error in a request of any kind.
func failsByData(n *node) bool {
	return n.op == opIndex || n.op == opSlice || n.op == opMember && n.root == 0 && n.kids[0].root != rootParams && n.kids[0].shape.field(n.name).optional
}

// guards is what DENY policies that are for everybody, at any time, deny without an error.
type guards struct {
	everything bool            // one of them has no condition
	kinds      kindSet         // what conditions that cannot be an error match
	values     map[string]bool // keys of what conditions read that no data make an error
	tables     bool            // one of them reads address_table_lookups
}

// guarded tells whether another DENY policy, for everybody, denies what this one may miss. A policy with an error has
// nothing in guards that is asked for because of the error.
func (l *linter) guarded(by func(*guards) bool) bool {
	if l.guards == nil {
		l.guards = &guards{values: map[string]bool{}}
		for _, q := range l.surroundings.Policies {
			if q.Effect == EffectDeny && q.Consensus == nil && q.Time == nil {
				l.guards.add(q.Condition)
			}
		}
	}
	return l.guards.everything || by(l.guards)
}

func (g *guards) add(condition *Program) {
	if condition == nil {
		g.everything = true
		return
	}
	n := condition.root
	if firstFailing(n) == nil {
		g.kinds = g.kinds.or(matchedKinds(n))
	}
	g.tables = g.tables || n.readsSolana("address_table_lookups")
	if n.find(failsByData) == nil {
		n.find(func(n *node) bool {
			if n.shape != nil && n.shape.class != classBool { // a group is no value, and nothing is lacking of a bool
				g.values[string(n.appendKey(nil))] = true
			}
			return false
		})
	}
}

// appendKey writes what is the same for nodes that are equal, and for no others.
func (n *node) appendKey(b []byte) []byte {
	b = append(b, byte(n.op), byte(len(n.kids)), byte(len(n.kids)>>8))
	b = append(append(b, n.name...), 0)
	switch n.op {
	case opBool:
		b = strconv.AppendBool(b, n.lit.yes)
	case opInt:
		b = append(n.lit.appendDecimal(b), 0)
	case opString:
		b = append(strconv.AppendInt(b, int64(len(n.lit.string)), 10), ':')
		b = append(b, n.lit.string...)
	}
	for _, k := range n.kids {
		b = k.appendKey(b)
	}
	return b
}

// steps looks at what all policies take together, and warns at the one that takes the most.
func (l *linter) steps() {
	all, own := l.surroundings.Policies, l.policy.leastSteps()
	budget := StepsPerPolicy * max(100, len(all)) // at least: so many it may have
	if own*len(all) <= budget {                   // then it does not take the most of too many
		return
	}
	if l.dearest == nil {
		most := 0
		for _, p := range all {
			steps := p.leastSteps()
			if l.total += steps; steps > most {
				most, l.dearest = steps, p
			}
		}
	}
	if total := l.total; total > budget && l.dearest.ID == l.policy.ID {
		l.warn("", 0, "TOO_MANY_STEPS", "The policies of this organization together take at least "+strconv.Itoa(total)+" steps to evaluate, and a request has "+
			strconv.Itoa(budget)+", unless the deployment lets organizations have more policies. When the steps are used up, no policy allows anything. This policy takes the most, "+
			strconv.Itoa(own)+": shorten its lists.")
	}
}

// leastSteps bounds from below the steps of all clauses of a policy.
func (p *Policy) leastSteps() (steps int) {
	for _, c := range []*Program{p.Consensus, p.Condition, p.Time} {
		if c != nil {
			steps += leastSteps(c.root)
		}
	}
	return steps
}

// leastSteps bounds the steps of n from below: lists have the items that stand in the policy.
func leastSteps(n *node) int {
	if n.root != 0 || n.op == opCronSpan || n.op == opTimestamp || n.op == opList && n.lit.typ == TypeList {
		return 1
	}
	steps := 1
	for i, k := range n.kids {
		of := leastSteps(k)
		switch {
		case n.op == opFilter && i == 1:
			of = (of + madeSteps) * itemCount(n.kids[0])
		case n.lambda() && i == 1:
			of *= itemCount(n.kids[0])
		case n.op == opList:
			of += madeSteps
		}
		steps += of
	}
	switch n.op {
	case opIn:
		steps += itemCount(n.kids[1])
	case opContains:
		steps += itemCount(n.kids[0])
	}
	return steps
}

// itemCount is how many items stand in a list.
func itemCount(n *node) int {
	if n.op != opList {
		return 0
	}
	return len(n.kids)
}

// voters looks at who could fulfil the consensus in this organization.
func (l *linter) voters() {
	s := l.surroundings
	if s.Threshold == 0 || len(s.Users) == 0 || l.policy.Consensus == nil {
		return
	}
	source := l.policy.Consensus.source
	code, ok := l.ofConsensus[source]
	if !ok {
		code = l.findVoters()
		l.ofConsensus[source] = code
	}
	switch code {
	case "NO_SUCH_VOTERS":
		l.warn("consensus", 0, code, "No users of this organization can fulfil this consensus, so the policy never applies.")
	case "ROOT_QUORUM_DECIDES":
		l.warn("consensus", 0, code, "Whoever fulfils this consensus is enough of the root quorum, which decides without any policy.")
	}
}

// findVoters is the code of the warning about who could fulfil the consensus, or empty.
func (l *linter) findVoters() string {
	s := l.surroundings
	if len(l.member)+len(l.other) == 0 {
		for i := range s.Users {
			v := voter{id: s.Users[i].ID, source: &s.Users[i]}
			if v.makeValues(); slices.Contains(s.RootUsers, v.id) {
				l.member = append(l.member, v)
			} else {
				l.other = append(l.other, v)
			}
		}
	}
	member, other := l.member, l.other
	m := machine{voters: true}
	left := min(maxReachSteps, l.voterSteps)
	defer func(before int) { l.voterSteps -= before - left }(left)
	holds := func(voters []voter) bool {
		if len(voters) == 0 || left <= 0 {
			return left <= 0 // unknown: say nothing
		}
		m.setVoters(voters)
		steps := min(maxSteps, left)
		m.allow(steps)
		yes, ok := m.evaluateBool(l.policy.Consensus.root)
		left -= steps - m.end() + len(voters)
		return yes && ok
	}
	below := int(min(s.Threshold-1, uint32(len(member))))
	if holds(other) || holds(slices.Concat(other, member[:below])) {
		return ""
	}
	all := slices.Concat(other, member)
	reaches := holds(all)
	for i := range all {
		for j := i; j < len(all); j++ {
			set := all[i : i+1 : i+1]
			if j > i {
				set = append(set, all[j])
			}
			if votes := l.members(set); holds(set) {
				if reaches = true; votes <= below {
					return ""
				}
			}
			// Anybody else, with any others of the root quorum but too few.
			if below > 0 && j > i && l.members(set) <= below && holds(slices.Concat(other, set)) {
				return ""
			}
		}
	}
	switch {
	case left <= 0, below > 2: // too many sets to be sure
		return ""
	case !reaches:
		return "NO_SUCH_VOTERS"
	}
	return "ROOT_QUORUM_DECIDES"
}

func (l *linter) members(voters []voter) (n int) {
	for _, v := range voters {
		if slices.Contains(l.surroundings.RootUsers, v.id) {
			n++
		}
	}
	return n
}
