package auth

import (
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// OauthLogins are the kinds that log in by an identity token.
var OauthLogins = activity.Family{
	activity.Kind[Oauth, SessionKey]{Name: "OAUTH", Resource: "AUTH", Action: "CREATE", ByParent: true, Run: oauthKey,
		Explain: func(tx *org.Tx, in *Oauth, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[OauthLogin, LoginSession]{
		Name: "OAUTH_LOGIN", Resource: "AUTH", Action: "CREATE", ByParent: true, ByProxy: true, Run: oauthLogin,
		Explain: func(tx *org.Tx, in *OauthLogin, o *show.Object) error { return in.explain(tx, o) },
		Params:  (*OauthLogin).params,
	},
}

const typeOauth = "CREDENTIAL_TYPE_OAUTH_KEY_P256"

// Oauth logs the user of an identity token in: it creates a session key in the enclave and returns it encrypted.
type Oauth struct {
	OidcToken       string `json:"oidcToken" rule:"required"`
	TargetPublicKey string `json:"targetPublicKey" rule:"required,hexadecimal"`
	SealedSession
}

func (in *Oauth) Check() error {
	if err := in.read(in.TargetPublicKey); err != nil {
		return err
	}
	return user.CheckIdentityToken("oidcToken", in.OidcToken)
}

func oauthKey(tx *activity.Tx, in *Oauth) (*SessionKey, error) {
	// Clients hash the key in their own encoding: compressed, or as they send it.
	u, err := identify(tx, in.OidcToken, in.to.String(), strings.ToLower(in.TargetPublicKey))
	if err != nil {
		return nil, err
	}
	return in.open(tx, u, "Oauth - "+timestamp(tx.NowMs), typeOauth)
}

// OauthLogin starts a session of the user of an identity token, with a key of the client.
type OauthLogin struct {
	OidcToken string `json:"oidcToken" rule:"required"`
	PublicKey string `json:"publicKey" rule:"omitempty,hexadecimal"`
	LoginTerms
}

func (in *OauthLogin) Check() error {
	if err := in.read(in.PublicKey); err != nil {
		return err
	}
	return user.CheckIdentityToken("oidcToken", in.OidcToken)
}

func oauthLogin(tx *activity.Tx, in *OauthLogin) (*LoginSession, error) {
	u, err := identify(tx, in.OidcToken, in.public.String())
	if err != nil {
		return nil, err
	}
	return in.logIn(tx, u)
}

// identify verifies an identity token and returns its user. The token's nonce must be the hash of one of keys, the
// encodings of one key that clients hash.
func identify(tx *activity.Tx, token string, keys ...string) (*org.User, error) {
	i, err := user.VerifyIdentityToken(tx, "oidcToken", token)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(keys, i.BoundTo) {
		return user.FindByIdentity(tx, i)
	}
	return nil, fault.Field("oidcToken", "invalid OIDC token: its nonce is not the hash of the public key").WithName("INVALID_OIDC_TOKEN")
}
