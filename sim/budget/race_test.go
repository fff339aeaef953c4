//go:build race

package budget_test

func init() { instrumented = "the race detector" }
