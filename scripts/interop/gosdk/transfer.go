package main

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/tkhq/go-sdk/pkg/api/client/private_keys"
	"github.com/tkhq/go-sdk/pkg/api/client/wallets"
	"github.com/tkhq/go-sdk/pkg/api/models"
	"github.com/tkhq/go-sdk/pkg/enclave_encrypt"
	"github.com/tkhq/go-sdk/pkg/util"
)

// transferrer imports and exports with the SDK's own encryption, which is given this deployment's signer.
type transferrer struct {
	*session
	signer *ecdsa.PublicKey
	user   string
}

// checkTransfers makes round trips of mnemonics and keys, and has refused what must be.
func (p *place) checkTransfers(root *session) error {
	raw, err := hex.DecodeString(p.Keys.Signer)
	if err != nil {
		return err
	}
	signer, err := enclave_encrypt.ToEcdsaPublic(raw)
	if err != nil {
		return fmt.Errorf("the signer's public key: %w", err)
	}
	t := &transferrer{session: root, signer: signer, user: p.RootUserID}
	for i, words := range []string{
		"abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about",
		"hamster diagram private dutch cause delay private meat slide toddler razor book happy fancy gospel tennis maple dilemma loan word shrug inflict delay length",
		"scheme spot photo card baby mountain device kick cradle pact join borrow\npassphrase",
	} {
		if err := t.wallet(fmt.Sprintf("Go import %d", i), words); err != nil {
			return fmt.Errorf("mnemonic %d: %w", i, err)
		}
	}
	for _, curve := range []models.Curve{models.CurveSecp256k1, models.CurveP256, models.CurveEd25519} {
		if err := t.privateKey(curve); err != nil {
			return fmt.Errorf("key of %s: %w", curve, err)
		}
	}
	return t.refusals()
}

// seal encrypts to a target as the SDK does; as whom is what the SDK checks the target against.
func (t *transferrer) seal(target, organization, user string, plain []byte) (string, error) {
	c, err := enclave_encrypt.NewEnclaveEncryptClient(t.signer)
	if err != nil {
		return "", err
	}
	m, err := c.Encrypt(plain, []byte(target), organization, user)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(m)
	return string(b), err
}

// open exports to a fresh key of the SDK's and opens the answer.
func (t *transferrer) open(export func(target string) (string, error)) ([]byte, error) {
	c, err := enclave_encrypt.NewEnclaveEncryptClient(t.signer)
	if err != nil {
		return nil, err
	}
	public, err := c.TargetPublic()
	if err != nil {
		return nil, err
	}
	bundle, err := export(hex.EncodeToString(public))
	if err != nil {
		return nil, err
	}
	return c.Decrypt([]byte(bundle), *t.org)
}

func (t *transferrer) walletTarget() (string, error) {
	got, err := t.api.Wallets.InitImportWallet(wallets.NewInitImportWalletParams().WithBody(&models.InitImportWalletRequest{
		OrganizationID: t.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeInitImportWallet),
		Parameters: &models.InitImportWalletIntent{UserID: &t.user},
	}), t.auth)
	if err != nil {
		return "", err
	}
	return *got.Payload.Activity.Result.InitImportWalletResult.ImportBundle, nil
}

func (t *transferrer) importWallet(name, bundle string) (*models.ImportWalletResult, error) {
	got, err := t.api.Wallets.ImportWallet(wallets.NewImportWalletParams().WithBody(&models.ImportWalletRequest{
		OrganizationID: t.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeImportWallet),
		Parameters: &models.ImportWalletIntent{UserID: &t.user, WalletName: &name, EncryptedBundle: &bundle, Accounts: accountParams(len(wanted))},
	}), t.auth)
	if err != nil {
		return nil, err
	}
	return got.Payload.Activity.Result.ImportWalletResult, nil
}

// wallet is one mnemonic in and out, and its first account's key.
func (t *transferrer) wallet(name, words string) error {
	target, err := t.walletTarget()
	if err != nil {
		return err
	}
	bundle, err := t.seal(target, *t.org, t.user, []byte(words))
	if err != nil {
		return err
	}
	made, err := t.importWallet(name, bundle)
	if err != nil {
		return err
	}
	out, err := t.open(func(target string) (string, error) { return t.exportWallet(*made.WalletID, target) })
	if err != nil {
		return err
	}
	if string(out) != words {
		return errors.New("another mnemonic came out")
	}
	address := made.Addresses[0]
	key, err := t.open(func(target string) (string, error) {
		got, err := t.api.Wallets.ExportWalletAccount(wallets.NewExportWalletAccountParams().WithBody(&models.ExportWalletAccountRequest{
			OrganizationID: t.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeExportWalletAccount),
			Parameters: &models.ExportWalletAccountIntent{Address: &address, TargetPublicKey: &target},
		}), t.auth)
		if err != nil {
			return "", err
		}
		return *got.Payload.Activity.Result.ExportWalletAccountResult.ExportBundle, nil
	})
	if err != nil {
		return err
	}
	list := &models.GetWalletAccountsRequest{OrganizationID: t.org, WalletID: made.WalletID}
	listed, err := t.api.Wallets.GetWalletAccounts(wallets.NewGetWalletAccountsParams().WithBody(list), t.auth)
	if err != nil {
		return err
	}
	first := listed.Payload.Accounts[0]
	_, short, err := publicKeys(*first.Curve, key)
	if err != nil || short != *first.PublicKey {
		return fmt.Errorf("the account's key came out as another's: %v", err)
	}
	return nil
}

