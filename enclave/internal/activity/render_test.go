package activity_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func view(w *world) activity.ActivityView {
	return activity.ActivityView{CanReject: true, Users: func(id org.ID) *org.User {
		u, err := w.Tx().User(id)
		w.Must(err)
		return u
	}}
}

func parsed(t *testing.T, b []byte) object {
	t.Helper()
	var m object
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return m
}

func TestAppendActivity(t *testing.T) {
	w := activitytest.New(t)
	e := w.Entry("ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": w.Root, "walletName": nil, "generateAppProofs": true})
	b := kinds.Live.AppendActivity(nil, e, w.ID, view(w))
	for _, wrong := range activitytest.API.Check("Activity", b) {
		t.Error(wrong)
	}
	m := parsed(t, b)
	vote := m["votes"].([]any)[0].(object)
	for _, c := range []struct{ got, want any }{
		{m["id"], e.Activity.String()}, {m["organizationId"], w.ID.String()}, {m["status"], "ACTIVITY_STATUS_COMPLETED"},
		{m["intent"], object{"updateWalletIntent": object{"walletId": w.Root}}},
		{m["result"], object{"updateWalletResult": object{"walletId": w.Root}}},
		{m["fingerprint"], "sha256:0102" + strings.Repeat("0", 60)},
		{m["canApprove"], false}, {m["canReject"], true}, {m["failure"], nil},
		{m["createdAt"], object{"seconds": "1700000000", "nanos": "0"}}, {m["updatedAt"], object{"seconds": "1700000002", "nanos": "0"}},
		{vote["message"], string(e.Body)}, {vote["selection"], "VOTE_SELECTION_APPROVED"}, {vote["activityId"], e.Activity.String()},
		{vote["user"].(object)["userName"], "Root"}, {len(vote["user"].(object)["apiKeys"].([]any)), 1},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
	if _, ok := m["failure"]; !ok {
		t.Error("failure is left out")
	}
	if _, ok := m["appProofs"]; ok {
		t.Error("appProofs without proofs")
	}
}

// What is good for one use is nowhere in an activity, however its body was written
// and whatever today's rules say of it; the fingerprint stays.
func TestSecretsAreNotShown(t *testing.T) {
	w := activitytest.New(t)
	for typ, names := range secretsOf {
		params := activitytest.SampleIntent(typ)
		for _, name := range names {
			params[name] = "theSecret-" + strings.Repeat("s", 43)
		}
		old := maps.Clone(params)
		old["nolonger"] = "known"
		for _, body := range []any{params, old} {
			e := w.Entry(typ, body)
			for _, raw := range []string{string(e.Body), snakeKeys(string(e.Body))} {
				e.Body = []byte(raw)
				for _, status := range []org.Status{org.StatusCompleted, org.StatusConsensusNeeded, org.StatusFailed} {
					e.Status = status
					b := kinds.Live.AppendActivity(nil, e, w.ID, view(w))
					if strings.Contains(string(b), "theSecret") {
						t.Errorf("%s shows its secret: %s", typ, b)
					}
					m := parsed(t, b)
					if vote := m["votes"].([]any)[0].(object); vote["message"] != "" || vote["signature"] == "" {
						t.Errorf("%s: vote %v", typ, vote)
					}
					if m["fingerprint"] != "sha256:0102"+strings.Repeat("0", 60) {
						t.Errorf("%s: fingerprint %v", typ, m["fingerprint"])
					}
				}
			}
		}
	}
}

