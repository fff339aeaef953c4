package sol

import (
	"errors"

	"github.com/mr-tron/base58"
)

var errAddress = errors.New("not the base58 text of 32 bytes")

// ParseAddress reads the address of an account or a program.
func ParseAddress(text string) (account [32]byte, err error) {
	if len(text) < 32 || len(text) > 44 {
		return account, errAddress
	}
	b, err := base58.Decode(text)
	if err != nil || copy(account[:], b) != len(b) || len(b) != len(account) {
		return [32]byte{}, errAddress
	}
	return account, nil
}
