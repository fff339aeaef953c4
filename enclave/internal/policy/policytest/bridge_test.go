package policytest_test

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/policy/policytest"
)

// source is a policy as it is written.
type source struct {
	Deny                       bool
	Consensus, Condition, Time string
}

func (s source) String() string {
	effect := "allow"
	if s.Deny {
		effect = "deny"
	}
	return fmt.Sprintf("%s\n\tconsensus %q\n\tcondition %q\n\ttime %q", effect, s.Consensus, s.Condition, s.Time)
}

// mine compiles for the second opinion.
func (s source) mine() (p policytest.Policy, err error) {
	p.Deny = s.Deny
	if p.Consensus, err = policytest.Parse(policytest.Consensus, s.Consensus); err != nil {
		return p, err
	}
	if p.Condition, err = policytest.Parse(policytest.Condition, s.Condition); err != nil {
		return p, err
	}
	p.Time, err = policytest.Parse(policytest.Time, s.Time)
	return p, err
}

// theirs compiles for the engine.
func (s source) theirs() (p policy.Policy, err error) {
	p.Effect = policy.EffectAllow
	if s.Deny {
		p.Effect = policy.EffectDeny
	}
	if p.Consensus, err = policy.Compile(policy.ClauseConsensus, s.Consensus); err != nil {
		return p, err
	}
	if p.Condition, err = policy.Compile(policy.ClauseCondition, s.Condition); err != nil {
		return p, err
	}
	p.Time, err = policy.Compile(policy.ClauseTime, s.Time)
	return p, err
}

// rule is a policy in both representations.
type rule struct {
	source
	mine   policytest.Policy
	theirs policy.Policy
}

// compile gives what each of the two says to a policy.
func compile(s source) (r rule, mine, theirs error) {
	r.source = s
	r.mine, mine = s.mine()
	r.theirs, theirs = s.theirs()
	return r, mine, theirs
}

// world is all that a decision is made from. The policies of org are those of
// rules, the scope of request is scope.
type world struct {
	org     policytest.Organization
	rules   []rule
	request policytest.Request
	scope   string
}

// answer is what somebody makes of a world.
type answer struct {
	final    string
	outcomes []string // nil if no policy was consulted
	may      []bool   // whose approval can matter, of those who have said nothing
}

func (a answer) differs(b answer) string {
	if len(a.outcomes) != len(b.outcomes) {
		return fmt.Sprintf("second opinion says %s and policies %v, engine %s and %v", a.final, a.outcomes, b.final, b.outcomes)
	}
	for i, o := range a.outcomes {
		if o != b.outcomes[i] {
			return fmt.Sprintf("policy %d: second opinion says %s, engine %s", i, o, b.outcomes[i])
		}
	}
	if a.final != b.final {
		return fmt.Sprintf("second opinion says %s, engine %s, policies %v", a.final, b.final, a.outcomes)
	}
	if !slices.Equal(a.may, b.may) {
		return fmt.Sprintf("may vote: second opinion says %v, engine %v, policies %v", a.may, b.may, a.outcomes)
	}
	return ""
}

// silent are the users who have neither approved nor rejected, where somebody's
// approval can matter at all.
func (w world) silent() (ids []string) {
	if w.request.Foreign { // denied, whoever asks
		return nil
	}
	for _, u := range w.org.Users {
		if !slices.Contains(w.request.Rejected, u.ID) && !slices.ContainsFunc(w.request.Votes, func(v policytest.Vote) bool { return v.User == u.ID }) {
			ids = append(ids, u.ID)
		}
	}
	return ids
}

func (w world) mine() (a answer, err error) {
	org, r := w.org, w.request
	org.Policies = each(w.rules, func(r rule) policytest.Policy { return r.mine })
	if r.Scope, err = policytest.Parse(policytest.Condition, w.scope); err != nil {
		return a, err
	}
	a.final, a.outcomes = policytest.Decide(org, r)
	for _, id := range w.silent() {
		a.may = append(a.may, policytest.CanApprove(org, r, id))
	}
	return a, nil
}

