// Package tempo reads the transactions of Tempo: an envelope of type 76 (hex)
// around the RLP of 13 fields, with a list of calls in place of one. The fields
// and what is signed are those of viem 2.57.0 (viem/tempo).
//
// Policies cannot see all that such a transaction can hold. An authorization list and a
// key authorization would change what it does, and are refused. An access list, the mark
// that somebody else will pay the fee, and an amount in a call are taken: Tempo has no
// coin of its own, and no node takes any amount but 0. Policies see the key of a nonce
// as part of the nonce.
package tempo

import (
	"bytes"
	"fmt"
	"math/big"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/rlp"
)

const (
	// MaxTransaction bounds a transaction, in bytes.
	MaxTransaction = 1 << 19
	// MaxCalls bounds its calls; nodes relay 32.
	MaxCalls = 100

	kind         = 0x76
	kindFeePayer = 0x78
	feePayerMark = 0x00 // stands for the signature of a fee payer, who signs later
	selectorSize = 4
)

// Chain is Tempo, where an account is named by its Ethereum address. The zero value
// is ready.
type Chain struct{}

type call struct{ to, value, input []byte }

type transaction struct {
	raw  []byte // all of it
	body []byte // the items of its list
	by   chain.PublicKey

	chainID, nonce, gas     uint64
	validBefore, validAfter uint64 // seconds since 1970, 0 without
	tip, feeCap, nonceKey   *big.Int
	feeToken                []byte // empty or 20 bytes
	access                  []byte // items of the access list
	sponsored               bool   // somebody else will pay the fee
	calls                   []call
}

// Read takes an unsigned transaction. It refuses, besides what is malformed: one that
// the sender or a fee payer has signed, whose place must be empty or hold the byte 00; a
// token for fees where a fee payer will sign, who chooses it; no calls, a chain id of 0,
// a priority fee above the fee, and a time of validity that is over when it begins. The
// signer must be a secp256k1 key named by its id or its Ethereum address. The answer
// shares no memory with the argument.
func (Chain) Read(unsigned []byte, by chain.SigningKey) (chain.Transaction, error) {
	switch {
	case by.Public.Curve() != chain.Secp256k1 || by.Format != 0 && by.Format != chain.Ethereum:
		return nil, chain.Invalid("only an Ethereum address or the id of a secp256k1 key can sign it")
	case len(unsigned) == 0:
		return nil, chain.Invalid("it is empty")
	case len(unsigned) > MaxTransaction:
		return nil, chain.Invalid("it is longer than %d bytes", MaxTransaction)
	case unsigned[0] == kindFeePayer:
		return nil, chain.Unsupported("what a fee payer signs; only the sender's part is signed")
	case unsigned[0] != kind:
		return nil, chain.Unsupported("a Tempo transaction begins with 76, this one with %02x", unsigned[0])
	}
	t := &transaction{raw: bytes.Clone(unsigned), by: by.Public}
	l := rlp.Open(t.raw[1:])
	t.body = l.Unread()
	if err := t.read(l); err != nil {
		return nil, err
	}
	if err := l.Err(); err != nil {
		return nil, chain.Invalid("%v", err)
	}
	return t, nil
}

// read takes the items. What is wrong with one of them is in l afterwards; what
// it answers is wrong with the whole.
func (t *transaction) read(l *rlp.List) error {
	if t.chainID = l.Uint64("chainId"); t.chainID == 0 {
		l.Fail("chainId", "must not be 0")
	}
	t.tip = l.Big("maxPriorityFeePerGas")
	if t.feeCap = l.Big("maxFeePerGas"); t.tip.Cmp(t.feeCap) > 0 {
		l.Fail("maxPriorityFeePerGas", "is above maxFeePerGas")
	}
	t.gas = l.Uint64("gas")
	t.readCalls(l.List("calls"))
	t.access = l.AccessList()
	t.nonceKey = l.Big("nonceKey")
	t.nonce = l.Uint64("nonce")
	t.validBefore = l.Uint64("validBefore")
	if t.validAfter = l.Uint64("validAfter"); t.validBefore > 0 && t.validBefore <= t.validAfter {
		l.Fail("validBefore", "must be after validAfter")
	}
	t.feeToken = l.Addressee("feeToken")
	payer, err := readFeePayer(l)
	if err != nil {
		return err
	}
	if t.sponsored = payer; payer && len(t.feeToken) > 0 {
		l.Fail("feeToken", "must be empty where a fee payer will sign, who chooses it")
	}
	if l.List("authorizationList").More() {
		return chain.Unsupported("it holds an authorization list, which policies cannot see")
	}
	if l.AtList() {
		return chain.Unsupported("it holds a key authorization, which policies cannot see")
	}
	if l.Left() == 1 {
		return chain.Invalid("it has been signed already")
	}
	l.End("the transaction")
	return nil
}

