package leak_test

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// transfer imports a wallet, a private key and secrets, exports them and an account, and
// leaves targets unused. What the client knows lies in this process, which is not
// searched.
func (s *stack) transfer(o *laptop.Organization, l *load) {
	s.t.Helper()
	var accounts []any
	for _, p := range paths {
		accounts = append(accounts, map[string]any{"curve": p.curve, "pathFormat": "PATH_FORMAT_BIP32", "path": p.path, "addressFormat": p.format})
	}
	entropy, key := make([]byte, 32), make([]byte, 32)
	_, _ = rand.Read(entropy)
	_, _ = rand.Read(key)
	wallet := s.done(o, "import_wallet", "IMPORT_WALLET", "importWalletResult", map[string]any{"userId": o.RootUserID, "walletName": "imported", "accounts": accounts,
		"encryptedBundle": s.seal(s.target(o, l, "WALLET"), []byte(words(entropy)))})
	made := s.done(o, "import_private_key", "IMPORT_PRIVATE_KEY", "importPrivateKeyResult", map[string]any{"userId": o.RootUserID, "privateKeyName": "imported", "curve": "CURVE_ED25519",
		"addressFormats": []any{"ADDRESS_FORMAT_SOLANA"}, "encryptedBundle": s.seal(s.target(o, l, "PRIVATE_KEY"), key)})
	s.target(o, l, "WALLET")
	to, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	public := hex.EncodeToString(to.PublicKey().Bytes())
	s.done(o, "export_wallet", "EXPORT_WALLET", "exportWalletResult", map[string]any{"walletId": rig.Text(wallet, "walletId"), "targetPublicKey": public})
	s.done(o, "export_wallet_account", "EXPORT_WALLET_ACCOUNT", "exportWalletAccountResult", map[string]any{"address": rig.Text(wallet, "addresses", "0"), "targetPublicKey": public})
	s.done(o, "export_private_key", "EXPORT_PRIVATE_KEY", "exportPrivateKeyResult", map[string]any{"privateKeyId": rig.Text(made, "privateKeyId"), "targetPublicKey": public})
	s.transferSecrets(o, l, public)
}

// transferSecrets imports secrets of several sizes, one of which stays, and leaves a target unused.
func (s *stack) transferSecrets(o *laptop.Organization, l *load, public string) {
	s.t.Helper()
	const suite = "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1"
	sizes := []int{16, 48, 5_000, 64 << 10}
	r := s.done(o, "init_import_secrets", "INIT_IMPORT_SECRETS", "initImportSecretsResult", map[string]any{"encryptionSuite": suite, "numSecrets": len(sizes) + 1})
	var in, out []any
	for i, size := range append(sizes, 0) {
		point := s.keyIn(l, rig.Text(r, "enclaveTargetMessages", strconv.Itoa(i)))
		if size == 0 {
			continue
		}
		b := make([]byte, size)
		_, _ = rand.Read(b)
		l.kept[string(b)] = true
		in = append(in, map[string]any{"secretPayload": s.seal(point, b), "targetPublicKey": hex.EncodeToString(point), "encryptionSuite": suite})
	}
	made := s.done(o, "import_secrets", "IMPORT_SECRETS", "importSecretsResult", map[string]any{"secrets": in})
	for i := range len(sizes) - 1 {
		out = append(out, map[string]any{"secretId": rig.Text(made, "secretIds", strconv.Itoa(i)), "targetPublicKey": public, "encryptionSuite": suite})
	}
	s.done(o, "export_secrets", "EXPORT_SECRETS", "exportSecretsResult", map[string]any{"secrets": out})
}

// done submits what must succeed and answers its result.
func (s *stack) done(o *laptop.Organization, op, typ, result string, parameters map[string]any) any {
	s.t.Helper()
	m, err := s.result(o, op, typ, result, parameters)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// result submits an activity and answers its result.
func (s *stack) result(o *laptop.Organization, op, typ, result string, parameters map[string]any) (any, error) {
	m, err := s.submit(o, op, "ACTIVITY_TYPE_"+typ, parameters)
	if err != nil {
		return nil, err
	}
	return rig.Get(m, "activity", "result", result), nil
}

// target asks for an import target and notes its key.
func (s *stack) target(o *laptop.Organization, l *load, what string) []byte {
	s.t.Helper()
	r := s.done(o, "init_import_"+strings.ToLower(what), "INIT_IMPORT_"+what, map[string]string{"WALLET": "initImportWalletResult", "PRIVATE_KEY": "initImportPrivateKeyResult"}[what],
		map[string]any{"userId": o.RootUserID})
	return s.keyIn(l, rig.Text(r, "importBundle"))
}

// keyIn is the key that an import target's message says. It notes it.
func (s *stack) keyIn(l *load, message string) []byte {
	s.t.Helper()
	var outer, inner map[string]string
	if err := json.Unmarshal([]byte(message), &outer); err != nil {
		s.t.Fatal(err)
	}
	data, err := hex.DecodeString(outer["data"])
	if err == nil {
		err = json.Unmarshal(data, &inner)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	l.targets[compressed(inner["targetPublic"])] = true
	point, err := hex.DecodeString(inner["targetPublic"])
	if err != nil {
		s.t.Fatal(err)
	}
	return point
}

// seal encrypts to a target as a client does.
func (s *stack) seal(point, plain []byte) string {
	s.t.Helper()
	pk, err := hpke.DHKEM(ecdh.P256()).NewPublicKey(point)
	if err != nil {
		s.t.Fatal(err)
	}
	enc, to, err := hpke.NewSender(pk, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	if err != nil {
		s.t.Fatal(err)
	}
	ciphertext, err := to.Seal(append(append([]byte{}, enc...), point...), plain)
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, enc, ciphertext)
}
