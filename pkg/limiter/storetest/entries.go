package storetest

import (
	"context"
	"iter"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Entries is an [admin.Keyspace] with exactly these entries, valid or not, for tests of code that reads entries. It
// decides and changes nothing.
type Entries []admin.Entry

var _ admin.Keyspace = Entries(nil)

// Scan implements [admin.Keyspace].
func (s Entries) Scan(_ context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for _, e := range s {
			if q.Has(e.Key) && !yield(e, nil) {
				return
			}
		}
		q.Report(int64(len(s)), int64(len(s)))
	}
}

// Decide refuses.
func (s Entries) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return store.ErrRefused
}

// Delete refuses.
func (s Entries) Delete(context.Context, ...admin.Record) (int, []admin.Record, error) {
	return 0, nil, store.ErrRefused
}

// Import refuses.
func (s Entries) Import(context.Context, bool, ...admin.Record) ([]admin.ImportOutcome, error) {
	return nil, store.ErrRefused
}

// Close does nothing.
func (s Entries) Close() error { return nil }

// NotAllKnown returns entries of a limit. Less is known of each than of the one before: everything, all but the
// period, all but the count, only the usage, and only that the key exists.
func NotAllKnown() Entries {
	const storeKeys = "counter:"
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	entry := func(subject string, limit store.Limit, d store.Decision) admin.Entry {
		return admin.Entry{Key: store.Key{Subject: subject, Name: "hits"}, StoreKey: storeKeys + subject, Limit: limit,
			Decision: d, TTL: time.Minute / 2}
	}
	noPeriod, noCount := limit, limit
	noPeriod.Period = 0
	noCount.Count, noCount.Burst = 0, 0
	silent := entry("silent", store.Limit{}, store.Decision{})
	silent.UsedUnknown, silent.TTL = true, -time.Millisecond
	return Entries{
		entry("whole", limit, store.Decision{Used: 10, RetryAfter: time.Minute / 2, ResetAfter: time.Minute / 2}),
		entry("no-period", noPeriod, store.Decision{Allowed: true, Used: 9, Remaining: 1, ResetAfter: time.Minute / 2}),
		entry("no-count", noCount, store.Decision{Used: 8, ResetAfter: time.Minute / 2}),
		entry("used-only", store.Limit{}, store.Decision{Used: 7, ResetAfter: time.Minute / 2}),
		silent,
	}
}
