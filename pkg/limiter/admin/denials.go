package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// AddDenials counts d, whose keys are shortened by [Denied.Shorten], in the current step of [FineSteps] and of
// [CoarseSteps], by the store's clock. Since, LastAt and Now are by the caller's. After a [store.ErrOutcomeUnknown] the
// denials may have been added.
func (t *Tables) AddDenials(ctx context.Context, d Denials) error {
	if err := d.Check(); err != nil || d.Total() == 0 && !d.Lost {
		return err
	}
	return t.AddCounts(ctx, &d)
}

// Denials returns the sum of the steps that the last period touches; see [StepsTouched]. With an [IncompleteError] it
// returns the denials of the other masters, and Lost is true.
func (t *Tables) Denials(ctx context.Context, last time.Duration) (Denials, error) {
	if last <= 0 || last > DenialHistory {
		return Denials{}, store.Invalidf("denials of the last %s: it must be more than 0 and at most %s", last,
			DenialHistory)
	}
	sum := NewTally()
	steps, _, _ := StepsTouched(0, last)
	now, err := t.Counts(ctx, last, func(now store.Instant, _ int64, step *Tally) {
		step.keep(steps.Kept)
		sum.addStep(step, now-store.Instant(last.Microseconds()), now)
	})
	if _, incomplete := errors.AsType[*IncompleteError](err); err != nil && !incomplete {
		return Denials{}, err
	}
	d := sum.Denials()
	d.Lost, d.Now = d.Lost || err != nil, now
	return d, err
}

// Bounds of the table of denials.
const (
	DenialHistory = 24 * time.Hour
	// DenialMinutes is the latest part of the history, which is known by the minute.
	DenialMinutes = time.Hour
	// DenialsKept is the most keys of a minute, those denied most, and CoarseDenialsKept of ten minutes.
	DenialsKept       = 1000
	CoarseDenialsKept = 200
	// MaxDenialRows is the most rows of one call.
	MaxDenialRows = 200
	// MaxDenialText is the most bytes of a subject, a name or an ID in a row.
	MaxDenialText = 200
	// DenialPause is the longest time without a denial within one run of denials; see [Denied.Since].
	DenialPause = 5 * time.Minute
)

// Denials are counts of denials per key.
type Denials struct {
	// Rows are the keys that limits denied. A table returns the most denied first.
	Rows []Denied
	// Blocks are what blocks denied: a key has the pattern of a block's subjects, and that of its names. A table sets
	// them from rows with a [BlockKey].
	Blocks []Denied
	// Shadows are the keys that a shadow limit would have denied. A table sets them from rows with [ShadowName].
	Shadows []Denied
	// Others counts the denials without a row, because there were too many different keys.
	Others int64
	// Lost: some denials are missing, since their outcome is unknown.
	Lost bool
	// Now is the time of the clock that LastAt and Since are by.
	Now store.Instant
}

// ShadowName begins the name of a row that a shadow limit would have denied. No policy has such a name.
const ShadowName = "(shadow)"

// blockName begins the name of a row of a block. No policy has such a name, either.
const blockName = "(block)"

// BlockKey returns the key of the row that counts what a block denied, of all subjects together.
func BlockKey(block *store.Override) store.Key {
	subject := block.Subjects.String()
	if attributes := block.Attributes; subject == "" && len(attributes) > 0 {
		var all []subjecttext.Attribute
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			all = append(all, subjecttext.Attribute{Name: name, Value: attributes[name]})
		}
		subject = subjecttext.Join(all)
	}
	return store.Key{Subject: cmp.Or(subject, "*"), Name: blockName + cmp.Or(block.Names.String(), "*")}
}

// isBlock reports whether a row has a [BlockKey].
func (d *Denied) isBlock() bool { return strings.HasPrefix(d.Key.Name, blockName) }

// shadows is 1 for a row with [ShadowName], else 0.
func (d *Denied) shadows() int {
	if strings.HasPrefix(d.Key.Name, ShadowName) {
		return 1
	}
	return 0
}

// Denied is the count of denials of one key.
type Denied struct {
	Key store.Key
	// Count is exact if [Denials.Exact], else a lower bound.
	Count int64
	// LastAt is the instant of the last denial.
	LastAt store.Instant
	// Since is the begin of the run of denials that LastAt belongs to: between two of its denials there are at most
	// [DenialPause]. It can be before the period that was asked for, and too late if the denying process began later.
	Since store.Instant
	// Limit is the limit in force that denied last, with what an override made of it; zero if none is known.
	Limit store.Limit
	// Blocked is how many of Count a block denied: all in Blocks, and none in Rows. Override is the ID of the last one.
	Blocked  int64
	Override string
	// Allowed counts the takes that the denying processes let through between their first and their last denial of a
	// run, and Compared their denials after the first.
	Allowed, Compared int64
}

