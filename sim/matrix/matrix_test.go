package matrix_test

import (
	"maps"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/shared/wire"
	"cloister/sim/client"
)

// nobody has a key that no organization knows.
var nobody = &principal{Key: client.NewKey()}

var unstamped = &principal{Stamp: func([]byte) ([]wire.Header, error) { return nil, nil }}

// planted is how many wrong cells must all be found.
const planted = 20

// TestMatrix holds every cell of the table against the running product, wants a
// row for every live operation, and then makes sure that wrong cells are found.
func TestMatrix(t *testing.T) {
	table := readTable(t)
	rows := table.rows()
	w := newWorld(t, 6+2*len(rows)+len(columns))
	live := w.live(readOperations(t))
	for op := range live {
		for _, target := range []string{"top", "sub"} {
			if _, ok := table[cell{op, target, "other", "root"}]; !ok {
				t.Errorf("%s is live and has no row for %s", op, target)
			}
		}
	}
	for _, r := range rows {
		if !live[r.op] {
			t.Errorf("%s has a row and is not live", r.op)
		}
	}
	came := w.run(rows, live)
	for _, c := range differ(table, came) {
		t.Errorf("%s: %s, the table says %s", c, came[c], table[c])
	}
	t.Logf("%d cells of %d operations", len(table), len(live))
	t.Run("planted", func(t *testing.T) { plant(t, table, came) })
}

// plant changes cells of the table to other outcomes and wants the comparison to
// name exactly those beside what it named before.
func plant(t *testing.T, table, came outcomes) {
	cells := slices.SortedFunc(maps.Keys(table), func(a, b cell) int { return strings.Compare(a.String(), b.String()) })
	others := []string{absent, none}
	for _, word := range words {
		if !slices.Contains(others, word) {
			others = append(others, word)
		}
	}
	slices.Sort(others)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	before := differ(table, came)
	wrong, want := maps.Clone(table), map[cell]bool{}
	for len(want) < planted {
		c, word := cells[r.Intn(len(cells))], others[r.Intn(len(others))]
		if word != table[c] && !want[c] && !slices.Contains(before, c) {
			wrong[c], want[c] = word, true
		}
	}
	got := differ(wrong, came)
	for _, c := range got {
		if !want[c] && !slices.Contains(before, c) {
			t.Errorf("%s is right and was called wrong", c)
		}
		delete(want, c)
	}
	for c := range want {
		t.Errorf("%s was changed to %s and not found", c, wrong[c])
	}
}

// live are the operations that do not answer UNIMPLEMENTED to a good stamp.
func (w *world) live(all []operation) map[string]bool {
	live := map[string]bool{}
	probe := w.top()
	for _, o := range all {
		var r reply
		switch o.kind {
		case "submit":
			r = w.send(probe.root, wire.EndpointSubmit, o.op, probe.root.Body(o.typ, object{}))
		case "query":
			r = probe.ask(probe.root, o.op, nil)
		default:
			continue
		}
		if r.Status != 501 {
			live[o.op] = true
		}
	}
	return live
}

// A stage is where one row is played: a target of its own for each row that
// changes something, one of each kind for all that read.
type stage struct {
	row     cell
	at      *tenant
	twin    *tenant // like at; its quorum is two of two once its body is made
	sibling *tenant
	child   *tenant
	other   *tenant
	fresh   []*tenant         // of a row that ends its target: one for each column
	asked   map[string]object // of the twin, by query
}

// ends are the operations that end their target.
var ends = map[string]string{"delete_sub_organization": "sub", "delete_organization": "top"}

