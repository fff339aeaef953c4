package auth

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// SessionProfiles are the kinds about session profiles.
var SessionProfiles = activity.Family{
	activity.Kind[CreateSessionProfile, SessionProfileID]{Name: "CREATE_SESSION_PROFILE", Resource: "SESSION_PROFILE", Action: "CREATE", Run: createSessionProfile,
		Explain: func(_ *org.Tx, in *CreateSessionProfile, o *show.Object) error {
			in.explain(o)
			return nil
		}},
}

// CreateSessionProfile creates a profile that restricts sessions. A top-level organization has it, and it never changes.
type CreateSessionProfile struct {
	SessionProfileName string  `json:"sessionProfileName" rule:"required,label,label_length"`
	Scope              string  `json:"scope" rule:"required"`
	ExpirationSeconds  *string `json:"expirationSeconds"`
	Notes              *string `json:"notes"`

	seconds uint64 // 0: no limit of its own
	scope   *policy.Program
}

// maxSessionSeconds is the maximal lifetime of a session: 30 days.
const maxSessionSeconds = 30 * 24 * 60 * 60

func (in *CreateSessionProfile) Check() (err error) {
	if in.seconds, err = sessionSeconds("", in.ExpirationSeconds); err != nil {
		return fault.Field("expirationSeconds", "invalid session profile expiration: must be 1 to %d", maxSessionSeconds)
	}
	if err := activity.CheckNotes("notes", in.Notes); err != nil {
		return err
	}
	in.scope, err = activity.CompileClause(policy.ClauseCondition, "scope", in.Scope)
	return err
}

// SessionProfileID is the result of creating a profile.
type SessionProfileID struct {
	SessionProfileID string `json:"sessionProfileId"`
}

func createSessionProfile(tx *activity.Tx, in *CreateSessionProfile) (*SessionProfileID, error) {
	if err := activity.CheckTopLevel(tx, "session profiles"); err != nil {
		return nil, err
	}
	if err := activity.Profiles.Add(tx, 1); err != nil {
		return nil, err
	}
	id, err := activity.NewNamed(tx, org.NameProfile, "session profile", "sessionProfileName", in.SessionProfileName)
	if err != nil {
		return nil, err
	}
	p := &org.SessionProfile{
		ID: id, Name: in.SessionProfileName, Scope: in.Scope, Seconds: in.seconds, Notes: in.Notes, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs, Compiled: in.scope,
	}
	return &SessionProfileID{id.String()}, tx.PutSessionProfile(p)
}

// CompiledScope returns p's scope, compiled once per load of p.
func CompiledScope(p *org.SessionProfile) (*policy.Program, error) {
	if c, ok := p.Compiled.(*policy.Program); ok {
		return c, nil
	}
	c, err := activity.CompileStored("session profile", p.ID, policy.ClauseCondition, p.Scope)
	if err == nil {
		p.Compiled = c
	}
	return c, err
}
