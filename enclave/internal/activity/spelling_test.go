package activity_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// lettersCount are the texts that policies read and of which every letter counts, by their paths without places in lists: what is
// spelt otherwise is something else.
var lettersCount = map[string]string{
	"secrets.staticProperties.key": "a record has it so", "secrets.staticProperties.value": "a record has it so",
	"signatures.derivation.signingLeaf.leafId": "the hash of it leads to the key", "transfer.leaves.leafId": "it is signed",
	"transfer.leaves.oldLeafDerivation.signingLeaf.leafId": "the hash of it leads to the key", "transfer.leaves.newLeafDerivation.signingLeaf.leafId": "the hash of it leads to the key",
	"transfer.operatorRecipients.operatorId": "it is in what is signed", "claim.operatorRecipients.operatorId": "it is in what is signed",
	"lightningReceive.operatorRecipients.operatorId": "it is in what is signed", "claim.leaves.leafId": "it is signed",
	"recentBlockhash": "base58",
}

// orderCounts are the lists that policies read in the order of the request, by their paths.
var orderCounts = map[string]string{
	"signatures": "the result has their order", "signatures.operatorCommitments": "another is refused",
	"transfer.leaves": "the result has their order", "claim.leaves": "the result has their order",
	"transfer.operatorRecipients": "the place is the index of a share", "claim.operatorRecipients": "the place is the index of a share",
	"lightningReceive.operatorRecipients": "the place is the index of a share",
}

// longPoints are points of 33 bytes in their form of 65.
var longPoints = map[string]string{
	activitytest.SomeP256: "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
	activitytest.SomeKey:  "04c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee51ae168fea63dc339a3c58419466ceaeef7f632653266d0e1236431a950cfe52a",
	activitytest.NotP256:  "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8",
}

const nilUUID = "00000000-0000-0000-0000-000000000000"

// respell writes a text in other ways that somebody might take for the same.
func respell(text string) []string {
	out := []string{strings.ToUpper(text), strings.ToLower(text), strings.ToUpper(text[:len(text)/2]) + text[len(text)/2:],
		" " + text, text + " ", text + "\n", "\t" + text, text + "\u200b", "\ufeff" + text, "0x" + text, "0X" + text, strings.TrimPrefix(text, "0x"), strings.Replace(text, "0x", "0X", 1),
		text + "=", text + "==", strings.NewReplacer("-", "+", "_", "/").Replace(text), strings.ReplaceAll(text, "a", "\uff41"), strings.ReplaceAll(text, "e", "\u0435")}
	if strings.Trim(text, "0123456789.") == "" {
		out = append(out, "0"+text, "+"+text, text+".0", text+"e0", "0x"+text, text+"n")
	}
	if len(text) == 36 && strings.Count(text, "-") == 4 {
		out = append(out, strings.ReplaceAll(text, "-", ""), "{"+text+"}", "urn:uuid:"+text)
	}
	if long := longPoints[text]; long != "" {
		hybrid := map[bool]string{true: "06", false: "07"}[text[1] == '2']
		for _, p := range []string{long, hybrid + long[2:]} {
			out = append(out, p, strings.ToUpper(p), "0x"+p)
		}
	}
	if before, after, ok := strings.Cut(text, "@"); ok {
		out = append(out, before+"@"+strings.ToUpper(after), before+"+x@"+after, before+"@"+after+".")
	}
	if digits, ok := strings.CutPrefix(text, "+"); ok {
		out = append(out, digits, "00"+digits, "+ "+digits, text[:3]+" "+text[3:])
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(s string) bool { return s == text })
}

// A place is a text or a list in parameters.
type place struct {
	path string // without places in lists
	put  func(any)
	text string
	list []any
}

// placesOf are all in v.
func placesOf(path string, v any, put func(any)) (all []place) {
	switch v := v.(type) {
	case string:
		all = append(all, place{path: path, put: put, text: v})
	case []any:
		all = append(all, place{path: path, put: put, list: v})
		for i := range v {
			all = append(all, placesOf(path, v[i], func(x any) { v[i] = x })...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, placesOf(strings.TrimPrefix(path+"."+name, "."), v[name], func(x any) { v[name] = x })...)
		}
	}
	return all
}

