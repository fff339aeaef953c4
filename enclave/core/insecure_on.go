//go:build cloister_insecure

package core

import "cloister/enclave/internal/insecure"

// TestOnlySkip switches a check off, in builds for tests that show what the
// check is for.
func TestOnlySkip(name string, skip bool) bool { return insecure.TestOnlySkip(name, skip) }
