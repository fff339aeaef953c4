package replay_test

import (
	"bytes"
	"context"
	"crypto/ecdh"
	crand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/request"
	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	exported "cloister/enclave/internal/history"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/replay"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/passcode"
	"cloister/sim/rig"
)

// A history is a random run of activities in the root organization of a rig and in what is made below it.
type history struct {
	t         testing.TB
	r         *rig.Rig
	witnesses *rig.Witnesses
	rand      *rand.Rand
	n         int
	orgs      []*member // organizations, the first at the top
	counts    map[string]int
	bodies    map[string]sent // of what waits, by fingerprint
}

// A sent is a body with its type.
type sent struct {
	typ  string
	body []byte
}

type object = map[string]any

// A member is an organization with what it has.
type member struct {
	id, parent string
	root       client.KeyPair
	users      []person
	wallets    []string
	addresses  []string // ethereum
	solana     []string
	spark      []string
	keys       []string
	secrets    []string
	policies   []string
	tags       []string
	waits      []string // fingerprints
}

type person struct {
	id   string
	pair client.KeyPair
}

// start begins a history in a deployment with four witnesses.
func start(t testing.TB) *history {
	return begin(t, rig.Options{Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{})})
}

func begin(t testing.TB, o rig.Options) *history {
	r := rig.Start(t, o)
	h := &history{t: t, r: r, witnesses: o.Witnesses, rand: rand.New(rand.NewPCG(1, 1)), counts: map[string]int{}, bodies: map[string]sent{}}
	h.orgs = []*member{{id: r.Credentials.OrganizationID, root: r.Credentials.RootAPIKey, users: []person{{r.Credentials.RootUserID, r.Credentials.RootAPIKey}}}}
	return h
}

func pick[T any](h *history, all []T) (one T) {
	if len(all) > 0 {
		one = all[h.rand.IntN(len(all))]
	}
	return one
}

func (h *history) name(what string) string {
	h.n++
	return fmt.Sprintf("%s %d", what, h.n)
}

// as is a user of an organization.
func (h *history) as(o *member, by client.KeyPair) *client.User { return h.r.Root().As(o.id, "", by) }

// do submits as somebody and answers the result and the reply's status.
func (h *history) do(o *member, by client.KeyPair, typ string, parameters any) (object, int) {
	time.Sleep(time.Millisecond) // entries of several organizations, where no log orders them, are in the order of their times
	u := h.as(o, by)
	return h.send(o, u, typ, u.Body(typ, parameters))
}

// send is do with a body.
func (h *history) send(o *member, u *client.User, typ string, body []byte) (object, int) {
	got := u.Post(wire.EndpointSubmit, request.Operation(typ), body)
	h.counts[fmt.Sprint(typ, " ", got.Status, " ", got.State())]++
	if state := got.State(); state == "CONSENSUS_NEEDED" || state == "AUTHENTICATORS_NEEDED" {
		if print := got.Text("activity", "fingerprint"); !slices.Contains(o.waits, print) {
			o.waits = append(o.waits, print)
			h.bodies[print] = sent{typ, body}
		}
	}
	return got.Result(), got.Status
}

// below makes a sub-organization, whose root user has this key.
func (h *history) below(key client.KeyPair) *member {
	top := h.orgs[0]
	r, status := h.do(top, top.root, "CREATE_SUB_ORGANIZATION_V7", client.SubOrganization("Sub", client.NewRootUser("Root", key)))
	if status != 200 || r == nil {
		h.t.Fatal(status, r)
	}
	o := &member{id: client.Text(r, "subOrganizationId"), parent: top.id, root: key, users: []person{{client.Text(r, "rootUserIds", "0"), key}}}
	h.orgs = append(h.orgs, o)
	return o
}

func target(t testing.TB) string {
	k, err := ecdh.P256().GenerateKey(crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(k.PublicKey().Bytes())
}

func sparkWallet(name string) object {
	return client.Wallet(name, client.Account("SECP256K1", "m/8797555'/0'/0'", "SPARK_MAINNET"))
}

type asked struct {
	typ        string
	parameters object
}

// sparkRequests are what is asked for Spark with an address: shares, packages, and a claim that a key
// refuses. It is signed by 2 and holds nothing.
func sparkRequests(address string) []asked {
	const one, two = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"
	leaf := func(id string) object { return object{"signingLeaf": object{"leafId": id}} }
	signing := func(derivation object, message string) object {
		return object{"derivation": derivation, "message": strings.Repeat(message, 32), "verifyingKey": two, "operatorCommitments": []any{object{"id": strings.Repeat("00", 31) + "01", "hiding": one, "binding": two}}}
	}
	group := func(more object) object {
		more["threshold"], more["operatorRecipients"] = 2, []any{object{"operatorId": "one", "encryptionPublicKey": one}, object{"operatorId": "two", "encryptionPublicKey": two}}
		return more
	}
	id := "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	return []asked{
		{"SPARK_SIGN_FROST", object{"signWith": address, "signatures": []any{signing(object{"identity": object{}}, "aa"), signing(leaf("x"), "bb"), signing(leaf("x"), "cc")}}},
		{"SPARK_PREPARE_TRANSFER", object{"signWith": address, "transfer": group(object{"transferId": id, "receiverPublicKey": one,
			"leaves": []any{object{"leafId": "a", "oldLeafDerivation": leaf("a"), "newLeafDerivation": leaf("b")}}})}},
		{"SPARK_CLAIM_TRANSFER", object{"signWith": address, "claim": group(object{"transferId": id, "senderIdentityPublicKey": two,
			"leaves": []any{object{"leafId": "leaf", "ciphertext": strings.Repeat("00", 129),
				"senderSignature": "b8ec3d60898d49136bcfdc61b2e46a3c8045fedc70246a6ae33f81c4d87747aa1efd4ac11ad2383b1f7ffe575cde4ca34b40da6e7481c9dd5f96853cdc962430"}}})}},
		{"SPARK_PREPARE_LIGHTNING_RECEIVE", object{"signWith": address, "lightningReceive": group(object{})}},
	}
}

