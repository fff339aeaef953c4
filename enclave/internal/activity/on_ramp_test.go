package activity_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

// compact encrypts a text as clients encrypt the secrets of on-ramp providers.
func compact(w *world, public, plain string) string {
	to, err := bundle.ParsePublicKey("", public)
	w.must(err)
	s, err := secret.From([]byte(plain))
	w.must(err)
	text, err := bundle.SealCompact(to, s)
	w.must(err)
	return text
}

func TestOnRampCredentials(t *testing.T) {
	w := newWorld(t)
	public := publicOf(w, w.roles.OnRamp)
	create := func() object {
		return object{"onrampProvider": "FIAT_ON_RAMP_PROVIDER_COINBASE", "publishableApiKey": "pk", "encryptedSecretApiKey": compact(w, public, "secret")}
	}
	full := with(with(with(create(), "projectId", "project"), "encryptedPrivateApiKey", compact(w, public, "private")), "sandboxMode", true)
	id := w.run("CREATE_FIAT_ON_RAMP_CREDENTIAL", full)["fiatOnRampCredentialId"].(string)
	kept := func() *org.OnRampCredential {
		i, err := org.ParseID(id)
		w.must(err)
		c, err := w.tx().OnRampCredential(i)
		w.must(err)
		return c
	}
	opens := func(sealed []byte, want string) {
		t.Helper()
		s, err := w.vault.Open(kept().ID, sealed)
		if err != nil || string(secrettest.Bytes(s)) != want {
			t.Errorf("%v", err)
		}
	}
	c := kept()
	opens(c.Secret, "secret")
	opens(c.Private, "private")
	if c.Provider != full["onrampProvider"] || c.ProjectID != "project" || c.PublishableKey != "pk" || c.EncryptedSecret != full["encryptedSecretApiKey"] ||
		c.EncryptedPrivate != full["encryptedPrivateApiKey"] || !c.Sandbox || c.CreatedMs != start {
		t.Errorf("%+v", c)
	}
	w.now += 1000
	w.run("UPDATE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": id, "onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "publishableApiKey": "pk2", "encryptedSecretApiKey": compact(w, public, "other")})
	c = kept()
	opens(c.Secret, "other")
	if c.Provider != "FIAT_ON_RAMP_PROVIDER_MOONPAY" || c.ProjectID != "" || c.PublishableKey != "pk2" || c.Private != nil || c.EncryptedPrivate != "" || !c.Sandbox || c.CreatedMs != start || c.UpdatedMs != start+1000 {
		t.Errorf("%+v", c)
	}
	nobody := w.newID().String()
	for _, c := range []struct {
		typ    string
		params any
		code   fault.Code
		says   string
	}{
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", with(create(), "onrampProvider", "FIAT_ON_RAMP_PROVIDER_OTHER"), 3, "onrampProvider"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", with(create(), "publishableApiKey", ""), 3, "publishableApiKey"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", with(create(), "publishableApiKey", "a\nb"), 3, "visible"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", with(create(), "projectId", strings.Repeat("a", 1025)), 3, "at most 1024"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", with(create(), "encryptedSecretApiKey", "nothing"), 3, "invalid secret"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", with(create(), "encryptedSecretApiKey", compact(w, w.freshP256(), "s")), 3, "not encrypted to this enclave"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", with(create(), "encryptedPrivateApiKey", compact(w, w.freshP256(), "s")), 3, "not encrypted to this enclave"},
		{"UPDATE_FIAT_ON_RAMP_CREDENTIAL", with(create(), "fiatOnrampCredentialId", nobody), 5, nobody},
		{"UPDATE_FIAT_ON_RAMP_CREDENTIAL", with(create(), "fiatOnrampCredentialId", "x"), 3, "UUID"},
		{"DELETE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": nobody}, 5, nobody},
	} {
		w.refused(c.typ, c.params, c.code, c.says)
	}
	for range 19 {
		w.run("CREATE_FIAT_ON_RAMP_CREDENTIAL", create())
	}
	w.refused("CREATE_FIAT_ON_RAMP_CREDENTIAL", create(), 8, "at most 20")
	w.run("DELETE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": id})
	if kept() != nil {
		t.Error("it is still there")
	}
}
