package live

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Denials are who is being denied.
type Denials struct {
	reader   *denialReader // nil if the store keeps none
	fetching bool
	Known    bool // they were read
	Problem  error
	Keys     map[store.Key]*Rate // that limits deny
	Blocks   map[blockRow]*Rate
	Total    float64 // denials a second by limits, of all selected keys
	Others   float64 // denials a second of keys that are without a count of their own, selected or not
	Lost     bool
	begun    time.Time // when the first look was
	Totals   History
	unnamed  History
}

// blockRow names a row of what a block denies; in old tables there are several of one block.
type blockRow struct {
	store.Key
	ID string // of the override
}

// Rate is how one key is being denied.
type Rate struct {
	Counts    History
	PerSecond float64   // denials a second lately
	last      time.Time // when it was denied last, by our clock
	// LastAt is the same by the store's clock.
	LastAt store.Instant
	Since  time.Time // when that began without a pause; zero if it is not known
	placed float64   // the rate that the key's place in the list goes by
}

// sameRate is by how much a rate may change before its row may move.
const sameRate = 0.2

// count takes in how often a key was denied.
func (d *Denials) count(known *Rate, count int64, since *deniedSince) {
	known.PerSecond = d.lateRate(&known.Counts, count, since)
	known.place()
}

// place lets the key's place follow its rate, but not each change of it.
func (d *Rate) place() {
	if d.PerSecond == 0 || math.Abs(d.PerSecond-d.placed) > d.placed*sameRate {
		d.placed = d.PerSecond
	}
}

// lateRate adds a count to a history, and returns the rate lately. At the first look only
// the mean over more than a minute is known, which stands in until there is a difference.
func (d *Denials) lateRate(h *History, count int64, since *deniedSince) float64 {
	if since.First {
		return float64(count) / since.Over.Seconds()
	}
	if h.Values == nil { // none were counted since the looks began
		h.Sums = true
		before := since.At.Add(-since.Over)
		from := since.At.Add(-Lately * time.Second)
		if from.Before(d.begun) {
			from = d.begun
		}
		if h.Add(from, float32(math.NaN())); before.Unix() > from.Unix() {
			h.Add(before, 0)
		}
	}
	h.Add(since.At, float32(count))
	return h.Mean(Lately)
}

// sinceMS is how long ago the denials began, 0 if that is not known.
func (d *Rate) sinceMS(now time.Time) int64 {
	if d.Since.IsZero() {
		return 0
	}
	return max(0, output.Milliseconds(now.Sub(d.Since)))
}

// ByBlocks is how often a second blocks deny.
func (d *Denials) ByBlocks() (perSecond float64) {
	for _, known := range d.Blocks {
		perSecond += known.PerSecond
	}
	return perSecond
}

// Frame is what a [Document] has, nil if nothing is known. The keys denied most come first.
func (d *Denials) Frame(now time.Time) *denialFrame {
	if !d.Known || d.Problem != nil {
		return nil
	}
	f := &denialFrame{PerSecond: d.Total + d.ByBlocks(), OthersPerSecond: d.Others, Lost: d.Lost}
	add := func(key store.Key, known *Rate, blocked bool) {
		f.Keys = append(f.Keys, deniedKey{Key: key.Subject, Name: key.Name, PerSecond: known.PerSecond,
			AgoMS: max(0, output.Milliseconds(now.Sub(known.last))), SinceMS: known.sinceMS(now), Blocked: blocked})
	}
	for key, known := range d.Keys {
		add(key, known, false)
	}
	for row, known := range d.Blocks {
		add(row.Key, known, true)
	}
	slices.SortFunc(f.Keys, func(a, b deniedKey) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name))
	})
	return f
}

// look reads the table, unless there is none, or that is under way.
func (d *Denials) look(ctx context.Context) tea.Cmd {
	if d.reader == nil || d.fetching {
		return nil
	}
	d.fetching = true
	return func() tea.Msg { return d.reader.Look(ctx) }
}

// add takes in what a look brought. rows are the followed keys, whose names the table may have shortened.
func (d *Denials) add(since *deniedSince, rows map[ID]*Row) {
	if d.Known, d.Lost = true, since.Lost; since.First {
		d.begun, d.Totals, d.unnamed = since.At, History{}, History{}
		d.Keys, d.Blocks = map[store.Key]*Rate{}, map[blockRow]*Rate{}
	}
	names := longNames(rows)
	keys, blocks := map[store.Key]*admin.Denied{}, map[blockRow]*admin.Denied{}
	sum := int64(0)
	for i := range since.Rows {
		row := &since.Rows[i]
		if row.Override != "" {
			blocks[blockRow{row.Key, row.Override}] = row
			continue
		}
		key := row.Key
		if whole, is := names[key]; is {
			key = whole
		}
		keys[key] = row
		if d.Keys[key] != nil || since.ago(row) <= Lately*time.Second {
			sum += row.Count
		}
	}
	countAll(d, d.Keys, keys, since)
	countAll(d, d.Blocks, blocks, since)
	d.Total = d.lateRate(&d.Totals, sum, since)
	d.Others = d.lateRate(&d.unnamed, since.Others, since)
}

