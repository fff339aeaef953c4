package votes_test

import (
	"fmt"
	"slices"
	"strings"
)

// A rule is a policy. Its consensus asks for a number of approvers, for one among them, or both, or for one of two; its
// condition for one of some kinds, or it cannot be evaluated.
//
// A number or one of them would not do: who counts towards that depends on the order in which others are left out, of which
// the document says only that the initiator is the last.
type rule struct {
	deny   bool
	count  int  // 0: no demand
	whom   int  // -1: no demand
	either bool // or orWhom
	orWhom int
	kinds  []kind // none: no condition
	broken bool   // the condition is an error for every kind
}

// matches tells whether the condition is true.
func (r *rule) matches(k kind) bool {
	return !r.broken && (len(r.kinds) == 0 || slices.Contains(r.kinds, k))
}

// consensus tells whether these approvers satisfy the rule.
func (r *rule) consensus(v set) bool {
	return v.count() >= r.count && (r.whom < 0 || v.has(r.whom) || r.either && v.has(r.orWhom))
}

func (r *rule) String() string {
	var b strings.Builder
	b.WriteString(map[bool]string{true: "DENY", false: "ALLOW"}[r.deny])
	if c := r.consensusText(func(u int) string { return fmt.Sprintf("user %d", u) }); c != "" {
		fmt.Fprintf(&b, " consensus %s", c)
	}
	if c := r.conditionText(); c != "" {
		fmt.Fprintf(&b, " condition %s", c)
	}
	return b.String()
}

// consensusText is the rule in the policy language, with users as id has them.
func (r *rule) consensusText(id func(int) string) string {
	var parts []string
	if r.count > 0 {
		parts = append(parts, fmt.Sprintf("approvers.count() >= %d", r.count))
	}
	one := func(u int) string { return fmt.Sprintf("approvers.any(u, u.id == '%s')", id(u)) }
	switch {
	case r.whom >= 0 && r.either:
		parts = append(parts, "("+one(r.whom)+" || "+one(r.orWhom)+")")
	case r.whom >= 0:
		parts = append(parts, one(r.whom))
	}
	return strings.Join(parts, " && ")
}

func (r *rule) conditionText() string {
	switch {
	case r.broken:
		return "eth.tx.value > 5"
	case len(r.kinds) == 0:
		return ""
	case len(r.kinds) == 1:
		return "activity.kind == '" + kindNames[r.kinds[0]] + "'"
	}
	names := make([]string, len(r.kinds))
	for i, k := range r.kinds {
		names[i] = "'" + kindNames[k] + "'"
	}
	return "activity.kind in [" + strings.Join(names, ", ") + "]"
}
