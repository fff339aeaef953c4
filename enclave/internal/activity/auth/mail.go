package auth

import (
	"cmp"
	"time"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// Mails are the kinds that mail a key, for a log-in or a recovery, and RECOVER_USER.
var Mails = activity.Family{
	activity.Kind[EmailAuth, MailedKey]{
		Name: "EMAIL_AUTH", Resource: "AUTH", Action: "CREATE", ByParent: true, Run: mailKey,
		Explain: func(tx *org.Tx, in *EmailAuth, o *show.Object) error { return in.explain(tx, o) },
		Older: []activity.Older{
			activity.Upgrade((*EmailAuthV1).upgrade),
			activity.Upgrade(func(v *EmailAuthV2) EmailAuth { return (*EmailAuthV1)(v).upgrade() }),
		},
		Examine: func(tx *org.Tx, _ *EmailAuth) error { return user.CheckFeature(tx, "FEATURE_NAME_EMAIL_AUTH") },
	},
	activity.Kind[InitUserEmailRecovery, user.UserID]{
		Name: "INIT_USER_EMAIL_RECOVERY", Resource: "RECOVERY", Action: "CREATE", ByParent: true, Run: initRecovery,
		Explain: func(tx *org.Tx, in *InitUserEmailRecovery, o *show.Object) error { return in.explain(tx, o) },
		Older: []activity.Older{activity.Upgrade(func(v *InitUserEmailRecoveryV1) InitUserEmailRecovery {
			return InitUserEmailRecovery{Email: v.Email, TargetPublicKey: v.TargetPublicKey, ExpirationSeconds: v.ExpirationSeconds,
				EmailCustomization: v.EmailCustomization.upgrade(), MailSender: v.MailSender}
		})},
		Examine: func(tx *org.Tx, _ *InitUserEmailRecovery) error {
			return user.CheckFeature(tx, "FEATURE_NAME_EMAIL_RECOVERY")
		},
	},
	activity.Kind[RecoverUser, RecoveredUser]{
		Name: "RECOVER_USER", Resource: "RECOVERY", Action: "UPDATE", Run: recoverUser,
		Explain: func(tx *org.Tx, in *RecoverUser, o *show.Object) error {
			return user.ExplainPasskeys(tx, o, in.UserID, in.Authenticator)
		},
		Self:     func(in *RecoverUser) string { return in.UserID },
		OnlySelf: func(in *RecoverUser) string { return in.UserID },
	},
}

// Types of the keys that are mailed.
const (
	typeMailed = "CREDENTIAL_TYPE_EMAIL_AUTH_KEY_P256"
	// TypeRecovery is the type of a key that can stamp only RECOVER_USER.
	TypeRecovery = "CREDENTIAL_TYPE_RECOVER_USER_KEY_P256"
)

// EmailCustomization is an organization's customization of mails, without its name.
type EmailCustomization struct {
	LogoURL           *string `json:"logoUrl"`
	MagicLinkTemplate *string `json:"magicLinkTemplate"`
	TemplateVariables *string `json:"templateVariables"`
	TemplateID        *string `json:"templateId"`
}

// words parses the customization, all but the name.
func (c *EmailCustomization) words(path string) (w login.Words, err error) {
	if c == nil {
		return w, nil
	}
	if activity.TextOf(c.TemplateID) != "" {
		return w, fault.Field(path+"templateId", "no such template: this deployment has none but its own")
	}
	if w.LogoURL = activity.TextOf(c.LogoURL); w.LogoURL != "" && !login.CheckURL(w.LogoURL, false) {
		return w, fault.Field(path+"logoUrl", "must be an https URL")
	}
	if w.Link, err = login.ParseMagicLink(path+"magicLinkTemplate", activity.TextOf(c.MagicLinkTemplate)); err != nil {
		return w, err
	}
	w.Variables, err = login.ParseVariables(path+"templateVariables", activity.TextOf(c.TemplateVariables))
	return w, err
}

// EmailCustomizationParams is the customization in older versions.
type EmailCustomizationParams struct {
	AppName *string `json:"appName"`
	EmailCustomization
}

func (c *EmailCustomizationParams) appName() string {
	if c == nil {
		return ""
	}
	return activity.TextOf(c.AppName)
}

func (c *EmailCustomizationParams) withoutName() *EmailCustomization {
	if c == nil {
		return nil
	}
	return &c.EmailCustomization
}

// upgrade converts the customization to that of newer versions. Without a name, mails use the organization's.
func (c *EmailCustomizationParams) upgrade() EmailAuthCustomization {
	if c == nil {
		return EmailAuthCustomization{}
	}
	return EmailAuthCustomization{c.appName(), c.EmailCustomization}
}

// EmailAuthCustomization is the customization with the name.
type EmailAuthCustomization struct {
	AppName string `json:"appName" rule:"required,label_length,label"`
	EmailCustomization
}

func (c *EmailAuthCustomization) words(path string) (login.Words, error) {
	w, err := c.EmailCustomization.words(path)
	w.AppName = c.AppName
	return w, err
}

// MailSender is the requested sender of a mail. It is ignored for domains that the deployment's configuration does not list.
type MailSender struct {
	SendFromEmailAddress    *string `json:"sendFromEmailAddress" rule:"omitempty,email,email_ext"`
	SendFromEmailSenderName *string `json:"sendFromEmailSenderName" rule:"omitempty,label_length,label"`
	ReplyToEmailAddress     *string `json:"replyToEmailAddress" rule:"omitempty,email,email_ext"`
}

// sendMail queues a mail, to be sent once the activity's entry is stored, until it expires.
func sendMail(tx *activity.Tx, to string, c *login.Content, from *MailSender, expiresMs uint64) error {
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return err
	}
	by := login.ChooseSender(login.Sender{
		Address: activity.TextOf(from.SendFromEmailAddress), Name: activity.TextOf(from.SendFromEmailSenderName), ReplyTo: activity.TextOf(from.ReplyToEmailAddress),
	}, tx.Capabilities.Sender, tx.Capabilities.Domains)
	m := &org.Mail{ID: id.String(), To: to, From: by.Address, Name: by.Name, ReplyTo: by.ReplyTo, Subject: c.Subject, Text: c.Text, HTML: c.HTML, SentMs: tx.NowMs}
	return tx.Send(org.SendMail, m, expiresMs)
}

