package keys

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
)

// HMAC for short messages without allocations: each allocation inside do costs
// time and lives until the next collection. Both are held against Wycheproof's
// files.

// maxMAC bounds the message of mac512 and mac256; every one of ours is shorter.
const maxMAC = 256

// mac512 is HMAC-SHA512.
func mac512(out *[64]byte, key, message []byte) {
	var b [sha512.BlockSize + maxMAC]byte
	pad, rest := b[:sha512.BlockSize], b[sha512.BlockSize:]
	if len(key) > len(pad) {
		sum := sha512.Sum512(key)
		copy(pad, sum[:])
	} else {
		copy(pad, key)
	}
	for i := range pad {
		pad[i] ^= 0x36
	}
	*out = sha512.Sum512(b[:len(pad)+copy(rest[:len(message)], message)])
	for i := range pad {
		pad[i] ^= 0x36 ^ 0x5c
	}
	*out = sha512.Sum512(b[:len(pad)+copy(rest, out[:])])
	clear(b[:])
}

// mac256 is HMAC-SHA256.
func mac256(out *[32]byte, key, message []byte) {
	var b [sha256.BlockSize + maxMAC]byte
	pad, rest := b[:sha256.BlockSize], b[sha256.BlockSize:]
	if len(key) > len(pad) {
		sum := sha256.Sum256(key)
		copy(pad, sum[:])
	} else {
		copy(pad, key)
	}
	for i := range pad {
		pad[i] ^= 0x36
	}
	*out = sha256.Sum256(b[:len(pad)+copy(rest[:len(message)], message)])
	for i := range pad {
		pad[i] ^= 0x36 ^ 0x5c
	}
	*out = sha256.Sum256(b[:len(pad)+copy(rest, out[:])])
	clear(b[:])
}

// stretch is PBKDF2-HMAC-SHA512 (RFC 8018) into all of out. It is here because
// the libraries take the password as a string or turn it into one.
func stretch(out, password, salt []byte, rounds int) {
	h := hmac.New(sha512.New, password)
	var u, t [64]byte
	for block := uint32(1); len(out) > 0; block++ {
		h.Reset()
		h.Write(salt)
		var number [4]byte
		binary.BigEndian.PutUint32(number[:], block)
		h.Write(number[:])
		h.Sum(u[:0])
		t = u
		for range rounds - 1 {
			h.Reset()
			h.Write(u[:])
			h.Sum(u[:0])
			for i := range t {
				t[i] ^= u[i]
			}
		}
		out = out[copy(out, t[:]):]
	}
	clear(u[:])
	clear(t[:])
}
