// Package reference holds our readers of transactions, of contract interfaces and of typed data, and our addresses,
// against the reference libraries of their chains, on cases and by fuzzing. It is a module of its own, so that what the
// libraries need does not become what Cloister needs; scripts/reference/test.sh runs it.
package reference
