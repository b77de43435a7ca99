package redisserver

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

const (
	// A scan may read walkTimes the number of keys, plus walkMore. It reads some twice if keys are added or the
	// server resizes its table. A table whose keys have just expired is nearly empty but still large, so most calls
	// then find nothing.
	walkTimes = 10
	walkMore  = 500_000
	// walkMost is the bound if the user lacks the right to know the number of keys.
	walkMost = 100_000_000
	// mostKeys is how many keys a server can have.
	mostKeys = 1 << 40
	// An answer may have givenTimes the requested number of keys, plus givenMore, since a server reads whole
	// buckets.
	givenTimes = 10
	givenMore  = 1000
)

// walk follows the SCANs of one server, and detects that they do not end.
type walk struct {
	server redis.Cmdable
	total  int64 // the number of keys at the last count
	hidden error // why total is unknown
	looked int64
	cursor uint64
}

// newWalk begins a walk through the keys of a server.
func newWalk(ctx context.Context, server redis.Cmdable) (*walk, error) {
	w := &walk{server: server}
	return w, w.count(ctx)
}

// count gets the number of keys.
func (w *walk) count(ctx context.Context) error {
	total, err := w.server.DBSize(ctx).Result()
	switch {
	case LacksRight(err): // without that right there is no progress
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

// next makes the server read count more keys. It returns those that match, and reports whether these were the last.
func (w *walk) next(ctx context.Context, match string, count int) (storeKeys []string, ended bool, err error) {
	storeKeys, cursor, err := w.server.Scan(ctx, w.cursor, match, int64(count)).Result()
	if err != nil {
		return nil, false, err
	}
	given := len(storeKeys)
	switch {
	case given > givenTimes*count+givenMore:
		return nil, false, &answerError{fmt.Sprintf("its SCAN gives %d keys where %d were asked for", given, count)}
	case cursor == 0:
		return storeKeys, true, nil
	case cursor == w.cursor:
		return nil, false, &answerError{fmt.Sprintf("its SCAN does not go on: the cursor %d came twice in a row", cursor)}
	}
	w.cursor = cursor
	w.looked += int64(max(count, given))
	return storeKeys, false, w.checkEnds(ctx)
}

// checkEnds returns an error if the walk has read more keys than there can be.
func (w *walk) checkEnds(ctx context.Context) error {
	if w.hidden != nil && w.looked > walkMost {
		const hint = "with the right to DBSIZE limitctl knows how many there are"
		return &answerError{fmt.Sprintf("its SCAN has not ended after %d keys; %s", w.looked, hint)}
	}
	if w.hidden != nil || w.looked <= w.most() {
		return nil
	}
	if err := w.count(ctx); err != nil || w.hidden != nil || w.looked <= w.most() { // there may be more by now
		return err
	}
	return &answerError{fmt.Sprintf("its SCAN does not end: %d keys were looked at, and there are %d", w.looked, w.total)}
}

func (w *walk) most() int64 { return walkTimes*w.total + walkMore }