// A walker looks for parameters of one type that do the same and are not the same to policies.
type walker struct {
	version *activity.Version
	world   *world // of questions
	run     func(params object) error
	tried   int
	wrong   []string
}

// read is what policies read of parameters, or how they are refused before.
func (k *walker) read(params object) (*policy.Request, error) {
	in, err := k.version.Decode(activitytest.JSON(params))
	if err != nil {
		return nil, err
	}
	q, err := k.version.PolicyRequest(k.world.Tx(), in, k.world.NewID(), k.world.User, false)
	return &q, err
}

// alike tells whether policies cannot tell two requests apart. Each payload is decided about by itself, so that their order says nothing.
func alike(a, b *policy.Request) bool {
	among := func(all []policy.Facts) func(policy.Facts) bool {
		return func(one policy.Facts) bool {
			return slices.ContainsFunc(all, func(other policy.Facts) bool { return reflect.DeepEqual(one, other) })
		}
	}
	return reflect.DeepEqual(a.Params, b.Params) && reflect.DeepEqual(a.Facts, b.Facts) && a.SelfService == b.SelfService && a.AboutAnother == b.AboutAnother && len(a.Payloads) == len(b.Payloads) &&
		!slices.ContainsFunc(a.Payloads, func(f policy.Facts) bool { return !among(b.Payloads)(f) }) && !slices.ContainsFunc(b.Payloads, func(f policy.Facts) bool { return !among(a.Payloads)(f) })
}

// outcome is how a run ends.
func (k *walker) outcome(params object) string { return fmt.Sprint(k.run(params)) }

func (k *walker) walk(params object) {
	first, err := k.read(params)
	if err != nil {
		k.wrong = append(k.wrong, fmt.Sprintf("the sample is refused: %v", err))
		return
	}
	was := ""
	for _, p := range placesOf("", params, nil) {
		others := []any{}
		if p.list != nil {
			reversed := slices.Clone(p.list)
			slices.Reverse(reversed)
			if others = append(others, reversed); orderCounts[p.path] != "" {
				others = nil
			}
		} else if lettersCount[p.path] == "" && p.text != "" {
			for _, s := range respell(p.text) {
				others = append(others, s)
			}
			if len(p.text) == 36 && strings.Count(p.text, "-") == 4 {
				others = append(others, nilUUID)
			}
		}
		for _, other := range others {
			k.tried++
			p.put(other)
			if q, err := k.read(params); err == nil && !alike(first, q) {
				got := k.outcome(params)
				if p.put(p.value()); was == "" {
					was = k.outcome(params)
				}
				if got == was || other == nilUUID && got == fmt.Sprint(nil) {
					k.wrong = append(k.wrong, fmt.Sprintf("%s: %q does what %q does (%s), and policies see another thing", p.path, other, p.value(), got))
				}
			}
			p.put(p.value())
		}
	}
}

func (p *place) value() any {
	if p.list != nil {
		return p.list
	}
	return p.text
}

