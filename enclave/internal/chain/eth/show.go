package eth

import (
	"math/big"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/rlp"
	"cloister/enclave/internal/chain/show"
)

var shownTypes = [...]string{"LEGACY", "EIP2930", "EIP1559", "EIP4844", "EIP7702"}

// Kind is the kind of what is shown.
func (t *transaction) Kind() string { return "ETHEREUM_TRANSACTION" }

// Show shows the transaction: all that it holds, and its call by the interface that the organization has uploaded for the
// contract, or a standard one.
func (t *transaction) Show(v *show.View, o *show.Object) error {
	account := t.by.KeccakAccount()
	from := chain.ChecksumAddress(account[:])
	p := placeOf(t.chainID)
	o.Plain("type", shownTypes[t.kind])
	p.show(o)
	o.Address("from", p.caip2, from, "")
	to := ""
	if len(t.to) > 0 {
		to = p.address(o, "to", t.to)
	} else {
		o.Plain("to", "")
	}
	o.Uint("nonce", t.nonce)
	o.Amount("value", t.value, p.native)
	o.Uint("gasLimit", t.gas)
	fee := t.fee()
	o.Amount("maxFee", fee, p.native)
	if p.isHigh(fee) {
		o.Warn(show.FeeHigh, "maxFee")
	}
	if t.blobPrice != nil {
		o.Number("maxFeePerBlobGas", t.blobPrice)
		hashes := o.List("blobs")
		for l := rlp.Items(t.blobs); l.More(); {
			hashes.Digest(l.Bytes("blob"))
		}
	}
	if len(t.access) > 0 {
		list := o.List("accessList")
		rlp.EachAccess(t.access, func(address []byte, slots int) {
			entry := list.Object()
			entry.Plain("address", chain.ChecksumAddress(address))
			entry.Uint("storageKeys", uint64(slots))
		})
	}
	if t.kind == typeSetCode {
		v.Title("Let code act as an account")
		t.showAuthorizations(v, o, from)
	}
	r := callReader{view: v, at: p}
	switch {
	case to == "":
		o.Data("code", t.data)
		o.Warn(show.ContractCreation)
		v.Title("Create a contract")
		v.MarkPartial()
	case len(t.data) > 0:
		if err := r.show(o.List("calls"), shownCall{to: t.to, value: t.value, data: t.data}, 1); err != nil {
			return err
		}
		v.Title("Call a contract")
	default:
		p.party(o, to, "to")
		if t.value.Sign() > 0 {
			burn(o, to, "to")
		}
		v.Title(p.sendTitle())
	}
	return nil
}

func (p place) sendTitle() string {
	if p.net.coin == "" {
		return "Send coins"
	}
	return "Send " + p.net.coin
}

// blobGas is the gas that one blob takes (EIP-4844).
const blobGas = 1 << 17

// fee is the most that the transaction can cost beside its value.
func (t *transaction) fee() *big.Int {
	fee := new(big.Int).Mul(t.price, new(big.Int).SetUint64(t.gas))
	if t.blobPrice != nil {
		gas := int64(rlp.Items(t.blobs).Left()) * blobGas
		fee.Add(fee, new(big.Int).Mul(t.blobPrice, big.NewInt(gas)))
	}
	return fee
}

// showAuthorizations shows which accounts lend themselves to which code.
func (t *transaction) showAuthorizations(v *show.View, o *show.Object, from string) {
	list := o.List("authorizations")
	for l := rlp.Items(t.authorizations); l.More(); {
		a := l.List("authorization")
		id := new(big.Int).SetBytes(a.Number("chainId", 32))
		address, nonce := a.FixedBytes("address", 20), a.Uint64("nonce")
		parity, r, s := a.Uint64("yParity"), a.Number("r", 32), a.Number("s", 32)
		entry := list.Object()
		showDelegation(entry, address, id)
		entry.Uint("nonce", nonce)
		key, err := recoverKey((&Authorization{address, id, new(big.Int).SetUint64(nonce)}).Digest(), byte(parity), r, s)
		if err != nil { // it cannot come into force
			entry.Bool("valid", false)
			continue
		}
		account := key.KeccakAccount()
		authority := chain.ChecksumAddress(account[:])
		entry.Plain("authority", authority)
		own := v.IsOwn(authority) || authority == from
		if entry.Bool("own", own); !own {
			entry.Warn(show.OtherParties)
		}
	}
}

// showDelegation shows the code that an account is to obey, and where.
func showDelegation(o *show.Object, address []byte, id *big.Int) {
	text := chain.ChecksumAddress(address)
	o.Address("address", "", text, contracts[text])
	if text != zeroAddress {
		placeOf(0).party(o, text, "address")
		o.Warn(show.Delegation, "address")
	}
	if id.Sign() == 0 {
		o.Plain("chainId", "any")
		o.Warn(show.ChainAny, "chainId")
	} else {
		o.Number("chainId", id)
	}
}

// ShowCall is a show.ContractCalls: it reads the data of a call by a standard function or an uploaded interface.
func ShowCall(v *show.View, list *show.List, c show.ContractCall) error {
	r := callReader{view: v, at: place{caip2: c.Network, text: c.Address, native: c.Coin, described: strings.HasPrefix(c.Network, "eip155:")}}
	return r.show(list, shownCall{to: c.To, data: c.Data, value: c.Value}, 1)
}

// Show shows an authorization that is signed alone.
func (a *Authorization) Show(v *show.View, o *show.Object, by chain.PublicKey) {
	if isZero(a.address) {
		v.Title("Take the account back from code")
	}
	v.Title("Let code act as the account")
	account := by.KeccakAccount()
	showDelegation(o, a.address, a.chainID)
	o.Number("nonce", a.nonce)
	o.Plain("authority", chain.ChecksumAddress(account[:]))
}
