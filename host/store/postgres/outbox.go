package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// A sending is a batch's sends, as arrays.
type sending struct {
	uuid   [][16]byte
	seq    []int64
	number []int16
	kind   []int16
	due    []int64
	// NULL where a send has no receiver.
	receiver, activity []*[16]byte
	payer              [][16]byte
}

// arrangeSends converts a batch's sends to arrays. It is nil for a batch without sends.
func arrangeSends(b *wire.Batch) (z *sending) {
	for i := range b.Entries {
		e := &b.Entries[i]
		for n := range e.Sends {
			if z == nil {
				z = new(sending)
			}
			z.uuid, z.seq, z.number = append(z.uuid, e.Organization), append(z.seq, int64(e.Seq)), append(z.number, int16(n))
			z.kind, z.due = append(z.kind, int16(e.Sends[n].Kind)), append(z.due, int64(e.Sends[n].DueMs))
			var receiver, activity *[16]byte
			if e.Sends[n].Receiver != (wire.ID{}) {
				receiver, activity = (*[16]byte)(&e.Sends[n].Receiver), (*[16]byte)(&e.Activity)
			}
			z.receiver, z.activity = append(z.receiver, receiver), append(z.activity, activity)
			z.payer = append(z.payer, payerOf(e.Sends[n].Payer, e.Organization))
		}
	}
	return z
}

