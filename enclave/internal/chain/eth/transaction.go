package eth

import (
	"bytes"
	"fmt"
	"math/big"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/rlp"
)

const (
	// MaxTransaction bounds a transaction, in bytes. Nodes relay less: 128 KiB
	// where they are go-ethereum.
	MaxTransaction = 1 << 19
	// maxChainID is the largest that EIP-2294 allows, so that EIP-155's v fits 64
	// bits.
	maxChainID = 1<<63 - 37
)

// The types of transactions: the first byte, or 0 for those from before EIP-2718.
const (
	typeLegacy     = 0
	typeAccessList = 1 // EIP-2930
	typeDynamicFee = 2 // EIP-1559
	typeBlob       = 3 // EIP-4844
	typeSetCode    = 4 // EIP-7702
	typeTempo      = 0x76
)

// fields are what transactions of all types hold, and those of some.
type fields struct {
	kind                byte
	chainID, nonce, gas uint64
	price               *big.Int // gasPrice, or maxFeePerGas where there is one
	tip, blobPrice      *big.Int // nil where the type has none
	value               *big.Int
	to, data            []byte // to is empty where a contract is created
	access              []byte // items of the access list
	blobs               []byte // items of the list of hashes of type 3
	authorizations      []byte // items of the list of type 4
}

// A transaction has been read and not been signed.
type transaction struct {
	fields
	raw  []byte // all that is signed
	body []byte // the items that stay when it is signed
	by   chain.PublicKey
}

// Read takes an unsigned transaction: legacy RLP of 6 items, or of 9 with the chain's
// id, 0 and 0 (EIP-155), or an envelope of type 1, 2, 3 or 4, without a signature or with one
// of which all three items are empty, as go-ethereum writes it. It checks all of it, down
// to access lists and authorizations. Besides what is malformed it refuses what has been
// signed already, a chain id of 0 or above 2^63-37, a priority fee above the fee, a type
// 3 that carries its blobs or has none, a type 4 without an authorization, and a type 3
// or 4 that would create a contract. The signer must be a secp256k1 key named by its id
// or its Ethereum address. The answer shares no memory with the argument.
func (Chain) Read(unsigned []byte, by chain.SigningKey) (chain.Transaction, error) {
	if by.Public.Curve() != chain.Secp256k1 || by.Format != 0 && by.Format != chain.Ethereum {
		return nil, chain.Invalid("only an Ethereum address or the id of a secp256k1 key can sign it")
	}
	t := &transaction{raw: bytes.Clone(unsigned), by: by.Public}
	l, err := t.open(t.raw)
	if err != nil {
		return nil, err
	}
	t.body = t.read(l)
	bare := t.kind == typeLegacy && !l.More() // before EIP-155, good on every chain
	if t.kind == typeLegacy && !bare || l.Left() == 3 {
		var parity uint64
		if t.kind == typeLegacy {
			t.chainID = l.Uint64("chainId")
		} else {
			parity, t.raw = l.Uint64("yParity"), t.envelope(t.body)
		}
		r, s := l.Number("r", 32), l.Number("s", 32)
		switch {
		case l.Err() != nil:
		case len(r)+len(s) > 0:
			return nil, chain.Invalid("it has been signed already")
		case parity > 0:
			l.Fail("yParity", "must be 0 where r and s are")
		}
	}
	l.End("the transaction")
	if !bare {
		t.checkChain(l)
	}
	if err := l.Err(); err != nil {
		return nil, chain.Invalid("%v", err)
	}
	return t, nil
}

// open tells the type and opens the list of the items.
func (f *fields) open(b []byte) (*rlp.List, error) {
	switch {
	case len(b) == 0:
		return nil, chain.Invalid("it is empty")
	case len(b) > MaxTransaction:
		return nil, chain.Invalid("it is longer than %d bytes", MaxTransaction)
	case b[0] == typeTempo:
		return nil, chain.Unsupported("a Tempo transaction; its type is TRANSACTION_TYPE_TEMPO")
	case typeAccessList <= b[0] && b[0] <= typeSetCode:
		f.kind, b = b[0], b[1:]
	case b[0] < 0x80:
		return nil, chain.Unsupported("type %d; types 1 to 4 and the legacy form are read", b[0])
	}
	l := rlp.Open(b)
	if f.kind == typeBlob && l.AtList() {
		return nil, chain.Unsupported("type 3 with blobs, commitments and proofs; send the transaction's own fields alone, which are what is signed")
	}
	return l, nil
}

