package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"slices"
	"strings"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Sends are ordered by due time, and those with the same due time by their entries, so that an
// account's transactions are sent in the order in which they were made.
const (
	sendColumns = `organization, seq, number, kind, state, due, tries, said, revert, memo, receiver, activity`
	dueOfLane   = `SELECT ` + sendColumns + ` FROM outbox INDEXED BY outbox_lane WHERE state < 3 AND receiver IS NULL AND due <= ? AND claimed <= ?
		AND kind = ? AND payer = ? AND organization = ? ORDER BY due, seq, number LIMIT ?`
	// For each kind, joined by UNION ALL.
	due = `SELECT * FROM (SELECT kind, payer, organization FROM outbox INDEXED BY outbox_due
		WHERE state < 3 AND receiver IS NULL AND kind = ? AND due <= ? AND claimed <= ? LIMIT ?)`
	// One step along the index for each payer or organization, however many sends it has.
	payers = `WITH RECURSIVE p (payer) AS (
			SELECT min(payer) FROM outbox INDEXED BY outbox_lane WHERE state < 3 AND receiver IS NULL AND kind = ?1 AND payer > ?2
			UNION ALL SELECT (SELECT min(payer) FROM outbox INDEXED BY outbox_lane WHERE state < 3 AND receiver IS NULL AND kind = ?1 AND payer > p.payer) FROM p WHERE p.payer IS NOT NULL)
		SELECT payer FROM p WHERE payer IS NOT NULL AND EXISTS (
			SELECT 1 FROM outbox o INDEXED BY outbox_lane WHERE o.state < 3 AND o.receiver IS NULL AND o.kind = ?1 AND o.payer = p.payer AND o.due <= ?3 AND o.claimed <= ?3) LIMIT ?4`
	lanesOfPayer = `WITH RECURSIVE l (organization) AS (
			SELECT min(organization) FROM outbox INDEXED BY outbox_lane WHERE state < 3 AND receiver IS NULL AND kind = ?1 AND payer = ?2 AND organization > ?3
			UNION ALL SELECT (SELECT min(organization) FROM outbox INDEXED BY outbox_lane WHERE state < 3 AND receiver IS NULL AND kind = ?1 AND payer = ?2 AND organization > l.organization)
			FROM l WHERE l.organization IS NOT NULL)
		SELECT organization FROM l WHERE organization IS NOT NULL AND EXISTS (
			SELECT 1 FROM outbox o INDEXED BY outbox_lane WHERE o.state < 3 AND o.receiver IS NULL AND o.kind = ?1 AND o.payer = ?2 AND o.organization = l.organization
			AND o.due <= ?4 AND o.claimed <= ?4) LIMIT ?5`
	dueOfReceiver = `SELECT ` + sendColumns + ` FROM outbox o WHERE state < 3 AND receiver IS NOT NULL AND due <= ? AND claimed <= ? AND receiver = ?
		AND NOT EXISTS (SELECT 1 FROM outbox e WHERE e.state < 3 AND e.receiver IS NOT NULL AND e.receiver = o.receiver AND e.activity = o.activity AND e.seq < o.seq)
		ORDER BY due, organization, seq, number LIMIT ?`
	// One step along the index for each receiver, however many sends it has.
	receivers = `WITH RECURSIVE r (receiver) AS (
			SELECT min(receiver) FROM outbox WHERE state < 3 AND receiver IS NOT NULL AND receiver > ?
			UNION ALL SELECT (SELECT min(receiver) FROM outbox WHERE state < 3 AND receiver IS NOT NULL AND receiver > r.receiver) FROM r WHERE r.receiver IS NOT NULL)
		SELECT receiver FROM r WHERE receiver IS NOT NULL AND EXISTS (
			SELECT 1 FROM outbox o WHERE o.state < 3 AND o.receiver IS NOT NULL AND o.receiver = r.receiver AND o.due <= ? AND o.claimed <= ?) LIMIT ?`
	deadSends = `SELECT ` + sendColumns + ` FROM outbox WHERE state = 5 AND receiver IS NOT NULL AND (organization, seq, number) > (?, ?, ?)
		ORDER BY organization, seq, number LIMIT ?`
	// The condition on due is always so: it names the index, see its migration.
	deliveries = `SELECT ` + sendColumns + ` FROM outbox WHERE receiver IS NOT NULL AND due >= 0 AND receiver = ? AND (due, organization, seq, number) < (?, ?, ?, ?)`
	failed     = ` AND state <> 3 AND (tries > 0 OR state > 3)`
	lastFirst  = ` ORDER BY due DESC, organization DESC, seq DESC, number DESC LIMIT ?`
	resend     = `UPDATE outbox SET state = 1, due = ?, tries = 0, claimant = NULL, claimed = 0, memo = x''
		WHERE state = 5 AND receiver IS NOT NULL`
	claimSend = `UPDATE outbox SET claimant = ?, claimed = ? WHERE organization = ? AND seq = ? AND number = ?`
	keepSend  = `UPDATE outbox SET state = ?, due = ?, tries = ?, said = ?, revert = ?, memo = ?, claimant = NULL, claimed = 0
		WHERE organization = ? AND seq = ? AND number = ? AND claimant = ? AND state < 3 AND state <= ? RETURNING 1`
	stateOfSend = `SELECT state, said, revert FROM outbox WHERE organization = ? AND seq = ? AND number = ?`
	putSend     = `INSERT INTO outbox (organization, seq, number, kind, state, due, tries, claimed, said, revert, memo, receiver, activity, payer)
		VALUES (?, ?, ?, ?, 1, ?, 0, 0, '', x'', x'', ?, ?, ?)`
)

