package dash

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denialReader tells how often keys were denied since it looked before, out of a table that
// counts by the minute. One look at a time is under way.
type denialReader struct {
	*Options
	table admin.DenialTable
	// counts and others are what the look before found since a minute began.
	counts map[store.Key]int64
	others int64
	since  store.Instant // when that minute began
	now    store.Instant // the store's clock at the look before; 0 if there was none
	at     time.Time     // our clock then
}

// deniedSince is what a look at the table of denials brought.
type deniedSince struct {
	rows   []admin.Denied // counted since the look before; those of keys that are selected
	others int64          // of keys that are not told apart, since then
	lost   bool           // some are counted nowhere
	over   time.Duration  // the time in which they were counted
	first  bool           // there was no look before
	now    store.Instant  // by the store's clock, as LastAt of rows

	at   time.Time
	took time.Duration
	err  error
}

const (
	minute = store.Instant(time.Minute / time.Microsecond)
	// longestSpan is after how long looks begin anew, so that none reads many minutes.
	longestSpan = 3 * time.Minute
)

// look reads the table.
func (r *denialReader) look(ctx context.Context) (d deniedSince) {
	if r.Timeout > 0 {
		var done context.CancelFunc
		ctx, done = store.BudgetContext(ctx, r.Timeout)
		defer done()
	}
	d.at = r.Now()
	if r.now == 0 || d.at.Sub(r.at) > longestSpan {
		d.err = r.begin(ctx, &d)
	} else {
		d.err = r.goOn(ctx, &d)
	}
	d.took = r.Now().Sub(d.at)
	return d
}

// begin is the first look. It tells the denials of the last minute.
func (r *denialReader) begin(ctx context.Context, d *deniedSince) error {
	all, err := r.table.Denials(ctx, time.Minute)
	if err != nil {
		return err
	}
	d.first, d.now, d.lost, d.others = true, all.Now, all.Lost, all.Others
	d.over = time.Minute + time.Duration(all.Now%minute)*time.Microsecond // whole minutes are counted
	for _, row := range all.Rows {
		if r.follows(row.Key) {
			d.rows = append(d.rows, row)
		}
	}
	return r.beginMinute(ctx, all.Now, d.at)
}

// goOn compares with the look before.
func (r *denialReader) goOn(ctx context.Context, d *deniedSince) error {
	now := r.now + store.Instant(d.at.Sub(r.at)/time.Microsecond)
	all, err := r.from(ctx, now)
	if err != nil {
		return err
	}
	d.now, d.lost, d.over = all.Now, all.Lost, time.Duration(all.Now-r.now)*time.Microsecond
	d.others = max(0, all.Others-r.others)
	counts := make(map[store.Key]int64, len(all.Rows))
	for _, row := range all.Rows {
		counts[row.Key] = row.Count
		if before := r.counts[row.Key]; before <= row.Count { // else it had lost its place in the table meanwhile
			row.Count -= before
		}
		if row.Count > 0 && r.follows(row.Key) {
			d.rows = append(d.rows, row)
		}
	}
	r.counts, r.others, r.now, r.at = counts, all.Others, all.Now, d.at
	if all.Now/minute > r.since/minute {
		return r.beginMinute(ctx, all.Now, d.at)
	}
	return nil
}

// from reads what was denied since r.since. now is about what the store's clock shows. The
// table adds up whole minutes, so it is asked again if it has counted an earlier one.
func (r *denialReader) from(ctx context.Context, now store.Instant) (all admin.Denials, err error) {
	const tries = 3
	for range tries {
		span := time.Duration(max(1, now-r.since)) * time.Microsecond
		if all, err = r.table.Denials(ctx, span); err != nil {
			return all, err
		}
		if now = all.Now; now-store.Instant(span/time.Microsecond) >= r.since {
			return all, nil
		}
	}
	return all, nil
}

// beginMinute makes the minute that now is in the one that is compared.
func (r *denialReader) beginMinute(ctx context.Context, now store.Instant, at time.Time) error {
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
	r.others, r.now, r.at = all.Others, all.Now, at
	return nil
}

// follows reports whether a key is among those that are looked at.
func (o *Options) follows(key store.Key) bool {
	if o.Query.Keys == nil {
		return o.Query.Selects(key)
	}
	for _, named := range o.Query.Keys {
		if named == key {
			return true
		}
	}
	return false
}
