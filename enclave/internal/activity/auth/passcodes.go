package auth

import (
	"crypto/sha256"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Passcodes are the kinds that send and verify passcodes.
var Passcodes = activity.Family{
	activity.Kind[InitOTP, OTPSent]{
		Name: "INIT_OTP", Resource: "OTP", Action: "CREATE", ByProxy: true, Run: initOTP, ResultKey: "initOtpResultV2",
		Older: []activity.Older{
			activity.Downgrade(activity.Upgrade(func(v *InitOTPV1) InitOTP { return InitOTP{PasscodeOptions: v.options(), plain: true} }), plainOTP),
			activity.Downgrade(activity.Upgrade(func(v *InitOTPV2) InitOTP { return InitOTP{PasscodeOptions: v.PasscodeOptions, plain: true} }), plainOTP),
		},
		Examine: func(tx *org.Tx, in *InitOTP) error { return in.examine(tx) },
	},
	activity.Kind[VerifyOTP, VerifiedOTP]{
		Name: "VERIFY_OTP", Resource: "OTP", Action: "VERIFY", ByProxy: true, Run: verifyOTP,
		Older: []activity.Older{activity.Upgrade(func(v *VerifyOTPV1) VerifyOTP {
			return VerifyOTP{OtpID: v.OtpID, ExpirationSeconds: v.ExpirationSeconds, code: v.OtpCode, publicKey: activity.TextOf(v.PublicKey), plain: true}
		})},
	},
	activity.Kind[InitOTPAuth, OTPID]{
		Name: "INIT_OTP_AUTH", Resource: "AUTH", Action: "CREATE", ByParent: true, Run: initOTPAuth, Results: []int{1, 2},
		Older: []activity.Older{
			activity.Upgrade(func(v *InitOTPAuthV1) InitOTPAuth { return InitOTPAuth{v.options()} }),
			activity.Upgrade(func(v *InitOTPAuthV2) InitOTPAuth { return InitOTPAuth{v.options()} }),
		},
		Examine: func(tx *org.Tx, in *InitOTPAuth) error { return in.examine(tx) },
		Params: func(in *InitOTPAuth) policy.Value {
			return activity.Param("otp_length", policy.Int(int64(in.length())))
		},
	},
	activity.Kind[OTPAuth, SessionKey]{Name: "OTP_AUTH", Resource: "AUTH", Action: "CREATE", ByParent: true, Run: otpAuth,
		Explain: func(tx *org.Tx, in *OTPAuth, o *show.Object) error { return in.explain(tx, o) }},
}

// Lifetimes of passcodes in seconds.
const (
	usualPasscodeSeconds = 300
	mostPasscodeSeconds  = 600
)

// sandboxLength is the length of the sandbox's passcode.
const sandboxLength = len(login.SandboxPasscode)

// SMSCustomization is an organization's template for text messages.
type SMSCustomization struct {
	Template *string `json:"template"`
}

// PasscodeOptions are the options for sending a passcode to a contact.
type PasscodeOptions struct {
	OTPType            string              `json:"otpType" rule:"required,oneof=OTP_TYPE_SMS OTP_TYPE_EMAIL OTP_TYPE_WHATSAPP"`
	Contact            string              `json:"contact" rule:"required"`
	AppName            string              `json:"appName" rule:"required,label_length,label"`
	OTPLength          *int32              `json:"otpLength" rule:"omitempty,min=6,max=9"`
	EmailCustomization *EmailCustomization `json:"emailCustomization"`
	SMSCustomization   *SMSCustomization   `json:"smsCustomization"`
	UserIdentifier     *string             `json:"userIdentifier"`
	Alphanumeric       *bool               `json:"alphanumeric"`
	ExpirationSeconds  *string             `json:"expirationSeconds" rule:"omitempty,numeric,max=600"`
	MailSender

	words    login.Words
	template *login.Template // of a text message
	seconds  uint64
}

// maxIdentifier bounds userIdentifier in bytes.
const maxIdentifier = 1024

func (w *PasscodeOptions) Check() (err error) {
	if err := login.CheckContact("contact", login.ContactType(w.OTPType), w.Contact); err != nil {
		return err
	}
	if w.words, err = w.EmailCustomization.words("emailCustomization."); err != nil {
		return err
	}
	if w.AppName != "" { // a member of some versions only; others have the name in the customization, or not at all
		w.words.AppName = w.AppName
	}
	if w.SMSCustomization != nil && activity.TextOf(w.SMSCustomization.Template) != "" {
		if w.template, err = login.ParseTemplate("smsCustomization.template", *w.SMSCustomization.Template); err != nil {
			return err
		}
	}
	if len(activity.TextOf(w.UserIdentifier)) > maxIdentifier {
		return fault.Field("userIdentifier", "must be at most %d bytes", maxIdentifier)
	}
	w.seconds, err = activity.ParseSeconds("expirationSeconds", w.ExpirationSeconds, usualPasscodeSeconds, mostPasscodeSeconds)
	return err
}

// examine refuses a contact type for which the organization has not enabled log-ins, whoever submits it.
func (w *PasscodeOptions) examine(tx *org.Tx) error {
	return user.MayLogIn(tx, login.ContactType(w.OTPType))
}

// length returns the number of characters of the passcode.
func (w *PasscodeOptions) length() int {
	if w.OTPLength == nil || *w.OTPLength == 0 {
		return login.DefaultPasscode
	}
	return int(*w.OTPLength)
}

// countedHashes returns the keys by which sent passcodes are counted: the contact, and the client's identifier of the
// user, usually an IP address.
func (w *PasscodeOptions) countedHashes() []org.Hash {
	t := login.ContactType(w.OTPType)
	hs := []org.Hash{sha256.Sum256([]byte("contact\x00" + string(t.Address()) + "\x00" + login.ContactKey(t, w.Contact)))}
	if id := activity.TextOf(w.UserIdentifier); id != "" {
		hs = append(hs, sha256.Sum256([]byte("identifier\x00"+id)))
	}
	return hs
}

// InitOTPV1 is version 1 of the intent.
type InitOTPV1 struct {
	InitOTPAuthV2
	ExpirationSeconds *string `json:"expirationSeconds" rule:"omitempty,numeric,max=600"`
}

func (v *InitOTPV1) options() PasscodeOptions {
	w := v.InitOTPAuthV2.options()
	w.ExpirationSeconds = v.ExpirationSeconds
	return w
}

// InitOTPV2 is version 2 of the intent, whose attempts come in clear.
type InitOTPV2 struct{ PasscodeOptions }

// InitOTP sends a passcode to a contact, even if no user has the contact.
type InitOTP struct {
	PasscodeOptions

	plain bool // versions whose attempts come in clear
}

// OTPSent is the result: the passcode's id and the signed key to which an attempt must be encrypted.
type OTPSent struct {
	OtpID                     string `json:"otpId"`
	OtpEncryptionTargetBundle string `json:"otpEncryptionTargetBundle"`
}

// OTPID is the result in the versions whose attempts come in clear.
type OTPID struct {
	OtpID string `json:"otpId"`
}

func plainOTP(r *OTPSent) *OTPID { return &OTPID{r.OtpID} }

func initOTP(tx *activity.Tx, in *InitOTP) (*OTPSent, error) {
	p, err := newPasscode(tx, &in.PasscodeOptions)
	if err != nil {
		return nil, err
	}
	r := &OTPSent{OtpID: p.ID.String()}
	if !in.plain {
		private, err := bundle.NewPrivateKey(tx.Rand)
		if err != nil {
			return nil, err
		}
		defer private.Wipe()
		if r.OtpEncryptionTargetBundle, err = tx.PasscodeTargets.Target(tx.ID.String(), "", private); err != nil {
			return nil, err
		}
		if p.Target, err = tx.Vault.Seal(p.ID, private); err != nil {
			return nil, err
		}
	}
	return r, sendPasscode(tx, &in.PasscodeOptions, p)
}

// newPasscode draws a passcode, unless too many were sent to the contact.
func newPasscode(tx *activity.Tx, w *PasscodeOptions) (*org.Passcode, error) {
	if err := user.MaySend(tx, login.ContactType(w.OTPType), w.Contact); err != nil {
		return nil, err
	}
	if err := tx.SweepPasscodes(); err != nil {
		return nil, err
	}
	id, err := org.NewTimedID(tx.Rand, tx.NowMs)
	if err != nil {
		return nil, err
	}
	p := &org.Passcode{ID: id, Type: w.OTPType, Contact: w.Contact, CreatedMs: tx.NowMs, ExpiresMs: tx.NowMs + 1000*w.seconds, Boot: tx.Boot, Counted: w.countedHashes(), Profile: tx.Stamped.Profile}
	for i, h := range p.Counted {
		if err := countPasscodes(tx, h, i == 0); err != nil {
			return nil, err
		}
	}
	length, letters := w.length(), w.Alphanumeric == nil || *w.Alphanumeric
	code, err := login.NewPasscode(tx.Rand, length, letters)
	if err != nil {
		return nil, err
	}
	p.Code = string(code)
	if inSandbox(tx, w) {
		if letters || length != sandboxLength {
			return nil, fault.Field("otpLength", "the sandbox's codes are numeric and of length %d", sandboxLength)
		}
		p.Code = string(login.SandboxPasscode)
	}
	return p, nil
}

func inSandbox(tx *activity.Tx, w *PasscodeOptions) bool {
	return tx.Capabilities.Sandbox && login.Sandbox(login.ContactType(w.OTPType), w.Contact)
}

// countPasscodes counts one more passcode and refuses it if too many were sent recently. For a contact it ends the oldest
// live ones that exceed the limit.
func countPasscodes(tx *activity.Tx, h org.Hash, contact bool) error {
	ps, err := tx.PasscodesBy(h)
	if err != nil {
		return err
	}
	recent, live := 0, []*org.Passcode{}
	for _, p := range ps {
		if tx.NowMs < p.CreatedMs+org.PasscodeWindowMs {
			recent++
		}
		if p.Live(tx.Boot, tx.NowMs) {
			live = append(live, p)
		}
	}
	if recent >= org.PasscodeSends {
		return login.TooManyPasscodes()
	}
	for ; contact && len(live) >= org.PasscodeActive; live = live[1:] {
		over := *live[0]
		over.Over, over.Target = true, nil
		if err := tx.PutPasscode(&over); err != nil {
			return err
		}
	}
	return nil
}

// sendPasscode stores the passcode and queues its message until it expires.
func sendPasscode(tx *activity.Tx, w *PasscodeOptions, p *org.Passcode) error {
	if err := tx.PutPasscode(p); err != nil || inSandbox(tx, w) {
		return err
	}
	code := login.Passcode(p.Code)
	says, err := message{w.words, w.template, &w.MailSender}.restrict(tx)
	if err != nil {
		return err
	}
	if t := login.ContactType(p.Type); t.IsPhone() {
		text, err := login.PasscodeText(says.template, says.AppName, code)
		if err != nil {
			return err
		}
		return sendText(tx, &org.Text{To: p.Contact, Body: text, WhatsApp: t == login.WhatsApp}, p.ExpiresMs)
	}
	c, err := login.PasscodeMail(&says.Words, code, p.ExpiresMs-p.CreatedMs)
	if err != nil {
		return err
	}
	return sendMail(tx, p.Contact, c, says.from, p.ExpiresMs)
}

// attempt checks an entered passcode. A wrong one is counted even though the activity fails; for a right one it returns the record, used up.
func attempt(tx *activity.Tx, text string, legacy bool, enter func(*org.Passcode) (entered string, err error)) (*org.Passcode, error) {
	id, err := org.ParseID(text)
	if err != nil {
		return nil, login.InvalidPasscode()
	}
	old, err := tx.Passcode(id)
	if err != nil {
		return nil, err
	}
	if old == nil || !old.Live(tx.Boot, tx.NowMs) || old.Legacy != legacy {
		return nil, login.InvalidPasscode()
	}
	p := *old
	entered, err := enter(old)
	if err == nil && !login.Passcode(p.Code).Matches(entered) {
		err = login.InvalidPasscode()
	}
	if fault.Of(err) != nil {
		p.Tries++
	} else if err == nil {
		p.Over = true
	} else {
		return nil, err
	}
	if p.Over || p.Tries >= org.PasscodeTries {
		p.Target = nil
	}
	var bad error
	tx.ChangeDespiteRefusal(func(t *org.Tx) {
		if err := t.PutPasscode(&p); err != nil {
			bad = err
		}
	})
	if bad == nil && err == nil {
		bad = tx.BindProfile(p.Profile)
	}
	if bad != nil {
		return nil, bad
	}
	return &p, err
}

// VerifyOTPV1 is version 1 of the intent. The host reads the passcode in clear and could use it first.
type VerifyOTPV1 struct {
	OtpID             string  `json:"otpId" rule:"required"`
	OtpCode           string  `json:"otpCode" rule:"required" show:"masked"`
	ExpirationSeconds *string `json:"expirationSeconds" rule:"omitempty,numeric,max=86400"`
	PublicKey         *string `json:"publicKey" rule:"omitempty,hexadecimal"`
}

// VerifyOTP exchanges a passcode for a verification token of its contact. The passcode comes encrypted, together with
// the key that the token is bound to.
type VerifyOTP struct {
	OtpID              string  `json:"otpId" rule:"required"`
	EncryptedOtpBundle string  `json:"encryptedOtpBundle" rule:"required"`
	ExpirationSeconds  *string `json:"expirationSeconds" rule:"omitempty,numeric,max=86400"`

	plain           bool // the version whose attempts come in clear
	code, publicKey string
	bound           login.PublicKey
	seconds         uint64
}

func (in *VerifyOTP) Check() (err error) {
	if in.publicKey != "" {
		if in.bound, err = login.ParsePublicKey("publicKey", in.publicKey); err != nil {
			return err
		}
	}
	in.seconds, err = activity.ParseSeconds("expirationSeconds", in.ExpirationSeconds, user.UsualTokenSeconds, user.MaxTokenSeconds)
	return err
}

// VerifiedOTP is the result of verifying a passcode.
type VerifiedOTP struct {
	VerificationToken string `json:"verificationToken"`
}

func verifyOTP(tx *activity.Tx, in *VerifyOTP) (*VerifiedOTP, error) {
	bound := ""
	if in.plain && in.publicKey != "" {
		bound = in.bound.String()
	}
	p, err := attempt(tx, in.OtpID, false, func(p *org.Passcode) (string, error) {
		switch {
		case in.plain != (p.Target == nil): // encrypted and clear attempts are not interchangeable
			return "", login.InvalidPasscode()
		case in.plain:
			return in.code, nil
		}
		target, err := tx.Vault.OpenPasscodeTarget(p)
		if err != nil {
			return "", err
		}
		defer target.Wipe()
		a, err := login.OpenAttempt("encryptedOtpBundle", in.EncryptedOtpBundle, target)
		if err != nil {
			return "", err
		}
		bound = a.PublicKey.String()
		return a.Entered, nil
	})
	if err != nil {
		return nil, err
	}
	text, err := user.IssueVerification(tx, p, bound, in.seconds, in.plain)
	return &VerifiedOTP{text}, err
}

// InitOTPAuthV1 is version 1 of the intent.
type InitOTPAuthV1 struct {
	OTPType            string                    `json:"otpType" rule:"required,oneof=OTP_TYPE_SMS OTP_TYPE_EMAIL OTP_TYPE_WHATSAPP"`
	Contact            string                    `json:"contact" rule:"required"`
	EmailCustomization *EmailCustomizationParams `json:"emailCustomization"`
	SMSCustomization   *SMSCustomization         `json:"smsCustomization"`
	UserIdentifier     *string                   `json:"userIdentifier"`
	MailSender
}

func (v *InitOTPAuthV1) options() PasscodeOptions {
	return PasscodeOptions{
		OTPType: v.OTPType, Contact: v.Contact, AppName: v.EmailCustomization.appName(), EmailCustomization: v.EmailCustomization.withoutName(),
		SMSCustomization: v.SMSCustomization, UserIdentifier: v.UserIdentifier, MailSender: v.MailSender,
	}
}

// InitOTPAuthV2 is version 2 of the intent.
type InitOTPAuthV2 struct {
	InitOTPAuthV1
	OTPLength    *int32 `json:"otpLength" rule:"omitempty,min=6,max=9"`
	Alphanumeric *bool  `json:"alphanumeric"`
}

func (v *InitOTPAuthV2) options() PasscodeOptions {
	w := v.InitOTPAuthV1.options()
	w.OTPLength, w.Alphanumeric = v.OTPLength, v.Alphanumeric
	return w
}

// InitOTPAuth sends a passcode that starts a session directly, without a token.
type InitOTPAuth struct{ PasscodeOptions }

func initOTPAuth(tx *activity.Tx, in *InitOTPAuth) (*OTPID, error) {
	p, err := newPasscode(tx, &in.PasscodeOptions)
	if err != nil {
		return nil, err
	}
	p.Legacy = true
	return &OTPID{p.ID.String()}, sendPasscode(tx, &in.PasscodeOptions, p)
}

// OTPAuth exchanges a passcode of InitOTPAuth for a session key, created in the enclave.
type OTPAuth struct {
	OtpID           string `json:"otpId" rule:"required"`
	OtpCode         string `json:"otpCode" rule:"required" show:"masked"`
	TargetPublicKey string `json:"targetPublicKey" rule:"omitempty,hexadecimal"`
	SealedSession
}

func (in *OTPAuth) Check() error { return in.read(in.TargetPublicKey) }

func otpAuth(tx *activity.Tx, in *OTPAuth) (*SessionKey, error) {
	p, err := attempt(tx, in.OtpID, true, func(*org.Passcode) (string, error) { return in.OtpCode, nil })
	if err != nil {
		return nil, err
	}
	t := login.ContactType(p.Type)
	u, err := user.LogInByContact(tx, t, p.Contact)
	switch {
	case err != nil:
		return nil, err
	case p.CreatedMs < u.NotBeforeMs:
		return nil, login.InvalidPasscode()
	}
	return in.open(tx, u, "OTP Auth - "+timestamp(tx.NowMs), "CREDENTIAL_TYPE_OTP_AUTH_KEY_P256")
}
