package org

import (
	"slices"
)

// Status is the status of an activity.
type Status uint8

// The statuses of the public interface. They are never renumbered.
const (
	StatusCreated              Status = 1
	StatusPending              Status = 2
	StatusCompleted            Status = 3
	StatusFailed               Status = 4
	StatusConsensusNeeded      Status = 5
	StatusRejected             Status = 6
	StatusAuthenticatorsNeeded Status = 7
)

var statusTexts = [...]string{"", "ACTIVITY_STATUS_CREATED", "ACTIVITY_STATUS_PENDING", "ACTIVITY_STATUS_COMPLETED", "ACTIVITY_STATUS_FAILED", "ACTIVITY_STATUS_CONSENSUS_NEEDED", "ACTIVITY_STATUS_REJECTED", "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED"}

// String is the status's name in the public interface, or "".
func (s Status) String() string {
	if int(s) < len(statusTexts) {
		return statusTexts[s]
	}
	return ""
}

// ParseStatus parses the result of String; 0 for any other text.
func ParseStatus(text string) Status {
	return Status(max(slices.Index(statusTexts[:], text), 0))
}

// Terminal reports whether the status is final.
func (s Status) Terminal() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusRejected
}

// Entry is one sealed step of an activity: the request, its signers, the decision and the result.
//
// The first format of entries is a CBOR map of all fields with a number. In the second format each
// field is in one of five parts (Parts), under the same number.
type Entry struct {
	Activity    ID     `cbor:"1,keyasint"` // zero: the first entry of an organization
	Type        string `cbor:"2,keyasint,omitempty"`
	Status      Status `cbor:"3,keyasint,omitempty"`
	Body        []byte `cbor:"4,keyasint,omitempty"` // the exact request body
	Fingerprint Hash   `cbor:"5,keyasint"`           // SHA-256 of Body
	StampedMs   uint64 `cbor:"6,keyasint,omitempty"` // timestampMs of the body; see Marks
	CreatedMs   uint64 `cbor:"7,keyasint"`           // when the activity's first step was decided
	TimeMs      uint64 `cbor:"8,keyasint"`           // when this step was decided
	Votes       []Vote `cbor:"9,keyasint,omitempty"`
	Outcome     string `cbor:"10,keyasint,omitempty"` // OUTCOME_…
	// Result is the JSON of the activity's result member, `{"…Result":{…}}`.
	Result []byte  `cbor:"11,keyasint,omitempty"`
	Proofs []Proof `cbor:"12,keyasint,omitempty"`
	// Failure is the error body of a FAILED activity.
	Failure []byte `cbor:"13,keyasint,omitempty"`
	// Refused, if not 0, is the HTTP status of the reply to a repeat, instead of the
	// activity: a denied request stays denied with the same text.
	Refused uint16  `cbor:"14,keyasint,omitempty"`
	Writes  []Write `cbor:"15,keyasint,omitempty"`
	Sends   []Send  `cbor:"16,keyasint,omitempty"`
	// LowWatermarkMs, if not 0, raises the organization's low watermark.
	LowWatermarkMs uint64 `cbor:"17,keyasint,omitempty"`
	// Other identifies the entry of another organization that belongs to the same step.
	Other    ID     `cbor:"18,keyasint"`
	OtherSeq uint64 `cbor:"19,keyasint,omitempty"`
	// Prior is one more than the seq of the activity's previous step, or 0.
	Prior uint64 `cbor:"20,keyasint,omitempty"`
	Boot  uint64 `cbor:"21,keyasint"` // number of the boot that decided
	// Evaluations are the policy evaluations of each vote so far.
	Evaluations []Evaluation `cbor:"22,keyasint,omitempty"`
	// Initiator is the user who submitted.
	Initiator ID `cbor:"23,keyasint"`

	Seq uint64 `cbor:"-"` // set when the entry is read from the ledger
	// Index are the changes of the host's index that go with the entry.
	Index []IndexChange `cbor:"-"`
}

