package request

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// MaxReply is the longest reply in bytes. A longer one is an error.
const MaxReply = 64 << 20

const submits = "/public/v1/submit/"

// An API is a client of the public interface, for one key of one organization. It is
// safe for concurrent use once its fields are set.
type API struct {
	URL            string // without a slash at the end
	OrganizationID string
	Key            *Key
	// AppProofs asks for the app proofs of every activity.
	AppProofs bool
	// LogProofs asks for the logged proof of every submit, whose reply then waits until witnesses have
	// cosigned the entry: see Activity.LogProof.
	LogProofs bool
	// HTTP sends the requests; nil means a client with http.DefaultTransport. Redirects are
	// never followed, so that no other server gets a stamp.
	HTTP *http.Client
	// Now is the clock for the timestamps of activities; nil means time.Now.
	Now func() time.Time

	last atomic.Int64 // timestampMs of the last activity
}

// An Error is a refusal by the interface, with its status, code and message.
type Error struct {
	Status  int    `json:"-"`    // of HTTP
	Code    int    `json:"code"` // of google.rpc.Code
	Message string `json:"message"`
	// Name is the stable error code of the interface, if it has one for this refusal.
	Name string `json:"turnkeyErrorCode"`
	// Details are the objects that the message refers to, such as the fields at fault.
	Details []json.RawMessage `json:"details"`
}

// Error is the message with the HTTP status.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("reply has status %d", e.Status)
	}
	return fmt.Sprintf("%s (status %d)", e.Message, e.Status)
}

// An Activity is an activity as the replies to a submit and to get_activity have it.
type Activity struct {
	ID             string            `json:"id"`
	OrganizationID string            `json:"organizationId"`
	Type           string            `json:"type"`
	Status         string            `json:"status"` // ACTIVITY_STATUS_…
	Fingerprint    string            `json:"fingerprint"`
	CanApprove     bool              `json:"canApprove"`
	CanReject      bool              `json:"canReject"`
	Result         json.RawMessage   `json:"result"` // one member, named after the type; see Into
	Failure        json.RawMessage   `json:"failure"`
	AppProofs      []json.RawMessage `json:"appProofs"`
	// LogProof and LogKey are the logged proof in a reply to a submit that asked for it; see attestation.LogProof.
	LogProof string          `json:"-"`
	LogKey   json.RawMessage `json:"-"`
}

// Waits reports whether the activity is not finished yet: it needs other votes or authenticators, or is being executed.
func (a *Activity) Waits() bool {
	switch a.Status {
	case "ACTIVITY_STATUS_CREATED", "ACTIVITY_STATUS_PENDING", "ACTIVITY_STATUS_CONSENSUS_NEEDED", "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED":
		return true
	}
	return false
}

// Into decodes the result of a completed activity, without the member that names its type. Any other status is an error.
func (a *Activity) Into(result any) error {
	if a.Status != "ACTIVITY_STATUS_COMPLETED" {
		return fmt.Errorf("activity %s is %s: %s", a.ID, a.Status, a.Failure)
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal(a.Result, &named); err != nil || len(named) != 1 {
		return fmt.Errorf("activity %s: result is not one", a.ID)
	}
	for name, raw := range named {
		if err := json.Unmarshal(raw, result); err != nil {
			return fmt.Errorf("activity %s: %s: %w", a.ID, name, err)
		}
	}
	return nil
}

// Query sends a query and decodes its reply into reply, unless that is nil. request is written as a JSON object,
// nil as an empty one, to which organizationId is added if it has none. A refusal is an *Error.
func (a *API) Query(ctx context.Context, operation string, request, reply any) error {
	body := []byte("{}")
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return fmt.Errorf("writing the query: %w", err)
		}
	}
	return a.ask(ctx, "/public/v1/query/"+operation, WithOrganization(body, a.OrganizationID), reply)
}

// Submit submits an activity of a type, ACTIVITY_TYPE_…. One that waits for votes is no
// error: see Activity.Waits and Wait. A refusal is an *Error.
func (a *API) Submit(ctx context.Context, typ string, parameters any) (*Activity, error) {
	body, err := a.Activity(typ, parameters)
	if err != nil {
		return nil, err
	}
	return a.activity(ctx, submits+Operation(typ), body)
}

// Wait queries an activity until it no longer waits (Activity.Waits). It calls pause before
// each query, whose error ends the waiting.
func (a *API) Wait(ctx context.Context, activity *Activity, pause func(context.Context) error) (*Activity, error) {
	for activity.Waits() {
		if err := pause(ctx); err != nil {
			return activity, err
		}
		body, err := json.Marshal(map[string]string{"organizationId": activity.OrganizationID, "activityId": activity.ID})
		if err != nil {
			return activity, fmt.Errorf("writing the query: %w", err)
		}
		next, err := a.activity(ctx, "/public/v1/query/get_activity", body)
		if err != nil {
			return activity, err
		}
		activity = next
	}
	return activity, nil
}

