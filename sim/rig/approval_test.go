package rig_test

import (
	"fmt"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// same sends a body of UPDATE_ORGANIZATION_NAME, or a like one, as it is.
func same(by *client.User, op string, body []byte) client.Reply {
	return by.Post(wire.EndpointSubmit, op, body)
}

// approved counts the approvals that an activity shows.
func approved(r client.Reply) (n int) {
	for _, v := range client.Get(r.JSON(), "activity", "votes").([]any) {
		if client.Text(v, "selection") == "VOTE_SELECTION_APPROVED" {
			n++
		}
	}
	return n
}

// The body of an activity that waits, from another user who may vote, is that user's approval, whose message is the body. It adds no
// activity of its own, and from anybody else it changes nothing.
func TestApprovalByTheSameBody(t *testing.T) {
	clock := clocktest.New()
	r := rig.Start(t, rig.Options{Clock: clock})
	root := r.Root()
	second, third, fourth, outsider := root.NewUser("Second"), root.NewUser("Third"), root.NewUser("Fourth"), root.NewUser("Outsider")
	spare := second.NewKey()
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 3, "userIds": []any{root.User, second.User, third.User, fourth.User}})
	n := 0
	asked := func() (body []byte, first client.Reply) {
		n++
		body = root.Body("UPDATE_ORGANIZATION_NAME", client.Object{"organizationName": fmt.Sprint("Name ", n)})
		first = same(root, "update_organization_name", body)
		if first.State() != "CONSENSUS_NEEDED" || approved(first) != 1 {
			t.Fatal(first)
		}
		return body, first
	}
	activities := func() int {
		return len(root.Read("list_activities", client.Object{"paginationOptions": client.Object{"limit": "100"}})["activities"].([]any))
	}
	votes := func(what string, by *client.User, body []byte, want int) client.Reply {
		t.Helper()
		got := same(by, "update_organization_name", body)
		if got.Status != 200 || approved(got) != want {
			t.Errorf("%s: %v, want %d approvals", what, got, want)
		}
		return got
	}

	body, _ := asked()
	before := activities()
	votes("of the initiator", root, body, 1)
	votes("of a user who may not vote", outsider, body, 1)
	votes("of the second", second, body, 2)
	votes("of the second again", second, body, 2)
	votes("of the second with another key", spare, body, 2)
	done := votes("of the third", third, body, 3)
	if done.State() != "COMPLETED" || activities() != before {
		t.Errorf("%v, %d activities, before %d", done, activities(), before)
	}
	vote := client.Get(done.JSON(), "activity", "votes", "2")
	if client.Text(vote, "message") != string(body) || client.Text(vote, "publicKey") != third.Key.PublicKey || client.Text(vote, "userId") != third.User ||
		attestation.Fingerprint([]byte(client.Text(vote, "message"))) != done.Text("activity", "fingerprint") {
		t.Error(vote)
	}
	votes("after the end", second, body, 3)

	body, first := asked()
	second.Submit("REJECT_ACTIVITY", voteOn(first))
	if got := votes("after a rejection", second, body, 1); got.State() != "CONSENSUS_NEEDED" {
		t.Error(got)
	}

	// The bytes and the stamp of an approval revive nothing: neither with the key back that was taken away, nor with another one.
	body, first = asked()
	votes("with the spare key", spare, body, 2)
	keys := second.Read("get_api_keys", client.Object{"userId": second.User})["apiKeys"].([]any)
	for _, k := range keys {
		if client.Text(k, "credential", "publicKey") == spare.Key.PublicKey {
			second.Do("DELETE_API_KEYS", client.Object{"userId": second.User, "apiKeyIds": []any{client.Get(k, "apiKeyId")}})
		}
	}
	second.Do("CREATE_API_KEYS_V2", client.Object{"userId": second.User, "apiKeys": []any{client.APIKey("back", spare.Key)}})
	votes("with the key that was taken away and came back", spare, body, 1)
	votes("with another key", second, body, 1)
	if got := second.Submit("APPROVE_ACTIVITY", voteOn(first)); approved(got) != 2 {
		t.Errorf("an approval: %v", got)
	}

	body, first = asked()
	clock.Pass(time.Hour + time.Minute)
	votes("after an hour", second, body, 1)
	if got := second.Submit("APPROVE_ACTIVITY", voteOn(first)); approved(got) != 2 {
		t.Errorf("an approval after an hour: %v", got)
	}
}

// What a user may do alone needs no other: the same body from another user is answered with what came of it, and does nothing again.
func TestTheSameBodyOfWhatIsDone(t *testing.T) {
	root := rig.Start(t, rig.Options{}).Root()
	second := root.NewUser("Second")
	body := root.Body("CREATE_USER_TAG", client.Tag("Tag"))
	first := same(root, "create_user_tag", body)
	if got := same(second, "create_user_tag", body); first.Status != 200 || got.Text("activity", "id") != first.Text("activity", "id") || approved(got) != 1 {
		t.Errorf("%v, then %v", first, got)
	}
}
