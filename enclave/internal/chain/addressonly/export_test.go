package addressonly

import "cloister/enclave/internal/chain"

// Codes are the constants under test: hash and depth by format.
var Codes = map[chain.Format]struct {
	Hash  [32]byte
	Depth uint16
}{
	chain.TonV3R2: {walletV3R2.code, walletV3R2.depth},
	chain.TonV4R2: {walletV4R2.code, walletV4R2.depth},
	chain.TonV5R1: {walletV5R1.code, walletV5R1.depth},
}

// CRC16 is the unexported function under test.
var CRC16 = crc16