func (a *API) activity(ctx context.Context, path string, body []byte) (*Activity, error) {
	var reply struct {
		Activity *Activity       `json:"activity"`
		LogProof string          `json:"logProof"`
		LogKey   json.RawMessage `json:"logKey"`
	}
	if err := a.ask(ctx, path, body, &reply); err != nil {
		return nil, err
	}
	if reply.Activity == nil {
		return nil, errors.New("reply holds no activity")
	}
	reply.Activity.LogProof, reply.Activity.LogKey = reply.LogProof, reply.LogKey
	return reply.Activity, nil
}

// Activity returns the JSON body of a submit. No two bodies have the same timestamp, so each makes an
// activity of its own; the same body sent again makes none.
func (a *API) Activity(typ string, parameters any) ([]byte, error) {
	now := time.Now
	if a.Now != nil {
		now = a.Now
	}
	at := now().UnixMilli()
	for last := a.last.Load(); ; last = a.last.Load() {
		at = max(at, last+1)
		if a.last.CompareAndSwap(last, at) {
			break
		}
	}
	body, err := json.Marshal(struct {
		Type         string `json:"type"`
		TimestampMs  string `json:"timestampMs"`
		Organization string `json:"organizationId"`
		Parameters   any    `json:"parameters"`
		AppProofs    bool   `json:"generateAppProofs,omitempty"`
	}{typ, strconv.FormatInt(at, 10), a.OrganizationID, parameters, a.AppProofs})
	if err != nil {
		return nil, fmt.Errorf("writing the activity: %w", err)
	}
	return body, nil
}

var version = regexp.MustCompile(`_v[0-9]+$`)

// Operation is the last part of the path to which activities of a type are submitted.
func Operation(typ string) string {
	op := version.ReplaceAllString(strings.ToLower(strings.TrimPrefix(typ, "ACTIVITY_TYPE_")), "")
	if op == "update_tvc_app_live_deployment" { // the only exception
		return "set_tvc_app_live_deployment"
	}
	return op
}

func (a *API) ask(ctx context.Context, path string, body []byte, reply any) error {
	status, raw, err := a.Post(ctx, path, body)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		refusal := &Error{Status: status}
		if json.Unmarshal(raw, refusal) != nil { // it is not a reply of the interface
			refusal = &Error{Status: status}
		}
		return fmt.Errorf("%s: %w", path, refusal)
	}
	if reply == nil {
		return nil
	}
	if err := json.Unmarshal(raw, reply); err != nil {
		return fmt.Errorf("%s: reading the reply: %w", path, err)
	}
	return nil
}

// HeaderLogProof is the request header that asks for a logged proof, with the value wait.
const HeaderLogProof = "X-Cloister-Log-Proof"

// Post stamps exactly these bytes, sends them to a path and returns status and body of the reply.
// An HTTP error status is no error here, but a redirect is.
func (a *API) Post(ctx context.Context, path string, body []byte) (status int, reply []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if a.LogProofs && strings.HasPrefix(path, submits) {
		r.Header.Set(HeaderLogProof, "wait")
	}
	if err := a.Key.Set(r.Header, body); err != nil {
		return 0, nil, err
	}
	via := http.Client{}
	if a.HTTP != nil {
		via = *a.HTTP
	}
	via.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := via.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if reply, err = io.ReadAll(io.LimitReader(resp.Body, MaxReply+1)); err != nil {
		return 0, nil, fmt.Errorf("reading the reply: %w", err)
	}
	switch {
	case len(reply) > MaxReply:
		return 0, nil, fmt.Errorf("reply is longer than %d bytes", MaxReply)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return 0, nil, fmt.Errorf("reply has status %d: is this Cloister?", resp.StatusCode)
	}
	return resp.StatusCode, reply, nil
}

// WithOrganization puts organizationId in front of a JSON object's members, unless it has
// one. Other text is returned as it is, for the enclave to refuse.
func WithOrganization(body []byte, id string) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return body
	}
	if members["organizationId"] != nil || members["organization_id"] != nil {
		return body
	}
	inner := bytes.TrimSpace(bytes.TrimSpace(body)[1:])
	head := fmt.Appendf(nil, `{"organizationId":%q`, id)
	if len(members) > 0 {
		head = append(head, ',')
	}
	return append(head, inner...)
}
