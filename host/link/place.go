package link

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"cloister/shared/wire"
)

// Any host places ranges. Times are random, so that several hosts do not do the same at once; if
// they do, an enclave refuses one of them.

// Times of placing. An owner that shows no sign of life for abandoned, many times the quarter of a
// lease after which it renews, loses its range. A range without an owner for loose is taken without
// the head of its log that its last owner may have handed on.
const (
	placeEvery    = 500 * time.Millisecond // and up to as much more
	pollEvery     = 15 * time.Second       // where there is nothing to place
	ownerTimeout  = 3 * time.Second        // and up to a second more
	releasedGrace = 2 * time.Second        // likewise
	moveWithin    = 25 * time.Second       // a give or a take may last
	movesOnce     = 4                      // ranges moved from one to another at a time
)

// rowWatch is a row whose owner is none of our enclaves, as it was seen first.
type rowWatch struct {
	row     wire.Owned
	since   time.Time
	slack   time.Duration
	refused int // how often an enclave did not take it: then the next one is asked
}

// placeRanges keeps asking the enclaves what they own, and has them take unowned ranges.
func (l *Links) placeRanges(ctx context.Context) {
	for ctx.Err() == nil {
		total := l.poll(ctx)
		wait := placeEvery + l.random(placeEvery)
		switch {
		case total > 1 || total == 1 && len(l.all) > 1:
			l.claimOrphans(ctx)
			l.rebalance(ctx)
		case total == 1: // a boot takes it by itself
			wait = pollEvery
		}
		l.options.Pause(ctx, wait)
	}
}

// random is a time below d.
func (l *Links) random(d time.Duration) time.Duration {
	var b [8]byte
	if _, err := io.ReadFull(l.options.Rand, b[:]); err != nil {
		return d / 2
	}
	return time.Duration(binary.BigEndian.Uint64(b[:]) % uint64(d))
}

// poll reads every enclave's table, and returns how many ranges the deployment has, 0 if nobody
// says.
func (l *Links) poll(ctx context.Context) int {
	tables := make([]*wire.Table, len(l.all))
	var all sync.WaitGroup
	for i := range l.all {
		all.Go(func() { tables[i], _ = l.boot(ctx, i, wire.OpRanges, nil, askTable) })
	}
	all.Wait()
	return l.install(tables)
}

// boot asks an enclave for an operation that answers with its table.
func (l *Links) boot(ctx context.Context, i int, op string, body []byte, within time.Duration) (*wire.Table, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	reply, err := l.all[i].Call(ctx, &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: body, WithinMs: uint32(within / time.Millisecond)})
	if err != nil {
		return nil, err
	}
	if reply.Status != 200 {
		return nil, errors.New(string(reply.Body[:min(len(reply.Body), 200)]))
	}
	t, signed, err := wire.ParseTable(reply.Body)
	if err != nil {
		return nil, err
	}
	// One run of an enclave has one live key, which its boot proof attests.
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.keys) > 16*MaxEnclaves {
		clear(l.keys)
	}
	if key, ok := l.keys[t.Boot]; ok && key != signed.PublicKey {
		l.options.Log.Error("range table signed by another key", "boot", t.Boot)
		return nil, errors.New("a table under another key")
	}
	l.keys[t.Boot] = signed.PublicKey
	return t, nil
}

// install routes calls by new tables. If two name one range, the later epoch counts.
func (l *Links) install(tables []*wire.Table) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	owners, epochs := map[wire.Range]int{}, map[wire.Range]uint64{}
	deployment := ""
	for i, t := range tables {
		if t == nil {
			continue
		}
		if deployment == "" {
			deployment, l.ranges = t.Deployment, t.Ranges
		}
		if t.Deployment != deployment || t.Ranges != l.ranges {
			if !l.disjoint {
				l.disjoint = true
				l.options.Log.Error("enclaves belong to different deployments", "one", deployment, "other", t.Deployment)
			}
			tables[i] = nil
			continue
		}
		for _, r := range t.Owned {
			if r.Epoch > epochs[r.Range] {
				owners[r.Range], epochs[r.Range] = i, r.Epoch
			}
		}
	}
	l.tables = tables
	l.routeLocked(owners)
	if deployment == "" {
		return 0
	}
	return l.ranges
}

