package nsm

import (
	"crypto"
	"crypto/sha512"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"math/big"
	"time"
)

// The major types of CBOR that a document needs.
const (
	cborUint  = 0
	cborBytes = 2
	cborText  = 3
	cborArray = 4
	cborMap   = 5
)

// The real module writes the payload as a map of open length.
const (
	openMap   = 0xbf
	closeOpen = 0xff
)

// head appends a major type with its number or length in the shortest form.
func head(b []byte, major byte, n uint64) []byte {
	switch major <<= 5; {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	// A timestamp in milliseconds is the one number of this size.
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}

func text(b []byte, s string) []byte { return append(head(b, cborText, uint64(len(s))), s...) }

func bytestring(b, v []byte) []byte { return append(head(b, cborBytes, uint64(len(v))), v...) }

// optional writes null for an absent value.
func optional(b, v []byte) []byte {
	if len(v) == 0 {
		return append(b, 0xf6)
	}
	return bytestring(b, v)
}

// document writes the payload in the order of the real module, signs it and
// wraps it. The chain must be fresh.
func (d *Device) document(now time.Time, publicKey, userData, nonce []byte) ([]byte, error) {
	leaf := d.chain[len(d.chain)-1]
	p := text(text([]byte{openMap}, "module_id"), d.moduleID)
	p = text(text(p, "digest"), "SHA384")
	p = head(text(p, "timestamp"), cborUint, uint64(now.UnixMilli()))
	p = d.lockedPCRs(text(p, "pcrs"))
	p = bytestring(text(p, "certificate"), leaf.cert.Raw)
	p = head(text(p, "cabundle"), cborArray, uint64(len(d.chain)))
	p = bytestring(p, d.root.cert.Raw)
	for _, l := range d.chain[:len(d.chain)-1] {
		p = bytestring(p, l.cert.Raw)
	}
	p = optional(text(p, "public_key"), publicKey)
	p = optional(text(p, "user_data"), userData)
	p = optional(text(p, "nonce"), nonce)
	return sign(leaf, append(p, closeOpen))
}

func (d *Device) lockedPCRs(b []byte) []byte {
	n := uint64(0)
	for _, l := range d.locked {
		if l {
			n++
		}
	}
	b = head(b, cborMap, n)
	for i, v := range d.pcrs {
		if d.locked[i] {
			b = bytestring(head(b, cborUint, uint64(i)), v[:])
		}
	}
	return b
}

// sign makes COSE_Sign1 with ES384: the signature is over the array
// ["Signature1", protected, no external data, payload].
func sign(leaf link, payload []byte) ([]byte, error) {
	protected := []byte{0xa1, 0x01, 0x38, 0x22} // {1: -35}
	tbs := text(head(nil, cborArray, 4), "Signature1")
	tbs = bytestring(bytestring(tbs, protected), nil)
	tbs = bytestring(tbs, payload)
	digest := sha512.Sum384(tbs)
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
	out := bytestring(head(nil, cborArray, 4), protected)
	out = head(out, cborMap, 0)
	return bytestring(bytestring(out, payload), signature), nil
}
