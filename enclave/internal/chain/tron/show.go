package tron

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
)

// Kind is the kind of what is shown.
func (t *transaction) Kind() string { return "TRON_TRANSACTION" }

// listName is the name of Tron on lists of tokens.
const listName = "tron"

var trx = show.Unit{Name: "sun", Symbol: "TRX", SymbolFrom: show.FromImage, Decimals: 6, HasDecimals: true}

// highFee is the fee from which approvers are warned, in sun: 1,000 TRX.
const highFee = 1_000_000_000

var titles = map[string]string{
	"TransferContract": "Send TRX", "TriggerSmartContract": "Call a contract", "AccountPermissionUpdateContract": "Change who controls the account",
	"FreezeBalanceV2Contract": "Stake TRX", "UnfreezeBalanceV2Contract": "Take staked TRX back", "DelegateResourceContract": "Lend resources to another account",
	"UnDelegateResourceContract": "Take lent resources back",
}

// ContractOf finds in Transaction.raw the name of the contract that it is for, and the contract's parameter: of any contract, and in any
// form that a node may take. ok is false for what is no transaction of Tron.
func ContractOf(raw []byte) (name string, parameter []byte, ok bool) {
	contract, ok := fieldOf(raw, 11)
	if !ok {
		return "", nil, false
	}
	any, ok := fieldOf(contract, 2)
	if !ok {
		return "", nil, false
	}
	url, _ := fieldOf(any, 1)
	parameter, _ = fieldOf(any, 2)
	name, ok = strings.CutPrefix(string(url[bytes.LastIndexByte(url, '/')+1:]), "protocol.")
	return name, parameter, ok && name != ""
}

// fieldOf is the last field of bytes with a number, as nodes take it; ok is false too if the message is no protocol buffer.
func fieldOf(message []byte, number uint64) (content []byte, ok bool) {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return nil, false
		}
		message = message[n:]
		size := uint64(0)
		switch tag & (1<<wireBits - 1) {
		case wireVarint:
			if _, n = binary.Uvarint(message); n <= 0 {
				return nil, false
			}
			size = uint64(n)
		case wireFixed64:
			size = 8
		case wireFixed32:
			size = 4
		case wireBytes:
			if size, n = binary.Uvarint(message); n <= 0 {
				return nil, false
			}
			message = message[n:]
		default:
			return nil, false
		}
		if size > uint64(len(message)) {
			return nil, false
		}
		if tag == number<<wireBits|wireBytes {
			content, ok = message[:size], true
		}
		message = message[size:]
	}
	return content, ok
}

// Wire types of protocol buffers that transactions do not have, and unknown fields may.
const (
	wireFixed64 = 1
	wireFixed32 = 5
)

// Show shows the one contract of the transaction.
func (t *transaction) Show(v *show.View, o *show.Object) error {
	c := t.facts["contract"].([]any)[0].(chain.Struct)
	typ := c["type"].(string)
	owner := c["owner_address"].(string)
	o.Plain("contract", typ)
	o.Address("owner", listName, owner, "")
	account := v.Signer().Public.KeccakAccount()
	if owner != chain.Base58Check(prefix, account) && !v.IsOwn(owner) {
		o.Warn(show.OtherParties, "owner")
	}
	if id := c["permission_id"].(int64); id > 0 {
		o.Uint("permissionId", uint64(id))
	}
	if to, ok := c["to_address"].(string); ok {
		o.Address("to", listName, to, "")
		o.Party(listName, to, "to")
	}
	if to, ok := c["receiver_address"].(string); ok {
		o.Address("receiver", listName, to, "")
		o.Party(listName, to, "receiver")
	}
	for _, name := range []string{"amount", "frozen_balance", "unfreeze_balance", "balance", "call_value"} {
		if n, ok := c[name].(int64); ok && (n > 0 || name != "call_value") {
			o.Amount("value", big.NewInt(n), trx)
		}
	}
	if resource, ok := c["resource"].(string); ok {
		o.Plain("resource", resource)
	}
	if lock, ok := c["lock"].(bool); ok {
		o.Bool("lock", lock)
		o.Uint("lockPeriod", uint64(c["lock_period"].(int64)))
	}
	if n, _ := c["call_token_value"].(int64); n > 0 {
		token := o.Object("tokenValue")
		token.Uint("value", uint64(n))
		token.Uint("tokenId", uint64(c["token_id"].(int64)))
		token.Warn(show.TokenUnknown)
	}
	if fee := t.facts["fee_limit"].(int64); fee > 0 {
		o.Amount("maxFee", big.NewInt(fee), trx)
		if fee > highFee {
			o.Warn(show.FeeHigh, "maxFee")
		}
	}
	o.Millis("expiration", t.facts["expiration"].(int64))
	t.showMemo(o)
	switch typ {
	case "AccountPermissionUpdateContract":
		showPermissions(o, c)
	case "TriggerSmartContract":
		if err := showCall(v, o.List("calls"), c); err != nil {
			return err
		}
	}
	v.Title(titles[typ])
	return nil
}

// showMemo shows what the sender adds for people.
func (t *transaction) showMemo(o *show.Object) {
	b, _ := hex.DecodeString(string(t.facts["data"].(chain.Hex)))
	switch {
	case len(b) == 0:
	case utf8.Valid(b):
		o.Lines("memo", string(b))
	default:
		o.Bytes("memo", b)
	}
}

func showCall(v *show.View, calls *show.List, c chain.Struct) error {
	to, _ := base58.Decode(c["contract_address"].(string)) // which text has written
	data, _ := hex.DecodeString(string(c["data"].(chain.Hex)))
	return v.ShowCall(calls, show.ContractCall{
		Network: listName, Address: func(account []byte) string { return chain.Base58Check(prefix, [20]byte(account)) }, Coin: trx,
		To: to[1:addressSize], Data: data, Value: big.NewInt(c["call_value"].(int64)),
	})
}

// showPermissions shows who can do what with the account from then on.
func showPermissions(o *show.Object, c chain.Struct) {
	o.Warn(show.ControlChange)
	all := o.Object("permissions")
	for _, name := range []string{"owner", "witness"} {
		if p, ok := c[name].(chain.Struct); ok {
			showPermission(all.Object(name), p)
		}
	}
	if actives, _ := c["actives"].([]any); len(actives) > 0 {
		list := all.List("actives")
		for _, p := range actives {
			showPermission(list.Object(), p.(chain.Struct))
		}
	}
}

func showPermission(o *show.Object, p chain.Struct) {
	if name := p["permission_name"].(string); name != "" {
		o.Text("name", name)
	}
	o.Uint("threshold", uint64(p["threshold"].(int64)))
	if operations := p["operations"].(chain.Hex); operations != "" {
		o.Plain("operations", "0x"+string(operations))
	}
	list := o.List("keys")
	keys, _ := p["keys"].([]any)
	for _, k := range keys {
		k := k.(chain.Struct)
		entry := list.Object()
		address := k["address"].(string)
		entry.Plain("address", address)
		entry.Label(listName, address, "")
		entry.Uint("weight", uint64(k["weight"].(int64)))
		entry.Party(listName, address)
	}
}
