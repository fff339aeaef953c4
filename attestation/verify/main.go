// Command cloister-verify checks app proofs and boot proofs, offline but for `keys -url` and `monitor`.
//
// It reads replies of the interface from files, says in plain words what is proven, and exits
// with 0; with 1 and the reason when anything is refused; with 2 when it was called wrongly.
// `cloister-verify keys` checks the document of public keys, of a running deployment too, and
// writes them for tools. `cloister-verify log` checks a logged proof, and exits with 4 where it holds in a
// log that was recovered from a backup and nobody said that this is known. `cloister-verify monitor` watches an
// organization's ledger in the log. `cloister-verify policies` says what is likely wrong with an
// organization's policies. What operators do to start an enclave (operator-key, manifest,
// approve, nonce, shares, share; of customers' programs program-key, program-approve, program-share) stands in operator.go and
// program.go. See the README of the folder above.
package main

import (
	"os"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.ReadFile, time.Now)) }