func (w world) theirs() (a answer, err error) {
	ps := []*policy.Policy{}
	for i, r := range w.rules {
		r.theirs.ID, r.theirs.Name = [16]byte{14: byte(i >> 8), 15: byte(i)}, fmt.Sprint("policy ", i)
		ps = append(ps, &r.theirs)
	}
	users := each(w.org.Users, user)
	state := policy.State{
		RootUsers: each(w.org.Root, bin), Threshold: uint32(w.org.Threshold),
		Users:    func() ([]policy.User, error) { return users, nil },
		Policies: func() (*policy.Set, error) { return policy.NewSet(ps), nil },
	}
	r := w.request
	out := policy.Request{
		Organization: [16]byte{1}, Activity: [16]byte{2}, Type: r.Type, Kind: r.Kind, Resource: r.Resource, Action: r.Action, Params: value("params", r.Params), Facts: policy.Facts{},
		RootQuorum: r.RootQuorum, SelfService: r.Self, AboutAnother: r.Foreign, Rejections: each(r.Rejected, bin), NowMs: uint64(r.Now.UnixMilli()),
		Approvals: each(r.Votes, func(v policytest.Vote) policy.Approval {
			return policy.Approval{User: bin(v.User), Credentials: each(v.Credentials, credentialOf)}
		}),
	}
	if r.Initiator != "" {
		out.Initiator = bin(r.Initiator)
	}
	for _, root := range sorted(r.Facts) {
		out.Facts[root] = value(root, r.Facts[root])
	}
	if out.Scope, err = policy.Compile(policy.ClauseCondition, w.scope); err != nil {
		return a, err
	}
	d, err := policy.Decide(state, out)
	if err != nil {
		return a, err
	}
	if (d.Grant != nil) != (d.Outcome == policy.Allow) {
		return a, fmt.Errorf("%s with grant %v", d.Outcome, d.Grant)
	}
	a.final = d.Outcome.String()
	for i, e := range d.Evaluations.Each() {
		if e.Policy != ps[i].ID {
			return a, fmt.Errorf("evaluation %d is of policy %x", i, e.Policy)
		}
		a.outcomes = append(a.outcomes, e.Outcome.String())
	}
	for _, id := range w.silent() {
		may, err := policy.MayVote(state, out, bin(id))
		if err != nil {
			return a, err
		}
		a.may = append(a.may, may)
	}
	return a, nil
}

func each[A, B any](in []A, f func(A) B) (out []B) {
	for _, x := range in {
		out = append(out, f(x))
	}
	return out
}

func sorted[M ~map[string]V, V any](m M) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// bin is the id that a UUID writes.
func bin(uuid string) (id [16]byte) {
	if n, err := hex.Decode(id[:], []byte(strings.ReplaceAll(uuid, "-", ""))); n != 16 || err != nil {
		panic("no UUID: " + uuid)
	}
	return id
}

func user(u policytest.User) policy.User {
	return policy.User{ID: bin(u.ID), Name: u.Name, Email: u.Email, Tags: each(u.Tags, bin), Credentials: each(u.Credentials, credentialOf)}
}

func credentialOf(c policytest.Credential) policy.Credential {
	return policy.Credential{ID: bin(c.ID), User: bin(c.User), Type: c.Type, CredentialID: c.CredentialID, PublicKey: c.PublicKey}
}

// value is the engine's form of a value that stands under a name.
func value(name string, v any) policy.Value {
	switch x := v.(type) {
	case bool:
		return policy.Bool(x)
	case *big.Int:
		return policy.BigInt(x)
	case policytest.Text:
		if x.Hex {
			return policy.Hex(x.Value)
		}
		return policy.String(x.Value)
	case []any:
		return policy.List(each(x, func(item any) policy.Value { return value("", item) })...)
	case policytest.Struct:
		ms := members(x)
		for i := range ms {
			if name == "eth.eip_7702_authorization" && ms[i].Name != "address" {
				ms[i].Value = policy.Dynamic(ms[i].Value)
			}
		}
		return policy.Struct(ms...)
	case policytest.Map:
		out := policy.Map(members(x)...)
		if name == "contract_call_args" || name == "message" || name == "program_call_args" {
			out = policy.Dynamic(out)
		}
		return out
	}
	return policy.Value{}
}

func members[M ~map[string]any](m M) (out []policy.Member) {
	for _, k := range sorted(m) {
		out = append(out, policy.Member{Name: k, Value: value(k, m[k])})
	}
	return out
}
