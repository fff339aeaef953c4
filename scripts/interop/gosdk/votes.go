package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-openapi/runtime"
	"github.com/tkhq/go-sdk/pkg/api/client/consensus"
	"github.com/tkhq/go-sdk/pkg/api/client/organizations"
	"github.com/tkhq/go-sdk/pkg/api/client/policies"
	"github.com/tkhq/go-sdk/pkg/api/client/signing"
	"github.com/tkhq/go-sdk/pkg/api/client/users"
	"github.com/tkhq/go-sdk/pkg/api/models"
	"github.com/tkhq/go-sdk/pkg/apikey"
	"github.com/tkhq/go-sdk/pkg/util"
)

// voters is an organization of three root users and three others. Each holds one API key; all three schemes are among them.
type voters struct {
	root, others []*session
	ids          []string // root users, then the others
	account      account
}

func apiKeyParams(k *apikey.Key) []*models.APIKeyParamsV2 {
	name, public := "go "+k.Scheme, k.TkPublicKey
	return []*models.APIKeyParamsV2{{APIKeyName: &name, PublicKey: &public, CurveType: curveOf(k)}}
}

// refusedAs tells whether err is the SDK's error with this status.
func refusedAs(status int, err error) error {
	var refused *runtime.APIError
	if !errors.As(err, &refused) || refused.Code != status {
		return fmt.Errorf("%v, status %d expected", err, status)
	}
	return nil
}

func (p *place) makeVoters(root *session) (*voters, error) {
	v := new(voters)
	rootKeys, err := newKeys(*root.org)
	if err != nil {
		return nil, err
	}
	otherKeys, err := newKeys(*root.org)
	if err != nil {
		return nil, err
	}
	var rootUsers []*models.RootUserParamsV4
	for i, k := range rootKeys {
		name := fmt.Sprintf("root %d", i)
		rootUsers = append(rootUsers, &models.RootUserParamsV4{UserName: &name, APIKeys: apiKeyParams(k),
			Authenticators: []*models.AuthenticatorParamsV2{}, OauthProviders: []*models.OauthProviderParams{}})
	}
	name, wallet, one := "Go voters", "Shared", int32(1)
	made, err := root.api.Organizations.CreateSubOrganization(organizations.NewCreateSubOrganizationParams().WithBody(&models.CreateSubOrganizationRequest{
		OrganizationID: root.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeCreateSubOrganizationV7),
		Parameters: &models.CreateSubOrganizationIntentV7{SubOrganizationName: &name, RootUsers: rootUsers, RootQuorumThreshold: &one,
			Wallet: &models.WalletParams{WalletName: &wallet, Accounts: accountParams(1)}},
	}), root.auth)
	if err != nil {
		return nil, err
	}
	result := made.Payload.Activity.Result.CreateSubOrganizationResultV7
	v.ids = result.RootUserIds
	v.account = account{Curve: wanted[0].curve, SignWith: result.Wallet.Addresses[0]}
	in := func(k *apikey.Key) *session {
		s := p.session(k)
		s.org = result.SubOrganizationID
		return s
	}
	for _, k := range rootKeys {
		v.root = append(v.root, in(k))
	}
	var params []*models.UserParamsV3
	for i, k := range otherKeys {
		name := fmt.Sprintf("other %d", i)
		params = append(params, &models.UserParamsV3{UserName: &name, APIKeys: apiKeyParams(k), Authenticators: []*models.AuthenticatorParamsV2{},
			OauthProviders: []*models.OauthProviderParams{}, UserTags: []string{}})
		v.others = append(v.others, in(k))
	}
	created, err := v.root[0].api.Users.CreateUsers(users.NewCreateUsersParams().WithBody(&models.CreateUsersRequest{
		OrganizationID: v.root[0].org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeCreateUsersV3),
		Parameters: &models.CreateUsersIntentV3{Users: params},
	}), v.root[0].auth)
	if err != nil {
		return nil, err
	}
	v.ids = append(v.ids, created.Payload.Activity.Result.CreateUsersResult.UserIds...)
	return v, nil
}