// sendText queues a message under a new id, like sendMail.
func sendText(tx *activity.Tx, m *org.Text, expiresMs uint64) error {
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return err
	}
	m.ID = id.String()
	return tx.Send(org.SendText, m, expiresMs)
}

// timestamp formats a time for the names of keys.
func timestamp(ms uint64) string { return time.UnixMilli(int64(ms)).UTC().Format(time.RFC3339) }

// EmailAuthV1 is version 1 of the intent.
type EmailAuthV1 struct {
	Email              string                    `json:"email" rule:"required,email,email_ext"`
	TargetPublicKey    string                    `json:"targetPublicKey" rule:"required,hexadecimal"`
	APIKeyName         *string                   `json:"apiKeyName" rule:"omitempty,label_length,label"`
	ExpirationSeconds  *string                   `json:"expirationSeconds"`
	EmailCustomization *EmailCustomizationParams `json:"emailCustomization"`
	InvalidateExisting *bool                     `json:"invalidateExisting"`
	MailSender
}

func (v *EmailAuthV1) upgrade() EmailAuth {
	return EmailAuth{Email: v.Email, TargetPublicKey: v.TargetPublicKey, APIKeyName: v.APIKeyName, ExpirationSeconds: v.ExpirationSeconds,
		EmailCustomization: v.EmailCustomization.upgrade(), InvalidateExisting: v.InvalidateExisting, MailSender: v.MailSender}
}

// EmailAuthV2 is version 2 of the intent.
type EmailAuthV2 EmailAuthV1

// EmailAuth creates a session key in the enclave and mails it to a user, encrypted to the requesting client.
type EmailAuth struct {
	Email              string                 `json:"email" rule:"required,email,email_ext"`
	TargetPublicKey    string                 `json:"targetPublicKey" rule:"required,hexadecimal"`
	APIKeyName         *string                `json:"apiKeyName" rule:"omitempty,label_length,label"`
	ExpirationSeconds  *string                `json:"expirationSeconds"`
	EmailCustomization EmailAuthCustomization `json:"emailCustomization" rule:"required"`
	InvalidateExisting *bool                  `json:"invalidateExisting"`
	MailSender

	bundleMail
}

// bundleMail are the terms that every mail with an encrypted key has.
type bundleMail struct {
	to      bundle.PublicKey
	words   login.Words
	seconds uint64
}

func readBundleMail(target string, custom *EmailAuthCustomization, expiration *string) (m bundleMail, err error) {
	if m.to, err = bundle.ParsePublicKey("targetPublicKey", target); err != nil {
		return m, err
	}
	if m.words, err = custom.words("emailCustomization."); err != nil {
		return m, err
	}
	m.seconds, err = sessionSeconds("expirationSeconds", expiration)
	return m, err
}

// A message is the content of a mail or text message besides the secret.
type message struct {
	login.Words
	template *login.Template // of a text message
	from     *MailSender
}

// restrict sets the message's name, its own or the organization's, and removes texts that the submitter may not choose. Users of a sub-organization are
// end users: their messages have the parent's name and no text or sender of their own, or they could send anything to anybody in its name.
func (m message) restrict(tx *activity.Tx) (message, error) {
	of, err := tx.IsByChild()
	if err != nil {
		return m, err
	}
	if of != nil {
		m = message{from: new(MailSender)}
	} else {
		of = tx.Tx
	}
	if m.AppName == "" {
		o, err := of.Organization()
		if err != nil {
			return m, err
		}
		m.AppName = o.Name
	}
	return m, nil
}