// ClaimSends implements store.Outbox.
func (s *Store) ClaimSends(ctx context.Context, ask store.ClaimSends) (sends []store.Send, err error) {
	if err := store.CheckClaim(ask); err != nil {
		return nil, err
	}
	// Usually no send for a receiver is due, and a reading connection finds that out. For lanes the
	// caller has just queried Due.
	due := true
	if ask.Receiver != (wire.ID{}) {
		err = s.read(ctx, func(c *conn) error {
			row, err := c.firstRow(ctx, dueOfReceiver, int64(ask.NowMs), int64(ask.NowMs), ask.Receiver[:], int64(1))
			due = row != nil
			return err
		})
	}
	if err == nil && due {
		err = s.change(ctx, func(ctx context.Context) (bool, error) {
			sends, err = s.claim(ctx, ask)
			s.countWritten(int64(len(sends)) << 10)
			return len(sends) > 0, err
		})
	}
	return store.Result(sends, err, "claiming sends")
}

// sendsOf reads rows with the columns sendColumns.
func sendsOf(ctx context.Context, c *conn, text string, args ...driver.Value) (sends []store.Send, err error) {
	err = c.query(ctx, text, func(values []driver.Value) (bool, error) {
		c := columns{values: values}
		sends = append(sends, store.Send{
			ID:   wire.SendID{Organization: c.id(0), Seq: c.number(1), Number: uint16(c.number(2))},
			Kind: wire.SendKind(c.number(3)), State: wire.SendState(c.number(4)), DueMs: c.number(5), Tries: uint32(c.number(6)),
			Text: c.text(7), Revert: c.bytes(8), Memo: c.bytes(9), Receiver: c.id(10), Activity: c.id(11),
		})
		return true, c.err
	}, args...)
	return sends, err
}

func (s *Store) claim(ctx context.Context, ask store.ClaimSends) (sends []store.Send, err error) {
	if ask.Receiver != (wire.ID{}) {
		sends, err = sendsOf(ctx, s.writer, dueOfReceiver, int64(ask.NowMs), int64(ask.NowMs), ask.Receiver[:], int64(ask.Limit))
	} else {
		sends, err = s.dueOf(ctx, ask)
	}
	if err != nil {
		return nil, err
	}
	for i := range sends {
		id := &sends[i].ID
		if err := s.writer.exec(ctx, claimSend, ask.Claimant[:], int64(ask.UntilMs), id.Organization[:], int64(id.Seq), int64(id.Number)); err != nil {
			return nil, err
		}
	}
	return sends, nil
}

