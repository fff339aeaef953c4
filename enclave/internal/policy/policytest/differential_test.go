package policytest_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/policy/policytest"
)

var (
	pairs = flag.Int("pairs", 0, "how many policies to evaluate against an activity; 0: 100,000, and 10,000 with -short")
	seed  = flag.Uint64("seed", 1, "where the random worlds start")
)

// asked is how many policies a test evaluates.
func asked() int {
	switch {
	case *pairs > 0:
		return *pairs
	case testing.Short():
		return 10_000
	}
	return 100_000
}

// TestDifferential makes worlds until enough policies have met an activity, and
// asks both.
func TestDifferential(t *testing.T) {
	g := newGenerator(*seed)
	count, refused, disagreements := map[string]int{}, 0, 0
	done, requests := 0, 0
	for done < asked() && disagreements < 5 {
		s := g.scenario()
		var rules []rule
		for _, p := range s.policies {
			r, mine, theirs := compile(p)
			switch {
			case (mine == nil) != (theirs == nil):
				disagreements++
				t.Errorf("%s", shrinkSource(p))
			case mine != nil:
				refused++
			default:
				rules = append(rules, r)
			}
		}
		for i, r := range s.requests {
			w := world{org: s.org, rules: rules, request: r, scope: s.scopes[i]}
			mine, difference := w.ask()
			if difference != "" {
				disagreements++
				t.Errorf("%s", shrinkWorld(w))
			}
			if mine.final == "" { // a scope that both refuse
				continue
			}
			requests++
			count["final "+mine.final]++
			for _, o := range mine.outcomes {
				count[o]++
				done++
			}
		}
	}
	for _, o := range sorted(count) {
		of := done
		if strings.HasPrefix(o, "final ") {
			of = requests
		}
		t.Logf("%-32s %7d %3d %%", o, count[o], 100*count[o]/max(of, 1))
	}
	t.Logf("%d pairs in %d requests, %d policies refused by both", done, requests, refused)
	if disagreements > 0 {
		return
	}
	for _, o := range []string{policytest.Allow, policytest.DenyExplicit, policytest.RequiresConsensus, policytest.Error} {
		if count[o]*10 < done {
			t.Errorf("%s is only %d of %d: the worlds test too little of it", o, count[o], done)
		}
	}
	for _, o := range []string{policytest.DenyImplicit, policytest.TimeInactive, "final " + policytest.Allow, "final " + policytest.DenyExplicit, "final " + policytest.DenyImplicit,
		"final " + policytest.RequiresConsensus} {
		if count[o]*100 < 3*requests {
			t.Errorf("%s is only %d: the worlds test too little of it", o, count[o])
		}
	}
}

// ask asks both about a world, and says how they differ.
func (w world) ask() (mine answer, difference string) {
	mine, err := w.mine()
	theirs, theirErr := w.theirs()
	switch {
	case err != nil && theirErr != nil:
		return mine, "" // a scope that both refuse
	case err != nil || theirErr != nil:
		return mine, fmt.Sprintf("second opinion errs with %v, engine with %v", err, theirErr)
	}
	return mine, mine.differs(theirs)
}

// shrinkSource is the shortest policy found that one compiles and the other does
// not.
func shrinkSource(s source) string {
	differ := func(c policytest.Clause, text string) (string, bool) {
		_, mine := policytest.Parse(c, text)
		_, theirs := policy.Compile(clauses[c], text)
		return fmt.Sprintf("%s %q: second opinion says %v, engine %v", c, text, mine, theirs), (mine == nil) != (theirs == nil)
	}
	for c, text := range map[policytest.Clause]string{policytest.Consensus: s.Consensus, policytest.Condition: s.Condition, policytest.Time: s.Time} {
		if _, yes := differ(c, text); yes {
			for again := true; again; {
				again = false
				for _, less := range shorter(text) {
					if _, yes := differ(c, less); yes {
						text, again = less, true
						break
					}
				}
			}
			out, _ := differ(c, text)
			return out
		}
	}
	return fmt.Sprintf("the clauses agree but the policy does not: %s", s)
}

