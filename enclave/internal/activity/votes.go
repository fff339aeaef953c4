package activity

import "cloister/enclave/internal/fault"

// Votes are activities too, but they run nothing: core records them on the
// activity that they name.
var votes = []*Kind{
	kind("APPROVE_ACTIVITY", "", "", func(*Tx, *Vote) (*struct{}, error) { return nil, errVote }).votes().attested(),
	kind("REJECT_ACTIVITY", "", "", func(*Tx, *Vote) (*struct{}, error) { return nil, errVote }).votes(),
}

var errVote = fault.New(fault.Internal, "a vote does not run")

// Vote says yes or no to an activity.
type Vote struct {
	// Fingerprint is that of the activity's body, `sha256:` and hex.
	Fingerprint string `json:"fingerprint" rule:"required"`
}

func (in *Vote) check() error {
	if _, ok := parseFingerprint(in.Fingerprint); !ok {
		return fault.Field("fingerprint", "malformed fingerprint: sha256: and 64 hexadecimal digits")
	}
	return nil
}

// votes declares that the kind is a vote.
func (k *Kind) votes() *Kind {
	k.Vote = true
	return k
}

// Rejects tells a no from a yes, of a Kind that is a Vote.
func (k *Kind) Rejects() bool { return k.Name == "REJECT_ACTIVITY" }
