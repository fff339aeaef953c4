package matrix_test

import (
	"crypto/rand"

	"cloister/sim/authenticator"
	"cloister/sim/client"
)

// passkey is a new passkey and its registration as the interface takes it.
func (t *tenant) passkey() (*authenticator.Authenticator, object) {
	a, err := authenticator.New(authenticator.ES256, "example.com", "https://example.com")
	if err != nil {
		t.w.t.Error(err)
		return nil, nil
	}
	challenge := make([]byte, 32)
	rand.Read(challenge)
	r, err := a.Register(challenge, authenticator.None)
	if err != nil {
		t.w.t.Error(err)
		return nil, nil
	}
	return a, r.Params(t.name("Passkey"))
}

func (t *tenant) newPasskey() object {
	_, params := t.passkey()
	return params
}

// passkeys gives the root user and a user a passkey each.
func (t *tenant) passkeys() {
	for column, user := range map[string]string{"passkey-root": t.root.User, "passkey-user": t.as["user"].User} {
		a, params := t.passkey()
		t.do("CREATE_AUTHENTICATORS_V2", object{"userId": user, "authenticators": list(params)})
		t.as[column] = &principal{User: user, Stamp: client.ByPasskey(a)}
	}
}