// shrinkWorld is the smallest world found about which the two differ.
func shrinkWorld(w world) string {
	for again := true; again; {
		again = false
		for _, less := range smaller(w) {
			if _, d := less.ask(); d != "" {
				w, again = less, true
				break
			}
		}
	}
	_, difference := w.ask()
	var out strings.Builder
	r := w.request
	fmt.Fprintf(&out, "%s\n%s kind %q, %s %s, at %s, scope %q, self %v, foreign %v, root quorum %v, initiator %q\n", difference, r.Type, r.Kind, r.Resource, r.Action, r.Now.Format("2006-01-02T15:04:05.000Z"), w.scope,
		r.Self, r.Foreign, r.RootQuorum, r.Initiator)
	fmt.Fprintf(&out, "threshold %d\n", w.org.Threshold)
	for _, u := range w.org.Users {
		fmt.Fprintf(&out, "user %s %s %q root %v, rejected %v, tags %v, credentials %v", u.ID, u.Name, u.Email, slices.Contains(w.org.Root, u.ID), slices.Contains(r.Rejected, u.ID), u.Tags,
			each(u.Credentials, func(c policytest.Credential) string { return c.ID[:4] + " " + c.Type[16:] }))
		for i, v := range r.Votes {
			if v.User == u.ID {
				fmt.Fprintf(&out, ", vote %d with %v", i, each(v.Credentials, func(c policytest.Credential) string { return c.ID[:4] }))
			}
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "params %v\n", show(r.Params))
	for _, root := range sorted(r.Facts) {
		fmt.Fprintf(&out, "%s %v\n", root, show(r.Facts[root]))
	}
	for i, p := range w.rules {
		fmt.Fprintf(&out, "policy %d: %s\n", i, p.source)
	}
	return out.String()
}

func show(v any) string {
	switch x := v.(type) {
	case policytest.Text:
		if x.Hex {
			return "hex '" + x.Value + "'"
		}
		return "'" + x.Value + "'"
	case []any:
		return "[" + strings.Join(each(x, show), ", ") + "]"
	case policytest.Struct:
		return "{" + strings.Join(each(sorted(x), func(k string) string { return k + ": " + show(x[k]) }), ", ") + "}"
	case policytest.Map:
		return "map{" + strings.Join(each(sorted(x), func(k string) string { return k + ": " + show(x[k]) }), ", ") + "}"
	}
	return fmt.Sprint(v)
}

// smaller are worlds with a piece less than w.
func smaller(w world) (out []world) {
	for i := range w.rules {
		less := w
		less.rules = slices.Delete(slices.Clone(w.rules), i, i+1)
		out = append(out, less)
	}
	if w.scope != "" {
		less := w
		less.scope = ""
		out = append(out, less)
	}
	for i := range w.request.Rejected {
		less := w
		less.request.Rejected = slices.Delete(slices.Clone(w.request.Rejected), i, i+1)
		out = append(out, less)
	}
	for i := 1; i < len(w.request.Votes); i++ {
		less := w
		less.request.Votes = slices.Delete(slices.Clone(w.request.Votes), i, i+1)
		out = append(out, less)
	}
	for i, u := range w.org.Users {
		voted := slices.ContainsFunc(w.request.Votes, func(v policytest.Vote) bool { return v.User == u.ID })
		if !voted && !slices.Contains(w.request.Rejected, u.ID) && u.ID != w.request.Initiator && !slices.Contains(w.org.Root, u.ID) {
			less := w
			less.org.Users = slices.Delete(slices.Clone(w.org.Users), i, i+1)
			out = append(out, less)
		}
		if len(u.Tags) > 0 {
			less := w
			less.org.Users = slices.Clone(w.org.Users)
			less.org.Users[i].Tags = nil
			out = append(out, less)
		}
	}
	for _, root := range sorted(w.request.Facts) {
		less := w
		less.request.Facts = map[string]any{}
		for k, v := range w.request.Facts {
			if k != root {
				less.request.Facts[k] = v
			}
		}
		out = append(out, less)
	}
	for i, r := range w.rules {
		for _, clause := range []func(*source) *string{
			func(s *source) *string { return &s.Consensus }, func(s *source) *string { return &s.Condition }, func(s *source) *string { return &s.Time }} {
			s := r.source
			for _, text := range shorter(*clause(&s)) {
				s := r.source
				*clause(&s) = text
				if r, mine, theirs := compile(s); mine == nil && theirs == nil {
					less := w
					less.rules = slices.Clone(w.rules)
					less.rules[i] = r
					out = append(out, less)
				}
			}
		}
	}
	return out
}

// shorter are pieces of an expression that might be expressions: nothing, what
// is in parentheses, sides of operators, and what is left without one token.
func shorter(s string) (out []string) {
	if s == "" {
		return nil
	}
	out = append(out, "")
	var opens []int
	for i := range len(s) {
		switch s[i] {
		case '(', '[':
			opens = append(opens, i)
		case ')', ']':
			if len(opens) > 0 {
				from := opens[len(opens)-1]
				opens = opens[:len(opens)-1]
				out = append(out, s[from+1:i], s[:from]+s[i+1:])
			}
		}
	}
	for _, op := range []string{"&&", "||", "==", "!"} {
		for i := 0; i < len(s); i++ {
			if strings.HasPrefix(s[i:], op) {
				out = append(out, s[:i], s[i+len(op):])
				if op == "!" {
					out = append(out, s[:i]+s[i+1:])
				}
			}
		}
	}
	out = append(out, strings.TrimSpace(s))
	return slices.DeleteFunc(out, func(x string) bool { return len(x) >= len(s) })
}
