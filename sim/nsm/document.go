package nsm

import (
	"bytes"
	"crypto"
	"crypto/sha512"
	"encoding/asn1"
	"errors"
	"math/big"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// sorted writes the registers in their order.
var sorted = func() cbor.EncMode {
	m, err := cbor.EncOptions{Sort: cbor.SortCoreDeterministic}.EncMode()
	if err != nil {
		panic(err) // there is no such order
	}
	return m
}()

// document writes the payload in the order of the real module, signs it and
// wraps it. The chain must be fresh.
func (d *Device) document(now time.Time, publicKey, userData, nonce []byte) ([]byte, error) {
	leaf := d.chain[len(d.chain)-1]
	bundle := [][]byte{d.root.cert.Raw}
	for _, l := range d.chain[:len(d.chain)-1] {
		bundle = append(bundle, l.cert.Raw)
	}
	pcrs := map[int][]byte{}
	for i, v := range d.pcrs {
		if d.locked[i] {
			pcrs[i] = v[:]
		}
	}
	var b bytes.Buffer
	e := sorted.NewEncoder(&b)
	err := e.StartIndefiniteMap() // as the real module does
	for _, v := range []any{
		"module_id", d.moduleID,
		"digest", "SHA384",
		"timestamp", now.UnixMilli(),
		"pcrs", pcrs,
		"certificate", leaf.cert.Raw,
		"cabundle", bundle,
		"public_key", orNull(publicKey),
		"user_data", orNull(userData),
		"nonce", orNull(nonce),
	} {
		err = errors.Join(err, e.Encode(v))
	}
	if err := errors.Join(err, e.EndIndefinite()); err != nil {
		return nil, err
	}
	return sign(leaf, b.Bytes())
}

// orNull is nil, which is written as null, for an absent value.
func orNull(v []byte) any {
	if len(v) == 0 {
		return nil
	}
	return v
}

// sign makes COSE_Sign1 with ES384: the signature is over the array
// ["Signature1", protected, no external data, payload].
func sign(leaf link, payload []byte) ([]byte, error) {
	protected := []byte{0xa1, 0x01, 0x38, 0x22} // {1: -35}
	signed, err := cbor.Marshal([]any{"Signature1", protected, []byte{}, payload})
	if err != nil {
		return nil, err
	}
	digest := sha512.Sum384(signed)
	der, err := leaf.key.Sign(nil, digest[:], crypto.SHA384) // deterministic
	if err != nil {
		return nil, err
	}
	var rs struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(der, &rs); err != nil || len(rest) != 0 {
		return nil, errors.New("unreadable signature")
	}
	signature := make([]byte, 96)
	rs.R.FillBytes(signature[:48])
	rs.S.FillBytes(signature[48:])
	return cbor.Marshal([]any{protected, map[int]int{}, payload, signature})
}