// dueOf finds the claimable sends of lanes, the earliest due first.
func (s *Store) dueOf(ctx context.Context, ask store.ClaimSends) (sends []store.Send, err error) {
	lanes, counts := store.Counts(ask.Lanes)
	for i := range lanes {
		l := &lanes[i]
		found, err := sendsOf(ctx, s.writer, dueOfLane, int64(ask.NowMs), int64(ask.NowMs), int64(l.Kind), l.Payer[:], l.Organization[:], int64(counts[i]))
		if err != nil {
			return nil, err
		}
		sends = append(sends, found...)
	}
	slices.SortFunc(sends, func(a, b store.Send) int {
		return cmp.Or(cmp.Compare(a.DueMs, b.DueMs), bytes.Compare(a.ID.Organization[:], b.ID.Organization[:]), cmp.Compare(a.ID.Seq, b.ID.Seq), cmp.Compare(a.ID.Number, b.ID.Number))
	})
	return sends, nil
}

// Due implements store.Outbox.
func (s *Store) Due(ctx context.Context, ask store.Due) (lanes []store.Lane, err error) {
	if err := store.CheckDue(ask); err != nil {
		return nil, err
	}
	var args []driver.Value
	for _, k := range ask.Kinds {
		args = append(args, int64(k), int64(ask.NowMs), int64(ask.NowMs), int64(ask.Limit))
	}
	text := strings.Join(slices.Repeat([]string{due}, len(ask.Kinds)), " UNION ALL ")
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, text, func(values []driver.Value) (bool, error) {
			c := columns{values: values}
			lanes = append(lanes, store.Lane{Kind: wire.SendKind(c.number(0)), Payer: c.id(1), Organization: c.id(2)})
			return true, c.err
		}, args...)
	})
	return store.Result(lanes, err, "looking for what is due")
}

// Payers implements store.Outbox.
func (s *Store) Payers(ctx context.Context, ask store.Payers) (ids []wire.ID, err error) {
	if err := store.CheckPayers(ask); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(c *conn) error {
		ids, err = idsOf(ctx, c, payers, int64(ask.Kind), ask.After[:], int64(ask.NowMs), int64(ask.Limit))
		return err
	})
	return store.Result(ids, err, "looking for payers")
}

// Lanes implements store.Outbox.
func (s *Store) Lanes(ctx context.Context, ask store.Lanes) (lanes []store.Lane, err error) {
	if err := store.CheckLanes(ask); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(c *conn) error {
		for i := range ask.After {
			l := ask.After[i]
			ids, err := idsOf(ctx, c, lanesOfPayer, int64(l.Kind), l.Payer[:], l.Organization[:], int64(ask.NowMs), int64(ask.Limit))
			if err != nil {
				return err
			}
			for _, l.Organization = range ids {
				lanes = append(lanes, l)
			}
		}
		return nil
	})
	return store.Result(lanes, err, "looking for lanes")
}

// idsOf reads rows of a single id.
func idsOf(ctx context.Context, c *conn, text string, args ...driver.Value) (ids []wire.ID, err error) {
	err = c.query(ctx, text, func(values []driver.Value) (bool, error) {
		c := columns{values: values}
		ids = append(ids, c.id(0))
		return true, c.err
	}, args...)
	return ids, err
}

// Receivers implements store.Outbox.
func (s *Store) Receivers(ctx context.Context, ask store.Receivers) (ids []wire.ID, err error) {
	if err := store.CheckReceivers(ask); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(c *conn) error {
		ids, err = idsOf(ctx, c, receivers, ask.After[:], int64(ask.NowMs), int64(ask.NowMs), int64(ask.Limit))
		return err
	})
	return store.Result(ids, err, "looking for receivers")
}

// DeadSends implements store.Outbox.
func (s *Store) DeadSends(ctx context.Context, ask store.DeadSends) (sends []store.Send, err error) {
	if err := store.CheckDead(ask); err != nil {
		return nil, err
	}
	after, number := wire.SendID{}, int64(-1)
	if ask.After != nil {
		after, number = *ask.After, int64(ask.After.Number)
	}
	err = s.read(ctx, func(c *conn) error {
		sends, err = sendsOf(ctx, c, deadSends, after.Organization[:], int64(after.Seq), number, int64(ask.Limit))
		return err
	})
	return store.Result(sends, err, "looking for dead letters")
}

