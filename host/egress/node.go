package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"cloister/shared/wire"
)

// maxReply bounds what is read of one answer of a node.
const maxReply = 2 << 20

// Why a node could not be asked.
var (
	errLate  = errors.New("no answer in time")
	errWrong = errors.New("the answer makes no sense")
)

// A refusal is an error that a node answers.
type refusal struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (r *refusal) Error() string { return fmt.Sprintf("%s (code %d)", clean(r.Message), r.Code) }

// A node is one JSON-RPC endpoint. Its address may hold a password and is in no
// error.
type node struct {
	name    string // of the chain
	url     string
	client  *http.Client
	timeout time.Duration // of one question
	ids     atomic.Uint64
	proven  atomic.Bool // it has said that it is of the chain
	asked   atomic.Int32
}

// call asks one question and decodes its result into result. Errors wrap errLate
// or errWrong, or are a *refusal: only that is the node's own word.
func (n *node) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	id := n.ids.Add(1)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w: a bad address", method, errWrong)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := n.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, connError(ctx, err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", method, connError(ctx, err))
	case len(text) > maxReply:
		return fmt.Errorf("%s: %w: more than %d bytes", method, errWrong, maxReply)
	}
	var reply struct {
		ID     *uint64         `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *refusal        `json:"error"`
	}
	switch err := json.Unmarshal(text, &reply); {
	case err != nil && res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %w: HTTP status %d", method, errWrong, res.StatusCode)
	case err != nil:
		return fmt.Errorf("%s: %w: not JSON-RPC", method, errWrong)
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500:
		// Whatever stands in it: an answer of something in front of the node.
		return fmt.Errorf("%s: %w: HTTP status %d", method, errWrong, res.StatusCode)
	case reply.Error != nil:
		return fmt.Errorf("%s: %w", method, reply.Error)
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %w: HTTP status %d", method, errWrong, res.StatusCode)
	case reply.ID == nil || *reply.ID != id:
		return fmt.Errorf("%s: %w: the answer to something else", method, errWrong)
	case reply.Result == nil:
		return fmt.Errorf("%s: %w: no result", method, errWrong)
	}
	if err := json.Unmarshal(reply.Result, result); err != nil {
		return fmt.Errorf("%s: %w", method, errWrong)
	}
	return nil
}

// connError tells slowness from other losses. What the client says names the address.
func connError(ctx context.Context, err error) error {
	var slow interface{ Timeout() bool }
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return errLate
	}
	return fmt.Errorf("%w: not reached", errWrong)
}

// clean makes a node's words fit for a log and for the enclave: printable ASCII,
// not too long.
func clean(text string) string {
	b := make([]byte, 0, wire.MaxChainText)
	for i := 0; i < len(text) && len(b) < wire.MaxChainText; i++ {
		if c := text[i]; c >= 0x20 && c < 0x7f {
			b = append(b, c)
		} else {
			b = append(b, ' ')
		}
	}
	return string(b)
}

// verdict is what an error means to the enclave.
func verdict(err error) wire.ChainState {
	s := wire.ChainState{Verdict: wire.ChainWrong, Text: clean(err.Error())}
	if errors.Is(err, errLate) {
		s.Verdict = wire.ChainLate
	}
	return s
}
