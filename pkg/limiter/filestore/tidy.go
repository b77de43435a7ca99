package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	if err := c.exec(reclaim, int64(now), tidyRows); err != nil {
		return err
	}
	ctx := context.Background()
	var isLarge int
	err := c.conn.QueryRowContext(ctx, countFree).Scan(&isLarge)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = c.conn.ExecContext(ctx, shrink)
	}
	return err
}