// ethTransaction is an unsigned transaction of type 2 without a value.
const ethTransaction = "02e70180843b9aca0084773594008252089400000000000000000000000000000000000000010180c0"

// step is one random activity.
func (h *history) step() {
	o := pick(h, h.orgs)
	by := pick(h, o.users).pair
	if h.rand.IntN(2) > 0 {
		by = o.root
	}
	switch h.rand.IntN(45) {
	case 42:
		r, _ := h.do(o, by, "CREATE_WALLET", sparkWallet(h.name("Spark")))
		if a := client.Text(r, "addresses", "0"); strings.HasPrefix(a, "spark") {
			o.spark = append(o.spark, a)
		}
	case 43:
		all := sparkRequests(pick(h, o.spark))
		one := all[h.rand.IntN(len(all))]
		h.do(o, by, one.typ, one.parameters)
	case 0, 1:
		pair := client.NewKey()
		r, _ := h.do(o, by, "CREATE_USERS_V4", client.Users(client.NewUser(h.name("User"), pair)))
		if id := client.Text(r, "userIds", "0"); len(id) == 36 {
			o.users = append(o.users, person{id, pair})
		}
	case 2, 3:
		r, _ := h.do(o, by, "CREATE_WALLET", client.Wallet(h.name("Wallet"), client.Ethereum, client.Account("ED25519", "m/44'/501'/0'", "SOLANA")))
		if id := client.Text(r, "walletId"); len(id) == 36 {
			o.wallets, o.addresses = append(o.wallets, id), append(o.addresses, client.Text(r, "addresses", "0"))
			o.solana = append(o.solana, client.Text(r, "addresses", "1"))
		}
	case 4:
		r, _ := h.do(o, by, "CREATE_WALLET_ACCOUNTS", object{"walletId": pick(h, o.wallets), "accounts": []any{client.Account("SECP256K1", fmt.Sprintf("m/44'/60'/0'/0/%d", h.rand.IntN(50)), "ETHEREUM")}})
		if a := client.Text(r, "addresses", "0"); strings.HasPrefix(a, "0x") {
			o.addresses = append(o.addresses, a)
		}
	case 5:
		r, _ := h.do(o, by, "CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{
			object{"privateKeyName": h.name("Key"), "curve": "CURVE_SECP256K1", "privateKeyTags": []any{}, "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}},
			object{"privateKeyName": h.name("Key"), "curve": "CURVE_P256", "privateKeyTags": []any{}, "addressFormats": []any{}}}})
		for i := range 2 {
			if id := client.Text(r, "privateKeys", strconv.Itoa(i), "privateKeyId"); len(id) == 36 {
				o.keys = append(o.keys, id)
			}
		}
	case 6, 7:
		h.do(o, by, "SIGN_RAW_PAYLOAD_V2", object{"signWith": pick(h, append(o.addresses, o.keys...)), "payload": h.name("payload"), "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_SHA256"})
	case 8:
		h.do(o, by, "SIGN_RAW_PAYLOADS", object{"signWith": pick(h, o.solana), "payloads": []any{h.name("a"), h.name("b")}, "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_NOT_APPLICABLE", "generateAppProofs": true})
	case 9, 10:
		h.do(o, by, "SIGN_TRANSACTION_V2", object{"signWith": pick(h, o.addresses), "type": "TRANSACTION_TYPE_ETHEREUM", "generateAppProofs": true, "unsignedTransaction": ethTransaction})
	case 11, 12, 13:
		r, _ := h.do(o, by, "CREATE_POLICY_V3", object{"policyName": h.name("Policy"), "effect": pick(h, []string{"EFFECT_ALLOW", "EFFECT_ALLOW", "EFFECT_DENY"}), "notes": "",
			"condition": pick(h, []string{"activity.resource == 'WALLET'", "activity.action == 'SIGN'", "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "activity.resource == 'USER' && activity.action == 'CREATE'"}),
			"consensus": pick(h, []string{"approvers.any(user, true)", "approvers.count() >= 2", "approvers.count() >= 2", "approvers.any(user, user.id == '" + pick(h, o.users).id + "')"})})
		if id := client.Text(r, "policyId"); len(id) == 36 {
			o.policies = append(o.policies, id)
		}
	case 14:
		h.do(o, by, "DELETE_POLICY", object{"policyId": pick(h, o.policies)})
	case 15:
		r, _ := h.do(o, by, "CREATE_USER_TAG", object{"userTagName": h.name("Tag"), "userIds": []any{pick(h, o.users).id}})
		if id := client.Text(r, "userTagId"); len(id) == 36 {
			o.tags = append(o.tags, id)
		}
	case 16:
		h.do(o, by, "DELETE_USER_TAGS", object{"userTagIds": []any{pick(h, o.tags)}})
	case 17, 18, 19, 20, 21:
		if print := pick(h, o.waits); print != "" {
			if b := h.bodies[print]; h.rand.IntN(3) == 0 {
				h.send(o, h.as(o, pick(h, o.users).pair), b.typ, b.body)
				return
			}
			typ := "APPROVE_ACTIVITY"
			if h.rand.IntN(4) == 0 {
				typ = "REJECT_ACTIVITY"
			}
			if r, status := h.do(o, pick(h, o.users).pair, typ, object{"fingerprint": print}); status == 400 || len(r) > 0 { // it is over
				o.waits = slices.DeleteFunc(o.waits, func(w string) bool { return w == print })
			}
		}
	case 22:
		if o.parent != "" {
			return
		}
		pair, pair2 := client.NewKey(), client.NewKey()
		p := client.SubOrganization(h.name("Sub"), client.NewRootUser("Root", pair), client.NewRootUser("Second", pair2))
		if h.rand.IntN(2) == 0 {
			p["wallet"] = client.Wallet("W", client.Ethereum)
		}
		r, _ := h.do(o, by, "CREATE_SUB_ORGANIZATION_V7", p)
		if id := client.Text(r, "subOrganizationId"); len(id) == 36 {
			h.orgs = append(h.orgs, &member{id: id, parent: o.id, root: pair, users: []person{{client.Text(r, "rootUserIds", "0"), pair}, {client.Text(r, "rootUserIds", "1"), pair2}}})
		}
	case 23:
		if len(o.users) > 1 && h.rand.IntN(2) == 0 {
			h.do(o, o.root, "UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{o.users[0].id, pick(h, o.users[1:]).id}})
		} else {
			h.do(o, o.root, "UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{o.users[0].id}})
		}
	case 24:
		h.do(o, by, "EXPORT_WALLET", object{"walletId": pick(h, o.wallets), "targetPublicKey": target(h.t)})
	case 25:
		h.do(o, by, "EXPORT_PRIVATE_KEY", object{"privateKeyId": pick(h, o.keys), "targetPublicKey": target(h.t)})
	case 26:
		h.do(o, by, "INIT_IMPORT_WALLET", object{"userId": pick(h, o.users).id})
	case 27:
		h.do(o, by, "STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey, "expirationSeconds": "900"})
	case 28:
		h.do(o, by, "CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": target(h.t)})
	case 29:
		h.do(o, by, "UPDATE_USER", object{"userId": pick(h, o.users).id, "userName": h.name("Renamed")})
	case 30:
		user, key := pick(h, o.users).id, client.APIKey(h.name("k"), client.NewKey())
		key["expirationSeconds"] = "600"
		h.do(o, by, "CREATE_API_KEYS_V2", object{"userId": user, "apiKeys": []any{key}})
	case 32, 33, 34, 35:
		h.do(o, pick(h, o.users).pair, "CREATE_USER_TAG", client.Tag(h.name("Tag")))
	case 36:
		h.do(o, by, "CREATE_INVITATIONS", object{"invitations": []any{object{"receiverUserName": h.name("Guest"), "receiverUserEmail": fmt.Sprintf("guest%d@example.com", h.n), "receiverUserTags": []any{},
			"accessType": "ACCESS_TYPE_ALL", "senderUserId": o.users[0].id}}})
	case 37:
		u := pick(h, o.users)
		h.do(o, by, "CREATE_MFA_POLICY", object{"userId": u.id, "mfaPolicyName": h.name("MFA"), "condition": "activity.resource == 'NOTHING'", "order": h.n, "notes": "note",
			"requiredAuthenticationMethods": []any{object{"any": []any{object{"type": "AUTHENTICATION_TYPE_PASSKEY"}}}}})
	case 38:
		h.do(o, o.root, "SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBHOOK", "value": "https://hooks.example.com/" + strconv.Itoa(h.n)})
	case 39:
		session := client.NewKey()
		if _, status := h.do(o, by, "STAMP_LOGIN", object{"publicKey": session.PublicKey}); status == 200 {
			h.do(o, session, "UPDATE_ORGANIZATION_NAME", object{"organizationName": h.name("Org")})
		}
	case 40:
		if id := h.importSecret(o, by, h.rand.IntN(4) == 0); len(id) == 36 {
			o.secrets = append(o.secrets, id)
		}
	case 41:
		h.do(o, by, "EXPORT_SECRETS", object{"secrets": []any{object{"secretId": pick(h, o.secrets), "targetPublicKey": target(h.t), "encryptionSuite": suite},
			object{"secretId": pick(h, o.secrets), "targetPublicKey": target(h.t), "encryptionSuite": suite}}})
	case 44:
		if id := pick(h, o.secrets); id != "" {
			if _, status := h.do(o, by, "DELETE_SECRETS", object{"secretIds": []any{id}}); status == 200 {
				o.secrets = slices.DeleteFunc(o.secrets, func(s string) bool { return s == id })
			}
		}
	case 31:
		h.do(o, by, "DELETE_WALLETS", object{"walletIds": []any{pick(h, o.wallets)}})
	}
}

// export is an organization's history as its root user gets it.
func (h *history) export(o *member) []byte {
	h.t.Helper()
	root := h.as(o, o.root)
	made := root.Submit("EXPORT_HISTORY", object{})
	if made.Status != 200 {
		h.t.Fatal(made)
	}
	file, from := []byte(exported.Magic), ""
	for {
		page := root.Read("get_history", object{"activityId": made.Text("activity", "id"), "from": from})
		b, err := base64.StdEncoding.Strict().DecodeString(client.Text(page, "history"))
		if err != nil {
			h.t.Fatal(err)
		}
		file = append(file, b...)
		next, ok := page["next"].(string)
		if !ok {
			return file
		}
		from = next
	}
}

// trust is what the deployment's boot proof would lead to.
func (h *history) trust() replay.Trust {
	proof := h.r.Root().Read("get_latest_boot_proof", object{"appName": "cloister"})
	key, err := hex.DecodeString(client.Text(proof, "bootProof", "ephemeralPublicKeyHex"))
	if err != nil {
		h.t.Fatal(err)
	}
	if h.witnesses == nil {
		return replay.Trust{LiveKeys: [][]byte{key}}
	}
	policy, err := tlog.ParsePolicy(h.witnesses.Terms.Policy)
	if err != nil {
		h.t.Fatal(err)
	}
	return replay.Trust{LiveKeys: [][]byte{key}, Policy: policy}
}

// read exports all organizations and reads what came.
func (h *history) read() []*replay.History {
	h.t.Helper()
	trust := h.trust()
	var all []*replay.History
	for _, o := range h.orgs {
		one, err := replay.Read(bytes.NewReader(h.export(o)), trust)
		if err != nil {
			h.t.Fatal(err)
		}
		if one.Organization.String() != o.id {
			h.t.Fatalf("the history of %v", one.Organization)
		}
		all = append(all, one)
	}
	return all
}

func run(histories []*replay.History) (*core.ReplayReport, error) {
	return replay.Run(context.Background(), core.ReplayConfig{Rand: crand.Reader, Capabilities: activity.Capabilities{OnRamps: []onramp.Provider{onramp.MoonPay}}}, histories...)
}

// scene is a short history in which everything happens that the tests change.
func (h *history) scene() {
	top := h.orgs[0]
	second := client.NewKey()
	r, _ := h.do(top, top.root, "CREATE_USERS_V4", client.Users(client.NewUser("Second", second)))
	top.users = append(top.users, person{client.Text(r, "userIds", "0"), second})
	h.do(top, top.root, "CREATE_POLICY_V3", client.Policy("Two", "ALLOW", "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "approvers.count() >= 2"))
	h.do(top, top.root, "CREATE_POLICY_V3", client.Policy("Sign", "ALLOW", "activity.action == 'SIGN'", "approvers.any(user, true)"))
	waits := client.Tag("Waits")
	waits["generateAppProofs"] = true
	h.do(top, second, "CREATE_USER_TAG", waits)
	shown := h.as(top, top.root).Query("list_activities", object{"filterByStatus": []any{"ACTIVITY_STATUS_CONSENSUS_NEEDED"}})
	shown = h.as(top, top.root).Query("get_activity", object{"activityId": shown.Text("activities", "0", "id")})
	h.do(top, top.root, "APPROVE_ACTIVITY", object{"fingerprint": top.waits[0], "decodedDigest": shown.Text("activity", "decodedDigest")})
	h.do(top, second, "CREATE_USER_TAG", client.Tag("Rejected"))
	h.do(top, second, "REJECT_ACTIVITY", object{"fingerprint": top.waits[1]})
	h.do(top, second, "CREATE_WALLET", client.Wallet("Denied"))
	for i := range 2 {
		r, _ = h.do(top, top.root, "CREATE_WALLET", client.Wallet(fmt.Sprint("Wallet ", i), client.Ethereum))
		top.addresses = append(top.addresses, client.Text(r, "addresses", "0"))
	}
	for _, address := range top.addresses {
		h.do(top, second, "SIGN_RAW_PAYLOAD_V2", object{"signWith": address, "payload": "same", "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_SHA256", "generateAppProofs": true})
		h.do(top, second, "SIGN_TRANSACTION_V2", object{"signWith": address, "type": "TRANSACTION_TYPE_ETHEREUM", "unsignedTransaction": ethTransaction})
	}
	for i := range 2 {
		r, _ = h.do(top, top.root, "CREATE_WALLET", sparkWallet(fmt.Sprint("Spark ", i)))
		for _, one := range sparkRequests(client.Text(r, "addresses", "0")) {
			h.do(top, second, one.typ, one.parameters)
		}
	}
	h.do(top, top.root, "SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBHOOK", "value": "https://hooks.example.com/"})
	sub := h.below(second)
	h.do(sub, second, "UPDATE_USER", object{"userId": sub.users[0].id, "userName": "Again", "userEmail": "root@example.com"})
	third := client.NewKey()
	h.do(top, top.root, "CREATE_USERS_V4", client.Users(client.NewUser("Third", third)))
	h.do(sub, third, "EMAIL_AUTH_V2", object{"email": "root@example.com", "targetPublicKey": target(h.t)}) // the parent's policies refuse it
	h.do(sub, second, "INIT_IMPORT_WALLET", object{"userId": sub.users[0].id})
	h.do(sub, second, "DELETE_WALLETS", object{"walletIds": []any{sub.id}})
	h.importSecret(top, second, false) // denied
	h.importSecret(top, top.root, true)
	id := h.importSecret(top, top.root, false)
	h.do(top, top.root, "EXPORT_SECRETS", object{"secrets": []any{object{"secretId": id, "targetPublicKey": target(h.t), "encryptionSuite": suite}}})
}

const suite = "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1"

// importSecret imports a secret through a target of the root user's, encrypted to another key if it is to be refused.
func (h *history) importSecret(o *member, by client.KeyPair, refused bool) string {
	r, _ := h.do(o, o.root, "INIT_IMPORT_SECRETS", object{"encryptionSuite": suite, "numSecrets": 2})
	point := client.Target(client.Text(r, "enclaveTargetMessages", "1"))
	to := point
	if refused {
		var err error
		if to, err = hex.DecodeString(target(h.t)); err != nil {
			h.t.Fatal(err)
		}
	}
	payload, err := passcode.Seal(to, []byte(h.name("secret")))
	if err != nil {
		h.t.Fatal(err)
	}
	r, _ = h.do(o, by, "IMPORT_SECRETS", object{"secrets": []any{object{"name": h.name("Secret"), "targetPublicKey": hex.EncodeToString(point), "encryptionSuite": suite,
		"secretPayload": payload, "staticProperties": []any{object{"key": "env", "value": h.name("prod")}}}}})
	return client.Text(r, "secretIds", "0")
}

// A forgery changes one entry, or says that it has nothing to change there.
type forgery struct {
	name   string
	change func(h *history, e *org.Entry, all []*core.Recorded) bool
}

func otherSignature(e *org.Entry, all []*core.Recorded) bool {
	for _, o := range all {
		if o.Entry != e && o.Entry.Type == e.Type && len(o.Entry.Result) > 0 && !bytes.Equal(o.Entry.Result, e.Result) && strings.Contains(e.Type, "_SIGN_") {
			e.Result = o.Entry.Result
			return true
		}
	}
	return false
}

var forgeries = []forgery{
	{"another outcome", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		if e.Outcome == "OUTCOME_ALLOW" {
			e.Outcome = "OUTCOME_REQUIRES_CONSENSUS"
		} else {
			e.Outcome = "OUTCOME_ALLOW"
		}
		return !e.Activity.Zero()
	}},
	{"a vote dropped", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		if len(e.Votes) == 0 {
			return false
		}
		e.Votes = e.Votes[:len(e.Votes)-1]
		return true
	}},
	{"another user's vote", func(h *history, e *org.Entry, _ []*core.Recorded) bool {
		if len(e.Votes) == 0 {
			return false
		}
		v := &e.Votes[len(e.Votes)-1]
		for _, o := range h.orgs {
			for _, u := range o.users {
				if id, _ := org.ParseID(u.id); id != v.User {
					v.User = id
					return true
				}
			}
		}
		return false
	}},
	{"another key's vote", func(h *history, e *org.Entry, _ []*core.Recorded) bool {
		if len(e.Votes) == 0 {
			return false
		}
		v := &e.Votes[len(e.Votes)-1]
		for _, u := range h.orgs[0].users {
			if u.pair.PublicKey != v.PublicKey {
				v.PublicKey = u.pair.PublicKey
				return true
			}
		}
		return false
	}},
	{"a signature's bit", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		if len(e.Votes) == 0 {
			return false
		}
		v := &e.Votes[len(e.Votes)-1]
		digit := "0"
		if strings.HasSuffix(v.Signature, digit) {
			digit = "1"
		}
		v.Signature = v.Signature[:len(v.Signature)-1] + digit
		return true
	}},
	{"a write added", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.Writes = append(e.Writes, org.Write{Key: []byte("Bsomebody"), Value: []byte{0xa0}})
		return e.Seq > 0
	}},
	{"a write dropped", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		if len(e.Writes) == 0 {
			return false
		}
		e.Writes = e.Writes[:len(e.Writes)-1]
		return e.Seq > 0
	}},
	{"writes in another order", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		slices.Reverse(e.Writes)
		return len(e.Writes) > 1 && e.Seq > 0
	}},
	{"a written bit", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		for i := range e.Writes {
			if v := e.Writes[i].Value; len(v) > 0 && e.Writes[i].Key[0] != 'E' && e.Writes[i].Key[0] != 'P' {
				v[len(v)-1] ^= 1
				return e.Seq > 0
			}
		}
		return false
	}},
	{"another status", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		if e.Status == org.StatusCompleted {
			e.Status = org.StatusFailed
		} else {
			e.Status = org.StatusCompleted
		}
		return !e.Activity.Zero()
	}},
	{"a later time", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.TimeMs += 60_000
		return e.Seq > 0
	}},
	{"an earlier time", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.TimeMs -= 60_000
		return e.Seq > 0
	}},
	{"another creation", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.CreatedMs++
		return e.Seq > 0
	}},
	{"another floor", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		if e.LowWatermarkMs += 60_000; e.LowWatermarkMs == 60_000 {
			e.LowWatermarkMs = e.TimeMs - 600_000
		}
		return e.Seq > 0
	}},
	{"another key's result", func(_ *history, e *org.Entry, all []*core.Recorded) bool { return otherSignature(e, all) }},
	{"no result", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		has := len(e.Result) > 2
		e.Result = nil
		return has
	}},
	{"another failure", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		has := len(e.Failure) > 0
		e.Failure = bytes.Replace(e.Failure, []byte("not"), []byte("now"), 1)
		return has
	}},
	{"another refusal", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.Refused++
		return !e.Activity.Zero()
	}},
	{"a verdict", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		for i := range e.Evaluations {
			if v := e.Evaluations[i].Verdicts; len(v) > 0 {
				v[0] ^= 1
				return true
			}
		}
		return false
	}},
	{"an evaluation dropped", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		has := len(e.Evaluations) > 0
		e.Evaluations = nil
		return has
	}},
	{"a send dropped", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		has := len(e.Sends) > 0
		e.Sends = nil
		return has
	}},
	{"another initiator", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.Initiator[3] ^= 1
		return !e.Activity.Zero()
	}},
	{"another body", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.Body = bytes.Replace(e.Body, []byte(`"parameters":{`), []byte(`"parameters": {`), 1)
		return len(e.Body) > 0
	}},
	{"another fingerprint", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.Fingerprint[0] ^= 1
		return e.Seq > 0
	}},
	{"another stamp time", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.StampedMs++
		return !e.Activity.Zero()
	}},
	{"another step before", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		e.Prior++
		return !e.Activity.Zero()
	}},
	{"another half", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		has := !e.Other.Zero()
		e.OtherSeq++
		return has
	}},
	{"a proof's digit", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		for i := range e.Proofs {
			if at := bytes.Index(e.Proofs[i].Payload, []byte(`"digests":["`)); at > 0 {
				d := &e.Proofs[i].Payload[at+len(`"digests":["`)]
				*d = '0' + (*d+1)%10
				return true
			}
		}
		return false
	}},
	{"a proof's signature", func(_ *history, e *org.Entry, _ []*core.Recorded) bool {
		if len(e.Proofs) == 0 {
			return false
		}
		e.Proofs[0].Signature[40] ^= 1
		return true
	}},
}

