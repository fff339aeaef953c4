package activitytest

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/hex"
	"fmt"
)

// SomeABI describes one function.
const SomeABI = `[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[{"type":"bool"}],"stateMutability":"nonpayable"}]`

// ABI are the parameters of an Ethereum contract interface.
func ABI(label, address, text string) Object {
	return Object{"smartContractAddress": address, "smartContractInterface": text, "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": label}
}

// Addresses of the right form, of unknown owners.
const (
	SomeAddress = "0x000000000000000000000000000000000000dEaD"
	SomeSolana  = "So11111111111111111111111111111111111111112"
)

// solanaTransfer moves lamports between unowned accounts; its blockhash is
// zeros.
var solanaTransfer = hex.EncodeToString(SolanaOf([32]byte{}, bytes.Repeat([]byte{7}, 32)))

// SolanaOf makes an unsigned transaction whose signers each pay 5 lamports to account 9….
func SolanaOf(blockhash [32]byte, signers ...[]byte) []byte {
	tx := []byte{byte(len(signers))}
	tx = append(tx, make([]byte, 64*len(signers))...)
	tx = append(tx, byte(len(signers)), 0, 1, byte(len(signers)+2))
	for _, s := range signers {
		tx = append(tx, s...)
	}
	tx = append(tx, bytes.Repeat([]byte{9}, 32)...)
	tx = append(tx, make([]byte, 32)...) // the System program
	tx = append(tx, blockhash[:]...)
	tx = append(tx, byte(len(signers)))
	for i := range signers {
		tx = append(tx, byte(len(signers)+1), 2, byte(i), byte(len(signers)), 12, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0)
	}
	return tx
}

// SignedTransfer is the example of EIP-155, for chain 1.
const SignedTransfer = "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"

// Signing are the parameters of a signature.
func Signing(with, payload string) Object {
	return Object{"signWith": with, "payload": payload, "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"}
}

// Sign signs a payload with an address or a key.
func (w *World) Sign(with, payload string) Object {
	w.TB.Helper()
	return w.Run("SIGN_RAW_PAYLOAD_V2", Signing(with, payload))
}

// SealTo encrypts to a target key, given in hex.
func (w *World) SealTo(target, plain string) string {
	w.TB.Helper()
	point, err := hex.DecodeString(target)
	w.Must(err)
	pk, err := hpke.DHKEM(ecdh.P256()).NewPublicKey(point)
	w.Must(err)
	enc, s, err := hpke.NewSender(pk, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	w.Must(err)
	ciphertext, err := s.Seal(append(append([]byte{}, enc...), point...), []byte(plain))
	w.Must(err)
	return fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, enc, ciphertext)
}

// Wallet are the parameters of a wallet.
func Wallet(name string, accounts ...Object) Object {
	if accounts == nil {
		accounts = []Object{}
	}
	return Object{"walletName": name, "accounts": accounts}
}

// PrivateKey are the parameters of a private key.
func PrivateKey(name, curve string, formats ...string) Object {
	fs := []any{}
	for _, f := range formats {
		fs = append(fs, "ADDRESS_FORMAT_"+f)
	}
	return Object{"privateKeyName": name, "curve": "CURVE_" + curve, "addressFormats": fs, "privateKeyTags": []any{}}
}
