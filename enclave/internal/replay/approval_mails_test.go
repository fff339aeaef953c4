package replay_test

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/replay"
	"cloister/shared/pace"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// Mails to approvers are computed again. How many of them there are depends on limits that are in no history; that there are others does not.
func TestReplayOfApprovalMails(t *testing.T) {
	h := begin(t, rig.Options{Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{}), Rates: core.Rates{ApprovalMails: pace.Rate{Count: 8, Per: time.Hour}},
		Configuration: []byte(`{"mail":{"through":"host","sender":{"address":"codes@cloister.example"}}}`)})
	top := h.orgs[0]
	for i := range 3 {
		key := client.NewKey()
		u := client.NewUser(fmt.Sprint("User ", i), key)
		u["userEmail"] = fmt.Sprintf("user%d@example.org", i)
		r, _ := h.do(top, top.root, "CREATE_USERS_V4", client.Users(u))
		top.users = append(top.users, person{client.Text(r, "userIds", "0"), key})
	}
	h.do(top, top.root, "CREATE_POLICY_V3", client.Policy("Two", "ALLOW", "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "approvers.count() >= 2"))
	h.do(top, top.root, "SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBHOOK", "value": "https://hooks.example.com/"})
	h.do(top, top.root, "SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_APPROVAL_MAILS", "value": "https://cloister.example.com/dashboard/"})
	h.do(top, top.root, "UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{top.users[0].id, top.users[1].id}})
	for i := range 4 { // three mails, three, two, none
		h.do(top, top.root, "CREATE_USER_TAG", client.Tag(fmt.Sprint("Tag ", i)))
		h.do(top, top.users[1+i%3].pair, "APPROVE_ACTIVITY", object{"fingerprint": top.waits[i]})
	}
	h.do(top, top.root, "UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{top.users[0].id}})
	h.do(top, top.users[1].pair, "APPROVE_ACTIVITY", object{"fingerprint": top.waits[4]})
	original := h.read()
	decide := func(hs []*replay.History) error {
		_, err := replay.Run(context.Background(), core.ReplayConfig{Rand: crand.Reader, Capabilities: activity.Capabilities{Mail: true}}, hs...)
		return err
	}
	counts := []int{}
	for _, r := range original[0].Entries {
		if n := len(mailsIn(r.Entry)); n > 0 {
			counts = append(counts, n)
		}
	}
	if !slices.Equal(counts, []int{3, 3, 2}) {
		t.Errorf("mails %v", counts)
	}
	if err := decide(copied(t, original)); err != nil {
		t.Fatal(err)
	}
	users := func() (ids []org.ID) {
		for _, u := range top.users {
			id, err := org.ParseID(u.id)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		return ids
	}()
	mailTo := func(e *org.Entry, user org.ID) org.Send {
		s := e.Sends[0]
		b, err := (&org.ApprovalMail{User: user}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		s.Content = b
		return s
	}
	for name, c := range map[string]struct {
		change func(e *org.Entry)
		holds  bool
	}{
		"one less":       {func(e *org.Entry) { e.Sends = slices.Delete(slices.Clone(e.Sends), 0, 1) }, true},
		"none":           {func(e *org.Entry) { e.Sends = e.Sends[len(mailsIn(e)):] }, true},
		"twice":          {func(e *org.Entry) { e.Sends = append([]org.Send{e.Sends[0]}, e.Sends...) }, false},
		"another order":  {func(e *org.Entry) { e.Sends = slices.Clone(e.Sends); e.Sends[0], e.Sends[1] = e.Sends[1], e.Sends[0] }, false},
		"the initiator":  {func(e *org.Entry) { e.Sends = append([]org.Send{mailTo(e, users[0])}, e.Sends...) }, false},
		"nobody":         {func(e *org.Entry) { e.Sends = append([]org.Send{mailTo(e, org.ID{1})}, e.Sends...) }, false},
		"a later end":    {func(e *org.Entry) { e.Sends = slices.Clone(e.Sends); e.Sends[0].ExpiresMs++ }, false},
		"other contents": {func(e *org.Entry) { e.Sends = slices.Clone(e.Sends); e.Sends[0].Content = []byte{0xa0} }, false},
		"no webhook":     {func(e *org.Entry) { e.Sends = e.Sends[:len(mailsIn(e))] }, false},
	} {
		hs, changed := copied(t, original), 0
		for _, r := range hs[0].Entries {
			if len(mailsIn(r.Entry)) == 3 && changed == 0 {
				c.change(r.Entry)
				changed++
			}
		}
		if err := decide(hs); (err == nil) != c.holds || changed != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A vote that lets an activity go on waiting announces nothing.
	hs, changed := copied(t, original), 0
	for _, r := range hs[0].Entries {
		if r.Entry.Type == "ACTIVITY_TYPE_CREATE_USER_TAG" && r.Entry.Prior > 0 && changed == 0 {
			r.Entry.Sends = append([]org.Send{mailTo(r.Entry, users[2])}, r.Entry.Sends...)
			r.Entry.Sends[0].Kind = org.SendMail
			changed++
		}
	}
	if err := decide(hs); err == nil || changed != 1 {
		t.Errorf("a mail at a vote: %v", err)
	}
}

// mailsIn are the mails to approvers in an entry.
func mailsIn(e *org.Entry) (all []org.Send) {
	for _, s := range e.Sends {
		if _, err := org.DecodeApprovalMail(s.Content); s.Kind == org.SendMail && err == nil {
			all = append(all, s)
		}
	}
	return all
}
