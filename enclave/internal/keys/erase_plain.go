//go:build !goexperiment.runtimesecret

package keys

// Erasing reports whether this build erases stack, registers and freed heap of
// everything that handles private bytes.
const Erasing = false

// do runs f; this build leaves traces of it in memory.
func do(f func()) { f() }