// Nothing that is changed in a history goes unseen, and the entry is named.
func TestForgeries(t *testing.T) {
	h := start(t)
	h.scene()
	original := h.read()
	if _, err := run(copied(t, original)); err != nil {
		t.Fatal(err)
	}
	tried := map[string]int{}
	for i := range original {
		for n := range original[i].Entries {
			for j, f := range forgeries {
				if tried[f.name] > 0 && (n+j)%3 != 0 && testing.Short() {
					continue
				}
				hs := copied(t, original)
				var all []*core.Recorded
				for _, one := range hs {
					all = append(all, one.Entries...)
				}
				e := hs[i].Entries[n].Entry
				if !f.change(h, e, all) {
					continue
				}
				tried[f.name]++
				_, err := run(hs)
				found, ok := errors.AsType[*core.ReplayFinding](err)
				switch {
				case err == nil:
					t.Errorf("entry %d (%s %s): %s: not seen", n, e.Type, e.Status, f.name)
				case !ok:
					t.Errorf("entry %d: %s: %v", n, f.name, err)
				case found.Check == "":
					t.Errorf("entry %d: %s: the finding names nothing", n, f.name)
				}
			}
		}
	}
	for _, f := range forgeries {
		if tried[f.name] == 0 {
			t.Errorf("%s: nothing to change in the whole history", f.name)
		}
	}
	t.Log(tried)
}

