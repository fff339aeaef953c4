package rig_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// An unlimited right to move USDC, for a spender whom nobody knows.
const unlimited = "02f86e0107843b9aca008506fc23ac00830186a094a0b86991c6218b36c1d19d4a2e9eb0ce3606eb4880b844095ea7b3" +
	"00000000000000000000000035cdf80606c5e1effe6cb81d969f03f0c04decc9ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffc0"

// decodedOf is what an approver is shown of an activity: the bytes as they stand in the reply, and the digest of them.
func decodedOf(by *client.User, id string) (text []byte, digest string) {
	by.Test.Helper()
	return decodedBy(by, client.Object{"activityId": id})
}

func decodedBy(by *client.User, q client.Object) (text []byte, digest string) {
	by.Test.Helper()
	r := by.Query("get_activity", q)
	var reply struct {
		Activity struct {
			Decoded       json.RawMessage
			DecodedDigest string
		}
	}
	if err := json.Unmarshal(r.Body, &reply); err != nil || r.Status != 200 {
		by.Test.Fatal(err, r)
	}
	return reply.Activity.Decoded, reply.Activity.DecodedDigest
}

// decodedWhenOver is what a reader who asks for it is shown of an activity that may be over.
func decodedWhenOver(by *client.User, id string) (text []byte, digest string) {
	by.Test.Helper()
	return decodedBy(by, client.Object{"activityId": id, "includeDecoded": true})
}

// decodedClaims are what the app proofs of a reply say that approvers are shown.
func decodedClaims(t *testing.T, r client.Reply) (all []*attestation.DecodedActivity) {
	t.Helper()
	reply, err := attestation.ParseReply(r.Body)
	if err != nil {
		t.Fatal(err, r)
	}
	for _, p := range reply.AppProofs {
		_, claim, err := attestation.ParsePayload(p.ProofPayload)
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := claim.(*attestation.DecodedActivity); ok {
			all = append(all, c)
		}
	}
	return all
}

// An approval that names what its user was shown does not help something else through: what a change makes of a policy depends
// on what the policy is by then.
func TestEarlierVotesNameAnotherView(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	root := r.Root()
	second, third := root.NewUser("Second"), root.NewUser("Third")
	one := func(u *client.User) string { return "approvers.any(user, user.id == '" + u.User + "')" }
	policy := root.Do("CREATE_POLICY_V3", client.Object{"policyName": "tags", "effect": "EFFECT_ALLOW", "condition": "activity.resource == 'USER_TAG'", "consensus": one(second), "notes": ""})["policyId"]
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 3, "userIds": []any{root.User, second.User, third.User}})
	ask := func(what string, parameters client.Object) client.Reply {
		t.Helper()
		asked := root.Submit(what, parameters)
		if asked.State() != "CONSENSUS_NEEDED" {
			t.Fatal(asked)
		}
		return asked
	}
	approve := func(by *client.User, of client.Reply, named bool) client.Reply {
		t.Helper()
		vote := client.Object{"fingerprint": of.Text("activity", "fingerprint")}
		if named {
			_, vote["decodedDigest"] = decodedOf(by, of.Text("activity", "id"))
		}
		got := by.Submit("APPROVE_ACTIVITY", vote)
		if got.Status != 200 {
			t.Fatal(got)
		}
		return got
	}
	state := func(what string, of client.Reply, status string, voters ...any) {
		t.Helper()
		a := root.Query("get_activity", client.Object{"activityId": of.Text("activity", "id")})
		var got []any
		for _, v := range a.Get("activity", "votes").([]any) {
			got = append(got, client.Get(v, "userId"))
		}
		if a.State() != status || !reflect.DeepEqual(got, voters) {
			t.Errorf("%s: %s with votes of %v, want %s with %v", what, a.State(), got, status, voters)
		}
	}
	condition := ask("UPDATE_POLICY_V2", client.Object{"policyId": policy, "policyCondition": "activity.action == 'CREATE'"})
	consensus := ask("UPDATE_POLICY_V2", client.Object{"policyId": policy, "policyConsensus": one(third)})
	for _, of := range []client.Reply{condition, consensus} { // each alone
		approve(second, of, true)
		state("one approval", of, "CONSENSUS_NEEDED", root.User, second.User)
	}
	approve(third, condition, true)
	state("the same view for all", condition, "COMPLETED", root.User, second.User, third.User)
	approve(third, consensus, true)
	state("the second approver was shown something else", consensus, "CONSENSUS_NEEDED", root.User, third.User)
	approve(second, consensus, true)
	state("who has looked again", consensus, "COMPLETED", root.User, third.User, second.User)

	// A vote that names nothing counts, and does not make others count for what they were not for.
	first := ask("UPDATE_POLICY_V2", client.Object{"policyId": policy, "policyName": "first"})
	other := ask("UPDATE_POLICY_V2", client.Object{"policyId": policy, "policyNotes": "other"})
	approve(second, other, true)
	approve(third, first, false)
	approve(second, first, false)
	state("votes that name nothing", first, "COMPLETED", root.User, third.User, second.User)
	approve(third, other, false)
	state("a vote that names nothing after one for another view", other, "CONSENSUS_NEEDED", root.User, third.User)
	approve(second, other, true)
	state("who names it", other, "COMPLETED", root.User, third.User, second.User)

	// Votes of before the organization asked for the view do not count any more.
	early := ask("UPDATE_POLICY_V2", client.Object{"policyId": policy, "policyName": "last"})
	approve(second, early, false)
	feature := ask("SET_ORGANIZATION_FEATURE", client.Object{"name": "FEATURE_NAME_DECODED_VOTES", "value": ""})
	approve(second, feature, false)
	approve(third, feature, false)
	approve(third, early, true)
	state("a vote of before", early, "CONSENSUS_NEEDED", root.User, third.User)
	approve(second, early, true)
	state("who has looked", early, "COMPLETED", root.User, third.User, second.User)
}

