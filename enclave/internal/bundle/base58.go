package bundle

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/mr-tron/base58"
)

// checkSize is how many bytes of the double SHA-256 stand behind what is encoded.
const checkSize = 4

func checksum(b []byte) []byte {
	sum := sha256.Sum256(b)
	sum = sha256.Sum256(sum[:])
	return sum[:checkSize]
}

// encode58Check writes base58 with a checksum, in the alphabet of Bitcoin.
func encode58Check(b []byte) string {
	return base58.Encode(append(b[:len(b):len(b)], checksum(b)...))
}

func decode58Check(text string) ([]byte, error) {
	b, err := base58.Decode(text)
	if err != nil || len(b) < checkSize {
		return nil, errCompact
	}
	b, sum := b[:len(b)-checkSize], b[len(b)-checkSize:]
	if subtle.ConstantTimeCompare(sum, checksum(b)) != 1 {
		return nil, errCompact
	}
	return b, nil
}
