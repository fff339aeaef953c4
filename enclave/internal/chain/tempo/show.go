package tempo

import (
	"math/big"
	"strconv"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/rlp"
	"cloister/enclave/internal/chain/show"
)

// Kind is the kind of what is shown.
func (t *transaction) Kind() string { return "TEMPO_TRANSACTION" }

var networks = map[uint64]string{4217: "Tempo", 42431: "Tempo Testnet"}

// Fees on Tempo are in dollars: prices of gas in units of 10^-18.
var dollar = show.Unit{Name: "attodollar", Symbol: "USD", SymbolFrom: show.FromImage, Decimals: 18, HasDecimals: true}

// highFee is the fee from which approvers are warned: 10 dollars.
var highFee = new(big.Int).Mul(big.NewInt(10), big.NewInt(1e18))

// Show shows the transaction with all its calls.
func (t *transaction) Show(v *show.View, o *show.Object) error {
	list := "eip155:" + strconv.FormatUint(t.chainID, 10)
	address := chain.ChecksumAddress
	n := o.Object("network")
	n.Uint("chainId", t.chainID)
	if name := networks[t.chainID]; name != "" {
		n.Plain("name", name)
		n.Plain("nameSource", show.FromImage)
	} else {
		n.Warn(show.ChainUnknown)
	}
	account := t.by.KeccakAccount()
	o.Address("from", list, address(account[:]), "")
	o.Uint("nonce", t.nonce)
	o.Number("nonceKey", t.nonceKey)
	o.Uint("gasLimit", t.gas)
	fee := new(big.Int).Mul(t.feeCap, new(big.Int).SetUint64(t.gas))
	o.Amount("maxFee", fee, dollar)
	if fee.Cmp(highFee) > 0 {
		o.Warn(show.FeeHigh, "maxFee")
	}
	if len(t.feeToken) > 0 {
		o.Address("feeToken", list, address(t.feeToken), "")
	}
	if t.sponsored {
		o.Plain("feePayer", "OTHER")
		o.Warn(show.OtherParties, "feePayer")
	}
	if t.validAfter > 0 {
		o.Time("validAfter", new(big.Int).SetUint64(t.validAfter))
	}
	if t.validBefore > 0 {
		o.Time("validBefore", new(big.Int).SetUint64(t.validBefore))
	}
	if len(t.access) > 0 {
		entries := o.List("accessList")
		rlp.EachAccess(t.access, func(account []byte, slots int) {
			entry := entries.Object()
			entry.Plain("address", address(account))
			entry.Uint("storageKeys", uint64(slots))
		})
	}
	if len(t.calls) > 1 {
		v.Title("Several calls at once")
	}
	return t.showCalls(v, o.List("calls"), list, address)
}

func (t *transaction) showCalls(v *show.View, calls *show.List, list string, address func([]byte) string) error {
	for i := range t.calls {
		c := &t.calls[i]
		if i > 0 && v.CallsLeft() == 0 {
			calls.TooMany()
			break
		}
		if len(c.to) == 0 {
			o := calls.Object()
			o.Plain("kind", "CREATE")
			o.Data("code", c.input)
			o.Warn(show.ContractCreation)
			v.MarkPartial()
			v.Title("Create a contract")
			continue
		}
		value := new(big.Int).SetBytes(c.value)
		call := show.ContractCall{Network: list, Address: address, Coin: show.Unit{Name: "wei"}, To: c.to, Data: c.input, Value: value}
		if err := v.ShowCall(calls, call); err != nil {
			return err
		}
		v.Title("Call a contract")
	}
	return nil
}
