package policies_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"github.com/mr-tron/base58"

	"cloister/attestation/request"
	"cloister/enclave/core"
	"cloister/shared/clocktest"
	"cloister/sim/authenticator"
	"cloister/sim/client"
	"cloister/sim/passcode"
	"cloister/sim/rig"
)

// server is the public interface over HTTP, and the root users of organizations to be used up.
type server struct {
	send  client.Sender
	fresh []*client.User
}

func newServer(t *testing.T, organizations int, clock core.Clock) *server {
	t.Helper()
	r := rig.Start(t, rig.Options{Organizations: organizations, Clock: clock})
	return &server{client.HTTP(http.DefaultClient, r.Serve()), r.Others()}
}

// standsAt is a clock that shows a case's time.
func standsAt(t *testing.T, text string) core.Clock {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return clocktest.At(at)
}

// world is one case's organization.
type world struct {
	t     *testing.T
	k     *book
	root  *client.User
	users map[string]*client.User // by the fixture's credential
	is    []string                // pairs: what the fixture calls something, what it is here
	ids   map[string]string
	made  organization
}

// call notes what something of the fixture is called here.
func (w *world) call(fixture, here string) {
	w.ids[fixture] = here
	w.is = append(w.is, fixture, here)
	if l := strings.ToLower(fixture); l != fixture {
		w.is = append(w.is, l, strings.ToLower(here))
	}
}

func (w *world) translate(text string) string { return strings.NewReplacer(w.is...).Replace(text) }

// sorted are the keys of a map in order.
func sorted[V any](m map[string]V) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// build makes the organization of a case, its policies last but for the root quorum.
func (s *server) build(t *testing.T, k *book, c *row) *world {
	if len(s.fresh) == 0 {
		t.Fatal("no organization is left")
	}
	root := s.fresh[0].Client.In(t)
	root.Send = s.send
	s.fresh = s.fresh[1:]
	w := &world{t: t, k: k, root: root, is: []string{"'04beef'", "'" + target + "'"}, users: map[string]*client.User{}, ids: map[string]string{}, made: k.Orgs["solo"]}
	if c.Org != "" {
		w.made = k.Orgs[c.Org]
	}
	w.people()
	w.tags()
	w.wallets()
	w.privateKeys()
	w.passkeys()
	w.sessions()
	if c.Kind != "create_policy" {
		w.prepare(c)
		w.bounded(c)
		w.govern(c)
	}
	return w
}

func (w *world) people() {
	w.call(w.made.Users["root1"].ID, w.root.User)
	w.call(w.made.Credentials["root1-api"].PublicKey, w.root.Key.PublicKey)
	w.users["root1-api"] = w.root
	w.root.Do("UPDATE_USER_NAME", map[string]any{"userId": w.root.User, "userName": "root1"})
	names := slices.DeleteFunc(sorted(w.made.Users), func(n string) bool { return n == "root1" })
	var users []client.Object
	var keys []client.KeyPair
	for i, n := range names {
		u := w.made.Users[n]
		keys = append(keys, client.NewKey())
		w.call(w.made.Credentials[n+"-api"].PublicKey, keys[i].PublicKey)
		users = append(users, client.NewUser(u.Alias, keys[i]))
		if u.Email != "" {
			users[i]["userEmail"] = u.Email
		}
	}
	r := w.root.Do("CREATE_USERS_V4", client.Users(users...))
	for i, n := range names {
		id := client.Text(r, "userIds", strconv.Itoa(i))
		w.call(w.made.Users[n].ID, id)
		w.users[n+"-api"] = w.root.As(w.root.Organization, id, keys[i])
	}
}

func (w *world) tags() {
	for _, name := range sorted(w.k.Tags) {
		var users []string
		for _, n := range sorted(w.made.Users) {
			if slices.Contains(w.made.Users[n].Tags, w.k.Tags[name]) {
				users = append(users, w.ids[w.made.Users[n].ID])
			}
		}
		w.call(w.k.Tags[name], client.Text(w.root.Do("CREATE_USER_TAG", map[string]any{"userTagName": name, "userIds": users}), "userTagId"))
	}
}

// accounts of the first wallet.
var accounts = map[string][2]string{"eth": {"SECP256K1", "ETHEREUM"}, "deep": {"SECP256K1", "ETHEREUM"},
	"sol": {"ED25519", "SOLANA"}, "trx": {"SECP256K1", "TRON"},
	"btc": {"SECP256K1", "BITCOIN_MAINNET_P2WPKH"}, "btctr": {"SECP256K1", "BITCOIN_MAINNET_P2TR"}}

