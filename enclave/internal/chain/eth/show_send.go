package eth

import (
	"math/big"

	"cloister/enclave/internal/chain/show"
)

// A Send is a transaction that is to be made once it is approved. What is nil is found then, from what the host says of the
// chain, within MostGas and MostFee.
type Send struct {
	ChainID    uint64
	From       [20]byte
	Calls      []Call
	Nonce, Gas *uint64
	FeeCap     *big.Int // for a unit of gas
	MostGas    uint64
	MostFee    *big.Int

	// Delegated: the calls are made by the code that the account has lent itself. Sponsored: another account pays for it.
	Delegated, Sponsored bool
	// Undelegates: there is no call, the account takes itself back from code.
	Undelegates bool
}

// Kind is the kind of what is shown.
func (s *Send) Kind() string { return "ETHEREUM_TRANSACTION" }

// Show shows what is known of the transaction, and what bounds the rest.
func (s *Send) Show(v *show.View, o *show.Object) error {
	p := placeOf(s.ChainID)
	o.List("signs")
	typ := "EIP1559"
	switch {
	case s.Undelegates:
		typ = "EIP7702"
	case s.Delegated:
		typ = "DELEGATED_CALLS"
	}
	o.Plain("type", typ)
	p.show(o)
	o.Address("from", p.caip2, p.text(s.From[:]), "")
	s.showTerms(v, o, p)
	if s.Undelegates {
		o.Plain("undelegates", "ACCOUNT")
		v.Title("Take the account back from code")
		return nil
	}
	if s.Delegated {
		s.showAuthorization(o)
	}
	if len(s.Calls) == 1 && len(s.Calls[0].Data) == 0 {
		c := &s.Calls[0]
		to := p.address(o, "to", c.To[:])
		o.Amount("value", c.Value, p.native)
		p.party(o, to, "to")
		if c.Value.Sign() > 0 {
			burn(o, to, "to")
		}
		v.Title(p.sendTitle())
		return nil
	}
	depth := 2 // with the value of each
	if len(s.Calls) == 1 {
		p.address(o, "to", s.Calls[0].To[:])
		o.Amount("value", s.Calls[0].Value, p.native)
		depth = 1
	}
	calls := make([]shownCall, len(s.Calls))
	for i := range s.Calls {
		c := &s.Calls[i]
		calls[i] = shownCall{to: c.To[:], data: c.Data, value: c.Value}
	}
	if len(calls) > 1 {
		v.Title("Several calls at once")
	}
	err := callReader{view: v, at: p}.all(o.List("calls"), calls, depth)
	v.Title("Call a contract")
	return err
}

// showAuthorization shows the authorization that is signed along unless the account has the delegate's code, which the host says at
// the vote.
func (s *Send) showAuthorization(o *show.Object) {
	a := o.Object("authorization")
	a.Address("address", "", AddressText(Delegate), contracts[AddressText(Delegate)])
	a.Warn(show.DelegationLent, "address")
	a.Number("chainId", new(big.Int).SetUint64(s.ChainID))
	a.Plain("authority", AddressText(s.From))
	a.Bool("mayBeSigned", true)
	a.Object("nonce").Plain("source", show.FromHost)
}

func (s *Send) showTerms(v *show.View, o *show.Object, p place) {
	later := func(key string, most *big.Int) {
		child := o.Object(key)
		child.Plain("source", show.FromHost)
		child.Number("most", most)
		v.Open()
	}
	switch {
	case s.Sponsored:
		o.Plain("feePayer", "SPONSOR")
		later("nonce", nil)
		return
	case s.Nonce != nil:
		o.Uint("nonce", *s.Nonce)
	default:
		later("nonce", nil)
	}
	if s.Gas != nil {
		o.Uint("gasLimit", *s.Gas)
	} else {
		later("gasLimit", new(big.Int).SetUint64(s.MostGas))
	}
	if s.Gas == nil || s.FeeCap == nil {
		later("maxFee", s.MostFee)
		return
	}
	fee := new(big.Int).Mul(s.FeeCap, new(big.Int).SetUint64(*s.Gas))
	o.Amount("maxFee", fee, p.native)
	if p.isHigh(fee) {
		o.Warn(show.FeeHigh, "maxFee")
	}
}
