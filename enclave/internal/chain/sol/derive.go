package sol

import (
	"crypto/sha256"

	"filippo.io/edwards25519"
)

// programAddress is the address that a program derives from seeds: the first hash, by a last byte counted down from 255, that
// is no point on the curve, so that nobody has a key for it. ok is false where each of them is one, which has a chance of
// 2^-256.
func programAddress(program key, seeds ...[]byte) (account [32]byte, ok bool) {
	for bump := 255; bump >= 0; bump-- {
		h := sha256.New()
		for _, seed := range seeds {
			h.Write(seed)
		}
		h.Write([]byte{byte(bump)})
		h.Write(program[:])
		h.Write([]byte("ProgramDerivedAddress"))
		h.Sum(account[:0])
		if _, err := new(edwards25519.Point).SetBytes(account[:]); err != nil {
			return account, true
		}
	}
	return account, false
}
