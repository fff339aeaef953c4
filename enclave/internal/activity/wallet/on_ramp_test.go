package wallet_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

// compact encrypts a text as clients encrypt the secrets of on-ramp providers.
func compact(w *world, public, plain string) string {
	to, err := bundle.ParsePublicKey("", public)
	w.Must(err)
	s, err := secret.From([]byte(plain))
	w.Must(err)
	text, err := bundle.SealCompact(to, s)
	w.Must(err)
	return text
}

func TestOnRampCredentials(t *testing.T) {
	w := activitytest.New(t)
	public := w.PublicOf(w.Roles.OnRamp)
	create := func() object {
		return object{"onrampProvider": "FIAT_ON_RAMP_PROVIDER_COINBASE", "publishableApiKey": "pk", "encryptedSecretApiKey": compact(w, public, "secret")}
	}
	full := activitytest.With(activitytest.With(activitytest.With(create(), "projectId", "project"), "encryptedPrivateApiKey", compact(w, public, "private")), "sandboxMode", true)
	id := w.Run("CREATE_FIAT_ON_RAMP_CREDENTIAL", full)["fiatOnRampCredentialId"].(string)
	kept := func() *org.OnRampCredential {
		i, err := org.ParseID(id)
		w.Must(err)
		c, err := w.Tx().OnRampCredential(i)
		w.Must(err)
		return c
	}
	opens := func(sealed []byte, want string) {
		t.Helper()
		s, err := w.Vault.Open(kept().ID, sealed)
		if err != nil || string(secrettest.Bytes(s)) != want {
			t.Errorf("%v", err)
		}
	}
	c := kept()
	opens(c.Secret, "secret")
	opens(c.Private, "private")
	if c.Provider != full["onrampProvider"] || c.ProjectID != "project" || c.PublishableKey != "pk" || c.EncryptedSecret != full["encryptedSecretApiKey"] ||
		c.EncryptedPrivate != full["encryptedPrivateApiKey"] || !c.Sandbox || c.CreatedMs != activitytest.Start {
		t.Errorf("%+v", c)
	}
	w.Now += 1000
	w.Run("UPDATE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": id, "onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "publishableApiKey": "pk2", "encryptedSecretApiKey": compact(w, public, "other")})
	c = kept()
	opens(c.Secret, "other")
	if c.Provider != "FIAT_ON_RAMP_PROVIDER_MOONPAY" || c.ProjectID != "" || c.PublishableKey != "pk2" || c.Private != nil || c.EncryptedPrivate != "" || !c.Sandbox || c.CreatedMs != activitytest.Start || c.UpdatedMs != activitytest.Start+1000 {
		t.Errorf("%+v", c)
	}
	nobody := w.NewID().String()
	for _, c := range []struct {
		typ    string
		params any
		code   fault.Code
		says   string
	}{
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "onrampProvider", "FIAT_ON_RAMP_PROVIDER_OTHER"), 3, "onrampProvider"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "publishableApiKey", ""), 3, "publishableApiKey"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "publishableApiKey", "a\nb"), 3, "visible"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "projectId", strings.Repeat("a", 1025)), 3, "at most 1024"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "encryptedSecretApiKey", "nothing"), 3, "invalid secret"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "encryptedSecretApiKey", compact(w, w.FreshP256(), "s")), 3, "not encrypted to this enclave"},
		{"CREATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "encryptedPrivateApiKey", compact(w, w.FreshP256(), "s")), 3, "not encrypted to this enclave"},
		{"UPDATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "fiatOnrampCredentialId", nobody), 5, nobody},
		{"UPDATE_FIAT_ON_RAMP_CREDENTIAL", activitytest.With(create(), "fiatOnrampCredentialId", "x"), 3, "UUID"},
		{"DELETE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": nobody}, 5, nobody},
	} {
		w.Refuse(c.typ, c.params, c.code, c.says)
	}
	for range 19 {
		w.Run("CREATE_FIAT_ON_RAMP_CREDENTIAL", create())
	}
	w.Refuse("CREATE_FIAT_ON_RAMP_CREDENTIAL", create(), 8, "at most 20")
	w.Run("DELETE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": id})
	if kept() != nil {
		t.Error("it is still there")
	}
}

