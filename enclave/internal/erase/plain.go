//go:build !goexperiment.runtimesecret

package erase

// Enabled reports whether this build erases.
const Enabled = false

// Do runs f.
func Do(f func()) { f() }
