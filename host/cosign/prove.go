package cosign

import (
	"context"
	"fmt"
	"slices"

	"cloister/attestation/tlog"
	"cloister/host/leaves"
	"cloister/shared/wire"
)

// A Store has the log's leaves, and the header of the batch that an entry came in.
type Store interface {
	leaves.Store
	HeaderOf(ctx context.Context, organization wire.ID, seq uint64) ([]byte, error)
}

// ProveLogged returns the header and the inclusion proof of an entry in a log that has had a round; an empty header if the entry is not in it.
func (c *Cosigner) ProveLogged(ctx context.Context, ask wire.ProveLogged) (logged wire.Logged, err error) {
	l := c.findRangeLog(ask.Range, ask.Generation)
	if l == nil {
		return logged, fmt.Errorf("range %d: no checkpoint of generation %d was brought to witnesses yet", ask.Range, ask.Generation)
	}
	if ask.Size == 0 || ask.Size > leaves.MaxSize {
		return logged, fmt.Errorf("range %d: a proof among %d leaves", ask.Range, ask.Size)
	}
	header := []byte(ask.Header)
	if len(header) == 0 {
		if header, err = c.options.Store.HeaderOf(ctx, ask.Organization, ask.Seq); err != nil || header == nil {
			return logged, err
		}
	}
	index, is, err := l.leaves.IndexOf(header)
	if err != nil || !is || index >= ask.Size {
		return logged, err
	}
	if err := l.leaves.ReadTo(ctx, ask.Size); err != nil {
		return logged, fmt.Errorf("range %d: %w", ask.Range, err)
	}
	if logged.Path, err = l.leaves.ProveInclusion(ctx, index, ask.Size); err != nil {
		return logged, err
	}
	if logged.Header = header; ask.Generation == tlog.FirstGeneration {
		return logged, nil
	}
	first, err := l.leaves.Leaves(ctx, 0, 1)
	if err != nil {
		return wire.Logged{}, err
	}
	logged.First = first[0]
	logged.FirstPath, err = l.leaves.ProveInclusion(ctx, 0, ask.Size)
	return logged, err
}

// findRangeLog finds the log of a generation in memory; nil if it is not there.
func (c *Cosigner) findRangeLog(in wire.Range, generation uint32) *rangeLog {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.logs[in]
	i := slices.IndexFunc(all, func(l *rangeLog) bool { return l.generation == generation })
	if i < 0 {
		return nil
	}
	return all[i]
}
