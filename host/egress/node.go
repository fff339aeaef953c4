package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"cloister/shared/wire"
)

// maxReply bounds one response of a node, in bytes.
const maxReply = 2 << 20

// Reasons why a request has no result.
var (
	errLate  = errors.New("no answer in time")
	errWrong = errors.New("the answer makes no sense")
)

// A refusal is a JSON-RPC error of a node.
type refusal struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (r *refusal) Error() string { return fmt.Sprintf("%s (code %d)", clean(r.Message), r.Code) }

// A node is one JSON-RPC endpoint. No error holds its address, which may contain a password.
type node struct {
	name    string // of the chain
	url     string
	client  *http.Client
	timeout time.Duration // of one request
	ids     atomic.Uint64
	proven  atomic.Bool // the node has reported the right chain
	asked   atomic.Int32
	tokens  []token // from the file of -assets
}

func (n *node) isEthereum() bool {
	_, ok := chainID(n.name)
	return ok
}

// prove checks once that the node is of its chain: a node of another chain would answer for the
// wrong accounts.
func (n *node) prove(ctx context.Context) error {
	if n.proven.Load() {
		return nil
	}
	if want, ok := chainID(n.name); ok {
		var id quantity
		if err := n.call(ctx, &id, "eth_chainId"); err != nil {
			return err
		}
		if uint64(id) != want {
			return fmt.Errorf("%w: the node is of chain eip155:%d", errWrong, id)
		}
	} else {
		var hash string // genesis hash
		if err := n.call(ctx, &hash, "getGenesisHash"); err != nil {
			return err
		}
		if !strings.HasPrefix(hash, strings.TrimPrefix(n.name, "solana:")) {
			return fmt.Errorf("%w: the node is of another network", errWrong)
		}
	}
	n.proven.Store(true)
	return nil
}

// call makes one JSON-RPC request and decodes its result into result. Errors wrap errLate or
// errWrong, or are a *refusal: only that is the node's own answer.
func (n *node) call(ctx context.Context, result any, method string, params ...any) error {
	if err := n.ask(ctx, result, method, params); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

func (n *node) ask(ctx context.Context, result any, method string, params []any) error {
	if params == nil {
		params = []any{}
	}
	id := n.ids.Add(1)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: a bad address", errWrong)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := n.client.Do(req)
	if err != nil {
		return connError(ctx, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return connError(ctx, err)
	case len(text) > maxReply:
		return fmt.Errorf("%w: more than %d bytes", errWrong, maxReply)
	}
	var reply struct {
		ID     *uint64         `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *refusal        `json:"error"`
	}
	status, err := res.StatusCode, json.Unmarshal(text, &reply)
	// With 429 or 5xx the response is that of a proxy in front of the node.
	proxied := status == http.StatusTooManyRequests || status >= 500
	switch {
	case err == nil && !proxied && reply.Error != nil:
		return reply.Error
	case status != http.StatusOK:
		return fmt.Errorf("%w: HTTP status %d", errWrong, status)
	case err != nil:
		return fmt.Errorf("%w: not JSON-RPC", errWrong)
	case reply.ID == nil || *reply.ID != id:
		return fmt.Errorf("%w: the answer to something else", errWrong)
	case reply.Result == nil:
		return fmt.Errorf("%w: no result", errWrong)
	case json.Unmarshal(reply.Result, result) != nil:
		return errWrong
	}
	return nil
}

// connError returns errLate for a time-out, and another error otherwise. It drops the HTTP client's
// text, which contains the URL.
func connError(ctx context.Context, err error) error {
	var slow interface{ Timeout() bool }
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return errLate
	}
	return fmt.Errorf("%w: not reached", errWrong)
}

// clean sanitizes a node's text for the log and the enclave: printable ASCII, of bounded length.
func clean(text string) string {
	b := []byte(text[:min(len(text), wire.MaxChainText)])
	for i, c := range b {
		if c < 0x20 || c >= 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}

// verdict converts an error into the state that the enclave gets.
func verdict(err error) wire.ChainState {
	s := wire.ChainState{Verdict: wire.ChainWrong, Text: clean(err.Error())}
	if errors.Is(err, errLate) {
		s.Verdict = wire.ChainLate
	}
	return s
}
