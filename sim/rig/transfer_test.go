package rig_test

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// keysOf asks for the document of public keys and verifies it as a client would.
func keysOf(t *testing.T, r *rig.Rig) ([]byte, *attestation.Proof) {
	t.Helper()
	reply, err := r.Link.Call(context.Background(), &wire.Call{Endpoint: wire.EndpointBoot, Op: "discovery_keys"})
	if err != nil || reply.Status != 200 {
		t.Fatalf("%v %+v", err, reply)
	}
	p, err := attestation.VerifyKeys(reply.Body, attestation.Policy{SimulatorRootPEM: r.Credentials.AttestationRootPEM, AllowedManifestSHA256: []string{r.Credentials.ManifestSHA256}})
	if err != nil {
		t.Fatalf("%v\n%s", err, reply.Body)
	}
	return reply.Body, p
}

// webhookKey is the key that receivers of webhooks are told of.
func webhookKey(t *testing.T, r *rig.Rig) string {
	t.Helper()
	reply, err := r.Link.Call(context.Background(), &wire.Call{Endpoint: wire.EndpointBoot, Op: "webhook_jwks"})
	if err != nil || reply.Status != 200 {
		t.Fatalf("%v %+v", err, reply)
	}
	keys, err := attestation.ParseWebhookKeys(reply.Body)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v: %s", err, reply.Body)
	}
	stated, err := attestation.WebhookKeyOf(hex.EncodeToString(keys[0].Key))
	if err != nil || stated.ID != keys[0].ID {
		t.Errorf("the key set says %s, the key %s: %v", keys[0].ID, stated.ID, err)
	}
	return hex.EncodeToString(keys[0].Key)
}

// The published keys are those of the deployment, in every boot, stated by the
// live key of the boot that answers; and they are stated once a minute.
func TestDiscoveryOfKeys(t *testing.T) {
	dir := t.TempDir()
	r := rig.Start(t, rig.Options{Dir: dir})
	first, p := keysOf(t, r)
	stated := p.Claim.(*attestation.PublicKeys)
	k := r.Credentials.Keys
	want := attestation.Keys{Signer: k.Signer, SignerPair: k.SignerPair, Session: k.Session, OTP: k.OTP, OTPLegacy: k.OTPLegacy, FetcherEncrypt: k.FetcherEncrypt, OnRamp: k.OnRamp,
		Webhook: webhookKey(t, r)}
	if stated.Keys != want || stated.Freshness == nil || p.Boot.RootPEM()+"\n" != r.Credentials.AttestationRootPEM {
		t.Errorf("%+v, want %+v", stated, want)
	}
	if again, _ := keysOf(t, r); !bytes.Equal(again, first) {
		t.Error("stated twice within a minute")
	}
	r.Kill()
	r = rig.Start(t, rig.Options{Dir: dir})
	_, after := keysOf(t, r)
	if after.Claim.(*attestation.PublicKeys).Keys != want || after.Boot.PublicKeyHex == p.Boot.PublicKeyHex {
		t.Error("other keys, or the boot before")
	}
	r.Stop()
	if reply := r.Enclave.Call(context.Background(), &wire.Call{Endpoint: wire.EndpointBoot, Op: "discovery_keys"}); reply.Status != 503 {
		t.Errorf("an enclave that has stopped answers %d", reply.Status)
	}
}

// target asks for an import target of the root user and answers its key.
func target(t *testing.T, r *rig.Rig) string {
	t.Helper()
	got := r.Root().Submit("INIT_IMPORT_WALLET", client.Object{"userId": r.Credentials.RootUserID})
	var outer, inner map[string]string
	text := client.Text(got.Result(), "importBundle")
	if got.Status != 200 || json.Unmarshal([]byte(text), &outer) != nil || outer["enclaveQuorumPublic"] != r.Credentials.Keys.Signer {
		t.Fatal(got)
	}
	data, err := hex.DecodeString(outer["data"])
	if err != nil || json.Unmarshal(data, &inner) != nil || inner["userId"] != r.Credentials.RootUserID {
		t.Fatal(outer)
	}
	return inner["targetPublic"]
}