func TestAppendActivityInOtherStates(t *testing.T) {
	w := activitytest.New(t)
	e := w.Entry("ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": w.Root})
	gone := w.NewID()
	e.Votes = append(e.Votes, org.Vote{ID: w.NewID(), User: gone, UserName: "Gone", Rejected: true, Message: []byte("{\"other\":\"\u2028\\\"\x01\"}"), Scheme: "S", CreatedMs: 1})
	e.Status, e.Result = org.StatusConsensusNeeded, nil
	e.Proofs = []org.Proof{{Key: []byte{4, 0xAB}, Payload: []byte(`{"type":"x"}`), Signature: []byte{1}}}
	// While it waits, the vote of a user who is gone is gone; what has ended stays.
	if m := parsed(t, kinds.Live.AppendActivity(nil, e, w.ID, view(w))); len(m["votes"].([]any)) != 1 {
		t.Error(m["votes"])
	}
	e.Status = org.StatusRejected
	b := kinds.Live.AppendActivity(nil, e, w.ID, view(w))
	for _, wrong := range activitytest.API.Check("Activity", b) {
		t.Error(wrong)
	}
	m := parsed(t, b)
	if !reflect.DeepEqual(m["result"], object{}) {
		t.Error(m["result"])
	}
	vote := m["votes"].([]any)[1].(object)
	if vote["message"] != string(e.Votes[1].Message) || vote["selection"] != "VOTE_SELECTION_REJECTED" || vote["user"].(object)["userName"] != "Gone" || vote["user"].(object)["userId"] != gone.String() {
		t.Error(vote)
	}
	proof := m["appProofs"].([]any)[0].(object)
	if proof["publicKey"] != "04ab" || proof["proofPayload"] != `{"type":"x"}` || proof["signature"] != "01" {
		t.Error(proof)
	}
	// Without anybody to ask, votes have the name that was kept.
	if m := parsed(t, kinds.Live.AppendActivity(nil, e, w.ID, activity.ActivityView{})); m["votes"].([]any)[0].(object)["user"].(object)["userName"] != "Root" {
		t.Error(m["votes"])
	}
	// The caller's own text of the intent is taken as it is.
	v := view(w)
	v.Intent = []byte(`{"updateWalletIntent":{"walletId":"given"}}`)
	if m := parsed(t, kinds.Live.AppendActivity(nil, e, w.ID, v)); !reflect.DeepEqual(m["intent"], object{"updateWalletIntent": object{"walletId": "given"}}) {
		t.Error(m["intent"])
	}
	// An intent that today's rules refuse is shown as it was sent.
	e = w.Entry("ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": "of old", "form": 1})
	if m := parsed(t, kinds.Live.AppendActivity(nil, e, w.ID, view(w))); !reflect.DeepEqual(m["intent"], object{"updateWalletIntent": object{"walletId": "of old", "form": 1.0}}) {
		t.Error(m["intent"])
	}
	e.Body = []byte("{")
	if m := parsed(t, kinds.Live.AppendActivity(nil, e, w.ID, view(w))); !reflect.DeepEqual(m["intent"], object{}) {
		t.Error(m["intent"])
	}
}

func TestFailuresAreShown(t *testing.T) {
	w := activitytest.New(t)
	e := w.Entry("ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": w.Root})
	e.Status, e.Result = org.StatusFailed, nil
	e.Failure = activity.AppendRefusal(nil, fault.WithCode(fault.InvalidArgument, "REQUEST_INVALID", "no \"x\""), e.Activity, "sha256:00")
	b := kinds.Live.AppendActivity(nil, e, w.ID, view(w))
	for _, wrong := range activitytest.API.Check("Activity", b) {
		t.Error(wrong)
	}
	f := parsed(t, b)["failure"].(object)
	if f["code"] != 3.0 || f["message"] != `no "x"` || len(f["details"].([]any)) != 2 || f["turnkeyErrorCode"] != nil {
		t.Error(f)
	}
	e.Failure = []byte("not JSON")
	if f := parsed(t, kinds.Live.AppendActivity(nil, e, w.ID, view(w)))["failure"].(object); f["code"] != 13.0 {
		t.Error(f)
	}
}

func TestVotable(t *testing.T) {
	w := activitytest.New(t)
	o := w.Organization()
	e := w.Entry("ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": w.Root})
	other := w.NewID()
	two := *o
	two.RootUsers = append([]org.ID{other}, o.RootUsers...)
	e2 := *e
	e2.Votes = []org.Vote{{User: w.User, Rejected: true}}
	for _, c := range []struct {
		o               *org.Organization
		e               *org.Entry
		who             org.ID
		approve, reject bool
	}{
		{o, e, w.User, false, true}, // who submitted has approved
		{&two, e, other, true, true},
		{&two, &e2, w.User, true, false}, // changed to a no
		{o, e, other, false, false},
	} {
		steps := activity.VotableSteps
		if a, r, err := kinds.Live.Votable(w.Tx(), c.o, c.e, c.who, &steps); a != c.approve || r != c.reject || err != nil {
			t.Errorf("%v %v, want %v %v: %v", a, r, c.approve, c.reject, err)
		}
	}
}

