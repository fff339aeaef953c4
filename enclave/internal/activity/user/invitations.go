package user

import (
	"bytes"
	"cmp"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/tag"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Invitations are the kinds that invite people to become users.
var Invitations = activity.Family{
	activity.Kind[CreateInvitations, InvitationIDs]{Name: "CREATE_INVITATIONS", Resource: "INVITATION", Action: "CREATE", Run: createInvitations,
		Explain: func(tx *org.Tx, in *CreateInvitations, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[InvitationID, InvitationID]{Name: "DELETE_INVITATION", Resource: "INVITATION", Action: "DELETE", Run: deleteInvitation,
		Explain: func(tx *org.Tx, in *InvitationID, o *show.Object) error {
			_, err := explainInvitation(tx, o, in.InvitationID)
			return err
		}},
	activity.Kind[AcceptInvitation, AcceptedInvitation]{
		Name: "ACCEPT_INVITATION", Resource: "INVITATION", Action: "UPDATE", Run: acceptInvitation,
		Explain: func(tx *org.Tx, in *AcceptInvitation, o *show.Object) error { return in.explain(tx, o) },
		Older: []activity.Older{activity.Upgrade(func(v *AcceptInvitationV1) AcceptInvitation {
			return AcceptInvitation{v.InvitationID, v.UserID, CarryAuthenticator(&v.Authenticator), !activity.SameID(v.Authenticator.UserID, v.UserID)}
		})},
	},
}

// Statuses of invitations. Closed ones stay until their places are needed.
const (
	invitationCreated  = "INVITATION_STATUS_CREATED"
	invitationAccepted = "INVITATION_STATUS_ACCEPTED"
	invitationRevoked  = "INVITATION_STATUS_REVOKED"
)

const invitationMs = 24 * 60 * 60 * 1000

// InvitationParams is an invitation to be created.
type InvitationParams struct {
	ReceiverUserName  string     `json:"receiverUserName" rule:"required,label_length,label"`
	ReceiverUserEmail string     `json:"receiverUserEmail" rule:"required,email,email_ext"`
	ReceiverUserTags  []string   `json:"receiverUserTags" rule:"dive,uuid"`
	AccessType        AccessType `json:"accessType" rule:"required"`
	SenderUserID      string     `json:"senderUserId" rule:"required,uuid"`
}

// CreateInvitations creates invitations. The sender has to notify the invited people.
type CreateInvitations struct {
	Invitations []InvitationParams `json:"invitations" rule:"required,dive,required"`
}

// InvitationIDs is the result of creating invitations.
type InvitationIDs struct {
	InvitationIDs []string `json:"invitationIds"`
}

func createInvitations(tx *activity.Tx, in *CreateInvitations) (*InvitationIDs, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	o := *old
	if err := dropClosed(tx, &o, len(in.Invitations)); err != nil {
		return nil, err
	}
	r := &InvitationIDs{make([]string, len(in.Invitations))}
	for i := range in.Invitations {
		id, err := addInvitation(tx, i, &in.Invitations[i])
		if err != nil {
			return nil, err
		}
		r.InvitationIDs[i] = id.String()
	}
	o.Invitations += uint32(len(in.Invitations))
	return r, tx.PutOrganization(&o)
}

func addInvitation(tx *activity.Tx, i int, p *InvitationParams) (org.ID, error) {
	sender, err := activity.FindUser(tx, p.SenderUserID)
	if err != nil {
		return org.ID{}, err
	}
	holder, err := tx.IDByName(org.NameUser, p.ReceiverUserName)
	if err != nil {
		return org.ID{}, err
	}
	if !holder.Zero() {
		return org.ID{}, activity.NotUnique("user", activity.FieldAt("invitations", i, "receiverUserName"))
	}
	tags, err := tag.Find(tx, activity.FieldAt("invitations", i, "receiverUserTags"), p.ReceiverUserTags, tag.TypeUser)
	if err != nil {
		return org.ID{}, err
	}
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return org.ID{}, err
	}
	return id, tx.PutInvitation(&org.Invitation{
		ID: id, UserName: p.ReceiverUserName, Email: p.ReceiverUserEmail, Tags: tags, AccessType: string(p.AccessType),
		Status: invitationCreated, Sender: sender.ID, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs,
	})
}

// dropClosed makes n places for new invitations, by removing the oldest that can no longer be accepted. It lowers the
// count of o, which the caller stores.
func dropClosed(tx *activity.Tx, o *org.Organization, n int) error {
	over := int(o.Invitations) + n - tx.Limits.Invitations
	if over <= 0 {
		return nil
	}
	ended, err := activity.Collect(tx.EachInvitation, func(i *org.Invitation) bool { return openInvitation(i, tx.NowMs) != nil })
	switch {
	case err != nil:
		return err
	case over > len(ended):
		return activity.OverQuota(tx.Limits.Invitations, "invitations")
	}
	slices.SortFunc(ended, func(a, b *org.Invitation) int {
		return cmp.Or(cmp.Compare(a.CreatedMs, b.CreatedMs), bytes.Compare(a.ID[:], b.ID[:]))
	})
	for _, i := range ended[:over] {
		tx.DeleteInvitation(i.ID)
	}
	o.Invitations -= uint32(over)
	return nil
}

// DropInvitations removes the invitations that match from tx and from o's count.
func DropInvitations(tx *activity.Tx, o *org.Organization, match func(*org.Invitation) bool) error {
	gone, err := activity.Collect(tx.EachInvitation, match)
	for _, i := range gone {
		tx.DeleteInvitation(i.ID)
	}
	o.Invitations -= uint32(len(gone))
	return err
}

// openInvitation returns an error that says why an invitation cannot be accepted any more, or nil.
func openInvitation(i *org.Invitation, nowMs uint64) error {
	switch {
	case i.Status != invitationCreated:
		return fault.New(fault.InvalidArgument, "invitation is no longer open: %s", i.Status)
	case nowMs >= i.CreatedMs+invitationMs:
		return fault.New(fault.InvalidArgument, "invitation has expired")
	}
	return nil
}

// InvitationID names the invitation to be revoked, and is the result of revoking it.
type InvitationID struct {
	InvitationID string `json:"invitationId" rule:"required,uuid"`
}

func deleteInvitation(tx *activity.Tx, in *InvitationID) (*InvitationID, error) {
	old, err := activity.Find(tx.Invitation, "invitation", in.InvitationID)
	if err != nil {
		return nil, err
	}
	if old.Status != invitationCreated {
		return nil, openInvitation(old, tx.NowMs)
	}
	i := *old
	i.Status, i.UpdatedMs = invitationRevoked, tx.NowMs
	return in, tx.PutInvitation(&i)
}

// AcceptInvitationV1 is version 1 of the intent, with a passkey in the browser's encoding.
type AcceptInvitationV1 struct {
	InvitationID  string                `json:"invitationId" rule:"required,uuid"`
	UserID        string                `json:"userId" rule:"required,uuid"`
	Authenticator AuthenticatorParamsV1 `json:"authenticator" rule:"required"`
}

// AcceptInvitation creates the invited user, with a passkey. The user's id is the invitation's: one chosen by
// the client could be that of a deleted user whom policies still name.
type AcceptInvitation struct {
	InvitationID  string              `json:"invitationId" rule:"required,uuid"`
	UserID        string              `json:"userId" rule:"required,uuid"`
	Authenticator AuthenticatorParams `json:"authenticator" rule:"required"`

	other bool // the passkey of version 1 names another user
}

func (in *AcceptInvitation) Check() error {
	switch {
	case in.UserID != in.InvitationID:
		return fault.Field("userId", "must be the id of the invitation")
	case in.other:
		return fault.Field("authenticator.userId", "must be the user that userId names")
	}
	return checkAuthenticators("", []AuthenticatorParams{in.Authenticator})
}

// AcceptedInvitation is the result of accepting an invitation.
type AcceptedInvitation struct {
	InvitationID string `json:"invitationId"`
	UserID       string `json:"userId"`
}

func acceptInvitation(tx *activity.Tx, in *AcceptInvitation) (*AcceptedInvitation, error) {
	old, err := activity.Find(tx.Invitation, "invitation", in.InvitationID)
	if err != nil {
		return nil, err
	}
	if err := openInvitation(old, tx.NowMs); err != nil {
		return nil, err
	}
	if err := activity.Users.Add(tx, 1); err != nil {
		return nil, err
	}
	u := RootUserParams{UserName: old.UserName, UserEmail: &old.Email, Authenticators: []AuthenticatorParams{in.Authenticator}}
	tags := activity.MapList(old.Tags, func(id *org.ID) string { return id.String() })
	if _, err := CreateAs(tx, old.ID, "", &u, tags...); err != nil {
		return nil, err
	}
	i := *old
	i.Status, i.UpdatedMs = invitationAccepted, tx.NowMs
	return &AcceptedInvitation{in.InvitationID, old.ID.String()}, tx.PutInvitation(&i)
}
