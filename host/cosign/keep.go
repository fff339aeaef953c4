package cosign

import (
	"context"
	"time"

	"cloister/host/store"
)

// keepEvery is the interval at which newer checkpoints are stored. One that is a little old serves to ask a witness just as well.
const keepEvery = time.Second

// keep stores the newest checkpoints at that interval, and a last time when the Cosigner is closed.
func (c *Cosigner) keep() {
	told := false
	for ended := false; !ended; {
		c.options.Pause(c.life, keepEvery)
		ended = c.life.Err() != nil
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), c.options.Timeout)
		err := c.keepNewest(ctx)
		cancel()
		if err != nil && !told {
			c.options.Log.Warn("checkpoints not stored", "error", err)
		}
		told = err != nil
	}
}

func (c *Cosigner) keepNewest(ctx context.Context) error {
	c.mu.Lock()
	var all []*rangeLog
	for _, logs := range c.logs {
		all = append(all, logs...)
	}
	c.mu.Unlock()
	for _, l := range all {
		put := l.newer()
		if put == nil {
			continue
		}
		if err := c.options.Checkpoints.PutCheckpoint(ctx, *put); err != nil {
			return err
		}
		l.mu.Lock()
		l.keptSize, l.keptCosigned = put.Size, max(l.keptCosigned, put.CosignedSize)
		l.mu.Unlock()
	}
	return nil
}

// newer is the checkpoint to store, nil if the store has it.
func (l *rangeLog) newer() *store.Checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest == 0 || l.newest == l.keptSize && l.cosigned.size <= l.keptCosigned {
		return nil
	}
	put := &store.Checkpoint{Range: l.in, Generation: l.generation, Policy: l.text, Size: l.newest, Signed: l.signed}
	if note := l.cosigned.note(l.policy); note != nil {
		put.CosignedSize, put.Cosigned = l.cosigned.size, note
	}
	return put
}