// Resend implements store.Outbox.
func (s *Store) Resend(ctx context.Context, ask store.Resend) (n int, err error) {
	if err := store.CheckResend(ask); err != nil {
		return 0, err
	}
	text, args := resend, []driver.Value{int64(ask.NowMs)}
	switch {
	case ask.Send != nil:
		text += ` AND organization = ? AND seq = ? AND number = ?`
		args = append(args, ask.Send.Organization[:], int64(ask.Send.Seq), int64(ask.Send.Number))
	case ask.Receiver != (wire.ID{}):
		text += ` AND receiver = ?`
		args = append(args, ask.Receiver[:])
	}
	err = s.change(ctx, func(ctx context.Context) (bool, error) {
		n = 0
		err := s.writer.query(ctx, text+` RETURNING 1`, func([]driver.Value) (bool, error) { n++; return true, nil }, args...)
		s.countWritten(int64(n) << 10)
		return n > 0, err
	})
	return store.Result(n, err, "sending again")
}

// KeepSend implements store.Outbox.
func (s *Store) KeepSend(ctx context.Context, claimant wire.ID, x store.Send) (kept bool, err error) {
	if err := store.CheckSend(claimant, &x); err != nil {
		return false, err
	}
	err = s.change(ctx, func(ctx context.Context) (bool, error) {
		row, err := s.writer.firstRow(ctx, keepSend, int64(x.State), int64(x.DueMs), int64(x.Tries), x.Text, notNull(x.Revert), notNull(x.Memo),
			x.ID.Organization[:], int64(x.ID.Seq), int64(x.ID.Number), claimant[:], int64(x.State))
		kept = row != nil
		s.countWritten(4 << 10)
		return kept, err
	})
	return store.Result(kept, err, "keeping a send")
}

// notNull returns b, never nil: the driver stores nil as NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// SendStates implements store.Outbox.
func (s *Store) SendStates(ctx context.Context, ask wire.Sends) (states wire.SendStates, err error) {
	if err := store.CheckSends(ask); err != nil {
		return states, err
	}
	err = s.read(ctx, func(c *conn) error {
		states.Statuses = make([]wire.SendStatus, len(ask.Sends))
		for i := range ask.Sends {
			id := &ask.Sends[i]
			row, err := c.firstRow(ctx, stateOfSend, id.Organization[:], int64(id.Seq), int64(id.Number))
			if err != nil {
				return err
			}
			if row == nil {
				continue
			}
			x := &states.Statuses[i]
			x.State = wire.SendState(row[0].(int64))
			x.Text, _ = row[1].(string)
			x.Revert, _ = row[2].([]byte)
		}
		return nil
	})
	return store.Result(states, err, "looking for sends")
}

// Deliveries implements store.Outbox.
func (s *Store) Deliveries(ctx context.Context, ask wire.Deliveries) (list wire.DeliveryList, err error) {
	if err := store.CheckDeliveries(ask); err != nil {
		return list, err
	}
	text := deliveries
	if ask.Failed {
		text += failed
	}
	before := store.BeginDeliveries(ask)
	id := &before.Send
	err = s.read(ctx, func(c *conn) error {
		sends, err := sendsOf(ctx, c, text+lastFirst, ask.Receiver[:], int64(before.TimeMs), id.Organization[:], int64(id.Seq), int64(id.Number), int64(ask.Limit))
		list = store.DeliveryList(sends)
		return err
	})
	return store.Result(list, err, "looking for deliveries")
}

// sends inserts an entry's sends into the outbox.
func (a *appender) sends(ctx context.Context, e *wire.Entry) error {
	for i := range e.Sends {
		var receiver, activity driver.Value
		if e.Sends[i].Receiver != (wire.ID{}) {
			receiver, activity = e.Sends[i].Receiver[:], e.Activity[:]
		}
		if err := a.store.writer.exec(ctx, putSend, e.Organization[:], int64(e.Seq), int64(i), int64(e.Sends[i].Kind), int64(e.Sends[i].DueMs), receiver, activity, payerOf(e.Sends[i].Payer, &e.Organization)); err != nil {
			return err
		}
	}
	return nil
}

// payerOf is the value of column payer.
func payerOf(payer wire.ID, organization *wire.ID) driver.Value {
	if payer == (wire.ID{}) {
		return organization[:]
	}
	return payer[:]
}
