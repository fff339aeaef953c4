package link

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"cloister/shared/wire"
)

// AskOnce calls one operation of an enclave's boot endpoint, over a new connection, and returns the reply's
// body; a refusal is an error with the enclave's words. The enclave has until ctx's deadline, at most wire.MaxWait.
// It is for commands; a running host uses a Link.
func AskOnce(ctx context.Context, address, op string, body []byte, now func() time.Time) ([]byte, error) {
	nc, err := Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("no enclave at %s: %w", address, err)
	}
	if err := wire.WriteHello(nc, wire.Hello{Role: wire.RoleCalls}, now().Add(dialTimeout)); err != nil {
		_ = nc.Close()
		return nil, err
	}
	conn := wire.NewConn(nc, wire.Options{Role: wire.RoleCalls, Side: wire.SideHost, Now: now, FrameTimeout: frameTimeout, WriteTimeout: writeTimeout})
	defer conn.Close()
	call := &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: body}
	if until, ok := ctx.Deadline(); ok {
		call.WithinMs = uint32(max(min(until.Sub(now()), wire.MaxWait), time.Millisecond).Milliseconds())
	}
	question, err := wire.Marshal(call)
	if err != nil {
		return nil, err
	}
	kind, answer, err := conn.Ask(ctx, wire.KindCall, question)
	if err != nil {
		return nil, err
	}
	var reply wire.Reply
	if kind != wire.KindReply || wire.Unmarshal(answer, &reply) != nil || reply.Request != sha256.Sum256(body) {
		return nil, ErrWrongReply
	}
	if reply.Status != 200 {
		return nil, fmt.Errorf("the enclave refuses: %s", reply.Body)
	}
	return reply.Body, nil
}
