//go:build !cloister_insecure

package wire

// lenient is false: frames are bounded and have one encoding.
func lenient() bool { return false }
