package filestore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// connection is a connection to the file, for one call at a time.
type connection struct {
	turn       chan struct{} // holds a token while a call uses what is below
	db         *sql.DB       // nil until the file is needed
	conn       *sql.Conn
	statements map[string]*sql.Stmt // prepared, by their text
	tidied     time.Time            // when tidy last did something
}

// maxFileWait is the longest wait for the file of a call without a deadline.
const maxFileWait = 10 * time.Second

// limited returns ctx with an end.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return store.BudgetContext(ctx, maxFileWait)
}

// takeTurn waits for earlier calls, until ctx ends or the Store is closed.
func (s *Store) takeTurn(ctx context.Context, c *connection) error {
	if s.isClosed() {
		return s.errClosed()
	}
	if ctx.Err() != nil {
		return s.late(ctx)
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return s.late(ctx)
	case <-s.closed:
		return s.errClosed()
	}
	if s.isClosed() { // while it waited
		c.giveTurn()
		return s.errClosed()
	}
	return nil
}

func (c *connection) giveTurn() { <-c.turn }

// open opens the file, and creates it if creates is set. Without it, a missing file is an errMissing. It needs the turn.
func (s *Store) open(ctx context.Context, c *connection, creates bool) error {
	if c.db != nil {
		return nil
	}
	return s.retryBusy(ctx, func() (err error) {
		if c.db, err = s.openDatabase(ctx, creates); err != nil {
			return err
		}
		c.statements = map[string]*sql.Stmt{}
		if c.conn, err = c.db.Conn(context.Background()); err != nil {
			return errors.Join(err, c.close())
		}
		return nil
	})
}

// begin begins a transaction with the lock for writing.
func (s *Store) begin(ctx context.Context, c *connection) error {
	return s.retryBusy(ctx, func() error { return c.exec("BEGIN IMMEDIATE") })
}

// exec executes a statement, which stays prepared.
func (c *connection) exec(text string, args ...any) error {
	prepared, err := c.statement(text)
	if err == nil {
		_, err = prepared.Exec(args...)
	}
	return err
}

func (c *connection) statement(text string) (prepared *sql.Stmt, err error) {
	if prepared = c.statements[text]; prepared == nil {
		if prepared, err = c.conn.PrepareContext(context.Background(), text); err == nil {
			c.statements[text] = prepared
		}
	}
	return prepared, err
}

func (c *connection) close() error {
	if c.db == nil {
		return nil
	}
	var errs []error
	for _, prepared := range c.statements {
		errs = append(errs, prepared.Close())
	}
	if c.conn != nil {
		errs = append(errs, c.conn.Close())
	}
	errs = append(errs, c.db.Close())
	c.db, c.conn, c.statements = nil, nil, nil
	return errors.Join(errs...)
}
