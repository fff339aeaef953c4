package btc

import (
	"crypto/sha256"

	"cloister/enclave/internal/chain"
)

// A kind is one of the scripts that a single key can have.
type kind uint8

const (
	none kind = iota
	p2pkh
	p2sh
	p2wpkh
	p2wsh
	p2tr
	kinds // one past the last
)

var kindTexts = [kinds]string{p2pkh: "P2PKH", p2sh: "P2SH", p2wpkh: "P2WPKH", p2wsh: "P2WSH", p2tr: "P2TR"}

// String is the kind as policies read it, empty for none.
func (k kind) String() string { return kindTexts[k] }

const (
	opDup         = 0x76
	opEqual       = 0x87
	opEqualVerify = 0x88
	opHash160     = 0xa9
	opCheckSig    = 0xac
	op1           = 0x51
	op16          = 0x60
)

// kindOf tells the kind of an output's script by its form, whoever owns it.
func kindOf(s []byte) kind {
	switch {
	case len(s) == 25 && s[0] == opDup && s[1] == opHash160 && s[2] == 20 && s[23] == opEqualVerify && s[24] == opCheckSig:
		return p2pkh
	case len(s) == 23 && s[0] == opHash160 && s[1] == 20 && s[22] == opEqual:
		return p2sh
	case len(s) == 22 && s[0] == 0 && s[1] == 20:
		return p2wpkh
	case len(s) == 34 && s[0] == 0 && s[1] == 32:
		return p2wsh
	case len(s) == 34 && s[0] == op1 && s[1] == 32:
		return p2tr
	}
	return none
}

// witness takes a witness program of any version apart (BIP-141).
func witness(s []byte) (version byte, program []byte, ok bool) {
	if len(s) < 4 || len(s) > 42 || int(s[1]) != len(s)-2 {
		return 0, nil, false
	}
	switch v := s[0]; {
	case v == 0:
		return 0, s[2:], true
	case op1 <= v && v <= op16:
		return v - op1 + 1, s[2:], true
	}
	return 0, nil, false
}

// scriptOf is the output script of a kind for a key on secp256k1. It is refused for
// p2tr alone, with a chance of 2^-127.
func scriptOf(k kind, p chain.PublicKey) (script []byte, ok bool) {
	switch k {
	case p2pkh:
		return payToHash(p), true
	case p2sh:
		h := chain.Hash160(redeemScript(p))
		return append(append([]byte{opHash160, 20}, h[:]...), opEqual), true
	case p2wpkh:
		return redeemScript(p), true
	case p2wsh:
		h := sha256.Sum256(witnessScript(p))
		return append([]byte{0, 32}, h[:]...), true
	case p2tr:
		x, ok := p.Taproot()
		return append([]byte{op1, 32}, x[:]...), ok
	}
	return nil, false
}

// payToHash is the script of P2PKH, under which P2WPKH is signed too.
func payToHash(p chain.PublicKey) []byte {
	h := chain.Hash160(p.Compressed())
	return append(append([]byte{opDup, opHash160, 20}, h[:]...), opEqualVerify, opCheckSig)
}

// redeemScript is what our P2SH is the hash of: the script of P2WPKH.
func redeemScript(p chain.PublicKey) []byte {
	h := chain.Hash160(p.Compressed())
	return append([]byte{0, 20}, h[:]...)
}

// witnessScript is what our P2WSH is the hash of: the script of P2PK.
func witnessScript(p chain.PublicKey) []byte {
	return append(append([]byte{33}, p.Compressed()...), opCheckSig)
}
