// Package client is a client of the public interface for tests and simulations: it makes the bodies of activities, stamps them, sends
// them over a link, to an enclave or over HTTP, and reads replies by path. An application's client is attestation/request.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"cloister/attestation/request"
	"cloister/shared/wire"
	"cloister/sim/authenticator"
	"cloister/sim/laptop"
)

// Object is a JSON object.
type Object = map[string]any

// A KeyPair is an API key of P-256.
type KeyPair = laptop.KeyPair

// A Request is one stamped request.
type Request struct {
	Endpoint wire.Endpoint
	Op       string
	Head     []wire.Header
	Body     []byte
}

// Call is the request as a host sends it to an enclave, waiting as long as the interface allows.
func (q *Request) Call() *wire.Call {
	return &wire.Call{Endpoint: q.Endpoint, Op: q.Op, Head: q.Head, Body: q.Body, WithinMs: uint32(wire.MaxWait.Milliseconds())}
}

// A Sender sends a request to a deployment. With an error nothing is known of what became of it.
type Sender func(ctx context.Context, q *Request) (Reply, error)

// Link sends by a host's link.
func Link(l interface {
	Call(context.Context, *wire.Call) (*wire.Reply, error)
}) Sender {
	return func(ctx context.Context, q *Request) (Reply, error) {
		r, err := l.Call(ctx, q.Call())
		if err != nil {
			return Reply{}, fmt.Errorf("%s: %w", q.Op, err)
		}
		return Reply{Status: int(r.Status), Body: r.Body}, nil
	}
}

// paths are where operations of an endpoint are served.
var paths = map[wire.Endpoint]string{wire.EndpointSubmit: "/public/v1/submit/", wire.EndpointQuery: "/public/v1/query/", wire.EndpointProxy: "/v1/"}

