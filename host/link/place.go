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

// Every host assigns ranges to enclaves. Times are random, so that several hosts rarely make the same
// move; if they do, an enclave refuses one of them.

// Times of range assignment. An owner that has not renewed for ownerTimeout, many times the quarter of
// a lease after which it renews, loses its range. A range that has been released for releasedGrace is
// taken from the store alone, without the log head that its last owner may have handed over.
const (
	placeEvery    = 500 * time.Millisecond // plus a random time below the same
	pollEvery     = 15 * time.Second       // for one enclave and one range, where nothing can move
	ownerTimeout  = 3 * time.Second        // plus a random time below a second
	releasedGrace = 2 * time.Second        // plus the same
	moveWithin    = 25 * time.Second       // time limit of a give or a take
	movesOnce     = 4                      // ranges moved between two enclaves per round
)

// rowWatch is the ownership row of a range that none of our enclaves claims, and when it last changed.
type rowWatch struct {
	row     wire.Owned
	since   time.Time
	slack   time.Duration
	refused int // failed takes; each moves on to the next enclave
}

// placeRanges polls the enclaves' range tables and moves ranges until ctx ends.
func (l *Links) placeRanges(ctx context.Context) {
	for ctx.Err() == nil {
		total := l.poll(ctx)
		wait := placeEvery + l.random(placeEvery)
		switch {
		case total > 1 || total == 1 && len(l.all) > 1:
			l.claimOrphans(ctx)
			l.rebalance(ctx)
		case total == 1: // the enclave takes its one range when it boots
			wait = pollEvery
		}
		l.options.Pause(ctx, wait)
	}
}

// random returns a random time below d, or d/2 if Rand fails.
func (l *Links) random(d time.Duration) time.Duration {
	var b [8]byte
	if _, err := io.ReadFull(l.options.Rand, b[:]); err != nil {
		return d / 2
	}
	return time.Duration(binary.BigEndian.Uint64(b[:]) % uint64(d))
}

// poll fetches every enclave's table, and returns the number of ranges in the deployment, 0 if no
// enclave returned a table.
func (l *Links) poll(ctx context.Context) int {
	tables := make([]*wire.Table, len(l.all))
	var all sync.WaitGroup
	for i := range l.all {
		all.Go(func() { tables[i], _ = l.boot(ctx, i, wire.OpRanges, nil, askTable) })
	}
	all.Wait()
	return l.install(tables)
}

// boot calls an operation of an enclave's boot endpoint that returns its range table.
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
	// A boot has one live key, which its boot proof attests.
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

// install replaces all tables and the owners in them. If two tables claim one range, the later epoch
// wins. It returns the number of ranges like poll.
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

// A member is an enclave that serves, with its range table.
type member struct {
	index int
	table *wire.Table
}

// members are the enclaves that serve, the ones with the fewest ranges first. Retiring ones come last,
// since they must not get ranges.
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

// moving is the request body of the operations take and give.
type moving struct {
	Handed bool   `json:"handed,omitempty"`
	Ranges []int  `json:"ranges"`
	To     string `json:"to,omitempty"`
}

// moveQuietly is move without a log line.
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

func (l *Links) moveRanges(ctx context.Context, i int, op string, m moving) error {
	if err := l.moveQuietly(ctx, i, op, m); err != nil {
		l.options.Log.Warn("ranges not moved", "operation", op, "ranges", m.Ranges, "enclave", l.all[i].options.Address, "error", err)
		return err
	}
	l.options.Log.Info("ranges moved", "operation", op, "ranges", m.Ranges, "enclave", l.all[i].options.Address, "handed", m.Handed)
	return nil
}

// takeGiven has a member take a range with the log head handed over to it, and reports whether it had one.
func (l *Links) takeGiven(ctx context.Context, m member, r wire.Range) bool {
	return l.moveQuietly(ctx, m.index, wire.OpTake, moving{Ranges: []int{int(r)}, Handed: true}) == nil
}

// claimOrphans has members take ranges that are released, or whose owner has stopped renewing.
func (l *Links) claimOrphans(ctx context.Context) {
	open := l.unownedRanges()
	now := l.options.Now()
	rows := map[wire.Range]rowWatch{}
	var due []wire.Range
	for _, r := range open {
		row, err := l.options.Own(ctx, wire.Own{Action: wire.OwnLook, Range: r})
		if err != nil {
			return // the store is unavailable, so no owner can be judged
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
		// After an interrupted move a member may hold the range's log head already.
		if rows[r].row.Released && slices.ContainsFunc(ms, func(m member) bool { return l.takeGiven(ctx, m, r) }) {
			continue
		}
		w := rows[r]
		if l.moveRanges(ctx, ms[w.refused%len(ms)].index, wire.OpTake, moving{Ranges: []int{int(r)}}) != nil {
			w.refused++
			rows[r] = w
		}
	}
}

// rebalance moves ranges, with their log heads, from the enclave with most to the one with fewest, and all from one
// that retires. It does nothing while a range has no owner.
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
	for _, r := range rs { // one by one, so that each is without an owner for the shortest time
		if l.moveRanges(ctx, rich.index, wire.OpGive, moving{Ranges: []int{int(r)}, To: poor.table.Boot}) != nil ||
			l.moveRanges(ctx, poor.index, wire.OpTake, moving{Ranges: []int{int(r)}, Handed: true}) != nil {
			return
		}
	}
}
