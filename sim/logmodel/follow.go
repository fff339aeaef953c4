package logmodel

import (
	"errors"
	"fmt"
	"slices"
)

// An Act is what a recorded run tells of.
type Act uint8

// The acts, and what Leaf and Other of their events are.
const (
	// Start begins Boot on leaf Other, or none if that is negative, under manifest Under; Leaf is its own: that of a
	// boot, or the one that closes a generation, or adopts it.
	Start Act = iota
	// Decide makes Leaf the newest of Boot.
	Decide
	// Adopt makes Leaf the first of a generation, behind the leaf with which Boot has closed the one before.
	Adopt
	// Close makes Leaf the last of Boot and names boot Other.
	Close
	// Approve is of manifest Under, which recovers the log that ends with Leaf.
	Approve
	// Sign is of witness Other and Leaf.
	Sign
	// Forget is of witness Other.
	Forget
	// Bring gives Boot the cosignatures of a quorum for Leaf.
	Bring
	// Store says that Leaf is stored, where StoredFirst is left out: else it is from the first.
	Store
	// AskQuery begins an answer of Boot that knows of Leaf, if that is not negative. It is given by the next Told with the
	// same Other, from 0 to 63.
	AskQuery
	// AskBounded is AskQuery for one that does not wait for a quorum.
	AskBounded
	// AskSubmit begins an answer that tells of what was decided in Leaf.
	AskSubmit
	// Told says that an answer has been given.
	Told
)

var actForms = [...]string{startsOn, decides, adopts, closesFor, "", signs, forgets, hasQuorum, isStored, answersQuery, answersBound, answersSubmit}

var actNames = [...]string{"start", "decision", "adoption", "close", "approval", "signature", "lost memory", "quorum", "storing", "query", "bounded answer", "submit", "answer"}

func (a Act) String() string { return actNames[a] }

// An Event is one of a recorded run. Boots and leaves are numbered in the order in which they begin, witnesses that are
// no liars as one likes.
type Event struct {
	Tick  int // since the run began; never less than in the event before
	Act   Act
	Boot  int8
	Leaf  int8
	Other int8
	Under int8
}

func (e Event) String() string {
	return fmt.Sprintf("%s at tick %d: boot %d, leaf %d, other %d", e.Act, e.Tick, e.Boot, e.Leaf, e.Other)
}

// ErrLong says that a run does not fit into the model.
var ErrLong = errors.New("logmodel: the run is longer than the model")

// A Refusal says that there is no such run.
type Refusal struct {
	At      int    // of the event in the run
	Event   Event  // it; of an answer what was asked
	Promise string // which it would break; empty: there is no such step
}

func (r *Refusal) Error() string {
	promise := r.Promise
	if promise == "" {
		promise = "there is no such step"
	}
	return fmt.Sprintf("event %d of a run (%v): %s", r.At, r.Event, promise)
}

// early is by how many ticks an event may have come before or after its time.
const early = 1

// A place is where a run may be after some of its events.
type place struct {
	state
	ticks int
	given uint64 // answers that were asked for and given, by Other
}

// Follow takes a recorded run through the steps of Explore, from the empty log on: each event must be one of them, at its
// time or a tick before or after, and break no promise. An answer is given at any moment between its Ask and its Told. The size
// need not be sound. The error is a *Refusal if the run is none of the model's, and ErrLong if that cannot be said.
func Follow(size Size, run []Event) error {
	if !size.fits() {
		return ErrLong
	}
	f := follower{size: &size, places: map[place]bool{{state: empty()}: true}}
	for i, e := range run {
		if e.Other >= 64 && e.Act >= AskQuery {
			return ErrLong
		}
		f.broke = ""
		f.pass(e.Tick)
		told := slices.IndexFunc(f.open, func(o Event) bool { return o.Other == e.Other })
		asked := e
		if e.Act == Told && told >= 0 {
			asked = f.open[told]
		}
		f.take(e)
		if len(f.places) == 0 {
			return &Refusal{i, asked, f.broke}
		}
	}
	return nil
}

type follower struct {
	size   *Size
	places map[place]bool
	open   []Event // answers that are asked for
	broke  string
	next   []step // of the last moment, for their room
}