func (t *transaction) readCalls(l *rlp.List) {
	if n := l.Left(); n == 0 || n > MaxCalls {
		l.Fail("calls", "must be 1 to %d", MaxCalls)
	}
	for l.More() {
		c := l.List("calls")
		to := c.Addressee("calls.to")
		value := c.Number("calls.value", 32) // no node takes one but 0: Tempo has no coin of its own
		t.calls = append(t.calls, call{to, value, c.Bytes("calls.data")})
		c.End("calls")
	}
}

func readFeePayer(l *rlp.List) (bool, error) {
	if l.AtList() {
		return false, chain.Unsupported("a fee payer has signed it, who must sign after the sender; leave 00 in that place")
	}
	mark := l.Bytes("feePayerSignature")
	switch {
	case len(mark) == 0:
		return false, nil
	case len(mark) > 1 || mark[0] != feePayerMark:
		l.Fail("feePayerSignature", "must be empty or 00")
	}
	return true, nil
}

func (t *transaction) Root() string { return "tempo.tx" }

// Facts are the members of tempo.tx. Addresses and data are in lower case with
// 0x; fee_token is empty if the network is to choose it, or a fee payer. A call
// that creates a contract has an empty to, and no selector, as its data is code.
func (t *transaction) Facts(chain.Described) (chain.Struct, error) {
	from := t.by.KeccakAccount()
	addressee := func(b []byte) chain.Hex {
		if len(b) == 0 {
			return ""
		}
		return chain.ZeroX(b)
	}
	calls := make([]any, len(t.calls))
	for i, c := range t.calls {
		selector := chain.Hex("")
		if len(c.to) > 0 && len(c.input) >= selectorSize {
			selector = chain.ZeroX(c.input[:selectorSize])
		}
		calls[i] = chain.Struct{"to": addressee(c.to), "input": chain.ZeroX(c.input), "function_signature": selector}
	}
	return chain.Struct{
		"chain_id":                 t.chainID,
		"from":                     chain.ZeroX(from[:]),
		"nonce":                    t.wholeNonce(),
		"gas_limit":                t.gas,
		"max_fee_per_gas":          t.feeCap,
		"max_priority_fee_per_gas": t.tip,
		"fee_token":                addressee(t.feeToken),
		"valid_before":             t.validBefore,
		"valid_after":              t.validAfter,
		"calls":                    calls,
	}, nil
}

var maxFact = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))

// wholeNonce is key·2^64 + nonce, as ERC-4337 writes a nonce and its key, or 2^256-1 if
// that is above. Key 0 is that of an account's own nonce, which is then the nonce alone.
// So a condition on nonces does not come true under a key that it does not speak of.
func (t *transaction) wholeNonce() *big.Int {
	n := new(big.Int).Lsh(t.nonceKey, 64)
	if n.Add(n, new(big.Int).SetUint64(t.nonce)); n.Cmp(maxFact) > 0 {
		return maxFact
	}
	return n
}

func (t *transaction) Digests() []chain.Digest {
	sum := chain.Keccak(t.raw)
	return []chain.Digest{{Scheme: chain.ECDSA, Message: sum[:]}}
}

// Assemble answers the transaction with r, s and v, which is 27 or 28, as one
// more item of 65 bytes.
func (t *transaction) Assemble(signatures []chain.Signature) ([]byte, error) {
	if len(signatures) != 1 || signatures[0].V > 1 {
		return nil, fmt.Errorf("a Tempo transaction takes one signature with v 0 or 1, not %d", len(signatures))
	}
	s := signatures[0]
	var compact [65]byte
	copy(compact[:], s.R[:])
	copy(compact[32:], s.S[:])
	compact[64] = 27 + s.V
	return rlp.AppendList([]byte{kind}, t.body, rlp.AppendBytes(nil, compact[:])), nil
}
