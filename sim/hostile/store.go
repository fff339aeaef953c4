package hostile

import (
	"context"
	"crypto/sha256"
	"sync"

	"cloister/host/store"
	"cloister/shared/wire"
)

// A Deed is done instead of asking the store. With done false the store is asked after all.
type Deed func(ctx context.Context, question any) (answer any, err error, done bool)

// Store is a store that forgets nothing it was given, does deeds of its own and lies in its answers.
type Store struct {
	store.Store // the honest one
	Liar

	mu     sync.Mutex
	deed   Deed
	puts   map[wire.ID][]wire.PutSnapshot // every snapshot, oldest first
	pieces map[wire.Hash][]byte           // of all of them
	asked  map[wire.ID]int                // LoadOrganization, by organization
}

// NewStore wraps an honest store.
func NewStore(honest store.Store) *Store {
	return &Store{Store: honest, puts: map[wire.ID][]wire.PutSnapshot{}, pieces: map[wire.Hash][]byte{}, asked: map[wire.ID]int{}}
}

// Do makes s do this instead of what it is asked; nil ends it.
func (s *Store) Do(d Deed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deed = d
}

// Snapshots are all that were ever stored of an organization, oldest first.
func (s *Store) Snapshots(id wire.ID) []wire.PutSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts[id]
}

// Hoard keeps a snapshot, so that its pieces can be served whatever the honest store has dropped.
func (s *Store) Hoard(put wire.PutSnapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts[put.Organization] = append(s.puts[put.Organization], put)
	for _, p := range put.Pieces {
		s.pieces[sha256.Sum256(p)] = p
	}
}

// Loads is how often the enclave has asked for this organization.
func (s *Store) Loads(id wire.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[id]
}

// through answers one question: by a deed, or from the store, with a lie on top.
func through[Q, A any](ctx context.Context, s *Store, q Q, ask func(context.Context, Q) (A, error)) (A, error) {
	s.mu.Lock()
	d := s.deed
	s.mu.Unlock()
	if d != nil {
		if answer, err, done := d(ctx, q); done {
			a, _ := answer.(A)
			return a, err
		}
	}
	a, err := ask(ctx, q)
	if err == nil {
		s.tell(q, &a)
	}
	return a, err
}

// Own is store.Writer's.
func (s *Store) Own(ctx context.Context, q wire.Own) (wire.Owned, error) {
	return through(ctx, s, q, s.Store.Own)
}

// Append is store.Writer's.
func (s *Store) Append(ctx context.Context, q *wire.Batch) (wire.Stored, error) {
	return through(ctx, s, q, s.Store.Append)
}

// PutSnapshot is store.Writer's.
func (s *Store) PutSnapshot(ctx context.Context, q wire.PutSnapshot) (wire.Done, error) {
	s.Hoard(q)
	return through(ctx, s, q, s.Store.PutSnapshot)
}

// LoadOrganization is store.Loader's.
func (s *Store) LoadOrganization(ctx context.Context, q wire.LoadOrganization) (wire.Organization, error) {
	s.mu.Lock()
	s.asked[q.Organization]++
	s.mu.Unlock()
	return through(ctx, s, q, s.Store.LoadOrganization)
}

// LoadEntries is store.Loader's.
func (s *Store) LoadEntries(ctx context.Context, q wire.LoadEntries) (wire.Entries, error) {
	return through(ctx, s, q, s.Store.LoadEntries)
}

// LoadPieces is store.Loader's. What the honest store has dropped is still here.
func (s *Store) LoadPieces(ctx context.Context, q wire.LoadPieces) (wire.Pieces, error) {
	return through(ctx, s, q, func(ctx context.Context, q wire.LoadPieces) (wire.Pieces, error) {
		a, err := s.Store.LoadPieces(ctx, q)
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, p := range a.Pieces {
			if len(p) == 0 {
				a.Pieces[i] = s.pieces[q.Pieces[i]]
			}
		}
		return a, err
	})
}

// LoadObject is store.Loader's.
func (s *Store) LoadObject(ctx context.Context, q wire.LoadObject) (wire.Object, error) {
	return through(ctx, s, q, s.Store.LoadObject)
}

// Find is store.Finder's.
func (s *Store) Find(ctx context.Context, q wire.Find) (wire.Proven, error) {
	return through(ctx, s, q, s.Store.Find)
}

// Page is store.Finder's.
func (s *Store) Page(ctx context.Context, q wire.Page) (wire.Proven, error) {
	return through(ctx, s, q, s.Store.Page)
}

// PageIndex is store.Finder's.
func (s *Store) PageIndex(ctx context.Context, q wire.PageIndex) (wire.IndexRows, error) {
	return through(ctx, s, q, s.Store.PageIndex)
}

// CountActivities is store.Finder's.
func (s *Store) CountActivities(ctx context.Context, q wire.CountActivities) (wire.ActivityCounts, error) {
	return through(ctx, s, q, s.Store.CountActivities)
}

// SendStates is store.Outbox's.
func (s *Store) SendStates(ctx context.Context, q wire.Sends) (wire.SendStates, error) {
	return through(ctx, s, q, s.Store.SendStates)
}

// Deliveries is store.Outbox's.
func (s *Store) Deliveries(ctx context.Context, q wire.Deliveries) (wire.DeliveryList, error) {
	return through(ctx, s, q, s.Store.Deliveries)
}
