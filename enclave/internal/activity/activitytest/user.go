package activitytest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"slices"

	"cloister/enclave/internal/org"
	"cloister/sim/authenticator"
)

const pageRP = "cloister.test"

// PageOrigin is the origin at which passkeys are used.
const PageOrigin = "https://app.cloister.test"

// NewPasskey makes a passkey and the parameters that register it.
func (w *World) NewPasskey(f authenticator.Format) (*authenticator.Authenticator, Object) {
	w.TB.Helper()
	a, err := authenticator.New(authenticator.ES256, pageRP, PageOrigin)
	w.Must(err)
	return a, w.PasskeyParams(a, f)
}

// PasskeyParams are the parameters that register a passkey.
func (w *World) PasskeyParams(a *authenticator.Authenticator, f authenticator.Format) Object {
	w.TB.Helper()
	r, err := a.Register([]byte("a challenge"), f)
	w.Must(err)
	return r.Params("passkey")
}

// Passkeys are the parameters of CREATE_AUTHENTICATORS.
func Passkeys(user string, ps ...Object) Object { return Object{"userId": user, "authenticators": ps} }

// Invitation are the parameters of an invitation, with changed members.
func Invitation(name, sender string, change ...any) Object {
	i := Object{"receiverUserName": name, "receiverUserEmail": "guest@example.org", "receiverUserTags": []any{}, "accessType": "ACCESS_TYPE_WEB", "senderUserId": sender}
	for n := 0; n+1 < len(change); n += 2 {
		i[change[n].(string)] = change[n+1]
	}
	return i
}

// Invitations are the parameters of CREATE_INVITATIONS.
func Invitations(is ...Object) Object { return Object{"invitations": is} }

// Claims are the parameters of a provider given by claims.
func Claims(iss, sub, aud string) Object {
	return Object{"providerName": "p", "oidcClaims": Object{"iss": iss, "sub": sub, "aud": aud}}
}

// Identity gives a user an identity as if a token had proven it, and updates the
// parent's look-up keys as after any activity.
func (w *World) Identity(user, iss, sub, aud string) string {
	w.TB.Helper()
	id := w.NewID()
	before := w.UserOf(user)
	after := *before
	after.OauthProviders = append(slices.Clone(after.OauthProviders), org.OauthProvider{ID: id, Name: "proven", Issuer: iss, Subject: sub, Audience: aud, CreatedMs: w.Now, UpdatedMs: w.Now})
	w.Alter(func(tx *org.Tx) { w.Must(tx.PutUser(&after)) })
	if w.Parent != nil {
		w.Parent.Alter(func(tx *org.Tx) {
			w.Must(tx.LinkUser(&org.Child{ID: w.ID, CreatedMs: w.Organization().CreatedMs}, before, &after))
		})
	}
	return id.String()
}

// NewUser creates one user and returns its id.
func (w *World) NewUser(u Object) string {
	w.TB.Helper()
	return List(w.Run("CREATE_USERS_V4", Object{"users": []any{u}}), "userIds")[0]
}

// UserOf returns the record of a user.
func (w *World) UserOf(text string) *org.User {
	w.TB.Helper()
	id, err := org.ParseID(text)
	w.Must(err)
	u, err := w.Tx().User(id)
	w.Must(err)
	return u
}

// PasskeyOf makes a new passkey in the browser's encoding, without an attestation statement.
func PasskeyOf(w *World, name string) Object {
	public, _, err := ed25519.GenerateKey(w.Rand)
	w.Must(err)
	id := w.NewID()
	party := sha256.Sum256([]byte("example.org"))
	data := append(party[:], 0x41, 0, 0, 0, 7)
	data = append(append(data, make([]byte, 16)...), 0, byte(len(id)))
	data = append(append(data, id[:]...), 0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32) // a COSE_Key for EdDSA
	data = append(data, public...)
	o := append([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), byte(len(data)))
	o = append(o, data...)
	client := JSON(Object{"type": "webauthn.create", "challenge": "Y2hhbGxlbmdl", "origin": "https://example.org"})
	e := base64.RawURLEncoding.EncodeToString
	return Object{"authenticatorName": name, "challenge": "Y2hhbGxlbmdl", "attestation": Object{
		"credentialId": e(id[:]), "clientDataJson": e(client), "attestationObject": e(o), "transports": []any{}}}
}

// Alter changes records without an activity.
func (w *World) Alter(change func(tx *org.Tx)) {
	w.TB.Helper()
	tx := w.Tx()
	change(tx)
	w.Keep(tx)
}
