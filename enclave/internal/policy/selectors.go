package policy

import (
	"strings"

	"cloister/enclave/internal/fault"
)

// A Selector is one demand of the older policies.
type Selector struct {
	Subject  string   // a field
	Operator string   // OPERATOR_EQUAL and so on
	Targets  []string // what the field is compared with
}

const maxSelectors = 100

// FromSelectors writes selectors, all of which must hold, as the consensus and
// the condition of a policy. Both compile. A subject that begins with approvers is
// about all who approve, with user or users about any of them, others about the
// activity.
func FromSelectors(selectors []Selector) (consensus, condition string, err error) {
	if len(selectors) > maxSelectors {
		return "", "", fault.New(fault.InvalidArgument, "invalid policy condition: more than %d selectors", maxSelectors)
	}
	var parts [2][]string
	for i, s := range selectors {
		clause, side, subject := ClauseCondition, 1, s.Subject
		first, rest, _ := strings.Cut(subject, ".")
		user := first == "user" || first == "users"
		if user {
			subject = "u." + rest
		}
		if user || first == "approvers" {
			clause, side = ClauseConsensus, 0
		}
		expression, err := selectorText(i, subject, s)
		if err != nil {
			return "", "", err
		}
		if user {
			expression = "approvers.any(u, " + expression + ")"
		}
		if _, why := compile(clause, expression); why != nil {
			return "", "", selectorFault(i, why.text)
		}
		parts[side] = append(parts[side], expression)
	}
	consensus, condition = strings.Join(parts[0], " && "), strings.Join(parts[1], " && ")
	if _, err := Compile(ClauseConsensus, consensus); err != nil {
		return "", "", err
	}
	if _, err := Compile(ClauseCondition, condition); err != nil {
		return "", "", err
	}
	return consensus, condition, nil
}

func selectorFault(i int, why string) error {
	return fault.New(fault.InvalidArgument, "invalid policy condition: selector %d: %s", i, why)
}

func selectorText(i int, subject string, s Selector) (string, error) {
	if !path(subject) {
		return "", selectorFault(i, "the subject is not a field")
	}
	if len(s.Targets) == 0 || len(s.Targets) > maxItems {
		return "", selectorFault(i, "the number of targets is not between 1 and 1000")
	}
	quoted, as := make([]string, len(s.Targets)), fieldType(subject)
	for j, t := range s.Targets {
		switch {
		case strings.Contains(t, "'"):
			return "", selectorFault(i, "a target holds a quote")
		case (as == "int" || as == "uint") && decimal(t), as == "bool" && (t == "true" || t == "false"):
			quoted[j] = t
		default: // the checker tells what does not fit
			quoted[j] = "'" + t + "'"
		}
	}
	operator := strings.TrimPrefix(s.Operator, "OPERATOR_")
	switch operator {
	case "IN":
		return subject + " in [" + strings.Join(quoted, ", ") + "]", nil
	case "NOT_IN":
		return "!(" + subject + " in [" + strings.Join(quoted, ", ") + "])", nil
	case "CONTAINS", "CONTAINS_ONE", "CONTAINS_ALL":
		for j, q := range quoted {
			quoted[j] = subject + ".contains(" + q + ")"
		}
		between := " || "
		if operator == "CONTAINS_ALL" {
			between = " && "
		}
		return "(" + strings.Join(quoted, between) + ")", nil
	}
	comparison := map[string]op{"EQUAL": opEq, "NOT_EQUAL": opNe, "MORE_THAN": opGt, "MORE_THAN_OR_EQUAL": opGe, "LESS_THAN": opLt, "LESS_THAN_OR_EQUAL": opLe}[operator]
	if comparison == 0 {
		return "", selectorFault(i, "there is no operator "+shorten(s.Operator, 60))
	}
	if len(quoted) > 1 {
		return "", selectorFault(i, "the operator takes one target")
	}
	return subject + opTexts[comparison] + quoted[0], nil
}

// path tells whether text is only names with dots between, so that no subject can
// smuggle in an expression.
func path(s string) bool {
	for _, name := range strings.Split(s, ".") {
		if name == "" || !letter(name[0]) || len(name) > 60 || countFirst(name, letterOrDigit) < len(name) {
			return false
		}
	}
	return true
}

// fieldType is the type of a field, of a list that of its items.
func fieldType(subject string) string {
	for _, f := range Fields() {
		if f.Path == subject {
			return strings.TrimSuffix(strings.TrimPrefix(f.Type, "list<"), ">")
		}
	}
	return ""
}
