package restart_test

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"cloister/host/store"
	"cloister/shared/wire"
)

// A shown organization is what the host shows instead of one: another store's, or another organization.
type shown struct {
	from store.Loader
	id   wire.ID
	// relabelled keys name the organization that was asked for.
	relabelled bool
	edit       func(*wire.Organization)
}

// lies are told by a liar. Those of the log are told about one range.
type lies struct {
	of      wire.Range
	orgs    map[wire.ID]shown // without a store: withheld
	tips    map[wire.ID]tip   // where it says that ledgers stand which no log names
	headers func(all [][]byte) [][]byte
	table   func(honest []byte) []byte
	pages   func(ask []wire.Hash, honest [][]byte) [][]byte
}

// A liar is a host's store that keeps every page it was ever given, says that its last owner has given it
// back, and lies when told to.
type liar struct {
	store.Store

	gate    sync.RWMutex // held while the store's file is copied
	kept    *pages
	network *network

	mu   sync.Mutex
	told *lies
	// honest tells who owns a range as it is. always says that whatever is written is stored, and that who
	// last took a range owns it still.
	honest, always bool
	// silent says nothing of what is written, though it is there.
	silent bool
	taken  map[wire.Range]wire.Owned
	read   map[wire.Range]bool // whose headers were told
	record *recorder           // nil: none
}

// pages are all pages of tip tables ever made in a history.
type pages struct {
	mu     sync.Mutex
	byHash map[wire.Hash][]byte
}

func (p *pages) keep(all [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range all {
		p.byHash[sha256.Sum256(b)] = b
	}
}

func (p *pages) page(h wire.Hash) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byHash[h]
}

// tell makes the liar tell these lies, none for nil.
func (s *liar) tell(l *lies) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.read = l, map[wire.Range]bool{}
}

func (s *liar) lies() lies {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		return lies{}
	}
	return *s.told
}

// instead is where an organization is read.
func (s *liar) instead(id wire.ID) (shown, bool) {
	is, lied := s.lies().orgs[id]
	return is, lied
}

func (s *liar) LoadOrganization(ctx context.Context, ask wire.LoadOrganization) (o wire.Organization, err error) {
	s.network.takes(ctx, inStore)
	is, lied := s.instead(ask.Organization)
	switch {
	case !lied:
		return s.Store.LoadOrganization(ctx, ask)
	case is.from == nil:
		return o, nil
	}
	as := ask.Organization
	ask.Organization = is.id
	o, err = is.from.LoadOrganization(ctx, ask)
	if is.relabelled {
		o.Keys = slices.Clone(o.Keys)
		for i := range o.Keys {
			o.Keys[i].Organization = as
		}
	}
	if is.edit != nil {
		is.edit(&o)
	}
	return o, err
}

func (s *liar) LoadEntries(ctx context.Context, ask wire.LoadEntries) (wire.Entries, error) {
	s.network.takes(ctx, inStore)
	if is, lied := s.instead(ask.Organization); lied && is.from != nil {
		ask.Organization = is.id
		return is.from.LoadEntries(ctx, ask)
	}
	return s.Store.LoadEntries(ctx, ask)
}

func (s *liar) LoadPieces(ctx context.Context, ask wire.LoadPieces) (wire.Pieces, error) {
	s.network.takes(ctx, inStore)
	if is, lied := s.instead(ask.Organization); lied && is.from != nil {
		ask.Organization = is.id
		return is.from.LoadPieces(ctx, ask)
	}
	return s.Store.LoadPieces(ctx, ask)
}

// LoadHeaders tells altered headers once, as if they were all.
func (s *liar) LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (wire.Headers, error) {
	l := s.lies()
	if l.headers == nil || l.of != ask.Range {
		return s.Store.LoadHeaders(ctx, ask)
	}
	s.mu.Lock()
	again := s.read[ask.Range]
	s.read[ask.Range] = true
	s.mu.Unlock()
	if again {
		return wire.Headers{}, nil
	}
	got, err := s.Store.LoadHeaders(ctx, ask)
	got.Headers = l.headers(got.Headers)
	return got, err
}

