package user

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// MFAPolicies are the kinds about MFA policies of users.
var MFAPolicies = activity.Family{
	activity.Kind[CreateMFAPolicy, MFAPolicyID]{Name: "CREATE_MFA_POLICY", Resource: "MFA_POLICY", Action: "CREATE", Run: createMFAPolicy,
		Explain: func(tx *org.Tx, in *CreateMFAPolicy, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[UpdateMFAPolicy, MFAPolicyID]{Name: "UPDATE_MFA_POLICY", Resource: "MFA_POLICY", Action: "UPDATE", Run: updateMFAPolicy,
		Explain: func(tx *org.Tx, in *UpdateMFAPolicy, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[DeleteMFAPolicy, MFAPolicyID]{Name: "DELETE_MFA_POLICY", Resource: "MFA_POLICY", Action: "DELETE", Run: deleteMFAPolicy,
		Explain: func(tx *org.Tx, in *DeleteMFAPolicy, o *show.Object) error { return in.explain(tx, o) }},
}

// Limits of the MFA policies of one user, who is one record.
const (
	maxMFAPolicies = 10
	maxMFASteps    = 10
	maxMFAFactors  = 10       // of one step
	maxMFAText     = 32 << 10 // bytes of all conditions and notes
)

// AuthenticationType is the type of a factor.
type AuthenticationType string

// The authentication types.
const (
	authPasskey AuthenticationType = "AUTHENTICATION_TYPE_PASSKEY"
	authAPIKey  AuthenticationType = "AUTHENTICATION_TYPE_API_KEY"
	authSession AuthenticationType = "AUTHENTICATION_TYPE_SESSION"
	authEmail   AuthenticationType = "AUTHENTICATION_TYPE_EMAIL_OTP"
	authSms     AuthenticationType = "AUTHENTICATION_TYPE_SMS_OTP"
	authOauth   AuthenticationType = "AUTHENTICATION_TYPE_OAUTH"
)

// Valid reports whether t is an authentication type of the interface.
func (t AuthenticationType) Valid() bool {
	return t == authPasskey || t == authAPIKey || t == authSession || t == authEmail || t == authSms || t == authOauth
}

// FactorParams is one factor that passes a step.
type FactorParams struct {
	Type AuthenticationType `json:"type" rule:"required"`
	ID   *string            `json:"id"`
}

// StepParams is one step: any of its factors passes it.
type StepParams struct {
	Any []FactorParams `json:"any"`
}

// CreateMFAPolicy requires several factors of a user, for the requests for which its condition holds. Of a
// user's MFA policies the first whose condition holds applies.
type CreateMFAPolicy struct {
	UserID                        string       `json:"userId" rule:"required,uuid"`
	MFAPolicyName                 string       `json:"mfaPolicyName" rule:"required,label,label_length"`
	Condition                     string       `json:"condition" rule:"required"`
	RequiredAuthenticationMethods []StepParams `json:"requiredAuthenticationMethods" rule:"required"`
	Order                         uint32       `json:"order" rule:"required"`
	Notes                         *string      `json:"notes"`
}

func (in *CreateMFAPolicy) Check() error {
	if len(in.RequiredAuthenticationMethods) == 0 {
		return fault.Field("requiredAuthenticationMethods", "must have 1 to %d elements", maxMFASteps)
	}
	return checkMFA(&in.Condition, in.RequiredAuthenticationMethods, in.Notes)
}

func checkMFA(condition *string, steps []StepParams, notes *string) error {
	const list = "requiredAuthenticationMethods"
	if len(steps) > maxMFASteps {
		return fault.Field(list, "must have 1 to %d elements", maxMFASteps)
	}
	for i, s := range steps {
		if n := len(s.Any); n == 0 || n > maxMFAFactors {
			return fault.Field(activity.FieldAt(list, i, "any"), "must have 1 to %d elements", maxMFAFactors)
		}
		for j, f := range s.Any {
			if err := f.check(fmt.Sprintf("%s.%d.any.%d.id", list, i, j)); err != nil {
				return err
			}
		}
	}
	if err := activity.CheckNotes("notes", notes); err != nil || condition == nil {
		return err
	}
	if *condition == "" {
		return fault.Field("condition", "must not be empty")
	}
	_, err := activity.CompileClause(policy.ClauseCondition, "condition", *condition)
	return err
}

func (f *FactorParams) check(field string) error {
	if activity.TextOf(f.ID) == "" {
		return nil
	}
	if f.Type == authEmail || f.Type == authSms {
		return fault.Field(field, "a passcode has no id")
	}
	if _, err := org.ParseID(*f.ID); err != nil {
		return fault.Field(field, "must be a UUID")
	}
	return nil
}

// MFAPolicyID is the result of creating, changing and removing an MFA policy.
type MFAPolicyID struct {
	MFAPolicyID string `json:"mfaPolicyId"`
}

func createMFAPolicy(tx *activity.Tx, in *CreateMFAPolicy) (*MFAPolicyID, error) {
	old, err := activity.FindUser(tx, in.UserID)
	if err != nil {
		return nil, err
	}
	if len(old.MFAPolicies) >= maxMFAPolicies {
		return nil, fault.New(fault.ResourceExhausted, "user has exceeded maximum mfa policies: %d", maxMFAPolicies)
	}
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	p := org.MFAPolicy{ID: id, Name: in.MFAPolicyName, Condition: in.Condition, Order: in.Order, Notes: activity.TextOf(in.Notes), CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs}
	if p.Required, err = stepsOf(tx, old, in.RequiredAuthenticationMethods); err != nil {
		return nil, err
	}
	return &MFAPolicyID{id.String()}, putMFAPolicies(tx, old, append(slices.Clone(old.MFAPolicies), p))
}

// stepsOf converts the steps of a user's MFA policy. It refuses a factor that the user does not have: nobody could pass the step.
func stepsOf(tx *activity.Tx, u *org.User, ps []StepParams) ([]org.MFAMethod, error) {
	steps := make([]org.MFAMethod, len(ps))
	for i, p := range ps {
		for _, f := range p.Any {
			factor := org.Factor{Type: string(f.Type)}
			if text := activity.TextOf(f.ID); text != "" {
				id, _ := org.ParseID(text) // checked
				known, err := hasFactor(tx, u, f.Type, id)
				if err != nil {
					return nil, err
				}
				if !known {
					return nil, activity.NotFound(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(f.Type), "AUTHENTICATION_TYPE_"), "_", " ")), text)
				}
				factor.ID = &id
			}
			steps[i].Any = append(steps[i].Any, factor)
		}
		if isPassable(&steps[i], u) {
			continue
		}
		// A step that nobody can pass would lock the user out, and also prevent its removal.
		for _, f := range p.Any {
			if f.Type == authSession {
				return nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: mfa steps that only %s passes", f.Type)
			}
		}
		return nil, fault.Field(activity.FieldAt("requiredAuthenticationMethods", i, "any"), "the user has no credential that passes this step")
	}
	return steps, nil
}

// isPassable reports whether u has a credential without expiry that passes a step.
func isPassable(m *org.MFAMethod, u *org.User) bool {
	var cs []org.VoteCredential
	for i := range u.APIKeys {
		if u.APIKeys[i].ExpirationSeconds == 0 {
			cs = append(cs, activity.APIKeyCredential(&u.APIKeys[i]))
		}
	}
	for i := range u.Authenticators {
		cs = append(cs, activity.PasskeyCredential(&u.Authenticators[i]))
	}
	for i := range u.OauthProviders {
		cs = append(cs, activity.IdentityCredential(&u.OauthProviders[i]))
	}
	if u.Email != "" {
		cs = append(cs, org.VoteCredential{Type: activity.TypeMailbox})
	}
	if u.Phone != "" {
		cs = append(cs, org.VoteCredential{Type: activity.TypePhone})
	}
	return slices.ContainsFunc(m.Any, func(f org.Factor) bool { return activity.MeetsFactor(&f, cs) })
}

// keepFactors refuses a change to the credentials of a root user after which a step can no longer be passed that could
// before: only the quorum could help.
func keepFactors(before, after *org.User) error {
	for i := range after.MFAPolicies {
		for j := range after.MFAPolicies[i].Required {
			if step := &after.MFAPolicies[i].Required[j]; isPassable(step, before) && !isPassable(step, after) {
				return fault.New(fault.InvalidArgument, "cannot remove the last credential that passes a step of the user's mfa policy %q", after.MFAPolicies[i].Name)
			}
		}
	}
	return nil
}

// hasFactor reports whether u has the credential of a factor. The zero id of a session is one without a profile.
func hasFactor(tx *activity.Tx, u *org.User, typ AuthenticationType, id org.ID) (bool, error) {
	switch typ {
	case authPasskey:
		return slices.ContainsFunc(u.Authenticators, func(a org.Authenticator) bool { return a.ID == id }), nil
	case authAPIKey:
		return slices.ContainsFunc(u.APIKeys, func(k org.APIKey) bool { return k.ID == id }), nil
	case authOauth:
		return slices.ContainsFunc(u.OauthProviders, func(p org.OauthProvider) bool { return p.ID == id }), nil
	}
	if id.Zero() {
		return true, nil
	}
	top, err := tx.Top()
	if err != nil {
		return false, err
	}
	p, err := top.SessionProfile(id)
	return p != nil, err
}

// putMFAPolicies stores u with these MFA policies in ascending order. No two may have the same order: the first that holds applies.
func putMFAPolicies(tx *activity.Tx, old *org.User, ps []org.MFAPolicy) error {
	slices.SortFunc(ps, func(a, b org.MFAPolicy) int { return cmp.Compare(a.Order, b.Order) })
	names, size := map[string]bool{}, 0
	for i := range ps {
		switch {
		case i > 0 && ps[i].Order == ps[i-1].Order:
			return fault.Field("order", "mfa policy order must be unique: %d", ps[i].Order)
		case names[ps[i].Name]:
			return activity.NotUnique("mfa policy", "mfaPolicyName")
		}
		names[ps[i].Name] = true
		size += len(ps[i].Condition) + len(ps[i].Notes)
	}
	if size > maxMFAText {
		return fault.New(fault.ResourceExhausted, "user has exceeded maximum mfa policies: %d bytes of conditions and notes", maxMFAText)
	}
	u := *old
	u.MFAPolicies, u.UpdatedMs = ps, tx.NowMs
	return tx.PutUser(&u)
}

// UpdateMFAPolicy changes the members of an MFA policy that are set.
type UpdateMFAPolicy struct {
	UserID                        string       `json:"userId" rule:"required,uuid"`
	MFAPolicyID                   string       `json:"mfaPolicyId" rule:"required,uuid"`
	MFAPolicyName                 *string      `json:"mfaPolicyName" rule:"omitempty,label,label_length"`
	Condition                     *string      `json:"condition"`
	RequiredAuthenticationMethods []StepParams `json:"requiredAuthenticationMethods,omitempty"`
	Order                         *uint32      `json:"order"`
	Notes                         *string      `json:"notes"`
}

func (in *UpdateMFAPolicy) Check() error {
	return checkMFA(in.Condition, in.RequiredAuthenticationMethods, in.Notes)
}

func updateMFAPolicy(tx *activity.Tx, in *UpdateMFAPolicy) (*MFAPolicyID, error) {
	u, i, err := findMFAPolicy(tx, in.UserID, in.MFAPolicyID)
	if err != nil {
		return nil, err
	}
	ps := slices.Clone(u.MFAPolicies)
	p := &ps[i]
	p.UpdatedMs = tx.NowMs
	p.Name = cmp.Or(activity.TextOf(in.MFAPolicyName), p.Name)
	if in.Condition != nil {
		p.Condition, p.Compiled = *in.Condition, nil
	}
	if len(in.RequiredAuthenticationMethods) > 0 {
		if p.Required, err = stepsOf(tx, u, in.RequiredAuthenticationMethods); err != nil {
			return nil, err
		}
	}
	activity.Set(&p.Order, in.Order)
	activity.Set(&p.Notes, in.Notes)
	return &MFAPolicyID{in.MFAPolicyID}, putMFAPolicies(tx, u, ps)
}

// findMFAPolicy finds a user and the index of one of his MFA policies.
func findMFAPolicy(tx *activity.Tx, user, text string) (*org.User, int, error) {
	u, err := activity.FindUser(tx, user)
	if err != nil {
		return nil, 0, err
	}
	id, _ := org.ParseID(text) // its rule requires a UUID
	i := slices.IndexFunc(u.MFAPolicies, func(p org.MFAPolicy) bool { return p.ID == id })
	if i < 0 {
		return nil, 0, activity.NotFound("mfa policy", text)
	}
	return u, i, nil
}

// DeleteMFAPolicy removes an MFA policy.
type DeleteMFAPolicy struct {
	UserID      string `json:"userId" rule:"required,uuid"`
	MFAPolicyID string `json:"mfaPolicyId" rule:"required,uuid"`
}

func deleteMFAPolicy(tx *activity.Tx, in *DeleteMFAPolicy) (*MFAPolicyID, error) {
	u, i, err := findMFAPolicy(tx, in.UserID, in.MFAPolicyID)
	if err != nil {
		return nil, err
	}
	return &MFAPolicyID{in.MFAPolicyID}, putMFAPolicies(tx, u, slices.Delete(slices.Clone(u.MFAPolicies), i, i+1))
}