// ago is how long before the look the last denial of a row was.
func (since *deniedSince) ago(row *admin.Denied) time.Duration {
	return time.Duration(since.Now-row.LastAt) * time.Microsecond
}

// countAll takes in what a look brought of keys, or of blocks. One that is not denied lately is dropped.
func countAll[K comparable](d *Denials, all map[K]*Rate, brought map[K]*admin.Denied, since *deniedSince) {
	for key, row := range brought {
		known := all[key]
		if known == nil {
			if since.ago(row) > Lately*time.Second {
				continue
			}
			known = &Rate{}
			all[key] = known
		}
		known.LastAt, known.last = row.LastAt, since.At.Add(-since.ago(row))
		if row.Since > 0 {
			known.Since = since.At.Add(-time.Duration(since.Now-row.Since) * time.Microsecond)
		}
		d.count(known, row.Count, since)
	}
	for key, known := range all {
		if brought[key] == nil {
			d.count(known, 0, since)
		}
		if known.PerSecond == 0 {
			delete(all, key)
		}
	}
}

// longNames returns the followed keys by the shorter names that the table has for them.
func longNames(rows map[ID]*Row) map[store.Key]store.Key {
	names := map[store.Key]store.Key{}
	for id := range rows {
		key := id.Key
		if len(key.Subject) > admin.MaxDenialText || len(key.Name) > admin.MaxDenialText {
			short := admin.Denied{Key: key}
			short.Shorten()
			names[short.Key] = key
		}
	}
	return names
}

// denialReader tells how often keys were denied since it looked before, out of a table that
// counts by the minute. One look at a time is under way.
type denialReader struct {
	*Options
	Table *admin.Tables
	// counts and others are what the look before found since a minute began.
	counts map[blockRow]int64
	others int64
	since  store.Instant // when that minute began
	now    store.Instant // the store's clock at the look before; 0 if there was none
	at     time.Time     // our clock then
}

// deniedSince is what a look at the table of denials brought.
type deniedSince struct {
	Rows   []admin.Denied // counted since the look before, those that are selected; of blocks, too, which have an Override
	Others int64          // of keys that are without a count of their own, since then
	Lost   bool           // some are counted nowhere
	Over   time.Duration  // the time in which they were counted
	First  bool           // there was no look before
	Now    store.Instant  // by the store's clock, as LastAt of rows

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
func (r *denialReader) Look(ctx context.Context) (d deniedSince) {
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
func (r *denialReader) begin(ctx context.Context, d *deniedSince) error {
	all, err := r.Table.Denials(ctx, time.Minute)
	if err != nil {
		return err
	}
	d.First, d.Now, d.Lost, d.Others = true, all.Now, all.Lost, all.Others
	d.Over = time.Minute + time.Duration(all.Now%minute)*time.Microsecond // whole minutes are counted
	for _, row := range slices.Concat(all.Rows, all.Blocks) {
		if r.Query.Has(row.Key) {
			d.Rows = append(d.Rows, row)
		}
	}
	return r.beginMinute(ctx, all.Now, d.At)
}

// goOn compares with the look before.
func (r *denialReader) goOn(ctx context.Context, d *deniedSince) error {
	now := r.now + store.Instant(d.At.Sub(r.at)/time.Microsecond)
	all, err := r.from(ctx, now)
	if err != nil {
		return err
	}
	d.Now, d.Lost, d.Over = all.Now, all.Lost, time.Duration(all.Now-r.now)*time.Microsecond
	d.Others = max(0, all.Others-r.others)
	counts := countsOf(&all)
	for _, row := range slices.Concat(all.Rows, all.Blocks) {
		if before := r.counts[blockRow{row.Key, row.Override}]; before <= row.Count { // else it had lost its place meanwhile
			row.Count -= before
		}
		if row.Count > 0 && r.Query.Has(row.Key) {
			d.Rows = append(d.Rows, row)
		}
	}
	r.counts, r.others, r.now, r.at = counts, all.Others, all.Now, d.At
	if all.Now/minute > r.since/minute {
		return r.beginMinute(ctx, all.Now, d.At)
	}
	return nil
}

// from reads what was denied since r.since. now is about what the store's clock shows. The
// table adds up whole minutes, so it is asked again if it has counted an earlier one.
func (r *denialReader) from(ctx context.Context, now store.Instant) (all admin.Denials, err error) {
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
func (r *denialReader) beginMinute(ctx context.Context, now store.Instant, at time.Time) error {
	since := r.since
	r.since = now - now%minute
	all, err := r.from(ctx, now)
	if err != nil {
		r.since = since
		return err
	}
	r.counts, r.others, r.now, r.at = countsOf(&all), all.Others, all.Now, at
	return nil
}

// countsOf are the counts of keys, without an ID, and of blocks.
func countsOf(all *admin.Denials) map[blockRow]int64 {
	counts := map[blockRow]int64{}
	for _, row := range slices.Concat(all.Rows, all.Blocks) {
		counts[blockRow{row.Key, row.Override}] = row.Count
	}
	return counts
}
