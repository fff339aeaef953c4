package query_test

import (
	"reflect"
	"testing"

	"cloister/enclave/internal/org"
)

func TestAuthenticators(t *testing.T) {
	w := newWorld(t)
	w.change(func(tx *org.Tx) {
		for n := byte(1); n <= 2; n++ {
			old, err := tx.User(id('U', n))
			w.must(err)
			u := *old
			for k := byte(0); k < n; k++ {
				u.Authenticators = append(u.Authenticators, org.Authenticator{
					ID: id('A', 10*n+k), Name: "passkey", CredentialID: []byte{0xfb, 0xff, n, k}, PublicKey: []byte{0xa5, n}, AAGUID: id('G', n), Attestation: "packed",
					Transports: []string{"AUTHENTICATOR_TRANSPORT_USB", "AUTHENTICATOR_TRANSPORT_NFC"}, RPIDHash: org.Hash{1}, Origin: "https://a.test", CreatedMs: 9_000, UpdatedMs: 10_000,
				})
			}
			w.must(tx.PutUser(&u))
		}
	})
	want := object{
		"authenticatorId": id('A', 21).String(), "authenticatorName": "passkey", "credentialId": "-_8CAQ", "aaguid": id('G', 2).String(), "attestationType": "packed", "model": "",
		"transports": []any{"AUTHENTICATOR_TRANSPORT_USB", "AUTHENTICATOR_TRANSPORT_NFC"},
		"credential": object{"publicKey": "a502", "type": "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR"},
		"createdAt":  object{"seconds": "9", "nanos": "0"}, "updatedAt": object{"seconds": "10", "nanos": "0"},
	}
	if got := w.get("get_authenticator", object{"authenticatorId": id('A', 21).String()})["authenticator"]; !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	all := w.get("get_authenticators", object{"userId": id('U', 2).String()})["authenticators"].([]any)
	if got := pick(all, "authenticatorId"); !reflect.DeepEqual(got, []string{id('A', 20).String(), id('A', 21).String()}) || !reflect.DeepEqual(all[1], want) {
		t.Error(all)
	}
	// A user shows the same.
	if got := w.get("get_user", object{"userId": id('U', 2).String()})["user"].(object)["authenticators"]; !reflect.DeepEqual(got, any(all)) {
		t.Error(got)
	}
	if got := w.get("get_authenticators", object{"userId": id('U', 3).String()})["authenticators"].([]any); len(got) != 0 {
		t.Error(got)
	}
	w.refused("get_authenticator", object{"authenticatorId": id('A', 99).String()}, 5, "webauthn authenticator not found in organization: "+id('A', 99).String())
	w.refused("get_authenticator", object{"authenticatorId": "passkey"}, 3, "UUID")
	w.refused("get_authenticator", object{}, 3, "authenticatorId")
	w.refused("get_authenticators", object{"userId": id('U', 9).String()}, 5, "user not found")
	w.refused("get_authenticators", object{}, 3, "userId")
}
