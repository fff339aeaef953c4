package activity

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/stamp"
)

// parseFingerprint parses the output of AppendFingerprint, with digits of either case.
func parseFingerprint(text string) (h org.Hash, ok bool) {
	digits, found := strings.CutPrefix(text, "sha256:")
	if !found || len(digits) != 2*len(h) {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(digits))
	return h, err == nil
}

// Target returns the fingerprint that a vote's intent names.
func (in *Intent) Target() org.Hash {
	v, ok := in.newest.(interface{ target() org.Hash })
	if !ok {
		return org.Hash{}
	}
	return v.target()
}

// PolicyRequest builds the request to the policy engine about an activity that initiator submitted. The caller adds
// votes and the scopes of the voters. If the root quorum alone decides (rootQuorumOnly), Params and Facts are
// left out; Keys are not. A *fault.Error refuses the request, whoever submits it.
func (v *Version) PolicyRequest(tx *org.Tx, in *Intent, activity, initiator org.ID, rootQuorumOnly bool) (policy.Request, error) {
	k := v.Kind
	r := policy.Request{
		Organization: tx.ID, Activity: activity, Type: v.Type, Kind: k.Name, Resource: k.Resource, Action: k.Action,
		RootQuorum: k.RootQuorum, Initiator: initiator, NowMs: tx.NowMs, Pause: tx,
	}
	err := v.fillPolicyRequest(tx, in.newest, &r, rootQuorumOnly)
	return r, err
}

// PolicyState is the state from which policies decide: the newest records of organization o. It is valid as long as tx is.
func PolicyState(tx *org.Tx, o *org.Organization) policy.State {
	s := policy.State{Threshold: o.Threshold, RootUsers: MapList(o.RootUsers, rawID)}
	var us []policy.User
	s.Users = func() ([]policy.User, error) {
		if us != nil {
			return us, nil
		}
		err := tx.EachUser(func(u *org.User) bool {
			us = append(us, policyUser(u, tx.NowMs))
			return true
		})
		return us, err
	}
	s.Policies = func() (*policy.Set, error) {
		if set, ok := tx.PolicySet().(*policy.Set); ok {
			return set, nil
		}
		ps, err := compiledPolicies(tx)
		if err != nil {
			return nil, err
		}
		set := policy.NewSet(ps)
		tx.KeepPolicySet(set)
		return set, nil
	}
	return s
}

func rawID(id *org.ID) [16]byte { return *id }

func policyUser(u *org.User, nowMs uint64) policy.User {
	p := policy.User{ID: u.ID, Name: u.Name, Email: u.Email, Tags: MapList(u.Tags, rawID)}
	for i := range u.APIKeys {
		if k := &u.APIKeys[i]; !k.Expired(nowMs) {
			p.Credentials = append(p.Credentials, PolicyCredential(u.ID, APIKeyCredential(k)))
		}
	}
	for i := range u.Authenticators {
		p.Credentials = append(p.Credentials, PolicyCredential(u.ID, PasskeyCredential(&u.Authenticators[i])))
	}
	return p
}

// CanStamp reports whether u has an active credential.
func CanStamp(u *org.User, nowMs uint64) bool {
	return len(u.Authenticators) > 0 || slices.ContainsFunc(u.APIKeys, func(k org.APIKey) bool { return !k.Expired(nowMs) })
}

// APIKeyCredential is an API or session key as policies and votes see it.
func APIKeyCredential(k *org.APIKey) org.VoteCredential {
	return org.VoteCredential{ID: k.ID, Type: k.Type, PublicKey: k.PublicKey, Profile: k.Profile}
}

const typePasskey = "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR"

// PasskeyCredential is a passkey as policies and votes see it.
func PasskeyCredential(a *org.Authenticator) org.VoteCredential {
	return org.VoteCredential{
		ID: a.ID, Type: typePasskey, PublicKey: hex.EncodeToString(a.PublicKey),
		CredentialID: base64.RawURLEncoding.EncodeToString(a.CredentialID),
	}
}

// PolicyCredential converts a user's credential to package policy's type.
func PolicyCredential(user org.ID, c org.VoteCredential) policy.Credential {
	return policy.Credential{ID: c.ID, User: user, Type: c.Type, CredentialID: c.CredentialID, PublicKey: c.PublicKey}
}

