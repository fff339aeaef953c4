package btc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"slices"
	"unicode/utf8"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
)

// Kind is the kind of what is shown.
func (t *transaction) Kind() string { return "BITCOIN_TRANSACTION" }

// listName is the name of Bitcoin and its kin where addresses are looked up.
const listName = "bitcoin"

func (n *network) amount(o *show.Object, key string, value int64) *show.Object {
	return o.Amount(key, big.NewInt(value), show.Unit{Name: n.unit, Symbol: n.coin, SymbolFrom: show.FromImage, Decimals: 8, HasDecimals: true})
}

// Show shows all inputs and outputs, which of them are the organization's own, and what leaves. The fee is proven: Read takes
// no other.
func (t *transaction) Show(v *show.View, o *show.Object) error {
	tx := &t.psbt.tx
	n := o.Object("network")
	n.Plain("name", t.net.name)
	n.Plain("nameSource", show.FromImage)
	o.Uint("version", uint64(tx.version))
	if id, fixed := t.id(); fixed {
		o.Plain("txid", id)
	}
	own := t.showInputs(v, o) - t.showOutputs(v, o)
	t.net.amount(o, "spent", own)
	t.net.amount(o, "fee", t.fee).Bool("proven", true)
	paid := int64(0)
	for _, out := range tx.out {
		paid += out.value
	}
	if t.fee > paid/10 {
		o.Warn(show.FeeHigh, "fee")
	}
	if tx.locktime > 0 {
		lock := o.Object("locktime")
		lock.Uint("value", uint64(tx.locktime))
		if tx.locktime >= locktimeSeconds {
			lock.Plain("unit", "s")
		} else {
			lock.Plain("unit", "block")
		}
	}
	v.Title("Send " + t.net.coin)
	return nil
}

// id is the transaction's id, unless signatures are part of it.
func (t *transaction) id() (text string, fixed bool) {
	for i := range t.spent {
		if _, _, program := witness(t.spent[i].script); !program {
			return "", false
		}
	}
	id := chain.SHA256d(t.psbt.tx.raw)
	slices.Reverse(id[:])
	return hex.EncodeToString(id[:]), true
}

// ownershipOf tells whether a script is the signer's or another account's of the organization.
func (t *transaction) ownershipOf(v *show.View, script []byte, address string) show.Ownership {
	if k := kindOf(script); k != none {
		if own, ok := scriptOf(k, t.by); ok && bytes.Equal(own, script) {
			return show.Own
		}
	}
	if address == "" {
		return show.NotOwn
	}
	return v.OwnershipOf(address)
}

// showInputs answers how much the own inputs spend.
func (t *transaction) showInputs(v *show.View, o *show.Object) (own int64) {
	list := o.List("inputs")
	for i, x := range t.psbt.tx.in {
		in, spends := list.Object(), &t.spent[i]
		id := bytes.Clone(x.outpoint[:32])
		slices.Reverse(id)
		in.Plain("txid", hex.EncodeToString(id))
		in.Uint("vout", uint64(binary.LittleEndian.Uint32(x.outpoint[32:])))
		t.net.amount(in, "value", spends.value)
		address, _ := t.net.address(spends.script)
		if address != "" {
			in.Plain("address", address)
			in.Label(listName, address, "")
		}
		mine := t.ownershipOf(v, spends.script, address) != show.NotOwn
		if in.Bool("own", mine); mine {
			own += spends.value
		} else {
			in.Warn(show.OtherParties)
		}
	}
	return own
}

// showOutputs answers how much comes back to own outputs. One whose key was outside is no safe change: what it gets counts as spent.
func (t *transaction) showOutputs(v *show.View, o *show.Object) (own int64) {
	list := o.List("outputs")
	claims := t.claims()
	for i, x := range t.psbt.tx.out {
		out := list.Object()
		t.net.amount(out, "value", x.value)
		address, _ := t.net.address(x.script)
		whose := t.ownershipOf(v, x.script, address)
		mine := whose != show.NotOwn
		if out.Bool("own", mine); whose == show.Own {
			own += x.value
		}
		switch {
		case address != "":
			out.Plain("address", address)
			out.Label(listName, address, "")
			if whose != show.Own {
				out.Party(listName, address)
			}
		case len(x.script) > 0 && x.script[0] == opReturn:
			showReturn(out, x)
		default:
			out.Unreadable(show.Code, x.script)
		}
		if claims[i] && !mine {
			out.Bool("claimsOwn", true)
			out.Warn(show.ChangeFalse)
		}
	}
	return own
}

const opReturn = 0x6a

// showReturn shows an output that holds data and can never be spent.
func showReturn(out *show.Object, x txOut) {
	out.Plain("kind", "OP_RETURN")
	if x.value > 0 {
		out.Warn(show.AddressBurn)
	}
	pushed, ok := pushes(x.script[1:])
	if !ok {
		out.Data("script", x.script)
		return
	}
	data := out.Object("data")
	data.Bytes("hex", pushed)
	if utf8.Valid(pushed) && len(pushed) > 0 {
		data.Text("text", string(pushed))
	}
}

// pushes are the bytes that a script of nothing but pushes holds.
func pushes(script []byte) (all []byte, ok bool) {
	for len(script) > 0 {
		size, head := int(script[0]), 1
		switch {
		case size == 0x4c && len(script) > 1:
			size, head = int(script[1]), 2
		case size == 0x4d && len(script) > 2:
			size, head = int(binary.LittleEndian.Uint16(script[1:])), 3
		case size > 0x4b:
			return nil, false
		}
		if head+size > len(script) {
			return nil, false
		}
		all, script = append(all, script[head:head+size]...), script[head+size:]
	}
	return all, true
}

// The types of an output's map that say whose key it pays.
const (
	outDerivation    = 0x02
	outTapInternal   = 0x05
	outTapDerivation = 0x07
)

// claims tells of which outputs the PSBT says that they pay a key of its wallet. Nothing proves it.
func (t *transaction) claims() []bool {
	claims := make([]bool, len(t.psbt.tx.out))
	c := &cursor{input: t.psbt.raw, at: t.psbt.outs}
	var m pairs
	for i := range claims {
		m.read(c, outputFields, func(typ uint64, _ []byte) {
			claims[i] = claims[i] || typ == outDerivation || typ == outTapInternal || typ == outTapDerivation
		})
	}
	return claims
}