func TestAppendError(t *testing.T) {
	w := activitytest.New(t)
	id := w.NewID()
	detail := func(typ string, more object) object {
		more["@type"] = "type.googleapis.com/" + typ
		return more
	}
	coded := func(c string) object { return detail("errors.v1.TurnkeyErrorDetail", object{"turnkeyErrorCode": c}) }
	refusedDetail := detail("cloister.v1.RefusedActivity", object{"activityId": id.String(), "fingerprint": "sha256:ab"})
	permission := func(message string, es ...any) object {
		if es == nil {
			es = []any{}
		}
		return detail("errors.v1.PolicyEnginePermissionError", object{"message": message, "policyEvaluations": es})
	}
	field := detail("google.rpc.BadRequest", object{"fieldViolations": []any{object{"field": "a.0.b", "description": "bad \t\x7f é"}}})
	for _, c := range []struct {
		body []byte
		want object
	}{
		{activity.AppendError(nil, fault.New(fault.NotFound, "wallet not found: %s", "x")), object{"code": 5.0, "message": "wallet not found: x", "details": []any{}}},
		{activity.AppendError(nil, fault.WithCode(fault.Unauthenticated, "SIGNATURE_MISSING", "m")), object{"code": 16.0, "message": "m", "details": []any{coded("SIGNATURE_MISSING")}, "turnkeyErrorCode": "SIGNATURE_MISSING"}},
		{activity.AppendError(nil, fault.Field("a.0.b", "bad \t\x7f é")), object{"code": 3.0, "message": "bad \t\x7f é", "details": []any{field}}},
		{activity.AppendRefusal(nil, &fault.Error{Code: fault.PermissionDenied, Name: "REQUEST_NOT_AUTHORIZED", Message: "request not authorized", Denied: true}, id, "sha256:ab"),
			object{"code": 7.0, "message": "request not authorized", "turnkeyErrorCode": "REQUEST_NOT_AUTHORIZED",
				"details": []any{coded("REQUEST_NOT_AUTHORIZED"), permission("No policies evaluated to outcome: Allow"), refusedDetail}}},
		{activity.AppendError(nil, &fault.Error{Code: 7, Message: "m", Denied: true, Evaluations: []fault.Evaluation{{PolicyID: "p", Outcome: "OUTCOME_DENY_EXPLICIT"}, {PolicyID: "q", Outcome: "OUTCOME_ALLOW"}}}),
			object{"code": 7.0, "message": "m", "details": []any{permission("The following policies denied this action: p", object{"policyId": "p", "outcome": "OUTCOME_DENY_EXPLICIT"}, object{"policyId": "q", "outcome": "OUTCOME_ALLOW"})}}},
		{activity.AppendError(nil, &fault.Error{Code: 7, Message: "m", Denied: true, Evaluations: []fault.Evaluation{
			{PolicyID: "p", Outcome: "OUTCOME_DENY_IMPLICIT", Clause: "condition", Position: 4, Expression: "wallet.label == 'a'", Values: []string{"wallet.label", `'","expression":"'`}}}}),
			object{"code": 7.0, "message": "m", "details": []any{permission("No policies evaluated to outcome: Allow", object{"policyId": "p", "outcome": "OUTCOME_DENY_IMPLICIT", "clause": "condition",
				"position": 4.0, "expression": "wallet.label == 'a'", "values": []any{object{"expression": "wallet.label", "value": `'","expression":"'`}}})}}},
	} {
		if got := parsed(t, c.body); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\nwant %s", activitytest.JSON(got), activitytest.JSON(c.want))
		}
	}
}

// A replay finds out by this of which release a refusal is.
func TestTellsExpression(t *testing.T) {
	for expression, want := range map[string]bool{"": false, "wallet.label == 'a'": true} {
		es := []fault.Evaluation{{PolicyID: "p", Clause: "condition", Expression: expression, Values: []string{"wallet.label", `","expression":"`, "x", "y"}}}
		if body := activity.AppendError(nil, &fault.Error{Denied: true, Evaluations: es}); activity.TellsExpression(body) != want {
			t.Errorf("%q: %s", expression, body)
		}
	}
}

// Clients look for these words, and not all of them show details.
func TestDenialMessage(t *testing.T) {
	for outcome, want := range map[string]string{
		"OUTCOME_DENY_EXPLICIT": "request not authorized: policy engine denied request explicitly",
		"OUTCOME_DENY_IMPLICIT": "request not authorized: No policies evaluated to outcome: Allow",
		"OUTCOME_ERROR":         "request not authorized: No policies evaluated to outcome: Allow",
	} {
		if got := activity.DenialMessage([]fault.Evaluation{{PolicyID: "p", Outcome: "OUTCOME_ALLOW"}, {PolicyID: "q", Outcome: outcome}}); got != want {
			t.Errorf("%s: %s", outcome, got)
		}
	}
}

// The names of errors that this package gives are the interface's.
func TestErrorNames(t *testing.T) {
	known := map[string]bool{}
	for _, n := range activitytest.API.Enums["TurnkeyErrorCode"] {
		known[n] = true
	}
	for _, n := range []string{"REQUEST_INVALID", "INVALID_ORGANIZATION_ID", "INVALID_ACTIVITY_CALLER", "WALLET_ACCOUNT_NOT_EXPORTED", "INVALID_EMAIL"} {
		if !known[n] {
			t.Errorf("%s is no code of the interface", n)
		}
	}
}
