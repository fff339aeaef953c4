package user

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/webauthn"
)

// Authenticators are the kinds about passkeys.
var Authenticators = activity.Family{
	activity.Kind[CreateAuthenticators, AuthenticatorIDs]{
		Name: "CREATE_AUTHENTICATORS", Resource: "CREDENTIAL", Action: "CREATE", Run: RegisterAuthenticators,
		Explain: func(tx *org.Tx, in *CreateAuthenticators, o *show.Object) error { return in.explain(tx, o) },
		Older:   []activity.Older{activity.Upgrade(carryAuthenticatorsV1)},
		Self:    func(in *CreateAuthenticators) string { return in.UserID },
	},
	activity.Kind[DeleteAuthenticators, AuthenticatorIDs]{
		Name: "DELETE_AUTHENTICATORS", Resource: "CREDENTIAL", Action: "DELETE", Run: deleteAuthenticators,
		Explain: func(tx *org.Tx, in *DeleteAuthenticators, o *show.Object) error { return in.explain(tx, o) },
		Self:    func(in *DeleteAuthenticators) string { return in.UserID },
	},
}

// JSON types of passkeys and identity providers.

// AuthenticatorTransport is how an authenticator can be reached.
type AuthenticatorTransport string

var transports = []AuthenticatorTransport{"AUTHENTICATOR_TRANSPORT_BLE", "AUTHENTICATOR_TRANSPORT_INTERNAL", "AUTHENTICATOR_TRANSPORT_NFC", "AUTHENTICATOR_TRANSPORT_USB", "AUTHENTICATOR_TRANSPORT_HYBRID"}

// Valid reports whether t is a transport of the interface.
func (t AuthenticatorTransport) Valid() bool { return slices.Contains(transports, t) }

// Attachment is the relation of an authenticator to its device.
type Attachment string

// Valid reports whether a is an attachment of the interface.
func (a Attachment) Valid() bool { return a == "cross-platform" || a == "platform" }

// AuthenticatorParamsV1 is a passkey in the browser's encoding, of older versions.
type AuthenticatorParamsV1 struct {
	AuthenticatorName string                             `json:"authenticatorName" rule:"required,label_length,label"`
	UserID            string                             `json:"userId" rule:"required,uuid"`
	Attestation       PublicKeyCredentialWithAttestation `json:"attestation" rule:"required"`
	Challenge         string                             `json:"challenge" rule:"required,max=256"`
}

// PublicKeyCredentialWithAttestation is a browser's PublicKeyCredential.
type PublicKeyCredentialWithAttestation struct {
	ID                      string                           `json:"id" rule:"required"`
	Type                    string                           `json:"type" rule:"required,oneof=public-key"`
	RawID                   string                           `json:"rawId" rule:"required"`
	AuthenticatorAttachment *Attachment                      `json:"authenticatorAttachment"`
	Response                AuthenticatorAttestationResponse `json:"response" rule:"required"`
	ClientExtensionResults  SimpleClientExtensionResults     `json:"clientExtensionResults" rule:"required"`
}

// AuthenticatorAttestationResponse is the response of an authenticator.
type AuthenticatorAttestationResponse struct {
	ClientDataJSON          string                   `json:"clientDataJson" rule:"required"`
	AttestationObject       string                   `json:"attestationObject" rule:"required"`
	Transports              []AuthenticatorTransport `json:"transports,omitempty"`
	AuthenticatorAttachment *Attachment              `json:"authenticatorAttachment"`
}

// SimpleClientExtensionResults are the extensions that browsers report.
type SimpleClientExtensionResults struct {
	AppID        *bool                                           `json:"appid"`
	AppIDExclude *bool                                           `json:"appidExclude"`
	CredProps    *CredPropsAuthenticationExtensionsClientOutputs `json:"credProps"`
}

// CredPropsAuthenticationExtensionsClientOutputs are properties of a credential.
type CredPropsAuthenticationExtensionsClientOutputs struct {
	RK bool `json:"rk" rule:"required"`
}

