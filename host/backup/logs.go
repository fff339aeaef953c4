package backup

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cloister/host/leaves"
	"cloister/host/logcheck"
	"cloister/host/store"
	"cloister/shared/wire"
)

// Trust has what Verify verifies checkpoints with. The zero Trust takes the policies in the backup and no log's key.
type Trust = logcheck.Trust

// A LogSummary is the newest log of a range in a backup, and the checkpoints that it was checked against.
type LogSummary struct {
	Range      uint32
	Generation uint32
	Leaves     uint64
	logcheck.Checked
}

// logs checks the logs in a backup: the chain of their headers, and their leaves against the checkpoints of each generation. Only Verify
// makes these checks: a store whose log is damaged can be backed up and restored, since it may be all that is left.
type logs struct {
	deployment wire.Hash
	by         Trust
	all        map[uint32]*logcheck.Log // by range
	checked    map[uint32]logcheck.Checked
}

func newLogs(deployment wire.Hash, by Trust) *logs {
	return &logs{deployment: deployment, by: by, all: map[uint32]*logcheck.Log{}, checked: map[uint32]logcheck.Checked{}}
}

// follow takes the next row, which the audit has accepted.
func (c *logs) follow(r store.Row) error {
	switch r := r.(type) {
	case *store.BatchRow:
		return c.batch(r)
	case *store.CheckpointRow:
		return c.checkpoint(r.Checkpoint())
	}
	return nil
}

func (c *logs) batch(r *store.BatchRow) (err error) {
	l := c.all[r.Range]
	if l == nil {
		if leaves.IsBeforeLogs(r.Header) {
			return nil
		}
		if l, err = logcheck.New(wire.Range(r.Range), c.deployment); err != nil {
			return err
		}
		c.all[r.Range] = l
	}
	_, _, err = l.Follow(r)
	switch {
	case errors.Is(err, logcheck.ErrChain):
		return fmt.Errorf("%w: a header there, or the one before it, is missing or was changed: %s", err, useAnother)
	case err != nil:
		return fmt.Errorf("%w: %s", err, useAnother)
	}
	return nil
}

// useAnother says what to do about a damaged log.
const useAnother = `start no enclave on this copy. Keep an earlier backup and make another one; if that is damaged too, so is the store (runbook, "Backup old")`

func (c *logs) checkpoint(p *store.Checkpoint) error {
	l := c.all[uint32(p.Range)]
	if l == nil {
		return fmt.Errorf("range %d: a checkpoint of %d leaves, and no leaf: %s", p.Range, p.Size, useAnother)
	}
	by := c.by
	if p.Generation != l.Generation() {
		by.Policy = nil // it had other witnesses
	}
	got, err := l.Check(p, true, by)
	switch {
	case errors.Is(err, logcheck.ErrSignature):
		return fmt.Errorf("%w: is that the log's key, and the policy of the manifest under which it was signed?", err)
	case err != nil:
		at := l.At()
		return fmt.Errorf("%w; the newest batch here is batch %d of epoch %d: %s", err, at.Number, at.Epoch, useAnother)
	}
	if p.Generation == l.Generation() {
		c.checked[uint32(p.Range)] = got
	}
	return nil
}

// summaries are those of all logs, in the order of ranges.
func (c *logs) summaries() (all []LogSummary) {
	for _, in := range slices.Sorted(maps.Keys(c.all)) {
		l := c.all[in]
		all = append(all, LogSummary{in, l.Generation(), l.Size(), c.checked[in]})
	}
	return all
}
