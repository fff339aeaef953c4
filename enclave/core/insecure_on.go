//go:build cloister_insecure

package core

import (
	"cloister/enclave/internal/insecure"
	"cloister/shared/wire"
)

// TestOnlySkip switches a check off, for tests that show its effect.
func TestOnlySkip(name string, skip bool) bool {
	if name == insecure.Frame.String() {
		wire.TestOnlyLenient.Store(skip)
	}
	return insecure.TestOnlySkip(name, skip)
}
