package query

import (
	"slices"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var oauth2 = []*Query{
	stateQuery("get_oauth2_credential", getOAuth2Credential),
	stateQuery("list_oauth2_credentials", listOAuth2Credentials),
}

// OAuth2CredentialRequest names an OAuth 2.0 credential.
type OAuth2CredentialRequest struct {
	Head
	OAuth2CredentialID string `json:"oauth2CredentialId" rule:"required"`
}

func getOAuth2Credential(v *View, in *OAuth2CredentialRequest) ([]byte, error) {
	c, err := findNamed("OAuth 2.0 credential", "oauth2CredentialId", in.OAuth2CredentialID, v.OAuth2Credential)
	if f := fault.Of(err); f != nil && f.Code == fault.NotFound {
		return nil, fault.WithCode(f.Code, "OAUTH2_CREDENTIAL_NOT_FOUND", "%s", f.Message)
	}
	if err != nil {
		return nil, err
	}
	return append(appendOAuth2Credential(append([]byte(nil), `{"oauth2Credential":`...), v.ID, c), '}'), nil
}

func listOAuth2Credentials(v *View, _ *OrganizationRequest) ([]byte, error) {
	var cs []*org.OAuth2Credential
	err := v.EachOAuth2Credential(func(c *org.OAuth2Credential) bool {
		cs = append(cs, c)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(cs, func(a, b *org.OAuth2Credential) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	write := func(dst []byte, c *org.OAuth2Credential) []byte { return appendOAuth2Credential(dst, v.ID, c) }
	return append(array(nil, `{"oauth2Credentials":`, cs, write), '}'), nil
}

// appendOAuth2Credential tells the secret as it came: encrypted.
func appendOAuth2Credential(dst []byte, of org.ID, c *org.OAuth2Credential) []byte {
	dst = ident(dst, `{"oauth2CredentialId":`, c.ID)
	dst = ident(dst, `,"organizationId":`, of)
	dst = text(dst, `,"provider":`, c.Provider)
	dst = text(dst, `,"clientId":`, c.ClientID)
	dst = text(dst, `,"encryptedClientSecret":`, c.Encrypted)
	return append(times(dst, c.CreatedMs, c.UpdatedMs), '}')
}
