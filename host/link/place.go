package link

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"cloister/shared/wire"
)

// Ranges are placed by whichever host comes first: the times are random, so that
// several do not do the same at once, and if they do, one of them is refused.

// Times of placing. abandoned is how long nothing may be seen of a row's owner before
// the range is taken from it: many times the quarter of a lease after which it renews.
// loose is how long a range may have no owner before it is taken without what its last
// owner may have handed on.
const (
	placeEvery = 500 * time.Millisecond // and up to as much more
	restEvery  = 15 * time.Second       // where there is nothing to place
	abandoned  = 3 * time.Second        // and up to a second more
	loose      = 2 * time.Second        // likewise
	moveWithin = 25 * time.Second       // a give or a take may last
	movesOnce  = 4                      // ranges moved from one to another at a time
)

// watched is a row that nobody we reach owns, as it was seen first.
type watched struct {
	row     wire.Owned
	since   time.Time
	slack   time.Duration
	refused int // how often an enclave did not take it: the next one is asked then
}

// place asks the enclaves again and again what they own and has them take what nobody
// does.
func (l *Links) place(ctx context.Context) {
	for ctx.Err() == nil {
		total := l.look(ctx)
		wait := placeEvery + l.random(placeEvery)
		switch {
		case total > 1 || total == 1 && len(l.all) > 1:
			l.adopt(ctx)
			l.level(ctx)
		case total == 1: // a boot takes it by itself
			wait = restEvery
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

// look reads every enclave's table, and answers how many ranges the deployment has, 0
// if nobody says.
func (l *Links) look(ctx context.Context) int {
	type answer struct {
		index int
		table *wire.Table
	}
	answers := make(chan answer, len(l.all))
	for i := range l.all {
		go func() {
			t, _ := l.boot(ctx, i, wire.OpRanges, nil, askTable)
			answers <- answer{i, t}
		}()
	}
	tables := make([]*wire.Table, len(l.all))
	for range l.all {
		a := <-answers
		tables[a.index] = a.table
	}
	return l.keep(tables)
}

// boot asks an enclave for one of the operations that answer with its table.
func (l *Links) boot(ctx context.Context, i int, op string, body []byte, within time.Duration) (*wire.Table, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	reply, err := l.all[i].Call(ctx, &wire.Call{Door: wire.DoorBoot, Op: op, Body: body, WithinMs: uint32(within / time.Millisecond)})
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
		l.options.Log.Error("table of ranges under another key", "boot", t.Boot)
		return nil, errors.New("a table under another key")
	}
	l.keys[t.Boot] = signed.PublicKey
	return t, nil
}

// keep makes new tables those by which calls are routed. Of two that name one range
// the later epoch counts.
func (l *Links) keep(tables []*wire.Table) int {
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
				l.options.Log.Error("enclaves of two deployments", "one", deployment, "other", t.Deployment)
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
	same := len(owners) == len(l.owners)
	for r, i := range owners {
		if was, ok := l.owners[r]; !ok || was != i {
			same = false
		}
	}
	if l.owners = owners; !same {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// update puts one enclave's new table in the place of its last.
func (l *Links) update(i int, t *wire.Table) {
	l.mu.Lock()
	tables := slices.Clone(l.tables)
	l.mu.Unlock()
	tables[i] = t
	l.keep(tables)
}

// A member is an enclave that takes part.
type member struct {
	index int
	table *wire.Table
}

// members are those that serve, who owns least first and who retires last.
func (l *Links) members() (ms []member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range l.tables {
		if t != nil {
			ms = append(ms, member{i, t})
		}
	}
	// Who retires comes last, since it is to get nothing.
	slices.SortStableFunc(ms, func(a, b member) int {
		if a.table.Retiring != b.table.Retiring {
			if a.table.Retiring {
				return 1
			}
			return -1
		}
		return len(a.table.Owned) - len(b.table.Owned)
	})
	return ms
}

// unownedRanges are the ranges that no enclave says to own.
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

type moving struct {
	Ranges []wire.Range
	Handed bool   `json:",omitempty"`
	To     string `json:",omitempty"`
}

// MarshalJSON writes the body of take and give: the ranges are numbers, not bytes.
func (m moving) MarshalJSON() ([]byte, error) {
	ns := make([]int, len(m.Ranges))
	for i, r := range m.Ranges {
		ns[i] = int(r)
	}
	out := map[string]any{"ranges": ns}
	if m.Handed {
		out["handed"] = true
	}
	if m.To != "" {
		out["to"] = m.To
	}
	return json.Marshal(out)
}

func (l *Links) move(ctx context.Context, i int, op string, m moving) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	t, err := l.boot(ctx, i, op, body, moveWithin)
	if err != nil {
		l.options.Log.Warn("ranges not moved", "operation", op, "ranges", m.Ranges, "enclave", l.all[i].options.Address, "error", err)
		return err
	}
	l.options.Log.Info("ranges moved", "operation", op, "ranges", m.Ranges, "enclave", l.all[i].options.Address, "handed", m.Handed)
	l.update(i, t)
	return nil
}

// takeGiven has a member take a range that was given to it, and tells whether it was.
func (l *Links) takeGiven(ctx context.Context, m member, r wire.Range) bool {
	body, err := json.Marshal(moving{Ranges: []wire.Range{r}, Handed: true})
	if err != nil {
		return false
	}
	t, err := l.boot(ctx, m.index, wire.OpTake, body, moveWithin)
	if err != nil {
		return false
	}
	l.update(m.index, t)
	return true
}

// adopt has ranges taken that nobody owns, or of whose owner nothing is seen.
func (l *Links) adopt(ctx context.Context) {
	open := l.unownedRanges()
	now := l.options.Now()
	rows := map[wire.Range]watched{}
	var due []wire.Range
	for _, r := range open {
		row, err := l.options.Own(ctx, wire.Own{Action: wire.OwnLook, Range: r})
		if err != nil {
			return // the store is away: nothing is known
		}
		w, seen := l.rows[r]
		if !seen || w.row != row {
			w = watched{row: row, since: now, slack: l.random(time.Second)}
		}
		rows[r] = w
		after := abandoned + w.slack
		switch {
		case row.Epoch == 0:
			after = 0
		case row.Released:
			after = loose + w.slack
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
		// A move that broke off half way left it for one of them, with its tips.
		if rows[r].row.Released && slices.ContainsFunc(ms, func(m member) bool { return l.takeGiven(ctx, m, r) }) {
			continue
		}
		w := rows[r]
		if l.move(ctx, ms[w.refused%len(ms)].index, wire.OpTake, moving{Ranges: []wire.Range{r}}) != nil {
			w.refused++
			rows[r] = w
		}
	}
}

// level moves ranges from who owns most, and all from who retires, to who owns least,
// with their tips, once all have owners.
func (l *Links) level(ctx context.Context) {
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
	for _, r := range rs { // one by one: each is away for the shortest time
		if l.move(ctx, rich.index, wire.OpGive, moving{Ranges: []wire.Range{r}, To: poor.table.Boot}) != nil ||
			l.move(ctx, poor.index, wire.OpTake, moving{Ranges: []wire.Range{r}, Handed: true}) != nil {
			return
		}
	}
}
