package live

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Counted names what the table of denials counts: denials of a key by limits, or by a block, and then Key is its
// pattern. The zero one is the denials of keys that are without a count of their own.
type Counted struct {
	store.Key
	Override string // the ID of the block
}

// Denials are who is being denied.
type Denials struct {
	reader   *denialReader // nil if the store keeps none
	fetching bool
	Known    bool // they were read
	Problem  error
	Rates    map[Counted]*Rate // of what was counted lately
	Keys     int               // that limits deny
	Total    float64           // denials a second by limits, of all selected keys
	Lost     bool
	begun    time.Time // when the first look was
	Totals   History
}

// Rate is how one key is being denied.
type Rate struct {
	Counts    History
	PerSecond float64   // lately
	last      time.Time // when it was denied last, by our clock
	Since     time.Time // when that began without a pause; zero if it is not known
	placed    float64   // the rate that the key's place in the list goes by
}

func (c Counted) isKey() bool { return c.Override == "" && c.Key != (store.Key{}) }

func (c Counted) isBlock() bool { return c.Override != "" }

func (d *Denials) sum(meant func(Counted) bool) (perSecond float64) {
	for c, known := range d.Rates {
		if meant(c) {
			perSecond += known.PerSecond
		}
	}
	return perSecond
}

// Others is the denials a second of keys without a count of their own, selected or not.
func (d *Denials) Others() float64 { return d.sum(func(c Counted) bool { return c == Counted{} }) }

// ByBlocks is how often a second blocks deny.
func (d *Denials) ByBlocks() float64 { return d.sum(Counted.isBlock) }

// look reads the table, unless there is none, or that is under way.
func (d *Denials) look(ctx context.Context) tea.Cmd {
	if d.reader == nil || d.fetching {
		return nil
	}
	d.fetching = true
	return func() tea.Msg { return d.reader.Look(ctx) }
}

// add takes in what a look brought. rows are the followed keys, whose names the table may have shortened.
func (d *Denials) add(since *deniedSince, rows map[store.Key]*Row) {
	if d.Known, d.Lost = true, since.Lost; since.First {
		d.begun, d.Totals, d.Rates = since.At, History{}, map[Counted]*Rate{}
	}
	whole := longNames(rows)
	counts, sum := map[Counted]int64{}, int64(0)
	for c, count := range since.Counts {
		row := since.Rows[c]
		if name, is := whole[c.Key]; is && c.isKey() {
			c.Key = name
		}
		known, ago := d.Rates[c], time.Duration(since.Now-row.LastAt)*time.Microsecond
		switch {
		case known != nil:
		case row.Count > 0 && ago > Lately*time.Second:
			continue
		default:
			known = &Rate{}
			d.Rates[c] = known
		}
		if counts[c] = count; row.Count > 0 {
			known.last = since.At.Add(-ago)
			known.Since = since.At.Add(-time.Duration(since.Now-row.Since) * time.Microsecond)
		}
		if c.isKey() {
			sum += count
		}
	}
	d.Keys = 0
	for c, known := range d.Rates {
		known.PerSecond = d.lateRate(&known.Counts, counts[c], since)
		const same = 0.2 // by how much a rate may change before its row may move
		if math.Abs(known.PerSecond-known.placed) > known.placed*same {
			known.placed = known.PerSecond
		}
		if known.PerSecond == 0 {
			delete(d.Rates, c)
		} else if c.isKey() {
			d.Keys++
		}
	}
	d.Total = d.lateRate(&d.Totals, sum, since)
}

// lateRate adds a count to a history, and returns the rate lately. At the first look only the mean over more than a
// minute is known, which stands in until there is a difference.
func (d *Denials) lateRate(h *History, count int64, since *deniedSince) float64 {
	if since.First {
		return float64(count) / since.Over.Seconds()
	}
	if h.values == nil { // none were counted since the looks began
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
	mean, _ := h.Mean()
	return mean
}

// longNames returns the followed keys by the shorter names that the table has for them.
func longNames(rows map[store.Key]*Row) map[store.Key]store.Key {
	names := map[store.Key]store.Key{}
	for key := range rows {
		short := admin.Denied{Key: key}
		if short.Shorten(); short.Key != key {
			names[short.Key] = key
		}
	}
	return names
}

// denialReader tells what was counted since it looked before, out of a table that counts by the minute.
type denialReader struct {
	*Options
	steps map[int64]map[Counted]int64 // what the looks before found in each minute
	now   store.Instant               // the store's clock at the look before; 0 if there was none
	at    time.Time                   // our clock then
}

type deniedSince struct {
	Counts map[Counted]int64        // since the look before, of the selected keys
	Rows   map[Counted]admin.Denied // of those that are keys and blocks
	Lost   bool                     // some are counted nowhere
	Over   time.Duration            // the time in which they were counted
	First  bool                     // there was no look before
	Now    store.Instant            // by the store's clock, as LastAt of rows

	At   time.Time
	Took time.Duration
	Err  error
}

// Look reads the table. The first look tells the denials of the last minute. After a long pause it begins anew.
func (r *denialReader) Look(ctx context.Context) deniedSince {
	ctx, done := r.bounded(ctx)
	defer done()
	d := deniedSince{At: r.Now(), Counts: map[Counted]int64{}, Rows: map[Counted]admin.Denied{}}
	const span = time.Minute
	if d.First = r.now == 0 || d.At.Sub(r.at) > span; d.First {
		r.steps = map[int64]map[Counted]int64{}
	}
	steps := map[int64]map[Counted]int64{}
	now, err := r.Denials.Counts(ctx, span, func(now store.Instant, number int64, step *admin.Tally) {
		if steps[number] == nil {
			steps[number] = map[Counted]int64{}
		}
		d.addStep(r.Options, steps[number], step.Denials(), now)
	})
	_, incomplete := errors.AsType[*admin.IncompleteError](err)
	if d.Took = r.Now().Sub(d.At); err != nil && !incomplete {
		d.Err = err
		return d
	}
	for number, counts := range steps {
		for c, count := range counts {
			if before := r.steps[number][c]; before <= count { // else it had lost its place meanwhile
				count -= before
			}
			if count > 0 {
				d.Counts[c] += count
			}
		}
	}
	d.Now, d.Lost, d.Over = now, d.Lost || incomplete, time.Duration(now-r.now)*time.Microsecond
	if d.First { // whole minutes are counted
		d.Over = span + time.Duration(now%store.Instant(span/time.Microsecond))*time.Microsecond
	}
	r.steps, r.now, r.at = steps, now, d.At
	return d
}

func (d *deniedSince) addStep(o *Options, counts map[Counted]int64, step admin.Denials, now store.Instant) {
	d.Lost = d.Lost || step.Lost
	counts[Counted{}] += step.Others
	for _, row := range slices.Concat(step.Rows, step.Blocks) {
		if !o.Query.Has(row.Key) {
			continue
		}
		c := Counted{row.Key, row.Override}
		counts[c] += row.Count
		row.LastAt = min(row.LastAt, now) // else it is another clock's
		row.Since = min(cmp.Or(row.Since, row.LastAt), row.LastAt)
		d.Rows[c] = admin.MergeDenied(d.Rows[c], row)
	}
}
