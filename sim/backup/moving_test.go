package backup_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

var bundleInfo = []byte("turnkey_hpke")

// data is the signed part of a bundle. What checks its signature is the SDK.
func data(t *testing.T, bundle string) map[string]string {
	t.Helper()
	var outer, inner map[string]string
	if err := json.Unmarshal([]byte(bundle), &outer); err != nil {
		t.Fatal(err, bundle)
	}
	b, err := hex.DecodeString(outer["data"])
	if err == nil {
		err = json.Unmarshal(b, &inner)
	}
	if err != nil {
		t.Fatal(err, bundle)
	}
	return inner
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMovingIn goes through host/MOVING.md: a wallet leaves one deployment, which
// stands for the hosted service since it speaks the same interface, as an export
// bundle, and comes into another with the same words, paths, addresses and
// signatures. The words are readable in this process and nowhere else.
func TestMovingIn(t *testing.T) {
	service, ours := newSource(t, nil), newSource(t, nil)
	must := func(s *source, op, typ string, parameters any) map[string]any {
		t.Helper()
		a, err := submit(s.r, s.root(), op, typ, parameters)
		if err != nil {
			t.Fatal(err)
		}
		return rig.Get(a, "result").(map[string]any)
	}
	made := must(service, "create_wallet", "CREATE_WALLET", map[string]any{"walletName": "Moving", "accounts": append(formats(0), formats(3)...)})
	wallet := rig.Text(made, "createWalletResult", "walletId")
	accounts := append(formats(0), formats(3)...)

	mine, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point := mine.PublicKey().Bytes()
	left := data(t, rig.Text(must(service, "export_wallet", "EXPORT_WALLET", map[string]any{"walletId": wallet, "targetPublicKey": hex.EncodeToString(point),
		"language": "MNEMONIC_LANGUAGE_ENGLISH"}), "exportWalletResult", "exportBundle"))
	key, err := hpke.NewDHKEMPrivateKey(mine)
	if err != nil {
		t.Fatal(err)
	}
	in, err := hpke.NewRecipient(unhex(t, left["encappedPublic"]), key, hpke.HKDFSHA256(), hpke.AES256GCM(), bundleInfo)
	if err != nil {
		t.Fatal(err)
	}
	words, err := in.Open(append(unhex(t, left["encappedPublic"]), point...), unhex(t, left["ciphertext"]))
	if err != nil {
		t.Fatal(err)
	}

	target := unhex(t, data(t, rig.Text(must(ours, "init_import_wallet", "INIT_IMPORT_WALLET", map[string]any{"userId": ours.r.Credentials.RootUserID}),
		"initImportWalletResult", "importBundle"))["targetPublic"])
	to, err := hpke.DHKEM(ecdh.P256()).NewPublicKey(target)
	if err != nil {
		t.Fatal(err)
	}
	enc, out, err := hpke.NewSender(to, hpke.HKDFSHA256(), hpke.AES256GCM(), bundleInfo)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := out.Seal(append(bytes.Clone(enc), target...), words)
	if err != nil {
		t.Fatal(err)
	}
	got := must(ours, "import_wallet", "IMPORT_WALLET", map[string]any{"userId": ours.r.Credentials.RootUserID, "walletName": "Moving",
		"encryptedBundle": fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, enc, sealed), "accounts": accounts})
	was, is := fmt.Sprint(rig.Get(made, "createWalletResult", "addresses")), fmt.Sprint(rig.Get(got, "importWalletResult", "addresses"))
	if was != is || len(was) < 100 {
		t.Fatalf("addresses %s, were %s", is, was)
	}
	there, err := addresses(service.r, service.root(), map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	for address, a := range there {
		want, err := sign(service.r, address, a)
		if err != nil {
			t.Fatal(err)
		}
		a.of = ours.root()
		got, err := sign(ours.r, address, a)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("signatures of %s: %v, %v, were %v", address, got, err, want)
		}
	}
}