// hasCredential reports whether u still has a credential with which he voted: an API key until it is deleted or expires,
// a passkey, an identity or a contact until it is removed. A session key counts even after the session has expired,
// as votes wait for others longer than sessions last; it no longer counts once the session was ended.
func hasCredential(u *org.User, c *org.VoteCredential, nowMs uint64) bool {
	switch c.Type {
	case typePasskey:
		return slices.ContainsFunc(u.Authenticators, func(a org.Authenticator) bool { return a.ID == c.ID })
	case typeIdentity:
		return slices.ContainsFunc(u.OauthProviders, func(p org.OauthProvider) bool { return p.ID == c.ID })
	case TypeMailbox:
		return contactID(login.Email, u.Email) == c.ID
	case TypePhone:
		return contactID(login.SMS, u.Phone) == c.ID
	}
	return slices.ContainsFunc(u.APIKeys, func(k org.APIKey) bool {
		if k.IsSession() { // a renewed session has another id
			return k.Type == c.Type && k.PublicKey == c.PublicKey && k.Profile == c.Profile
		}
		return k.ID == c.ID && !k.Expired(nowMs)
	})
}

// ActiveCredentials returns the credentials of u's approval v that u still has.
func ActiveCredentials(u *org.User, v *org.PendingVote, nowMs uint64) []org.VoteCredential {
	lost := func(c org.VoteCredential) bool { return !hasCredential(u, &c, nowMs) }
	if !slices.ContainsFunc(v.Credentials, lost) { // the usual case
		return v.Credentials
	}
	return slices.DeleteFunc(slices.Clone(v.Credentials), lost)
}

// IsVoid reports whether v is an approval by u who has none of its credentials any more. Like one that has lapsed,
// it does not count and is not shown. A rejection stays: it starts nothing.
func IsVoid(u *org.User, v *org.PendingVote, nowMs uint64) bool {
	return !v.Rejected && len(v.Credentials) > 0 && len(ActiveCredentials(u, v, nowMs)) == 0
}

// IsApproval reports whether v is an approval by u that counts at nowMs, MFA policies aside.
func IsApproval(p *org.Pending, u *org.User, v *org.PendingVote, nowMs uint64) bool {
	return p.Live(v, nowMs) && !IsVoid(u, v, nowMs)
}

// CountVotes fills in the approvals and rejections that count. An approval counts until it lapses, if its user
// still has a credential of it and meets with those every MFA policy that applies. missingMFA is the MFA policy
// that the initiator still has to meet, if any. Evaluating MFA policies consumes steps, for each voter at most
// his share of the budget; when either is used up, the first policy not known to be inapplicable applies.
func CountVotes(tx *org.Tx, p *org.Pending, q *policy.Request, budget int, steps *int) (missingMFA *org.MFAPolicy, err error) {
	q.Approvals, q.Rejections = nil, nil
	share := VoterSteps(budget, p)
	for i := range p.Votes {
		v := &p.Votes[i]
		u, err := tx.User(v.User)
		if err != nil {
			return nil, err
		}
		switch {
		case u == nil: // the user is deleted, and so is the vote
			continue
		case v.Rejected:
			q.Rejections = append(q.Rejections, v.User)
			continue
		case !IsApproval(p, u, v, tx.NowMs):
			continue
		}
		active := ActiveCredentials(u, v, tx.NowMs)
		left := min(share, max(*steps, 0))
		before := left
		m := UnmetMFA(u, q, active, &left)
		*steps -= before - left
		if m != nil {
			if v.User == p.Initiator {
				missingMFA = m
			}
			continue
		}
		q.Approvals = append(q.Approvals, Approval(v.User, active))
	}
	return missingMFA, nil
}

// VoterSteps is the part of a budget that each voter's MFA policies may consume. All voters together get a quarter, as
// votes are counted twice, and no voter's MFA policies may use up the steps that policies need.
func VoterSteps(budget int, p *org.Pending) int { return max(budget, 0) / 4 / max(len(p.Votes), 1) }

// Approval makes a policy.Approval of a user's approval with these credentials.
func Approval(user org.ID, cs []org.VoteCredential) policy.Approval {
	credential := func(c *org.VoteCredential) policy.Credential { return PolicyCredential(user, *c) }
	return policy.Approval{User: user, Credentials: MapList(cs, credential)}
}

// ApprovalByAll makes a policy.Approval of a user who approves with every credential that he has.
func ApprovalByAll(u *org.User, nowMs uint64) policy.Approval {
	return policy.Approval{User: u.ID, Credentials: policyUser(u, nowMs).Credentials}
}

// VotableSteps bounds the policy steps that Votable may consume for one reply.
const VotableSteps = 2_000_000

// stepsPerByte is the cost of decoding a byte of a body again. A body of usual size costs less than a hundredth of the smallest budget.
const stepsPerByte = 2

