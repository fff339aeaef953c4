package query_test

import (
	"reflect"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// at is when the records of these tests were made.
var at = object{"seconds": "1", "nanos": "0"}

func TestOAuth2Credentials(t *testing.T) {
	w := newWorld(t)
	w.change(func(tx *org.Tx) {
		w.must(tx.PutOAuth2Credential(&org.OAuth2Credential{ID: id('R', 2), Provider: "OAUTH2_PROVIDER_DISCORD", ClientID: "two", Secret: []byte("sealed"), Encrypted: "aa", CreatedMs: 1000, UpdatedMs: 1000}))
		w.must(tx.PutOAuth2Credential(&org.OAuth2Credential{ID: id('R', 1), Provider: "OAUTH2_PROVIDER_X", ClientID: "one", Secret: []byte("sealed"), Encrypted: "bb", CreatedMs: 2000, UpdatedMs: 2000}))
	})
	want := object{"oauth2CredentialId": id('R', 2).String(), "organizationId": w.id.String(), "provider": "OAUTH2_PROVIDER_DISCORD", "clientId": "two", "encryptedClientSecret": "aa", "createdAt": at, "updatedAt": at}
	if got := w.get("get_oauth2_credential", object{"oauth2CredentialId": id('R', 2).String()})["oauth2Credential"]; !reflect.DeepEqual(got, any(want)) {
		t.Errorf("%v", got)
	}
	all := w.get("list_oauth2_credentials", nil)["oauth2Credentials"]
	if !reflect.DeepEqual(pick(all, "clientId"), []string{"two", "one"}) || !reflect.DeepEqual(all.([]any)[0], any(want)) {
		t.Errorf("%v", all)
	}
	_, err := w.ask("get_oauth2_credential", object{"oauth2CredentialId": id('R', 3).String()})
	if f := fault.Of(err); f == nil || f.Code != 5 || f.Name != "OAUTH2_CREDENTIAL_NOT_FOUND" {
		t.Error(err)
	}
	w.refused("get_oauth2_credential", object{"oauth2CredentialId": "x"}, 3, "must be a UUID")
}

func TestOnRampCredentials(t *testing.T) {
	w := newWorld(t)
	w.change(func(tx *org.Tx) {
		w.must(tx.PutOnRampCredential(&org.OnRampCredential{ID: id('S', 2), Provider: "FIAT_ON_RAMP_PROVIDER_COINBASE", ProjectID: "p", PublishableKey: "pk", Secret: []byte("sealed"), Private: []byte("sealed"),
			EncryptedSecret: "aa", EncryptedPrivate: "bb", Sandbox: true, CreatedMs: 1000, UpdatedMs: 1000}))
		w.must(tx.PutOnRampCredential(&org.OnRampCredential{ID: id('S', 1), Provider: "FIAT_ON_RAMP_PROVIDER_MOONPAY", PublishableKey: "pk2", Secret: []byte("sealed"), EncryptedSecret: "cc", CreatedMs: 2000, UpdatedMs: 2000}))
	})
	all := w.get("list_fiat_on_ramp_credentials", nil)["fiatOnRampCredentials"].([]any)
	want := object{"fiatOnrampCredentialId": id('S', 2).String(), "organizationId": w.id.String(), "onrampProvider": "FIAT_ON_RAMP_PROVIDER_COINBASE", "projectId": "p", "publishableApiKey": "pk",
		"encryptedSecretApiKey": "aa", "encryptedPrivateApiKey": "bb", "sandboxMode": true, "createdAt": at, "updatedAt": at}
	if len(all) != 2 || !reflect.DeepEqual(all[0], any(want)) {
		t.Errorf("%v", all)
	}
	if got := all[1].(object); got["projectId"] != nil || got["encryptedPrivateApiKey"] != nil || got["sandboxMode"] != false {
		t.Errorf("%v", got)
	}
}
