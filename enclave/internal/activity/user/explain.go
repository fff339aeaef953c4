package user

import (
	"cmp"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// explainHolder shows who gets ways to log in, and warns: the more if he is of the root quorum.
func explainHolder(tx *org.Tx, o *show.Object, userID string) (*show.List, error) {
	_, root, err := activity.ExplainUser(tx, o, "user", userID)
	WarnOfCredential(o, root)
	return o.List("credentials"), err
}

func explainKeys(list *show.List, keys []APIKeyParams) {
	for i := range keys {
		k, o := &keys[i], list.Object()
		o.Plain("type", "API_KEY")
		activity.ExplainWord(o, "name", k.APIKeyName)
		o.Text("publicKey", k.PublicKey)
		o.Text("curve", string(k.CurveType))
		if seconds := activity.TextOf(k.ExpirationSeconds); seconds != "" {
			o.Text("expiresAfterSeconds", seconds)
		} else {
			o.Plain("expires", "never")
		}
	}
}

func explainAuthenticators(list *show.List, passkeys []AuthenticatorParams) {
	for i := range passkeys {
		p, o := &passkeys[i], list.Object()
		o.Plain("type", "PASSKEY")
		activity.ExplainWord(o, "name", p.AuthenticatorName)
		o.Text("credentialId", p.Attestation.CredentialID)
		o.Plain("expires", "never")
	}
}

func explainProviders(list *show.List, providers []OauthProviderParams) {
	for i := range providers {
		p, o := &providers[i], list.Object()
		o.Plain("type", "IDENTITY")
		activity.ExplainWord(o, "name", p.ProviderName)
		if c := p.OidcClaims; c != nil {
			o.Text("issuer", c.Iss)
			o.Text("subject", c.Sub)
			o.Text("audience", c.Aud)
		}
		o.Plain("expires", "never")
	}
}

func (in *CreateAPIKeys) explain(tx *org.Tx, o *show.Object) error {
	list, err := explainHolder(tx, o, in.UserID)
	explainKeys(list, in.APIKeys)
	return err
}

func (in *CreateAuthenticators) explain(tx *org.Tx, o *show.Object) error {
	list, err := explainHolder(tx, o, in.UserID)
	explainAuthenticators(list, in.Authenticators)
	return err
}

func (in *CreateOauthProviders) explain(tx *org.Tx, o *show.Object) error {
	list, err := explainHolder(tx, o, in.UserID)
	explainProviders(list, in.OauthProviders)
	return err
}

// ExplainNew shows a user who would be made, with the ways in which he could log in.
func (p *RootUserParams) ExplainNew(o *show.Object) {
	activity.ExplainWord(o, "name", p.UserName)
	activity.ExplainWord(o, "email", activity.TextOf(p.UserEmail))
	activity.ExplainWord(o, "phone", activity.TextOf(p.UserPhoneNumber))
	credentials := o.List("credentials")
	explainKeys(credentials, p.APIKeys)
	explainAuthenticators(credentials, p.Authenticators)
	explainProviders(credentials, p.OauthProviders)
}

// explainUsers shows users who would be made. Whoever names policies by tags, addresses or names gives them rights by that.
func explainUsers(tx *org.Tx, o *show.Object, users []UserParams) error {
	o.Warn(show.CredentialAdded)
	list, readers := o.List("users"), activity.ReadersOf(tx)
	var names []string
	for i := range users {
		u, entry := &users[i], list.Object()
		u.ExplainNew(entry)
		if err := readers.ExplainTags(entry, u.UserTags); err != nil {
			return err
		}
		names = append(names, u.UserName, activity.TextOf(u.UserEmail))
	}
	return readers.ExplainTexts(o, names...)
}

// explain shows what a user is now and would be.
func (in *UpdateUser) explain(tx *org.Tx, o *show.Object) error {
	u, _, err := activity.ExplainUser(tx, o, "user", in.UserID)
	if u == nil || err != nil {
		return err
	}
	c, readers := activity.ExplainChanges(o), activity.ReadersOf(tx)
	texts := compareName(c, u, activity.TextOf(in.UserName))
	for _, contact := range []struct {
		typ       login.ContactType
		key, text string
	}{{login.Email, "newEmail", activity.TextOf(in.UserEmail)}, {login.SMS, "newPhone", activity.TextOf(in.UserPhoneNumber)}} {
		old := contactOf(u, contact.typ)
		if contact.text == "" || contact.text == *old.text {
			continue
		}
		if err := explainContact(tx, o.Object(contact.key), c, u, contact.typ, contact.text, false, false); err != nil {
			return err
		}
		texts = append(texts, *old.text, contact.text)
	}
	if err := readers.ExplainTexts(o, texts...); err != nil || len(in.UserTagIDs) == 0 {
		return err
	}
	had := activity.MapList(u.Tags, func(id *org.ID) string { return id.String() })
	without := func(all, these []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(id string) bool {
			return slices.ContainsFunc(these, func(other string) bool { return activity.SameID(id, other) })
		})
	}
	if err := readers.ExplainTags(o.Object("added"), without(in.UserTagIDs, had)); err != nil {
		return err
	}
	return readers.ExplainTags(o.Object("removed"), without(had, in.UserTagIDs))
}

