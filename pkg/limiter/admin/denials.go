package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DenialTable counts denials per key in a store. It is separate from the limits, since a denied take changes no
// key. There is a part for each minute of the store's clock, which expires after [DenialMinutes], and one for each
// hour, which expires after [DenialHistory]. A part has the [DenialsKept] keys with the most denials.
//
// All stores of this module have one. [DenialTableOf] finds it, and the option limiter.DenialLog writes it.
type DenialTable interface {
	// AddDenials adds d to the current minute and hour. d.Rows has at most MaxDenialRows rows, each key once,
	// shortened by [Denied.Shorten]. LastAt, Since and Now are by the caller's clock; only their differences count.
	// Since is the first denial in the row. A row whose Count is 0 adds what it let through, if the part has the
	// key. After a [store.ErrOutcomeUnknown] the denials may have been added.
	AddDenials(ctx context.Context, d Denials) error
	// Denials returns the sum of the minutes that the last period touches, or of the hours if it is longer than
	// DenialMinutes. last is above 0 and at most DenialHistory. With an [IncompleteError] it returns the denials of
	// the other masters, and Lost is true.
	Denials(ctx context.Context, last time.Duration) (Denials, error)
}

// Bounds of a [DenialTable].
const (
	// DenialMinutes is how long the denials of each minute are kept.
	DenialMinutes = time.Hour
	// DenialHistory is how long the denials of each hour are kept.
	DenialHistory = 24 * time.Hour
	// DenialQuiet is the time without a denial of a key that ends a run of denials.
	DenialQuiet = 10 * time.Minute
	// DenialsKept is the most keys of a part: those with the most denials.
	DenialsKept = 1000
	// MaxDenialRows is the most rows of one call.
	MaxDenialRows = 200
	// MaxDenialText is the most bytes of a subject, a name or a limit in a row.
	MaxDenialText = 200
)

// Denials are counts of denials per key.
type Denials struct {
	// Rows are the keys. A table returns the most denied first.
	Rows []Denied
	// Others counts the denials without a row, because there were too many different keys.
	Others int64
	// Lost: some denials are missing, since their outcome is unknown.
	Lost bool
	// Now is the time of the clock that LastAt is by.
	Now store.Instant
	// Step is the length of the steps of the rows: a minute or an hour. A table sets it.
	Step time.Duration
}

// Denied is the count of denials of one key. Older versions write only Key, Count and LastAt; what they do not know is
// zero or empty.
type Denied struct {
	Key store.Key
	// Count is exact if [Denials.Exact], else a lower bound. It includes Blocked.
	Count int64
	// LastAt is the instant of the last denial.
	LastAt store.Instant
	// Since is the instant of the first denial of the last run. A run has no pause longer than [DenialQuiet]
	// between two denials. It can have begun before the period that was asked for, but not before the history. If
	// older versions counted the denials, the run can have begun up to a minute earlier, or longer before the hour
	// that they keep. A period shorter than DenialQuiet tells only of runs within it.
	Since store.Instant
	// Limit is the limit that denied last, such as token-bucket:100/1m, with the override that applied to it.
	Limit string
	// Blocked is how many of Count an override denied: a block, or a limit that the cost never fits.
	Blocked int64
	// Override is the ID of the override that applied to the last denial. It is empty if none did.
	Override string
	// Compared and Passed are denied takes, and takes let through, while a process had the key among those it
	// denies most: from its first denial until a minute without one. See [Denied.Share].
	Compared, Passed int64
	// Steps are the steps with denials, the oldest first. AddDenials ignores them.
	Steps []DenialStep
}

// DenialStep is the count of denials of one key in a step.
type DenialStep struct {
	// At is the beginning of the step.
	At             store.Instant
	Count, Blocked int64
}

// Share returns the share of takes that were denied, from 0 to 1, of those that were decided while the key was being
// denied: by the processes that denied it, from the first denial of each until a minute without one. It is a lower
// bound, because that minute is included. It is not known if only older versions counted, or if a process denied too
// many different keys.
func (d *Denied) Share() (share float64, known bool) {
	if d.Compared == 0 {
		return 0, false
	}
	return float64(d.Compared) / float64(d.Compared+d.Passed), true
}

// Trend returns the denials of row in the last steps, the oldest first. The last step is the current one, which is not
// over.
func (d *Denials) Trend(row *Denied, steps int) []int64 {
	counts := make([]int64, steps)
	length := store.Instant(d.Step / time.Microsecond)
	if length == 0 {
		return counts
	}
	for _, step := range row.Steps {
		if i := int64(steps) - 1 - int64(d.Now/length-step.At/length); i >= 0 && i < int64(steps) {
			counts[i] += step.Count
		}
	}
	return counts
}

// Exact reports whether the counts of all rows are exact, and no other key was denied.
func (d *Denials) Exact() bool { return d.Others == 0 && !d.Lost }

// Total returns the number of all denials. It is exact unless some are Lost.
func (d *Denials) Total() int64 {
	total := d.Others
	for i := range d.Rows {
		total += d.Rows[i].Count
	}
	return total
}

// Check is for stores. It returns a [store.ErrInvalid] if d cannot be added.
func (d *Denials) Check() error {
	if len(d.Rows) > MaxDenialRows {
		return store.Invalidf("%d rows of denials in one call; at most %d fit", len(d.Rows), MaxDenialRows)
	}
	if d.Others < 0 {
		return store.Invalidf("%d other denials; there must be 0 or more", d.Others)
	}
	seen := make(map[store.Key]bool, len(d.Rows))
	for i := range d.Rows {
		key := d.Rows[i].Key
		if seen[key] {
			return store.Invalidf("the key %s is in two rows of denials; sum them up", key)
		}
		seen[key] = true
		if err := d.Rows[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (d *Denied) check() error {
	key := d.Key
	switch {
	case d.Count < 0 || d.Count == 0 && d.Passed == 0:
		return store.Invalidf("%d denials of %s; there must be 1 or more", d.Count, key)
	case d.Blocked < 0 || d.Blocked > d.Count || d.Compared < 0 || d.Compared > d.Count || d.Passed < 0:
		return store.Invalidf("%d denials of %s, of them %d blocked and %d compared with %d let through; each must be 0 or more, "+
			"and no part more than the whole", d.Count, key, d.Blocked, d.Compared, d.Passed)
	case len(d.Limit) > MaxDenialText || len(d.Override) > MaxDenialText || strings.ContainsRune(d.Limit+d.Override, 0):
		return store.Invalidf("the limit or the override of the denials of %s has a NUL or more than %d bytes", key, MaxDenialText)
	}
	if err := key.Validate(); err != nil {
		return err
	}
	if len(key.Subject) > MaxDenialText || len(key.Name) > MaxDenialText || key.Name == "" {
		return store.Invalidf("the key %s does not fit a row of denials, whose subject and name have 1 to %d bytes", key, MaxDenialText)
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

// DenialTableOf returns the table of backend, or of the store that it wraps. There is none if a wrapper was not
// made with [store.Wrap], and so does not say what it wraps.
func DenialTableOf(backend store.Store) (table DenialTable, has bool) {
	return store.As[DenialTable](backend)
}