// run plays every row and returns what came.
func (w *world) run(rows []cell, live map[string]bool) outcomes {
	parent, other := w.top().populate(), w.top().populate()
	sibling := parent.sub().populate()
	target := func(r cell) *tenant {
		if r.target == "top" {
			return w.top()
		}
		return parent.sub()
	}
	stages := make([]*stage, len(rows))
	w.each(len(rows), func(i int) {
		r := rows[i]
		s := &stage{row: r, other: other}
		stages[i] = s
		if _, ok := submits[r.op]; !ok || !live[r.op] {
			return // a query, or what has no body
		}
		s.set(target(r).populate(), target(r).populate(), sibling)
		if ends[r.op] == r.target {
			for range columns {
				s.fresh = append(s.fresh, target(r).populate())
			}
		}
	})
	reading := map[string]*stage{}
	for _, name := range []string{"top", "sub"} {
		s := &stage{row: cell{target: name}, other: other}
		s.set(target(s.row).populate(), target(s.row).populate(), sibling)
		s.asked = map[string]object{}
		for op := range live {
			if request := queries[op]; request != nil {
				s.asked[op] = request(s.twin)
			}
		}
		s.twin.raise()
		reading[name] = s
	}
	w.clock.Pass(5 * time.Second) // what expires has expired
	came := outcomes{}
	var mu sync.Mutex
	w.each(len(stages), func(i int) {
		s := stages[i]
		if s.at == nil {
			return
		}
		got := s.play()
		mu.Lock()
		maps.Copy(came, got)
		mu.Unlock()
	})
	for _, s := range stages {
		if _, ok := queries[s.row.op]; ok && live[s.row.op] {
			maps.Copy(came, s.read(reading[s.row.target]))
		} else if s.at == nil {
			w.t.Errorf("%s has no body", s.row.op)
		}
	}
	return came
}

// each calls f for 0 to n-1, some at a time.
func (w *world) each(n int, f func(int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

func (s *stage) set(at, twin, sibling *tenant) {
	s.at, s.twin = at, twin
	if at.parent == nil {
		s.child = at.sub().few()
	} else {
		s.sibling = sibling
	}
}

// few gives a tenant the members that count elsewhere.
func (t *tenant) few() *tenant {
	k := client.NewKey()
	r := t.do("CREATE_USERS_V4", client.Users(client.NewUser("User", k)))
	t.as = map[string]*principal{"root": t.root, "user": t.keyed(client.Text(r, "userIds", "0"), k)}
	return t
}

// principal is who a column means here, or why nobody.
func (s *stage) principal(column string) (*principal, string) {
	of := func(t *tenant, who string) (*principal, string) {
		if t == nil {
			return nil, none
		}
		return t.as[who], ""
	}
	switch column {
	case "recovery", "proxy":
		return nil, absent
	case "root-2":
		return s.twin.root, ""
	case "parent-root":
		return of(s.at.parent, "root")
	case "parent-user":
		return of(s.at.parent, "user")
	case "child-root":
		return of(s.child, "root")
	case "child-user":
		return of(s.child, "user")
	case "sibling-root":
		return of(s.sibling, "root")
	case "sibling-user":
		return of(s.sibling, "user")
	case "other-root":
		return of(s.other, "root")
	case "other-user":
		return of(s.other, "user")
	case "nobody":
		return nobody, ""
	case "unstamped":
		return unstamped, ""
	}
	return of(s.at, column)
}

// play sends the row's body as every principal.
func (s *stage) play() outcomes {
	came := outcomes{}
	m := submits[s.row.op]
	for i, column := range columns {
		if s.fresh != nil && !strings.HasPrefix(column, "child-") {
			s.at = s.fresh[i]
		}
		c := s.row
		c.column = column
		by, why := s.principal(column)
		if by == nil {
			came[c] = why
			continue
		}
		at := s.at
		if column == "root-2" {
			at = s.twin
		}
		params := m.params(at, by, s.row.about == "self")
		if column == "root-2" {
			at.raise()
		}
		came[c] = at.w.send(by, wire.EndpointSubmit, s.row.op, at.root.Body(m.typ, params)).outcome()
	}
	return came
}

// read asks the row's query as every principal.
func (s *stage) read(on *stage) outcomes {
	came := outcomes{}
	request := queries[s.row.op](on.at)
	for _, column := range columns {
		c := s.row
		c.column = column
		by, why := on.principal(column)
		if by == nil {
			came[c] = why
			continue
		}
		at, about := on.at, request
		if column == "root-2" {
			at, about = on.twin, on.asked[s.row.op]
		}
		came[c] = at.ask(by, s.row.op, about).outcome()
	}
	return came
}
