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
	// tidyEvery is how often a process tidies up while it writes, and tidyRows and tidyPages
	// are how much it does then, within a commit that others wait for: about a millisecond.
	tidyEvery = 10 * time.Millisecond
	tidyRows  = 100
	tidyPages = 64
	// keptFree is how many free pages a file keeps for new rows, besides an eighth of it.
	keptFree = 256
)

// countFree returns a row if the file has more free pages than it should keep, and can
// shrink.
var countFree = fmt.Sprintf(`SELECT 1 FROM pragma_auto_vacuum, pragma_freelist_count, pragma_page_count
	WHERE auto_vacuum = 2 AND freelist_count > %d + page_count / 8`, keptFree)

// shrink gives pages back to the file system. The file is cut when the log of changes goes
// over into it.
var shrink = fmt.Sprintf("PRAGMA incremental_vacuum(%d)", tidyPages)

// tidy deletes some expired rows, whether there are new ones or not, and gives some of the
// space back, in the transaction that is about to end.
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

// steps runs a statement to its end, and returns how many rows it gave.
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
