//go:build !cloister_insecure

package insecure

// Skip is false: a release checks everything. The compiler removes what stands
// behind it.
func Skip(Check) bool { return false }
