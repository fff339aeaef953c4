package witness

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"cloister/shared/wire"
)

// A Head is what a witness has of a log, by its own account, beside a checkpoint that it was shown.
type Head struct {
	Witness string
	Size    uint64 // leaves that it had seen
	Same    bool   // it has cosigned the checkpoint: what it had seen is the beginning of that, or all of it
	Other   bool   // it refuses to: it has seen other leaves
	Err     error  // why nothing is known; nil else
}

// Heads shows a checkpoint to every witness and asks for what it has seen, in the order of the policy. prove is as of Send. It
// needs no Run.
func (c *Client) Heads(ctx context.Context, signed []byte, prove func(old uint64) ([]wire.Hash, error)) ([]Head, error) {
	head, err := ParseSigned(signed)
	if err != nil {
		return nil, err
	}
	shown := &checkpoint{size: head.Size, signed: signed, prove: prove, proofs: map[uint64]*proof{}}
	all := make([]Head, len(c.witnesses))
	var wait sync.WaitGroup
	for i, w := range c.witnesses {
		wait.Go(func() { all[i] = w.head(ctx, shown) })
	}
	wait.Wait()
	return all, nil
}

// head asks from nothing, which a witness that has seen anything answers with how much, and then from there.
func (w *witness) head(ctx context.Context, c *checkpoint) (h Head) {
	h.Witness = w.key.Name()
	status, answer, err := w.post(ctx, body(0, nil, c.signed))
	if err == nil && status == http.StatusConflict {
		if h.Size, h.Err = parseSize(answer); h.Err != nil || h.Size > c.size {
			return h
		}
		var path []wire.Hash
		if path, err = c.proof(h.Size); err == nil {
			status, answer, err = w.post(ctx, body(h.Size, path, c.signed))
		}
		h.Other = err == nil && (status == http.StatusUnprocessableEntity || status == http.StatusConflict)
	}
	switch {
	case err != nil:
		h.Err = err
	case h.Other:
	case status == http.StatusOK:
		_, h.Err = lineOf(w.key, answer)
		h.Same = h.Err == nil
	default:
		h.Err = statusError(status)
	}
	return h
}

func statusError(status int) error { return fmt.Errorf("it answered with status %d", status) }
