//go:build cloister_insecure

package core

import (
	"cloister/attestation"
	"cloister/enclave/internal/insecure"
	"cloister/shared/wire"
)

// TestOnlySkip switches a check off, for tests that show its effect.
func TestOnlySkip(name string, skip bool) bool {
	switch name {
	case insecure.Frame.String():
		wire.TestOnlyLenient.Store(skip)
	case insecure.Policy.String():
		attestation.TestOnlyAnyQuorum.Store(skip)
	}
	return insecure.TestOnlySkip(name, skip)
}
