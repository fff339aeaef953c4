package eth

import (
	"math/big"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/rlp"
	"cloister/enclave/internal/strictjson"
)

// maxAuthorization bounds the text of an authorization, in bytes.
const maxAuthorization = 4096

// authorizationMagic begins what is hashed of an authorization.
const authorizationMagic = 5

// Authorization is an authorization of EIP-7702 that has been read: an account
// lends itself the code of a contract. It is immutable and safe for concurrent use.
type Authorization struct {
	address        []byte
	chainID, nonce *big.Int
}

// Digest is what is signed: the Keccak-256 of 5 and the RLP of the chain's id, the
// address and the nonce.
func (a *Authorization) Digest() [32]byte {
	items := rlp.AppendBig(nil, a.chainID)
	items = rlp.AppendBytes(items, a.address)
	items = rlp.AppendBig(items, a.nonce)
	return chain.Keccak(rlp.AppendList([]byte{authorizationMagic}, items))
}

// AuthorizationOf reads what an authorization is hashed from, as bytes; ok is false for anything else.
func AuthorizationOf(preimage []byte) (a *Authorization, ok bool) {
	if len(preimage) == 0 || preimage[0] != authorizationMagic {
		return nil, false
	}
	l := rlp.Open(preimage[1:])
	a = &Authorization{chainID: l.Big("chainId"), address: l.FixedBytes("address", 20), nonce: new(big.Int).SetUint64(l.Uint64("nonce"))}
	l.End("authorization")
	return a, l.Err() == nil
}

// Facts are the members of eth.eip_7702_authorization.
func (a *Authorization) Facts() chain.Struct {
	return chain.Struct{
		"address":  chain.ZeroX(a.address),
		"chain_id": chain.Dynamic{Value: numberFact(a.chainID, false)},
		"nonce":    chain.Dynamic{Value: numberFact(a.nonce, false)},
	}
}

// ParseAuthorization reads a JSON object of address, chainId and nonce, and nothing
// else. The address may be in any case; the numbers may be JSON numbers or strings,
// decimal or hexadecimal with 0x. chainId is below 2^256, and 0 means all chains;
// nonce is below 2^64-1, where nonces end. The errors are *fault.Error
// (InvalidArgument) with the field `payload`.
func ParseAuthorization(text []byte) (*Authorization, error) {
	const what = "authorization"
	if len(text) > maxAuthorization {
		return nil, badPayload(what, "more than %d bytes", maxAuthorization)
	}
	var in struct {
		Address string         `json:"address" rule:"required"`
		ChainID strictjson.Raw `json:"chainId" rule:"present"`
		Nonce   strictjson.Raw `json:"nonce" rule:"present"`
	}
	if err := strictjson.Decode(text, &in); err != nil {
		return nil, badJSON(what, err)
	}
	a := &Authorization{chainID: (&cursor{text: in.ChainID}).number(), nonce: (&cursor{text: in.Nonce}).number()}
	var ok bool
	if a.address, ok = hexBytes([]byte(in.Address)); !ok || len(a.address) != 20 {
		return nil, badPayload(what, "address must be 0x and 40 hexadecimal digits")
	}
	if a.chainID == nil || !isInRange(a.chainID, 256, false) {
		return nil, badPayload(what, "chainId must be a whole number below 2^256")
	}
	if a.nonce == nil || !isInRange(a.nonce, 64, false) || a.nonce.Uint64() == 1<<64-1 {
		return nil, badPayload(what, "nonce must be a whole number below 2^64-1")
	}
	return a, nil
}
