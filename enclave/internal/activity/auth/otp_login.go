package auth

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// OTPLogins are the kinds that log in by a verification token.
var OTPLogins = activity.Family{
	activity.Kind[OTPLogin, LoginSession]{
		Name: "OTP_LOGIN", Resource: "AUTH", Action: "CREATE", ByParent: true, ByProxy: true, Run: otpLogin,
		Explain: func(tx *org.Tx, in *OTPLogin, o *show.Object) error { return in.explain(tx, o) },
		Older: []activity.Older{activity.Upgrade(func(v *OTPLoginV1) OTPLogin {
			in := OTPLogin{
				VerificationToken: v.VerificationToken, PublicKey: v.PublicKey, first: true, unsigned: v.ClientSignature == nil,
				LoginTerms: LoginTerms{ExpirationSeconds: v.ExpirationSeconds, InvalidateExisting: v.InvalidateExisting, SessionProfileID: v.SessionProfileID},
			}
			if v.ClientSignature != nil {
				in.ClientSignature = *v.ClientSignature
			}
			return in
		})},
		Params: (*OTPLogin).params,
	},
}

// OTPLoginV1 is version 1 of the intent.
type OTPLoginV1 struct {
	VerificationToken  string                `json:"verificationToken" rule:"required"`
	PublicKey          string                `json:"publicKey" rule:"omitempty,hexadecimal"`
	ExpirationSeconds  *string               `json:"expirationSeconds"`
	InvalidateExisting *bool                 `json:"invalidateExisting"`
	ClientSignature    *user.ClientSignature `json:"clientSignature"`
	SessionProfileID   *string               `json:"sessionProfileId"`
}

// OTPLogin starts a session of the user whose contact a verification token verifies.
type OTPLogin struct {
	VerificationToken string               `json:"verificationToken" rule:"required"`
	PublicKey         string               `json:"publicKey" rule:"omitempty,hexadecimal"`
	ClientSignature   user.ClientSignature `json:"clientSignature" rule:"required"`
	LoginTerms

	first, unsigned bool // unsigned: version 1, which needs no client signature if no key is bound to the token
}

func (in *OTPLogin) Check() error { return in.read(in.PublicKey) }

func otpLogin(tx *activity.Tx, in *OTPLogin) (*LoginSession, error) {
	signature := in.ClientSignature.Login()
	if in.unsigned {
		signature = nil
	}
	t, err := user.UseVerification(tx, in.VerificationToken, org.UsedLogin, func(u *login.UnprovenToken) (*login.VerificationToken, error) {
		return u.ForLogin("clientSignature", signature, in.public.String(), in.first)
	})
	if err != nil {
		return nil, err
	}
	u, err := user.LogInByContact(tx, t.Type, t.Contact)
	if err != nil {
		return nil, err
	}
	id, err := org.ParseID(t.ID)
	switch {
	case err != nil:
		return nil, err // the enclave has issued the token: an internal error
	case id.Ms() < u.NotBeforeMs:
		return nil, login.ExpiredVerificationToken("verificationToken")
	}
	return in.logIn(tx, u)
}

// useLoginToken spends the verification token for u and returns u with the contact verified.
func useLoginToken(tx *activity.Tx, u *org.User) (*org.User, error) {
	t := tx.Verification
	if t == nil {
		return nil, fault.New(fault.FailedPrecondition, "a log-in by a verification token must be allowed at once: it cannot wait for others")
	}
	if err := user.SpendVerification(tx, "X-Stamp-Attested", t, org.UsedLogin); err != nil {
		return nil, err
	}
	return user.WithContact(tx, u, t.Type)
}