// HTTP sends to the public interface, or the auth proxy, at a URL without a slash at the end.
func HTTP(c *http.Client, url string) Sender {
	return func(ctx context.Context, q *Request) (Reply, error) {
		path, ok := paths[q.Endpoint]
		if !ok {
			return Reply{}, fmt.Errorf("%s: not served over HTTP", q.Op)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path+q.Op, bytes.NewReader(q.Body))
		if err != nil {
			return Reply{}, err
		}
		for _, h := range q.Head {
			req.Header.Add(h.Name, h.Value)
		}
		r, err := c.Do(req)
		if err != nil {
			return Reply{}, err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return Reply{Status: r.StatusCode, Body: b}, err
	}
}

// Again sends a request again after a pause while there is no reply, or one that says try again (503), until ctx ends.
func (s Sender) Again(pause time.Duration) Sender {
	return func(ctx context.Context, q *Request) (r Reply, err error) {
		for {
			if r, err = s(ctx, q); err == nil && r.Status != http.StatusServiceUnavailable {
				return r, nil
			}
			select {
			case <-ctx.Done():
				return r, err
			case <-time.After(pause):
			}
		}
	}
}

// A Stamp is what proves to an enclave who sends a body.
type Stamp func(body []byte) ([]wire.Header, error)

// ByKey stamps with an API key.
func ByKey(k KeyPair) Stamp {
	return func(body []byte) ([]wire.Header, error) { return laptop.Stamp(k, body) }
}

// ByPasskey stamps with a passkey.
func ByPasskey(a *authenticator.Authenticator) Stamp {
	return func(body []byte) ([]wire.Header, error) {
		v, err := a.Stamp(body)
		return []wire.Header{{Name: "X-Stamp-WebAuthn", Value: v}}, err
	}
}

// Times are timestamps of bodies, each another one, so that no two bodies are one activity.
type Times struct {
	Now  func() time.Time // nil: time.Now
	last atomic.Int64
}

// Next is the time in ms, or the first one after it that was not given out yet.
func (t *Times) Next() int64 {
	clock := t.Now
	if clock == nil {
		clock = time.Now
	}
	for {
		now, last := clock().UnixMilli(), t.last.Load()
		now = max(now, last+1)
		if t.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// A Client is one user of an organization. Activities are named without ACTIVITY_TYPE_.
type Client struct {
	Send         Sender
	Times        *Times
	Organization string
	User         string  // id; empty if it does not matter
	Key          KeyPair // what it stamps with
	Stamp        Stamp   // instead of Key
	// Proofs asks for the app proofs of every activity.
	Proofs bool
}

// Body is the body of an activity.
func (c *Client) Body(typ string, parameters any) []byte {
	o := Object{"type": "ACTIVITY_TYPE_" + typ, "timestampMs": strconv.FormatInt(c.Times.Next(), 10), "organizationId": c.Organization, "parameters": parameters}
	if c.Proofs {
		o["generateAppProofs"] = true
	}
	return encode(o)
}

// Ask is the body of a query: the request with the organization's id, unless it has one.
func (c *Client) Ask(request Object) []byte {
	o := Object{"organizationId": c.Organization}
	maps.Copy(o, request)
	return encode(o)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of a test's own making
	}
	return b
}

// Request stamps a body.
func (c *Client) Request(endpoint wire.Endpoint, op string, body []byte) (*Request, error) {
	stamp := c.Stamp
	if stamp == nil {
		stamp = ByKey(c.Key)
	}
	head, err := stamp(body)
	return &Request{endpoint, op, head, body}, err
}

// Activity is a stamped submit of an activity.
func (c *Client) Activity(typ string, parameters any) (*Request, error) {
	return c.Request(wire.EndpointSubmit, request.Operation(typ), c.Body(typ, parameters))
}

// Post stamps exactly this body and sends it.
func (c *Client) Post(ctx context.Context, endpoint wire.Endpoint, op string, body []byte) (Reply, error) {
	q, err := c.Request(endpoint, op, body)
	if err != nil {
		return Reply{}, err
	}
	return c.Send(ctx, q)
}

// Submit submits an activity.
func (c *Client) Submit(ctx context.Context, typ string, parameters any) (Reply, error) {
	return c.Post(ctx, wire.EndpointSubmit, request.Operation(typ), c.Body(typ, parameters))
}

// Query sends a query.
func (c *Client) Query(ctx context.Context, op string, request Object) (Reply, error) {
	return c.Post(ctx, wire.EndpointQuery, op, c.Ask(request))
}

// Do submits an activity that must be completed, and returns its result, which must be there.
func (c *Client) Do(ctx context.Context, typ string, parameters any) (Object, error) {
	r, err := c.Submit(ctx, typ, parameters)
	if err != nil {
		return nil, err
	}
	result := r.Result()
	if !r.Completed() || result == nil {
		return nil, fmt.Errorf("%s: %v", typ, r)
	}
	return result, nil
}

// NewUser makes a user of the organization with a key of its own.
func (c *Client) NewUser(ctx context.Context, name string) (*Client, error) {
	k := NewKey()
	made, err := c.Do(ctx, "CREATE_USERS_V4", Users(NewUser(name, k)))
	return c.As(c.Organization, Text(made, "userIds", "0"), k), err
}

// NewSubOrganization makes a sub-organization, and returns its one root user.
func (c *Client) NewSubOrganization(ctx context.Context, name string) (*Client, error) {
	k := NewKey()
	made, err := c.Do(ctx, "CREATE_SUB_ORGANIZATION_V8", SubOrganization(name, NewRootUser("Root", k)))
	return c.As(Text(made, "subOrganizationId"), Text(made, "rootUserIds", "0"), k), err
}

// NewKey makes one more API key of the user, and returns the user with it. A key without a name is called after itself.
func (c *Client) NewKey(ctx context.Context, name string) (*Client, error) {
	k := NewKey()
	if name == "" {
		name = "Key " + k.PublicKey[2:10]
	}
	_, err := c.Do(ctx, "CREATE_API_KEYS_V2", Object{"userId": c.User, "apiKeys": []any{APIKey(name, k)}})
	return c.As(c.Organization, c.User, k), err
}

// As is a client of the same deployment for another user.
func (c *Client) As(organization, user string, key KeyPair) *Client {
	return &Client{Send: c.Send, Times: c.Times, Organization: organization, User: user, Key: key}
}

// A Reply is what came back for a request.
type Reply struct {
	Status int
	Body   []byte
}

func (r Reply) String() string { return fmt.Sprintf("%d %s", r.Status, r.Body) }

// JSON is the body as an object; nil if it is none.
func (r Reply) JSON() (o Object) {
	if json.Unmarshal(r.Body, &o) != nil {
		return nil
	}
	return o
}

// Get follows keys into the body.
func (r Reply) Get(keys ...string) any { return Get(r.JSON(), keys...) }

// Text is Get of a string.
func (r Reply) Text(keys ...string) string { return Text(r.JSON(), keys...) }

// State is the status of the activity, without ACTIVITY_STATUS_.
func (r Reply) State() string {
	return strings.TrimPrefix(r.Text("activity", "status"), "ACTIVITY_STATUS_")
}

// Completed reports that the activity was completed.
func (r Reply) Completed() bool { return r.Status == http.StatusOK && r.State() == "COMPLETED" }

// Result is the result of the activity, the one member that is named after its type; nil if there is none.
func (r Reply) Result() Object {
	all, _ := r.Get("activity", "result").(Object)
	if len(all) != 1 {
		return nil
	}
	for _, one := range all {
		o, _ := one.(Object)
		return o
	}
	return nil
}

// Get follows keys into a JSON value: names of members and, in arrays, numbers.
func Get(v any, keys ...string) any {
	for _, k := range keys {
		switch x := v.(type) {
		case Object:
			v = x[k]
		case []any:
			i, err := strconv.Atoi(k)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// Text is Get of a string.
func Text(v any, keys ...string) string { return fmt.Sprint(Get(v, keys...)) }
