package activity

import "cloister/enclave/internal/fault"

// Votes are the kinds that approve or reject another activity. They run nothing: core records the vote on that activity.
var Votes = Family{
	Kind[Vote, struct{}]{Name: "APPROVE_ACTIVITY", Vote: true, Attested: true, Run: refuseRun},
	Kind[Vote, struct{}]{Name: "REJECT_ACTIVITY", Vote: true, Run: refuseRun},
}

func refuseRun(*Tx, *Vote) (*struct{}, error) {
	return nil, fault.New(fault.Internal, "a vote does not run")
}

// Vote is the intent of an approval or rejection of an activity.
type Vote struct {
	// Fingerprint is the fingerprint of the activity, `sha256:` and hex.
	Fingerprint string `json:"fingerprint" rule:"required"`
}

func (in *Vote) Check() error {
	if _, ok := parseFingerprint(in.Fingerprint); !ok {
		return fault.Field("fingerprint", "malformed fingerprint: sha256: and 64 hexadecimal digits")
	}
	return nil
}

// Rejects reports whether a kind that is a Vote rejects.
func (t *Traits) Rejects() bool { return t.Name == "REJECT_ACTIVITY" }
