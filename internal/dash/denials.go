package dash

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// rates are who is being denied.
type rates struct {
	Reader   *denialReader // nil if the store keeps none
	Fetching bool
	Known    bool // they were read
	Problem  error
	Keys     map[store.Key]*rate // that limits deny
	Blocks   map[blockRow]*rate
	Total    float64 // denials a second by limits, of all selected keys
	Others   float64 // denials a second of keys that are without a count of their own, selected or not
	Lost     bool
	Begun    time.Time // when the first look was
	Totals   history
	Unnamed  history
	// LetThrough is what overrides let through, by their IDs.
	LetThrough map[string]*rate
}

// blockRow names a row of what a block denies; in old tables there are several of one block.
type blockRow struct {
	store.Key
	ID string // of the override
}

// rate is how one key is being denied, or how much one override lets through.
type rate struct {
	Counts    history
	PerSecond float64   // denials a second lately
	Last      time.Time // when it was denied last, by our clock
	// LastAt is the same by the store's clock.
	LastAt store.Instant
	Since  time.Time // when that began without a pause; zero if it is not known
	Placed float64   // the rate that the key's place in the list goes by
}

// sameRate is by how much a rate may change before its row may move.
const sameRate = 0.2

// Count takes in how often a key was denied.
func (d *rates) Count(known *rate, count int64, since *deniedSince) {
	known.PerSecond = d.LateRate(&known.Counts, count, since)
	known.Place()
}

// Place lets the key's place follow its rate, but not each change of it.
func (d *rate) Place() {
	if d.PerSecond == 0 || math.Abs(d.PerSecond-d.Placed) > d.Placed*sameRate {
		d.Placed = d.PerSecond
	}
}

// LateRate adds a count to a history, and returns the rate lately. At the first look only
// the mean over more than a minute is known, which stands in until there is a difference.
func (d *rates) LateRate(h *history, count int64, since *deniedSince) float64 {
	if since.First {
		return float64(count) / since.Over.Seconds()
	}
	if h.Values == nil { // none were counted since the looks began
		h.Sums = true
		before := since.At.Add(-since.Over)
		from := since.At.Add(-lately * time.Second)
		if from.Before(d.Begun) {
			from = d.Begun
		}
		if h.Add(from, float32(math.NaN())); before.Unix() > from.Unix() {
			h.Add(before, 0)
		}
	}
	h.Add(since.At, float32(count))
	return h.Mean(lately)
}

// SinceMS is how long ago the denials began, 0 if that is not known.
func (d *rate) SinceMS(now time.Time) int64 {
	if d.Since.IsZero() {
		return 0
	}
	return max(0, output.Milliseconds(now.Sub(d.Since)))
}

// ByBlocks is how often a second blocks deny.
func (d *rates) ByBlocks() (perSecond float64) {
	for _, known := range d.Blocks {
		perSecond += known.PerSecond
	}
	return perSecond
}

// Summary says how much is denied in all by limits, and of how many keys, and how much by blocks. What is
// not known, or not there, is "".
func (d *rates) Summary() (all, of, blocked string) {
	if !d.Known {
		return "", "", ""
	}
	rate, keys := shortNumber(d.Total), fmt.Sprint(len(d.Keys))
	if len(d.Blocks) > 0 {
		blocked = "blocked " + shortNumber(d.ByBlocks()) + "/s"
	}
	if d.Lost || d.Others > 0 {
		rate = "≥" + rate
	}
	if d.Others > 0 {
		keys = "≥" + keys
	}
	noun := "keys"
	if keys == "1" {
		noun = "key"
	}
	return rate + " denied/s", fmt.Sprintf(" of %s %s", keys, noun), blocked
}

