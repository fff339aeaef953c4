package matrix_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/attestation/request"
	"cloister/sim/client"
)

// reads is how many questions are asked across tenants.
const reads = 1000

var (
	uuid   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	canary = regexp.MustCompile(`canary[abpq][0-9a-f]{16}`)
)

// A victim is a tenant with a canary in every text that it can write, and the
// questions about it.
type victim struct {
	*tenant
	name     string
	canaries []string
	asks     map[string]object // by query
	owned    map[string]bool   // ids that its own root can read
}

// mark is a new canary.
func (v *victim) mark() string {
	c := fmt.Sprintf("canary%s%016x", v.name, rand.Uint64())
	v.canaries = append(v.canaries, c)
	return c
}

// plant fills t with canaries. What is not live is left out.
func (w *world) plant(name string, t *tenant, live map[string]bool) *victim {
	v := &victim{tenant: t, name: name, asks: map[string]object{}, owned: map[string]bool{}}
	do := func(typ string, params object) object {
		if !live[request.Operation(typ)] {
			return object{}
		}
		return t.do(typ, params)
	}
	mail := func() string { return v.mark() + "@example.com" }
	tag := client.Text(do("CREATE_USER_TAG", client.Tag(v.mark())), "userTagId")
	user := client.NewUser(v.mark(), client.NewKey())
	user["userTags"], user["userEmail"] = list(tag), mail()
	user["apiKeys"].([]any)[0].(object)["apiKeyName"] = v.mark()
	t.second = client.Text(do("CREATE_USERS_V4", object{"users": list(user)}), "userIds", "0")
	passkey := t.newPasskey()
	passkey["authenticatorName"] = v.mark()
	pass := client.Text(do("CREATE_AUTHENTICATORS_V2", object{"userId": t.second, "authenticators": list(passkey)}), "authenticatorIds", "0")
	label, account := v.mark(), maps.Clone(client.Ethereum)
	account["name"] = v.mark()
	walletID := client.Text(do("CREATE_WALLET", client.Wallet(label, account)), "walletId")
	keyTag := client.Text(do("CREATE_PRIVATE_KEY_TAG", object{"privateKeyTagName": v.mark(), "privateKeyIds": list()}), "privateKeyTagId")
	keys := t.newKeys()
	keys["privateKeys"].([]any)[0].(object)["privateKeyName"] = v.mark()
	keys["privateKeys"].([]any)[0].(object)["privateKeyTags"] = list(keyTag)
	key := client.Text(do("CREATE_PRIVATE_KEYS_V2", keys), "privateKeys", "0", "privateKeyId")
	do("IMPORT_SECRETS", object{"secrets": list(t.newSecret(v.mark(), v.mark(), v.mark()))})
	policy := t.newPolicy()
	policy["policyName"], policy["notes"], policy["condition"] = v.mark(), v.mark(), "activity.resource == '"+v.mark()+"'"
	policyID := client.Text(do("CREATE_POLICY_V3", policy), "policyId")
	guest := t.newInvitation()
	guest["invitations"].([]any)[0].(object)["receiverUserName"], guest["invitations"].([]any)[0].(object)["receiverUserEmail"] = v.mark(), mail()
	do("CREATE_INVITATIONS", guest)
	contract := t.newInterface()
	contract["label"], contract["notes"] = v.mark(), v.mark()
	contract["smartContractInterface"] = strings.Replace(contract["smartContractInterface"].(string), `"to"`, `"`+v.mark()+`"`, 1)
	contractID := client.Text(do("CREATE_SMART_CONTRACT_INTERFACE", contract), "smartContractInterfaceId")
	hook := t.newEndpoint()
	hook["name"], hook["url"] = v.mark(), "https://example.org/"+v.mark()
	hookID := client.Text(do("CREATE_WEBHOOK_ENDPOINT", hook), "endpointId")
	mfa := t.newMFA(t.second)
	mfa["mfaPolicyName"], mfa["notes"], mfa["condition"] = v.mark(), v.mark(), "activity.resource == '"+v.mark()+"'"
	mfaID := client.Text(do("CREATE_MFA_POLICY", mfa), "mfaPolicyId")
	profileID := noID
	if t.parent == nil {
		profile := t.newProfile()
		profile["sessionProfileName"], profile["notes"], profile["scope"] = v.mark(), v.mark(), "activity.resource == '"+v.mark()+"'"
		profileID = client.Text(do("CREATE_SESSION_PROFILE", profile), "sessionProfileId")
		allow := allowlist("")
		allow["rules"].([]any)[0].(object)["label"] = v.mark()
		do("SET_IP_ALLOWLIST", allow)
	}
	do("UPDATE_ORGANIZATION_NAME", object{"organizationName": v.mark()})
	do("SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBAUTHN_ORIGINS", "value": "https://" + v.mark() + ".example"})
	act := client.Text(t.look("list_activities", nil), "activities", "0", "id")
	for op, about := range map[string]object{
		"get_user": {"userId": t.second}, "get_api_keys": {"userId": t.second}, "get_authenticators": {"userId": t.second}, "get_oauth_providers": {"userId": t.second},
		"get_mfa_policies": {"userId": t.second}, "get_mfa_policy": {"userId": t.second, "mfaPolicyId": mfaID}, "get_authenticator": {"authenticatorId": pass},
		"get_policy": {"policyId": policyID}, "get_smart_contract_interface": {"smartContractInterfaceId": contractID}, "get_session_profile": {"sessionProfileId": profileID},
		"get_wallet": {"walletId": walletID}, "get_wallet_account": {"walletId": walletID, "path": "m/44'/60'/0'/0/0"}, "list_wallet_accounts": {"walletId": walletID},
		"get_private_key": {"privateKeyId": key}, "get_activity": {"activityId": act}, "list_app_proofs": {"activityId": act}, "get_policy_evaluations": {"activityId": act},
		"get_mfa_status": {"activityId": act}, "list_activities": {"paginationOptions": object{"limit": "100"}}, "get_boot_proof": {"ephemeralKey": strings.Repeat("04", 65)},
		"get_log_proof": {"activityId": act}, "get_history": {"activityId": t.exported()},
		"get_activity_counts":   {"timesMs": []string{"0", "4102444800000"}},
		"get_latest_boot_proof": {"appName": "cloister"}, "get_api_key": {"apiKeyId": t.anyKey()},
		"list_webhook_deliveries": {"endpointId": hookID},
		"list_suborgs":            {"filterType": "NAME", "filterValue": v.canaries[0]},
		"evaluate_policies":       {"activityId": act, "userId": t.second, "policy": object{"policyId": policyID, "effect": "EFFECT_ALLOW"}, "includeSuggestion": true},
	} {
		if live[op] {
			v.asks[op] = about
		}
	}
	for op := range queries {
		if live[op] && v.asks[op] == nil {
			v.asks[op] = object{}
		}
	}
	return v
}