// sealed encrypts as a client does.
func sealed(t *testing.T, target, plain string) string {
	t.Helper()
	point, err := hex.DecodeString(target)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := hpke.DHKEM(ecdh.P256()).NewPublicKey(point)
	if err != nil {
		t.Fatal(err)
	}
	enc, s, err := hpke.NewSender(pk, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	if err != nil {
		t.Fatal(err)
	}
	ciphertext, err := s.Seal(append(append([]byte{}, enc...), point...), []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, enc, ciphertext)
}

const words = "legal winner thank year wave sausage worth useful legal winner thank yellow"

func importing(u *client.User, name, bundle string) client.Object {
	return client.Object{"userId": u.User, "walletName": name, "encryptedBundle": bundle, "accounts": []any{}}
}

func importWallet(u *client.User, name, bundle string) client.Reply {
	return u.Submit("IMPORT_WALLET", importing(u, name, bundle))
}

// A refusal that has opened a bundle stores that its target is spent, and this
// outlasts the enclave like all that is stored.
func TestRefusedImportIsSpent(t *testing.T) {
	dir := t.TempDir()
	r := rig.Start(t, rig.Options{Dir: dir})
	spent, unused := target(t, r), target(t, r)
	root := r.Root()
	body := root.Body("IMPORT_WALLET", importing(root, "Bad", sealed(t, spent, "legal legal")))
	first := submit(root, "IMPORT_WALLET", body)
	if first.Status != 400 || !strings.HasPrefix(first.Text("message"), "invalid mnemonic") {
		t.Fatal(first)
	}
	if again := submit(root, "IMPORT_WALLET", body); again.Status != 400 || again.Text("message") != first.Text("message") {
		t.Error(again)
	}
	if got := importWallet(root, "Good", sealed(t, spent, words)); got.Status != 400 || !strings.Contains(got.Text("message"), "not encrypted to an import target") {
		t.Error(got)
	}
	r.Kill()
	r = rig.Start(t, rig.Options{Dir: dir})
	root = r.Root()
	// The spent one is forgotten; of the other nobody knows any more whether it was.
	if got := importWallet(root, "Good", sealed(t, spent, words)); got.Status != 400 || !strings.Contains(got.Text("message"), "not encrypted to an import target") {
		t.Error(got)
	}
	if got := importWallet(root, "Good", sealed(t, unused, words)); got.Status != 400 || got.Text("message") != "import target has expired: encrypt to a new one" {
		t.Error(got)
	}
	if got := importWallet(root, "Good", sealed(t, target(t, r), words)); got.Status != 200 {
		t.Error(got)
	}
}

// An import that a second member lets happen is the first one's: to his targets.
// What comes of it spends them as at once.
func TestImportByConsensus(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	one, two := target(t, r), target(t, r)
	root := r.Root()
	other := root.NewUser("Second")
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{root.User, other.User}})
	for _, c := range []struct{ name, bundle, want string }{
		{"Bad", sealed(t, one, "legal legal"), "FAILED"}, {"Late", sealed(t, one, words), "FAILED"}, {"Good", sealed(t, two, words), "COMPLETED"},
	} {
		asked := importWallet(root, c.name, c.bundle)
		if asked.Status != 200 || asked.State() != "CONSENSUS_NEEDED" {
			t.Fatal(asked)
		}
		if got := other.Submit("APPROVE_ACTIVITY", voteOn(asked)); got.Status != 200 || got.State() != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	got := root.Query("list_wallets", nil)
	if ws := got.Get("wallets").([]any); len(ws) != 1 || client.Get(ws[0], "imported") != true {
		t.Error(got)
	}
}

// Imports are for oneself, exports for whom a policy lets.
func TestWhoMayImportAndExport(t *testing.T) {
	root := rig.Start(t, rig.Options{}).Root()
	clerk := root.NewUser("Clerk")
	for _, what := range []string{"WALLET", "PRIVATE_KEY"} {
		if got := root.Submit("INIT_IMPORT_"+what, client.Object{"userId": clerk.User}); got.Status != 403 || !strings.Contains(got.String(), "PolicyEnginePermissionError") {
			t.Errorf("the root user imports for another: %v", got)
		}
	}
	wallet := client.Text(root.Do("CREATE_WALLET", client.Wallet("W", client.Ethereum)), "walletId")
	_, public := encapsulation(t)
	export := func(public string) int {
		return clerk.Submit("EXPORT_WALLET", client.Object{"walletId": wallet, "targetPublicKey": public}).Status
	}
	if got := export(public); got != 403 {
		t.Errorf("a user without a policy exports: %d", got)
	}
	root.Do("CREATE_POLICY_V3", client.Policy("Escrow", "ALLOW",
		"activity.action == 'EXPORT' && wallet.label == 'W' && activity.params.target_public_key == '"+public+"'", "approvers.any(u, u.id == '"+clerk.User+"')"))
	if got := export(public); got != 200 {
		t.Errorf("the policy's key: %d", got)
	}
	_, other := encapsulation(t)
	if got := export(other); got != 403 {
		t.Errorf("another key: %d", got)
	}
}