// compareName compares the name of a user. It returns the names by which policies may know him if it changes.
func compareName(c *activity.Changes, u *org.User, name string) []string {
	if name == "" || name == u.Name {
		c.Name(u.Name, u.Name)
		return nil
	}
	c.Name(u.Name, name)
	return []string{u.Name, name}
}

func (in *UpdateUserName) explain(tx *org.Tx, o *show.Object) error {
	u, _, err := activity.ExplainUser(tx, o, "user", in.UserID)
	if u == nil || err != nil {
		return err
	}
	texts := compareName(activity.ExplainChanges(o), u, in.UserName)
	return activity.ReadersOf(tx).ExplainTexts(o, texts...)
}

// explainNewContact shows a change of a user's contact.
func explainNewContact(tx *org.Tx, o *show.Object, userID string, t login.ContactType, contact string, token *string) error {
	u, _, err := activity.ExplainUser(tx, o, "user", userID)
	if u == nil || err != nil {
		return err
	}
	proven := activity.TextOf(token) != ""
	if err := explainContact(tx, o, activity.ExplainChanges(o), u, t, contact, proven, proven); err != nil || contact == *contactOf(u, t).text {
		return err
	}
	return activity.ReadersOf(tx).ExplainTexts(o, *contactOf(u, t).text, contact)
}

// explainContact compares a contact of a user, and tells whether somebody can act as the user with the new one.
func explainContact(tx *org.Tx, o *show.Object, c *activity.Changes, u *org.User, t login.ContactType, contact string, verified, proven bool) error {
	old, key := contactOf(u, t), "email"
	if t.IsPhone() {
		key = "phone"
	}
	c.Text(key, *old.text, contact)
	c.Bool(key+"Verified", *old.verified, verified)
	rec, err := tx.Organization()
	if err != nil || contact == *old.text {
		return err
	}
	ways := WaysIn(rec, u, t)
	if proven && !rec.Parent.Zero() {
		ways = append(ways, "identities that the parent organization links by an address")
	}
	switch root := rec.Root(u.ID); {
	case contact == "":
	case len(ways) == 0:
		activity.ExplainMeaning(o, "Nobody can log in or recover the user by it now. If the organization turns that on later, whoever has the new one can act as this user.")
	default:
		o.Plain("waysIn", strings.Join(ways, ", "))
		activity.ExplainMeaning(o, "Whoever has the new one can act as this user.")
		WarnOfCredential(o, root)
	}
	return nil
}

// WaysIn are the ways by which whoever has a contact of a user can act as that user, in words.
func WaysIn(o *org.Organization, u *org.User, t login.ContactType) (ways []string) {
	add := func(text string, features ...string) {
		if !slices.ContainsFunc(features, func(name string) bool { _, on := o.Features[name]; return !on }) {
			ways = append(ways, text)
		}
	}
	factor := authSms
	if t.IsPhone() {
		add("log-in by a code in a text message", "FEATURE_NAME_SMS_AUTH")
	} else {
		factor = authEmail
		add("log-in by a mailed key", "FEATURE_NAME_EMAIL_AUTH")
		add("log-in by a mailed code", "FEATURE_NAME_OTP_EMAIL_AUTH")
		if !o.Root(u.ID) {
			add("recovery by mail", "FEATURE_NAME_EMAIL_RECOVERY")
		} else {
			add("recovery by mail", "FEATURE_NAME_EMAIL_RECOVERY", "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY")
		}
	}
	add("log-in by the auth proxy", FeatureAuthProxy)
	for i := range u.MFAPolicies {
		if slices.ContainsFunc(u.MFAPolicies[i].Required, func(m org.MFAMethod) bool {
			return slices.ContainsFunc(m.Any, func(f org.Factor) bool { return f.Type == string(factor) })
		}) {
			return append(ways, "a factor of an MFA policy")
		}
	}
	return ways
}

// WarnOfCredential warns that somebody gets a way to act as a user, the more if that is a member of the root quorum.
func WarnOfCredential(o *show.Object, root bool) {
	if root {
		o.Warn(show.RootCredentialAdded)
	} else {
		o.Warn(show.CredentialAdded)
	}
}

// ExplainRootUsers lists the members of the root quorum whom a change concerns, each with what contacts adds, and tells whether there is one.
func ExplainRootUsers(tx *org.Tx, o *show.Object, rec *org.Organization, concerns func(*org.User) bool, contacts func(*show.Object, *org.User)) (found bool, err error) {
	var list *show.List
	for _, id := range rec.RootUsers {
		u, err := tx.User(id)
		if err != nil {
			return false, err
		}
		if u == nil || !concerns(u) {
			continue
		}
		if list == nil {
			list = o.List("rootUsers")
		}
		entry := list.Object()
		entry.Plain("id", id.String())
		activity.ExplainName(entry, u.Name)
		contacts(entry, u)
	}
	return list != nil, nil
}

