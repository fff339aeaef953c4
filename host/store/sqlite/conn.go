package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"modernc.org/sqlite"
)

// A conn is one connection with its statements prepared on first use. It calls
// the driver directly: database/sql would cost a few microseconds for each
// statement of an append, and its pool is not needed. It is not safe for concurrent use.
type conn struct {
	raw        driver.Conn
	statements map[string]driver.Stmt
	args       []driver.NamedValue
	ran        *atomic.Uint64 // statements run on all connections of a store
}

func dial(name string, ran *atomic.Uint64, pragmas ...string) (*conn, error) {
	raw, err := (&sqlite.Driver{}).Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening sqlite: %w", err)
	}
	c := &conn{raw: raw, statements: map[string]driver.Stmt{}, ran: ran}
	for _, p := range pragmas {
		if err := c.query(context.Background(), "PRAGMA "+p, skip); err != nil {
			return nil, errors.Join(fmt.Errorf("setting %s: %w", p, err), c.close())
		}
	}
	return c, nil
}

func skip([]driver.Value) (bool, error) { return true, nil }

func (c *conn) close() error {
	for _, s := range c.statements {
		_ = s.Close() // Close repeats the error of a failed statement
	}
	return c.raw.Close()
}

// prepare returns the prepared statement of a text.
func (c *conn) prepare(text string) (driver.Stmt, error) {
	c.ran.Add(1)
	if s := c.statements[text]; s != nil {
		return s, nil
	}
	s, err := c.raw.Prepare(text)
	if err != nil {
		return nil, err
	}
	c.statements[text] = s
	return s, nil
}

func (c *conn) bind(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// exec runs a statement. Arguments are int64, []byte, string or nil.
func (c *conn) exec(ctx context.Context, text string, args ...driver.Value) error {
	_, err := c.run(ctx, text, args)
	return err
}

// changes runs a statement and reports whether it changed any row.
func (c *conn) changes(ctx context.Context, text string, args ...driver.Value) (bool, error) {
	done, err := c.run(ctx, text, args)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

func (c *conn) run(ctx context.Context, text string, args []driver.Value) (driver.Result, error) {
	s, err := c.prepare(text)
	if err != nil {
		return nil, err
	}
	return s.(driver.StmtExecContext).ExecContext(ctx, c.bind(args))
}

// query calls each with every row until it returns false. The slice of values is
// valid until each returns, the bytes in it for good.
func (c *conn) query(ctx context.Context, text string, each func([]driver.Value) (bool, error), args ...driver.Value) (err error) {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, c.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := rows.Next(row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if more, err := each(row); err != nil || !more {
			return err
		}
	}
}

// firstRow returns the first row, or nil.
func (c *conn) firstRow(ctx context.Context, text string, args ...driver.Value) (row []driver.Value, err error) {
	err = c.query(ctx, text, func(r []driver.Value) (bool, error) {
		row = r
		return false, nil
	}, args...)
	return row, err
}

// inTransaction runs do in a transaction that starts with the statement begin. do returns
// whether to commit.
func (c *conn) inTransaction(ctx context.Context, begin string, do func() (bool, error)) error {
	if err := c.exec(ctx, begin); err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	commit, err := do()
	if err == nil && commit {
		if err = c.exec(ctx, "COMMIT"); err == nil {
			return nil
		}
		err = fmt.Errorf("committing: %w", err)
	}
	// A failed commit may have ended the transaction already; then there is
	// nothing to roll back, which is no failure of its own.
	_ = c.exec(context.WithoutCancel(ctx), "ROLLBACK")
	return err
}

// isConstraint reports whether an error is a violated constraint.
func isConstraint(err error) bool {
	const constraint = 19 // primary result code SQLITE_CONSTRAINT
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == constraint
}

// scalar returns the first column of a row as a number, or missing if row is nil.
func scalar(row []driver.Value, missing int64) int64 {
	if len(row) == 0 {
		return missing
	}
	if v, ok := row[0].(int64); ok {
		return v
	}
	return missing
}