// Sends are ordered by due time, and those with the same due time by their entries, so that an
// account's transactions are sent in the order in which they were made. Sends that another sender
// claims at the same moment are skipped.
const (
	claimOfLanes = `WITH mine AS (
			SELECT o.organization, o.seq, o.number FROM unnest($4::smallint[], $5::uuid[], $6::uuid[], $7::int[]) AS l (kind, payer, organization, n), LATERAL (
				SELECT o.organization, o.seq, o.number FROM outbox o WHERE o.state < 3 AND o.receiver IS NULL AND o.due <= $2 AND o.claimed <= $2
				AND o.kind = l.kind AND o.payer = l.payer AND o.organization = l.organization
				ORDER BY o.due, o.seq, o.number LIMIT l.n FOR UPDATE SKIP LOCKED) o),` + claimMine
	claimForReceiver = `WITH mine AS (
			SELECT organization, seq, number FROM outbox o WHERE state < 3 AND receiver IS NOT NULL AND due <= $2 AND claimed <= $2 AND receiver = $5
			AND NOT EXISTS (SELECT 1 FROM outbox e WHERE e.state < 3 AND e.receiver IS NOT NULL AND e.receiver = o.receiver AND e.activity = o.activity AND e.seq < o.seq)
			ORDER BY due, organization, seq, number LIMIT $4 FOR UPDATE SKIP LOCKED),` + claimMine
	claimMine = ` claims AS (
			UPDATE outbox o SET claimant = $1, claimed = $3 FROM mine m
			WHERE o.organization = m.organization AND o.seq = m.seq AND o.number = m.number
			RETURNING o.organization, o.seq, o.number, o.kind, o.state, o.due, o.tries, o.said, o.revert, o.memo, o.receiver, o.activity)
		SELECT * FROM claims ORDER BY due, organization, seq, number`
	due = `SELECT o.kind, o.payer, o.organization FROM unnest($2::smallint[]) AS k (kind), LATERAL (
			SELECT o.kind, o.payer, o.organization FROM outbox o WHERE o.state < 3 AND o.receiver IS NULL AND o.kind = k.kind AND o.due BETWEEN 0 AND $1 AND o.claimed <= $1
			ORDER BY o.due LIMIT $3) o`
	// One step along the index for each payer or organization, however many sends it has, and one to check whether one is
	// due: EXISTS would become a join, which reads all due sends.
	payers = `WITH RECURSIVE p (payer) AS (
			(SELECT payer FROM outbox WHERE state < 3 AND receiver IS NULL AND kind = $1 AND payer > $2 ORDER BY payer LIMIT 1)
			UNION ALL SELECT (SELECT o.payer FROM outbox o WHERE o.state < 3 AND o.receiver IS NULL AND o.kind = $1 AND o.payer > p.payer ORDER BY o.payer LIMIT 1)
			FROM p WHERE p.payer IS NOT NULL)
		SELECT payer FROM p WHERE payer IS NOT NULL AND (
			SELECT true FROM outbox o WHERE o.state < 3 AND o.receiver IS NULL AND o.kind = $1 AND o.payer = p.payer AND o.due <= $3 AND o.claimed <= $3
			ORDER BY o.organization, o.due LIMIT 1) LIMIT $4`
	lanesOfPayer = `WITH RECURSIVE l (organization) AS (
			(SELECT organization FROM outbox WHERE state < 3 AND receiver IS NULL AND kind = $1 AND payer = $2 AND organization > $3 ORDER BY organization LIMIT 1)
			UNION ALL SELECT (SELECT o.organization FROM outbox o WHERE o.state < 3 AND o.receiver IS NULL AND o.kind = $1 AND o.payer = $2
				AND o.organization > l.organization ORDER BY o.organization LIMIT 1)
			FROM l WHERE l.organization IS NOT NULL)
		SELECT organization FROM l WHERE organization IS NOT NULL AND (
			SELECT true FROM outbox o WHERE o.state < 3 AND o.receiver IS NULL AND o.kind = $1 AND o.payer = $2 AND o.organization = l.organization
			AND o.due <= $4 AND o.claimed <= $4 ORDER BY o.due LIMIT 1) LIMIT $5`
	// One step along the index for each receiver, however many sends it has.
	receivers = `WITH RECURSIVE r (receiver) AS (
			(SELECT receiver FROM outbox WHERE state < 3 AND receiver IS NOT NULL AND receiver > $1 ORDER BY receiver LIMIT 1)
			UNION ALL SELECT (SELECT o.receiver FROM outbox o WHERE o.state < 3 AND o.receiver IS NOT NULL AND o.receiver > r.receiver ORDER BY o.receiver LIMIT 1)
			FROM r WHERE r.receiver IS NOT NULL)
		SELECT receiver FROM r WHERE receiver IS NOT NULL AND EXISTS (
			SELECT 1 FROM outbox o WHERE o.state < 3 AND o.receiver IS NOT NULL AND o.receiver = r.receiver AND o.due <= $2 AND o.claimed <= $2) LIMIT $3`
	deadSends = `SELECT organization, seq, number, kind, state, due, tries, said, revert, memo, receiver, activity FROM outbox
		WHERE state = 5 AND receiver IS NOT NULL AND (organization, seq, number) > ($1, $2, $3) ORDER BY organization, seq, number LIMIT $4`
	// The condition on due is always so: it names the index, see its migration.
	deliveries = `SELECT organization, seq, number, kind, state, due, tries, said, revert, memo, receiver, activity FROM outbox
		WHERE receiver IS NOT NULL AND due >= 0 AND receiver = $1 AND (due, organization, seq, number) < ($2, $3, $4, $5)`
	failed    = ` AND state <> 3 AND (tries > 0 OR state > 3)`
	lastFirst = ` ORDER BY due DESC, organization DESC, seq DESC, number DESC LIMIT $6`
	resend    = `UPDATE outbox SET state = 1, due = $1, tries = 0, claimant = NULL, claimed = 0, memo = ''
		WHERE state = 5 AND receiver IS NOT NULL AND ($2::uuid IS NULL OR organization = $2 AND seq = $3 AND number = $4) AND ($5::uuid IS NULL OR receiver = $5)`
	keepSend = `UPDATE outbox SET state = $1, due = $2, tries = $3, said = $4, revert = $5, memo = $6, claimant = NULL, claimed = 0
		WHERE organization = $7 AND seq = $8 AND number = $9 AND claimant = $10 AND state < 3 AND state <= $1`
	statesOfSends = `SELECT coalesce(o.state, 0), coalesce(o.said, ''), coalesce(o.revert, '')
		FROM unnest($1::uuid[], $2::bigint[], $3::smallint[]) WITH ORDINALITY AS z (u, s, n, i)
		LEFT JOIN outbox o ON o.organization = z.u AND o.seq = z.s AND o.number = z.n ORDER BY z.i`
)

