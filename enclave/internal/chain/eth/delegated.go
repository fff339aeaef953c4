package eth

import (
	"bytes"
	"encoding/binary"
	"math/big"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/rlp"
)

// An account that has delegated to the code of a contract (EIP-7702) can make several calls in one transaction, and
// another account can pay for it. The contracts are the published TKGasDelegate and TKGasStation: whoever moves an
// account here, or away, keeps its delegation and its nonce. Both were deployed by CREATE2, so no other code can stand at
// their addresses on any chain.
var (
	// Delegate is the contract that accounts delegate to.
	Delegate = [20]byte{0x2a, 0x31, 0xef, 0x11, 0x0e, 0x4c, 0xdb, 0x9c, 0x33, 0x2a, 0xa1, 0xd8, 0x63, 0x35, 0x10, 0x21, 0x42, 0x99, 0xc4, 0x8b}
	// Station forwards to accounts that have delegated to Delegate, and to no other code. It is all that a sponsor calls.
	Station = [20]byte{0x1c, 0xbb, 0xd5, 0x8e, 0x52, 0x1e, 0x11, 0x33, 0xf0, 0x9e, 0x2b, 0xa2, 0x07, 0xe3, 0xe7, 0x5c, 0x4d, 0xb4, 0x04, 0xd5}
)

// MaxCalls is how many calls the delegate makes for one signature.
const MaxCalls = 20

// A Call is one of several in a transaction.
type Call struct {
	To    [20]byte
	Value *big.Int
	Data  []byte
}

// An Execution is what an account lets anybody have its delegate do, once: Nonce is the delegate's own, Deadline in
// seconds.
type Execution struct {
	Account  [20]byte
	ChainID  uint64
	Nonce    uint64
	Deadline uint32
	Calls    []Call
}

var (
	delegateDomain = chain.Keccak([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"))
	delegateName   = chain.Keccak([]byte("TKGasDelegate"))
	delegateIs     = chain.Keccak([]byte("1.1"))
	callType       = chain.Keccak([]byte("Call(address to,uint256 value,bytes data)"))
	executionType  = chain.Keccak([]byte("BatchExecution(uint128 nonce,uint32 deadline,Call[] calls)Call(address to,uint256 value,bytes data)"))
)

// Digest is what the account signs, by EIP-712.
func (e *Execution) Digest() [32]byte {
	var calls []byte
	for i := range e.Calls {
		c := &e.Calls[i]
		data := chain.Keccak(c.Data)
		sum := chain.Keccak(bytes.Join([][]byte{callType[:], padWord(c.To[:]), amountWord(c.Value), data[:]}, nil))
		calls = append(calls, sum[:]...)
	}
	list := chain.Keccak(calls)
	domain := chain.Keccak(bytes.Join([][]byte{delegateDomain[:], delegateName[:], delegateIs[:], numberWord(e.ChainID), padWord(e.Account[:])}, nil))
	content := chain.Keccak(bytes.Join([][]byte{executionType[:], numberWord(e.Nonce), numberWord(uint64(e.Deadline)), list[:]}, nil))
	return chain.Keccak([]byte{0x19, 1}, domain[:], content[:])
}

// Selectors of the delegate's and the station's function.
var (
	delegateBatch = selector("executeBatch((address,uint256,bytes)[],bytes)")
	stationBatch  = selector("executeBatch(address,(address,uint256,bytes)[],bytes)")
)

func selector(signature string) [4]byte {
	sum := chain.Keccak([]byte(signature))
	return [4]byte(sum[:4])
}

// CallData has the calls made under the account's signature: by the account itself or, if sponsored, through the station.
func (e *Execution) CallData(s chain.Signature, sponsored bool) []byte {
	var heads, tails []byte
	for i := range e.Calls {
		c := &e.Calls[i]
		heads = append(heads, numberWord(uint64(32*len(e.Calls)+len(tails)))...)
		tails = append(tails, padWord(c.To[:])...)
		tails = append(tails, amountWord(c.Value)...)
		tails = append(tails, numberWord(3*32)...)
		tails = appendPadded(tails, c.Data)
	}
	calls := bytes.Join([][]byte{numberWord(uint64(len(e.Calls))), heads, tails}, nil)
	out, head := append([]byte(nil), delegateBatch[:]...), uint64(2*32)
	if sponsored {
		out, head = append(append([]byte(nil), stationBatch[:]...), padWord(e.Account[:])...), 3*32
	}
	out = append(out, numberWord(head)...)
	out = append(out, numberWord(head+uint64(len(calls)))...)
	return appendPadded(append(out, calls...), e.proof(s))
}

// proofSize is the length of what stands behind the calls: signature, nonce and deadline.
const (
	proofSize       = 65 + 16 + 4
	paddedProofSize = (proofSize + 31) / 32 * 32
)

func (e *Execution) proof(s chain.Signature) []byte {
	b := make([]byte, 0, proofSize)
	b = append(append(append(b, s.R[:]...), s.S[:]...), s.V+27)
	b = binary.BigEndian.AppendUint64(append(b, make([]byte, 8)...), e.Nonce)
	return binary.BigEndian.AppendUint32(b, e.Deadline)
}

// ReadExecution finds nonce, deadline and the account's signature in call data that CallData made for the same account,
// chain and calls; ok is false for any other.
func ReadExecution(data []byte, account [20]byte, chainID uint64, calls []Call, sponsored bool) (e *Execution, ok bool) {
	if len(data) < paddedProofSize {
		return nil, false
	}
	p := data[len(data)-paddedProofSize:][:proofSize]
	e = &Execution{Account: account, ChainID: chainID, Calls: calls, Nonce: binary.BigEndian.Uint64(p[73:81]), Deadline: binary.BigEndian.Uint32(p[81:])}
	s := chain.Signature{R: [32]byte(p[:32]), S: [32]byte(p[32:64]), V: p[64] - 27}
	if !bytes.Equal(e.CallData(s, sponsored), data) {
		return nil, false
	}
	if s.V > 1 {
		return nil, false
	}
	by, err := recoverKey(e.Digest(), s.V, s.R[:], s.S[:])
	return e, err == nil && by.KeccakAccount() == account
}

// Checksum writes an address as EIP-55 has it.
func Checksum(address [20]byte) string { return chain.ChecksumAddress(address[:]) }

// ExecutionNonce is the delegate's nonce in call data that CallData made, and arbitrary for other call data; ok is false for
// what is too short.
func ExecutionNonce(data []byte) (nonce uint64, ok bool) {
	if len(data) < paddedProofSize {
		return 0, false
	}
	return binary.BigEndian.Uint64(data[len(data)-paddedProofSize+73:]), true
}

func padWord(b []byte) []byte { return append(make([]byte, 32-len(b), 32), b...) }

func amountWord(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }

func numberWord(n uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 24, 32), n) }