func (s *liar) LoadTips(ctx context.Context, ask wire.LoadTips) (wire.Tips, error) {
	s.network.takes(ctx, inStore)
	got, err := s.Store.LoadTips(ctx, ask)
	l := s.lies()
	for i := range got.Tips {
		if t, lied := l.tips[got.Tips[i].Organization]; lied {
			got.Tips[i].Count, got.Tips[i].Root = t.Count, t.Root
		}
	}
	return got, err
}

func (s *liar) LoadTable(ctx context.Context, ask wire.LoadTable) (wire.TipTable, error) {
	got, err := s.Store.LoadTable(ctx, ask)
	if l := s.lies(); l.table != nil && l.of == ask.Range {
		got.Table = l.table(got.Table)
	}
	return got, err
}

// LoadPages finds pages of older tables too.
func (s *liar) LoadPages(ctx context.Context, ask wire.LoadPages) (wire.Pieces, error) {
	got, err := s.Store.LoadPages(ctx, ask)
	for i := range got.Pieces {
		if len(got.Pieces[i]) == 0 {
			got.Pieces[i] = s.kept.page(ask.Pages[i])
		}
	}
	if l := s.lies(); err == nil && l.pages != nil && l.of == ask.Range {
		got.Pieces = l.pages(ask.Pages, got.Pieces)
	}
	return got, err
}

// Own says that whoever had a range has given it back: nobody waits for a lease here.
func (s *liar) Own(ctx context.Context, ask wire.Own) (wire.Owned, error) {
	s.network.takes(ctx, inStore)
	s.gate.RLock()
	defer s.gate.RUnlock()
	row, err := s.Store.Own(ctx, ask)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ask.Action == wire.OwnLook && !s.honest {
		row.Released = true
	}
	if ask.Action == wire.OwnTake && row.OK {
		if s.taken == nil {
			s.taken = map[wire.Range]wire.Owned{}
		}
		s.taken[ask.Range] = row
	}
	if ask.Action == wire.OwnRenew && s.always {
		row = s.taken[ask.Range]
	}
	return row, err
}

// claim makes the liar say that all is stored, or not.
func (s *liar) claim(always bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = always
}

func (s *liar) claims() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.always
}

func (s *liar) Append(ctx context.Context, b *wire.Batch) (wire.Stored, error) {
	s.network.takes(ctx, inStore)
	s.record.sent(s, b)
	if s.claims() {
		return wire.Stored{Number: b.Number, Verdict: wire.VerdictStored}, nil
	}
	s.gate.RLock()
	silent := s.isSilent()
	got, err := s.Store.Append(ctx, b)
	s.gate.RUnlock()
	if silent {
		<-ctx.Done()
		return wire.Stored{}, ctx.Err()
	}
	if err == nil && got.Verdict == wire.VerdictStored {
		s.record.stored(b)
	}
	return got, err
}

// silence makes the liar say nothing any more of what is written. Whoever holds the gate has copied the store before that.
func (s *liar) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
}

func (s *liar) isSilent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent
}

func (s *liar) PutSnapshot(ctx context.Context, put wire.PutSnapshot) (wire.Done, error) {
	s.network.takes(ctx, inStore)
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.Store.PutSnapshot(ctx, put)
}

// PutTable says of a table in the place of one that was told that it is kept.
func (s *liar) PutTable(ctx context.Context, put wire.PutTable) (wire.Done, error) {
	s.network.takes(ctx, inStore)
	s.kept.keep(put.Pages)
	if l := s.lies(); s.claims() || l.table != nil && l.of == put.Range {
		return wire.Done{OK: true}, nil
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.Store.PutTable(ctx, put)
}

func (s *liar) PutKeys(ctx context.Context, put wire.PutKeys) (wire.Done, error) {
	s.network.takes(ctx, inStore)
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.Store.PutKeys(ctx, put)
}

func (s *liar) PutObject(ctx context.Context, put wire.PutObject) (wire.Done, error) {
	s.network.takes(ctx, inStore)
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.Store.PutObject(ctx, put)
}
