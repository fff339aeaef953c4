package rig_test

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/shared/wire"
	"cloister/sim/laptop"
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
func target(t *testing.T, r *rig.Rig, what string) string {
	t.Helper()
	status, m := r.Submit("init_import_"+strings.ToLower(what), "ACTIVITY_TYPE_INIT_IMPORT_"+what, map[string]any{"userId": r.Credentials.RootUserID})
	text := rig.Text(m, "activity", "result", map[string]string{"WALLET": "initImportWalletResult", "PRIVATE_KEY": "initImportPrivateKeyResult"}[what], "importBundle")
	var outer, inner map[string]string
	if status != 200 || json.Unmarshal([]byte(text), &outer) != nil || outer["enclaveQuorumPublic"] != r.Credentials.Keys.Signer {
		t.Fatal(status, m)
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

func importing(r *rig.Rig, name, bundle string) map[string]any {
	return map[string]any{"userId": r.Credentials.RootUserID, "walletName": name, "encryptedBundle": bundle, "accounts": []any{}}
}

func importWallet(r *rig.Rig, name, bundle string) (int, string) {
	status, m := r.Submit("import_wallet", "ACTIVITY_TYPE_IMPORT_WALLET", importing(r, name, bundle))
	return status, rig.Text(m, "message")
}

// A refusal that has opened a bundle stores that its target is spent, and this
// outlasts the enclave like all that is stored.
func TestRefusedImportIsSpent(t *testing.T) {
	dir := t.TempDir()
	r := rig.Start(t, rig.Options{Dir: dir})
	spent, unused := target(t, r, "WALLET"), target(t, r, "WALLET")
	body := r.Body("ACTIVITY_TYPE_IMPORT_WALLET", importing(r, "Bad", sealed(t, spent, "legal legal")))
	status, first := r.SubmitBody("import_wallet", body)
	if status != 400 || !strings.HasPrefix(rig.Text(first, "message"), "invalid mnemonic") {
		t.Fatal(status, first)
	}
	if status, again := r.SubmitBody("import_wallet", body); status != 400 || rig.Text(again, "message") != rig.Text(first, "message") {
		t.Error(status, again)
	}
	if status, says := importWallet(r, "Good", sealed(t, spent, words)); status != 400 || !strings.Contains(says, "not encrypted to an import target") {
		t.Error(status, says)
	}
	r.Kill()
	r = rig.Start(t, rig.Options{Dir: dir})
	// The spent one is forgotten; of the other nobody knows any more whether it was.
	if status, says := importWallet(r, "Good", sealed(t, spent, words)); status != 400 || !strings.Contains(says, "not encrypted to an import target") {
		t.Error(status, says)
	}
	if status, says := importWallet(r, "Good", sealed(t, unused, words)); status != 400 || says != "import target has expired: encrypt to a new one" {
		t.Error(status, says)
	}
	if status, says := importWallet(r, "Good", sealed(t, target(t, r, "WALLET"), words)); status != 200 {
		t.Error(status, says)
	}
}

// second makes another root member, so that both must agree.
func second(t *testing.T, r *rig.Rig) laptop.KeyPair {
	t.Helper()
	key := newKey(t)
	status, m := r.Submit("create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", map[string]any{"users": []any{map[string]any{"userName": "Second", "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{},
		"apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": key.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
	id := rig.Text(m, "activity", "result", "createUsersResult", "userIds", "0")
	if status != 200 {
		t.Fatal(status, m)
	}
	if status, m := r.Submit("update_root_quorum", "ACTIVITY_TYPE_UPDATE_ROOT_QUORUM", map[string]any{"threshold": 2, "userIds": []any{r.Credentials.RootUserID, id}}); status != 200 {
		t.Fatal(status, m)
	}
	return key
}

// approve has key approve an activity and answers its status then.
func approve(t *testing.T, r *rig.Rig, key laptop.KeyPair, m map[string]any) string {
	t.Helper()
	body := r.Body("ACTIVITY_TYPE_APPROVE_ACTIVITY", map[string]any{"fingerprint": rig.Text(m, "activity", "fingerprint")})
	reply, err := r.Send(context.Background(), wire.EndpointSubmit, "approve_activity", body, key)
	if err != nil || reply.Status != 200 {
		t.Fatalf("%v %+v", err, reply)
	}
	var after map[string]any
	if err := json.Unmarshal(reply.Body, &after); err != nil {
		t.Fatal(err)
	}
	return rig.Text(after, "activity", "status")
}

// An import that a second member lets happen is the first one's: to his targets.
// What comes of it spends them as at once.
func TestImportByConsensus(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	one, two := target(t, r, "WALLET"), target(t, r, "WALLET")
	other := second(t, r)
	for _, c := range []struct{ name, bundle, want string }{
		{"Bad", sealed(t, one, "legal legal"), "ACTIVITY_STATUS_FAILED"}, {"Late", sealed(t, one, words), "ACTIVITY_STATUS_FAILED"}, {"Good", sealed(t, two, words), "ACTIVITY_STATUS_COMPLETED"},
	} {
		status, m := r.Submit("import_wallet", "ACTIVITY_TYPE_IMPORT_WALLET", importing(r, c.name, c.bundle))
		if status != 200 || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
			t.Fatal(status, m)
		}
		if got := approve(t, r, other, m); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	_, m := r.Query("list_wallets", nil)
	if ws := rig.Get(m, "wallets").([]any); len(ws) != 1 || rig.Get(ws[0], "imported") != true {
		t.Error(m)
	}
}

// Imports are for oneself, exports for whom a policy lets.
func TestWhoMayImportAndExport(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	key := newKey(t)
	_, m := r.Submit("create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", map[string]any{"users": []any{map[string]any{"userName": "Clerk", "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{},
		"apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": key.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
	clerk := rig.Text(m, "activity", "result", "createUsersResult", "userIds", "0")
	for _, what := range []string{"WALLET", "PRIVATE_KEY"} {
		status, m := r.Submit("init_import_"+strings.ToLower(what), "ACTIVITY_TYPE_INIT_IMPORT_"+what, map[string]any{"userId": clerk})
		if status != 403 || !strings.Contains(fmt.Sprint(m), "PolicyEnginePermissionError") {
			t.Errorf("the root user imports for another: %d %v", status, m)
		}
	}
	status, m := r.Submit("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "W", "accounts": []any{ethereum}})
	wallet := rig.Text(m, "activity", "result", "createWalletResult", "walletId")
	if status != 200 {
		t.Fatal(m)
	}
	to, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := hex.EncodeToString(to.PublicKey().Bytes())
	export := func(public string) int {
		reply, err := r.Send(context.Background(), wire.EndpointSubmit, "export_wallet", r.Body("ACTIVITY_TYPE_EXPORT_WALLET", map[string]any{"walletId": wallet, "targetPublicKey": public}), key)
		if err != nil {
			t.Fatal(err)
		}
		return int(reply.Status)
	}
	if got := export(public); got != 403 {
		t.Errorf("a user without a policy exports: %d", got)
	}
	if status, m := r.Submit("create_policy", "ACTIVITY_TYPE_CREATE_POLICY_V3", map[string]any{"policyName": "Escrow", "effect": "EFFECT_ALLOW", "notes": "",
		"condition": "activity.action == 'EXPORT' && wallet.label == 'W' && activity.params.target_public_key == '" + public + "'", "consensus": "approvers.any(u, u.id == '" + clerk + "')"}); status != 200 {
		t.Fatal(m)
	}
	if got := export(public); got != 200 {
		t.Errorf("the policy's key: %d", got)
	}
	other, _ := ecdh.P256().GenerateKey(rand.Reader)
	if got := export(hex.EncodeToString(other.PublicKey().Bytes())); got != 403 {
		t.Errorf("another key: %d", got)
	}
}
