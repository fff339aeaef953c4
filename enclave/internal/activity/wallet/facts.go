package wallet

import (
	"math/big"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/policy"
)

// factOf writes what a chain says of a transaction in the terms of policies. A Go type that chains do not use
// becomes absent, so that a policy which reads it fails.
func factOf(v any) policy.Value {
	switch v := v.(type) {
	case bool:
		return policy.Bool(v)
	case int64:
		return policy.Int(v)
	case uint64:
		return policy.BigInt(new(big.Int).SetUint64(v))
	case *big.Int:
		return policy.BigInt(v)
	case string:
		return policy.String(v)
	case chain.Hex:
		return policy.Hex(string(v))
	case []string:
		return policy.Strings(v)
	case []any:
		vs := make([]policy.Value, len(v))
		for i := range v {
			vs[i] = factOf(v[i])
		}
		return policy.List(vs...)
	case chain.Struct:
		return policy.Struct(membersOf(v)...)
	case chain.Map:
		return policy.Map(membersOf(v)...)
	case chain.Dynamic:
		return policy.Dynamic(factOf(v.Value))
	}
	return policy.Value{}
}

func membersOf[M ~map[string]any](m M) []policy.Member {
	out := make([]policy.Member, 0, len(m))
	for name, v := range m {
		out = append(out, policy.Member{Name: name, Value: factOf(v)})
	}
	return out
}
