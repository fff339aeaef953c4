package query

import (
	"slices"

	"cloister/enclave/internal/org"
)

var onRamps = []*Query{stateQuery("list_fiat_on_ramp_credentials", listOnRampCredentials)}

func listOnRampCredentials(v *View, _ *OrganizationRequest) ([]byte, error) {
	var cs []*org.OnRampCredential
	err := v.EachOnRampCredential(func(c *org.OnRampCredential) bool {
		cs = append(cs, c)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(cs, func(a, b *org.OnRampCredential) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	write := func(dst []byte, c *org.OnRampCredential) []byte { return appendOnRampCredential(dst, v.ID, c) }
	return append(array(nil, `{"fiatOnRampCredentials":`, cs, write), '}'), nil
}

// appendOnRampCredential tells the secrets as they came: encrypted.
func appendOnRampCredential(dst []byte, of org.ID, c *org.OnRampCredential) []byte {
	dst = ident(dst, `{"fiatOnrampCredentialId":`, c.ID)
	dst = ident(dst, `,"organizationId":`, of)
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