// appendPadded is a byte string in the encoding of arguments.
func appendPadded(dst, b []byte) []byte {
	dst = append(append(dst, numberWord(uint64(len(b)))...), b...)
	return append(dst, make([]byte, (32-len(b)%32)%32)...)
}

// Delegation is an authorization of EIP-7702 for one chain: an account takes on the code of a contract, or with no address
// none.
func Delegation(chainID uint64, to [20]byte, nonce uint64) *Authorization {
	return &Authorization{address: to[:], chainID: new(big.Int).SetUint64(chainID), nonce: new(big.Int).SetUint64(nonce)}
}

// Encode is the authorization with its signature, as transactions have it.
func (a *Authorization) Encode(s chain.Signature) []byte {
	items := rlp.AppendBig(nil, a.chainID)
	items = rlp.AppendBytes(items, a.address)
	items = rlp.AppendBig(items, a.nonce)
	items = rlp.AppendUint(items, uint64(s.V))
	items = rlp.AppendNumber(items, s.R[:])
	return rlp.AppendList(nil, rlp.AppendNumber(items, s.S[:]))
}

// UnsignedSetCode is Unsigned1559 with an authorization, as Encode wrote it: an unsigned transaction of type 4.
func UnsignedSetCode(chainID, nonce uint64, tip, feeCap *big.Int, gas uint64, to [20]byte, data, authorization []byte) []byte {
	body := append1559(make([]byte, 0, len(data)+300), chainID, nonce, tip, feeCap, gas, to[:], new(big.Int), data)
	return rlp.AppendList([]byte{typeSetCode}, body, rlp.AppendList(nil, authorization))
}

// A SignedDelegation is the one authorization of a transaction.
type SignedDelegation struct {
	To, By  [20]byte // whose code is taken on by which account
	Nonce   uint64
	Encoded []byte // as Encode writes it
}

// ReadDelegation reads the one authorization of an unsigned transaction, which must be for its own chain; ok is false for
// any other transaction.
func ReadDelegation(unsigned []byte) (d SignedDelegation, ok bool) {
	var f fields
	l, err := f.open(unsigned)
	if err != nil {
		return d, false
	}
	if f.read(l); l.Err() != nil || f.kind != typeSetCode {
		return d, false
	}
	list := rlp.Items(f.authorizations)
	a := list.List("authorization")
	chainID, to, nonce := a.Uint64("chainId"), a.FixedBytes("address", 20), a.Uint64("nonce")
	v, r, s := a.Uint64("yParity"), a.Number("r", 32), a.Number("s", 32)
	if list.More() || list.Err() != nil || v > 1 || chainID != f.chainID {
		return d, false
	}
	d = SignedDelegation{To: [20]byte(to), Nonce: nonce, Encoded: f.authorizations}
	key, err := recoverKey(Delegation(chainID, d.To, nonce).Digest(), byte(v), r, s)
	if err != nil {
		return d, false
	}
	d.By = key.KeccakAccount()
	return d, true
}
