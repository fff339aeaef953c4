package wallet

import (
	"math/big"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/policy"
)

// factOf converts a chain's fact about a transaction to a policy value. A Go type that chains do not use
// becomes absent, so that a policy which reads it fails.
func factOf(v any) policy.Value { return fact(v, false) }

// fact is factOf for a value whose type is given by the data (byData), or by the schema.
func fact(v any, byData bool) (made policy.Value) {
	switch v := v.(type) {
	case bool:
		made = policy.Bool(v)
	case int64:
		made = policy.Int(v)
	case uint64:
		made = policy.BigInt(new(big.Int).SetUint64(v))
	case *big.Int:
		made = policy.BigInt(v)
	case string:
		made = policy.String(v)
	case chain.Hex:
		made = policy.Hex(string(v))
	case []string:
		if made = policy.Strings(v); byData {
			return policy.Dynamic(made)
		}
	case []any:
		vs := make([]policy.Value, len(v))
		for i := range v {
			vs[i] = fact(v[i], byData)
		}
		made = policy.List(vs...)
	case chain.Struct:
		made = policy.Struct(membersOf(v, byData)...)
	case chain.Map:
		made = policy.Map(membersOf(v, byData)...)
	case chain.Dynamic:
		return fact(v.Value, true)
	}
	if byData {
		return policy.DynamicPart(made)
	}
	return made
}

func membersOf[M ~map[string]any](m M, byData bool) []policy.Member {
	out := make([]policy.Member, 0, len(m))
	for name, v := range m {
		out = append(out, policy.Member{Name: name, Value: fact(v, byData)})
	}
	return out
}
