package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	secpecdsa "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/tkhq/go-sdk/pkg/api/models"
	"golang.org/x/crypto/sha3"
)

// wanted are the accounts that are made: every curve in formats of its own.
var wanted = []struct {
	curve  models.Curve
	format models.AddressFormat
	path   string
}{
	{models.CurveSecp256k1, models.AddressFormatEthereum, "m/44'/60'/0'/0/0"},
	{models.CurveSecp256k1, models.AddressFormatCompressed, "m/44'/60'/0'/0/1"},
	{models.CurveSecp256k1, models.AddressFormatUncompressed, "m/44'/60'/0'/0/2"},
	{models.CurveP256, models.AddressFormatCompressed, "m/44'/60'/0'/0/3"},
	{models.CurveEd25519, models.AddressFormatSolana, "m/44'/501'/0'/0'"},
}

// accountParams ask for the first n of them.
func accountParams(n int) []*models.WalletAccountParams {
	var params []*models.WalletAccountParams
	for _, w := range wanted[:n] {
		params = append(params, &models.WalletAccountParams{
			Curve: w.curve.Pointer(), AddressFormat: w.format.Pointer(), Path: &w.path, PathFormat: models.PathFormatBip32.Pointer(),
		})
	}
	return params
}

// A payload is what a signature is asked for.
type payload struct {
	text     string
	encoding models.PayloadEncoding
	hash     models.HashFunction
}

// payloadsOf: every encoding under every hash function that the curve allows.
func payloadsOf(curve models.Curve) []payload {
	const message = "hello, Grüße"
	hexed := "0x" + hex.EncodeToString([]byte(message))
	if curve == models.CurveEd25519 {
		return []payload{
			{hexed, models.PayloadEncodingHexadecimal, models.HashFunctionNotApplicable},
			{message, models.PayloadEncodingTextUTF8, models.HashFunctionNotApplicable},
		}
	}
	return []payload{
		{hexed, models.PayloadEncodingHexadecimal, models.HashFunctionSha256},
		{hexed, models.PayloadEncodingHexadecimal, models.HashFunctionKeccak256},
		{message, models.PayloadEncodingTextUTF8, models.HashFunctionSha256},
		{message, models.PayloadEncodingTextUTF8, models.HashFunctionKeccak256},
		{strings.Repeat("9c", 32), models.PayloadEncodingHexadecimal, models.HashFunctionNoOp},
		{"exactly thirty-two bytes of text", models.PayloadEncodingTextUTF8, models.HashFunctionNoOp},
	}
}

func (p payload) signedBytes() ([]byte, error) {
	raw := []byte(p.text)
	if p.encoding == models.PayloadEncodingHexadecimal {
		var err error
		if raw, err = hex.DecodeString(strings.TrimPrefix(p.text, "0x")); err != nil {
			return nil, err
		}
	}
	switch p.hash {
	case models.HashFunctionSha256:
		sum := sha256.Sum256(raw)
		return sum[:], nil
	case models.HashFunctionKeccak256:
		h := sha3.NewLegacyKeccak256()
		h.Write(raw)
		return h.Sum(nil), nil
	}
	return raw, nil
}

// judge verifies one signature with the standard library or decred's secp256k1, and its form: 64 digits each, low s, a v
// that recovers the key.
func judge(a account, what payload, got *models.SignRawPayloadResult) error {
	signed, err := what.signedBytes()
	if err != nil {
		return err
	}
	key, err1 := hex.DecodeString(a.PublicKey)
	r, err2 := hex.DecodeString(*got.R)
	s, err3 := hex.DecodeString(*got.S)
	v, err4 := hex.DecodeString(*got.V)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	if len(r) != 32 || len(s) != 32 || len(v) != 1 {
		return fmt.Errorf("r, s, v of %d, %d and %d bytes", len(r), len(s), len(v))
	}
	switch a.Curve {
	case models.CurveEd25519:
		if v[0] != 0 || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, signed, append(r, s...)) {
			return errors.New("the ed25519 signature does not verify")
		}
	case models.CurveP256:
		return judgeP256(key, signed, r, s)
	case models.CurveSecp256k1:
		return judgeSecp256k1(key, signed, r, s, v[0])
	default:
		return fmt.Errorf("no judge for %s", a.Curve)
	}
	return nil
}

func judgeP256(key, signed, r, s []byte) error {
	curve := elliptic.P256()
	if len(key) == 33 {
		x, y := elliptic.UnmarshalCompressed(curve, key)
		if x == nil {
			return errors.New("the public key is no point")
		}
		key = append([]byte{4}, append(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32))...)...)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(curve, key)
	if err != nil {
		return err
	}
	scalar := new(big.Int).SetBytes(s)
	if scalar.Cmp(new(big.Int).Rsh(curve.Params().N, 1)) > 0 {
		return errors.New("high s")
	}
	if !ecdsa.Verify(public, signed, new(big.Int).SetBytes(r), scalar) {
		return errors.New("the P-256 signature does not verify")
	}
	return nil
}

func judgeSecp256k1(key, signed, r, s []byte, v byte) error {
	public, err := secp256k1.ParsePubKey(key)
	if err != nil {
		return err
	}
	var rr, ss secp256k1.ModNScalar
	if rr.SetByteSlice(r) || ss.SetByteSlice(s) || ss.IsOverHalfOrder() {
		return errors.New("r or s out of range, or high s")
	}
	if !secpecdsa.NewSignature(&rr, &ss).Verify(signed, public) {
		return errors.New("the secp256k1 signature does not verify")
	}
	compact := append(append([]byte{27 + v}, r...), s...)
	recovered, _, err := secpecdsa.RecoverCompact(compact, signed)
	if err != nil || !recovered.IsEqual(public) {
		return errors.New("v does not recover the key")
	}
	return nil
}
