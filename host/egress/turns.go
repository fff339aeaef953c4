package egress

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"cloister/host/store"
	"cloister/shared/wire"
)

// kinds are the kinds of sends that have no receiver. Each has a rotation of its own.
var kinds = []wire.SendKind{wire.SendTransaction, wire.SendMail, wire.SendText, wire.SendUsage, wire.SendProgram}

// looked is the most due sends of a kind that are listed; if there are more, findLanes searches for lanes.
const looked = 2 * inWork

// maxPayers bounds the payers whose position a rotation remembers.
const maxPayers = 1 << 12

// A rotation is the round-robin order in which sends of one kind are claimed: one send per payer, for each
// payer from its organizations in turn, repeated while sends are due. So an organization with many sends
// delays each send of another payer by at most one of its own.
//
// A round is a list of lanes that is looked up once and served as places get free, for poll at most. The
// next round continues after the lane that was served last.
type rotation struct {
	round   []store.Lane // the rest of the round, a lane for each send
	partial bool         // more sends are due than were listed
	until   time.Time    // end of the round
	payer   wire.ID      // the payer served last
	// organizations has the organization served last of each payer.
	organizations map[wire.ID]wire.ID
}

// start makes a round of lanes; counts are upper bounds of their due sends. A partial round, whose counts are
// not exact, has at most inWork sends.
func (r *rotation) start(lanes []store.Lane, counts []int, partial bool, until time.Time) {
	of := map[wire.ID][]int{} // indices into lanes by payer
	for i := range lanes {
		of[lanes[i].Payer] = append(of[lanes[i].Payer], i)
	}
	if !partial || len(r.organizations) > maxPayers {
		maps.DeleteFunc(r.organizations, func(payer, _ wire.ID) bool { return of[payer] == nil })
	}
	for payer, places := range of {
		of[payer] = rotate(places, r.organizations[payer], func(i int) wire.ID { return lanes[i].Organization })
	}
	payers := rotate(slices.Collect(maps.Keys(of)), r.payer, func(id wire.ID) wire.ID { return id })
	r.round, r.partial, r.until = nil, partial, until
	for len(payers) > 0 && !(partial && len(r.round) >= inWork) {
		p := payers[0]
		i := of[p][0]
		payers, of[p] = payers[1:], of[p][1:]
		r.round = append(r.round, lanes[i])
		if counts[i]--; counts[i] > 0 {
			of[p] = append(of[p], i)
		}
		if len(of[p]) > 0 {
			payers = append(payers, p)
		}
	}
}

// rotate sorts all by id and rotates it so that it begins with the first id greater than after.
func rotate[T any](all []T, after wire.ID, id func(T) wire.ID) []T {
	compare := func(x T, after wire.ID) int {
		i := id(x)
		return bytes.Compare(i[:], after[:])
	}
	slices.SortFunc(all, func(a, b T) int { return compare(a, id(b)) })
	n := slices.IndexFunc(all, func(x T) bool { return compare(x, after) > 0 })
	if n <= 0 {
		return all
	}
	return slices.Concat(all[n:], all[:n])
}

// nextLane removes and returns the next lane of the round.
func (r *rotation) nextLane() store.Lane {
	l := r.round[0]
	r.round = r.round[1:]
	r.payer, r.organizations[l.Payer] = l.Payer, l.Organization
	return l
}

// drop removes a lane from the round, since no send is due in it any more.
func (r *rotation) drop(l store.Lane) {
	r.round = slices.DeleteFunc(r.round, func(one store.Lane) bool { return one == l })
}

// freePlaces is the number of sends of a kind that may be claimed. For a kind with a server it is the server's
// free places, 0 while it is paused: other claims would only be returned.
func (s *Sender) freePlaces(kind wire.SendKind) int {
	server := servers[kind]
	if server == "" {
		return inWork
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.nodes[server]
	switch {
	case st == nil:
		return ofNode
	case s.options.Now().Before(st.until):
		return 0
	}
	return ofNode - st.working
}

// takePlace reserves a place at the server of a kind, if the kind has a server.
func (s *Sender) takePlace(kind wire.SendKind) {
	if server := servers[kind]; server != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.standingOf(server).working++
	}
}

