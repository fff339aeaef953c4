// Package commitment computes the values with which an enclave commits, in registers of its security module, to the key that
// it made and to its manifest. It is a package of its own for enclaves that link no verifier.
package commitment

import (
	"crypto/sha512"
	"encoding/hex"
)

// The registers in which an enclave commits to its boot key and its manifest,
// before it locks all 32. Each is extended exactly once.
const (
	SetupPCR = 16 // while it waits for its root secret
	LivePCR  = 17 // while it serves
)

const (
	setupDomain = "qos-setup-manifest-pcr-commitment-v1"
	liveDomain  = "qos-live-manifest-pcr-commitment-v1"
)

// Setup is the value that PCR16 is extended with: SHA-384 of the commitment's JSON text. The key is the
// boot key in 260 lower-case hex digits; manifestHash is the SHA-256 of the manifest's bytes.
func Setup(bootKeyHex string, manifestHash [32]byte) [48]byte {
	return extension(setupDomain, bootKeyHex, manifestHash)
}

// Live is the value that PCR17 is extended with; see Setup.
func Live(bootKeyHex string, manifestHash [32]byte) [48]byte {
	return extension(liveDomain, bootKeyHex, manifestHash)
}

// SetupRegister is the value of PCR16 after the extension by Setup.
func SetupRegister(bootKeyHex string, manifestHash [32]byte) [48]byte {
	return extendZero(Setup(bootKeyHex, manifestHash))
}

// LiveRegister is the value of PCR17 after the extension by Live.
func LiveRegister(bootKeyHex string, manifestHash [32]byte) [48]byte {
	return extendZero(Live(bootKeyHex, manifestHash))
}

// extension writes the JSON by hand: the byte string is the format.
func extension(domain, bootKeyHex string, manifestHash [32]byte) [48]byte {
	return sha512.Sum384([]byte(`{"domain":"` + domain + `","ephemeralPublicKey":"` + bootKeyHex +
		`","manifestHash":"` + hex.EncodeToString(manifestHash[:]) + `"}`))
}

func extendZero(ext [48]byte) [48]byte {
	var both [96]byte
	copy(both[48:], ext[:])
	return sha512.Sum384(both[:])
}
