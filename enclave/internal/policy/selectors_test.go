package policy_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/policy"
)

func TestFromSelectors(t *testing.T) {
	for _, c := range []struct{ subject, operator, targets, by, about string }{
		{"user.id", "OPERATOR_EQUAL", "x", "approvers.any(u, u.id == 'x')", ""},
		{"users.tags", "OPERATOR_CONTAINS_ALL", "x y", "approvers.any(u, (u.tags.contains('x') && u.tags.contains('y')))", ""},
		{"user.tags", "OPERATOR_CONTAINS_ONE", "x y", "approvers.any(u, (u.tags.contains('x') || u.tags.contains('y')))", ""},
		{"user.email", "OPERATOR_NOT_IN", "x y", "approvers.any(u, !(u.email in ['x', 'y']))", ""},
		{"approvers.count", "OPERATOR_MORE_THAN_OR_EQUAL", "2", "", "!"},
		{"activity.kind", "OPERATOR_IN", "A B", "", "activity.kind in ['A', 'B']"},
		{"activity.kind", "OPERATOR_NOT_EQUAL", "A", "", "activity.kind != 'A'"},
		{"eth.tx.value", "OPERATOR_LESS_THAN", "100", "", "eth.tx.value < 100"},
		{"eth.tx.value", "OPERATOR_LESS_THAN_OR_EQUAL", "-1", "", "eth.tx.value <= -1"},
		{"eth.tx.value", "OPERATOR_MORE_THAN", "100", "", "eth.tx.value > 100"},
		{"eth.tx.to", "OPERATOR_EQUAL", "100", "", "eth.tx.to == '100'"},
		{"wallet.exported", "OPERATOR_EQUAL", "true", "", "wallet.exported == true"},
		{"wallet_account.path_indexes", "OPERATOR_CONTAINS", "60", "", "(wallet_account.path_indexes.contains(60))"},
		{"private_key.tags", "OPERATOR_CONTAINS", "60", "", "(private_key.tags.contains('60'))"},

		{"user", "OPERATOR_EQUAL", "x", "", "!"},
		{"user.name", "OPERATOR_EQUAL", "x", "", "!"},
		{"", "OPERATOR_EQUAL", "x", "", "!"},
		{"organization.id", "OPERATOR_EQUAL", "x", "", "!"},
		{"approvers.id", "OPERATOR_EQUAL", "x", "", "!"},
		{"credentials.type", "OPERATOR_EQUAL", "x", "", "!"},
		{"activity.kind == 'A' || activity.kind", "OPERATOR_EQUAL", "x", "", "!"},
		{"activity.kind.", "OPERATOR_EQUAL", "x", "", "!"},
		{"activity.kind", "OPERATOR_EQUAL", "x' || 'y'=='y", "", "!"},
		{"activity.kind", "OPERATOR_EQUAL", "x y", "", "!"},
		{"activity.kind", "OPERATOR_EQUAL", "", "", "!"},
		{"activity.kind", "OPERATOR_MORE_THAN", "5", "", "!"},
		{"activity.kind", "OPERATOR_CONTAINS", "5", "", "!"},
		{"activity.kind", "OPERATOR_LIKE", "5", "", "!"},
		{"activity.kind", "", "5", "", "!"},
		{"eth.tx.value", "OPERATOR_MORE_THAN", "0x5", "", "!"},
		{"eth.tx.value", "OPERATOR_EQUAL", "five", "", "!"},
		{"wallet.exported", "OPERATOR_EQUAL", "yes", "", "!"},
		{"time.now", "OPERATOR_MORE_THAN", "5", "", "!"},
	} {
		t.Run(c.subject+" "+c.operator+" "+c.targets, func(t *testing.T) {
			by, about, err := policy.FromSelectors([]policy.Selector{{Subject: c.subject, Operator: c.operator, Targets: strings.Fields(c.targets)}})
			if c.about == "!" {
				if f, ok := err.(*fault.Error); !ok || f.Code != fault.InvalidArgument || !strings.HasPrefix(f.Message, "invalid policy condition: selector 0: ") || by+about != "" {
					t.Fatalf("%q, %q, %v", by, about, err)
				}
				return
			}
			if by != c.by || about != c.about || err != nil {
				t.Fatalf("%q, %q, %v", by, about, err)
			}
		})
	}
	by, about, err := policy.FromSelectors([]policy.Selector{{Subject: "user.id", Operator: "OPERATOR_EQUAL", Targets: []string{"x"}}, {Subject: "activity.kind", Operator: "OPERATOR_EQUAL", Targets: []string{"A"}},
		{Subject: "wallet.id", Operator: "OPERATOR_IN", Targets: []string{"v", "w"}}})
	if by != "approvers.any(u, u.id == 'x')" || about != "activity.kind == 'A' && wallet.id in ['v', 'w']" || err != nil {
		t.Errorf("%q, %q, %v", by, about, err)
	}
	if by, about, err := policy.FromSelectors(nil); by+about != "" || err != nil {
		t.Errorf("%q, %q, %v", by, about, err)
	}
	if _, _, err := policy.FromSelectors(make([]policy.Selector, 101)); err == nil {
		t.Error("101 selectors")
	}
}
