package outbox

import (
	"context"
	"crypto/sha256"
	"fmt"

	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// A mail to an approver is written when it is due, from the activity's stored entry and the newest state. Its send holds only whom it is
// for. So it goes out only while there is something left to approve, to the address that the user has then.

// Bounds of such a mail.
const (
	mostMailName  = 64   // characters of a name
	mostMailLines = 60   // of what would be signed or changed
	mostMailBytes = 6000 // in these lines
)

// approvalMail is the encoded org.Mail that an approver's mail says now; nil if it is not to go out any more.
func (o *Outbox) approvalMail(ctx context.Context, v *ranges.Access, id org.ID, e *org.Entry, to org.ID) (content []byte, err error) {
	var address string
	var about *login.Approval
	var parent org.ID
	err = v.WithLock(ctx, id, func(t *ledger.Locked) (err error) {
		address, about, parent = "", nil, org.ID{}
		tx := t.Begin(o.nowMs())
		rec, err := tx.Organization()
		if err != nil || rec == nil {
			return err
		}
		if address, about, err = aboutApproval(tx, rec, e, to); about == nil || err != nil {
			return err
		}
		if parent = rec.Parent; parent.Zero() {
			about.Organization, about.URL = rec.Name, rec.Features[org.FeatureApprovalMails]
			err = describe(about, tx, e, o.cfg.Services.Capabilities.Tokens)
		} else {
			err = summarize(about, tx, e, o.cfg.Services.Capabilities.Tokens)
		}
		return err
	})
	if err == nil && about != nil && !parent.Zero() {
		err = v.WithLock(ctx, parent, func(t *ledger.Locked) error {
			rec, err := t.Begin(o.nowMs()).Organization()
			if err == nil && !rec.Deleted {
				about.Organization, about.URL = rec.Name, rec.Features[org.FeatureApprovalMails]
			}
			return err
		})
	}
	if err == nil {
		err = v.Wait(ctx)
	}
	if err != nil || about == nil || about.Organization == "" || o.cfg.Services.Capabilities.Sandbox && login.Sandbox(login.Email, address) {
		return nil, err
	}
	about.Organization = show.Visible(about.Organization, mostMailName)
	if about.URL != "" {
		about.URL += "#/approvals?organization=" + id.String() // so that nobody has to type it to sign in
	}
	c, err := login.ApprovalMail(about)
	if err != nil {
		return nil, err
	}
	m := &org.Mail{To: address, Subject: c.Subject, Text: c.Text, HTML: c.HTML, ID: approvalMailID(id, e, to).String(), SentMs: e.TimeMs}
	return m.Encode()
}

// approvalMailID is the id of an approver's mail, the same in every try.
func approvalMailID(id org.ID, e *org.Entry, to org.ID) (made org.ID) {
	h := sha256.Sum256(fmt.Appendf(nil, "cloister approval mail 1\n%s\n%s\n%d\n%s", id, e.Activity, e.Seq, to))
	copy(made[:], h[:])
	made[6], made[8] = made[6]&0x0f|0x80, made[8]&0x3f|0x80 // a UUID of version 8
	return made
}

// aboutApproval is what a user's mail about a waiting activity says besides what the activity does, with the address that it goes to. It is
// nil if he can do nothing about it any more, or is to get no mail.
func aboutApproval(tx *org.Tx, rec *org.Organization, e *org.Entry, to org.ID) (address string, about *login.Approval, err error) {
	if _, on := rec.Features[org.FeatureApprovalMails]; !on || rec.Deleted {
		return "", nil, nil
	}
	p, err := tx.PendingBy(e.Fingerprint)
	if p == nil || err != nil || p.Activity != e.Activity || p.Status != org.StatusConsensusNeeded || p.Initiator == to || p.VoteOf(to) != nil {
		return "", nil, err
	}
	u, err := tx.User(to)
	if u == nil || err != nil || !CanMail(u, tx.NowMs) {
		return "", nil, err
	}
	by, err := tx.User(p.Initiator)
	if by == nil || err != nil {
		return "", nil, err
	}
	steps := activity.VotableSteps
	approve, _, err := kinds.Live.Votable(tx, rec, e, to, &steps)
	if !approve || err != nil {
		return "", nil, err
	}
	return u.Email, &login.Approval{By: show.Visible(by.Name, mostMailName), Title: kinds.Live.Title(e.Type), UntilMs: p.OpenedMs + org.ApprovalWindowMs}, nil
}

// CanMail reports whether a user who may vote can be told of it: he has an address, and a credential to vote with.
func CanMail(u *org.User, nowMs uint64) bool {
	return u.Email != "" && login.CheckContact("", login.Email, u.Email) == nil && activity.CanStamp(u, nowMs)
}

// summarize writes what an activity of a sub-organization does in the program's own words alone: its title and its warnings. Whatever else
// there is may hold texts of its users, who are end users, and could write to anybody in the parent's name.
func summarize(a *login.Approval, tx *org.Tx, e *org.Entry, tokens *show.Tokens) error {
	a.By = ""
	_, err := decodeFor(a, tx, e, tokens)
	return err
}

// describe writes what an activity does, as its approvers are shown it.
func describe(a *login.Approval, tx *org.Tx, e *org.Entry, tokens *show.Tokens) error {
	d, err := decodeFor(a, tx, e, tokens)
	if d != nil {
		a.Lines, a.More = d.Lines(mostMailLines, mostMailBytes)
	}
	return err
}

const blind = "THIS CANNOT BE READ: approving signs blindly."

// weights are how a mail writes severities.
var weights = map[show.Severity]string{show.Danger: "DANGER: ", show.Warn: "Warning: "}

// decodeFor decodes an activity for its title and its warnings. It is nil if that cannot be, which the mail then says.
func decodeFor(a *login.Approval, tx *org.Tx, e *org.Entry, tokens *show.Tokens) (*show.Document, error) {
	if len(e.Body) > mostDecoded {
		a.Unread = "NOT READ: this is too long to be told in a mail. Do not approve it before you have looked at it in the dashboard."
		return nil, nil
	}
	d, err := kinds.Live.Document(tx, e, tokens)
	if fault.Of(err) != nil {
		a.Unread = blind + " Today's rules refuse it."
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a.Title = d.Title()
	switch d.Readable() {
	case show.None:
		a.Unread = blind
	case show.Partial:
		a.Unread = "Only a part of this can be read."
	}
	for _, w := range d.Warnings() {
		weight := weights[w.Severity]
		if weight == "" {
			weight = "Note: "
		}
		a.Warnings = append(a.Warnings, weight+w.Text)
	}
	return &d, nil
}
