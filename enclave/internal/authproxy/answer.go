package authproxy

import (
	"errors"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// outcome is what an activity that has been completed came to.
type outcome struct {
	result map[string]strictjson.Raw // the one object in its result
	proofs strictjson.Raw            // an array, nil for none
}

// errAnswer is about an answer of our own that cannot be read: an internal error.
var errAnswer = errors.New("an activity's answer has another form")

// replyLimits bound the reading of our own answers.
var replyLimits = strictjson.Limits{Depth: 64, Items: 10_000, Members: 1000, Values: 100_000}

// Cut makes the endpoint's answer of the public interface's, {"activity":…}. An
// activity that is not completed waits for the consent of others, whose refusal is
// told. Errors that are no *fault.Error are internal.
func (r *Request) Cut(reply []byte) ([]byte, error) {
	var outer struct {
		Activity map[string]strictjson.Raw `json:"activity"`
	}
	if err := strictjson.Decode(reply, &outer, strictjson.Within(replyLimits)); err != nil {
		return nil, errAnswer
	}
	if status := string(outer.Activity["status"]); status != `"ACTIVITY_STATUS_COMPLETED"` {
		return nil, fault.WithCode(fault.PermissionDenied, "REQUEST_NOT_AUTHORIZED", "the organization's policies let the auth proxy do this only with the consent of others: activityId=%s",
			strings.Trim(string(outer.Activity["id"]), `"`))
	}
	var result map[string]map[string]strictjson.Raw
	if err := strictjson.Decode(outer.Activity["result"], &result, strictjson.Within(replyLimits)); err != nil || len(result) != 1 {
		return nil, errAnswer
	}
	o := &outcome{proofs: outer.Activity["appProofs"]}
	for _, o.result = range result {
	}
	b := r.cut(o)
	if b == nil {
		return nil, errAnswer
	}
	return b, nil
}

// members answers with members of the result, all of which must be there.
func members(names ...string) func(*outcome) []byte {
	return func(o *outcome) []byte {
		b := []byte{'{'}
		for i, name := range names {
			if o.result[name] == nil {
				return nil
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(strictjson.AppendString(b, name), ':'), o.result[name]...)
		}
		return append(b, '}')
	}
}

// cutSignup tells of the new organization.
func cutSignup(o *outcome) []byte {
	var users []string
	if strictjson.Decode(o.result["rootUserIds"], &users) != nil || len(users) != 1 || o.result["subOrganizationId"] == nil {
		return nil
	}
	b := append([]byte(`{"organizationId":`), o.result["subOrganizationId"]...)
	b = strictjson.AppendString(append(b, `,"userId":`...), users[0])
	if w := o.result["wallet"]; w != nil {
		b = append(append(b, `,"wallet":`...), w...)
	}
	if o.proofs != nil {
		b = append(append(b, `,"appProofs":`...), o.proofs...)
	}
	return append(b, '}')
}

// rootUser is where the one user of a sign-up stands in the activity's parameters.
const rootUser = "rootUsers.0."

// TranslateError makes the error of an activity that was refused before there was one the
// endpoint's: its fields are called as the caller called them.
func (r *Request) TranslateError(err error) error {
	f := fault.Of(err)
	if f == nil || len(f.Violations) == 0 {
		return err
	}
	told := *f
	told.Violations = make([]fault.Violation, len(f.Violations))
	for i, v := range f.Violations {
		told.Violations[i] = fault.Violation{Field: strings.TrimPrefix(v.Field, rootUser), Description: v.Description}
	}
	return &told
}