// ClaimSends implements store.Outbox.
func (s *Store) ClaimSends(ctx context.Context, ask store.ClaimSends) (sends []store.Send, err error) {
	if err := store.CheckClaim(ask); err != nil {
		return nil, err
	}
	text, args := claimOfLanes, []any{[16]byte(ask.Claimant), int64(ask.NowMs), int64(ask.UntilMs)}
	if ask.Receiver != (wire.ID{}) {
		text, args = claimForReceiver, append(args, ask.Limit, [16]byte(ask.Receiver))
	} else {
		args = append(args, lanesAsArrays(ask.Lanes)...)
	}
	err = s.write(ctx, func(tx pgx.Tx) (err error) {
		sends, err = sendsOf(ctx, tx, text, args...)
		return err
	})
	return store.Result(sends, err, "claiming sends")
}

// lanesAsArrays returns arrays of the distinct lanes' kinds, payers and organizations, and of how often each is named.
func lanesAsArrays(all []store.Lane) []any {
	lanes, counts := store.Counts(all)
	kinds, ns, payers, organizations := make([]int16, len(lanes)), make([]int32, len(lanes)), make([][16]byte, len(lanes)), make([][16]byte, len(lanes))
	for i, l := range lanes {
		kinds[i], payers[i], organizations[i], ns[i] = int16(l.Kind), l.Payer, l.Organization, int32(counts[i])
	}
	return []any{list(kinds), list(payers), list(organizations), list(ns)}
}

// payerOf is the value of column payer.
func payerOf(payer, organization wire.ID) [16]byte {
	if payer == (wire.ID{}) {
		return organization
	}
	return payer
}

func sendsOf(ctx context.Context, on querier, text string, args ...any) (sends []store.Send, err error) {
	var id [16]byte
	var seq, due, tries int64
	var number, kind, state int16
	var said string
	var revert, memo []byte
	var receiver, activity *[16]byte
	err = each(ctx, on, text, args, []any{&id, &seq, &number, &kind, &state, &due, &tries, &said, &revert, &memo, &receiver, &activity}, func() error {
		x := store.Send{
			ID: wire.SendID{Organization: id, Seq: uint64(seq), Number: uint16(number)}, Kind: wire.SendKind(kind), State: wire.SendState(state),
			DueMs: uint64(due), Tries: uint32(tries), Text: said, Revert: revert, Memo: memo,
		}
		if receiver != nil {
			x.Receiver = *receiver
		}
		if activity != nil {
			x.Activity = *activity
		}
		sends = append(sends, x)
		revert, memo, receiver, activity = nil, nil, nil, nil
		return nil
	})
	return sends, err
}

// Due implements store.Outbox.
func (s *Store) Due(ctx context.Context, ask store.Due) (lanes []store.Lane, err error) {
	if err := store.CheckDue(ask); err != nil {
		return nil, err
	}
	kinds := make([]int16, len(ask.Kinds))
	for i, k := range ask.Kinds {
		kinds[i] = int16(k)
	}
	var kind int16
	var payer, organization [16]byte
	err = each(ctx, s.pool, due, []any{int64(ask.NowMs), list(kinds), ask.Limit}, []any{&kind, &payer, &organization}, func() error {
		lanes = append(lanes, store.Lane{Kind: wire.SendKind(kind), Payer: payer, Organization: organization})
		return nil
	})
	return store.Result(lanes, err, "looking for what is due")
}

// Payers implements store.Outbox.
func (s *Store) Payers(ctx context.Context, ask store.Payers) (ids []wire.ID, err error) {
	if err := store.CheckPayers(ask); err != nil {
		return nil, err
	}
	var id [16]byte
	err = each(ctx, s.pool, payers, []any{int16(ask.Kind), [16]byte(ask.After), int64(ask.NowMs), ask.Limit}, []any{&id}, func() error {
		ids = append(ids, id)
		return nil
	})
	return store.Result(ids, err, "looking for payers")
}

// Lanes implements store.Outbox. One statement reads all payers.
func (s *Store) Lanes(ctx context.Context, ask store.Lanes) (lanes []store.Lane, err error) {
	if err := store.CheckLanes(ask); err != nil {
		return nil, err
	}
	var batch pgx.Batch
	for _, l := range ask.After {
		batch.Queue(lanesOfPayer, int16(l.Kind), [16]byte(l.Payer), [16]byte(l.Organization), int64(ask.NowMs), ask.Limit).Query(func(rows pgx.Rows) error {
			var id [16]byte
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
				l.Organization = id
				lanes = append(lanes, l)
				return nil
			})
			return err
		})
	}
	return store.Result(lanes, s.pool.SendBatch(ctx, &batch).Close(), "looking for lanes")
}