// stocked is a world in which what samples name is there, by the names of members.
func stocked(t *testing.T) (*world, map[string]any) {
	w := activitytest.New(t)
	w.ChainState = func(*activity.ChainQuery) (*activity.ChainState, error) {
		return &activity.ChainState{BaseFee: 1, Tip: 1, Gas: 21_000}, nil
	}
	wallet := func(name string, accounts ...object) (string, string) {
		r := w.Run("CREATE_WALLET", activitytest.Wallet(name, accounts...))
		return r["walletId"].(string), activitytest.List(r, "addresses")[0]
	}
	one, address := wallet("one", activitytest.EthAccount(0))
	two, _ := wallet("two", activitytest.EthAccount(0))
	_, spark := wallet("spark", activitytest.Account("SECP256K1", "m/8797555'/0'/0'", "SPARK_MAINNET"))
	var signers []any
	var points [][]byte
	for _, name := range []string{"first", "second"} {
		id, address := wallet(name, activitytest.Account("ED25519", "m/44'/501'/0'/0'", "SOLANA"))
		a, err := w.Tx().Account(activitytest.MustID(id), 1)
		w.Must(err)
		point, err := hex.DecodeString(a.PublicKey)
		w.Must(err)
		signers, points = append(signers, address), append(points, point)
	}
	for _, feature := range []string{"EMAIL_AUTH", "OTP_EMAIL_AUTH", "EMAIL_RECOVERY"} {
		w.Run("SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_" + feature, "value": ""})
	}
	var keys, accounts []any
	for _, name := range []string{"k", "l"} {
		r := w.Run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{activitytest.PrivateKey(name, "SECP256K1", "ETHEREUM")}})
		keys = append(keys, r["privateKeys"].([]any)[0].(object)["privateKeyId"])
	}
	for _, id := range []string{one, two} {
		a, err := w.Tx().Account(activitytest.MustID(id), 1)
		w.Must(err)
		accounts = append(accounts, a.ID().String())
	}
	user := w.NewUser(activitytest.User("u", activitytest.APIKey("a", w.FreshKey()), activitytest.APIKey("b", w.FreshKey())))
	of := w.UserOf(user)
	var secret struct{ TargetPublic string }
	target := activitytest.List(w.Run("INIT_IMPORT_SECRETS", object{"encryptionSuite": "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1", "numSecrets": 1}), "enclaveTargetMessages")[0]
	w.Must(json.Unmarshal(dataOf(w, target), &secret))
	in := object{"secretPayload": w.SealTo(secret.TargetPublic, "x"), "targetPublicKey": secret.TargetPublic, "encryptionSuite": "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1"}
	secretID := activitytest.List(w.Run("IMPORT_SECRETS", object{"secrets": []any{in}}), "secretIds")[0]
	endpoint := w.Run("CREATE_WEBHOOK_ENDPOINT", object{"url": "https://example.org/hook", "name": "e", "subscriptions": []any{object{"eventType": "ACTIVITY_UPDATES"}}})["endpointId"]
	sent := org.SendPlace{Organization: w.ID, Seq: 7}
	w.Events = map[org.SendPlace]*org.StoredEvent{sent: {Event: org.Event{Subscriber: activitytest.MustID(endpoint), Owner: w.ID}, Place: sent, ExpiresMs: 1 << 62}}
	return w, map[string]any{
		"walletId": one, "walletIds": []any{one, two}, "walletAccountIds": accounts, "address": address, "signWith": address, "from": address, "sparkAddress": spark, "signWiths": signers,
		"solana": hex.EncodeToString(activitytest.SolanaOf([32]byte{5}, points...)), "ethereum": "0x" + ethereum,
		"privateKeyId": keys[0], "privateKeyIds": keys, "userId": user, "userIds": []any{user, w.NewUser(activitytest.User("v", activitytest.APIKey("a", w.FreshKey())))},
		"apiKeyIds":        []any{of.APIKeys[0].ID.String(), of.APIKeys[1].ID.String()},
		"sessionProfileId": w.Run("CREATE_SESSION_PROFILE", object{"sessionProfileName": "p", "scope": "true"})["sessionProfileId"],
		"endpointId":       endpoint,
		"deliveryIds":      []any{sent.String()},
		"secretId":         secretID,
		"secretIds":        []any{secretID},
	}
}

// dataOf is what a signed message says.
func dataOf(w *world, text string) []byte {
	var m struct{ Data []byte }
	var signed struct{ Data string }
	w.Must(json.Unmarshal([]byte(text), &signed))
	_, err := fmt.Sscanf(signed.Data, "%x", &m.Data)
	w.Must(err)
	return m.Data
}

// ethereum is a transaction of type 2, unsigned.
const ethereum = "02f8660180018203e882ea6094111111111111111111111111111111111111111180b844a9059cbb" +
	"000000000000000000000000222222222222222222222222222222222222222200000000000000000000000000000000000000000000000000000000000003e8c0"