// Votable reports whether a user of organization o may approve or reject the activity whose newest entry is e,
// and has not cast that vote already. The root quorum may, the submitter may, and every user whom today's policies
// count, which are evaluated as long as steps remain.
func (t Table) Votable(tx *org.Tx, o *org.Organization, e *org.Entry, user org.ID, steps *int) (approve, reject bool, err error) {
	may := o.Root(user)
	approve, reject = true, true
	for i := range e.Votes {
		if v := &e.Votes[i]; v.User == user {
			approve, reject = v.Rejected, !v.Rejected
		}
	}
	if may && e.Status.Terminal() {
		return approve, reject, nil
	}
	var p *org.Pending
	if !e.Status.Terminal() {
		if p, err = tx.PendingBy(e.Fingerprint); p == nil || err != nil {
			return false, false, err
		}
	} else if p = (&org.Pending{}); len(e.Votes) > 0 {
		// The flags ignore the status: evaluate as if the activity waited with its votes.
		p.Initiator, p.OpenedMs = e.Initiator, tx.NowMs
		for i := range e.Votes {
			p.Votes = append(p.Votes, org.PendingVote{User: e.Votes[i].User, Rejected: e.Votes[i].Rejected, CreatedMs: tx.NowMs})
		}
	}
	for i := range p.Votes {
		if v := &p.Votes[i]; v.User == user && !v.Rejected {
			u, err := tx.User(user)
			if err != nil {
				return false, false, err
			}
			approve = u == nil || !IsApproval(p, u, v, tx.NowMs)
		}
	}
	if !may && p.Initiator != user {
		may, err = t.mayVote(tx, o, e, p, user, steps)
	} else {
		may = true
	}
	return may && approve, may && reject, err
}

func (t Table) mayVote(tx *org.Tx, o *org.Organization, e *org.Entry, p *org.Pending, user org.ID, steps *int) (bool, error) {
	if *steps <= 0 {
		return false, nil
	}
	// Decoding the body again costs steps too: lists decode many.
	if *steps -= min(*steps, stepsPerByte*len(e.Body)); *steps <= 0 {
		return false, nil
	}
	q, err := t.PolicyRequestOf(tx, e, p.Initiator)
	if fault.Of(err) != nil {
		return false, nil // an old body that today's rules refuse: only the root quorum can end the activity
	}
	if err != nil {
		return false, err
	}
	if _, err := CountVotes(tx, p, &q, *steps, steps); err != nil || *steps <= 0 {
		return false, err
	}
	s := PolicyState(tx, o)
	s.Steps = steps
	return policy.MayVote(s, q, user)
}

// PolicyRequestOf is the PolicyRequest of an activity by its newest entry.
func (t Table) PolicyRequestOf(tx *org.Tx, e *org.Entry, initiator org.ID) (policy.Request, error) {
	_, v, in, err := t.Reread(e)
	if err != nil {
		return policy.Request{}, err
	}
	return v.PolicyRequest(tx, in, e.Activity, initiator, false)
}

// Reread decodes the body of an activity's entry again. A *fault.Error reports that today's rules refuse an old body.
func (t Table) Reread(e *org.Entry) (*Submit, *Version, *Intent, error) {
	sub, err := ParseStored(stamp.StoredBody(e.Body))
	if err != nil {
		return nil, nil, nil, err
	}
	v, err := t.Lookup(OpOf(e.Type), e.Type)
	if err != nil {
		return nil, nil, nil, err
	}
	in, err := v.Decode(sub.Parameters)
	return sub, v, in, err
}

