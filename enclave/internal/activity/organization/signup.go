package organization

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// signup is the use of a verification token at a sign-up: it verifies the contact of one of the new root users.
type signup struct {
	token     string
	signature *user.ClientSignature
	usage     login.Usage // the usage that the client must have signed
}

// Check refuses a sign-up that no token can make valid.
func (s *signup) Check() error {
	switch {
	case s.token == "" && s.signature != nil:
		return fault.Field("clientSignature", "is of a verification token: there is none")
	case s.token != "" && s.usage == login.SignupV2 && s.signature == nil:
		return fault.Field("clientSignature", "must be given with a verification token")
	}
	return nil
}

// A verifiedContact is the contact that was verified, and its user's index in a list. Nil: none.
type verifiedContact struct {
	user    int
	contact login.ContactType
}

func (v *verifiedContact) isOf(user int) bool { return v != nil && v.user == user }

// verify spends the token, if there is one, and returns the contact that it verifies, of one of users.
func (s *signup) verify(tx *activity.Tx, users []user.RootUserParams) (*verifiedContact, error) {
	if s.token == "" {
		return nil, nil
	}
	v := &verifiedContact{user: -1}
	t, err := user.UseVerification(tx, s.token, org.UsedSignup, func(u *login.UnprovenToken) (*login.VerificationToken, error) {
		v.user = slices.IndexFunc(users, func(p user.RootUserParams) bool {
			return u.About(login.Email, activity.TextOf(p.UserEmail)) || u.About(login.SMS, activity.TextOf(p.UserPhoneNumber))
		})
		if v.user < 0 {
			return nil, user.WrongContact("the root users have")
		}
		return u.ForSignup("clientSignature", s.signature.Login(), s.usage, signedFields(&users[v.user]))
	})
	if err != nil {
		return nil, err
	}
	v.contact = t.Type
	held, err := tx.ChildrenBy(user.ChildVerified(t.Type), login.ContactKey(t.Type, t.Contact), nil, 1)
	if err == nil && len(held) > 0 {
		err = user.ErrClaimed
	}
	return v, err
}

// signedFields returns the fields of a new user that a client signs.
func signedFields(u *user.RootUserParams) *login.Signup {
	s := &login.Signup{Email: activity.TextOf(u.UserEmail), PhoneNumber: activity.TextOf(u.UserPhoneNumber)}
	if len(u.APIKeys) > 0 {
		s.APIKeys = activity.AppendShape(nil, u.APIKeys)
	}
	if len(u.Authenticators) > 0 {
		s.Authenticators = activity.AppendShape(nil, u.Authenticators)
	}
	if len(u.OauthProviders) > 0 {
		s.OauthProviders = activity.AppendShape(nil, u.OauthProviders)
	}
	return s
}

// brought returns the origin of a new sub-organization's credentials. If the auth proxy signs up a single key, a log-in by that key finds the
// sub-organization, however often others sign it up; beside any other credential, another person could have a way in.
func brought(tx *activity.Tx, in *CreateSubOrganization) (org.How, error) {
	proxied, err := user.FromProxy(tx, tx.Tx)
	switch {
	case err != nil || !proxied:
		return org.HowVouched, err
	case len(in.RootUsers) != 1 || in.signup.token != "":
		return org.HowSignedUp, nil
	}
	u := &in.RootUsers[0]
	ways := len(u.APIKeys) + len(u.Authenticators)
	for i := range u.OauthProviders {
		if u.OauthProviders[i].OidcClaims == nil { // claims extend the identity of a token to another client, and are no other way to log in
			ways++
		}
	}
	if ways != 1 {
		return org.HowSignedUp, nil
	}
	return org.HowAlone, nil
}

// refuseHeldKeys refuses a sign-up through the auth proxy with a key or passkey that another sub-organization of the
// parent has: a log-in by it would find that one.
func refuseHeldKeys(tx *activity.Tx, in *CreateSubOrganization) error {
	if proxied, err := user.FromProxy(tx, tx.Tx); err != nil || !proxied {
		return err
	}
	for i := range in.RootUsers {
		u, path := &in.RootUsers[i], fmt.Sprintf("rootUsers.%d.", i)
		for j := range u.APIKeys {
			k := &u.APIKeys[j]
			if err := refuseChild(tx, string(k.CurveType)+":"+strings.ToLower(k.PublicKey), activity.FieldAt(path+"apiKeys", j, "publicKey")); err != nil {
				return err
			}
		}
		for j := range u.Authenticators {
			r, err := u.Authenticators[j].Registration(path)
			if err != nil {
				return err
			}
			if err := refuseChild(tx, org.PasskeyCurve+":"+hex.EncodeToString(r.CredentialID), activity.FieldAt(path+"authenticators", j, "attestation.credentialId")); err != nil {
				return err
			}
		}
	}
	return nil
}

func refuseChild(tx *activity.Tx, credential, field string) error {
	held, err := tx.IsClaimed(credential)
	if err == nil && held {
		err = fault.Field(field, "credential is of another sub-organization already")
	}
	return err
}