// startRounds starts a round for each kind that has places and whose round is served or over. While no send is
// due, that is one query.
func (s *Sender) startRounds(ctx context.Context, now time.Time) error {
	var ask []wire.SendKind
	for _, k := range kinds {
		if r := s.rotations[k]; s.freePlaces(k) > 0 && (len(r.round) == 0 || !now.Before(r.until)) {
			ask = append(ask, k)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	due, err := s.options.Outbox.Due(ctx, store.Due{NowMs: ms(now), Kinds: ask, Limit: looked})
	if err != nil {
		return err
	}
	of := map[wire.SendKind][]store.Lane{}
	for _, l := range due {
		of[l.Kind] = append(of[l.Kind], l)
	}
	for _, k := range ask {
		lanes, counts := store.Counts(of[k])
		partial := len(of[k]) >= looked
		if partial {
			if lanes, counts, err = s.findLanes(ctx, k, now); err != nil {
				return err
			}
		}
		s.rotations[k].start(lanes, counts, partial, now.Add(poll))
	}
	return nil
}

// findLanes finds lanes for a round of a kind without listing all due sends: of up to inWork payers, and of
// each as many lanes as its share of the places. The counts are inWork for each lane, since it doesn't count
// the due sends.
func (s *Sender) findLanes(ctx context.Context, kind wire.SendKind, now time.Time) (lanes []store.Lane, counts []int, err error) {
	r := s.rotations[kind]
	var payers []wire.ID
	for _, after := range []wire.ID{r.payer, {}} {
		if len(payers) >= inWork || after == (wire.ID{}) && after == r.payer && payers != nil {
			break
		}
		more, err := s.options.Outbox.Payers(ctx, store.Payers{NowMs: ms(now), Kind: kind, After: after, Limit: inWork})
		if err != nil {
			return nil, nil, err
		}
		payers = union(payers, more)
	}
	if payers = payers[:min(len(payers), inWork)]; len(payers) == 0 {
		return nil, nil, nil
	}
	each := inWork/len(payers) + 1
	var ask []store.Lane
	for _, p := range payers {
		ask = append(ask, store.Lane{Kind: kind, Payer: p, Organization: r.organizations[p]})
	}
	for len(ask) > 0 {
		more, err := s.options.Outbox.Lanes(ctx, store.Lanes{NowMs: ms(now), After: ask, Limit: each})
		if err != nil {
			return nil, nil, err
		}
		lanes = union(lanes, more)
		found := map[wire.ID]int{}
		for _, l := range lanes {
			found[l.Payer]++
		}
		var again []store.Lane // wrap around to the first organization
		for _, l := range ask {
			if found[l.Payer] < each && l.Organization != (wire.ID{}) {
				again = append(again, store.Lane{Kind: kind, Payer: l.Payer})
			}
		}
		ask = again
	}
	return lanes, slices.Repeat([]int{inWork}, len(lanes)), nil
}

// union appends to all the elements of more that are not in it.
func union[T comparable](all, more []T) []T {
	for _, x := range more {
		if !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

// takeLanes removes lanes for at most room sends from the rounds, round-robin over the kinds that have places.
func (s *Sender) takeLanes(free int) (lanes []store.Lane) {
	places := map[wire.SendKind]int{}
	for _, k := range kinds {
		places[k] = s.freePlaces(k)
	}
	for without := 0; free > 0 && without < len(kinds); s.nextKind = (s.nextKind + 1) % len(kinds) {
		k := kinds[s.nextKind]
		r := s.rotations[k]
		if places[k] <= 0 || len(r.round) == 0 {
			without++
			continue
		}
		lanes = append(lanes, r.nextLane())
		places[k]--
		free--
		without = 0
	}
	return lanes
}

// hasMore reports whether more sends may be claimed at once: a round has lanes left, or not all due sends were listed.
func (s *Sender) hasMore() bool {
	return slices.ContainsFunc(kinds, func(k wire.SendKind) bool {
		r := s.rotations[k]
		return (len(r.round) > 0 || r.partial) && s.freePlaces(k) > 0
	})
}