// Frame is what a [Document] has, nil if nothing is known. The keys denied most come first.
func (d *rates) Frame(now time.Time) *denialFrame {
	if !d.Known || d.Problem != nil {
		return nil
	}
	f := &denialFrame{PerSecond: d.Total + d.ByBlocks(), OthersPerSecond: d.Others, Lost: d.Lost,
		LetThrough: d.letThrough()}
	add := func(key store.Key, known *rate, blocked bool) {
		f.Keys = append(f.Keys, deniedKey{Key: key.Subject, Name: key.Name, PerSecond: known.PerSecond,
			AgoMS: max(0, output.Milliseconds(now.Sub(known.Last))), SinceMS: known.SinceMS(now), Blocked: blocked})
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

// denialReader tells how often keys were denied since it looked before, out of a table that
// counts by the minute. One look at a time is under way.
type denialReader struct {
	*Options
	Table *admin.Tables
	// counts and others are what the look before found since a minute began.
	counts     map[blockRow]int64
	letThrough map[string]int64 // by the ID of an override
	others     int64
	since      store.Instant // when that minute began
	now        store.Instant // the store's clock at the look before; 0 if there was none
	at         time.Time     // our clock then
}

// deniedSince is what a look at the table of denials brought.
type deniedSince struct {
	Rows   []admin.Denied // counted since the look before, those that are selected; of blocks, too, which have an Override
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
	d.First, d.Now, d.Lost, d.Others, d.LetThrough = true, all.Now, all.Lost, all.Others, byID(all.LetThrough)
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
	r.counts, r.letThrough, r.others, r.now, r.at = countsOf(&all), byID(all.LetThrough), all.Others, all.Now, at
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

func byID(all []admin.LetThrough) map[string]int64 {
	counts := make(map[string]int64, len(all))
	for _, l := range all {
		counts[l.Override] = l.Count
	}
	return counts
}

// effect is what an override does now.
type effect struct {
	Keys       int     // that are followed and it applies to
	Denied     float64 // denials a second: of these, or by a block
	LetThrough float64 // requests a second that it let through, of all keys
}

// CountLetThrough takes in what overrides let through.
func (d *rates) CountLetThrough(since *deniedSince) {
	if d.LetThrough == nil || since.First {
		d.LetThrough = map[string]*rate{}
	}
	for id := range d.LetThrough {
		if since.LetThrough[id] == 0 {
			d.countLetThrough(id, 0, since)
		}
	}
	for id, count := range since.LetThrough {
		d.countLetThrough(id, count, since)
	}
}

func (d *rates) countLetThrough(id string, count int64, since *deniedSince) {
	known := d.LetThrough[id]
	if known == nil {
		known = &rate{}
		d.LetThrough[id] = known
	}
	if d.Count(known, count, since); known.PerSecond == 0 {
		delete(d.LetThrough, id)
	}
}

// letThrough is what overrides let through a second, by their IDs; nil for nothing.
func (d *rates) letThrough() map[string]float64 {
	if len(d.LetThrough) == 0 {
		return nil
	}
	perSecond := map[string]float64{}
	for id, known := range d.LetThrough {
		perSecond[id] = known.PerSecond
	}
	return perSecond
}

// Text says what the override does, in a few words.
func (e effect) Text() string {
	through := "lets through " + short(e.LetThrough) + "/s"
	denies := "denies " + short(e.Denied) + "/s"
	switch {
	case e.LetThrough > 0 && e.Denied > 0:
		return through + ", " + denies
	case e.LetThrough > 0:
		return through
	case e.Denied > 0:
		return denies
	case e.Keys == 0:
		return "no key"
	}
	return output.Plural(e.Keys, "key")
}

// short writes a rate that is not zero; a little is not nothing.
func short(perSecond float64) string {
	if text := shortNumber(perSecond); text != "0" {
		return text
	}
	return "<0.1"
}

// Sentence says all of it.
func (e effect) Sentence() string {
	text := fmt.Sprintf("applies to %s that are followed, denied %s a second", output.Plural(e.Keys, "key"), shortNumber(e.Denied))
	if e.LetThrough > 0 {
		text += fmt.Sprintf("; lets through %s a second", shortNumber(e.LetThrough))
	}
	return text
}