// onChain is what stands for an address in a transaction: a public key or a hash.
func onChain(address string) (b []byte, err error) {
	switch {
	case strings.HasPrefix(address, "0x"):
		return hex.DecodeString(address[2:])
	case strings.HasPrefix(address, "bc1"):
		_, words, err := bech32.DecodeNoLimit(address)
		if err != nil || len(words) == 0 {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		return bech32.ConvertBits(words[1:], 5, 8, false)
	}
	if b, err = base58.Decode(address); err == nil && len(b) == 25 {
		b = b[:21]
	}
	return b, err
}

// transaction is a transaction of the book, with the addresses of here in the place of the fixture's, and the ids of the
// transactions that it spends from, here by the book's.
func (w *world) transaction(unsigned string) (out string, spent map[string]string) {
	for _, n := range sorted(accounts) {
		there := w.made.WalletAccounts[n].Address
		was, err := onChain(there)
		if err != nil {
			w.t.Fatal(err)
		}
		is, err := onChain(w.ids[there])
		if err != nil {
			w.t.Fatal(err)
		}
		unsigned = strings.ReplaceAll(unsigned, hex.EncodeToString(was), hex.EncodeToString(is))
	}
	if at := internalKey.FindStringIndex(unsigned); at != nil {
		key := w.publicKey(w.ids[w.made.WalletAccounts["btctr"].Address])
		unsigned = unsigned[:at[1]-64] + key[2:] + unsigned[at[1]:]
	}
	return proven(unsigned)
}

// internalKey finds the taproot internal key of an input: key type 0x17, 32 bytes.
var internalKey = regexp.MustCompile(`011720[0-9a-f]{64}`)

// publicKey is that of an account by its address, compressed.
func (w *world) publicKey(address string) string {
	list := w.root.Read("list_wallet_accounts", map[string]any{"walletId": w.ids[w.made.Wallets["w1"].ID]})
	accounts, _ := list["accounts"].([]any)
	for _, one := range accounts {
		if client.Text(one, "address") == address {
			return client.Text(one, "publicKey")
		}
	}
	w.t.Fatalf("no account of %s in %v", address, list)
	return ""
}

func (w *world) wallets() {
	for _, n := range sorted(w.made.Wallets) {
		names := sorted(accounts)
		f := w.made.Wallets[n]
		if n != "w1" {
			names = []string{"eth"}
		}
		var all []client.Object
		for _, a := range names {
			all = append(all, client.Account(accounts[a][0], w.made.WalletAccounts[a].Path, accounts[a][1]))
		}
		typ, in := "CREATE_WALLET", client.Wallet(f.Label, all...)
		if f.Imported {
			typ = "IMPORT_WALLET"
			w.importing(w.root, w.root.User, "WALLET", []byte(mnemonic), in)
		}
		r := w.root.Do(typ, in)
		id := client.Text(r, "walletId")
		w.call(f.ID, id)
		for i, a := range names {
			address := client.Text(r, "addresses", strconv.Itoa(i))
			if n == "w1" {
				w.call(w.made.WalletAccounts[a].Address, address)
			}
			w.ids[n+" "+a] = address
		}
		if f.Exported {
			w.root.Do("EXPORT_WALLET", map[string]any{"walletId": id, "targetPublicKey": target})
		}
	}
}

// mnemonic is that of the wallet that is brought in; target is a public key whose private half is nobody's concern.
const (
	mnemonic = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	target   = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
)

// importing asks for a target of the user's and seals a secret to it, into the parameters of an import.
func (w *world) importing(by *client.User, user, what string, secret []byte, in map[string]any) {
	message := client.Text(by.Do("INIT_IMPORT_"+what, map[string]any{"userId": user}), "importBundle")
	sealed, err := passcode.Seal(client.Target(message), secret)
	if err != nil {
		w.t.Fatal(err)
	}
	in["userId"], in["encryptedBundle"] = user, sealed
}

func (w *world) privateKeys() {
	for _, n := range sorted(w.made.PrivateKeys) {
		k := w.made.PrivateKeys[n]
		in := map[string]any{"privateKeyName": k.Label, "curve": "CURVE_SECP256K1", "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}}
		if k.Imported {
			w.importing(w.root, w.root.User, "PRIVATE_KEY", bytes.Repeat([]byte{1}, 32), in)
			w.call(k.ID, client.Text(w.root.Do("IMPORT_PRIVATE_KEY", in), "privateKeyId"))
		} else {
			in["privateKeyTags"] = []any{}
			w.call(k.ID, client.Text(w.root.Do("CREATE_PRIVATE_KEYS_V2", map[string]any{"privateKeys": []any{in}}), "privateKeys", "0", "privateKeyId"))
		}
		for i, tag := range k.Tags {
			r := w.root.Do("CREATE_PRIVATE_KEY_TAG", map[string]any{"privateKeyTagName": fmt.Sprint(n, " tag ", i), "privateKeyIds": []string{w.ids[k.ID]}})
			w.call(tag, client.Text(r, "privateKeyTagId"))
		}
	}
}

func (w *world) passkeys() {
	for _, n := range sorted(w.made.Credentials) {
		c := w.made.Credentials[n]
		if c.Type != "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR" {
			continue
		}
		a, err := authenticator.New(authenticator.ES256, "localhost", "http://localhost")
		if err != nil {
			w.t.Fatal(err)
		}
		reg, err := a.Register([]byte("a challenge of "+n), authenticator.Packed)
		if err != nil {
			w.t.Fatal(err)
		}
		w.root.Do("CREATE_AUTHENTICATORS_V2", map[string]any{"userId": w.ids[c.UserID], "authenticators": []any{reg.Params(n)}})
		w.users[n] = w.root.As(w.root.Organization, w.ids[c.UserID], client.KeyPair{})
		w.users[n].Stamp = client.ByPasskey(a)
	}
}

// sessions logs in whose credentials are those of sessions.
func (w *world) sessions() {
	for _, n := range sorted(w.made.Credentials) {
		c := w.made.Credentials[n]
		if c.Type != "CREDENTIAL_TYPE_LOGIN" {
			continue
		}
		for _, u := range sorted(w.made.Users) {
			if w.made.Users[u].ID == c.UserID {
				w.users[n], _ = w.users[u+"-api"].Login()
			}
		}
	}
}

// bounded puts a session with the scope of a case in the place of the credential
// that asks.
func (w *world) bounded(c *row) {
	if c.Request.SessionScope == "" {
		return
	}
	r := w.root.Do("CREATE_SESSION_PROFILE", map[string]any{"sessionProfileName": "bounded", "scope": w.translate(c.Request.SessionScope)})
	u, k := w.users[c.Request.By.User+"-api"], client.NewKey()
	u.Do("STAMP_LOGIN", map[string]any{"publicKey": k.PublicKey, "sessionProfileId": client.Text(r, "sessionProfileId")})
	w.users[c.Request.By.Credential] = u.As(u.Organization, u.User, k)
}

// policy is a rule as parameters.
func (w *world) policy(p rule) map[string]any {
	m := map[string]any{"policyName": p.ID, "effect": p.Effect, "notes": ""}
	for field, text := range map[string]string{"consensus": p.Consensus, "condition": p.Condition, "time": p.Time} {
		if text != "" {
			m[field] = w.translate(text)
		}
	}
	return m
}

// govern makes policies and the root quorum.
func (w *world) govern(c *row) {
	for _, p := range c.Policies {
		w.ids["policy "+p.ID] = client.Text(w.root.Do("CREATE_POLICY_V3", w.policy(p)), "policyId")
	}
	var members []string
	for _, n := range w.made.RootQuorum.Users {
		members = append(members, w.ids[w.made.Users[n].ID])
	}
	w.root.Do("UPDATE_ROOT_QUORUM", map[string]any{"threshold": w.made.RootQuorum.Threshold, "userIds": members})
}

const nowhere = "00000000-0000-4000-8000-000000000000"

// request is the parameters of a case's request.
func (w *world) request(c *row, typ string) map[string]any {
	key := client.APIKey("another", client.NewKey())
	userID := c.Request.Params["userId"]
	if id, ok := userID.(string); ok {
		userID = w.ids[id]
	}
	t := &c.Request.Target
	switch op := request.Operation(typ); op {
	case "set_payment_method":
		return map[string]any{"number": "4242424242424242", "cvv": "123", "expiryMonth": "12", "expiryYear": "2030", "cardHolderEmail": "payer@example.org", "cardHolderName": "Ada"}
	case "sign_raw_payload", "sign_raw_payloads":
		with := w.ids[w.made.WalletAccounts[t.WalletAccount].Address]
		if t.PrivateKey != "" {
			with = w.ids[w.made.PrivateKeys[t.PrivateKey].ID]
		}
		x := w.k.Transactions[c.Request.Tx]
		m := map[string]any{"signWith": with, "encoding": x.Encoding, "hashFunction": x.HashFunction}
		if op == "sign_raw_payloads" {
			m["payloads"] = []string{x.Payload}
		} else {
			m["payload"] = x.Payload
		}
		return m
	case "sign_transaction":
		x := w.k.Transactions[c.Request.Tx]
		unsigned, _ := w.transaction(x.UnsignedTransaction)
		m := map[string]any{"unsignedTransaction": unsigned, "type": x.Type}
		switch {
		case strings.HasSuffix(typ, "_V2") && t.PrivateKey != "":
			m["signWith"] = w.ids[w.made.PrivateKeys[t.PrivateKey].ID]
		case strings.HasSuffix(typ, "_V2"):
			m["signWith"] = w.ids[t.Wallet+" "+t.WalletAccount]
		default: // could name a private key only
			m["privateKeyId"] = w.ids[w.made.PrivateKeys["pk1"].ID]
		}
		return m
	case "eth_send_transaction":
		return map[string]any{"from": w.ids[t.Wallet+" "+t.WalletAccount], "caip2": "eip155:1", "sponsor": c.Request.Sponsored,
			"to": "0x08d2b0a37f869ff76bacb5bab3278e26ab7067b7", "value": "1"}
	case "update_oauth2_credential":
		return map[string]any{"oauth2CredentialId": w.root.Organization, "provider": "OAUTH2_PROVIDER_X", "clientId": "c", "encryptedClientSecret": "00"}
	case "verify_otp":
		return map[string]any{"otpId": w.root.Organization, "encryptedOtpBundle": "{}"}
	case "init_otp_auth":
		return map[string]any{"otpType": "OTP_TYPE_EMAIL", "contact": "user@example.org", "appName": "App", "otpLength": c.Request.PolicyParams["otp_length"]}
	case "email_auth":
		return map[string]any{"email": "user@example.org", "targetPublicKey": target, "emailCustomization": map[string]any{"appName": "App"}}
	case "create_policy":
		return w.policy(rule{ID: "asked for", Effect: "EFFECT_ALLOW", Condition: "false"})
	case "delete_policy":
		return map[string]any{"policyId": w.ids["policy spare"]}
	case "delete_wallets":
		names := t.Wallets
		if names == nil {
			names = []string{"w1"}
		}
		var ids []string
		for _, n := range names {
			ids = append(ids, w.ids[w.made.Wallets[n].ID])
		}
		return map[string]any{"walletIds": ids, "deleteWithoutExport": true}
	case "export_wallet_account":
		return map[string]any{"address": w.ids[t.Wallet+" "+t.WalletAccount], "targetPublicKey": target}
	case "export_private_key":
		return map[string]any{"privateKeyId": w.ids[w.made.PrivateKeys[t.PrivateKey].ID], "targetPublicKey": target}
	case "init_import_wallet":
		return map[string]any{"userId": userID}
	case "import_private_key":
		in := map[string]any{"privateKeyName": "asked for", "curve": "CURVE_ED25519", "addressFormats": []any{}}
		w.importing(w.users[c.Request.By.Credential], userID.(string), "PRIVATE_KEY", bytes.Repeat([]byte{2}, 32), in)
		return in
	case "export_wallet":
		return map[string]any{"walletId": w.ids[w.made.Wallets[t.Wallet].ID], "targetPublicKey": target}
	case "stamp_login":
		return map[string]any{"publicKey": key["publicKey"]}
	case "create_wallet":
		return client.Wallet("asked for")
	case "create_wallet_accounts":
		return map[string]any{"walletId": w.ids[w.made.Wallets[t.Wallet].ID],
			"accounts": []any{client.Account("ED25519", "m/44'/501'/7'/0'", "SOLANA")}}
	case "create_sub_organization":
		return client.SubOrganization("asked for", client.NewRootUser("root", client.NewKey()))
	case "delete_users":
		var ids []string
		for _, id := range c.Request.PolicyParams["user_ids"].([]any) {
			ids = append(ids, w.ids[id.(string)])
		}
		return map[string]any{"userIds": ids}
	case "set_organization_feature":
		return map[string]any{"name": "FEATURE_NAME_SMS_AUTH", "value": ""}
	case "update_root_quorum":
		return map[string]any{"threshold": 1, "userIds": []string{w.ids[w.made.Users["root1"].ID]}}
	case "create_api_keys":
		return map[string]any{"userId": userID, "apiKeys": []any{key}}
	case "delete_api_keys":
		return map[string]any{"userId": userID, "apiKeyIds": []string{w.ids["key spare"]}}
	case "delete_authenticators":
		return map[string]any{"userId": userID, "authenticatorIds": []string{nowhere}}
	case "disable_private_key":
		return map[string]any{"privateKeyId": w.ids[w.made.PrivateKeys[t.PrivateKey].ID]}
	case "update_user_name":
		return map[string]any{"userId": userID, "userName": "asked for"}
	case "spark_sign_frost":
		var signatures []any
		for _, s := range c.Request.PolicyParams["signatures"].([]any) {
			signatures = append(signatures, sparkSignature(s))
		}
		return map[string]any{"signWith": "nobody's", "signatures": signatures}
	case "spark_prepare_transfer":
		leaf := func(id string) any { return map[string]any{"signingLeaf": map[string]any{"leafId": id}} }
		return map[string]any{"signWith": "nobody's", "transfer": map[string]any{"transferId": w.root.Organization, "threshold": 2, "receiverPublicKey": sparkPoint,
			"leaves": []any{map[string]any{"leafId": "leaf-1", "oldLeafDerivation": leaf("leaf-1"), "newLeafDerivation": leaf("leaf-2")}},
			"operatorRecipients": []any{map[string]any{"operatorId": "one", "encryptionPublicKey": sparkPoint},
				map[string]any{"operatorId": "two", "encryptionPublicKey": "03" + sparkPoint[2:]}}}}
	}
	return map[string]any{} // a kind that is not live says so before it looks
}

// interfaces uploads what describes a case's contracts.
func (w *world) interfaces(c *row) {
	for _, n := range c.Interfaces {
		var i struct {
			Type, Address string
			ABI           json.RawMessage `json:"abi"`
			IDL           json.RawMessage `json:"idl"`
		}
		if err := json.Unmarshal(w.k.Interfaces[n], &i); err != nil {
			w.t.Fatal(err)
		}
		if i.ABI == nil {
			i.ABI = i.IDL
		}
		w.root.Do("CREATE_SMART_CONTRACT_INTERFACE", map[string]any{"smartContractAddress": i.Address, "smartContractInterface": string(i.ABI),
			"type": i.Type, "label": strings.ReplaceAll(n, ":", " ")})
	}
}

// sparkPoint is twice the base point of secp256k1.
const sparkPoint = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"

// sparkSignature is one signature of a case, whose keys are too short to be any, as clients ask for it.
func sparkSignature(of any) any {
	m := map[string]any{"message": strings.Repeat("aa", 32), "verifyingKey": sparkPoint,
		"operatorCommitments": []any{map[string]any{"id": strings.Repeat("00", 31) + "01", "hiding": sparkPoint, "binding": sparkPoint}}}
	switch client.Text(of, "derivation", "type") {
	case "signing_leaf":
		m["derivation"] = map[string]any{"signingLeaf": map[string]any{"leafId": client.Text(of, "derivation", "signing_leaf", "leaf_id")}}
	default:
		m["derivation"] = map[string]any{"identity": map[string]any{}}
	}
	if client.Text(of, "adaptor_public_key") != "" {
		m["adaptorPublicKey"] = sparkPoint
	}
	return m
}

// prepare makes what a request needs, or takes away.
func (w *world) prepare(c *row) {
	w.interfaces(c)
	switch request.Operation(c.Request.Type) {
	case "sign_transaction":
		_, spent := w.transaction(w.k.Transactions[c.Request.Tx].UnsignedTransaction)
		for is, here := range spent {
			w.call(is, here)
		}
	case "spark_prepare_transfer":
		w.call("'03bb'", "'"+sparkPoint+"'")
	case "delete_policy":
		r := w.root.Do("CREATE_POLICY_V3", w.policy(rule{ID: "spare", Effect: "EFFECT_ALLOW", Condition: "false"}))
		w.ids["policy spare"] = client.Text(r, "policyId")
	case "init_otp_auth":
		w.root.Do("SET_ORGANIZATION_FEATURE", map[string]any{"name": "FEATURE_NAME_OTP_EMAIL_AUTH", "value": ""})
	case "delete_api_keys":
		r := w.root.Do("CREATE_API_KEYS_V2", map[string]any{"userId": w.ids[c.Request.Params["userId"].(string)], "apiKeys": []any{client.APIKey("spare", client.NewKey())}})
		w.ids["key spare"] = client.Text(r, "apiKeyIds", "0")
	}
}
