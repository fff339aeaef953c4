// Package budget holds the test that requests cost what budgets.txt says: what is counted there (allocations, bytes, frames,
// statements, commits, operations on keys) comes out the same on a busy machine as on an idle one, so that a loss of speed is
// seen by whoever makes it. Times and ratios are for scripts/load.
package budget
