package activity

import (
	"encoding/hex"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Votes are the kinds that approve or reject another activity. They run nothing: core records the vote on that activity.
var Votes = Family{
	Kind[Approve, struct{}]{Name: "APPROVE_ACTIVITY", Vote: true, Attested: true, Run: refuseRun[Approve]},
	Kind[Reject, struct{}]{Name: "REJECT_ACTIVITY", Vote: true, Run: refuseRun[Reject]},
}

func refuseRun[I any](*Tx, *I) (*struct{}, error) {
	return nil, fault.New(fault.Internal, "a vote does not run")
}

// Vote is what an approval and a rejection have in common.
type Vote struct {
	// Fingerprint is the fingerprint of the activity, `sha256:` and hex.
	Fingerprint string `json:"fingerprint" rule:"required"`
}

func (in *Vote) target() org.Hash {
	h, _ := parseFingerprint(in.Fingerprint)
	return h
}

func (in *Vote) check() error {
	if _, ok := parseFingerprint(in.Fingerprint); !ok {
		return fault.Field("fingerprint", "malformed fingerprint: sha256: and 64 hexadecimal digits")
	}
	return nil
}

// Approve is the intent of an approval. DecodedDigest, which is ours, commits to what the voter was shown: the approval counts
// only if the activity is still shown so.
type Approve struct {
	Vote
	DecodedDigest *string `json:"decodedDigest"`

	digest []byte
}

func (in *Approve) Check() (err error) {
	if text := TextOf(in.DecodedDigest); in.DecodedDigest != nil {
		if in.digest, err = hex.DecodeString(text); err != nil || len(in.digest) != 32 {
			return fault.Field("decodedDigest", "malformed digest: 64 hexadecimal digits, as get_activity has it")
		}
	}
	return in.check()
}

// Reject is the intent of a rejection. Reason, which is ours, is kept in the message of the vote.
type Reject struct {
	Vote
	Reason *string `json:"reason"`
}

func (in *Reject) Check() error {
	if err := CheckNotes("reason", in.Reason); err != nil {
		return err
	}
	return in.check()
}

// DecodedDigest is the digest of what the voter was shown, nil if an approval names none or the intent is none.
func (in *Intent) DecodedDigest() []byte {
	if v, ok := in.newest.(*Approve); ok {
		return v.digest
	}
	return nil
}

// Rejects reports whether a kind that is a Vote rejects.
func (t *Traits) Rejects() bool { return t.Name == "REJECT_ACTIVITY" }
