package policies_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
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
	Wallets        map[string]struct{ ID, Label string }
	WalletAccounts map[string]struct {
		Address string
		Path    string `json:"x_path"`
	}
	PrivateKeys map[string]struct {
		ID, Label string
		Tags      []string
	}
}

type book struct {
	Tags         map[string]string
	Orgs         map[string]organization
	Transactions map[string]struct{ Kind, Encoding, HashFunction, Payload string }
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

const sign = "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2"

var (
	transaction = regexp.MustCompile(`^ACTIVITY_TYPE_(SIGN_TRANSACTION|ETH_SEND|SOL_SEND)`)
	// about what only a transaction has
	looking = regexp.MustCompile(`\b(eth|solana|bitcoin|tron|tempo)\.|TRANSACTION|activity\.(type|kind|params)`)
)

// standIn tells whether a case about a transaction does not look at it: a raw payload takes its place.
func (c *row) standIn() bool {
	if !transaction.MatchString(c.Request.Type) || c.Interfaces != nil || c.Request.SessionScope != "" || c.Now != "" || c.Expect.Outcome == "ERROR" {
		return false
	}
	for _, p := range c.Policies {
		if p.Time != "" || looking.MatchString(p.Condition) {
			return false
		}
	}
	return true
}

// raw tells whether a case signs a raw payload whose encoding is live.
func (c *row) raw(k *book) bool {
	x := k.Transactions[c.Request.Tx]
	return x.Kind == "RAW_PAYLOAD" && !strings.HasPrefix(x.Encoding, "PAYLOAD_ENCODING_EIP")
}

// leftOut are the cases that are not sent over HTTP, with the reason. A kind that is not live yet must answer so.
const notLive = "the kind is not live"

var leftOut = map[string]string{
	"P035": notLive, "P050": notLive, "P073": notLive, "P074": notLive, "P075": notLive, // exports
	"P042": notLive, "P043": notLive, "P051": notLive, "P060": notLive, // logins
	"P063": notLive, "P064": notLive,
	"P045": notLive, "P046": notLive, "P061": notLive, "P062": notLive,
	"P190": notLive, "P191": notLive, "P192": notLive, "P193": notLive,
	"P076": "its wallet has been exported, and export is not live", "P077": "its wallet has been exported, and export is not live",
	"P069": "its wallet has been imported and exported, and neither is live",
}