func (l *Links) routeLocked(owners map[wire.Range]int) {
	if !maps.Equal(owners, l.owners) {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.owners = owners
}

// update replaces one enclave's table.
func (l *Links) update(i int, t *wire.Table) {
	l.mu.Lock()
	tables := slices.Clone(l.tables)
	l.mu.Unlock()
	tables[i] = t
	l.install(tables)
}

// A member is an enclave that takes part.
type member struct {
	index int
	table *wire.Table
}

// members are the enclaves that serve, those that own least first. Retiring ones come last, since
// they must get nothing.
func (l *Links) members() (ms []member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range l.tables {
		if t != nil {
			ms = append(ms, member{i, t})
		}
	}
	retiring := map[bool]int{true: 1}
	slices.SortStableFunc(ms, func(a, b member) int {
		return cmp.Or(retiring[a.table.Retiring]-retiring[b.table.Retiring], len(a.table.Owned)-len(b.table.Owned))
	})
	return ms
}

// unownedRanges are the ranges that no enclave claims to own.
func (l *Links) unownedRanges() (rs []wire.Range) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range wire.Range(l.ranges) {
		if _, ok := l.owners[r]; !ok {
			rs = append(rs, r)
		}
	}
	return rs
}

// moving is the body of take and give.
type moving struct {
	Handed bool   `json:"handed,omitempty"`
	Ranges []int  `json:"ranges"`
	To     string `json:"to,omitempty"`
}

// moveQuietly is move without log.
func (l *Links) moveQuietly(ctx context.Context, i int, op string, m moving) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	t, err := l.boot(ctx, i, op, body, moveWithin)
	if err == nil {
		l.update(i, t)
	}
	return err
}

func (l *Links) move(ctx context.Context, i int, op string, m moving) error {
	if err := l.moveQuietly(ctx, i, op, m); err != nil {
		l.options.Log.Warn("ranges not moved", "operation", op, "ranges", m.Ranges, "enclave", l.all[i].options.Address, "error", err)
		return err
	}
	l.options.Log.Info("ranges moved", "operation", op, "ranges", m.Ranges, "enclave", l.all[i].options.Address, "handed", m.Handed)
	return nil
}

// takeGiven lets a member take a range that was given to it, and tells whether it was.
func (l *Links) takeGiven(ctx context.Context, m member, r wire.Range) bool {
	return l.moveQuietly(ctx, m.index, wire.OpTake, moving{Ranges: []int{int(r)}, Handed: true}) == nil
}

// claimOrphans lets members take ranges that have no owner, or one that shows no sign of life.
func (l *Links) claimOrphans(ctx context.Context) {
	open := l.unownedRanges()
	now := l.options.Now()
	rows := map[wire.Range]rowWatch{}
	var due []wire.Range
	for _, r := range open {
		row, err := l.options.Own(ctx, wire.Own{Action: wire.OwnLook, Range: r})
		if err != nil {
			return // the store is away: nothing is known
		}
		w, seen := l.rows[r]
		if !seen || w.row != row {
			w = rowWatch{row: row, since: now, slack: l.random(time.Second)}
		}
		rows[r] = w
		after := ownerTimeout + w.slack
		switch {
		case row.Epoch == 0:
			after = 0
		case row.Released:
			after = releasedGrace + w.slack
		}
		if now.Sub(w.since) >= after {
			due = append(due, r)
		}
	}
	l.rows = rows
	for _, r := range due {
		ms := l.members()
		if len(ms) == 0 || ctx.Err() != nil {
			return
		}
		// A move that broke off half way has given it to one of them, with the head of its log.
		if rows[r].row.Released && slices.ContainsFunc(ms, func(m member) bool { return l.takeGiven(ctx, m, r) }) {
			continue
		}
		w := rows[r]
		if l.move(ctx, ms[w.refused%len(ms)].index, wire.OpTake, moving{Ranges: []int{int(r)}}) != nil {
			w.refused++
			rows[r] = w
		}
	}
}

// rebalance moves ranges, with the heads of their logs, from the enclave that owns most to the one that owns least,
// and all from one that retires. It does so once all ranges have owners.
func (l *Links) rebalance(ctx context.Context) {
	ms := l.members()
	if len(ms) < 2 || len(l.unownedRanges()) > 0 {
		return
	}
	staying := ms
	for len(staying) > 0 && staying[len(staying)-1].table.Retiring {
		staying = staying[:len(staying)-1]
	}
	if len(staying) == 0 {
		return
	}
	poor, rich := staying[0], staying[len(staying)-1]
	n := (len(rich.table.Owned) - len(poor.table.Owned)) / 2
	for _, m := range ms[len(staying):] {
		if len(m.table.Owned) > 0 {
			rich, n = m, len(m.table.Owned)
		}
	}
	if n = min(n, movesOnce); n <= 0 {
		return
	}
	var rs []wire.Range
	first := int(l.random(time.Duration(len(rich.table.Owned))))
	for k := range n {
		rs = append(rs, rich.table.Owned[(first+k)%len(rich.table.Owned)].Range)
	}
	for _, r := range rs { // one by one, so that each is away for the shortest time
		if l.move(ctx, rich.index, wire.OpGive, moving{Ranges: []int{int(r)}, To: poor.table.Boot}) != nil ||
			l.move(ctx, poor.index, wire.OpTake, moving{Ranges: []int{int(r)}, Handed: true}) != nil {
			return
		}
	}
}
