package activity

import "slices"

// The shapes of passkeys and identity providers. They are read and repeated;
// what holds one is refused as UNIMPLEMENTED.

// AuthenticatorTransport is how an authenticator can be reached.
type AuthenticatorTransport string

var transports = []AuthenticatorTransport{"AUTHENTICATOR_TRANSPORT_BLE", "AUTHENTICATOR_TRANSPORT_INTERNAL", "AUTHENTICATOR_TRANSPORT_NFC", "AUTHENTICATOR_TRANSPORT_USB", "AUTHENTICATOR_TRANSPORT_HYBRID"}

// Valid tells whether t is one of the interface's.
func (t AuthenticatorTransport) Valid() bool { return slices.Contains(transports, t) }

// Attachment is how an authenticator belongs to its device.
type Attachment string

// Valid tells whether a is one of the interface's.
func (a Attachment) Valid() bool { return a == "cross-platform" || a == "platform" }

// AuthenticatorParamsV1 is a passkey as browsers first gave it.
type AuthenticatorParamsV1 struct {
	AuthenticatorName string                             `json:"authenticatorName" rule:"required,label_length,label"`
	UserID            string                             `json:"userId" rule:"required,uuid"`
	Attestation       PublicKeyCredentialWithAttestation `json:"attestation" rule:"required"`
	Challenge         string                             `json:"challenge" rule:"required,max=256"`
}

// PublicKeyCredentialWithAttestation is a browser's credential.
type PublicKeyCredentialWithAttestation struct {
	ID                      string                           `json:"id" rule:"required"`
	Type                    string                           `json:"type" rule:"required,oneof=public-key"`
	RawID                   string                           `json:"rawId" rule:"required"`
	AuthenticatorAttachment *Attachment                      `json:"authenticatorAttachment"`
	Response                AuthenticatorAttestationResponse `json:"response" rule:"required"`
	ClientExtensionResults  SimpleClientExtensionResults     `json:"clientExtensionResults" rule:"required"`
}

// AuthenticatorAttestationResponse is what an authenticator answered.
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

// Attestation is what an authenticator says of a new passkey.
type Attestation struct {
	CredentialID      string                   `json:"credentialId" rule:"required,max=256"`
	ClientDataJSON    string                   `json:"clientDataJson" rule:"required"`
	AttestationObject string                   `json:"attestationObject" rule:"required"`
	Transports        []AuthenticatorTransport `json:"transports" rule:"dive"`
}

// OauthProviderParamsV1 is an identity by its token.
type OauthProviderParamsV1 struct {
	ProviderName string `json:"providerName" rule:"required"`
	OidcToken    string `json:"oidcToken" rule:"required"`
}

// OauthProviderParams is an identity by its token or by its claims.
type OauthProviderParams struct {
	ProviderName string      `json:"providerName" rule:"required"`
	OidcToken    *string     `json:"oidcToken"`
	OidcClaims   *OidcClaims `json:"oidcClaims"`
}

// OidcClaims name an identity.
type OidcClaims struct {
	Iss string `json:"iss" rule:"required"`
	Sub string `json:"sub" rule:"required"`
	Aud string `json:"aud" rule:"required"`
}

// ClientSignatureScheme is the scheme of a client's own signature.
type ClientSignatureScheme string

// Valid tells whether s is one of the interface's.
func (s ClientSignatureScheme) Valid() bool { return s == "CLIENT_SIGNATURE_SCHEME_API_P256" }

// ClientSignature is a client's signature over a verification token.
type ClientSignature struct {
	PublicKey string                `json:"publicKey" rule:"required"`
	Scheme    ClientSignatureScheme `json:"scheme" rule:"required"`
	Message   string                `json:"message" rule:"required"`
	Signature string                `json:"signature" rule:"required"`
}

func carryProviders(olds []OauthProviderParamsV1) []OauthProviderParams {
	ps := make([]OauthProviderParams, len(olds))
	for i := range olds {
		ps[i] = OauthProviderParams{ProviderName: olds[i].ProviderName, OidcToken: &olds[i].OidcToken}
	}
	return ps
}