// EnforcedMFA returns the MFA policies of a user that apply to a request: for each payload the first whose condition
// holds. A condition that fails, or exceeds the remaining steps, counts as holding.
func EnforcedMFA(u *org.User, r *policy.Request, steps *int) []*org.MFAPolicy {
	var out []*org.MFAPolicy
	if len(u.MFAPolicies) == 0 {
		return nil
	}
	// Each payload costs at least one step.
	if *steps -= len(r.Payloads); *steps <= 0 {
		*steps = 0
		return append(out, &u.MFAPolicies[0])
	}
	for _, each := range r.Each() {
		if m := findEnforced(u, &each, steps); m != nil && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

func findEnforced(u *org.User, r *policy.Request, left *int) *org.MFAPolicy {
	for i := range u.MFAPolicies {
		m := &u.MFAPolicies[i]
		if m.Compiled == nil {
			m.Compiled, _ = policy.Compile(policy.ClauseCondition, m.Condition)
		}
		p, _ := m.Compiled.(*policy.Program)
		if p == nil {
			return m
		}
		if yes, err := p.HoldsWithin(r, left); err != nil || yes {
			return m
		}
	}
	return nil
}

// UnmetMFA returns the first of a user's MFA policies that applies to a request and that credentials do not satisfy, or nil.
func UnmetMFA(u *org.User, r *policy.Request, cs []org.VoteCredential, steps *int) *org.MFAPolicy {
	for _, m := range EnforcedMFA(u, r, steps) {
		if !Satisfies(m, cs) {
			return m
		}
	}
	return nil
}

// Satisfies reports whether the credentials of a user's approval satisfy an MFA policy: a different one for each step.
func Satisfies(m *org.MFAPolicy, cs []org.VoteCredential) bool {
	taken := make([]int, len(cs)) // the step that each credential satisfies, from 1
	for i := range m.Required {
		if !assignCredential(m, cs, taken, i, make([]bool, len(cs))) {
			return false
		}
	}
	return true
}

// assignCredential finds a credential for a step, reassigning those of other steps where needed.
func assignCredential(m *org.MFAPolicy, cs []org.VoteCredential, taken []int, step int, tried []bool) bool {
	for c := range cs {
		passes := slices.ContainsFunc(m.Required[step].Any, func(f org.Factor) bool { return MeetsFactor(&f, cs[c:c+1]) })
		if !passes || tried[c] {
			continue
		}
		tried[c] = true
		if taken[c] == 0 || assignCredential(m, cs, taken, taken[c]-1, tried) {
			taken[c] = step + 1
			return true
		}
	}
	return false
}

// FactorsMet lists the factors of an MFA policy's steps that credentials proved.
func FactorsMet(m *org.MFAPolicy, cs []org.VoteCredential) []org.Factor {
	var out []org.Factor
	for i := range m.Required {
		for j := range m.Required[i].Any {
			if f := &m.Required[i].Any[j]; MeetsFactor(f, cs) {
				out = append(out, *f)
			}
		}
	}
	return out
}

// typeIdentity is the credential type of an identity at an OpenID provider. It stamps only through a token, so the
// interface has no name for it.
const typeIdentity = "CREDENTIAL_TYPE_OAUTH_IDENTITY"

// Credential types of contacts. They stamp only through a verification token.
const (
	TypeMailbox = "CREDENTIAL_TYPE_EMAIL_CONTACT"
	TypePhone   = "CREDENTIAL_TYPE_SMS_CONTACT"
)

// factorTypes maps credential types to the factors that they prove. A session does not prove the factor that created it.
var factorTypes = map[string]string{
	typePasskey:                         "AUTHENTICATION_TYPE_PASSKEY",
	"CREDENTIAL_TYPE_API_KEY_P256":      "AUTHENTICATION_TYPE_API_KEY",
	"CREDENTIAL_TYPE_API_KEY_SECP256K1": "AUTHENTICATION_TYPE_API_KEY",
	"CREDENTIAL_TYPE_API_KEY_ED25519":   "AUTHENTICATION_TYPE_API_KEY",
	"CREDENTIAL_TYPE_LOGIN":             "AUTHENTICATION_TYPE_SESSION",
	typeIdentity:                        "AUTHENTICATION_TYPE_OAUTH",
	TypeMailbox:                         "AUTHENTICATION_TYPE_EMAIL_OTP",
	TypePhone:                           "AUTHENTICATION_TYPE_SMS_OTP",
}

// MeetsFactor reports whether one of the credentials proves f.
func MeetsFactor(f *org.Factor, cs []org.VoteCredential) bool {
	for i := range cs {
		c := &cs[i]
		if factorTypes[c.Type] != f.Type {
			continue
		}
		id := c.ID
		if f.Type == "AUTHENTICATION_TYPE_SESSION" {
			id = c.Profile
		}
		if f.ID == nil || *f.ID == id {
			return true
		}
	}
	return false
}

// IdentityCredential is an identity as policies and votes see it, after its user has presented a token of the issuer.
func IdentityCredential(p *org.OauthProvider) org.VoteCredential {
	return org.VoteCredential{ID: p.ID, Type: typeIdentity}
}

// ContactCredential is a contact as policies and votes see it, after its user has presented a verification token.
func ContactCredential(t *login.VerificationToken) org.VoteCredential {
	c := org.VoteCredential{ID: contactID(t.Type, t.Contact), Type: TypeMailbox}
	if t.Type.IsPhone() {
		c.Type = TypePhone
	}
	return c
}

// contactID is the credential id of a contact.
func contactID(t login.ContactType, contact string) org.ID {
	h := sha256.Sum256([]byte(string(t.Address()) + "\x00" + login.ContactKey(t, contact)))
	return org.ID(h[:16])
}
