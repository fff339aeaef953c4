package client

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"cloister/attestation/request"
	"cloister/shared/wire"
)

// patience bounds one request. It ends a test that hangs; nothing is measured by it.
const patience = 5 * time.Minute

// A User is a Client in a test, which a request without a reply fails.
type User struct {
	*Client
	Test testing.TB
}

// In is the client in a test.
func (c *Client) In(t testing.TB) *User { return &User{c, t} }

// As is another user of the same deployment.
func (u *User) As(organization, user string, key KeyPair) *User {
	return &User{u.Client.As(organization, user, key), u.Test}
}

// Post stamps exactly this body and sends it. The reply must be JSON.
func (u *User) Post(endpoint wire.Endpoint, op string, body []byte) Reply {
	u.Test.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := u.Client.Post(ctx, endpoint, op, body)
	if err == nil && !json.Valid(r.Body) {
		err = fmt.Errorf("%s: the reply is no JSON: %v", op, r)
	}
	if err != nil {
		u.Test.Fatal(err)
	}
	return r
}

// Submit submits an activity.
func (u *User) Submit(typ string, parameters any) Reply {
	u.Test.Helper()
	return u.Post(wire.EndpointSubmit, request.Operation(typ), u.Body(typ, parameters))
}

// Query sends a query.
func (u *User) Query(op string, request Object) Reply {
	u.Test.Helper()
	return u.Post(wire.EndpointQuery, op, u.Ask(request))
}

// Do submits an activity, which must be completed with a result, and returns that.
func (u *User) Do(typ string, parameters any) Object {
	u.Test.Helper()
	r := u.Submit(typ, parameters)
	result := r.Result()
	if !r.Completed() || result == nil {
		u.Test.Fatalf("%s: %v", typ, r)
	}
	return result
}

// Read sends a query, which must be answered, and returns the reply.
func (u *User) Read(op string, request Object) Object {
	u.Test.Helper()
	r := u.Query(op, request)
	if r.Status != 200 {
		u.Test.Fatalf("%s: %v", op, r)
	}
	return r.JSON()
}

// NewUser makes a user of the organization with a key of its own.
func (u *User) NewUser(name string) *User { return u.made(u.Client.NewUser, name) }

// NewSubOrganization makes a sub-organization, and returns its one root user.
func (u *User) NewSubOrganization(name string) *User {
	return u.made(u.Client.NewSubOrganization, name)
}

// NewKey makes one more API key of the user, and returns the user with it.
func (u *User) NewKey() *User { return u.made(u.Client.NewKey, "") }

func (u *User) made(by func(context.Context, string) (*Client, error), name string) *User {
	u.Test.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := by(ctx, name)
	if err != nil {
		u.Test.Fatal(err)
	}
	return c.In(u.Test)
}

// Login starts a session of the user, and returns the user with the session's key, and the session's token.
func (u *User) Login() (session *User, token string) {
	u.Test.Helper()
	k := NewKey()
	token = Text(u.Do("STAMP_LOGIN", Object{"publicKey": k.PublicKey}), "session")
	return u.As(u.Organization, u.User, k), token
}
