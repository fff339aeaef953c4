//go:build goexperiment.runtimesecret

package erase

import "runtime/secret"

// Enabled reports whether this build erases.
const Enabled = true

// Do runs f and erases what it leaves behind.
func Do(f func()) { secret.Do(f) }
