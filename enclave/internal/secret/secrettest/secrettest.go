// Package secrettest is how tests make secrets of bytes that they know, and look at the
// bytes of secrets.
package secrettest

import (
	"bytes"

	"cloister/enclave/internal/secret"
)

// Of is a secret of these bytes, which stay as they are. Without any it is the empty
// secret.
func Of(b []byte) secret.Secret {
	if len(b) == 0 {
		return secret.Secret{}
	}
	s, err := secret.From(bytes.Clone(b))
	if err != nil {
		panic(err)
	}
	return s
}

// Bytes are a copy of the bytes of a secret, nil of an empty or wiped one.
func Bytes(s secret.Secret) (b []byte) {
	s.Use(func(in []byte) { b = bytes.Clone(in) })
	return b
}
