package leak_test

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"cloister/sim/client"
)

// transfer imports a wallet, a private key and secrets, exports them and an account, and
// leaves targets unused. What the client knows lies in this process, which is not
// searched.
func (s *stack) transfer(o *client.User, l *load) {
	s.t.Helper()
	entropy, key := make([]byte, 32), make([]byte, 32)
	_, _ = rand.Read(entropy)
	_, _ = rand.Read(key)
	wallet := o.Do("IMPORT_WALLET", client.Object{"userId": o.User, "walletName": "imported", "accounts": accounts(),
		"encryptedBundle": s.seal(s.target(o, l, "WALLET"), []byte(words(entropy)))})
	made := o.Do("IMPORT_PRIVATE_KEY", client.Object{"userId": o.User, "privateKeyName": "imported", "curve": "CURVE_ED25519",
		"addressFormats": []any{"ADDRESS_FORMAT_SOLANA"}, "encryptedBundle": s.seal(s.target(o, l, "PRIVATE_KEY"), key)})
	s.target(o, l, "WALLET")
	to, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	public := hex.EncodeToString(to.PublicKey().Bytes())
	o.Do("EXPORT_WALLET", client.Object{"walletId": client.Text(wallet, "walletId"), "targetPublicKey": public})
	o.Do("EXPORT_WALLET_ACCOUNT", client.Object{"address": client.Text(wallet, "addresses", "0"), "targetPublicKey": public})
	o.Do("EXPORT_PRIVATE_KEY", client.Object{"privateKeyId": client.Text(made, "privateKeyId"), "targetPublicKey": public})
	s.transferSecrets(o, l, public)
}

// transferSecrets imports secrets of several sizes, one of which stays, and leaves a target unused.
func (s *stack) transferSecrets(o *client.User, l *load, public string) {
	s.t.Helper()
	const suite = "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1"
	sizes := []int{16, 48, 5_000, 64 << 10}
	r := o.Do("INIT_IMPORT_SECRETS", client.Object{"encryptionSuite": suite, "numSecrets": len(sizes) + 1})
	var in, out []any
	for i, size := range append(sizes, 0) {
		point := s.keyIn(l, client.Text(r, "enclaveTargetMessages", strconv.Itoa(i)))
		if size == 0 {
			continue
		}
		b := make([]byte, size)
		_, _ = rand.Read(b)
		l.kept[string(b)] = true
		in = append(in, client.Object{"secretPayload": s.seal(point, b), "targetPublicKey": hex.EncodeToString(point), "encryptionSuite": suite})
	}
	made := o.Do("IMPORT_SECRETS", client.Object{"secrets": in})
	for i := range len(sizes) - 1 {
		out = append(out, client.Object{"secretId": client.Text(made, "secretIds", strconv.Itoa(i)), "targetPublicKey": public, "encryptionSuite": suite})
	}
	o.Do("EXPORT_SECRETS", client.Object{"secrets": out})
}

// target asks for an import target and notes its key.
func (s *stack) target(o *client.User, l *load, what string) []byte {
	s.t.Helper()
	return s.keyIn(l, client.Text(o.Do("INIT_IMPORT_"+what, client.Object{"userId": o.User}), "importBundle"))
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
