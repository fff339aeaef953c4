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

	"cloister/sim/client"
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
	service, ours := root(t, rig.Start(t, rig.Options{})), root(t, rig.Start(t, rig.Options{}))
	accounts := append(formats(0), formats(3)...)
	made := service.Do("CREATE_WALLET", client.Wallet("Moving", accounts...))

	mine, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point := mine.PublicKey().Bytes()
	left := data(t, client.Text(service.Do("EXPORT_WALLET", object{"walletId": made["walletId"], "targetPublicKey": hex.EncodeToString(point),
		"language": "MNEMONIC_LANGUAGE_ENGLISH"}), "exportBundle"))
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

	target := client.Target(client.Text(ours.Do("INIT_IMPORT_WALLET", object{"userId": ours.User}), "importBundle"))
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
	got := ours.Do("IMPORT_WALLET", object{"userId": ours.User, "walletName": "Moving",
		"encryptedBundle": fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, enc, sealed), "accounts": accounts})
	was, is := fmt.Sprint(made["addresses"]), fmt.Sprint(got["addresses"])
	if was != is || len(was) < 100 {
		t.Fatalf("addresses %s, were %s", is, was)
	}
	for address, a := range addresses(service, nil) {
		want, got := sign(service, address, a.format), sign(ours, address, a.format)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("signatures of %s: %v, were %v", address, got, want)
		}
	}
}

// TestBreakGlass loses keys of root users, as host/MOVING.md tells, and finds out
// who gets back in.
func TestBreakGlass(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	// organization makes a sub-organization with these root users.
	organization := func(root *client.User, threshold int, users ...object) (string, []any) {
		t.Helper()
		parameters := client.SubOrganization("Glass", users...)
		parameters["rootQuorumThreshold"], parameters["wallet"] = threshold, client.Wallet("Treasure", formats(0)...)
		made := root.Do("CREATE_SUB_ORGANIZATION_V8", parameters)
		return client.Text(made, "subOrganizationId"), made["rootUserIds"].([]any)
	}
	known := func(u *client.User) bool { return u.Query("whoami", nil).Status == 200 }

	t.Run("two of three", func(t *testing.T) {
		root := root(t, r)
		keys := []client.KeyPair{client.NewKey(), client.NewKey(), client.NewKey()}
		id, users := organization(root, 2, client.NewRootUser("One", keys[0]), client.NewRootUser("Two", keys[1]), client.NewRootUser("Three", keys[2]))
		two, three := root.As(id, "", keys[1]), root.As(id, "", keys[2])
		// together has the second ask and the third approve.
		together := func(typ string, parameters any) {
			t.Helper()
			asked := two.Submit(typ, parameters)
			if asked.Status != 200 || asked.State() != "CONSENSUS_NEEDED" {
				t.Fatal(asked)
			}
			three.Do("APPROVE_ACTIVITY", object{"fingerprint": asked.Text("activity", "fingerprint")})
			if got := three.Query("get_activity", object{"activityId": asked.Text("activity", "id")}); !got.Completed() {
				t.Fatal(got)
			}
		}
		fresh := root.As(id, "", client.NewKey())
		together("CREATE_USERS_V4", client.Users(client.NewUser("One again", fresh.Key)))
		together("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{fresh.Read("whoami", nil)["userId"], users[1], users[2]}})
		together("DELETE_USERS", object{"userIds": users[:1]})
		if known(root.As(id, "", keys[0])) {
			t.Error("the lost key is still good")
		}
		// The one who is back counts: with the second he moves the treasure's keys.
		asked := fresh.Submit("CREATE_WALLET", client.Wallet("New", formats(0)...))
		if asked.Status != 200 {
			t.Fatal(asked)
		}
		two.Do("APPROVE_ACTIVITY", object{"fingerprint": asked.Text("activity", "fingerprint")})
	})

	t.Run("a second key of one", func(t *testing.T) {
		root := root(t, r)
		lost, kept := client.NewKey(), client.NewKey()
		id, users := organization(root, 1, client.NewRootUser("Root", lost, kept))
		safe := root.As(id, users[0].(string), kept)
		all := safe.Read("get_api_keys", object{"userId": safe.User})["apiKeys"].([]any)
		fresh := safe.NewKey()
		for _, k := range all {
			if client.Text(k, "credential", "publicKey") == lost.PublicKey {
				safe.Do("DELETE_API_KEYS", object{"userId": safe.User, "apiKeyIds": []any{client.Text(k, "apiKeyId")}})
			}
		}
		if known(root.As(id, "", lost)) || !known(fresh) || !known(safe) {
			t.Error("who is let in is not who should be")
		}
	})

	t.Run("nobody", func(t *testing.T) {
		root := root(t, r)
		lost := client.NewKey()
		id, users := organization(root, 1, client.NewRootUser("Root", lost))
		// Not even the parent's root user gets in.
		for typ, parameters := range map[string]object{
			"CREATE_API_KEYS_V2": {"userId": users[0], "apiKeys": []any{client.APIKey("After the loss", client.NewKey())}},
			"UPDATE_ROOT_QUORUM": {"threshold": 1, "userIds": users},
			"EXPORT_WALLET":      {"walletId": users[0], "targetPublicKey": "02" + lost.PublicKey[2:]},
		} {
			if got := root.As(id, "", root.Key).Submit(typ, parameters); got.Completed() || !strings.Contains(got.String(), "ORGANIZATION_MISMATCH") {
				t.Errorf("the parent's root user: %s: %v", typ, got)
			}
		}
		if !known(root.As(id, "", lost)) {
			t.Error("the root user is not let in")
		}
	})
}