// A page is for an address of the network in each of its formats, and of nobody else.
func TestInitOnRamp(t *testing.T) {
	w := activitytest.New(t)
	w.Capabilities.OnRamps = []onramp.Provider{onramp.MoonPay}
	create := func(more ...any) {
		in := object{"onrampProvider": onramp.MoonPay, "publishableApiKey": "pk", "encryptedSecretApiKey": compact(w, w.PublicOf(w.Roles.OnRamp), "secret")}
		for i := 0; i < len(more); i += 2 {
			in[more[i].(string)] = more[i+1]
		}
		w.Run("CREATE_FIAT_ON_RAMP_CREDENTIAL", in)
	}
	create()
	create("sandboxMode", true)
	of := func(format, path, curve string) string {
		account := object{"curve": curve, "pathFormat": "PATH_FORMAT_BIP32", "path": path, "addressFormat": format}
		return w.Run("CREATE_WALLET", object{"walletName": format, "accounts": []any{account}})["addresses"].([]any)[0].(string)
	}
	const k1, ed = "CURVE_SECP256K1", "CURVE_ED25519"
	eth, sol := of("ADDRESS_FORMAT_ETHEREUM", "m/44'/60'/0'/0/0", k1), of("ADDRESS_FORMAT_SOLANA", "m/44'/501'/0'", ed)
	taproot, testnet := of("ADDRESS_FORMAT_BITCOIN_MAINNET_P2TR", "m/86'/0'/0'/0/0", k1), of("ADDRESS_FORMAT_BITCOIN_TESTNET_P2WPKH", "m/84'/1'/0'/0/0", k1)
	public, tron := of("ADDRESS_FORMAT_COMPRESSED", "m/1", k1), of("ADDRESS_FORMAT_TRON", "m/44'/195'/0'/0/0", k1)
	key := w.Run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{activitytest.PrivateKey("k", "SECP256K1", "ETHEREUM")}})["privateKeys"].([]any)[0].(object)
	keys := key["addresses"].([]any)[0].(object)["address"].(string)
	ask := func(address, network, asset string, sandbox bool) object {
		return object{"onrampProvider": onramp.MoonPay, "walletAddress": address, "network": "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_" + network, "cryptoCurrencyCode": "FIAT_ON_RAMP_CRYPTO_CURRENCY_" + asset, "sandboxMode": sandbox}
	}
	for _, c := range []struct {
		address, network, asset string
		sandbox, taken          bool
	}{
		{eth, "ETHEREUM", "ETH", false, true}, {eth, "BASE", "USDC", true, true}, {keys, "ETHEREUM", "USDC", false, true}, {sol, "SOLANA", "SOL", false, true}, {sol, "SOLANA", "USDC", true, true},
		{taproot, "BITCOIN", "BTC", false, true}, {testnet, "BITCOIN", "BTC", true, true},
		{testnet, "BITCOIN", "BTC", false, false}, {eth, "SOLANA", "USDC", false, false}, {sol, "BASE", "USDC", false, false}, {tron, "ETHEREUM", "ETH", false, false},
		{public, "ETHEREUM", "ETH", false, false}, {taproot, "ETHEREUM", "ETH", false, false}, {strings.ReplaceAll(key["privateKeyId"].(string), "-", ""), "ETHEREUM", "ETH", false, false},
	} {
		in := ask(c.address, c.network, c.asset, c.sandbox)
		if !c.taken {
			w.Refuse("INIT_FIAT_ON_RAMP", in, 3, "is not an address of")
			continue
		}
		if text := w.Run("INIT_FIAT_ON_RAMP", in)["onRampUrl"].(string); !strings.Contains(text, "&walletAddress="+c.address+"&") || strings.HasPrefix(text, "https://buy-sandbox.") != c.sandbox {
			t.Errorf("%v: %s", c, text)
		}
	}
	w.Refuse("INIT_FIAT_ON_RAMP", ask("6ba7b810-9dad-41d1-80b4-00c04fd430c8", "ETHEREUM", "ETH", false), 3, "letters and digits")
	w.Capabilities.OnRamps = nil
	w.Refuse("INIT_FIAT_ON_RAMP", ask(eth, "ETHEREUM", "ETH", false), 9, "onRamps")
}
