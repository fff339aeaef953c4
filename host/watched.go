package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cloister/host/api"
	"cloister/host/store"
	"cloister/shared/wire"
)

// takesNothingFor is how long a batch that failed counts while no other was stored. The enclave sends it again twice a second
// until it is stored, unless the enclave is gone: then the host is ready again after this time.
const takesNothingFor = time.Minute

// A watchedStore remembers whether batches are stored. A store whose disk is full, or that is a standby, answers every
// question, and no request is served.
type watchedStore struct {
	store.Store
	now func() time.Time

	mu     sync.Mutex
	failed time.Time // when a batch failed last; zero: one was stored since
	err    error
}

// Append implements store.Writer.
func (s *watchedStore) Append(ctx context.Context, batch *wire.Batch) (wire.Stored, error) {
	stored, err := s.Store.Append(ctx, batch)
	if errors.Is(err, store.ErrRefused) {
		return stored, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed, s.err = (time.Time{}), nil; err != nil {
		s.failed, s.err = s.now(), err
	}
	return stored, err
}

// Ping implements store.Store. Its error is api.ErrTakesNothing if the store answers, and the last batch failed.
func (s *watchedStore) Ping(ctx context.Context) error {
	if err := s.Store.Ping(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil && s.now().Sub(s.failed) < takesNothingFor {
		return fmt.Errorf("%w: %w", api.ErrTakesNothing, s.err)
	}
	return nil
}
