// Package egress is the host's client for the outside: it queries nodes of chains, sends the
// transactions, messages and webhooks in the outbox, and opens the enclave's outgoing connections.
//
// A node is a JSON-RPC endpoint that the operator configures. The enclave treats its answers as
// hints: a wrong node can delay a transaction, make it fail or report a wrong state of it.
package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/shared/wire"
)

// Nodes are the URLs of nodes by the CAIP-2 name of their chain. As text they are pairs NAME=URL,
// separated by white space.
type Nodes map[string]string

// aliases are short names of Solana's networks. The CAIP-2 name has the first 32 characters of the
// network's genesis hash.
var aliases = map[string]string{
	"solana:mainnet": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
	"solana:devnet":  "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
}

const solanaName = len("solana:") + 32

// canonical is the CAIP-2 name of a chain, given that name or an alias.
func canonical(name string) string {
	if long, ok := aliases[name]; ok {
		return long
	}
	if strings.HasPrefix(name, "solana:") && len(name) > solanaName {
		return name[:solanaName]
	}
	return name
}

// ParseNodes parses the text of Nodes. Errors do not repeat a URL, which may hold a password.
func ParseNodes(text string) (Nodes, error) {
	nodes := Nodes{}
	for _, pair := range strings.Fields(text) {
		name, address, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, errors.New("want NAME=URL, such as eip155:1=https://node.example")
		}
		name = canonical(name)
		if len(name) > wire.MaxChainName || !isKnownChain(name) {
			return nil, fmt.Errorf("%q: want eip155:NUMBER or solana:NETWORK", name)
		}
		if _, twice := nodes[name]; twice {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("%s: want an address that begins with http:// or https://", name)
		}
		nodes[name] = address
	}
	return nodes, nil
}

// isKnownChain reports whether a Chains supports a chain.
func isKnownChain(name string) bool {
	_, ok := chainID(name)
	return ok || strings.HasPrefix(name, "solana:") && len(name) == solanaName
}

// chainID is the number in the CAIP-2 name of an EVM chain.
func chainID(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "eip155:")
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, ok && err == nil && strconv.FormatUint(n, 10) == digits
}

// Time limits of one request to a node. The enclave waits little longer than MaxTimeout.
const (
	DefaultTimeout = 5 * time.Second
	MaxTimeout     = 9 * time.Second
)

// maxAsked bounds the enclave's requests about one chain in flight.
const maxAsked = 64

// A Chains handles the enclave's requests about chains; it implements link.Chains. It is safe for concurrent use.
type Chains struct {
	nodes   map[string]*node
	timeout time.Duration
}

// NewChains makes a Chains; timeout is the time limit of one request to a node, 0 means DefaultTimeout.
func NewChains(nodes Nodes, timeout time.Duration) *Chains {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	c := &Chains{nodes: map[string]*node{}, timeout: timeout}
	for name, address := range nodes {
		// Each node has its own connections: nodes of several chains may share one host, where one that hangs
		// would use up all connections. Redirects are not followed: they lead to a node that is not configured.
		client := &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, MaxConnsPerHost: 32, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		}
		c.nodes[canonical(name)] = &node{name: canonical(name), url: address, client: client, timeout: timeout}
	}
	return c
}

// Chain handles one request for a chain's state, within the timeout.
func (c *Chains) Chain(ctx context.Context, ask wire.Chain) wire.ChainState {
	return c.about(ctx, ask.Name, ask.Want != 0, func(ctx context.Context, n *node) wire.ChainState {
		switch {
		case ask.Want == 0:
			return wire.ChainState{Verdict: wire.ChainKnown}
		case n.isEthereum():
			return n.ethereum(ctx, ask)
		}
		return n.solana(ctx, ask)
	})
}

// about calls ask with the chain's node, or returns the reason why there is none. Unless asked is set, ask makes no request to the node.
func (c *Chains) about(ctx context.Context, name string, asked bool, ask func(context.Context, *node) wire.ChainState) wire.ChainState {
	n := c.nodes[canonical(name)]
	if n == nil {
		return wire.ChainState{Verdict: wire.ChainNoNode}
	}
	if !asked {
		return ask(ctx, n)
	}
	// A node that hangs uses up only its own chain's limit.
	if n.asked.Add(1) > maxAsked {
		n.asked.Add(-1)
		return wire.ChainState{Verdict: wire.ChainLate}
	}
	defer n.asked.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := n.prove(ctx); err != nil {
		return verdict(err)
	}
	return ask(ctx, n)
}

// runAll runs functions in parallel and returns the first error in their order.
func runAll(asks ...func() error) error {
	errs := make([]error, len(asks))
	var all sync.WaitGroup
	for i, ask := range asks {
		all.Go(func() { errs[i] = ask() })
	}
	all.Wait()
	return cmp.Or(errs...)
}