// read takes all items up to the signature and answers their encodings.
func (f *fields) read(l *rlp.List) []byte {
	all := l.Unread()
	if f.kind != typeLegacy {
		f.chainID = l.Uint64("chainId")
	}
	f.nonce = l.Uint64("nonce")
	if f.kind < typeDynamicFee {
		f.price = l.Big("gasPrice")
	} else {
		f.tip = l.Big("maxPriorityFeePerGas")
		f.price = l.Big("maxFeePerGas")
		if f.tip.Cmp(f.price) > 0 {
			l.Fail("maxPriorityFeePerGas", "is above maxFeePerGas")
		}
	}
	f.gas = l.Uint64("gas")
	if f.kind < typeBlob {
		f.to = l.Addressee("to")
	} else {
		f.to = l.FixedBytes("to", 20)
	}
	f.value, f.data = l.Big("value"), l.Bytes("data")
	if f.kind != typeLegacy {
		f.access = l.AccessList()
	}
	switch f.kind {
	case typeBlob:
		f.blobPrice = l.Big("maxFeePerBlobGas")
		list := l.List("blobVersionedHashes")
		f.blobs = list.Unread()
		readBlobHashes(list)
	case typeSetCode:
		list := l.List("authorizationList")
		f.authorizations = list.Unread()
		readAuthorizations(list)
	}
	return all[:len(all)-len(l.Unread())]
}

func (f *fields) checkChain(l *rlp.List) {
	if f.chainID == 0 || f.chainID > maxChainID {
		l.Fail("chainId", "must be 1 to %d", uint64(maxChainID))
	}
}

func readBlobHashes(l *rlp.List) {
	if !l.More() {
		l.Fail("blobVersionedHashes", "must not be empty")
	}
	for l.More() {
		if h := l.FixedBytes("blobVersionedHashes", 32); h != nil && h[0] != 1 {
			l.Fail("blobVersionedHashes", "must begin with version 01")
		}
	}
}

// readAuthorizations checks their form. A parity other than 0 and 1 is within
// EIP-7702, but no such authorization can come into force.
func readAuthorizations(l *rlp.List) {
	if !l.More() {
		l.Fail("authorizationList", "must not be empty")
	}
	for l.More() {
		a := l.List("authorizationList")
		a.Number("authorizationList.chainId", 32)
		a.FixedBytes("authorizationList.address", 20)
		a.Uint64("authorizationList.nonce")
		if a.Uint64("authorizationList.yParity") > 1 {
			a.Fail("authorizationList.yParity", "must be 0 or 1")
		}
		a.Number("authorizationList.r", 32)
		a.Number("authorizationList.s", 32)
		a.End("authorizationList")
	}
}

var typeNames = [...]string{"LEGACY", "TYPE_1", "TYPE_2", "TYPE_3", "TYPE_4"}

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

func (t *transaction) Digests() []chain.Digest {
	sum := chain.Keccak(t.raw)
	return []chain.Digest{{Scheme: chain.ECDSA, Message: sum[:]}}
}

// Assemble answers the signed envelope. A legacy transaction gets v 27 or 28, or
// 35 or 36 plus twice the chain's id; the others the parity of y.
func (t *transaction) Assemble(signatures []chain.Signature) ([]byte, error) {
	if len(signatures) != 1 || signatures[0].V > 1 {
		return nil, fmt.Errorf("an Ethereum transaction takes one signature with v 0 or 1, not %d", len(signatures))
	}
	s := signatures[0]
	v := uint64(s.V)
	if t.kind == typeLegacy {
		if v += 27; t.chainID > 0 {
			v += 8 + 2*t.chainID
		}
	}
	end := rlp.AppendUint(make([]byte, 0, 75), v)
	end = rlp.AppendNumber(end, s.R[:])
	end = rlp.AppendNumber(end, s.S[:])
	return t.envelope(t.body, end), nil
}

// envelope is the list of items in parts, behind the type if there is one.
func (f *fields) envelope(parts ...[]byte) []byte {
	if f.kind == typeLegacy {
		return rlp.AppendList(nil, parts...)
	}
	return rlp.AppendList([]byte{f.kind}, parts...)
}

// Unsigned1559 is an unsigned transaction of type 2 without an access list, which
// creates a contract where to is nil. The amounts must not be negative; nil is 0.
func Unsigned1559(chainID, nonce uint64, tip, feeCap *big.Int, gas uint64, to *[20]byte, value *big.Int, data []byte) []byte {
	var addressee []byte
	if to != nil {
		addressee = to[:]
	}
	body := append1559(make([]byte, 0, len(data)+160), chainID, nonce, tip, feeCap, gas, addressee, value, data)
	return rlp.AppendList([]byte{typeDynamicFee}, body)
}

// append1559 are the items that types 2 and 4 begin with, up to an empty access list.
func append1559(body []byte, chainID, nonce uint64, tip, feeCap *big.Int, gas uint64, to []byte, value *big.Int, data []byte) []byte {
	body = rlp.AppendUint(body, chainID)
	body = rlp.AppendUint(body, nonce)
	body = rlp.AppendBig(body, tip)
	body = rlp.AppendBig(body, feeCap)
	body = rlp.AppendUint(body, gas)
	body = rlp.AppendBytes(body, to)
	body = rlp.AppendBig(body, value)
	body = rlp.AppendBytes(body, data)
	return rlp.AppendList(body)
}
