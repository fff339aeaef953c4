package reference_test

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
)

// random makes transactions out of the numbers of a seed.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 4))} }

func (r random) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint64())
	}
	return b
}

// number has up to n bytes, and often few.
func (r random) number(n int) *big.Int { return new(big.Int).SetBytes(r.bytes(r.IntN(n + 1))) }

func (r random) uint64() uint64 { return r.number(8).Uint64() }

func (r random) uint256() *uint256.Int { return uint256.MustFromBig(r.number(32)) }

func (r random) address() common.Address { return common.Address(r.bytes(20)) }

// fees are a tip and a limit that is not below it.
func (r random) fees() (tip, limit *big.Int) {
	tip, limit = r.number(32), r.number(32)
	if tip.Cmp(limit) > 0 {
		tip, limit = limit, tip
	}
	return tip, limit
}

func (r random) accessList() types.AccessList {
	list := make(types.AccessList, r.IntN(4))
	for i := range list {
		list[i] = types.AccessTuple{Address: r.address(), StorageKeys: make([]common.Hash, r.IntN(4))}
		for j := range list[i].StorageKeys {
			list[i].StorageKeys[j] = common.Hash(r.bytes(32))
		}
	}
	return list
}

// transaction is an unsigned one, its encoding without a signature, and what makes go-ethereum sign it.
func (r random) transaction(t *testing.T) (tx *types.Transaction, unsigned []byte, by types.Signer) {
	chainID := new(big.Int).SetUint64(1 + r.uint64()%(1<<63-37))
	var to *common.Address
	if a := r.address(); r.IntN(4) > 0 {
		to = &a
	}
	nonce, gas, value, data, list := r.uint64(), r.uint64(), r.number(32), r.bytes(r.IntN(200)), r.accessList()
	tip, limit := r.fees()
	by = types.LatestSignerForChainID(chainID)
	var items []any
	switch kind := r.IntN(6); kind {
	case 0, 1:
		tx = types.NewTx(&types.LegacyTx{Nonce: nonce, GasPrice: limit, Gas: gas, To: to, Value: value, Data: data})
		items = []any{nonce, limit, gas, tx.To(), value, data}
		if kind == 0 {
			by = types.HomesteadSigner{}
		} else {
			items = append(items, chainID, uint(0), uint(0))
		}
	case 2:
		tx = types.NewTx(&types.AccessListTx{ChainID: chainID, Nonce: nonce, GasPrice: limit, Gas: gas, To: to, Value: value, Data: data, AccessList: list})
		items = []any{chainID, nonce, limit, gas, tx.To(), value, data, list}
	case 3:
		tx = types.NewTx(&types.DynamicFeeTx{ChainID: chainID, Nonce: nonce, GasTipCap: tip, GasFeeCap: limit, Gas: gas,
			To: to, Value: value, Data: data, AccessList: list})
		items = []any{chainID, nonce, tip, limit, gas, tx.To(), value, data, list}
	case 4:
		blobs := types.BlobTx{ChainID: uint256.MustFromBig(chainID), Nonce: nonce, GasTipCap: uint256.MustFromBig(tip), GasFeeCap: uint256.MustFromBig(limit), Gas: gas,
			To: r.address(), Value: uint256.MustFromBig(value), Data: data, AccessList: list, BlobFeeCap: r.uint256()}
		for range 1 + r.IntN(3) {
			blobs.BlobHashes = append(blobs.BlobHashes, common.Hash(append([]byte{1}, r.bytes(31)...)))
		}
		tx = types.NewTx(&blobs)
		items = []any{chainID, nonce, tip, limit, gas, blobs.To, value, data, list, blobs.BlobFeeCap, blobs.BlobHashes}
	case 5:
		code := types.SetCodeTx{ChainID: uint256.MustFromBig(chainID), Nonce: nonce, GasTipCap: uint256.MustFromBig(tip), GasFeeCap: uint256.MustFromBig(limit), Gas: gas,
			To: r.address(), Value: uint256.MustFromBig(value), Data: data, AccessList: list}
		for range 1 + r.IntN(3) {
			code.AuthList = append(code.AuthList, types.SetCodeAuthorization{ChainID: *r.uint256(), Address: r.address(), Nonce: r.uint64(), V: uint8(r.IntN(2)),
				R: *r.uint256(), S: *r.uint256()})
		}
		tx = types.NewTx(&code)
		items = []any{chainID, nonce, tip, limit, gas, code.To, value, data, list, code.AuthList}
	}
	for i, item := range items {
		if a, ok := item.(*common.Address); ok && a == nil {
			items[i] = []byte{}
		}
	}
	unsigned, err := rlp.EncodeToBytes(items)
	if err != nil {
		t.Fatal(err)
	}
	if tx.Type() > 0 {
		unsigned = append([]byte{tx.Type()}, unsigned...)
	}
	return tx, unsigned, by
}

