package policy_test

import (
	"testing"

	"cloister/enclave/internal/policy"
)

// A number that came with data equals its decimal text only where that text stands
// in the policy: what data say must not turn a number into a text.
func TestNumbersEqualLiteralsOnly(t *testing.T) {
	tx := policy.Struct(policy.Member{Name: "function_name", Value: policy.String("7")},
		policy.Member{Name: "contract_call_args", Value: policy.Map(policy.Member{Name: "n", Value: policy.Dynamic(policy.Int(7))})})
	for source, want := range map[string]string{
		"eth.tx.contract_call_args['n'] == '7'":                           "true",
		"eth.tx.contract_call_args['n'] == 7":                             "true",
		"eth.tx.contract_call_args['n'] in ['7']":                         "true",
		"['1', '7'].contains(eth.tx.contract_call_args['n'])":             "true",
		"eth.tx.contract_call_args['n'] == '07'":                          "error",
		"eth.tx.contract_call_args['n'] == '8'":                           "false",
		"eth.tx.contract_call_args['n'] == eth.tx.function_name":          "error",
		"eth.tx.contract_call_args['n'] == '77'[0..1]":                    "error",
		"eth.tx.contract_call_args['n'] == '77'[0]":                       "error",
		"eth.tx.contract_call_args['n'] in [eth.tx.function_name]":        "error",
		"[eth.tx.function_name].contains(eth.tx.contract_call_args['n'])": "error",
	} {
		p, err := policy.Compile(policy.ClauseCondition, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		got := "false"
		if yes, err := p.Holds(&policy.Request{Facts: policy.Facts{"eth.tx": tx}}); err != nil {
			got = "error"
		} else if yes {
			got = "true"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}
