package activity

import (
	"bytes"
	"strconv"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

const typePrefix = `{"@type":"type.googleapis.com/`

// AppendError writes the body of an error answer.
func AppendError(dst []byte, e *fault.Error) []byte { return AppendRefusal(dst, e, org.ID{}, "") }

// AppendRefusal is AppendError for a stored activity, with its id and fingerprint. The fingerprint is `sha256:` and hex.
func AppendRefusal(dst []byte, e *fault.Error, activity org.ID, fingerprint string) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendUint(dst, uint64(e.Code), 10)
	dst = AppendText(dst, `,"message":`, e.Message)
	dst = append(dst, `,"details":[`...)
	open := len(dst)
	next := func() {
		if len(dst) > open {
			dst = append(dst, ',')
		}
		dst = append(dst, typePrefix...)
	}
	if e.Name != "" {
		next()
		dst = AppendText(dst, `errors.v1.TurnkeyErrorDetail","turnkeyErrorCode":`, e.Name)
		dst = append(dst, '}')
	}
	if len(e.Violations) > 0 {
		next()
		dst = AppendList(dst, `google.rpc.BadRequest","fieldViolations":`, e.Violations, appendViolation)
		dst = append(dst, '}')
	}
	if e.Denied {
		next()
		dst = appendDenial(append(dst, permissionError...), e)
	}
	if !activity.Zero() {
		next()
		dst = AppendID(dst, `cloister.v1.RefusedActivity","activityId":`, activity)
		dst = AppendText(dst, `,"fingerprint":`, fingerprint)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if e.Name != "" {
		dst = AppendText(dst, `,"turnkeyErrorCode":`, e.Name)
	}
	return append(dst, '}')
}

func appendViolation(dst []byte, v *fault.Violation) []byte {
	dst = AppendText(dst, `{"field":`, v.Field)
	dst = AppendText(dst, `,"description":`, v.Description)
	return append(dst, '}')
}

// permissionError is the type of the detail that tells by which policies.
const permissionError = `errors.v1.PolicyEnginePermissionError",`

// noneAllowed is the text of a denial that no policy allowed. Clients compare it, in the detail and in the message.
const noneAllowed = "No policies evaluated to outcome: Allow"

// DenialMessage is the message of a denial by policies, without its details. Some clients do not show details, and some
// search the message for the text after the colon.
func DenialMessage(es []fault.Evaluation) string {
	if deniers(es) != nil {
		return "request not authorized: policy engine denied request explicitly"
	}
	return "request not authorized: " + noneAllowed
}

func deniers(es []fault.Evaluation) (ids []string) {
	for _, e := range es {
		if strings.HasPrefix(e.Outcome, "OUTCOME_DENY_EXPLICIT") {
			ids = append(ids, e.PolicyID)
		}
	}
	return ids
}

// appendDenial appends the outcomes of the policies that denied; without them what the message says after the colon, such as
// noneAllowed.
func appendDenial(dst []byte, e *fault.Error) []byte {
	text := noneAllowed
	if _, said, ok := strings.Cut(e.Message, ": "); ok {
		text = said
	}
	if deniers := deniers(e.Evaluations); deniers != nil {
		text = "The following policies denied this action: " + strings.Join(deniers, ", ")
	}
	dst = AppendText(dst, `"message":`, text)
	return append(AppendList(dst, `,"policyEvaluations":`, e.Evaluations, appendEvaluation), '}')
}

// appendEvaluation appends the outcome of a policy, with its explanation.
func appendEvaluation(dst []byte, e *fault.Evaluation) []byte {
	dst = AppendText(dst, `{"policyId":`, e.PolicyID)
	dst = AppendText(dst, `,"outcome":`, e.Outcome)
	if e.Name != "" {
		dst = AppendText(dst, `,"policyName":`, e.Name)
	}
	if e.Clause != "" {
		dst = AppendText(dst, `,"clause":`, e.Clause)
		dst = strconv.AppendInt(append(dst, `,"position":`...), e.Position, 10)
		if e.Expression != "" {
			dst = AppendText(dst, `,"expression":`, e.Expression)
		}
		dst = append(dst, `,"values":[`...)
		for i := 0; i+1 < len(e.Values); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendText(dst, `{"expression":`, e.Values[i])
			dst = AppendText(dst, `,"value":`, e.Values[i+1])
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// TellsExpression reports whether an encoded refusal contains the expression that decided in a policy.
func TellsExpression(refusal []byte) bool { return bytes.Contains(refusal, []byte(`,"expression":"`)) }

// NamesPolicies reports whether an encoded refusal contains policies.
func NamesPolicies(refusal []byte) bool {
	return bytes.Contains(refusal, []byte(`,"policyEvaluations":[{`))
}

// WithoutPolicies is an encoded refusal without its policies, for those who may not read them.
func WithoutPolicies(refusal []byte) ([]byte, error) {
	var r struct {
		Code    uint32           `json:"code"`
		Message string           `json:"message"`
		Details []strictjson.Raw `json:"details"`
		Name    string           `json:"turnkeyErrorCode"`
	}
	if err := strictjson.Decode(refusal, &r, strictjson.AllowUnknown()); err != nil {
		return nil, err
	}
	for i, d := range r.Details {
		if members, _ := d.Object(); members["policyEvaluations"] != nil {
			r.Details[i] = appendDenial([]byte(typePrefix+permissionError), &fault.Error{Message: r.Message})
		}
	}
	return strictjson.Append(nil, &r), nil
}

// PolicyEvaluations converts the policy outcomes of a decision to the form of refusals.
func PolicyEvaluations(ps []org.PolicyOutcome) []fault.Evaluation {
	return MapList(ps, func(p *org.PolicyOutcome) fault.Evaluation {
		return fault.Evaluation{PolicyID: p.Policy.String(), Outcome: p.Outcome, Name: p.Name, Clause: p.Clause, Position: p.Position, Values: p.Values}
	})
}

// AppendEvaluations appends the array of policy outcomes.
func AppendEvaluations(dst []byte, ps []org.PolicyOutcome) []byte {
	return AppendList(dst, "", PolicyEvaluations(ps), appendEvaluation)
}

// appendFailure writes an activity's failure: an error body without the top-level machine code.
func appendFailure(dst, body []byte) []byte {
	if len(body) == 0 {
		return append(dst, "null"...)
	}
	var b struct {
		Code    int32            `json:"code"`
		Message string           `json:"message"`
		Details []strictjson.Raw `json:"details"`
		Name    *string          `json:"turnkeyErrorCode"`
	}
	if err := strictjson.Decode(body, &b); err != nil {
		return append(dst, `{"code":13,"message":"internal server error","details":[]}`...)
	}
	b.Name = nil
	return strictjson.Append(dst, &b)
}

// wordings are the documented messages for fields that break their rules: when absent, and when present. An
// empty one stands for the general message.
var wordings = map[string][2]string{
	"curve":             {"curve required", "invalid curve"},
	"curveType":         {"curve required", "invalid curve"},
	"pathFormat":        {"", "invalid path format"},
	"path":              {"", "invalid path"},
	"addressFormat":     {"", "invalid address format"},
	"addressFormats":    {"", "invalid address format"},
	"encoding":          {"", "invalid payload encoding"},
	"hashFunction":      {"", "invalid hash function"},
	"expirationSeconds": {"", "invalid api key expiration"},
	"userEmail":         {"", "invalid email address"},
	"receiverUserEmail": {"", "invalid email address"},
	"rootEmail":         {"", "invalid email address"},
	"walletName":        {"missing wallet params", ""},
	// OAuth 2.0.
	"provider":           {"invalid OAuth 2.0 provider", "invalid OAuth 2.0 provider"},
	"authCode":           {"auth_code must be set", ""},
	"codeVerifier":       {"code_verifier must be set", ""},
	"redirectUri":        {"redirect_uri must be set", ""},
	"clientId":           {"client_id must be set", ""},
	"oauth2CredentialId": {"oauth2_credential_id must be set", ""},
}

// PublicWording replaces the message of a strictjson error by the documented one, if there is one.
func PublicWording(err error) error {
	e := fault.Of(err)
	if e == nil || len(e.Violations) != 1 {
		return err
	}
	v := e.Violations[0]
	steps := strings.Split(v.Field, ".")
	leaf := steps[len(steps)-1]
	if _, err := strconv.Atoi(leaf); err == nil && len(steps) > 1 {
		leaf = steps[len(steps)-2]
	}
	words, ok := wordings[leaf]
	if !ok || strings.HasPrefix(v.Description, "unknown field") || strings.HasPrefix(v.Description, "repeated field") {
		return err
	}
	word := words[1]
	if strings.HasPrefix(v.Description, "missing field") {
		word = words[0]
	}
	if word == "" {
		return err
	}
	named := *e
	named.Message = word
	switch {
	case word == "invalid email address":
		named.Name = "INVALID_EMAIL"
	case leaf == "provider":
		named.Name = "INVALID_OAUTH2_PROVIDER"
	}
	return &named
}

// NotFound is the error of a name that does not exist. It contains only a short, printable part of the name.
func NotFound(what, name string) *fault.Error {
	return fault.New(fault.NotFound, "%s not found: %s", what, Printable(name))
}

// OrNotFound returns the result of a look-up, and the error NotFound if the result is nil.
func OrNotFound[T any](r *T, err error, what, name string) (*T, error) {
	if err == nil && r == nil {
		err = NotFound(what, name)
	}
	return r, err
}

const maxShown = 128

// Printable makes text of a request printable and short, for a message.
func Printable(text string) string {
	if len(text) > maxShown {
		text = text[:maxShown]
	}
	q := strconv.QuoteToASCII(text)
	return q[1 : len(q)-1]
}

// NotUnique is the error of a name that is in use already.
func NotUnique(what, field string) *fault.Error {
	return fault.Field(field, "%s label must be unique", what)
}

// Unimplemented is the error of an option that this release does not support.
func Unimplemented(op, what string) *fault.Error {
	return fault.New(fault.Unimplemented, "UNIMPLEMENTED: %s with %s", op, what)
}

// OverQuota is the error of exceeding a limit.
func OverQuota(limit int, what string) *fault.Error {
	return fault.New(fault.ResourceExhausted, "organization over quota: at most %d %s", limit, what)
}

// WrongCaller is the error of an activity that this organization or user may not submit.
func WrongCaller(why string) *fault.Error {
	return fault.WithCode(fault.InvalidArgument, "INVALID_ACTIVITY_CALLER", "%s", why)
}