// send gives u the key and mails it.
func (m *bundleMail) send(tx *activity.Tx, u *org.User, from *MailSender, recovery bool, s *newSession) (*org.APIKey, error) {
	s.seconds = m.seconds
	k, text, err := sealedKey(tx, u, m.to, s)
	if err != nil {
		return nil, err
	}
	says, err := message{Words: m.words, from: from}.restrict(tx)
	if err != nil {
		return nil, err
	}
	life := 1000 * k.ExpirationSeconds
	c, err := login.BundleMail(&says.Words, recovery, text, life)
	if err != nil {
		return nil, err
	}
	return k, sendMail(tx, u.Email, c, says.from, tx.NowMs+life)
}

func (in *EmailAuth) Check() (err error) {
	in.bundleMail, err = readBundleMail(in.TargetPublicKey, &in.EmailCustomization, in.ExpirationSeconds)
	return err
}

// MailedKey is the result of mailing a key.
type MailedKey struct {
	UserID   string `json:"userId"`
	APIKeyID string `json:"apiKeyId"`
}

func mailKey(tx *activity.Tx, in *EmailAuth) (*MailedKey, error) {
	if err := user.MaySend(tx, login.Email, in.Email); err != nil {
		return nil, err
	}
	u, err := user.FindByContact(tx, login.Email, in.Email)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(activity.TextOf(in.APIKeyName), "Email Auth - "+timestamp(tx.NowMs))
	k, err := in.send(tx, u, &in.MailSender, false, &newSession{name: name, typ: typeMailed, alone: activity.IsOn(in.InvalidateExisting)})
	if err != nil {
		return nil, err
	}
	return &MailedKey{u.ID.String(), k.ID.String()}, nil
}

// InitUserEmailRecoveryV1 is version 1 of the intent.
type InitUserEmailRecoveryV1 struct {
	Email              string                    `json:"email" rule:"required,email,email_ext"`
	TargetPublicKey    string                    `json:"targetPublicKey" rule:"required,hexadecimal"`
	ExpirationSeconds  *string                   `json:"expirationSeconds"`
	EmailCustomization *EmailCustomizationParams `json:"emailCustomization"`
	MailSender
}

// InitUserEmailRecovery mails a key with which its holder may give the user one new passkey.
type InitUserEmailRecovery struct {
	Email              string                 `json:"email" rule:"required,email,email_ext"`
	TargetPublicKey    string                 `json:"targetPublicKey" rule:"required,hexadecimal"`
	ExpirationSeconds  *string                `json:"expirationSeconds"`
	EmailCustomization EmailAuthCustomization `json:"emailCustomization" rule:"required"`
	MailSender

	bundleMail
}

func (in *InitUserEmailRecovery) Check() (err error) {
	in.bundleMail, err = readBundleMail(in.TargetPublicKey, &in.EmailCustomization, in.ExpirationSeconds)
	return err
}

func initRecovery(tx *activity.Tx, in *InitUserEmailRecovery) (*user.UserID, error) {
	if !tx.Stamped.Profile.Zero() { // the key could add a passkey
		return nil, activity.ErrBounded
	}
	if err := user.MaySend(tx, login.Email, in.Email); err != nil {
		return nil, err
	}
	u, err := user.FindByContact(tx, login.Email, in.Email)
	if err != nil {
		return nil, err
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if o.Root(u.ID) {
		if err := user.CheckFeature(tx.Tx, "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY"); err != nil {
			return nil, err
		}
	}
	_, err = in.send(tx, u, &in.MailSender, true, &newSession{name: "Recovery - " + timestamp(tx.NowMs), typ: TypeRecovery, alone: true})
	return &user.UserID{UserID: u.ID.String()}, err
}

// RecoverUser gives the submitter, who stamps with a recovery key, a new passkey.
type RecoverUser struct {
	Authenticator user.AuthenticatorParams `json:"authenticator" rule:"required"`
	UserID        string                   `json:"userId" rule:"required,uuid"`
}

func (in *RecoverUser) Check() error {
	_, err := in.Authenticator.Registration("authenticator")
	return err
}

// RecoveredUser is the result of a recovery.
type RecoveredUser struct {
	AuthenticatorID []string `json:"authenticatorId"`
}

// recoverUser adds the passkey and removes the recovery key, which can be used once.
func recoverUser(tx *activity.Tx, in *RecoverUser) (*RecoveredUser, error) {
	if tx.Stamped.Type != TypeRecovery {
		return nil, activity.WrongCaller("a user is recovered by the key that was mailed for it")
	}
	ids, err := user.RegisterAuthenticators(tx, &user.CreateAuthenticators{UserID: in.UserID, Authenticators: []user.AuthenticatorParams{in.Authenticator}})
	if err != nil {
		return nil, err
	}
	_, err = user.Change(tx, in.UserID, func(u *org.User) error {
		keys := make([]org.APIKey, 0, len(u.APIKeys))
		for i := range u.APIKeys {
			if k := &u.APIKeys[i]; k.ID != tx.Stamped.ID {
				keys = append(keys, *k)
			} else if err := user.ForgetKey(tx, k); err != nil {
				return err
			}
		}
		u.APIKeys = keys
		return nil
	})
	return &RecoveredUser{ids.AuthenticatorIDs}, err
}