// ExplainSession shows a user for whom somebody gets a credential, nil if the user is not known before it is made.
func ExplainSession(tx *org.Tx, o *show.Object, u *org.User) error {
	if u == nil {
		o.Warn(show.CredentialAdded)
		return nil
	}
	_, root, err := activity.ExplainUser(tx, o, "user", u.ID.String())
	WarnOfCredential(o, root)
	return err
}

// ExplainPasskeys shows passkeys that a user gets.
func ExplainPasskeys(tx *org.Tx, o *show.Object, userID string, passkeys ...AuthenticatorParams) error {
	list, err := explainHolder(tx, o, userID)
	explainAuthenticators(list, passkeys)
	return err
}

// explainGone shows credentials that a user loses, by their ids. Name finds one.
func explainGone(tx *org.Tx, o *show.Object, userID, typ string, ids []string, name func(u *org.User, id org.ID) (string, bool)) error {
	u, _, err := activity.ExplainUser(tx, o, "user", userID)
	if err != nil {
		return err
	}
	list := o.List("credentials")
	for _, text := range ids {
		entry := list.Object()
		entry.Plain("type", typ)
		entry.Text("id", text)
		id, err := org.ParseID(text)
		if u == nil || err != nil {
			continue // Run refuses it
		}
		if called, ok := name(u, id); ok {
			activity.ExplainName(entry, called)
		}
	}
	return nil
}

func (in *DeleteAPIKeys) explain(tx *org.Tx, o *show.Object) error {
	return explainGone(tx, o, in.UserID, "API_KEY", in.APIKeyIDs, func(u *org.User, id org.ID) (string, bool) {
		i := slices.IndexFunc(u.APIKeys, func(k org.APIKey) bool { return k.ID == id })
		if i < 0 {
			return "", false
		}
		return u.APIKeys[i].Name, true
	})
}

func (in *DeleteAuthenticators) explain(tx *org.Tx, o *show.Object) error {
	return explainGone(tx, o, in.UserID, "PASSKEY", in.AuthenticatorIDs, func(u *org.User, id org.ID) (string, bool) {
		i := slices.IndexFunc(u.Authenticators, func(a org.Authenticator) bool { return a.ID == id })
		if i < 0 {
			return "", false
		}
		return u.Authenticators[i].Name, true
	})
}

func (in *DeleteOauthProviders) explain(tx *org.Tx, o *show.Object) error {
	return explainGone(tx, o, in.UserID, "IDENTITY", in.ProviderIDs, func(u *org.User, id org.ID) (string, bool) {
		i := slices.IndexFunc(u.OauthProviders, func(p org.OauthProvider) bool { return p.ID == id })
		if i < 0 {
			return "", false
		}
		return u.OauthProviders[i].Name, true
	})
}

// explain shows who would be invited, and by whom.
func (in *CreateInvitations) explain(tx *org.Tx, o *show.Object) error {
	o.Warn(show.CredentialAdded)
	activity.ExplainMeaning(o, "Whoever accepts an invitation becomes a user, with a passkey of his own.")
	list, readers := o.List("users"), activity.ReadersOf(tx)
	var names []string
	for i := range in.Invitations {
		p, entry := &in.Invitations[i], list.Object()
		activity.ExplainWord(entry, "name", p.ReceiverUserName)
		activity.ExplainWord(entry, "email", p.ReceiverUserEmail)
		if _, _, err := activity.ExplainUser(tx, entry, "invitedBy", p.SenderUserID); err != nil {
			return err
		}
		if err := readers.ExplainTags(entry, p.ReceiverUserTags); err != nil {
			return err
		}
		names = append(names, p.ReceiverUserName, p.ReceiverUserEmail)
	}
	return readers.ExplainTexts(o, names...)
}

// explainInvitation shows an invitation by its id.
func explainInvitation(tx *org.Tx, o *show.Object, text string) (*org.Invitation, error) {
	var bad error
	i, err := activity.ExplainRecord(o, "invitation", text, tx.Invitation, func(o *show.Object, i *org.Invitation) {
		activity.ExplainName(o, i.UserName)
		o.Text("email", i.Email)
		o.Plain("status", i.Status)
		_, _, bad = activity.ExplainUser(tx, o, "invitedBy", i.Sender.String())
	})
	return i, cmp.Or(err, bad)
}

// explain shows whom an invitation makes a user, and with which passkey.
func (in *AcceptInvitation) explain(tx *org.Tx, o *show.Object) error {
	o.Warn(show.CredentialAdded)
	i, err := explainInvitation(tx, o, in.InvitationID)
	explainAuthenticators(o.List("credentials"), []AuthenticatorParams{in.Authenticator})
	if i == nil || err != nil {
		return err
	}
	readers := activity.ReadersOf(tx)
	if err := readers.ExplainTags(o, activity.MapList(i.Tags, func(id *org.ID) string { return id.String() })); err != nil {
		return err
	}
	return readers.ExplainTexts(o, i.UserName, i.Email)
}

// explainDeleted shows who would be deleted.
func explainDeleted(tx *org.Tx, in *UserIDs, o *show.Object) error {
	list := o.List("users")
	for _, id := range in.UserIDs {
		if _, _, err := activity.ExplainUser(tx, list.Object(), "user", id); err != nil {
			return err
		}
	}
	return nil
}