// stock puts what is there into the sample of a type, at any depth.
func stock(typ string, v any, there map[string]any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			stock(typ, item, there)
		}
	case map[string]any:
		for name, old := range v {
			known := there[name]
			switch {
			case name == "signWith" && strings.Contains(typ, "SPARK"):
				known = there["sparkAddress"]
			case name == "signWith" && strings.Contains(typ, "SOL"):
				known = there["signWiths"].([]any)[0]
			case name == "unsignedTransaction" && strings.Contains(typ, "SOL"):
				known = there["solana"]
			case name == "unsignedTransaction":
				known = there["ethereum"]
			case strings.Contains(typ, "INVITATION"): // whose user does not exist yet
				known = nil
			}
			if known != nil {
				v[name] = known
			} else {
				stock(typ, old, there)
			}
		}
	}
}

// Whatever does the same is the same to policies: a text that is spelt otherwise is refused, is something else, or makes no
// difference to what they read. So no DENY is evaded by spelling. A new kind is walked as soon as it has a sample.
func TestSpellingsAreOneToPolicies(t *testing.T) {
	tried, read := 0, 0
	w, there := stocked(t)
	for _, typ := range slices.Sorted(maps.Keys(kinds.Live)) {
		v := kinds.Live[typ]
		var params object
		if err := json.Unmarshal(activitytest.JSON(activitytest.SampleIntent(typ)), &params); err != nil {
			t.Fatal(err)
		}
		stock(typ, params, there)
		k := &walker{version: v, world: w, run: func(params object) error {
			again, _ := stocked(t)
			_, err := again.Try(strings.TrimPrefix(typ, "ACTIVITY_TYPE_"), params)
			return err
		}}
		if q, err := k.read(params); err == nil && (!reflect.DeepEqual(q.Params, policy.Value{}) || len(q.Facts)+len(q.Payloads) > 0) {
			read++
		}
		k.walk(params)
		tried += k.tried
		for _, wrong := range k.wrong {
			t.Errorf("%s: %s", typ, wrong)
		}
	}
	t.Logf("%d spellings; policies read something of %d types", tried, read)
	if tried < 10_000 || read < 25 {
		t.Error("too few")
	}
}

// The walk finds what a kind forgets.
func TestWalkFindsSpellings(t *testing.T) {
	type careless struct {
		WalletID   string   `json:"walletId" rule:"required"`
		WalletIDs  []string `json:"walletIds"`
		WalletName string   `json:"walletName" rule:"required"`
	}
	family := activity.Family{activity.Kind[careless, activity.Nothing]{
		Name: "UPDATE_WALLET", Resource: "WALLET", Action: "UPDATE", Run: func(*activity.Tx, *careless) (*activity.Nothing, error) { return nil, nil },
		Params: func(in *careless) policy.Value {
			return policy.Struct(policy.Member{Name: "wallet_id", Value: policy.String(in.WalletID)}, policy.Member{Name: "user_ids", Value: policy.Strings(in.WalletIDs)})
		},
	}}
	w := activitytest.New(t)
	k := &walker{version: activity.NewTable(family)["ACTIVITY_TYPE_UPDATE_WALLET"], world: w, run: func(params object) error {
		for _, id := range []any{params["walletId"], params["walletIds"].([]any)[0]} {
			if _, err := activity.ParseID("walletId", id.(string)); err != nil && id != nilUUID {
				return err
			}
		}
		return nil
	}}
	k.walk(object{"walletId": activitytest.SomeID, "walletIds": []any{activitytest.SomeID, w.Root}, "walletName": "x"})
	for _, want := range []string{`walletId: "` + strings.ToUpper(activitytest.SomeID), `walletId: "` + nilUUID, "walletIds: [\"" + w.Root} {
		if !slices.ContainsFunc(k.wrong, func(wrong string) bool { return strings.HasPrefix(wrong, want) }) {
			t.Errorf("%s is not found in %q", want, k.wrong)
		}
	}
	if slices.ContainsFunc(k.wrong, func(wrong string) bool { return strings.HasPrefix(wrong, "walletName") }) {
		t.Errorf("%q", k.wrong)
	}
}
