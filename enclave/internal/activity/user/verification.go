package user

import (
	"crypto/sha256"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// FeatureAuthProxy is the feature of an organization with an auth proxy.
const FeatureAuthProxy = "FEATURE_NAME_AUTH_PROXY"

// Lifetimes of verification tokens in seconds.
const (
	UsualTokenSeconds = 60 * 60
	MaxTokenSeconds   = 24 * 60 * 60
)

// IssueVerification issues a verification token for the contact of a passcode.
func IssueVerification(tx *activity.Tx, p *org.Passcode, bound string, seconds uint64, legacy bool) (string, error) {
	if err := tx.SweepVerifications(); err != nil {
		return "", err
	}
	id, err := org.NewTimedID(tx.Rand, tx.NowMs)
	if err != nil {
		return "", err
	}
	v := &org.Verification{ID: id, ExpiresMs: tx.NowMs + 1000*seconds, Boot: tx.Boot, Profile: tx.Stamped.Profile}
	if err := tx.PutVerification(v); err != nil {
		return "", err
	}
	by := tx.Tokens
	if legacy {
		by = tx.LegacyTokens
	}
	return login.IssueVerificationToken(by, &login.VerificationToken{
		ID: id.String(), OrganizationID: tx.ID.String(), Type: login.ContactType(p.Type), Contact: p.Contact, PublicKey: bound, ExpiresMs: v.ExpiresMs, Legacy: legacy,
	})
}

// UseVerification spends a verification token for an activity: it parses a token of the organization or its parent, has
// prove check that the request may use it, and spends it for a usage.
func UseVerification(tx *activity.Tx, text string, usage org.Usage, prove func(*login.UnprovenToken) (*login.VerificationToken, error)) (*login.VerificationToken, error) {
	const field = "verificationToken"
	u, err := login.ReadVerificationToken(field, text, login.TokenKeys{Token: tx.Tokens.Public(), Legacy: tx.LegacyTokens.Public()}, tx.NowMs)
	if err != nil {
		return nil, err
	}
	t, err := prove(u)
	if err != nil {
		return nil, err
	}
	return t, SpendVerification(tx, field, t, usage)
}

// SpendVerification marks a token as spent for a usage, in the organization or parent that issued it. It can
// be spent once for each usage.
func SpendVerification(tx *activity.Tx, field string, t *login.VerificationToken, usage org.Usage) (err error) {
	issuer := tx.Tx
	if t.OrganizationID != tx.ID.String() {
		if issuer, err = tx.ParentRecords(); err != nil {
			return err
		}
		if issuer == nil || t.OrganizationID != issuer.ID.String() {
			return login.InvalidVerificationToken(field)
		}
	}
	id, err := org.ParseID(t.ID)
	if err != nil {
		return err // the enclave has issued the token: an internal error
	}
	v, err := issuer.Verification(id)
	switch {
	case err != nil:
		return err
	case v == nil || v.Boot != tx.Boot:
		return login.ExpiredVerificationToken(field)
	case v.Used&usage != 0:
		return login.InvalidVerificationToken(field)
	}
	if usage == org.UsedLogin {
		if err := tx.BindProfile(v.Profile); err != nil {
			return err
		}
	}
	used := *v
	used.Used |= usage
	return issuer.PutVerification(&used)
}

// MaySend refuses messages that the deployment cannot send, mails or text messages, and those beyond the submitter's quota.
func MaySend(tx *activity.Tx, t login.ContactType, contact string) error {
	switch {
	case t == login.Email && !tx.Capabilities.Mail:
		return fault.WithCode(fault.FailedPrecondition, "EMAIL_SENDING_DISABLED", "this deployment sends no mail: its configuration names no mail server")
	case t == login.SMS && !tx.Capabilities.Text:
		return fault.New(fault.FailedPrecondition, "this deployment sends no text messages: its configuration names no gateway")
	case t == login.WhatsApp && !tx.Capabilities.WhatsApp:
		return fault.New(fault.FailedPrecondition, "OTP_TYPE_WHATSAPP is not enabled: the deployment's configuration names no sender of WhatsApp messages")
	case tx.Capabilities.Sandbox && login.Sandbox(t, contact), tx.Sender == nil:
		return nil
	}
	kind := org.SendMail
	if t.IsPhone() {
		kind = org.SendText
	}
	return tx.Sender.MaySend(kind, sha256.Sum256([]byte(login.ContactKey(t, contact))))
}

// MayLogIn refuses log-ins by contacts of a type that the organization has not enabled. A top-level
// organization with an auth proxy has them enabled.
func MayLogIn(tx *org.Tx, t login.ContactType) error {
	feature := "FEATURE_NAME_OTP_EMAIL_AUTH"
	if t.IsPhone() {
		feature = "FEATURE_NAME_SMS_AUTH"
	}
	err := CheckFeature(tx, feature)
	if fault.Of(err) != nil && CheckFeature(tx, FeatureAuthProxy) == nil {
		return nil
	}
	return err
}

// CheckFeature refuses a request that needs a feature which the organization has not turned on, whoever submits it.
func CheckFeature(tx *org.Tx, name string) error {
	o, err := tx.Organization()
	if err != nil {
		return err
	}
	if _, on := o.Features[name]; !on {
		return fault.WithCode(fault.FailedPrecondition, "FEATURE_DISABLED", "%s is not enabled for this organization", name)
	}
	return nil
}

// FindByContact returns the one user of the organization who has a contact.
func FindByContact(tx *activity.Tx, t login.ContactType, contact string) (*org.User, error) {
	u, _, err := ContactHolder(tx.Tx, t, contact)
	if err == nil && u == nil {
		err = fault.New(fault.NotFound, "not exactly one user of the organization has this contact")
	}
	return u, err
}

// LogInByContact finds the one user who logs in by a proven contact, and verifies it as WithContact does. It
// also returns the errors of MayLogIn.
func LogInByContact(tx *activity.Tx, t login.ContactType, contact string) (*org.User, error) {
	if err := MayLogIn(tx.Tx, t); err != nil {
		return nil, err
	}
	u, err := FindByContact(tx, t, contact)
	if err != nil {
		return nil, err
	}
	return WithContact(tx, u, t)
}

// UserByContact returns the one user of a verified token, nil if there is none or several, or where MayLogIn refuses.
func UserByContact(tx *org.Tx, t *login.VerificationToken) (user *org.User, err error) {
	err = MayLogIn(tx, t.Type)
	if fault.Of(err) != nil {
		return nil, nil
	}
	if err == nil {
		user, _, err = ContactHolder(tx, t.Type, t.Contact)
	}
	return user, err
}

// ChildVerified is the kind of look-up key by which a parent finds sub-organizations by a verified contact.
func ChildVerified(t login.ContactType) byte {
	if t.IsPhone() {
		return org.ChildVerifiedPhone
	}
	return org.ChildVerifiedEmail
}

// ContactHolder returns the one user who has a contact, nil where there is none or several.
func ContactHolder(tx *org.Tx, t login.ContactType, contact string) (u *org.User, several bool, err error) {
	want := login.ContactKey(t, contact)
	return onlyUser(tx, func(u *org.User) bool {
		c := contactOf(u, t)
		if *c.how == org.HowAlone && !*c.verified { // an unproven claim of whoever signed up another person's key
			return false
		}
		return *c.text != "" && login.ContactKey(t, *c.text) == want
	})
}

// A contactRef points at the fields of a user's record about one of his contacts.
type contactRef struct {
	text     *string
	verified *bool
	how      *org.How
}

func contactOf(u *org.User, t login.ContactType) contactRef {
	if t.IsPhone() {
		return contactRef{&u.Phone, &u.PhoneVerified, &u.PhoneHow}
	}
	return contactRef{&u.Email, &u.EmailVerified, &u.EmailHow}
}

// MarkVerified returns a copy of u with a contact verified.
func MarkVerified(u *org.User, t login.ContactType) *org.User {
	v := *u
	*contactOf(&v, t).verified = true
	return &v
}

// WithContact returns u, who has logged in by a contact, with the contact verified, unless another sub-organization
// has it verified: log-ins that name no sub-organization use the one where the contact is verified, and whoever set u's
// contact must not divert them to this one.
//
// That a log-in by the auth proxy is meant for this sub-organization is an unverified claim of the host, and a client that
// stamps with a verification token names the sub-organization that the host has given it. So neither verifies a contact that
// is verified elsewhere, or that a user of this sub-organization has set without a proof: they are refused.
func WithContact(tx *activity.Tx, u *org.User, t login.ContactType) (*org.User, error) {
	c := contactOf(u, t)
	if *c.verified {
		return u, nil
	}
	claimed, err := isClaimedElsewhere(tx, t, *c.text)
	if err != nil {
		return nil, err
	}
	top, err := tx.ParentRecords()
	if err != nil {
		return nil, err
	}
	led := top != nil && tx.Verification != nil
	if top != nil && !led {
		if led, err = FromProxy(tx, top); err != nil {
			return nil, err
		}
	}
	switch {
	case led && claimed:
		return nil, fault.New(fault.NotFound, "the contact is that of a user of another sub-organization")
	case led && c.how.Unproven():
		return nil, fault.New(fault.NotFound, "the contact is not proven to be the user's: verify it, or log in with another credential")
	case claimed:
		return u, nil
	}
	return MarkVerified(u, t), nil
}

// isClaimedElsewhere reports whether another sub-organization of the same parent has a contact verified. Users
// of a top-level organization do not count.
func isClaimedElsewhere(tx *activity.Tx, t login.ContactType, contact string) (bool, error) {
	top, err := tx.ParentUsers()
	if err != nil || top == nil {
		return false, err
	}
	holders, err := top.ChildrenBy(ChildVerified(t), login.ContactKey(t, contact), nil, 2)
	return slices.ContainsFunc(holders, func(id org.ID) bool { return id != tx.ID }), err
}

// ErrClaimed is the error of verifying a contact that another sub-organization has verified.
var ErrClaimed = fault.New(fault.AlreadyExists, "a sub-organization with this verified contact exists already")

// Login converts s to package login's type, nil for none.
func (s *ClientSignature) Login() *login.ClientSignature {
	if s == nil {
		return nil
	}
	return &login.ClientSignature{PublicKey: s.PublicKey, Scheme: string(s.Scheme), Message: s.Message, Signature: s.Signature}
}

// WrongContact is the error of a token for another contact.
func WrongContact(than string) error {
	return fault.Field("verificationToken", "is about another contact than %s", than)
}

// verifyContact spends a token for this contact and reports whether there was one. The intents have no
// client signature: a token bound to a key is valid only in a request that this key stamped.
func verifyContact(tx *activity.Tx, token *string, t login.ContactType, contact string) (bool, error) {
	if activity.TextOf(token) == "" {
		return false, nil
	}
	_, err := UseVerification(tx, *token, org.UsedContact, func(u *login.UnprovenToken) (*login.VerificationToken, error) {
		if !u.About(t, contact) {
			return nil, WrongContact("the one given")
		}
		return u.ByStamp(stampingKey(tx))
	})
	if err != nil {
		return false, err
	}
	claimed, err := isClaimedElsewhere(tx, t, contact)
	if err == nil && claimed {
		err = ErrClaimed
	}
	return err == nil, err
}

// stampingKey returns the P-256 key that stamped the request, or "".
func stampingKey(tx *activity.Tx) string {
	if org.KeyCurve(tx.Stamped.Type) != string(CurveP256) {
		return ""
	}
	return tx.Stamped.PublicKey
}

// FromProxy reports whether the auth proxy of top has submitted the activity.
func FromProxy(tx *activity.Tx, top *org.Tx) (bool, error) {
	p, err := top.OnlyAuthProxy()
	return p != nil && p.Key == tx.Stamped.ID, err
}