// TestBreakGlass loses keys of root users, as host/MOVING.md tells, and finds out
// who gets back in.
func TestBreakGlass(t *testing.T) {
	s := newSource(t, nil)
	newKey := func() laptop.KeyPair {
		t.Helper()
		k, err := laptop.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	// organization makes a sub-organization with these root users.
	organization := func(threshold int, users ...map[string]any) (string, []string) {
		t.Helper()
		var all []any
		for _, u := range users {
			all = append(all, u)
		}
		a, err := submit(s.r, s.root(), "create_sub_organization", "CREATE_SUB_ORGANIZATION_V8", map[string]any{"subOrganizationName": "Glass", "rootQuorumThreshold": threshold,
			"rootUsers": all, "wallet": map[string]any{"walletName": "Treasure", "accounts": formats(0)}})
		if err != nil {
			t.Fatal(err)
		}
		result := rig.Get(a, "result", "createSubOrganizationResultV8")
		var ids []string
		for i := range users {
			ids = append(ids, rig.Text(result, "rootUserIds", fmt.Sprint(i)))
		}
		return rig.Text(result, "subOrganizationId"), ids
	}
	whoami := func(id string, k laptop.KeyPair) error {
		_, err := query(s.r, owner{id, k}, "whoami", map[string]any{})
		return err
	}
	anew := func(k laptop.KeyPair) []any {
		return []any{map[string]any{"apiKeyName": "After the loss " + k.PublicKey[:8], "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}}
	}

	t.Run("two of three", func(t *testing.T) {
		keys := []laptop.KeyPair{newKey(), newKey(), newKey()}
		id, users := organization(2, apiKeyUser("One", keys[0]), apiKeyUser("Two", keys[1]), apiKeyUser("Three", keys[2]))
		// together has the second ask and the third approve.
		together := func(op, typ string, parameters any) {
			t.Helper()
			two, three := owner{id, keys[1]}, owner{id, keys[2]}
			m, err := call(s.r, wire.EndpointSubmit, op, s.r.BodyOf(id, "ACTIVITY_TYPE_"+typ, parameters), two)
			if err != nil || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
				t.Fatal(m, err)
			}
			if _, err := submit(s.r, three, "approve_activity", "APPROVE_ACTIVITY", map[string]any{"fingerprint": rig.Text(m, "activity", "fingerprint")}); err != nil {
				t.Fatal(err)
			}
			got, err := query(s.r, three, "get_activity", map[string]any{"activityId": rig.Text(m, "activity", "id")})
			if err != nil || rig.Text(got, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
				t.Fatal(got, err)
			}
		}
		fresh := newKey()
		together("create_users", "CREATE_USERS_V4", map[string]any{"users": []any{func() any {
			u := apiKeyUser("One again", fresh)
			u["userTags"] = []any{}
			return u
		}()}})
		m, err := query(s.r, owner{id, fresh}, "whoami", map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		together("update_root_quorum", "UPDATE_ROOT_QUORUM", map[string]any{"threshold": 2, "userIds": []any{rig.Text(m, "userId"), users[1], users[2]}})
		together("delete_users", "DELETE_USERS", map[string]any{"userIds": []any{users[0]}})
		if err := whoami(id, keys[0]); err == nil {
			t.Error("the lost key is still good")
		}
		// The one who is back counts: with the second he moves the treasure's keys.
		got, err := call(s.r, wire.EndpointSubmit, "create_wallet", s.r.BodyOf(id, "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "New", "accounts": formats(0)}), owner{id, fresh})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := submit(s.r, owner{id, keys[1]}, "approve_activity", "APPROVE_ACTIVITY", map[string]any{"fingerprint": rig.Text(got, "activity", "fingerprint")}); err != nil {
			t.Error(err)
		}
	})

	t.Run("a second key of one", func(t *testing.T) {
		lost, safe := newKey(), newKey()
		user := apiKeyUser("Root", lost)
		user["apiKeys"] = append(user["apiKeys"].([]any), map[string]any{"apiKeyName": "In the safe", "publicKey": safe.PublicKey, "curveType": "API_KEY_CURVE_P256"})
		id, users := organization(1, user)
		o := owner{id, safe}
		got, err := query(s.r, o, "get_api_keys", map[string]any{"userId": users[0]})
		if err != nil {
			t.Fatal(err)
		}
		fresh := newKey()
		if _, err := submit(s.r, o, "create_api_keys", "CREATE_API_KEYS_V2", map[string]any{"userId": users[0], "apiKeys": anew(fresh)}); err != nil {
			t.Fatal(err)
		}
		for _, k := range rig.Get(got, "apiKeys").([]any) {
			if rig.Text(k, "credential", "publicKey") != lost.PublicKey {
				continue
			}
			if _, err := submit(s.r, o, "delete_api_keys", "DELETE_API_KEYS", map[string]any{"userId": users[0], "apiKeyIds": []any{rig.Text(k, "apiKeyId")}}); err != nil {
				t.Fatal(err)
			}
		}
		if whoami(id, lost) == nil || whoami(id, fresh) != nil || whoami(id, safe) != nil {
			t.Error("who is let in is not who should be")
		}
	})

	t.Run("nobody", func(t *testing.T) {
		lost := newKey()
		id, users := organization(1, apiKeyUser("Root", lost))
		// Not even the parent's root user gets in.
		for op, c := range map[string]struct {
			typ        string
			parameters any
		}{
			"create_api_keys":    {"CREATE_API_KEYS_V2", map[string]any{"userId": users[0], "apiKeys": anew(newKey())}},
			"update_root_quorum": {"UPDATE_ROOT_QUORUM", map[string]any{"threshold": 1, "userIds": users}},
			"export_wallet":      {"EXPORT_WALLET", map[string]any{"walletId": users[0], "targetPublicKey": "02" + lost.PublicKey[2:]}},
		} {
			if _, err := submit(s.r, owner{id, s.root().key}, op, c.typ, c.parameters); err == nil || !strings.Contains(err.Error(), "ORGANIZATION_MISMATCH") {
				t.Errorf("the parent's root user: %s: %v", op, err)
			}
		}
		if err := whoami(id, lost); err != nil {
			t.Error(err)
		}
	})
}
