package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"cloister/host/store"
	"cloister/shared/wire"
)

// A send is due in the order of time, and those of one time in the order of their
// entries, so that an account's transactions go out as they were made.
const (
	dueSends = `SELECT organization, seq, number, kind, state, due, tries, said, revert, memo FROM outbox
		WHERE state < 3 AND due <= ? AND claimed <= ? ORDER BY due, organization, seq, number LIMIT ?`
	claimSend = `UPDATE outbox SET claimant = ?, claimed = ? WHERE organization = ? AND seq = ? AND number = ?`
	keepSend  = `UPDATE outbox SET state = ?, due = ?, tries = ?, said = ?, revert = ?, memo = ?, claimant = NULL, claimed = 0
		WHERE organization = ? AND seq = ? AND number = ? AND claimant = ? AND state < 3 AND state <= ? RETURNING 1`
	stateOfSend = `SELECT state, said, revert FROM outbox WHERE organization = ? AND seq = ? AND number = ?`
	putSend     = `INSERT INTO outbox (organization, seq, number, kind, state, due, tries, claimed, said, revert, memo)
		VALUES (?, ?, ?, ?, 1, ?, 0, 0, '', x'', x'')`
)

// ClaimSends implements store.Outbox.
func (s *Store) ClaimSends(ctx context.Context, ask store.ClaimSends) (sends []store.Send, err error) {
	if err := store.CheckClaim(ask); err != nil {
		return nil, err
	}
	// Most of the time nothing is due: that is found out beside the writer.
	due := false
	err = s.read(ctx, func(c *conn) error {
		row, err := c.one(ctx, dueSends, int64(ask.NowMs), int64(ask.NowMs), int64(1))
		due = row != nil
		return err
	})
	if err == nil && due {
		err = s.write(ctx, func(ctx context.Context) error {
			return s.writer.within(ctx, "BEGIN IMMEDIATE", func() (bool, error) {
				sends, err = s.claim(ctx, ask)
				s.wrote(int64(len(sends)) << 10)
				return len(sends) > 0, err
			})
		})
	}
	if err != nil {
		return nil, fmt.Errorf("claiming sends: %w", err)
	}
	return sends, nil
}

func (s *Store) claim(ctx context.Context, ask store.ClaimSends) (sends []store.Send, err error) {
	err = s.writer.query(ctx, dueSends, func(row []driver.Value) (bool, error) {
		var x store.Send
		id, ok := row[0].([]byte)
		if !ok || len(id) != len(x.ID.Organization) {
			return false, fmt.Errorf("an id of %d bytes", len(id))
		}
		copy(x.ID.Organization[:], id)
		x.ID.Seq, x.ID.Number = uint64(row[1].(int64)), uint16(row[2].(int64))
		x.Kind, x.State = wire.SendKind(row[3].(int64)), wire.SendState(row[4].(int64))
		x.DueMs, x.Tries = uint64(row[5].(int64)), uint32(row[6].(int64))
		x.Text, _ = row[7].(string)
		x.Revert, _ = row[8].([]byte)
		x.Memo, _ = row[9].([]byte)
		sends = append(sends, x)
		return true, nil
	}, int64(ask.NowMs), int64(ask.NowMs), int64(ask.Limit))
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

// KeepSend implements store.Outbox.
func (s *Store) KeepSend(ctx context.Context, claimant wire.ID, x store.Send) (kept bool, err error) {
	if err := store.CheckSend(claimant, &x); err != nil {
		return false, err
	}
	err = s.write(ctx, func(ctx context.Context) error {
		return s.writer.within(ctx, "BEGIN IMMEDIATE", func() (bool, error) {
			row, err := s.writer.one(ctx, keepSend, int64(x.State), int64(x.DueMs), int64(x.Tries), x.Text, some(x.Revert), some(x.Memo),
				x.ID.Organization[:], int64(x.ID.Seq), int64(x.ID.Number), claimant[:], int64(x.State))
			kept = row != nil
			s.wrote(4 << 10)
			return kept, err
		})
	})
	if err != nil {
		return false, fmt.Errorf("keeping a send: %w", err)
	}
	return kept, nil
}

// some is b, which the driver must not take for NULL.
func some(b []byte) []byte {
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
		states.States = make([]wire.SendStanding, len(ask.Sends))
		for i := range ask.Sends {
			id := &ask.Sends[i]
			row, err := c.one(ctx, stateOfSend, id.Organization[:], int64(id.Seq), int64(id.Number))
			if err != nil {
				return err
			}
			if row == nil {
				continue
			}
			x := &states.States[i]
			x.State = wire.SendState(row[0].(int64))
			x.Text, _ = row[1].(string)
			x.Revert, _ = row[2].([]byte)
		}
		return nil
	})
	if err != nil {
		return wire.SendStates{}, fmt.Errorf("looking for sends: %w", err)
	}
	return states, nil
}

// sends puts what an entry says must go out.
func (a *appending) sends(ctx context.Context, e *wire.Entry) error {
	for i := range e.Sends {
		if err := a.s.writer.exec(ctx, putSend, e.Organization[:], int64(e.Seq), int64(i), int64(e.Sends[i].Kind), int64(e.Sends[i].DueMs)); err != nil {
			return err
		}
	}
	return nil
}
