// Command gosdk drives the simulator with the unmodified Go SDK: API keys of every scheme, a wallet and private keys on
// every curve, signatures in every encoding under every hash function, each judged by a library that is not Cloister's,
// app proofs checked by the SDK and by cloister-verify, policies and the root quorum that want several votes, and wallets and
// keys imported and exported with the SDK's own encryption.
//
// With -phase made it makes everything and writes what it made to -state; with -phase kept it checks that all of it is
// still there and signs again. See run.sh in the folder above.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/tkhq/go-sdk/pkg/api/models"
)

// A memory is what the first phase leaves for the second.
type memory struct {
	Accounts   []account         `json:"accounts"`
	ActivityID string            `json:"activityId"`
	Keys       map[string]string `json:"keys"` // scheme to private key, as the SDK writes it
}

// An account is something that signs: a wallet account or a private key.
type account struct {
	Curve     models.Curve `json:"curve"`
	SignWith  string       `json:"signWith"`
	PublicKey string       `json:"publicKey"`
}

func main() {
	credentials := flag.String("credentials", "", "credentials.json of the simulator's data directory")
	state := flag.String("state", "", "file for what was made")
	verify := flag.String("verify", "", "path of cloister-verify")
	phase := flag.String("phase", "made", "made or kept")
	flag.Parse()

	if err := run(*phase, *credentials, *state, *verify); err != nil {
		fmt.Fprintln(os.Stderr, "gosdk:", err)
		os.Exit(1)
	}
}

func run(phase, credentials, state, verify string) error {
	place, err := openPlace(credentials, verify)
	if err != nil {
		return err
	}
	switch phase {
	case "made":
		m, err := place.makeAll()
		if err != nil {
			return err
		}
		raw, err := json.Marshal(m)
		if err != nil {
			return err
		}
		return os.WriteFile(state, raw, 0o600)
	case "kept":
		raw, err := os.ReadFile(state)
		if err != nil {
			return err
		}
		var m memory
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		return place.checkAll(m)
	}
	return fmt.Errorf("no phase %q", phase)
}