// Share is the denied share of takes, from 0 to 1, after the first denial of a run and up to the last. It is not known
// if no process denied twice.
func (d *Denied) Share() (share float64, known bool) {
	if d.Compared == 0 {
		return 0, false
	}
	return float64(d.Compared) / float64(d.Compared+d.Allowed), true
}

// Exact reports whether the counts of all rows are exact, and no other key was denied.
func (d *Denials) Exact() bool { return d.Others == 0 && !d.Lost }

// Total returns the number of denials in Rows and of Others. It is exact unless some are Lost.
func (d *Denials) Total() int64 {
	total := d.Others
	for i := range d.Rows {
		total += d.Rows[i].Count
	}
	return total
}

// Check is for stores. It returns a [store.ErrInvalid] if d cannot be added.
func (d *Denials) Check() error {
	if len(d.Rows) > MaxDenialRows || d.Others < 0 {
		return store.Invalidf("%d rows of denials and %d others; at most %d rows fit", len(d.Rows), d.Others,
			MaxDenialRows)
	}
	keys := make(map[store.Key]bool, len(d.Rows))
	for i := range d.Rows {
		row := &d.Rows[i]
		if keys[row.Key] || row.Count < 1 || !row.IsSound() || len(row.Key.Subject) > MaxDenialText ||
			len(row.Key.Name) > MaxDenialText || len(row.Override) > MaxDenialText ||
			strings.ContainsRune(row.Override, 0) {
			return store.Invalidf("a row of denials of %s that cannot be, or is there twice", row.Key)
		}
		if keys[row.Key] = true; row.Limit != (store.Limit{}) {
			if _, err := row.Limit.Normalize(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Shorten cuts a subject and a name that are longer than [MaxDenialText], and ends them with a hash, so that
// different ones stay different and every process makes the same of one.
func (d *Denied) Shorten() {
	d.Key.Subject, d.Key.Name = shorten(d.Key.Subject), shorten(d.Key.Name)
}

func shorten(text string) string {
	if len(text) <= MaxDenialText {
		return text
	}
	const mark, hashBytes = "…", 8
	sum := sha256.Sum256([]byte(text))
	end := MaxDenialText - len(mark) - 2*hashBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark + hex.EncodeToString(sum[:hashBytes])
}

// DenialSteps are the steps of one length. They are numbered since the epoch.
type DenialSteps struct {
	Length  time.Duration
	History time.Duration // how long a step is kept after its end
	Kept    int           // the most keys of a step
}

// A table has both at once.
var (
	FineSteps   = DenialSteps{time.Minute, DenialMinutes, DenialsKept}
	CoarseSteps = DenialSteps{10 * time.Minute, DenialHistory, CoarseDenialsKept}
)

// StepsTouched returns the steps that a sum of the last period is made of, and the first and the last of them.
func StepsTouched(now store.Instant, last time.Duration) (s DenialSteps, from, to int64) {
	if s = FineSteps; last > FineSteps.History {
		s = CoarseSteps
	}
	return s, s.At(max(0, now-store.Instant(last.Microseconds()))), s.At(now)
}

// Held is the number of rows of a step above which those beyond s.Kept are removed.
func (s DenialSteps) Held() int { return s.Kept * 3 / 2 }

// At returns the number of the step of now.
func (s DenialSteps) At(now store.Instant) int64 { return int64(now) / s.Length.Microseconds() }

// End returns when a step expires.
func (s DenialSteps) End(number int64) store.Instant {
	return store.Instant((number+1)*s.Length.Microseconds() + s.History.Microseconds())
}

// ByClock is for stores. It returns row with its instants by the clock that shows now, where theirs shows its.
func (row Denied) ByClock(its, now store.Instant) Denied {
	if row.Since == 0 || row.Since > row.LastAt {
		row.Since = row.LastAt
	}
	row.Since, row.LastAt = now-max(0, its-row.Since), now-max(0, its-row.LastAt)
	return row
}

// LimitText is for stores. It is the limit as text, "" for none.
func (row *Denied) LimitText() string {
	if row.Limit == (store.Limit{}) {
		return ""
	}
	return row.Limit.String()
}

// IsSound is for stores. It reports whether limitctl can have written a row.
func (row *Denied) IsSound() bool {
	return row.Count >= 0 && row.Blocked >= 0 && row.Blocked <= row.Count && row.Compared >= 0 &&
		row.Compared <= row.Count &&
		row.Allowed >= 0 && row.Key.Name != "" && row.Key.Validate() == nil
}

// MergeDenied returns the sum of two counts of a key, of which held was added before. Either may be zero.
func MergeDenied(held, added Denied) Denied {
	if held.Count == 0 {
		return added
	}
	const pause = store.Instant(DenialPause / time.Microsecond)
	sum := added
	switch {
	case added.Since > held.LastAt+pause: // a new run
	case held.Since > added.LastAt+pause: // an old run
		sum.Since = held.Since
	default:
		sum.Since = min(held.Since, added.Since)
	}
	sum.Count += held.Count
	sum.Blocked += held.Blocked
	sum.Allowed += held.Allowed
	sum.Compared += held.Compared
	sum.LastAt = max(sum.LastAt, held.LastAt)
	if sum.Limit == (store.Limit{}) {
		sum.Limit = held.Limit
	}
	sum.Override = cmp.Or(sum.Override, held.Override)
	return sum
}

// Tally is the denials of one step, or the sum of several.
type Tally struct {
	Rows   map[store.Key]Denied
	Others int64
	Lost   bool
}

// NewTally returns an empty one.
func NewTally() *Tally { return &Tally{Rows: map[store.Key]Denied{}} }

// Add adds d to a step at now, and drops what is too much.
func (t *Tally) Add(steps DenialSteps, d *Denials, now store.Instant) {
	for _, row := range d.Rows {
		t.Rows[row.Key] = MergeDenied(t.Rows[row.Key], row.ByClock(d.Now, now))
	}
	t.Others += d.Others
	t.Lost = t.Lost || d.Lost
	if len(t.Rows) > steps.Held() {
		t.keep(steps.Kept)
	}
}

// keep keeps the rows of blocks and that many others, those denied most before those of shadow limits, and counts the
// rest together.
func (t *Tally) keep(most int) {
	if len(t.Rows) <= most {
		return
	}
	rows := slices.DeleteFunc(slices.Collect(maps.Values(t.Rows)), func(row Denied) bool { return row.isBlock() })
	SortMostDenied(rows)
	slices.SortStableFunc(rows, func(a, b Denied) int { return cmp.Compare(a.shadows(), b.shadows()) })
	for _, row := range rows[min(most, len(rows)):] {
		t.Others += row.Count
		delete(t.Rows, row.Key)
	}
}

// addStep adds a step that comes after those before it. It leaves out rows whose last denial is before from.
func (t *Tally) addStep(step *Tally, from, now store.Instant) {
	t.Others += step.Others
	t.Lost = t.Lost || step.Lost
	for key, row := range step.Rows {
		if row.LastAt <= from {
			continue
		}
		row.LastAt = min(row.LastAt, now) // another clock's, or nobody's
		row.Since = min(row.Since, row.LastAt)
		t.Rows[key] = MergeDenied(t.Rows[key], row)
	}
}

// Denials returns what t counts, without the time of a clock: Now is zero.
func (t *Tally) Denials() Denials {
	d := Denials{Others: t.Others, Lost: t.Lost}
	for _, row := range t.Rows {
		if name, shadow := strings.CutPrefix(row.Key.Name, ShadowName); shadow {
			row.Key.Name = name
			d.Shadows = append(d.Shadows, row)
			continue
		}
		if row.isBlock() || row.Blocked > 0 { // without a row of the block, where another build of limitctl counted
			block := row
			block.Key.Name, block.Count, block.Limit = strings.TrimPrefix(row.Key.Name, blockName), row.Blocked,
				store.Limit{}
			d.Blocks = append(d.Blocks, block)
			row.Count, row.Blocked, row.Override = row.Count-row.Blocked, 0, ""
		}
		if row.Count > 0 {
			d.Rows = append(d.Rows, row)
		}
	}
	for _, rows := range [][]Denied{d.Rows, d.Blocks, d.Shadows} {
		SortMostDenied(rows)
	}
	return d
}

// SortMostDenied sorts rows by their counts; among equals the last denial comes first.
func SortMostDenied(rows []Denied) {
	slices.SortFunc(rows, func(a, b Denied) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.LastAt, a.LastAt),
			cmp.Compare(a.Key.Subject, b.Key.Subject), cmp.Compare(a.Key.Name, b.Key.Name))
	})
}