// Refusals of releases that did not say which expression decided are decided again as they are, and no part of one that says it
// may be missing.
func TestReplayOfRefusals(t *testing.T) {
	h := start(t)
	h.scene()
	original := h.read()
	expression := regexp.MustCompile(`,"expression":"[^"]*"`)
	for name, c := range map[string]struct {
		change func(failure []byte) []byte
		holds  bool
	}{
		"of an older release": {func(f []byte) []byte { return expression.ReplaceAll(f, nil) }, true},
		"one expression dropped": {func(f []byte) []byte {
			at := expression.FindIndex(f)
			return slices.Delete(bytes.Clone(f), at[0], at[1])
		}, false},
		"another expression": {func(f []byte) []byte {
			return bytes.Replace(f, []byte(`,"expression":"a`), []byte(`,"expression":"b`), 1)
		}, false},
	} {
		hs, changed := copied(t, original), 0
		for _, one := range hs {
			for _, r := range one.Entries {
				if activity.TellsExpression(r.Entry.Failure) {
					r.Entry.Failure = c.change(r.Entry.Failure)
					changed++
				}
			}
		}
		if changed == 0 {
			t.Fatal("no refusal says which expression decided")
		}
		if _, err := run(hs); (err == nil) != c.holds {
			t.Errorf("%s: %d refusals: %v", name, changed, err)
		}
	}
}

