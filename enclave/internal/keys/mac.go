package keys

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha512"
)

// mac512 is HMAC-SHA512. It runs inside do.
func mac512(out *[64]byte, key, message []byte) {
	h := hmac.New(sha512.New, key)
	h.Write(message)
	h.Sum(out[:0])
}

// stretch is PBKDF2-HMAC-SHA512 (RFC 8018) into all of out. It runs inside do, which
// erases the copies of the password that the library makes, once they are freed.
func stretch(out, password, salt []byte, rounds int) error {
	b, err := pbkdf2.Key(sha512.New, string(password), salt, rounds, len(out))
	copy(out, b)
	clear(b)
	return err
}