// AuthenticatorParams is a passkey to be registered.
type AuthenticatorParams struct {
	AuthenticatorName string      `json:"authenticatorName" rule:"required,label_length,label"`
	Challenge         string      `json:"challenge" rule:"required,max=256"`
	Attestation       Attestation `json:"attestation" rule:"required"`
}

// Attestation is the attestation of a new passkey by its authenticator.
type Attestation struct {
	CredentialID      string                   `json:"credentialId" rule:"required,max=256"`
	ClientDataJSON    string                   `json:"clientDataJson" rule:"required"`
	AttestationObject string                   `json:"attestationObject" rule:"required"`
	Transports        []AuthenticatorTransport `json:"transports" rule:"dive"`
}

// CarryAuthenticator converts a passkey of the browser's encoding. The intent checks the user that it names.
func CarryAuthenticator(o *AuthenticatorParamsV1) AuthenticatorParams {
	r := &o.Attestation.Response
	return AuthenticatorParams{o.AuthenticatorName, o.Challenge, Attestation{o.Attestation.ID, r.ClientDataJSON, r.AttestationObject, r.Transports}}
}

// maxCredentialID bounds the text of a credential id in every version.
const maxCredentialID = 256

// Registration decodes the texts of p.
func (p *AuthenticatorParams) Registration(path string) (r webauthn.Registration, err error) {
	for _, m := range []struct {
		name, text string
		most       int
		into       *[]byte
	}{
		{"challenge", p.Challenge, maxCredentialID, &r.Challenge},
		{"attestation.credentialId", p.Attestation.CredentialID, webauthn.MaxCredentialID, &r.CredentialID},
		{"attestation.clientDataJson", p.Attestation.ClientDataJSON, webauthn.MaxClientDataJSON, &r.ClientDataJSON},
		{"attestation.attestationObject", p.Attestation.AttestationObject, webauthn.MaxAttestationObject, &r.AttestationObject},
	} {
		var ok bool
		if *m.into, ok = webauthn.Text(m.text, m.most); !ok || len(*m.into) == 0 {
			return r, fault.Field(path+"."+m.name, "invalid attestation: not base64url, or too long")
		}
	}
	if len(p.Attestation.CredentialID) > maxCredentialID {
		return r, fault.Field(path+".attestation.credentialId", "invalid attestation: not base64url, or too long")
	}
	return r, nil
}

