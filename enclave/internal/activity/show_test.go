package activity_test

import (
	"bytes"
	"crypto/ecdh"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// documentOf shows an activity of the world that waits.
func documentOf(w *world, typ string, params any) (show.Document, error) {
	typ = "ACTIVITY_TYPE_" + strings.TrimPrefix(typ, "ACTIVITY_TYPE_")
	body := activitytest.JSON(object{"type": typ, "organizationId": w.ID.String(), "timestampMs": "1", "parameters": params})
	return kinds.Live.Document(w.Tx(), &org.Entry{Type: typ, Body: body, Activity: w.NewID(), Initiator: w.User}, nil)
}

type shownDocument struct {
	Kind, Title, Readable, Severity string
	Fixed                           bool
	Warnings                        []struct {
		Code, Severity string
		At             []string
	}
	Parts []map[string]any
}

// noKeyTwice reads a value, and complains about an object that has a member twice: clients would compute another digest.
func noKeyTwice(t *testing.T, dec *json.Decoder, d show.Document) {
	t.Helper()
	begin, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	if begin != json.Delim('{') && begin != json.Delim('[') {
		return
	}
	for seen := map[any]bool{}; dec.More(); {
		if begin == json.Delim('{') {
			key, err := dec.Token()
			if err != nil {
				t.Fatal(err)
			}
			if seen[key] {
				t.Errorf("%v is there twice in %s", key, d.Text())
			}
			seen[key] = true
		}
		noKeyTwice(t, dec, d)
	}
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
}

func (d *shownDocument) codes() string {
	var all []string
	for _, w := range d.Warnings {
		all = append(all, w.Code+" "+w.Severity)
	}
	return strings.Join(all, ", ")
}

func readDocument(t *testing.T, d show.Document) (read shownDocument) {
	t.Helper()
	if len(d.Text()) > show.MaxBytes {
		t.Errorf("%d bytes", len(d.Text()))
	}
	if err := json.Unmarshal(d.Text(), &read); err != nil {
		t.Fatalf("%v in %s", err, d.Text())
	}
	noKeyTwice(t, json.NewDecoder(bytes.NewReader(d.Text())), d)
	return read
}

// Every kind is shown, with a title; what is secret is not shown, nor is what only the enclave can read.
func TestEveryKindIsShown(t *testing.T) {
	w, there := stocked(t)
	shown := 0
	for _, typ := range slices.Sorted(maps.Keys(kinds.Live)) {
		var params object
		if err := json.Unmarshal(activitytest.JSON(activitytest.SampleIntent(typ)), &params); err != nil {
			t.Fatal(err)
		}
		stock(typ, params, there)
		d, err := documentOf(w, typ, params)
		if fault.Of(err) != nil {
			t.Logf("%s: %v", typ, err)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		shown++
		read := readDocument(t, d)
		if read.Title == "" || read.Kind == "" || len(read.Parts) == 0 {
			t.Errorf("%s: %s", typ, d.Text())
		}
		if kinds.Live[typ].Secret() && !strings.Contains(string(d.Text()), "masked") && !strings.Contains(string(d.Text()), "***") {
			t.Errorf("%s shows a secret: %s", typ, d.Text())
		}
		if kinds.Live[typ].Kind.Action == "SIGN" && read.Kind == "ORGANIZATION_CHANGE" && !strings.Contains(read.codes(), "UNREAD") {
			t.Errorf("%s signs, and nothing tells that it is not explained: %s", typ, d.Text())
		}
	}
	if shown < 100 {
		t.Errorf("%d of %d kinds", shown, len(kinds.Live))
	}
}

// What changes who may do what is shown as a difference to what is there, and with its danger.
func TestOrganizationChanges(t *testing.T) {
	w := activitytest.New(t)
	people := w.People("alice", "bob")
	root := w.User.String()
	deny := w.Run("CREATE_POLICY_V3", object{"policyName": "no exports", "effect": "EFFECT_DENY", "condition": "activity.action == 'EXPORT'", "notes": ""})["policyId"]
	allow := w.Run("CREATE_POLICY_V3", object{"policyName": "small", "effect": "EFFECT_ALLOW", "condition": "eth.tx.value < 5", "notes": ""})["policyId"]
	wallet := w.Run("CREATE_WALLET", object{"walletName": "treasury", "accounts": []any{}})["walletId"]
	key := w.FreshP256()
	private, err := ecdh.P256().GenerateKey(w.Rand)
	w.Must(err)
	point := hex.EncodeToString(private.PublicKey().Bytes())
	apiKey := func(user string) object {
		return object{"userId": user, "apiKeys": []any{object{"apiKeyName": "backup", "publicKey": key, "curveType": "API_KEY_CURVE_P256"}}}
	}
	for _, c := range []struct {
		typ           string
		params        object
		readable      string
		warnings, has string
	}{
		{"UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{root, people[0]}}, "FULL", "QUORUM_WEAKER DANGER", `"added":[{"userId":"` + people[0] + `","name":"alice","nameSource":"ORGANIZATION"}]`},
		{"UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{root, people[0]}}, "FULL", "", `"before":{"threshold":"1","members":[{"userId":"` + root + `"`},
		{"CREATE_POLICY_V3", object{"policyName": "read balances", "effect": "EFFECT_ALLOW", "notes": "only reads"}, "FULL", "RULES_BROAD DANGER", `"name":{"text":"read balances","source":"REQUESTER"},"effect":"EFFECT_ALLOW","condition":"","consensus":""`},
		{"CREATE_POLICY_V3", object{"policyName": "x", "effect": "EFFECT_ALLOW", "condition": " true ", "notes": ""}, "FULL", "RULES_BROAD DANGER", ""},
		{"CREATE_POLICY_V3", object{"policyName": "x", "effect": "EFFECT_ALLOW", "consensus": "approvers.count() > 1", "notes": ""}, "FULL", "RULES_BROAD DANGER", ""},
		{"CREATE_POLICY_V3", object{"policyName": "x", "effect": "EFFECT_DENY", "notes": ""}, "FULL", "", ""},
		{"CREATE_POLICIES", object{"policies": []any{object{"policyName": "x", "effect": "EFFECT_ALLOW", "notes": ""}}}, "FULL", "RULES_BROAD DANGER", ""},
		{"UPDATE_POLICY_V2", object{"policyId": allow, "policyCondition": ""}, "FULL", "RULES_BROAD DANGER", `"before":{"id":"` + allow.(string) + `","name":"small","nameSource":"ORGANIZATION","effect":"EFFECT_ALLOW","condition":"eth.tx.value < 5"`},
		{"UPDATE_POLICY_V2", object{"policyId": deny, "policyCondition": "activity.action == 'SIGN'"}, "FULL", "RULES_DENY_GONE DANGER", ""},
		{"UPDATE_POLICY_V2", object{"policyId": deny, "policyName": "still none"}, "FULL", "", ""},
		{"DELETE_POLICY", object{"policyId": deny}, "FULL", "RULES_DENY_GONE DANGER", `"name":"no exports"`},
		{"DELETE_POLICIES", object{"policyIds": []any{allow}}, "FULL", "", `"name":"small"`},
		{"EXPORT_WALLET", object{"walletId": wallet, "targetPublicKey": point}, "FULL", "KEY_LEAVES DANGER", `"name":"treasury","nameSource":"ORGANIZATION","accounts":"0","exported":false`},
		{"SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_ADDRESS_BOOK", "value": `[{"name":"Payroll","address":"0x000000000000000000000000000000000000dEaD"}]`}, "FULL", "", `"added":[{"name":"Payroll","address":"0x000000000000000000000000000000000000dEaD"}]`},
		{"CREATE_API_KEYS_V2", apiKey(root), "FULL", "CREDENTIAL_ADDED DANGER", `"publicKey":"` + key + `"`},
		{"CREATE_API_KEYS_V2", apiKey(people[1]), "FULL", "CREDENTIAL_ADDED WARN", `"name":"bob"`},
		{"IMPORT_WALLET", object{"userId": root, "walletName": "ops", "encryptedBundle": `{"encappedPublic":"` + point + `","ciphertext":"` + strings.Repeat("00", 40) + `"}`, "accounts": []any{}}, "PARTIAL", "KEY_ENTERS WARN", `"reason":"ENCRYPTED"`},
		{"DELETE_WALLETS", object{"walletIds": []any{wallet}, "deleteWithoutExport": true}, "FULL", "KEY_DELETED DANGER", `"wallets":[{"id":"` + wallet.(string) + `"`},
		{"DELETE_USERS", object{"userIds": []any{people[1]}}, "FULL", "", `"name":"bob"`},
		{"CREATE_SMART_CONTRACT_INTERFACE", object{"label": "Router", "smartContractAddress": "0x3e1AB7Aa0F90E8fBD92D11093B10Da6A627D48B6", "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "smartContractInterface": "[]"}, "FULL", "INTERFACE_CHANGED WARN", ""},
		{"UPDATE_USER_NAME", object{"userId": people[0], "userName": "eve"}, "FULL", "", `"intent":[{"name":"userId","value":"` + people[0] + `"},{"name":"userName","value":"eve"}]`},
	} {
		d, err := documentOf(w, c.typ, c.params)
		if err != nil {
			t.Errorf("%s: %v", c.typ, err)
			continue
		}
		read := readDocument(t, d)
		if read.Kind != "ORGANIZATION_CHANGE" || read.Readable != c.readable || read.codes() != c.warnings || !strings.Contains(string(d.Text()), c.has) {
			t.Errorf("%s: %s, warnings %q, want %q and %s: %s", c.typ, read.Readable, read.codes(), c.warnings, c.has, d.Text())
		}
	}
}

// What is signed is shown by the interfaces and the accounts of the organization, and what is not there yet is told.
func TestShownSignatures(t *testing.T) {
	w := activitytest.New(t)
	accounts := []any{activitytest.EthAccount(0), activitytest.EthAccount(1)}
	addresses := activitytest.List(w.Run("CREATE_WALLET", object{"walletName": "treasury", "accounts": accounts}), "addresses")
	const router = "0x3e1AB7Aa0F90E8fBD92D11093B10Da6A627D48B6"
	send := object{"from": addresses[0], "caip2": "eip155:1", "calls": []any{object{"to": addresses[1], "value": "250000000000000000"}}}
	d, err := documentOf(w, "ETH_SEND_TRANSACTION_V2", send)
	if err != nil {
		t.Fatal(err)
	}
	read := readDocument(t, d)
	if read.Fixed || read.codes() != "NOT_FIXED INFO" || read.Title != "Send ETH" {
		t.Errorf("%s", d.Text())
	}
	for _, want := range []string{`"nonce":{"source":"HOST"}`, `"gasLimit":{"source":"HOST","most":"50000000"}`, `"maxFee":{"source":"HOST","most":"100000000000000000"}`, `"text":"0.25"`, `"signs":[]`} {
		if !strings.Contains(string(d.Text()), want) {
			t.Errorf("no %s in %s", want, d.Text())
		}
	}
	send["nonce"], send["gasLimit"], send["maxFeePerGas"], send["maxPriorityFeePerGas"] = "7", "21000", "20000000000", "1"
	if d, err = documentOf(w, "ETH_SEND_TRANSACTION_V2", send); err != nil || !strings.Contains(string(d.Text()), `"fixed":true,"severity":"NONE","warnings":[]`) {
		t.Errorf("%v: %s", err, d.Text())
	}

	// A call is read by the interface of the organization, which is named with its record.
	call := object{"from": addresses[0], "caip2": "eip155:1", "calls": []any{object{"to": router, "data": "0x564a515800000000000000000000000000000000000000000000000000000000000000010000000000000000000000000000000000000000000000000000000000000002"}}}
	if d, err = documentOf(w, "ETH_SEND_TRANSACTION_V2", call); err != nil || !strings.Contains(readCodes(t, d), "UNREAD") {
		t.Errorf("%v: %s", err, d.Text())
	}
	w.Run("CREATE_SMART_CONTRACT_INTERFACE", object{"label": "Router", "smartContractAddress": router, "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM",
		"smartContractInterface": `[{"type":"function","name":"relay","inputs":[{"name":"shown","type":"bytes"},{"name":"done","type":"bytes"}]}]`})
	call["calls"] = []any{object{"to": router, "data": "0x564a5158" + strings.Repeat("0", 62) + "40" + strings.Repeat("0", 62) + "60" + strings.Repeat("0", 128)}}
	if d, err = documentOf(w, "ETH_SEND_TRANSACTION_V2", call); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"function":"relay(bytes,bytes)","functionSource":"ORGANIZATION"`, `"label":"Router","labelSource":"INTERFACE","labelBy":{"userId":"` + w.User.String() + `","name":"Root","nameSource":"ORGANIZATION"}`, `{"source":"INTERFACE","record":"`, `{"source":"ORGANIZATION","record":"`, `"by":"` + w.User.String() + `"`} {
		if !strings.Contains(string(d.Text()), want) {
			t.Errorf("no %s in %s", want, d.Text())
		}
	}

	// Names of the organization's address book are said; an address that looks like one of them is warned of.
	named := func(book string) string {
		w.Alter(func(tx *org.Tx) {
			o, err := tx.Organization()
			w.Must(err)
			changed := *o
			changed.Features = map[string]string{org.FeatureAddressBook: book}
			w.Must(tx.PutOrganization(&changed))
		})
		if d, err = documentOf(w, "ETH_SEND_TRANSACTION_V2", send); err != nil {
			t.Fatal(err)
		}
		return string(d.Text())
	}
	to := "0x52908400098527886E0F7030069857D2E4169EE7"
	send["calls"] = []any{object{"to": to, "value": "1"}}
	if text := named(`[]`); !strings.Contains(text, "ADDRESS_NEW") {
		t.Errorf("nobody knows it, and nothing says so: %s", text)
	}
	if text := named(`[{"name":"Payroll","address":"` + strings.ToLower(to) + `"}]`); !strings.Contains(text, `"label":"Payroll","labelSource":"ORGANIZATION"`) || strings.Contains(text, "ADDRESS_NEW") {
		t.Errorf("its name is not said: %s", text)
	}
	if text := named(`[{"name":"Payroll","address":"` + to[:6] + strings.Repeat("7", len(to)-10) + to[len(to)-4:] + `"}]`); !strings.Contains(text, "LOOKALIKE") {
		t.Errorf("it looks like another, and nothing says so: %s", text)
	}

	// Several payloads are parts in their order.
	d, err = documentOf(w, "SIGN_RAW_PAYLOADS", object{"signWith": addresses[0], "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_KECCAK256", "payloads": []any{"first", strings.Repeat("x", 32)}})
	if err != nil {
		t.Fatal(err)
	}
	if read = readDocument(t, d); len(read.Parts) != 2 || read.Readable != "NONE" || read.codes() != "BLIND DANGER" || read.Warnings[0].At[0] != "parts.1" {
		t.Errorf("%s", d.Text())
	}

	// A key that is not there signs nothing, and nothing is claimed of it.
	d, err = documentOf(w, "SIGN_RAW_PAYLOAD_V2", object{"signWith": router, "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_KECCAK256", "payload": "x"})
	if err != nil || readDocument(t, d).Kind != "UNKNOWN_SIGNER" {
		t.Errorf("%v: %s", err, d.Text())
	}
}

// sendOf is what approvers are shown of 5 ether to an address.
func sendOf(t *testing.T, w *world, from, to any) (shownDocument, string) {
	t.Helper()
	d, err := documentOf(w, "ETH_SEND_TRANSACTION_V2", object{"from": from, "caip2": "eip155:1", "calls": []any{object{"to": to, "value": "5000000000000000000"}},
		"nonce": "7", "gasLimit": "21000", "maxFeePerGas": "20000000000", "maxPriorityFeePerGas": "1"})
	if err != nil {
		t.Fatal(err)
	}
	return readDocument(t, d), string(d.Text())
}

// Whoever may upload interfaces cannot make his address one that approvers know.
func TestLabelIsNoName(t *testing.T) {
	const payroll, imitator = "0x1111aa0000000000000000000000000000002222", "0x1111bb0000000000000000000000000000002222"
	labels := []struct{ label, want string }{
		{"", "LOOKALIKE DANGER, ADDRESS_NEW INFO"},
		{"Router", "LOOKALIKE DANGER, ADDRESS_NEW INFO"},
		{"USDT", "LOOKALIKE DANGER, LABEL_CLASH WARN, ADDRESS_NEW INFO"},
		{"Permit2", "LOOKALIKE DANGER, LABEL_CLASH WARN, ADDRESS_NEW INFO"},
		{"PayroII", "LOOKALIKE DANGER, LABEL_CLASH WARN, ADDRESS_NEW INFO"},
		{"Payro11", "LOOKALIKE DANGER, LABEL_CLASH WARN, ADDRESS_NEW INFO"},
		{"treasury", "LOOKALIKE DANGER, LABEL_CLASH WARN, ADDRESS_NEW INFO"},
		{"c0ld", "LOOKALIKE DANGER, LABEL_CLASH WARN, ADDRESS_NEW INFO"},
		{"Your own account: verified safe", "LOOKALIKE DANGER, LABEL_CLAIM WARN, ADDRESS_NEW INFO"},
		{payroll, "LOOKALIKE DANGER, LABEL_CLAIM WARN, ADDRESS_NEW INFO"},
	}
	for _, c := range labels {
		w := activitytest.New(t)
		from := activitytest.List(w.Run("CREATE_WALLET", object{"walletName": "Treasury", "accounts": []any{activitytest.EthAccount(0)}}), "addresses")[0]
		w.Run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{object{"privateKeyName": "Cold", "curve": "CURVE_SECP256K1", "privateKeyTags": []any{}, "addressFormats": []any{}}}})
		w.Alter(func(tx *org.Tx) {
			o, err := tx.Organization()
			w.Must(err)
			changed := *o
			changed.Features = map[string]string{org.FeatureAddressBook: `[{"name":"Payroll","address":"` + payroll + `"}]`}
			w.Must(tx.PutOrganization(&changed))
		})
		if c.label != "" {
			w.Run("CREATE_SMART_CONTRACT_INTERFACE", object{"label": c.label, "smartContractAddress": imitator, "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "smartContractInterface": "[]"})
		}
		if read, text := sendOf(t, w, from, imitator); read.codes() != c.want || strings.Contains(text, `"labelSource":"INTERFACE"`) != (c.label != "") {
			t.Errorf("%q: %s, want %s in %s", c.label, read.codes(), c.want, text)
		}
		// The address of the book stays what it is, and a label of its own changes nothing.
		if c.label != "" {
			w.Run("CREATE_SMART_CONTRACT_INTERFACE", object{"label": "Desk", "smartContractAddress": payroll, "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "smartContractInterface": "[]"})
		}
		if read, text := sendOf(t, w, from, payroll); read.codes() != "" || !strings.Contains(text, `"label":"Payroll","labelSource":"ORGANIZATION"`) ||
			!strings.Contains(text, `"sources":[{"source":"ORGANIZATION","record":"FEATURE_NAME_ADDRESS_BOOK","sha256":"`) {
			t.Errorf("%q: the address of the book: %s", c.label, text)
		}
	}
}

// A label of an own account may be the name of its wallet.
func TestLabelOfOwnAccount(t *testing.T) {
	w := activitytest.New(t)
	addresses := activitytest.List(w.Run("CREATE_WALLET", object{"walletName": "Treasury", "accounts": []any{activitytest.EthAccount(0), activitytest.EthAccount(1)}}), "addresses")
	w.Run("CREATE_SMART_CONTRACT_INTERFACE", object{"label": "treasury", "smartContractAddress": addresses[1], "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "smartContractInterface": "[]"})
	if read, text := sendOf(t, w, addresses[0], addresses[1]); read.codes() != "" || !strings.Contains(text, `"label":"treasury","labelSource":"INTERFACE"`) {
		t.Errorf("%s", text)
	}
}

// A label whose maker is gone, or was never recorded, says so.
func TestMakersOfLabels(t *testing.T) {
	const router = "0x3e1AB7Aa0F90E8fBD92D11093B10Da6A627D48B6"
	for name, c := range map[string]struct {
		by        org.ID
		has, lack string
	}{
		"gone":     {org.ID{7}, `"labelBy":{"userId":"` + org.ID{7}.String() + `"}`, `"nameSource":"ORGANIZATION"}`},
		"recorded": {org.ID{}, `"labelSource":"INTERFACE"}`, `"labelBy"`},
	} {
		w := activitytest.New(t)
		from := activitytest.List(w.Run("CREATE_WALLET", object{"walletName": "Treasury", "accounts": []any{activitytest.EthAccount(0)}}), "addresses")[0]
		w.Alter(func(tx *org.Tx) {
			w.Must(tx.PutInterface(&org.Interface{ID: w.NewID(), Address: router, Type: "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", Label: "Router", MadeBy: c.by}, "[]"))
		})
		if _, text := sendOf(t, w, from, router); !strings.Contains(text, c.has) || strings.Contains(text, c.lack) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// An own account is known without a warning only if nobody else has had its key.
func TestOwnKeysOutside(t *testing.T) {
	const warned = "OWN_KEY_OUTSIDE WARN"
	w := activitytest.New(t)
	accounts := func(name string, first int) (wallet string, addresses []string) {
		made := w.Run("CREATE_WALLET", object{"walletName": name, "accounts": []any{activitytest.EthAccount(first), activitytest.EthAccount(first + 1)}})
		return made["walletId"].(string), activitytest.List(made, "addresses")
	}
	_, signer := accounts("Treasury", 0)
	otherID, other := accounts("Other", 0)
	key := func(name string) (id, address any) {
		made := w.Run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{object{"privateKeyName": name, "curve": "CURVE_SECP256K1", "privateKeyTags": []any{}, "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}}}})
		k := made["privateKeys"].([]any)[0].(object)
		return k["privateKeyId"], k["addresses"].([]any)[0].(object)["address"]
	}
	keyID, alone := key("Alone")
	wallet := func(id string, change func(*org.Wallet)) {
		w.Alter(func(tx *org.Tx) {
			parsed, err := org.ParseID(id)
			w.Must(err)
			old, err := tx.Wallet(parsed)
			w.Must(err)
			changed := *old
			changed.Imported, changed.Exported, changed.KeysOut = false, false, false
			change(&changed)
			w.Must(tx.PutWallet(&changed))
		})
	}
	private := func(change func(*org.PrivateKey)) {
		w.Alter(func(tx *org.Tx) {
			parsed, err := org.ParseID(keyID.(string))
			w.Must(err)
			old, err := tx.PrivateKey(parsed)
			w.Must(err)
			changed := *old
			changed.Imported, changed.Exported = false, false
			change(&changed)
			w.Must(tx.PutPrivateKey(&changed, []string{strings.ToLower(alone.(string))}))
		})
	}
	shows := func(name string, from, to any, want string) {
		t.Helper()
		read, text := sendOf(t, w, from, to)
		if read.codes() != want || strings.Contains(text, `"own":true,"keyOutside":true`) != (want != "") {
			t.Errorf("%s: %q, want %q in %s", name, read.codes(), want, text)
		}
	}
	shows("its own wallet", signer[0], signer[1], "")
	shows("itself", signer[0], signer[0], "")
	shows("another wallet", signer[0], other[0], "")
	shows("a private key", signer[0], alone, "")
	for name, change := range map[string]func(*org.Wallet){
		"imported": func(w *org.Wallet) { w.Imported = true }, "exported": func(w *org.Wallet) { w.Exported = true }, "with an exported account": func(w *org.Wallet) { w.KeysOut = true },
	} {
		wallet(otherID, change)
		shows("a wallet "+name, signer[0], other[0], warned)
		shows("itself in a wallet "+name, other[0], other[0], "")
		// Whoever has the words of the wallet has the signer's key. Whoever has one key of it has not.
		within := ""
		if name == "with an exported account" {
			within = warned
		}
		shows("within a wallet "+name, other[0], other[1], within)
		shows("from a wallet "+name, other[0], signer[0], "")
	}
	wallet(otherID, func(*org.Wallet) {})
	for name, change := range map[string]func(*org.PrivateKey){"imported": func(k *org.PrivateKey) { k.Imported = true }, "exported": func(k *org.PrivateKey) { k.Exported = true }} {
		private(change)
		shows("a private key "+name, signer[0], alone, warned)
		shows("from a private key "+name, alone, other[0], "")
	}
	private(func(*org.PrivateKey) {})
	shows("as before", signer[0], alone, "")

	// Exported by one account, deleted, and made again.
	target, err := ecdh.P256().GenerateKey(w.Rand)
	w.Must(err)
	w.Run("EXPORT_WALLET_ACCOUNT", object{"address": other[1], "targetPublicKey": hex.EncodeToString(target.PublicKey().Bytes())})
	shows("an exported account", signer[0], other[1], warned)
}

func readCodes(t *testing.T, d show.Document) string {
	t.Helper()
	read := readDocument(t, d)
	return read.codes()
}
