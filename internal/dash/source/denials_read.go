package source

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DenialReader tells how often keys were denied since it looked before, out of a table that
// counts by the minute. One look at a time is under way.
type DenialReader struct {
	*Options
	Table *admin.Tables
	// counts and others are what the look before found since a minute began.
	counts     map[store.Key]int64
	letThrough map[string]int64 // by the ID of an override
	others     int64
	since      store.Instant // when that minute began
	now        store.Instant // the store's clock at the look before; 0 if there was none
	at         time.Time     // our clock then
}

// DeniedSince is what a look at the table of denials brought.
type DeniedSince struct {
	Rows   []admin.Denied // counted since the look before; those of keys that are selected
	Others int64          // of keys that are without a count of their own, since then
	// LetThrough is what overrides let through since then, by their IDs, whatever keys are selected.
	LetThrough map[string]int64
	Lost       bool          // some are counted nowhere
	Over       time.Duration // the time in which they were counted
	First      bool          // there was no look before
	Now        store.Instant // by the store's clock, as LastAt of rows

	At   time.Time
	Took time.Duration
	Err  error
}

const (
	minute = store.Instant(time.Minute / time.Microsecond)
	// longestSpan is after how long looks begin anew, so that none reads many minutes.
	longestSpan = 3 * time.Minute
)

// Look reads the table.
func (r *DenialReader) Look(ctx context.Context) (d DeniedSince) {
	if r.Timeout > 0 {
		var done context.CancelFunc
		ctx, done = store.BudgetContext(ctx, r.Timeout)
		defer done()
	}
	d.At = r.Now()
	if r.now == 0 || d.At.Sub(r.at) > longestSpan {
		d.Err = r.begin(ctx, &d)
	} else {
		d.Err = r.goOn(ctx, &d)
	}
	d.Took = r.Now().Sub(d.At)
	return d
}

// begin is the first look. It tells the denials of the last minute.
func (r *DenialReader) begin(ctx context.Context, d *DeniedSince) error {
	all, err := r.Table.Denials(ctx, time.Minute)
	if err != nil {
		return err
	}
	d.First, d.Now, d.Lost, d.Others, d.LetThrough = true, all.Now, all.Lost, all.Others, byID(all.LetThrough)
	d.Over = time.Minute + time.Duration(all.Now%minute)*time.Microsecond // whole minutes are counted
	for _, row := range all.Rows {
		if r.Query.Has(row.Key) {
			d.Rows = append(d.Rows, row)
		}
	}
	return r.beginMinute(ctx, all.Now, d.At)
}

// goOn compares with the look before.
func (r *DenialReader) goOn(ctx context.Context, d *DeniedSince) error {
	now := r.now + store.Instant(d.At.Sub(r.at)/time.Microsecond)
	all, err := r.from(ctx, now)
	if err != nil {
		return err
	}
	d.Now, d.Lost, d.Over = all.Now, all.Lost, time.Duration(all.Now-r.now)*time.Microsecond
	d.Others = max(0, all.Others-r.others)
	counts := make(map[store.Key]int64, len(all.Rows))
	for _, row := range all.Rows {
		counts[row.Key] = row.Count
		if before := r.counts[row.Key]; before <= row.Count { // else it had lost its place in the table meanwhile
			row.Count -= before
		}
		if row.Count > 0 && r.Query.Has(row.Key) {
			d.Rows = append(d.Rows, row)
		}
	}
	letThrough := byID(all.LetThrough)
	d.LetThrough = map[string]int64{}
	for id, count := range letThrough {
		if before := r.letThrough[id]; before <= count {
			count -= before
		}
		if count > 0 {
			d.LetThrough[id] = count
		}
	}
	r.counts, r.letThrough, r.others, r.now, r.at = counts, letThrough, all.Others, all.Now, d.At
	if all.Now/minute > r.since/minute {
		return r.beginMinute(ctx, all.Now, d.At)
	}
	return nil
}

// from reads what was denied since r.since. now is about what the store's clock shows. The
// table adds up whole minutes, so it is asked again if it has counted an earlier one.
func (r *DenialReader) from(ctx context.Context, now store.Instant) (all admin.Denials, err error) {
	const tries = 3
	for range tries {
		span := time.Duration(max(1, now-r.since)) * time.Microsecond
		if all, err = r.Table.Denials(ctx, span); err != nil {
			return all, err
		}
		if now = all.Now; now-store.Instant(span/time.Microsecond) >= r.since {
			return all, nil
		}
	}
	return all, nil
}

// beginMinute makes the minute that now is in the one that is compared.
func (r *DenialReader) beginMinute(ctx context.Context, now store.Instant, at time.Time) error {
	since := r.since
	r.since = now - now%minute
	all, err := r.from(ctx, now)
	if err != nil {
		r.since = since
		return err
	}
	r.counts = make(map[store.Key]int64, len(all.Rows))
	for _, row := range all.Rows {
		r.counts[row.Key] = row.Count
	}
	r.letThrough, r.others, r.now, r.at = byID(all.LetThrough), all.Others, all.Now, at
	return nil
}

func byID(all []admin.LetThrough) map[string]int64 {
	counts := make(map[string]int64, len(all))
	for _, l := range all {
		counts[l.Override] = l.Count
	}
	return counts
}
