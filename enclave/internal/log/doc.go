// Package log implements an enclave's side of a range's public log: its keys, its headers,
// and the tip table, which holds the tips of the range's organizations.
package log
