// Command cloister-verify checks app proofs and boot proofs, offline but for `keys -url` and `monitor`.
//
// It reads replies of the interface from files and prints in plain words what they prove. It exits with
// 0; with 1 and the reason if anything is refused; with 2 if it was called wrongly; with 3 if image or
// deployment is not pinned (-unpinned, -allow-debug). `cloister-verify keys` checks the document of public
// keys, of a running deployment too, and writes them for tools. `cloister-verify log` checks a logged proof,
// and exits with 4 if its log was recovered from a backup and -known-generation does not name it.
// `cloister-verify monitor` watches an organization's ledger in the log. `cloister-verify policies` lists what
// is likely wrong with an organization's policies. `cloister-verify decode` makes what approvers are shown. The commands with which operators start an enclave
// (operator-key, manifest, approve, nonce, shares, share; for customers' programs program-key,
// program-approve, program-share) are in operator.go and program.go. See the README of the parent folder.
package main

import (
	"os"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.ReadFile, time.Now)) }
