package core

import (
	"bytes"
	"crypto/sha256"

	"cloister/enclave/core/internal/outbox"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/shared/pace"
)

// When an activity begins to wait for approvals, its entry gets a send for each user who can give one, if the organization has the feature.
// The mail itself is written when it goes out: see package outbox. Beyond a limit mails are left out; the activity is never refused for them.

// maxApprovalMails bounds the mails about one activity.
const maxApprovalMails = 20

// mailApprovers adds to the entry the mails to those who can approve the activity: members of the root quorum first, then users whom
// policies count, which takes policy steps that the request has left. An activity that needed another factor of its initiator comes here
// with the vote that proves it: before that, nobody else could approve it.
func (s *attempt) mailApprovers() error {
	if _, on := s.organization.Features[org.FeatureApprovalMails]; !on || s.authority != s.tx || !s.request.core.serving.providers.Capabilities.Mail {
		return nil
	}
	if s.previous != nil && s.previous.Status == org.StatusConsensusNeeded {
		return nil // it has been waiting
	}
	for _, id := range s.organization.RootUsers {
		u, err := s.tx.User(id)
		if err != nil {
			return err
		}
		if err := s.mailApprover(u); err != nil {
			return err
		}
	}
	return s.mailCounted()
}

// mailCounted mails users outside of the root quorum whom policies count.
func (s *attempt) mailCounted() (err error) {
	state, q := s.policyState(), s.policyRequest
	q.Scope = nil // it holds, or the activity would not wait
	eerr := s.tx.EachUser(func(u *org.User) bool {
		s.policySteps--
		if s.policySteps <= 0 || len(s.mailed) >= maxApprovalMails {
			return false
		}
		if s.organization.Root(u.ID) || !s.canMail(u) {
			return true
		}
		var counts bool
		if counts, err = policy.Counts(state, q, u.ID); counts && err == nil {
			err = s.mailApprover(u)
		}
		return err == nil
	})
	if err == nil {
		err = eerr
	}
	return err
}

// canMail reports whether a user has yet to vote, and can be told so.
func (s *attempt) canMail(u *org.User) bool {
	return u != nil && u.ID != s.pending.Initiator && s.pending.VoteOf(u.ID) == nil && outbox.CanMail(u, s.tx.NowMs)
}

// mailApprover adds a mail to one user, if he can get one and the limits allow it.
func (s *attempt) mailApprover(u *org.User) error {
	if len(s.mailed) >= maxApprovalMails || !s.canMail(u) {
		return nil
	}
	contact := contactOf{s.organization.Tenant(), sha256.Sum256([]byte(login.ContactKey(login.Email, u.Email)))}
	if !s.request.call.mayMailApprover(s.organization.ID, s.mailed, contact) {
		return nil
	}
	content, err := (&org.ApprovalMail{User: u.ID}).Encode()
	if err != nil {
		return err
	}
	s.mailed = append(s.mailed, contact)
	s.entry.Sends = append(s.entry.Sends, org.Send{Kind: org.SendMail, DueMs: s.tx.NowMs, ExpiresMs: s.tx.NowMs + org.ApprovalWindowMs, Content: content})
	return nil
}

// mayMailApprover reports whether one more mail to an approver, after those of this activity, is within the limits: of the payer's account
// for mails, of the organization, and of the contact, to which all organizations of a tenant may send. The limit of passcodes to a contact
// is another: otherwise whoever may submit activities could keep an approver from logging in.
func (v *callState) mayMailApprover(organization org.ID, before []contactOf, contact contactOf) bool {
	p, m, now := v.rate.whoPays(), v.core.meter(), v.core.cfg.Clock.Now()
	same := int64(1)
	for _, c := range before {
		if c == contact {
			same++
		}
	}
	all := int64(len(before) + 1)
	return p.Organization != nil && !m.accounts[mails].hasLess(p, all*pace.Unit, now).Refused &&
		!m.approvalMails.HasLess(organization, all*pace.Unit, now).Refused && !m.approvers.HasLess(contact, same*pace.Unit, now).Refused
}

// chargeApprovalMails charges the mails of a decided activity to their own limits. chargeSends charges the account.
func (v *callState) chargeApprovalMails(organization org.ID, contacts []contactOf) {
	m, now := v.core.meter(), v.core.cfg.Clock.Now()
	for _, c := range contacts {
		m.approvalMails.Charge(organization, pace.Unit, now)
		m.approvers.Charge(c, pace.Unit, now)
	}
}

// withRecordedMails are the sends that a replay computes, without those mails to approvers that are not recorded: how many there are depends
// on limits in memory, which are in no history. A recorded one must be among the computed ones, in their order.
func withRecordedMails(computed, recorded []org.Send) (kept []org.Send) {
	for _, c := range computed {
		_, err := org.DecodeApprovalMail(c.Content)
		at := len(kept)
		if c.Kind != org.SendMail || err != nil || at < len(recorded) && bytes.Equal(recorded[at].Content, c.Content) {
			kept = append(kept, c)
		}
	}
	return kept
}
