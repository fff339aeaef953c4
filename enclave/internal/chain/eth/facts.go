package eth

import (
	"math/big"

	"cloister/enclave/internal/chain"
)

var typeNames = [...]string{"LEGACY", "TYPE_1", "TYPE_2", "TYPE_3", "TYPE_4"}

// Root is eth.tx.
func (t *transaction) Root() string { return "eth.tx" }

// Facts are the members of eth.tx. What the type does not have is 0; gas_price is
// max_fee_per_gas from type 2 on; chain_id is 0 before EIP-155, when a transaction was
// good on all chains. Addresses are in lower case; to is empty where a contract is
// created. The three facts of the call are filled in if described knows the contract
// and the function. Data that have the selector of a known function and do not decode
// are refused: they would pass by every policy that looks at that function, and a
// contract may read them all the same.
func (t *transaction) Facts(described chain.Described) (chain.Struct, error) {
	from := t.by.KeccakAccount()
	feeCap, tip, blobPrice := new(big.Int), new(big.Int), new(big.Int)
	if t.kind >= typeDynamicFee {
		feeCap, tip = t.price, t.tip
	}
	if t.kind == typeBlob {
		blobPrice = t.blobPrice
	}
	facts := chain.Struct{
		"type":                     typeNames[t.kind],
		"chain_id":                 t.chainID,
		"nonce":                    t.nonce,
		"from":                     chain.ZeroX(from[:]),
		"to":                       chain.Hex(""),
		"value":                    t.value,
		"data":                     chain.ZeroX(t.data),
		"gas":                      t.gas,
		"gas_price":                t.price,
		"max_fee_per_gas":          feeCap,
		"max_priority_fee_per_gas": tip,
		"max_fee_per_blob_gas":     blobPrice,
		"function_name":            "",
		"function_signature":       chain.Hex(""),
	}
	if len(t.to) == 0 {
		return facts, nil
	}
	to := chain.ZeroX(t.to)
	facts["to"] = to
	if len(t.data) < 4 || described == nil {
		return facts, nil
	}
	d, err := described(string(to))
	if err != nil {
		return nil, err
	}
	i, ok := d.(*Interface)
	if !ok || i == nil {
		return facts, nil
	}
	name, args := i.call(t.data)
	switch {
	case args != nil:
		facts["function_name"] = name
		facts["function_signature"] = chain.ZeroX(t.data[:4])
		facts["contract_call_args"] = chain.Dynamic{Value: args}
	case name != "":
		return nil, chain.Invalid("data do not decode as %s of the interface uploaded for %s", name, to)
	}
	return facts, nil
}