func (t *transferrer) exportWallet(id, target string) (string, error) {
	got, err := t.api.Wallets.ExportWallet(wallets.NewExportWalletParams().WithBody(&models.ExportWalletRequest{
		OrganizationID: t.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeExportWallet),
		Parameters: &models.ExportWalletIntent{WalletID: &id, TargetPublicKey: &target},
	}), t.auth)
	if err != nil {
		return "", err
	}
	return *got.Payload.Activity.Result.ExportWalletResult.ExportBundle, nil
}

// privateKey is one fresh key in and out.
func (t *transferrer) privateKey(curve models.Curve) error {
	init, err := t.api.PrivateKeys.InitImportPrivateKey(private_keys.NewInitImportPrivateKeyParams().WithBody(&models.InitImportPrivateKeyRequest{
		OrganizationID: t.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeInitImportPrivateKey),
		Parameters: &models.InitImportPrivateKeyIntent{UserID: &t.user},
	}), t.auth)
	if err != nil {
		return err
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	bundle, err := t.seal(*init.Payload.Activity.Result.InitImportPrivateKeyResult.ImportBundle, *t.org, t.user, key)
	if err != nil {
		return err
	}
	name := "Go import " + string(curve)
	made, err := t.api.PrivateKeys.ImportPrivateKey(private_keys.NewImportPrivateKeyParams().WithBody(&models.ImportPrivateKeyRequest{
		OrganizationID: t.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeImportPrivateKey),
		Parameters: &models.ImportPrivateKeyIntent{UserID: &t.user, PrivateKeyName: &name, EncryptedBundle: &bundle, Curve: curve.Pointer(), AddressFormats: []models.AddressFormat{}},
	}), t.auth)
	if err != nil {
		return err
	}
	id := made.Payload.Activity.Result.ImportPrivateKeyResult.PrivateKeyID
	shown, err := t.api.PrivateKeys.GetPrivateKey(private_keys.NewGetPrivateKeyParams().WithBody(&models.GetPrivateKeyRequest{OrganizationID: t.org, PrivateKeyID: id}), t.auth)
	if err != nil {
		return err
	}
	if long, _, err := publicKeys(curve, key); err != nil || long != *shown.Payload.PrivateKey.PublicKey {
		return fmt.Errorf("shown with another public key: %v", err)
	}
	out, err := t.open(func(target string) (string, error) {
		got, err := t.api.PrivateKeys.ExportPrivateKey(private_keys.NewExportPrivateKeyParams().WithBody(&models.ExportPrivateKeyRequest{
			OrganizationID: t.org, TimestampMs: util.RequestTimestamp(), Type: activityType(models.ActivityTypeExportPrivateKey),
			Parameters: &models.ExportPrivateKeyIntent{PrivateKeyID: id, TargetPublicKey: &target},
		}), t.auth)
		if err != nil {
			return "", err
		}
		return *got.Payload.Activity.Result.ExportPrivateKeyResult.ExportBundle, nil
	})
	if err != nil {
		return err
	}
	if !bytes.Equal(out, key) {
		return errors.New("another key came out")
	}
	return nil
}

// refusals: the SDK refuses another signer, user and organization; the server what is spent or no mnemonic.
func (t *transferrer) refusals() error {
	target, err := t.walletTarget()
	if err != nil {
		return err
	}
	words := []byte("zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo wrong")
	unrelated, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	other, err := enclave_encrypt.ToEcdsaPublic(unrelated.PublicKey().Bytes())
	if err != nil {
		return err
	}
	if _, err := (&transferrer{session: t.session, signer: other}).seal(target, *t.org, t.user, words); err == nil {
		return errors.New("the SDK took another signer")
	}
	if _, err := t.seal(target, t.user, t.user, words); err == nil {
		return errors.New("the SDK took another organization")
	}
	if _, err := t.seal(target, *t.org, *t.org, words); err == nil {
		return errors.New("the SDK took another user")
	}
	bad, err := t.seal(target, *t.org, t.user, bytes.Replace(words, []byte("wrong"), []byte("zoo"), 1))
	if err != nil {
		return err
	}
	if _, err := t.importWallet("Go never", bad); refusedAs(400, err) != nil {
		return fmt.Errorf("a wrong checksum: %w", refusedAs(400, err))
	}
	good, err := t.seal(target, *t.org, t.user, words)
	if err != nil {
		return err
	}
	if _, err := t.importWallet("Go never", good); refusedAs(400, err) != nil {
		return fmt.Errorf("a spent target: %w", refusedAs(400, err))
	}
	return nil
}

// publicKeys are the texts of a private key's public key, as private keys and as accounts show it.
func publicKeys(curve models.Curve, key []byte) (long, short string, err error) {
	switch curve {
	case models.CurveSecp256k1:
		p := secp256k1.PrivKeyFromBytes(key).PubKey()
		return hex.EncodeToString(p.SerializeUncompressed()), hex.EncodeToString(p.SerializeCompressed()), nil
	case models.CurveP256:
		k, err := ecdh.P256().NewPrivateKey(key)
		if err != nil {
			return "", "", err
		}
		p := k.PublicKey().Bytes()
		return hex.EncodeToString(p), hex.EncodeToString(append([]byte{2 | p[64]&1}, p[1:33]...)), nil
	}
	p := hex.EncodeToString(ed25519.NewKeyFromSeed(key).Public().(ed25519.PublicKey))
	return p, p, nil
}
