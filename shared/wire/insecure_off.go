//go:build !cloister_insecure

package wire

// lenient is false: Conn and Unmarshal enforce their limits.
func lenient() bool { return false }
