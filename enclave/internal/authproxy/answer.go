package authproxy

import (
	"errors"
	"slices"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// outcome is the outcome of a completed activity.
type outcome struct {
	result map[string]strictjson.Raw // the one object in its result
	proofs strictjson.Raw            // an array, nil for none
}

// errAnswer says that an answer of our own cannot be read: an internal error.
var errAnswer = errors.New("an activity's answer has another form")

// replyLimits bound the reading of our own answers.
var replyLimits = strictjson.Limits{Depth: 64, Items: 10_000, Members: 1000, Values: 100_000}

// Cut makes the endpoint's answer of the public interface's, {"activity":…}. An activity that
// is not completed waits for the consent of others, and is refused here. Errors that are no
// *fault.Error are internal.
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

// members answers with these members of the result. All of them must be there.
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

// cutSignup answers with the new organization.
func cutSignup(o *outcome) []byte {
	var users []string
	if strictjson.Decode(o.result["rootUserIds"], &users) != nil || len(users) != 1 || o.result["subOrganizationId"] == nil {
		return nil
	}
	return strictjson.Append(nil, &struct {
		OrganizationID strictjson.Raw `json:"organizationId"`
		UserID         string         `json:"userId"`
		Wallet         strictjson.Raw `json:"wallet"`
		AppProofs      strictjson.Raw `json:"appProofs"`
	}{o.result["subOrganizationId"], users[0], o.result["wallet"], o.proofs})
}

// TranslateError makes an activity's error the endpoint's: fields of the one root user of a
// sign-up get the names that the caller gave them.
func (r *Request) TranslateError(err error) error {
	f := fault.Of(err)
	if f == nil || len(f.Violations) == 0 {
		return err
	}
	told := *f
	told.Violations = slices.Clone(f.Violations)
	for i, v := range f.Violations {
		told.Violations[i].Field = strings.TrimPrefix(v.Field, "rootUsers.0.")
	}
	return &told
}
