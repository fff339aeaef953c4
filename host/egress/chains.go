// Package egress is what the host says to the world for the enclave: it asks the
// nodes of chains how they stand, and sends what the enclave has put out.
//
// A node is a JSON-RPC endpoint that the operator configures. Nothing that comes
// from one is believed by the enclave for more than a hint, so a wrong node can
// make a transaction late or fail and no more.
package egress

import (
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

// Nodes are addresses of nodes by the CAIP-2 name of their chain. As text they
// are pairs NAME=URL with white space between them.
type Nodes map[string]string

// Names of Solana's networks that are not the CAIP-2 ones, which are the first 32
// characters of the hash of a network's first block.
var aliases = map[string]string{
	"solana:mainnet": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
	"solana:devnet":  "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
}

const solanaName = len("solana:") + 32

// canonical is the one name of a chain that has several.
func canonical(name string) string {
	if long, ok := aliases[name]; ok {
		return long
	}
	if strings.HasPrefix(name, "solana:") && len(name) > solanaName {
		return name[:solanaName]
	}
	return name
}

// ParseNodes reads what Nodes are written as. Errors do not repeat an address,
// which may hold a password.
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

// isKnownChain tells whether name is of a chain that can be spoken to.
func isKnownChain(name string) bool {
	if _, ok := chainID(name); ok {
		return true
	}
	return strings.HasPrefix(name, "solana:") && len(name) == solanaName
}

// chainID is the number in the name of an Ethereum chain.
func chainID(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "eip155:")
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, ok && err == nil && strconv.FormatUint(n, 10) == digits
}

// How long a node may take for one question. The enclave waits little longer than
// MaxTimeout.
const (
	DefaultTimeout = 5 * time.Second
	MaxTimeout     = 9 * time.Second
)

// maxAsked bounds the enclave's questions about one chain that are under way.
const maxAsked = 64

// A Chains answers the enclave's questions about chains. It is safe for
// concurrent use.
type Chains struct {
	nodes   map[string]*node
	timeout time.Duration
}

// NewChains makes a Chains; timeout is for one question to a node, 0 means
// DefaultTimeout.
func NewChains(nodes Nodes, timeout time.Duration) *Chains {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	// A node that sends us elsewhere is not the one that was configured.
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, MaxConnsPerHost: 32, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
	}
	c := &Chains{nodes: map[string]*node{}, timeout: timeout}
	for name, address := range nodes {
		c.nodes[canonical(name)] = &node{name: canonical(name), url: address, client: client, timeout: timeout}
	}
	return c
}

// Chain answers one question, within the timeout.
func (c *Chains) Chain(ctx context.Context, ask wire.Chain) wire.ChainState {
	n := c.nodes[canonical(ask.Name)]
	if n == nil {
		return wire.ChainState{Verdict: wire.ChainNoNode}
	}
	if ask.Want == 0 {
		return wire.ChainState{Verdict: wire.ChainKnown}
	}
	// A node that hangs takes the places of its own chain and no other's.
	if n.asked.Add(1) > maxAsked {
		n.asked.Add(-1)
		return wire.ChainState{Verdict: wire.ChainLate}
	}
	defer n.asked.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if _, ok := chainID(n.name); ok {
		return n.ethereum(ctx, ask)
	}
	return n.solana(ctx, ask)
}

// runAll runs questions at once and answers the first error in their order.
func runAll(asks ...func() error) error {
	errs := make([]error, len(asks))
	var all sync.WaitGroup
	for i, ask := range asks {
		all.Go(func() { errs[i] = ask() })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
