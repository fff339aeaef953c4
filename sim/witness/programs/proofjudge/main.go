// Command proofjudge verifies proofs of a log as filippo.io/torchwood does: a second opinion on ours, in tests.
//
// It reads one JSON object after the other from standard input, {"policy", "leaf", "proof"} with the leaf in base64, and
// answers each with a line: ok, or why not.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	in := json.NewDecoder(os.Stdin)
	for {
		var question struct {
			Policy, Proof string
			Leaf          []byte
		}
		if err := in.Decode(&question); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fmt.Fprintln(os.Stderr, "proofjudge:", err)
			os.Exit(2)
		}
		policy, err := torchwood.ParsePolicy([]byte(question.Policy))
		if err == nil {
			err = torchwood.VerifyProof(policy, tlog.RecordHash(question.Leaf), []byte(question.Proof))
		}
		if err != nil {
			fmt.Printf("refused: %q\n", err)
			continue
		}
		fmt.Println("ok")
	}
}