func ethSigner(t testing.TB) (chain.SigningKey, func(chain.Transaction) []byte, common.Address) {
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	public, err := chain.NewPublicKey(chain.Secp256k1, crypto.FromECDSAPub(&key.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(tx chain.Transaction) []byte {
		s, err := crypto.Sign(tx.Digests()[0].Message, key)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := tx.Assemble([]chain.Signature{{R: [32]byte(s[:32]), S: [32]byte(s[32:64]), V: s[64]}})
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	return chain.SigningKey{Public: public, Format: chain.Ethereum}, sign, crypto.PubkeyToAddress(key.PublicKey)
}

// What go-ethereum makes we read, sign to the same bytes and recover.
func TestEthTransactions(t *testing.T) {
	by, sign, from := ethSigner(t)
	kinds := map[uint8]int{}
	for seed := range uint64(500) {
		want, unsigned, signer := newRandom(seed).transaction(t)
		tx, err := eth.Chain{}.Read(unsigned, by)
		if err != nil {
			t.Fatalf("seed %d: %x: %v", seed, unsigned, err)
		}
		digest := tx.Digests()[0].Message
		if hash := signer.Hash(want); !bytes.Equal(digest, hash[:]) {
			t.Fatalf("seed %d: %x: digest %x, want %x", seed, unsigned, digest, hash)
		}
		signed := sign(tx)
		isEth(t, tx, signed, from)
		kinds[want.Type()]++
		if want.Type() != types.LegacyTxType { // as go-ethereum writes what nobody has signed: with an empty signature
			theirs, err := want.MarshalBinary()
			if err != nil || bytes.Equal(theirs, unsigned) {
				t.Fatalf("seed %d: %x, %v", seed, theirs, err)
			}
			if again, err := (eth.Chain{}).Read(theirs, by); err != nil || !bytes.Equal(sign(again), signed) {
				t.Fatalf("seed %d: %x: %v", seed, theirs, err)
			}
		}
		for i := range unsigned { // a bit changed: refused, or read as go-ethereum reads it
			if i%31 == int(seed%31) {
				changed := bytes.Clone(unsigned)
				changed[i] ^= 1 << (seed % 8)
				if tx, err := (eth.Chain{}).Read(changed, by); err == nil {
					isEth(t, tx, sign(tx), from)
				}
			}
		}
		if tip := want.GasTipCap(); want.Type() == types.DynamicFeeTxType && len(want.AccessList()) == 0 {
			got := eth.Unsigned1559(want.ChainId().Uint64(), want.Nonce(), tip, want.GasFeeCap(), want.Gas(), (*[20]byte)(want.To()), want.Value(), want.Data())
			if !bytes.Equal(got, unsigned) {
				t.Errorf("seed %d: %x, want %x", seed, got, unsigned)
			}
		}
	}
	if len(kinds) != 5 {
		t.Errorf("transactions by type: %v", kinds)
	}
}

// isEth holds what we say of a transaction, and of it signed, against go-ethereum.
func isEth(t *testing.T, tx chain.Transaction, signed []byte, from common.Address) {
	var want types.Transaction
	if err := want.UnmarshalBinary(signed); err != nil {
		t.Fatalf("%x: go-ethereum: %v", signed, err)
	}
	if again, err := want.MarshalBinary(); err != nil || !bytes.Equal(again, signed) {
		t.Fatalf("%x: go-ethereum writes %x, %v", signed, again, err)
	}
	sender, err := senderOf(&want)
	if err != nil || sender != from {
		t.Fatalf("%x: go-ethereum recovers %x, %v, want %x", signed, sender, err, from)
	}
	s, err := eth.ReadSigned(signed)
	if err != nil {
		t.Fatalf("%x: %v", signed, err)
	}
	if s.Hash != want.Hash() || s.From != sender || s.Nonce != want.Nonce() || new(big.Int).SetUint64(s.ChainID).Cmp(want.ChainId()) != 0 {
		t.Fatalf("%x: %+v", signed, s)
	}
	facts, err := tx.Facts(nil)
	if err != nil {
		t.Fatal(err)
	}
	to := chain.Hex("")
	if want.To() != nil {
		to = chain.Hex("0x" + hex.EncodeToString(want.To()[:]))
	}
	zero := new(big.Int)
	limit, tip, blob := zero, zero, zero
	if want.Type() >= types.DynamicFeeTxType {
		limit, tip = want.GasFeeCap(), want.GasTipCap()
	}
	if want.Type() == types.BlobTxType {
		blob = want.BlobGasFeeCap()
	}
	for name, fact := range map[string]any{
		"type": []string{"LEGACY", "TYPE_1", "TYPE_2", "TYPE_3", "TYPE_4"}[want.Type()], "to": to, "from": chain.Hex(strings.ToLower(from.Hex())),
		"data": chain.Hex("0x" + hex.EncodeToString(want.Data())), "gas": want.Gas(), "nonce": want.Nonce(), "chain_id": want.ChainId().Uint64(),
		"value": want.Value(), "gas_price": want.GasFeeCap(), "max_fee_per_gas": limit, "max_priority_fee_per_gas": tip, "max_fee_per_blob_gas": blob,
	} {
		number, ok := fact.(*big.Int)
		if ok && number.Cmp(facts[name].(*big.Int)) != 0 || !ok && fact != facts[name] {
			t.Fatalf("%x: %s is %v, want %v", signed, name, facts[name], fact)
		}
	}
}

// senderOf asks for the signer that can read a transaction; there is none for a chain of number 0.
func senderOf(tx *types.Transaction) (common.Address, error) {
	switch {
	case tx.ChainId().Sign() != 0:
		return types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx)
	case tx.Type() == types.LegacyTxType:
		return types.Sender(types.HomesteadSigner{}, tx)
	}
	return common.Address{}, types.ErrInvalidChainId
}

// stricter are our reasons to refuse what go-ethereum decodes and recovers: by then it has not held the transaction against
// the rules of the network, nor of EIP-2294.
var stricter = []string{"chainId must be", "chainId is too large", "is above maxFeePerGas", "must not be empty", "must begin with version 01",
	"yParity must be 0 or 1", "type 3 with blobs", "gasPrice is too large", "value is too large", "maxPriorityFeePerGas is too large",
	"maxFeePerGas is too large", "v is too large", "v is none of this type", "the signature is not one"}

// FuzzEthTransactions: what we read, unsigned or signed, go-ethereum decodes to the same; and what it decodes and recovers we
// refuse only with our reasons.
func FuzzEthTransactions(f *testing.F) {
	by, sign, from := ethSigner(f)
	for seed := range uint64(40) {
		_, unsigned, _ := newRandom(seed).transaction(&testing.T{})
		f.Add(unsigned)
		if tx, err := (eth.Chain{}).Read(unsigned, by); err == nil {
			f.Add(sign(tx))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if tx, err := (eth.Chain{}).Read(b, by); err == nil && len(b) < eth.MaxTransaction-100 {
			isEth(t, tx, sign(tx), from)
		}
		var want types.Transaction
		decoded := want.UnmarshalBinary(b)
		var sender common.Address
		if decoded == nil {
			sender, decoded = senderOf(&want)
		}
		s, err := eth.ReadSigned(b)
		switch {
		case err == nil && decoded != nil:
			t.Fatalf("%x: %+v, which go-ethereum refuses: %v", b, s, decoded)
		case err == nil:
			if s.Hash != want.Hash() || s.From != sender || s.Nonce != want.Nonce() || s.ChainID != want.ChainId().Uint64() {
				t.Fatalf("%x: %+v, want %x", b, s, sender)
			}
		case decoded == nil:
			for _, reason := range stricter {
				if strings.Contains(err.Error(), reason) {
					return
				}
			}
			t.Fatalf("%x: %v, which go-ethereum takes", b, err)
		}
	})
}