// What an approver is shown is decoded in the enclave, and an approval may commit to it: it counts only as long as the activity is
// shown so. An organization may ask all approvals for that; those of clients that do not know it go on otherwise.
func TestApproveWhatYouSee(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	root := r.Root()
	second, third := root.NewUser("Second"), root.NewUser("Third")
	address := root.Do("CREATE_WALLET", client.Wallet("Treasury", client.Ethereum))["addresses"].([]any)[0]
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{root.User, second.User, third.User}})
	n := 0
	ask := func() client.Reply {
		t.Helper()
		n++
		unsigned := strings.Replace(unlimited, "0107843b", "01"+[]string{"01", "02", "03", "04", "05", "06", "07", "08", "09"}[n]+"843b", 1) // the nonce
		first := root.Submit("SIGN_TRANSACTION_V2", client.Object{"signWith": address, "unsignedTransaction": unsigned, "type": "TRANSACTION_TYPE_ETHEREUM"})
		if first.State() != "CONSENSUS_NEEDED" {
			t.Fatal(first)
		}
		return first
	}
	approve := func(by *client.User, of client.Reply, digest string) client.Reply {
		vote := client.Object{"fingerprint": of.Text("activity", "fingerprint")}
		if digest != "" {
			vote["decodedDigest"] = digest
		}
		return by.Submit("APPROVE_ACTIVITY", vote)
	}
	refused := func(what string, got client.Reply, code string) {
		t.Helper()
		if got.Status == 200 || !strings.Contains(got.String(), code) {
			t.Errorf("%s: %v, want %s", what, got, code)
		}
	}

	first := ask()
	id := first.Text("activity", "id")
	// Lists say it in short if asked, and decode nothing otherwise.
	listed := second.Query("list_activities", client.Object{"includeDecoded": true, "filterByStatus": []any{"ACTIVITY_STATUS_CONSENSUS_NEEDED"}})
	want := map[string]any{"title": "Allow another to move tokens", "severity": "DANGER", "readable": "FULL"}
	if got := listed.Get("activities", "0", "decodedSummary"); !reflect.DeepEqual(got, want) {
		t.Errorf("listed as %v", got)
	}
	for name, q := range map[string]client.Object{"not asked for": {}, "of changes that are over": {"includeDecoded": true, "filterByStatus": []any{"ACTIVITY_STATUS_COMPLETED"}}} {
		if got := second.Query("list_activities", q); got.Status != 200 || strings.Contains(got.String(), "decoded") {
			t.Errorf("%s: %v", name, got)
		}
	}
	text, digest := decodedOf(second, id)
	for _, want := range []string{`"title":"Allow another to move tokens"`, `"severity":"DANGER"`, `"unlimited":true`, `"code":"APPROVAL_UNLIMITED"`, `"fingerprint":"` + first.Text("activity", "fingerprint") + `"`, `"by":"` + address.(string) + `"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if sum := sha256.Sum256(append([]byte("cloister decoded 1\n"), text...)); hex.EncodeToString(sum[:]) != digest {
		t.Errorf("the digest of what is shown is %x, and not %s", sum, digest)
	}
	if again, _ := decodedOf(third, id); !bytes.Equal(again, text) {
		t.Errorf("another approver is shown something else:\n%s\n%s", again, text)
	}
	refused("a digest that is none", approve(second, first, "00"), "malformed digest")
	refused("another digest", approve(second, first, strings.Repeat("0", 64)), "DECODED_DIGEST_DIFFERS")

	// A name that comes later changes what is shown, and so what an approver has agreed to.
	policy := root.Submit("CREATE_POLICY_V3", client.Object{"policyName": "interfaces", "effect": "EFFECT_ALLOW", "condition": "activity.resource == 'SMART_CONTRACT_INTERFACE'", "consensus": "approvers.any(user, user.id == '" + root.User + "')", "notes": ""})
	if got := approve(second, policy, ""); got.State() != "COMPLETED" {
		t.Fatal(got)
	}
	root.Do("CREATE_SMART_CONTRACT_INTERFACE", client.Object{"label": "Own token", "smartContractAddress": "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
		"type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "smartContractInterface": "[]"})
	refused("what was shown before", approve(second, first, digest), "DECODED_DIGEST_DIFFERS")
	named, digest := decodedOf(second, id)
	if !bytes.Contains(named, []byte(`"label":"Own token","labelSource":"INTERFACE","labelBy":{"userId":"`+root.User+`"`)) {
		t.Errorf("%s", named)
	}
	done := approve(second, first, digest)
	if done.State() != "COMPLETED" {
		t.Fatal(done)
	}
	if message := client.Text(client.Get(done.JSON(), "activity", "votes", "1"), "message"); !strings.Contains(message, digest) {
		t.Errorf("the vote says %s", message)
	}
	if text, digest := decodedOf(second, id); text != nil || digest != "" {
		t.Errorf("what is over is still shown: %s", text)
	}
	if text, again := decodedWhenOver(second, id); !bytes.Equal(text, named) || again != digest {
		t.Errorf("what is over is shown otherwise than when it was approved: %s", text)
	}
	// What was shown is proven, whether the vote that decides names it or not.
	root.Proofs = true
	for _, names := range []bool{true, false} {
		asked := ask()
		_, digest := decodedOf(third, asked.Text("activity", "id"))
		named := digest
		if !names {
			named = ""
		}
		got := approve(third, asked, named)
		if claims := decodedClaims(t, got); got.State() != "COMPLETED" || len(claims) != 1 ||
			claims[0].DecodedDigest != digest || claims[0].Fingerprint != asked.Text("activity", "fingerprint") {
			t.Errorf("named %t, digest %s: %v in %v", names, digest, claims, got)
		}
	}
	root.Proofs = false

	// Asked of all approvals.
	feature := root.Submit("SET_ORGANIZATION_FEATURE", client.Object{"name": "FEATURE_NAME_DECODED_VOTES", "value": ""})
	if got := approve(second, feature, ""); got.State() != "COMPLETED" {
		t.Fatal(got)
	}
	body := root.Body("SIGN_TRANSACTION_V2", client.Object{"signWith": address, "unsignedTransaction": strings.Replace(unlimited, "0107843b", "0120843b", 1), "type": "TRANSACTION_TYPE_ETHEREUM"})
	first = same(root, "sign_transaction", body)
	if first.State() != "CONSENSUS_NEEDED" {
		t.Fatal(first)
	}
	refused("an approval that names nothing", approve(third, first, ""), "DECODED_DIGEST_REQUIRED")
	if got := same(third, "sign_transaction", body); got.State() != "CONSENSUS_NEEDED" || approved(got) != 1 {
		t.Errorf("the same body is an approval of what was not looked at: %v", got)
	}
	_, digest = decodedOf(third, first.Text("activity", "id"))
	if got := approve(third, first, digest); got.State() != "COMPLETED" {
		t.Errorf("%v", got)
	}

	// A rejection needs none, and keeps its reason.
	first = ask()
	got := third.Submit("REJECT_ACTIVITY", client.Object{"fingerprint": first.Text("activity", "fingerprint"), "reason": "who is the spender?"})
	if got.Status != 200 || !strings.Contains(client.Text(client.Get(got.JSON(), "activity", "votes", "1"), "message"), "who is the spender?") {
		t.Errorf("%v", got)
	}
}

// Calls of contracts are read wherever there are any: on Tron and Tempo too, and in bytes that are such a transaction.
func TestCallsOfOtherChains(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	root := r.Root()
	second := root.NewUser("Second")
	tron := root.Do("CREATE_WALLET", client.Wallet("Treasury", client.Account("SECP256K1", "m/44'/195'/0'/0/0", "TRON"), client.Ethereum))["addresses"].([]any)
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{root.User, second.User}})
	const (
		// approve(address,uint256) of a token for 2^256-1, and a transfer of one to the same spender.
		onTron  = "0a025be72208a1b2c3d4e5f6071840e0a4eeb6b7335aae01081f12a9010a31747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e54726967676572536d617274436f6e747261637412740a15411310404922e97184f7471618326c5edc689e3ea0121541a614f803b6fd780986a42c78ec9c7f77e6ded13c2244095ea7b30000000000000000000000008a72ec84b86d0148ddf98d40e792f718efdf89cbffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7080d0eab6b733900180dea0cb05"
		onTempo = "76f875821079098405f5e100830186a0f85ef85c9420c000000000000000000000000000000000000080b844a9059cbb0000000000000000000000008a72ec84b86d0148ddf98d40e792f718efdf89cb0000000000000000000000000000000000000000000000000000000000000001c0800180808080c0"
	)
	for _, c := range []struct {
		name, meaning, addressee string
		asked                    client.Reply
	}{
		{"Tron", "ERC20_APPROVE", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", root.Submit("SIGN_TRANSACTION_V2", client.Object{"signWith": tron[0], "unsignedTransaction": onTron, "type": "TRANSACTION_TYPE_TRON"})},
		{"bytes", "ERC20_APPROVE", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", root.Submit("SIGN_RAW_PAYLOAD_V2", client.Object{"signWith": tron[0], "payload": onTron, "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"})},
		{"Tempo", "ERC20_TRANSFER", "0x20C0000000000000000000000000000000000000", root.Submit("SIGN_TRANSACTION_V2", client.Object{"signWith": tron[1], "unsignedTransaction": onTempo, "type": "TRANSACTION_TYPE_TEMPO"})},
	} {
		if c.asked.State() != "CONSENSUS_NEEDED" {
			t.Fatalf("%s: %v", c.name, c.asked)
		}
		text, _ := decodedOf(second, c.asked.Text("activity", "id"))
		for _, want := range []string{`"meaning":"` + c.meaning + `"`, `"calls":[{"kind":"CALL","to":{"address":"` + c.addressee + `"}`, `"readable":"FULL"`} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s: no %s in %s", c.name, want, text)
			}
		}
	}
}

// What is over can still be looked at, if its own bytes say what it was: signed, refused and rejected transactions and payloads. Replies
// without the member of ours stay as they were, and nobody else is shown anything.
func TestLookAtWhatIsOver(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	root := r.Root()
	other := root.NewUser("Other")
	made := root.Do("CREATE_WALLET", client.Wallet("Treasury", client.Ethereum))
	address := made["addresses"].([]any)[0]
	sign := client.Object{"signWith": address, "unsignedTransaction": unlimited, "type": "TRANSACTION_TYPE_ETHEREUM"}
	shown := func(by *client.User, id, want string) []byte {
		t.Helper()
		plain, none := by.Query("get_activity", client.Object{"activityId": id}), by.Query("get_activity", client.Object{"activityId": id, "includeDecoded": false})
		if plain.Status != 200 || strings.Contains(plain.String(), `"decoded`) || !bytes.Equal(plain.Body, none.Body) {
			t.Errorf("not asked for: %v", plain)
		}
		asked := by.Query("get_activity", client.Object{"activityId": id, "includeDecoded": true})
		text, digest := decodedWhenOver(by, id)
		if rest := strings.Replace(string(asked.Body), `,"decoded":`+string(text)+`,"decodedDigest":"`+digest+`"`, "", 1); rest != string(plain.Body) {
			t.Errorf("the rest of the reply differs: %s", rest)
		}
		if sum := sha256.Sum256(append([]byte("cloister decoded 1\n"), text...)); hex.EncodeToString(sum[:]) != digest || !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s in %s, %s", want, text, digest)
		}
		return text
	}
	signed := root.Submit("SIGN_TRANSACTION_V2", sign)
	if signed.State() != "COMPLETED" {
		t.Fatal(signed)
	}
	id := signed.Text("activity", "id")
	before := shown(other, id, `"title":"Allow another to move tokens"`)
	refused := other.Submit("SIGN_TRANSACTION_V2", sign)
	if refused.Status != 403 {
		t.Fatal(refused)
	}
	all := root.Read("list_activities", client.Object{"filterByStatus": []any{"ACTIVITY_STATUS_FAILED"}})
	shown(other, client.Text(all, "activities", "0", "id"), `"code":"APPROVAL_UNLIMITED"`)
	payload := root.Submit("SIGN_RAW_PAYLOAD_V2", client.Payload(address.(string), "414243", "SHA256"))
	shown(other, payload.Text("activity", "id"), `"kind":`)

	// Lists say it in short if asked.
	listed := other.Read("list_activities", client.Object{"includeDecoded": true, "filterByType": []any{"ACTIVITY_TYPE_SIGN_TRANSACTION_V2"}})
	for i := range 2 {
		if got := client.Text(listed, "activities", string(rune('0'+i)), "decodedSummary", "title"); got != "Allow another to move tokens" {
			t.Errorf("listed as %v", got)
		}
	}
	// Changes of records are not decoded: what they changed is another by now.
	quorum := root.Submit("UPDATE_ORGANIZATION_NAME", client.Object{"organizationName": "Renamed"})
	if text, digest := decodedWhenOver(other, quorum.Text("activity", "id")); text != nil || digest != "" {
		t.Errorf("%s", text)
	}

	// The names are those of today, and so is the key.
	root.Do("CREATE_SMART_CONTRACT_INTERFACE", client.Object{"label": "Own token", "smartContractAddress": "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
		"type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "smartContractInterface": "[]"})
	if after := shown(other, id, `"label":"Own token"`); bytes.Equal(before, after) {
		t.Error("the name of today is not shown")
	}

	// Who may not read the activity is shown nothing of it: users of sub-organizations, and of the parent other ones.
	sub := root.NewSubOrganization("Customer")
	theirs := sub.Do("CREATE_WALLET", client.Wallet("Savings", client.Ethereum))["addresses"].([]any)[0]
	inside := sub.Submit("SIGN_TRANSACTION_V2", client.Object{"signWith": theirs, "unsignedTransaction": unlimited, "type": "TRANSACTION_TYPE_ETHEREUM"})
	in := func(by *client.User, organization, id string) client.Reply {
		return by.Query("get_activity", client.Object{"organizationId": organization, "activityId": id, "includeDecoded": true})
	}
	for name, got := range map[string]client.Reply{
		"a sub-organization's user reads the parent": in(sub, root.Organization, id), "another sub-organization's user": in(root.NewSubOrganization("Stranger"), sub.Organization, inside.Text("activity", "id")),
		"another organization's activity": in(sub, sub.Organization, id), "the parent's, in the sub-organization": in(root, sub.Organization, id),
	} {
		if got.Status == 200 || strings.Contains(got.String(), "decoded") {
			t.Errorf("%s: %v", name, got)
		}
	}
	// The parent reads what its sub-organizations signed, with their names and not with its own.
	if got := in(root, sub.Organization, inside.Text("activity", "id")); got.Status != 200 || !strings.Contains(got.String(), `"decoded":{`) || strings.Contains(got.String(), "Own token") {
		t.Errorf("%v", got)
	}

	root.Do("DELETE_WALLETS", client.Object{"walletIds": []any{made["walletId"]}, "deleteWithoutExport": true})
	shown(other, id, `"kind":"UNKNOWN_SIGNER"`)
}

// A page of signed transactions costs little more to read with its summaries.
func BenchmarkListWhatIsOver(b *testing.B) {
	r := rig.Start(b, rig.Options{})
	root := r.Root()
	address := root.Do("CREATE_WALLET", client.Wallet("Treasury", client.Ethereum))["addresses"].([]any)[0]
	for range 50 {
		root.Do("SIGN_TRANSACTION_V2", client.Object{"signWith": address, "unsignedTransaction": unlimited, "type": "TRANSACTION_TYPE_ETHEREUM"})
	}
	for _, decoded := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "decoded"}[decoded], func(b *testing.B) {
			for b.Loop() {
				root.Read("list_activities", client.Object{"includeDecoded": decoded, "paginationOptions": client.Object{"limit": "50"}})
			}
		})
	}
}