// Evaluation is the result of the policies for an activity at one vote.
type Evaluation struct {
	ID     ID     `cbor:"1,keyasint"`
	Vote   ID     `cbor:"2,keyasint"`
	TimeMs uint64 `cbor:"3,keyasint"`
	// Policies is set in old entries, which have none of the fields from Asked on.
	Policies []PolicyOutcome `cbor:"4,keyasint,omitempty"`
	Outcome  string          `cbor:"5,keyasint,omitempty"` // of the activity, where no policy was asked
	// Asked are the ids of the evaluated policies, 16 bytes each; Verdicts has a byte for each, Reasons explain some of them.
	Asked    []byte   `cbor:"6,keyasint,omitempty"`
	Verdicts []byte   `cbor:"7,keyasint,omitempty"`
	Reasons  []Reason `cbor:"8,keyasint,omitempty"`
}

// Reason explains the verdict of one policy.
type Reason struct {
	At       uint32   `cbor:"1,keyasint"` // index of the policy in Asked
	Position int64    `cbor:"2,keyasint"`
	Values   []string `cbor:"3,keyasint,omitempty"` // expression, value, expression, value …
}

// PolicyOutcome is the outcome of one policy. The explanation is optional.
type PolicyOutcome struct {
	Policy   ID       `cbor:"1,keyasint"`
	Name     string   `cbor:"-"`          // at the time of the query
	Outcome  string   `cbor:"3,keyasint"` // OUTCOME_…
	Clause   string   `cbor:"4,keyasint,omitempty"`
	Position int64    `cbor:"5,keyasint,omitempty"`
	Values   []string `cbor:"6,keyasint,omitempty"` // expression, value, expression, value …
}

// Vote is one user's approval or rejection, with the signed body.
type Vote struct {
	ID       ID     `cbor:"1,keyasint"`
	User     ID     `cbor:"2,keyasint"`
	UserName string `cbor:"3,keyasint"` // stored, since the user may be deleted later
	Rejected bool   `cbor:"4,keyasint,omitempty"`
	// Message is the signed body, empty for the submitter's own vote, whose body is the entry's Body.
	Message   []byte `cbor:"5,keyasint,omitempty"`
	PublicKey string `cbor:"6,keyasint"`
	Signature string `cbor:"7,keyasint"`
	Scheme    string `cbor:"8,keyasint"`
	CreatedMs uint64 `cbor:"9,keyasint"`
}

// Proof is an app proof as issued.
type Proof struct {
	Key       []byte `cbor:"1,keyasint"` // the boot's 130-byte public key
	Payload   []byte `cbor:"2,keyasint"` // JSON text, the exact bytes signed
	Signature []byte `cbor:"3,keyasint"` // r ‖ s
}

// HasFingerprint reports whether the entry adds its fingerprint to its organization's DedupWindow: the first entry of an activity, or the
// parent's entry of one whose body names the parent.
func (e *Entry) HasFingerprint() bool { return e.StampedMs != 0 && e.Prior == 0 }

// Size is an estimate of the encoded size in bytes, seldom too low.
func (e *Entry) Size() int {
	n := 1088 + len(e.Body) + len(e.Result) + len(e.Failure)
	for i := range e.Votes {
		n += len(e.Votes[i].Message)
	}
	for i := range e.Proofs {
		n += len(e.Proofs[i].Payload)
	}
	for i := range e.Evaluations {
		n += 64 + len(e.Evaluations[i].Asked) + len(e.Evaluations[i].Verdicts)
	}
	for i := range e.Writes {
		n += len(e.Writes[i].Key) + len(e.Writes[i].Value)
	}
	for i := range e.Sends {
		n += len(e.Sends[i].Content)
	}
	return n
}

// DecodeEntry decodes an entry of the first format strictly. That format is no longer written.
func DecodeEntry(b []byte) (*Entry, error) {
	return unmarshal[Entry](b, "%w")
}
