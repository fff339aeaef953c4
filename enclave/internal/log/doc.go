// Package log is what an enclave keeps of the public log of a range: which organization
// stands where, and what commits to it.
package log