func (s *session) createPolicy(name string, effect models.Effect, consensus, condition string) error {
	notes := ""
	_, err := s.api.Policies.CreatePolicy(policies.NewCreatePolicyParams().WithBody(&models.CreatePolicyRequest{
		OrganizationID: s.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeCreatePolicyV3),
		Parameters: &models.CreatePolicyIntentV3{PolicyName: &name, Effect: effect.Pointer(), Consensus: &consensus, Condition: &condition, Notes: &notes},
	}), s.auth)
	return err
}

// raw asks for a signature and answers the activity as it is.
func (s *session) raw(body *models.SignRawPayloadRequest) (*models.Activity, error) {
	got, err := s.api.Signing.SignRawPayload(signing.NewSignRawPayloadParams().WithBody(body), s.auth)
	if err != nil {
		return nil, err
	}
	return got.Payload.Activity, nil
}

func (s *session) rawBody(with string, what payload) *models.SignRawPayloadRequest {
	return &models.SignRawPayloadRequest{
		OrganizationID: s.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeSignRawPayloadV2),
		Parameters: &models.SignRawPayloadIntentV2{SignWith: &with, Payload: &what.text, Encoding: what.encoding.Pointer(), HashFunction: what.hash.Pointer()},
	}
}

func (s *session) approve(a *models.Activity) (*models.Activity, error) {
	got, err := s.api.Consensus.ApproveActivity(consensus.NewApproveActivityParams().WithBody(&models.ApproveActivityRequest{
		OrganizationID: s.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeApproveActivity),
		Parameters: &models.ApproveActivityIntent{Fingerprint: a.Fingerprint},
	}), s.auth)
	if err != nil {
		return nil, err
	}
	return got.Payload.Activity, nil
}

func (s *session) reject(a *models.Activity) (*models.Activity, error) {
	got, err := s.api.Consensus.RejectActivity(consensus.NewRejectActivityParams().WithBody(&models.RejectActivityRequest{
		OrganizationID: s.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeRejectActivity),
		Parameters: &models.RejectActivityIntent{Fingerprint: a.Fingerprint},
	}), s.auth)
	if err != nil {
		return nil, err
	}
	return got.Payload.Activity, nil
}

func (s *session) updateQuorum(threshold int32, ids ...string) (*models.Activity, error) {
	got, err := s.api.Organizations.UpdateRootQuorum(organizations.NewUpdateRootQuorumParams().WithBody(&models.UpdateRootQuorumRequest{
		OrganizationID: s.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeUpdateRootQuorum),
		Parameters: &models.UpdateRootQuorumIntent{Threshold: &threshold, UserIds: ids},
	}), s.auth)
	if err != nil {
		return nil, err
	}
	return got.Payload.Activity, nil
}

func (s *session) deleteUser(id string) error {
	_, err := s.api.Users.DeleteUsers(users.NewDeleteUsersParams().WithBody(&models.DeleteUsersRequest{
		OrganizationID: s.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeDeleteUsers),
		Parameters: &models.DeleteUsersIntent{UserIds: []string{id}},
	}), s.auth)
	return err
}

// in holds an answer against a status.
func in(want models.ActivityStatus) func(*models.Activity, error) error {
	return func(a *models.Activity, err error) error {
		if err == nil && *a.Status != want {
			err = fmt.Errorf("%s, %s expected", *a.Status, want)
		}
		return err
	}
}

