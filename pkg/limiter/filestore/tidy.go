package filestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// tidyEvery is the time between clean-ups while a process writes. tidyRows and tidyPages bound a clean-up to about
	// a millisecond, since others wait for the commit that it is in.
	tidyEvery = 10 * time.Millisecond
	tidyRows  = 100
	tidyPages = 64
	// keptFree is the number of free pages that a file keeps for new rows, in addition to an eighth of its pages.
	keptFree = 256
)

// countFree returns a row if the file has more free pages than it should keep, and can shrink.
var countFree = fmt.Sprintf(`SELECT 1 FROM pragma_auto_vacuum, pragma_freelist_count, pragma_page_count
	WHERE auto_vacuum = 2 AND freelist_count > %d + page_count / 8`, keptFree)

// shrink returns pages to the file system. The file gets shorter at the next checkpoint.
var shrink = fmt.Sprintf("PRAGMA incremental_vacuum(%d)", tidyPages)

// tidy deletes some expired rows, also if there are no new rows, and returns some of the space, in the transaction
// that is about to end.
func (c *connection) tidy(now store.Instant) error {
	if time.Since(c.tidied) < tidyEvery {
		return nil
	}
	c.tidied = time.Now()
	if err := c.reclaim(now, tidyRows); err != nil {
		return err
	}
	if some, err := c.steps(c.countingFree); err != nil || some == 0 {
		return err
	}
	_, err := c.steps(c.shrinking)
	return err
}

// steps runs a statement to its end, and returns the number of its rows.
func (c *connection) steps(s statement) (n int, err error) {
	rows, err := s.QueryContext(context.Background(), nil)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	room := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(room); {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
		n++
	}
}