// Refusals by the parent's policies in a sub-organization, whose users may not read them, have named them in older releases,
// and have had the reasons.
func TestReplayOfPolicyNames(t *testing.T) {
	h := start(t)
	h.scene()
	names := map[string]string{}
	policies := h.as(h.orgs[0], h.orgs[0].root).Query("list_policies", nil)
	for _, p := range policies.Get("policies").([]any) {
		names[client.Text(p, "policyId")] = client.Text(p, "policyName")
	}
	reasons := map[string]org.Reason{
		"Two":  {Values: []string{"activity.type", "'ACTIVITY_TYPE_EMAIL_AUTH_V2'"}},
		"Sign": {Values: []string{"activity.action", "'CREATE'"}},
	}
	hs, changed := copied(t, h.read()), 0
	for _, one := range hs {
		for _, r := range one.Entries {
			e := r.Entry
			if e.Type != "ACTIVITY_TYPE_EMAIL_AUTH_V2" || e.Status != org.StatusFailed {
				continue
			}
			if activity.NamesPolicies(e.Failure) {
				t.Errorf("%s", e.Failure)
			}
			if e.Evaluations[0].Reasons != nil {
				t.Errorf("the entry has %+v of the parent's policies", e.Evaluations[0].Reasons)
			}
			for at := range len(e.Evaluations[0].Asked) / 16 {
				name := names[org.ID(e.Evaluations[0].Asked[at*16:]).String()]
				reason, ok := reasons[name]
				if !ok {
					t.Fatalf("the policy %q was asked", name)
				}
				reason.At = uint32(at)
				e.Evaluations[0].Reasons = append(e.Evaluations[0].Reasons, reason)
			}
			es := activity.PolicyEvaluations(activity.Outcomes(&e.Evaluations[0]))
			for i := range es {
				es[i].Name = names[es[i].PolicyID]
			}
			e.Failure = activity.AppendRefusal(nil, &fault.Error{Code: fault.PermissionDenied, Name: "REQUEST_NOT_AUTHORIZED", Denied: true, Evaluations: es, Message: activity.DenialMessage(es)},
				e.Activity, string(activity.AppendFingerprint(nil, e.Fingerprint)))
			changed++
		}
	}
	if _, err := run(hs); err != nil || changed != 1 {
		t.Errorf("%d refusals: %v", changed, err)
	}
}

