package auth

import (
	"maps"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// explain shows how long a session lasts, and what bounds it.
func (l *LoginTerms) explain(tx *org.Tx, o *show.Object) error {
	o.Plain("publicKey", l.public.String())
	explainLife(o, l.seconds)
	if l.profile.Zero() {
		return nil
	}
	// A sub-organization has no profiles of its own: of its parent's only the id is known here.
	_, err := activity.ExplainRecord(o, "sessionProfile", l.profile.String(), tx.SessionProfile, func(o *show.Object, p *org.SessionProfile) {
		activity.ExplainName(o, p.Name)
		o.Text("scope", p.Scope)
	})
	return err
}

func explainLife(o *show.Object, seconds uint64) {
	if seconds == 0 {
		seconds = usualSessionSeconds
	}
	o.Uint("expiresAfterSeconds", seconds)
}

// SetInitiator notes who logs in.
func (in *StampLogin) SetInitiator(id org.ID) { in.initiator = id }

func (in *StampLogin) explain(tx *org.Tx, o *show.Object) error {
	if err := explainSessionOf(tx, o, in.initiator); err != nil {
		return err
	}
	return in.LoginTerms.explain(tx, o)
}

// explainSessionOf shows for whom a session is, by the user's id.
func explainSessionOf(tx *org.Tx, o *show.Object, id org.ID) error {
	u, err := tx.User(id)
	if err != nil {
		return err
	}
	return user.ExplainSession(tx, o, u)
}

// SetInitiator notes who asks for the session.
func (in *CreateReadWriteSession) SetInitiator(id org.ID) { in.initiator = id }

func (in *CreateReadWriteSession) explain(tx *org.Tx, o *show.Object) error {
	u, err := in.sessionUser(tx, in.initiator)
	if fault.Of(err) != nil {
		u, err = nil, nil // Run refuses it
	}
	if err != nil {
		return err
	}
	if err := user.ExplainSession(tx, o, u); err != nil {
		return err
	}
	in.SealedSession.explain(o, in.TargetPublicKey)
	return nil
}

// explain shows who gets a session key, and for how long.
func (s *SealedSession) explain(o *show.Object, target string) {
	child := o.Object("targetPublicKey")
	child.Text("value", target)
	child.Plain("source", show.FromRequester)
	explainLife(o, s.seconds)
	activity.ExplainMeaning(o, "Whoever holds the key named here gets a key that acts as this user.")
}

// explainMailed shows to whom a key is mailed, and who can open the mail.
func explainMailed(tx *org.Tx, o *show.Object, address, target, sentence string, seconds uint64) error {
	u, _, err := user.ContactHolder(tx, login.Email, address)
	if err != nil {
		return err
	}
	if err := user.ExplainSession(tx, o, u); err != nil {
		return err
	}
	o.Text("email", address)
	child := o.Object("targetPublicKey")
	child.Text("value", target)
	child.Plain("source", show.FromRequester)
	explainLife(o, seconds)
	activity.ExplainMeaning(o, sentence)
	return nil
}

func (in *EmailAuth) explain(tx *org.Tx, o *show.Object) error {
	return explainMailed(tx, o, in.Email, in.TargetPublicKey, "Whoever gets the mail and holds the key named here can act as this user.", in.seconds)
}

func (in *InitUserEmailRecovery) explain(tx *org.Tx, o *show.Object) error {
	return explainMailed(tx, o, in.Email, in.TargetPublicKey, "Whoever gets the mail and holds the key named here can give this user a new passkey.", in.seconds)
}

// explainIdentity shows which user an identity token is of, by what it says of itself. It is verified when it is used.
func explainIdentity(tx *org.Tx, o *show.Object, token string) error {
	t, err := login.ParseIdentityToken("oidcToken", token)
	if err != nil {
		return user.ExplainSession(tx, o, nil) // Run refuses it
	}
	i, err := t.Says()
	if err != nil {
		return user.ExplainSession(tx, o, nil)
	}
	u, _, err := user.UserByIdentity(tx, i.Issuer, i.Subject, i.Audiences, i.Attempt())
	if err != nil {
		return err
	}
	if err := user.ExplainSession(tx, o, u); err != nil {
		return err
	}
	identity := o.Object("identity")
	identity.Text("issuer", i.Issuer)
	identity.Text("subject", i.Subject)
	identity.Text("audience", strings.Join(i.Audiences, ", "))
	return nil
}

func (in *Oauth) explain(tx *org.Tx, o *show.Object) error {
	if err := explainIdentity(tx, o, in.OidcToken); err != nil {
		return err
	}
	in.SealedSession.explain(o, in.TargetPublicKey)
	return nil
}

func (in *OauthLogin) explain(tx *org.Tx, o *show.Object) error {
	if err := explainIdentity(tx, o, in.OidcToken); err != nil {
		return err
	}
	return in.LoginTerms.explain(tx, o)
}

func (in *OTPLogin) explain(tx *org.Tx, o *show.Object) error {
	o.Warn(show.CredentialAdded)
	activity.ExplainMeaning(o, "The user is the one whose address or number the token proves: nobody can tell who before it is used.")
	return in.LoginTerms.explain(tx, o)
}

// explain shows to whom the code of a log-in was sent.
func (in *OTPAuth) explain(tx *org.Tx, o *show.Object) error {
	var u *org.User
	p, err := activity.ExplainRecord(o, "passcode", in.OtpID, tx.Passcode, func(o *show.Object, p *org.Passcode) { o.Text("contact", p.Contact) })
	if err == nil && p != nil {
		u, _, err = user.ContactHolder(tx, login.ContactType(p.Type), p.Contact)
	}
	if err != nil {
		return err
	}
	if err := user.ExplainSession(tx, o, u); err != nil {
		return err
	}
	in.SealedSession.explain(o, in.TargetPublicKey)
	return nil
}

// explain shows a profile, which bounds the sessions that name it.
func (in *CreateSessionProfile) explain(o *show.Object) {
	activity.ExplainWord(o, "name", in.SessionProfileName)
	o.Text("scope", in.Scope)
	if in.seconds != 0 {
		o.Uint("expiresAfterSeconds", in.seconds)
	}
	activity.ExplainMeaning(o, "A session with this profile may do what the scope says, of what its user may do. A profile never changes.")
}

func explainOAuth2(o *show.Object, c *org.OAuth2Credential) {
	activity.ExplainName(o, c.ClientID)
	o.Text("provider", c.Provider)
	o.Text("clientId", c.ClientID)
}

func (in *CreateOAuth2Credential) explain(o *show.Object) {
	o.Text("provider", string(in.Provider))
	activity.ExplainWord(o, "clientId", in.ClientID)
	activity.ExplainMeaning(o, "Users can log in with identities of this provider, by whatever this client id and its secret stand for.")
	o.Warn(show.OtherParties)
}

// explain compares a client at a provider. One with another id may be somebody else's.
func (in *UpdateOAuth2Credential) explain(tx *org.Tx, o *show.Object) error {
	old, err := activity.ExplainRecord(o, "credential", in.OAuth2CredentialID, tx.OAuth2Credential, explainOAuth2)
	if old == nil || err != nil {
		return err
	}
	c := activity.ExplainChanges(o)
	c.Text("provider", old.Provider, string(in.Provider))
	c.Text("clientId", old.ClientID, in.ClientID)
	if c.Changed {
		o.Warn(show.ControlChange)
	}
	activity.ExplainMeaning(o, "The client secret is replaced too.")
	return nil
}

func explainOAuth2Record(tx *org.Tx, o *show.Object, id string) error {
	_, err := activity.ExplainRecord(o, "credential", id, tx.OAuth2Credential, explainOAuth2)
	return err
}

// ---- The auth proxy

// explainProxyUsers lists the members of the root quorum who have a contact by which the auth proxy logs users in, and warns.
func explainProxyUsers(tx *org.Tx, o *show.Object) error {
	rec, err := tx.Organization()
	if err != nil {
		return err
	}
	root, err := user.ExplainRootUsers(tx, o, rec, func(u *org.User) bool { return u.Email != "" || u.Phone != "" || len(u.OauthProviders) > 0 },
		func(entry *show.Object, u *org.User) {
			entry.Text("email", u.Email)
			entry.Text("phone", u.Phone)
		})
	user.WarnOfCredential(o, root)
	return err
}

func explainEnable(tx *org.Tx, o *show.Object) error {
	activity.ExplainMeaning(o, "Anybody can ask the proxy for a log-in: whoever reads a user's mail or messages, or has the user's identity at a provider, can act as that user. "+
		"A new user and a new policy let the proxy start sessions, send codes and create sub-organizations without approvals.")
	activity.ExplainList(o, "origins", []string{anyOrigin})
	return explainProxyUsers(tx, o)
}

// explainDisable shows what goes with the proxy.
func explainDisable(tx *org.Tx, o *show.Object) error {
	p, err := tx.OnlyAuthProxy()
	if p == nil || err != nil {
		return err
	}
	activity.ExplainMeaning(o, "Nobody can log in by the proxy any more. Its user and its policy are deleted.")
	if _, _, err := activity.ExplainUser(tx, o, "user", p.User.String()); err != nil {
		return err
	}
	_, err = activity.ExplainRecord(o, "policy", p.Policy.String(), tx.Policy, func(o *show.Object, p *org.Policy) { activity.ExplainName(o, p.Name) })
	return err
}

// explain compares the configuration of the proxy. It warns of what lets more people log in, and of texts that lead codes elsewhere.
func (in *UpdateAuthProxyConfig) explain(tx *org.Tx, o *show.Object) error {
	old, err := tx.OnlyAuthProxy()
	if old == nil || err != nil {
		return err // Run refuses it
	}
	now := *old
	in.apply(&now)
	c := activity.ExplainChanges(o)
	origins := c.Texts("origins", old.Origins, now.Origins)
	ways := c.Texts("methods", old.Methods, now.Methods)
	ways = c.Texts("socialProviders", old.SocialProviders, now.SocialProviders) || ways
	ways = c.Texts("oauthClients", clientTexts(old), clientTexts(&now)) || ways
	ways = c.Texts("linkingClients", old.LinkingClients, now.LinkingClients) || ways
	leads := old.MagicLink != now.MagicLink || old.OAuthRedirect != now.OAuthRedirect || old.SMSTemplate != now.SMSTemplate
	for _, m := range []struct{ key, before, after string }{
		{"magicLink", old.MagicLink, now.MagicLink}, {"oauthRedirect", old.OAuthRedirect, now.OAuthRedirect}, {"smsTemplate", old.SMSTemplate, now.SMSTemplate},
		{"senderEmail", old.SenderEmail, now.SenderEmail}, {"senderName", old.SenderName, now.SenderName}, {"replyTo", old.ReplyTo, now.ReplyTo},
		{"appName", old.AppName, now.AppName}, {"logoUrl", old.LogoURL, now.LogoURL}, {"templateVariables", old.Variables, now.Variables},
	} {
		if m.before != m.after {
			c.Text(m.key, m.before, m.after)
		}
	}
	for _, m := range []struct {
		key           string
		before, after uint32
	}{
		{"codeLength", old.OTPLength, now.OTPLength}, {"codeSeconds", old.OTPSeconds, now.OTPSeconds}, {"tokenSeconds", old.TokenSeconds, now.TokenSeconds},
		{"sessionSeconds", old.SessionSeconds, now.SessionSeconds},
	} {
		c.Uint(m.key, uint64(m.before), uint64(m.after))
	}
	c.Bool("codesOfDigitsOnly", old.OTPNumeric, now.OTPNumeric)
	c.Bool("tokenNeededForLookUp", old.TokenForPII, now.TokenForPII)
	if origins || old.TokenForPII && !now.TokenForPII || now.OTPLength < old.OTPLength || now.OTPNumeric && !old.OTPNumeric || now.OTPSeconds > old.OTPSeconds ||
		now.TokenSeconds > old.TokenSeconds || now.SessionSeconds > old.SessionSeconds {
		o.Warn(show.RulesDenyGone)
	}
	if leads {
		activity.ExplainMeaning(o, "Links and texts with codes and tokens lead to the address named here: whoever is there can use them first.")
	}
	if ways || leads {
		return explainProxyUsers(tx, o)
	}
	return nil
}

// clientTexts are the client ids of a proxy by provider.
func clientTexts(p *org.AuthProxy) []string {
	var all []string
	for _, provider := range slices.Sorted(maps.Keys(p.OAuthClients)) {
		all = append(all, provider+": "+p.OAuthClients[provider])
	}
	return all
}