// checkVotes lets policies and the root quorum decide: two approvers, denials, changes of the quorum.
func (p *place) checkVotes(root *session) error {
	v, err := p.makeVoters(root)
	if err != nil {
		return fmt.Errorf("an organization of voters: %w", err)
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"two approvers", v.twoApprovers},
		{"deny beats allow", v.denyBeatsAllow},
		{"the root quorum", v.quorum},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

var pending, completed, ended = in(models.ActivityStatusConsensusNeeded), in(models.ActivityStatusCompleted), in(models.ActivityStatusRejected)

func (v *voters) twoApprovers() error {
	what := payloadsOf(v.account.Curve)[0]
	alice, bob, carol := v.others[0], v.others[1], v.others[2]
	if _, err := alice.raw(alice.rawBody(v.account.SignWith, what)); refusedAs(403, err) != nil {
		return fmt.Errorf("without a policy: %w", refusedAs(403, err))
	}
	both := fmt.Sprintf("approvers.any(u, u.id == '%s') && approvers.any(u, u.id == '%s')", v.ids[3], v.ids[4])
	if err := v.root[0].createPolicy("two sign", models.EffectAllow, both, "activity.action == 'SIGN'"); err != nil {
		return err
	}
	if err := refusedAs(400, v.root[0].createPolicy("two sign", models.EffectAllow, both, "true")); err != nil {
		return fmt.Errorf("one name twice: %w", err)
	}
	body := alice.rawBody(v.account.SignWith, what)
	first, err := alice.raw(body)
	if err := pending(first, err); err != nil {
		return err
	}
	if _, err := carol.approve(first); refusedAs(403, err) != nil {
		return fmt.Errorf("a vote of somebody else: %w", refusedAs(403, err))
	}
	done, err := bob.approve(first)
	if err := completed(done, err); err != nil {
		return err
	}
	signed := done.Result.SignRawPayloadResult
	if *done.ID != *first.ID || signed == nil || len(done.Votes) != 2 {
		return fmt.Errorf("an approval answers %s with %d votes", *done.ID, len(done.Votes))
	}
	again, err := alice.raw(body) // the SDK writes the same bytes
	if err := completed(again, err); err != nil {
		return err
	}
	if r := again.Result.SignRawPayloadResult; *again.ID != *first.ID || *r.R != *signed.R || *r.S != *signed.S {
		return fmt.Errorf("the same bytes again: activity %s", *again.ID)
	}
	if _, err := bob.approve(first); refusedAs(400, err) != nil {
		return fmt.Errorf("a vote after the end: %w", refusedAs(400, err))
	}
	// Bob's no leaves the root quorum, the initiator's leaves nothing.
	a, err := alice.raw(alice.rawBody(v.account.SignWith, what))
	if err := pending(a, err); err != nil {
		return err
	}
	if err := pending(bob.reject(a)); err != nil {
		return err
	}
	return ended(alice.reject(a))
}

func (v *voters) denyBeatsAllow() error {
	what := payloadsOf(v.account.Curve)[0]
	if err := v.root[0].createPolicy("nobody signs", models.EffectDeny, "", "activity.action == 'SIGN'"); err != nil {
		return err
	}
	alice := v.others[0]
	body := alice.rawBody(v.account.SignWith, what)
	for range 2 {
		if _, err := alice.raw(body); refusedAs(403, err) != nil {
			return refusedAs(403, err)
		}
	}
	// The root quorum asks no policy.
	return completed(v.root[0].raw(v.root[0].rawBody(v.account.SignWith, what)))
}

func (v *voters) quorum() error {
	owner, second, third := v.root[0], v.root[1], v.root[2]
	if err := completed(owner.updateQuorum(2, v.ids[:3]...)); err != nil {
		return err
	}
	if _, err := v.others[0].updateQuorum(1, v.ids[3]); refusedAs(403, err) != nil {
		return fmt.Errorf("by one who is no member: %w", refusedAs(403, err))
	}
	lost, err := owner.updateQuorum(1, v.ids[0])
	if err := pending(lost, err); err != nil {
		return err
	}
	if err := pending(second.reject(lost)); err != nil {
		return err
	}
	if err := ended(third.reject(lost)); err != nil {
		return err
	}
	change, err := owner.updateQuorum(1, v.ids[0])
	if err := pending(change, err); err != nil {
		return err
	}
	if err := pending(second.reject(change)); err != nil {
		return err
	}
	if err := completed(third.approve(change)); err != nil {
		return err
	}
	got, err := owner.api.Organizations.GetOrganizationConfigs(organizations.NewGetOrganizationConfigsParams().WithBody(
		&models.GetOrganizationConfigsRequest{OrganizationID: owner.org}), owner.auth)
	if err != nil {
		return err
	}
	if q := got.Payload.Configs.Quorum; *q.Threshold != 1 || !slices.Equal(q.UserIds, v.ids[:1]) {
		return fmt.Errorf("root quorum %d of %v", *q.Threshold, q.UserIds)
	}
	if err := refusedAs(400, owner.deleteUser(v.ids[0])); err != nil {
		return fmt.Errorf("removing the last root user: %w", err)
	}
	return owner.deleteUser(v.ids[1])
}
