//go:build cloister_insecure

package core

import (
	"cloister/enclave/internal/insecure"
	"cloister/shared/wire"
)

// TestOnlySkip switches a check off, in builds for tests that show what the
// check is for.
func TestOnlySkip(name string, skip bool) bool {
	if name == insecure.Frame.String() {
		wire.TestOnlyLenient.Store(skip)
	}
	return insecure.TestOnlySkip(name, skip)
}