// readable checks that the owner reads every canary back, so that those that
// nobody else reads are really there, and remembers the ids of what is owned.
func (v *victim) readable(t *testing.T) {
	var all bytes.Buffer
	for _, op := range slices.Sorted(maps.Keys(v.asks)) {
		r := v.ask(v.root, op, v.asks[op])
		all.Write(r.Body)
		// A profile is the parent's, and a parent's endpoint receives its sub-organizations' events.
		if op != "list_activities" && op != "get_session_profile" && op != "list_webhook_deliveries" {
			for _, id := range uuid.FindAllString(string(r.Body), -1) {
				v.owned[id] = true
			}
		}
	}
	for _, c := range v.canaries {
		if !bytes.Contains(all.Bytes(), []byte(c)) {
			t.Errorf("%s: the owner does not read %s", v.name, c)
		}
	}
	delete(v.owned, noID)
}

// replaced is a body with every string of a list replaced by its position.
func replaced(body []byte, names []string) string {
	text := string(body)
	for i, n := range names {
		text = strings.ReplaceAll(text, n, fmt.Sprintf("<%d>", i))
	}
	return text
}

func newID(r *rand.Rand) string {
	b := make([]byte, 16)
	r.Read(b)
	b[6], b[8] = 0x40|b[6]&15, 0x80|b[8]&63
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// elsewhere is a request about what exists nowhere, and the ids of both.
func elsewhere(r *rand.Rand, request object) (twin object, was, is []string) {
	twin = object{}
	for k, x := range request {
		text, ok := x.(string)
		if ok && uuid.MatchString(text) {
			id := newID(r)
			was, is = append(was, text), append(is, id)
			x = id
		}
		twin[k] = x
	}
	return twin, was, is
}

// TestReadAcrossTenants asks for what is another's.
func TestReadAcrossTenants(t *testing.T) {
	w := newWorld(t, 3)
	live := w.live(readOperations(t))
	p, q := w.top(), w.top()
	a, b := p.sub(), p.sub()
	// The parent comes last: the origins that it sets are its sub-organizations' too.
	victims := []*victim{w.plant("a", a, live), w.plant("b", b, live), w.plant("p", p, live), w.plant("q", q, live)}
	for _, v := range victims {
		v.readable(t)
		v.few()
	}
	// What a parent may read of its child would be leaks by a stranger: they are seen.
	a1, p1 := victims[0], victims[2]
	if found := a1.leaks(nil, a1.ask(p1.root, "list_users", nil), p1); len(found) < 4 {
		t.Errorf("of a parent's reading only %v is seen", found)
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	answered := map[string]int{}
	for asked := 0; asked < reads; {
		v, thief := victims[r.Intn(len(victims))], victims[r.Intn(len(victims))]
		if v == thief || v.parent == thief.tenant {
			continue // may read it
		}
		by := thief.as[[]string{"root", "user"}[r.Intn(2)]]
		op := slices.Sorted(maps.Keys(v.asks))[r.Intn(len(v.asks))]
		if thief.parent == v.tenant && strings.HasPrefix(op, "get_session_profile") {
			continue // a parent's profiles are for its sub-organizations to see
		}
		asked++
		request := maps.Clone(v.asks[op])
		at, own := v.root.Organization, len(request) > 0 && r.Intn(2) == 0
		if own { // the thief's own organization, with what is the victim's
			at = thief.root.Organization
		}
		request["organizationId"] = at
		got := v.ask(by, op, request)
		answered[fmt.Sprint(got.Status)]++
		for _, leak := range v.leaks(request, got, thief) {
			t.Errorf("%s of %s by %s: holds %s", op, v.name, thief.name, leak)
		}

		// The same of what exists nowhere, in an organization that exists: that it does may be told.
		twin, was, is := elsewhere(r, request)
		twin["organizationId"] = at
		i := slices.Index(was, at)
		was, is = slices.Delete(was, i, i+1), slices.Delete(is, i, i+1)
		if op == "whoami" && p.root.Organization == at {
			continue // says which sub-organization the key is of
		}
		other := v.ask(by, op, twin)
		if got.Status != other.Status || replaced(got.Body, was) != replaced(other.Body, is) {
			t.Errorf("%s of %s by %s: what is there answers\n%d %s\nand what is not\n%d %s", op, v.name, thief.name, got.Status, got.Body, other.Status, other.Body)
		}
	}
	t.Logf("%d reads, answers by status: %v", reads, answered)
	if answered["401"] == 0 || answered["404"] == 0 {
		t.Error("not every kind of refusal was seen")
	}
}

// leaks are the canaries and ids of the victim's in an answer to the thief, who
// neither said nor has them.
func (v *victim) leaks(request object, got reply, thief *victim) []string {
	said, text := fmt.Sprint(request), string(got.Body)
	var all []string
	for _, c := range canary.FindAllString(text, -1) {
		if slices.Contains(v.canaries, c) && !strings.Contains(said, c) {
			all = append(all, c)
		}
	}
	for _, id := range uuid.FindAllString(text, -1) {
		if v.owned[id] && !thief.owned[id] && !strings.Contains(said, id) {
			all = append(all, id)
		}
	}
	return all
}
