//go:build goexperiment.runtimesecret

package erase

import (
	"runtime/secret"

	"cloister/enclave/internal/tally"
)

// Enabled reports whether this build erases.
const Enabled = true

// Do runs f and erases what it leaves behind.
func Do(f func()) {
	tally.Erasures.Add(1)
	secret.Do(f)
}