// pass lets time pass, and gives answers that are asked for, in every way that there is.
func (f *follower) pass(tick int) {
	var todo []place
	reach := func(p place) {
		if !f.places[p] {
			f.places[p] = true
			todo = append(todo, p)
		}
	}
	for p := range f.places {
		todo = append(todo, p)
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if p.ticks < tick+early {
			m := f.moment(p)
			m.tick()
			f.next = m.next
			reach(place{m.next[0].to, p.ticks + 1, p.given})
		}
		for _, e := range f.open {
			if given := p.given | 1<<e.Other; given != p.given {
				for _, to := range f.steps(p, e) {
					reach(place{to, p.ticks, given})
				}
			}
		}
	}
}

func (f *follower) moment(p place) *moment {
	m := newMoment(f.size, p.state)
	m.followed, m.next = true, f.next[:0]
	return &m
}

// take keeps the places that an event leads to.
func (f *follower) take(e Event) {
	places := map[place]bool{}
	for p := range f.places {
		if p.ticks < e.Tick-early {
			continue
		}
		switch e.Act {
		case AskQuery, AskBounded, AskSubmit:
			places[p] = true
		case Approve:
			if e.Leaf >= 0 && e.Leaf < p.count && e.Under > 0 && int(e.Under) <= len(f.size.Manifests) && f.size.Manifests[e.Under-1].Recovers {
				p.heads[e.Under] = e.Leaf
				places[p] = true
			}
		case Told:
			if p.given>>e.Other&1 == 1 {
				p.given &^= 1 << e.Other
				places[p] = true
			}
		default:
			for _, to := range f.steps(p, e) {
				to.forgetAges(f.size)
				places[place{to, p.ticks, p.given}] = true
			}
		}
	}
	f.places = places
	switch e.Act {
	case AskQuery, AskBounded, AskSubmit:
		f.open = append(f.open, e)
	case Told:
		f.open = slices.DeleteFunc(f.open, func(o Event) bool { return o.Other == e.Other })
	}
}

// steps lead to the states that the model's steps of an event lead to.
func (f *follower) steps(p place, e Event) (all []state) {
	m := f.moment(p)
	switch {
	case e.Act == Start:
		m.start()
	case e.Act == Sign || e.Act == Forget:
		m.cosign()
	case e.Act == Store:
		m.store()
	case e.Boot < 0 || e.Boot >= p.started:
		return nil
	case e.Act == Bring:
		m.deliver(e.Boot)
	case p.boots[e.Boot].closed:
		return nil
	case e.Act == Decide || e.Act == Adopt || e.Act == Close:
		m.append(e.Boot)
	default:
		m.answer(e.Boot)
	}
	f.next = m.next
	for i := range m.next {
		s := &m.next[i]
		if s.form != actForms[e.Act] || !e.is(s) {
			continue
		}
		if s.broke != "" {
			f.broke = s.broke
			continue
		}
		all = append(all, s.to)
	}
	return all
}

// is tells whether a step of an event's kind is the one.
func (e Event) is(s *step) bool {
	switch e.Act {
	case Start:
		return [4]int8(s.args[:4]) == [4]int8{e.Boot, max(e.Other, none), e.Leaf, e.Under}
	case Close:
		return [3]int8(s.args[:3]) == [3]int8{e.Boot, e.Other, e.Leaf}
	case Sign:
		return s.args[0] == e.Leaf && s.args[1] == e.Other
	case Forget:
		return s.args[1] == e.Other
	case Store:
		return s.args[0] == e.Leaf
	case AskQuery, AskBounded:
		return e.Leaf < 0 || s.to.extends(s.args[1], e.Leaf)
	}
	return s.args[0] == e.Boot && s.args[1] == e.Leaf
}

// forgetAges makes states the same that differ in when leaves were sent that give no right any more.
func (s *state) forgetAges(size *Size) {
	for x := range s.leaves[:s.count] {
		if l := &s.leaves[x]; l.boot >= 0 && s.boots[l.boot].logged != none && s.extends(s.boots[l.boot].logged, int8(x)) {
			l.age = int8(size.Right)
		}
	}
}
