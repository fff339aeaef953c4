package query

import (
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// The credentials that organizations have with other services. Their secrets are
// told as they came: encrypted.
var providerCredentials = []*Query{
	stateQuery("get_oauth2_credential", getOAuth2Credential),
	stateQuery("list_oauth2_credentials", listOAuth2Credentials),
	stateQuery("list_fiat_on_ramp_credentials", listOnRampCredentials),
}

type oauth2CredentialRequest struct {
	Head
	OAuth2CredentialID string `json:"oauth2CredentialId" rule:"required"`
}

func getOAuth2Credential(v *View, in *oauth2CredentialRequest) ([]byte, error) {
	c, err := findNamed("OAuth 2.0 credential", "oauth2CredentialId", in.OAuth2CredentialID, v.OAuth2Credential)
	if f := fault.Of(err); f != nil && f.Code == fault.NotFound {
		err = fault.WithCode(f.Code, "OAUTH2_CREDENTIAL_NOT_FOUND", "%s", f.Message)
	}
	return one(`{"oauth2Credential":`, c, err, v.appendOAuth2Credential)
}

func listOAuth2Credentials(v *View, _ *organizationRequest) ([]byte, error) {
	cs, err := inOrder(v.EachOAuth2Credential, func(c *org.OAuth2Credential) created { return created{c.CreatedMs, c.ID} })
	return many(`{"oauth2Credentials":`, cs, err, v.appendOAuth2Credential)
}

func (v *View) appendOAuth2Credential(dst []byte, c *org.OAuth2Credential) []byte {
	dst = ident(dst, `{"oauth2CredentialId":`, c.ID)
	dst = ident(dst, `,"organizationId":`, v.ID)
	dst = text(dst, `,"provider":`, c.Provider)
	dst = text(dst, `,"clientId":`, c.ClientID)
	dst = text(dst, `,"encryptedClientSecret":`, c.Encrypted)
	return append(times(dst, c.CreatedMs, c.UpdatedMs), '}')
}

func listOnRampCredentials(v *View, _ *organizationRequest) ([]byte, error) {
	cs, err := inOrder(v.EachOnRampCredential, func(c *org.OnRampCredential) created { return created{c.CreatedMs, c.ID} })
	return many(`{"fiatOnRampCredentials":`, cs, err, v.appendOnRampCredential)
}

func (v *View) appendOnRampCredential(dst []byte, c *org.OnRampCredential) []byte {
	dst = ident(dst, `{"fiatOnrampCredentialId":`, c.ID)
	dst = ident(dst, `,"organizationId":`, v.ID)
	dst = text(dst, `,"onrampProvider":`, c.Provider)
	if c.ProjectID != "" {
		dst = text(dst, `,"projectId":`, c.ProjectID)
	}
	dst = text(dst, `,"publishableApiKey":`, c.PublishableKey)
	dst = text(dst, `,"encryptedSecretApiKey":`, c.EncryptedSecret)
	if c.EncryptedPrivate != "" {
		dst = text(dst, `,"encryptedPrivateApiKey":`, c.EncryptedPrivate)
	}
	dst = flag(dst, `,"sandboxMode":`, c.Sandbox)
	return append(times(dst, c.CreatedMs, c.UpdatedMs), '}')
}
