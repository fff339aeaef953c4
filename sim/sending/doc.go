// Package sending holds tests that send transactions through host and enclave to a
// chain of their own, which numbers transactions as Ethereum does: they have no
// other part. scripts/sending/test.sh does the same with go-ethereum.
package sending
