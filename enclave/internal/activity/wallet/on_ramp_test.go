package wallet_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

// compact encrypts a text as clients encrypt the secrets of on-ramp providers.
func compact(w *world, public, plain string) string {
	to, err := bundle.ParsePublicKey("", public)
	w.Must(err)
	s, err := secret.From([]byte(plain))
	w.Must(err)
	text, err := bundle.SealCompact(to, s)
	w.Must(err)
	return text
}

func TestOnRampCredentials(t *testing.T) {
	w := activitytest.New(t)
	public := w.PublicOf(w.Roles.OnRamp)
	create := func() object {
		return object{"onrampProvider": "FIAT_ON_RAMP_PROVIDER_COINBASE", "publishableApiKey": "pk", "encryptedSecretApiKey": compact(w, public, "secret")}
	}
	full := activitytest.With(activitytest.With(activitytest.With(create(), "projectId", "project"), "encryptedPrivateApiKey", compact(w, public, "private")), "sandboxMode", true)
	id := w.Run("CREATE_FIAT_ON_RAMP_CREDENTIAL", full)["fiatOnRampCredentialId"].(string)
	kept := func() *org.OnRampCredential {
		i, err := org.ParseID(id)
		w.Must(err)
		c, err := w.Tx().OnRampCredential(i)
		w.Must(err)
		return c
	}
	opens := func(sealed []byte, want string) {
		t.Helper()
		s, err := w.Vault.Open(kept().ID, sealed)
		if err != nil || string(secrettest.Bytes(s)) != want {
			t.Errorf("%v", err)
		}
	}
	c := kept()
	opens(c.Secret, "secret")
	opens(c.Private, "private")
	if c.Provider != full["onrampProvider"] || c.ProjectID != "project" || c.PublishableKey != "pk" || c.EncryptedSecret != full["encryptedSecretApiKey"] ||
		c.EncryptedPrivate != full["encryptedPrivateApiKey"] || !c.Sandbox || c.CreatedMs != activitytest.Start {
		t.Errorf("%+v", c)
	}
	w.Now += 1000
	w.Run("UPDATE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": id, "onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "publishableApiKey": "pk2", "encryptedSecretApiKey": compact(w, public, "other")})
	c = kept()
	opens(c.Secret, "other")
	if c.Provider != "FIAT_ON_RAMP_PROVIDER_MOONPAY" || c.ProjectID != "" || c.PublishableKey != "pk2" || c.Private != nil || c.EncryptedPrivate != "" || !c.Sandbox || c.CreatedMs != activitytest.Start || c.UpdatedMs != activitytest.Start+1000 {
		t.Errorf("%+v", c)
	}
	nobody := w.NewID().String()
	for _, c := range []struct {
		typ    string
		params any
		code   fault.Code
		says   string
	}{
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "onrampProvider", "FIAT_ON_RAMP_PROVIDER_OTHER"), 3, "onrampProvider"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "publishableApiKey", ""), 3, "publishableApiKey"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "publishableApiKey", "a\nb"), 3, "visible"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "projectId", strings.Repeat("a", 1025)), 3, "at most 1024"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "encryptedSecretApiKey", "nothing"), 3, "invalid secret"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "encryptedSecretApiKey", compact(w, w.FreshP256(), "s")), 3, "not encrypted to this enclave"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "encryptedPrivateApiKey", compact(w, w.FreshP256(), "s")), 3, "not encrypted to this enclave"},
		{"UPDATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "fiatOnrampCredentialId", nobody), 5, nobody},
		{"UPDATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "fiatOnrampCredentialId", "x"), 3, "UUID"},
		{"DELETE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": nobody}, 5, nobody},
	} {
		w.Refuse(c.typ, c.params, c.code, c.says)
	}
	for range 19 {
		w.Run("CREATE_FIAT_ON_RAMP_CREDENTIAL", create())
	}
	w.Refuse("CREATE_FIAT_ON_RAMP_CREDENTIAL", create(), 8, "at most 20")
	w.Run("DELETE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": id})
	if kept() != nil {
		t.Error("it is still there")
	}
}