// A proof of what approvers are shown was made by the release of its time, which may have shown it otherwise, or by none.
func TestReplayOfDecoded(t *testing.T) {
	h := start(t)
	h.scene()
	original := h.read()
	isDecoded := func(p org.Proof) bool { return bytes.Contains(p.Payload, []byte(attestation.TypeDecoded)) }
	for name, c := range map[string]struct {
		change func(proofs []org.Proof, at int) []org.Proof
		holds  bool
	}{
		"of an older release": {func(ps []org.Proof, at int) []org.Proof { return slices.Delete(slices.Clone(ps), at, at+1) }, true},
		"the other one":       {func(ps []org.Proof, at int) []org.Proof { return slices.Delete(slices.Clone(ps), 1-at, 2-at) }, false},
		"twice":               {func(ps []org.Proof, at int) []org.Proof { return append(slices.Clone(ps), ps[at]) }, false},
		"another digest, unsigned": {func(ps []org.Proof, at int) []org.Proof {
			ps = slices.Clone(ps)
			ps[at].Payload = bytes.Replace(ps[at].Payload, []byte(`"decodedDigest":"`), []byte(`"decodedDigest":"00`), 1)
			return ps
		}, false},
	} {
		hs, changed := copied(t, original), 0
		for _, one := range hs {
			for _, r := range one.Entries {
				if at := slices.IndexFunc(r.Entry.Proofs, isDecoded); at >= 0 {
					r.Entry.Proofs = c.change(r.Entry.Proofs, at)
					changed++
				}
			}
		}
		if changed != 1 {
			t.Fatalf("%d entries prove what was shown", changed)
		}
		if _, err := run(hs); (err == nil) != c.holds {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An approval that names what its user was shown does not count for what another is shown later.
func TestReplayOfVotesForAnotherView(t *testing.T) {
	h := start(t)
	top := h.orgs[0]
	for _, name := range []string{"Second", "Third", "Fourth"} {
		k := client.NewKey()
		r, _ := h.do(top, top.root, "CREATE_USERS_V4", client.Users(client.NewUser(name, k)))
		top.users = append(top.users, person{client.Text(r, "userIds", "0"), k})
	}
	n := len(top.users)
	second, third, fourth := top.users[n-3].pair, top.users[n-2].pair, top.users[n-1].pair
	r, _ := h.do(top, top.root, "CREATE_POLICY_V3", client.Policy("Tags", "ALLOW", "activity.resource == 'USER_TAG'", "approvers.count() >= 1"))
	policy := client.Text(r, "policyId")
	h.do(top, top.root, "CREATE_POLICY_V3", client.Policy("Policies", "ALLOW", "activity.resource == 'POLICY'", "approvers.count() >= 3"))
	var asked []object
	for _, change := range []object{{"policyId": policy, "policyName": "First"}, {"policyId": policy, "policyNotes": "Other"}} {
		h.do(top, second, "UPDATE_POLICY_V2", change)
		shown := h.as(top, top.root).Query("get_activity", object{"activityId": h.as(top, top.root).Query("list_activities", object{"filterByStatus": []any{"ACTIVITY_STATUS_CONSENSUS_NEEDED"}}).Text("activities", "0", "id")})
		asked = append(asked, object{"fingerprint": shown.Text("activity", "fingerprint"), "decodedDigest": shown.Text("activity", "decodedDigest")})
		h.do(top, third, "APPROVE_ACTIVITY", asked[len(asked)-1])
	}
	h.do(top, fourth, "APPROVE_ACTIVITY", asked[0])
	h.do(top, fourth, "APPROVE_ACTIVITY", object{"fingerprint": asked[1]["fingerprint"]})
	if waiting := h.as(top, top.root).Query("list_activities", object{"filterByStatus": []any{"ACTIVITY_STATUS_CONSENSUS_NEEDED"}}); len(waiting.Get("activities").([]any)) != 1 {
		t.Fatalf("%v", waiting)
	}
	if _, err := run(h.read()); err != nil {
		t.Error(err)
	}
}

// copied are histories of their own, read from the bytes that they would be stored in.
func copied(t *testing.T, all []*replay.History) []*replay.History {
	out := make([]*replay.History, len(all))
	for i, h := range all {
		c := *h
		c.Entries = make([]*core.Recorded, len(h.Entries))
		for n, r := range h.Entries {
			one := *r
			b, _, err := r.Entry.Encode(nil, [tlog.SeedSize]byte{}, org.Place{})
			var parts *org.Parts
			if err == nil {
				parts, err = org.SplitParts(b)
			}
			if err == nil {
				one.Entry, _, err = parts.Decode()
			}
			if err != nil {
				t.Fatal(err)
			}
			one.Entry.Seq = r.Seq
			c.Entries[n] = &one
		}
		out[i] = &c
	}
	return out
}

// Every decision of a random run is the one that is decided again.
func TestReplay(t *testing.T) {
	activities := 10_000
	if testing.Short() {
		activities = 500
	}
	h := start(t)
	for range activities {
		h.step()
	}
	histories, entries := h.read(), 0
	for _, one := range histories {
		entries += len(one.Entries)
	}
	report, err := run(histories)
	if err != nil {
		t.Fatal(err)
	}
	if report.Entries != entries {
		t.Errorf("%d of %d entries", report.Entries, entries)
	}
	t.Log(h.counts)
	for typ, grades := range report.Grades {
		t.Log(typ, grades)
	}
}

// A flippedFile is an exported history whose bits are changed.
type flippedFile struct {
	t     *testing.T
	trust replay.Trust
	file  []byte
	bits  map[exported.Kind][]int // places, by the kind of record
}

// flipped is a file as it was exported, which holds.
func flipped(t *testing.T, file []byte, trust replay.Trust) *flippedFile {
	t.Helper()
	if _, err := replay.Read(bytes.NewReader(file), trust); err != nil {
		t.Fatal(err)
	}
	f := &flippedFile{t, trust, file, map[exported.Kind][]int{}}
	for at := len(exported.Magic); at < len(file); {
		size := 5 + int(binary.BigEndian.Uint32(file[at+1:]))
		kind := exported.Kind(file[at])
		for bit := 8 * at; bit < 8*(at+size); bit++ {
			f.bits[kind] = append(f.bits[kind], bit)
		}
		at += size
	}
	return f
}

// noticed reads the file with another bit, which must be refused.
func (f *flippedFile) noticed(bit int) {
	f.t.Helper()
	changed := bytes.Clone(f.file)
	changed[bit/8] ^= 1 << (bit % 8)
	if _, err := replay.Read(bytes.NewReader(changed), f.trust); err == nil {
		f.t.Errorf("bit %d of byte %d: not noticed", bit%8, bit/8)
	}
}

// some changes as many bits of each kind of record, one in each file.
func (f *flippedFile) some(r *rand.Rand, each int, kinds ...exported.Kind) {
	f.t.Helper()
	for _, kind := range kinds {
		bits := f.bits[kind]
		if len(bits) == 0 {
			f.t.Fatalf("the file has no record of kind %q", kind)
		}
		for range each {
			f.noticed(bits[r.IntN(len(bits))])
		}
		f.t.Logf("counted: %v: %d of %d bits changed, each noticed", kind, each, len(bits))
	}
}

// bitsOfAKind is how many bits are changed of each kind of record.
func bitsOfAKind() int {
	if testing.Short() {
		return 200
	}
	return 3400
}

// Of every kind of record any bit that is another one is noticed.
func TestBits(t *testing.T) {
	h := start(t)
	h.scene()
	f := flipped(t, h.export(h.orgs[0]), h.trust())
	for bit := range 8 * len(exported.Magic) {
		f.noticed(bit)
	}
	f.some(h.rand, bitsOfAKind(), exported.KindEntry, exported.KindPage, exported.KindLogged)
	for cut := 0; cut < len(f.file); cut += 97 {
		if _, err := replay.Read(bytes.NewReader(f.file[:cut]), f.trust); err == nil {
			t.Errorf("a file cut at %d: not noticed", cut)
		}
	}
}

// The same of entries that a release before commitments has written, with later ones behind them: what those are the page says alone.
func TestBitsOfOldEntries(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../sim/testdata/releases/0.6")); err != nil {
		t.Fatal(err)
	}
	h := begin(t, rig.Options{Dir: dir, Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{})})
	f := flipped(t, h.export(h.orgs[0]), h.trust())
	f.some(h.rand, bitsOfAKind(), exported.KindOld, exported.KindEntry, exported.KindPage, exported.KindLogged)
}

// Time that passes raises floors, ends sessions and lets approvals lapse.
func TestReplayOfTime(t *testing.T) {
	c := clocktest.New()
	h := begin(t, rig.Options{Clock: c})
	floors := 0
	for range 24 {
		for range 8 {
			h.step()
		}
		c.Pass(70 * time.Minute)
	}
	histories := h.read()
	for _, one := range histories {
		for _, e := range one.Entries {
			if e.Entry.LowWatermarkMs > 0 {
				floors++
			}
		}
	}
	if _, err := run(histories); err != nil || floors < 20 {
		t.Errorf("%d floors, %v", floors, err)
	}
}

// What is held against other keys, witnesses or entries is not taken.
func TestReadRefuses(t *testing.T) {
	h := start(t)
	h.scene()
	trust, top, sub := h.trust(), h.export(h.orgs[0]), h.export(h.orgs[1])
	records := func(file []byte) (all [][]byte) {
		for at := len(exported.Magic); at < len(file); {
			size := 5 + int(binary.BigEndian.Uint32(file[at+1:]))
			all = append(all, file[at:at+size])
			at += size
		}
		return all
	}
	join := func(parts ...[]byte) []byte {
		return slices.Concat(append([][]byte{[]byte(exported.Magic)}, parts...)...)
	}
	mine, theirs := records(top), records(sub)
	n := len(mine) - 2 // entries; the page and the log's proof follow
	others := rig.StartWitnesses(t, rig.WitnessOptions{})
	policy, err := tlog.ParsePolicy(others.Terms.Policy)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Read(bytes.NewReader(join(mine...)), trust); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file  []byte
		trust replay.Trust
		says  string
	}{
		"no live key":              {top, replay.Trust{Policy: trust.Policy}, "not trusted"},
		"another live key":         {top, replay.Trust{LiveKeys: [][]byte{make([]byte, 130)}, Policy: trust.Policy}, "not trusted"},
		"other witnesses":          {top, replay.Trust{LiveKeys: trust.LiveKeys, Policy: policy}, ""},
		"no witnesses":             {top, replay.Trust{LiveKeys: trust.LiveKeys}, "no witnesses to hold it against"},
		"no proof of the log":      {join(mine[:n+1]...), trust, "no proof that the newest entry is in the log"},
		"no last page":             {join(mine[:n]...), trust, "before the last page"},
		"an entry left out":        {join(slices.Concat(mine[:3], mine[4:])...), trust, "in the place of"},
		"the newest left out":      {join(slices.Concat(mine[:n-1], mine[n:])...), trust, "a page of entries"},
		"entries swapped":          {join(slices.Concat(mine[:3], mine[4:5], mine[3:4], mine[5:])...), trust, "in the place of"},
		"another one's entry":      {join(slices.Concat(mine[:2], theirs[2:3], mine[3:])...), trust, "in the place of"},
		"another one's page":       {join(slices.Concat(mine[:n], theirs[len(theirs)-2:])...), trust, "a page of organization"},
		"another one's proof":      {join(slices.Concat(mine[:n+1], theirs[len(theirs)-1:])...), trust, "the log says"},
		"the page twice":           {join(slices.Concat(mine[:n+1], mine[n:])...), trust, "behind its end"},
		"the proof twice":          {join(slices.Concat(mine, mine[n+1:])...), trust, "behind its end"},
		"the proof before":         {join(slices.Concat(mine[:n], mine[n+1:])...), trust, "before the last page"},
		"a page in place of proof": {join(slices.Concat(mine[:n+1], mine[n:n+1])...), trust, "behind its end"},
		"nothing":                  {[]byte(exported.Magic), trust, "before the last page"},
	} {
		if _, err := replay.Read(bytes.NewReader(c.file), c.trust); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A sub-organization decides some things by its parent's records.
	one, err := replay.Read(bytes.NewReader(sub), trust)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run([]*replay.History{one}); err == nil || !strings.Contains(err.Error(), "parent") {
		t.Errorf("without its parent's history: %v", err)
	}
}

// Only who was allowed gets the history, with the whole of a root quorum.
func TestExportTakesTheRootQuorum(t *testing.T) {
	h := start(t)
	h.scene()
	top := h.orgs[0]
	second := top.users[1]
	ask := func(by client.KeyPair, id string) int {
		return h.as(top, by).Query("get_history", object{"activityId": id}).Status
	}
	submit := func(by client.KeyPair) client.Reply { return h.as(top, by).Submit("EXPORT_HISTORY", object{}) }
	if got := submit(second.pair); got.State() == "COMPLETED" {
		t.Errorf("by one who is not of the root quorum: %v", got)
	}
	h.do(top, top.root, "UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{top.users[0].id, second.id}})
	got := submit(top.root)
	id := got.Text("activity", "id")
	if got.State() != "CONSENSUS_NEEDED" || ask(top.root, id) == 200 {
		t.Errorf("by one of two: %v", got)
	}
	h.do(top, second.pair, "APPROVE_ACTIVITY", object{"fingerprint": got.Text("activity", "fingerprint")})
	if ask(second.pair, id) == 200 {
		t.Error("who has only approved gets the history")
	}
	if ask(top.root, id) != 200 {
		t.Error("who was allowed does not get the history")
	}
}
