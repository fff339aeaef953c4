package core

import (
	"crypto/sha256"
	"slices"
	"strings"

	"cloister/attestation"
	"cloister/enclave/internal/fault"
	"cloister/shared/wire"
)

// endpointNames are the names of the endpoints in a signed reply.
var endpointNames = map[wire.Endpoint]string{
	wire.EndpointSubmit: attestation.EndpointSubmit,
	wire.EndpointQuery:  attestation.EndpointQuery,
	wire.EndpointProxy:  attestation.EndpointProxy,
	wire.EndpointBoot:   attestation.EndpointBoot,
}

var errNonce = fault.New(fault.InvalidArgument, attestation.HeaderSignReply+" wants 1 to 64 characters of A-Z a-z 0-9 - _, once")

// parseSignReply removes the header that requests a signed reply from a call; nil: there is none.
func (c *Core) parseSignReply(call *wire.Call) (*wire.Call, *attestation.SignedReply, error) {
	asks := func(h wire.Header) bool { return strings.EqualFold(h.Name, attestation.HeaderSignReply) }
	at := slices.IndexFunc(call.Head, asks)
	if at < 0 {
		return call, nil, nil
	}
	inner := *call
	inner.Head = slices.DeleteFunc(slices.Clone(call.Head), asks)
	nonce := call.Head[at].Value
	if len(inner.Head) != len(call.Head)-1 || !attestation.IsReplyNonce(nonce) {
		return &inner, nil, errNonce
	}
	endpoint := endpointNames[call.Endpoint]
	credentials, err := attestation.HashCredentials(endpoint, func(name string) (values []string) {
		for _, h := range inner.Head {
			if strings.EqualFold(h.Name, name) {
				values = append(values, h.Value)
			}
		}
		return values
	})
	if err != nil {
		return &inner, nil, fault.New(fault.InvalidArgument, "%v", err)
	}
	return &inner, &attestation.SignedReply{Endpoint: endpoint, Operation: call.Op, Credentials: credentials, Nonce: nonce}, nil
}

// sign signs a reply that is ready to leave with the live key; t holds the signed members of
// its request. Callers that require a signature treat an unsigned reply as a failure: of an enclave that does not
// serve, or that redirects the host to another one.
func (c *Core) sign(t *attestation.SignedReply, reply *wire.Reply) {
	if t == nil || reply.Moved != 0 || c.life.State() != wire.StateServing {
		return
	}
	live := c.serving.Live
	t.Deployment, t.LiveKey, t.Request = c.serving.Deployment, live.PublicHex, reply.Request
	t.Status, t.Reply, t.TimeMs = int(reply.Status), sha256.Sum256(reply.Body), c.now()
	text, err := t.Text()
	if err != nil {
		return
	}
	if signature, err := live.Sign(text); err == nil {
		reply.Signed = &wire.Signed{Deployment: t.Deployment, LiveKey: live.Public, TimeMs: t.TimeMs, Signature: signature}
	}
}
