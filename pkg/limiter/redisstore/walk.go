package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

const (
	// walkTimes and walkMore are how many keys a scan may look at: so many times
	// those there are, and so many more. Keys that come meanwhile, and a table that
	// the server resizes, make it look at some twice; and a table whose keys have just
	// expired is nearly empty and as large as before, so that most of the calls find
	// nothing.
	walkTimes = 10
	walkMore  = 500_000
	// walkMost is how many it may look at where nobody may say how many there are.
	walkMost = 100_000_000
	// mostKeys is how many keys a server can have.
	mostKeys = 1 << 40
	// givenTimes and givenMore are how many keys an answer may have: so many times
	// those asked for, and so many more. A server looks at whole buckets.
	givenTimes = 10
	givenMore  = 1000
)

// Walk follows the SCANs of one server, and tells when they do not come to an end.
type Walk struct {
	server redis.Cmdable
	total  int64
	hidden error // why total is not known
	looked int64
	cursor uint64
}

// NewWalk begins a walk through the keys of a server.
func NewWalk(ctx context.Context, server redis.Cmdable) (*Walk, error) {
	w := &Walk{server: server}
	return w, w.count(ctx)
}

// count asks how many keys there are.
func (w *Walk) count(ctx context.Context) error {
	total, err := w.server.DBSize(ctx).Result()
	switch {
	case isServerError(err, "NOPERM"): // without that right there is no progress
		w.hidden = err
		return nil
	case err != nil:
		return err
	case total < 0 || total > mostKeys:
		return &answerError{fmt.Sprintf("its DBSIZE is %d", total)}
	}
	w.total = total
	return nil
}

// Total returns how many keys there were when it was last asked, and whether the user
// may know.
func (w *Walk) Total() (keys int64, known bool) { return w.total, w.hidden == nil }

// Cursor returns what the next SCAN begins with.
func (w *Walk) Cursor() uint64 { return w.cursor }

// Answered takes the answer of a SCAN that looked at so many keys, and gave so many. It
// reports whether that was the last one.
func (w *Walk) Answered(ctx context.Context, count, given int, next uint64) (done bool, err error) {
	switch {
	case given > givenTimes*count+givenMore:
		return false, &answerError{fmt.Sprintf("its SCAN gives %d keys where %d were asked for", given, count)}
	case next == 0:
		return true, nil
	case next == w.cursor:
		return false, &answerError{fmt.Sprintf("its SCAN does not go on: the cursor %d came twice in a row", next)}
	}
	w.cursor = next
	w.looked += int64(max(count, given))
	if w.hidden != nil && w.looked > walkMost {
		const hint = "with the right to DBSIZE limitctl knows how many there are"
		return false, &answerError{fmt.Sprintf("its SCAN has not ended after %d keys; %s", w.looked, hint)}
	}
	if w.hidden != nil || w.looked <= w.most() {
		return false, nil
	}
	if err := w.count(ctx); err != nil || w.hidden != nil || w.looked <= w.most() { // there may be more by now
		return false, err
	}
	return false, &answerError{fmt.Sprintf("its SCAN does not end: %d keys were looked at, and there are %d", w.looked, w.total)}
}

func (w *Walk) most() int64 { return walkTimes*w.total + walkMore }
