// Package xlm makes Stellar addresses: the ed25519 public key as a StrKey of
// SEP-23.
package xlm

import (
	"encoding/base32"
	"encoding/binary"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// account is the version byte of an ed25519 public key, which makes the text
// begin with G.
const account = 6 << 3

// Chain is Stellar. The zero value is ready.
type Chain struct{}

// Formats lists ADDRESS_FORMAT_XLM.
func (Chain) Formats() []chain.Format { return []chain.Format{chain.Xlm} }

// Address is G and 55 more characters of base32.
func (Chain) Address(f chain.Format, p chain.PublicKey) (string, error) {
	if f != chain.Xlm {
		return "", fault.New(fault.InvalidArgument, "invalid address format")
	}
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	b := append([]byte{account}, p.Bytes()...)
	b = binary.LittleEndian.AppendUint16(b, crc16(b))
	return base32.StdEncoding.EncodeToString(b), nil // 35 bytes need no padding
}

// crc16 is the checksum CRC-16/XMODEM.
func crc16(b []byte) (sum uint16) {
	for _, c := range b {
		sum ^= uint16(c) << 8
		for range 8 {
			sum = sum<<1 ^ sum>>15*0x1021
		}
	}
	return sum
}