// checkAuthenticators refuses malformed passkeys. Their attestations are verified when they are added: only the
// organization's record has the origins at which passkeys may be created.
func checkAuthenticators(path string, ps []AuthenticatorParams) error {
	for i := range ps {
		if _, err := ps[i].Registration(fmt.Sprintf("%sauthenticators.%d", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// CreateAuthenticatorsV1 is version 1 of the intent.
type CreateAuthenticatorsV1 struct {
	Authenticators []AuthenticatorParamsV1 `json:"authenticators" rule:"dive,required"`
	UserID         string                  `json:"userId" rule:"required,uuid"`
}

// CreateAuthenticators gives a user passkeys.
type CreateAuthenticators struct {
	Authenticators []AuthenticatorParams `json:"authenticators" rule:"dive,required"`
	UserID         string                `json:"userId" rule:"required,uuid"`

	others bool // a passkey of version 1 names another user
}

func carryAuthenticatorsV1(v *CreateAuthenticatorsV1) CreateAuthenticators {
	return CreateAuthenticators{activity.MapList(v.Authenticators, CarryAuthenticator), v.UserID,
		slices.ContainsFunc(v.Authenticators, func(p AuthenticatorParamsV1) bool { return !activity.SameID(p.UserID, v.UserID) })}
}

func (in *CreateAuthenticators) Check() error {
	if in.others {
		return fault.Field("authenticators.userId", "authenticators must be of the user that userId names")
	}
	return checkAuthenticators("", in.Authenticators)
}

// AuthenticatorIDs is the result of creating and of deleting passkeys.
type AuthenticatorIDs struct {
	AuthenticatorIDs []string `json:"authenticatorIds"`
}

// RegisterAuthenticators gives a user passkeys.
func RegisterAuthenticators(tx *activity.Tx, in *CreateAuthenticators) (*AuthenticatorIDs, error) {
	r := new(AuthenticatorIDs)
	_, err := Change(tx, in.UserID, func(u *org.User) (err error) {
		r.AuthenticatorIDs, err = addAuthenticators(tx, u, "", in.Authenticators)
		return err
	})
	return r, err
}

// addAuthenticators gives u, which the caller stores, more passkeys. As in ParentUsers, the organization's
// record need not exist yet.
func addAuthenticators(tx *activity.Tx, u *org.User, path string, ps []AuthenticatorParams) ([]string, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	if len(u.Authenticators)+len(ps) > tx.Limits.Authenticators {
		return nil, fault.New(fault.ResourceExhausted, "user has exceeded maximum authenticators: %d", tx.Limits.Authenticators)
	}
	allowed, err := allowedOrigins(tx)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(ps))
	for i := range ps {
		at := fmt.Sprintf("%sauthenticators.%d", path, i)
		a, counter, err := newAuthenticator(tx, at, &ps[i], allowed)
		if err != nil {
			return nil, err
		}
		curve, id := org.PasskeyCurve, hex.EncodeToString(a.CredentialID)
		held, err := tx.Credential(curve, id)
		if err != nil {
			return nil, err
		}
		if held != nil {
			return nil, fault.Field(at+".attestation.credentialId", "credential ID must be unique in the organization")
		}
		if err := tx.PutCredential(curve, id, &org.Credential{User: u.ID, Key: a.ID}); err != nil {
			return nil, err
		}
		if err := tx.PutCounter(a.ID, counter); err != nil {
			return nil, err
		}
		u.Authenticators = append(u.Authenticators, *a)
		ids[i] = a.ID.String()
	}
	return ids, nil
}

// newAuthenticator verifies a registration.
func newAuthenticator(tx *activity.Tx, path string, p *AuthenticatorParams, allowed webauthn.Origins) (*org.Authenticator, uint32, error) {
	r, err := p.Registration(path)
	if err != nil {
		return nil, 0, err
	}
	c, err := webauthn.Register(r, allowed)
	if err != nil {
		var why webauthn.Refusal
		errors.As(err, &why)
		return nil, 0, fault.Field(path+".attestation", "invalid attestation: %s", string(why))
	}
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, 0, err
	}
	a := &org.Authenticator{
		ID: id, Name: p.AuthenticatorName, CredentialID: c.ID, PublicKey: c.PublicKey, AAGUID: c.AAGUID, Attestation: c.Format,
		RPIDHash: c.RPIDHash, Origin: c.Origin, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs, How: tx.How(),
	}
	for _, t := range p.Attestation.Transports {
		if !slices.Contains(a.Transports, string(t)) {
			a.Transports = append(a.Transports, string(t))
		}
	}
	return a, c.Counter, nil
}

// FeatureOrigins is the feature that lists the origins at which passkeys may be created and used.
const FeatureOrigins = "FEATURE_NAME_WEBAUTHN_ORIGINS"

// WebAuthnOrigins returns the origins at which passkeys of organization o may be created and used: those of the parent's
// feature, else of its own, else any origin of the relying party. Parent is nil for a top-level organization; o is nil while
// it is being created. A malformed value allows no origin.
func WebAuthnOrigins(o, parent *org.Organization) webauthn.Origins {
	for _, rec := range []*org.Organization{parent, o} {
		if rec == nil {
			continue
		}
		if list, ok := rec.Features[FeatureOrigins]; ok {
			allowed, err := webauthn.ParseOrigins(list)
			if err != nil {
				return webauthn.NoOrigins()
			}
			return allowed
		}
	}
	return webauthn.Origins{}
}

// allowedOrigins are the WebAuthnOrigins of tx's organization.
func allowedOrigins(tx *activity.Tx) (webauthn.Origins, error) {
	o, err := tx.Organization()
	if err != nil {
		return webauthn.NoOrigins(), err
	}
	parentRecords, err := tx.ParentUsers()
	if err != nil {
		return webauthn.NoOrigins(), err
	}
	var parent *org.Organization
	if parentRecords != nil {
		if parent, err = parentRecords.Organization(); err != nil {
			return webauthn.NoOrigins(), err
		}
	}
	return WebAuthnOrigins(o, parent), nil
}

// DeleteAuthenticators removes passkeys of a user.
type DeleteAuthenticators struct {
	UserID           string   `json:"userId" rule:"required,uuid"`
	AuthenticatorIDs []string `json:"authenticatorIds" rule:"required,dive,required,uuid"`
}

func (in *DeleteAuthenticators) Check() error {
	return activity.CheckDistinct("authenticatorIds", in.AuthenticatorIDs)
}

func deleteAuthenticators(tx *activity.Tx, in *DeleteAuthenticators) (*AuthenticatorIDs, error) {
	_, err := Change(tx, in.UserID, func(u *org.User) error {
		for _, text := range in.AuthenticatorIDs {
			id, _ := org.ParseID(text) // its rule requires a UUID
			i := slices.IndexFunc(u.Authenticators, func(a org.Authenticator) bool { return a.ID == id })
			if i < 0 {
				return fault.New(fault.NotFound, "webauthn authenticator not found in organization: %s", id)
			}
			if err := forgetAuthenticator(tx, &u.Authenticators[i]); err != nil {
				return err
			}
			u.Authenticators = slices.Delete(u.Authenticators, i, i+1)
		}
		return nil
	})
	return &AuthenticatorIDs{in.AuthenticatorIDs}, err
}

// forgetAuthenticator removes the records of a passkey outside of its user's.
func forgetAuthenticator(tx *activity.Tx, a *org.Authenticator) error {
	tx.DeleteCredential(org.PasskeyCurve, hex.EncodeToString(a.CredentialID))
	return tx.PutCounter(a.ID, 0)
}

// OauthProviderParamsV1 is an identity, given by its token.
type OauthProviderParamsV1 struct {
	ProviderName string `json:"providerName" rule:"required"`
	OidcToken    string `json:"oidcToken" rule:"required"`
}

// OauthProviderParams is an identity, given by its token or by its claims.
type OauthProviderParams struct {
	ProviderName string      `json:"providerName" rule:"required"`
	OidcToken    *string     `json:"oidcToken"`
	OidcClaims   *OidcClaims `json:"oidcClaims"`
}

// OidcClaims are the claims that name an identity.
type OidcClaims struct {
	Iss string `json:"iss" rule:"required"`
	Sub string `json:"sub" rule:"required"`
	Aud string `json:"aud" rule:"required"`
}

// ClientSignatureScheme is the scheme of a ClientSignature.
type ClientSignatureScheme string

// Valid reports whether s is a scheme of the interface.
func (s ClientSignatureScheme) Valid() bool { return s == "CLIENT_SIGNATURE_SCHEME_API_P256" }

// ClientSignature is a client's signature over a verification token.
type ClientSignature struct {
	PublicKey string                `json:"publicKey" rule:"required"`
	Scheme    ClientSignatureScheme `json:"scheme" rule:"required"`
	Message   string                `json:"message" rule:"required"`
	Signature string                `json:"signature" rule:"required"`
}

// CarryProviders converts identities of older versions.
func CarryProviders(olds []OauthProviderParamsV1) []OauthProviderParams {
	return activity.MapList(olds, func(o *OauthProviderParamsV1) OauthProviderParams {
		return OauthProviderParams{ProviderName: o.ProviderName, OidcToken: &o.OidcToken}
	})
}