// Receivers implements store.Outbox.
func (s *Store) Receivers(ctx context.Context, ask store.Receivers) (ids []wire.ID, err error) {
	if err := store.CheckReceivers(ask); err != nil {
		return nil, err
	}
	var id [16]byte
	err = each(ctx, s.pool, receivers, []any{[16]byte(ask.After), int64(ask.NowMs), ask.Limit}, []any{&id}, func() error {
		ids = append(ids, id)
		return nil
	})
	return store.Result(ids, err, "looking for receivers")
}

// DeadSends implements store.Outbox.
func (s *Store) DeadSends(ctx context.Context, ask store.DeadSends) (sends []store.Send, err error) {
	if err := store.CheckDead(ask); err != nil {
		return nil, err
	}
	after, number := wire.SendID{}, int16(-1)
	if ask.After != nil {
		after, number = *ask.After, int16(ask.After.Number)
	}
	sends, err = sendsOf(ctx, s.pool, deadSends, [16]byte(after.Organization), int64(after.Seq), number, ask.Limit)
	return store.Result(sends, err, "looking for dead letters")
}

// Resend implements store.Outbox.
func (s *Store) Resend(ctx context.Context, ask store.Resend) (int, error) {
	if err := store.CheckResend(ask); err != nil {
		return 0, err
	}
	var organization, receiver *[16]byte
	var seq, number int64
	if ask.Send != nil {
		organization, seq, number = (*[16]byte)(&ask.Send.Organization), int64(ask.Send.Seq), int64(ask.Send.Number)
	}
	if ask.Receiver != (wire.ID{}) {
		receiver = (*[16]byte)(&ask.Receiver)
	}
	wrote, err := s.pool.Exec(ctx, resend, int64(ask.NowMs), organization, seq, number, receiver)
	return store.Result(int(wrote.RowsAffected()), err, "sending again")
}

// KeepSend implements store.Outbox.
func (s *Store) KeepSend(ctx context.Context, claimant wire.ID, x store.Send) (kept bool, err error) {
	if err := store.CheckSend(claimant, &x); err != nil {
		return false, err
	}
	wrote, err := s.pool.Exec(ctx, keepSend, int16(x.State), int64(x.DueMs), int64(x.Tries), x.Text, notNull(x.Revert), notNull(x.Memo),
		[16]byte(x.ID.Organization), int64(x.ID.Seq), int16(x.ID.Number), [16]byte(claimant))
	return store.Result(wrote.RowsAffected() > 0, err, "keeping a send")
}

// notNull returns b, never nil: the driver stores nil as NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// SendStates implements store.Outbox.
func (s *Store) SendStates(ctx context.Context, ask wire.Sends) (wire.SendStates, error) {
	if err := store.CheckSends(ask); err != nil {
		return wire.SendStates{}, err
	}
	uuids, seqs, numbers := make([][16]byte, len(ask.Sends)), make([]int64, len(ask.Sends)), make([]int16, len(ask.Sends))
	for i, id := range ask.Sends {
		uuids[i], seqs[i], numbers[i] = id.Organization, int64(id.Seq), int16(id.Number)
	}
	states := wire.SendStates{Statuses: make([]wire.SendStatus, 0, len(ask.Sends))}
	var state int16
	var said string
	var revert []byte
	err := each(ctx, s.pool, statesOfSends, []any{list(uuids), list(seqs), list(numbers)}, []any{&state, &said, &revert}, func() error {
		states.Statuses = append(states.Statuses, wire.SendStatus{State: wire.SendState(state), Text: said, Revert: revert})
		revert = nil
		return nil
	})
	return store.Result(states, err, "looking for sends")
}

// Deliveries implements store.Outbox.
func (s *Store) Deliveries(ctx context.Context, ask wire.Deliveries) (wire.DeliveryList, error) {
	if err := store.CheckDeliveries(ask); err != nil {
		return wire.DeliveryList{}, err
	}
	text := deliveries
	if ask.Failed {
		text += failed
	}
	before := store.BeginDeliveries(ask)
	id := &before.Send
	sends, err := sendsOf(ctx, s.pool, text+lastFirst, [16]byte(ask.Receiver), int64(before.TimeMs), [16]byte(id.Organization), int64(id.Seq), int16(id.Number), int64(ask.Limit))
	return store.Result(store.DeliveryList(sends), err, "looking for deliveries")
}
