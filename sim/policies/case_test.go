package policies_test

import (
	"encoding/json"
	"os"
	"testing"
)

// casesFile is shared with the tests of the policy engine; see its README.
const casesFile = "../../enclave/internal/policy/testdata/policy-cases.json"

type by struct{ User, Credential string }

type rule struct{ ID, Effect, Consensus, Condition, Time string }

// A row is one case.
type row struct {
	ID, Kind, Group, Title, Org, Now string
	Policies                         []rule
	Interfaces                       []string
	Request                          struct {
		Type         string
		By           by
		Params       map[string]any
		Tx           string
		PolicyParams map[string]any
		SessionScope string
		Sponsored    bool
		Target       struct {
			Wallet        string
			WalletAccount string `json:"wallet_account"`
			PrivateKey    string `json:"private_key"`
			Wallets       []string
		}
	}
	Approvals []by
	Expect    struct {
		Outcome, Reason string
		PolicyOutcomes  map[string]string
	}
}

type user struct {
	ID, Email, Alias string
	Tags             []string
}

type organization struct {
	RootQuorum struct {
		Threshold int
		Users     []string
	}
	Users       map[string]user
	Credentials map[string]struct {
		ID, Type     string
		UserID       string `json:"user_id"`
		PublicKey    string `json:"public_key"`
		CredentialID string `json:"credential_id"`
	}
	Wallets map[string]struct {
		ID, Label          string
		Imported, Exported bool
	}
	WalletAccounts map[string]struct {
		Address string
		Path    string `json:"x_path"`
	}
	PrivateKeys map[string]struct {
		ID, Label string
		Tags      []string
		Imported  bool
	}
}

type book struct {
	Tags         map[string]string
	Orgs         map[string]organization
	Transactions map[string]struct{ Kind, Encoding, HashFunction, Payload, Type, UnsignedTransaction string }
	Interfaces   map[string]json.RawMessage
	Cases        []row
}

func readBook(t *testing.T) *book {
	t.Helper()
	b, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	var k book
	if err := json.Unmarshal(b, &k); err != nil {
		t.Fatal(err)
	}
	return &k
}
