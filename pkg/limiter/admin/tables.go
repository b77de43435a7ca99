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

// DenialTable counts denials per key in a store, and per override what that let through. It is separate from the
// limits, since a denied take changes no key. It has a step for each minute of the last [DenialMinutes], with the
// [DenialsKept] keys denied most, and one for each ten minutes of the last [DenialHistory], with the
// [CoarseDenialsKept] keys denied most. Steps begin and end by the store's clock, and expire by themselves.
//
// All stores of this module have one. [DenialTableOf] finds it, and the option limiter.DenialLog writes it.
type DenialTable interface {
	// AddDenials adds d to the current steps. d.Rows and d.LetThrough have at most MaxDenialRows each; of d.Rows each
	// key is there once, shortened by [Denied.Shorten], and of d.LetThrough each override once. Since, LastAt and Now
	// are by the caller's clock; only their differences count. Steps of rows do not count. After a
	// [store.ErrOutcomeUnknown] the denials may have been added.
	AddDenials(ctx context.Context, d Denials) error
	// Denials returns the sum of the steps that the last period touches: minutes, or if last is above DenialMinutes
	// ten minutes. last is above 0 and at most DenialHistory. With an [IncompleteError] it returns the denials of the
	// other masters, and Lost is true.
	Denials(ctx context.Context, last time.Duration) (Denials, error)
}

// Bounds of a [DenialTable].
const (
	DenialHistory = 24 * time.Hour
	// DenialMinutes is the latest part of the history, which is known by the minute.
	DenialMinutes = time.Hour
	// DenialsKept is the most keys of a minute: those with the most denials. CoarseDenialsKept is the same of ten
	// minutes.
	DenialsKept       = 1000
	CoarseDenialsKept = 200
	// MaxDenialRows is the most rows of one call, of keys and of overrides.
	MaxDenialRows = 200
	// LetThroughKept is the most overrides of a step. What others let through in it is counted nowhere.
	LetThroughKept = MaxOverrides
	// MaxDenialText is the most bytes of a subject, a name or an ID in a row.
	MaxDenialText = 200
	// DenialPause is the longest time without a denial within one run of denials; see [Denied.Since].
	DenialPause = 5 * time.Minute
)

// Denials are counts of denials per key.
type Denials struct {
	// Rows are the keys. A table returns the most denied first.
	Rows []Denied
	// Shadows are the keys that a shadow limit would have denied. A table sets them from rows with [ShadowName].
	Shadows []Denied
	// Others counts the denials without a row, because there were too many different keys.
	Others int64
	// LetThrough is what overrides let through. A table returns those that let most through first.
	LetThrough []LetThrough
	// Lost: some denials, or some of what was let through, are missing, since their outcome is unknown.
	Lost bool
	// Now is the time of the clock that LastAt and Since are by.
	Now store.Instant
	// Step is how long each of the steps is that were summed up: a minute or ten. FirstStep is the number since the
	// epoch of the first one. A table sets both.
	Step      time.Duration
	FirstStep int64
}

// ShadowName begins the name of a row that a shadow limit would have denied. No policy has such a name.
const ShadowName = "(shadow)"

// Denied is the count of denials of one key.
type Denied struct {
	Key store.Key
	// Count is exact if [Denials.Exact], else a lower bound.
	Count int64
	// LastAt is the instant of the last denial.
	LastAt store.Instant
	// Since is the begin of the run of denials that LastAt belongs to: between two of its denials there are at most
	// [DenialPause]. It can be before the period that was asked for. It can be too late if the processes that denied
	// have been started since, or if the key was one of too many.
	Since store.Instant
	// Limit is the limit in force that denied last, with what an override made of it; zero if none is known.
	Limit store.Limit
	// Blocked is how many of Count an override denied, and Override the ID of the last such override.
	Blocked  int64
	Override string
	// Allowed counts the takes that the denying processes let through between their first and their last denial of a
	// run, and Compared their denials after the first. What other processes let through, and what went through before
	// and after, is not in it.
	Allowed, Compared int64
	// Steps are the steps with denials, the earliest first. A table sets them.
	Steps []DenialStep
}

// DenialStep is the count of denials of a key in one step.
type DenialStep struct {
	Number int64 // since the epoch, in units of [Denials.Step]
	Count  int64
}

// LetThrough is how many takes an override let through: they were allowed while it applied. How many of them the
// limit would have allowed without it is not known.
type LetThrough struct {
	Override string // its ID
	// Count counts calls: one that the override applied to for several limits is counted once.
	Count int64
}

// Check returns a [store.ErrInvalid] if l cannot be added.
func (l LetThrough) Check() error {
	switch {
	case l.Override == "" || !isOverrideID(l.Override):
		return store.Invalidf("%.40q is not the ID of an override", l.Override)
	case l.Count < 1:
		return store.Invalidf("%d takes let through by the override %s; there must be 1 or more", l.Count, l.Override)
	}
	return nil
}

// isOverrideID reports whether id fits a row; an empty one stands for none.
func isOverrideID(id string) bool { return len(id) <= MaxDenialText && !strings.ContainsRune(id, 0) }

// Share is the share of takes that the denying processes denied after the first denial of a run and up to the last,
// from 0 to 1. It is not known if no process denied twice.
func (d *Denied) Share() (share float64, known bool) {
	if d.Compared == 0 {
		return 0, false
	}
	return float64(d.Compared) / float64(d.Compared+d.Allowed), true
}

// Trend returns the denials of d in each step of the sum, the earliest first.
func (d *Denials) Trend(row *Denied) []int64 {
	if d.Step <= 0 {
		return nil
	}
	trend := make([]int64, max(0, int64(d.Now)/d.Step.Microseconds()-d.FirstStep+1))
	for _, step := range row.Steps {
		if i := step.Number - d.FirstStep; i >= 0 && i < int64(len(trend)) {
			trend[i] = step.Count
		}
	}
	return trend
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
	if err := d.checkLetThrough(); err != nil {
		return err
	}
	seen := make(map[store.Key]bool, len(d.Rows))
	for i := range d.Rows {
		key := d.Rows[i].Key
		switch {
		case seen[key]:
			return store.Invalidf("the key %s is in two rows of denials; sum them up", key)
		case d.Rows[i].Count < 1:
			return store.Invalidf("%d denials of %s; there must be 1 or more", d.Rows[i].Count, key)
		}
		seen[key] = true
		if err := key.Validate(); err != nil {
			return err
		}
		if len(key.Subject) > MaxDenialText || len(key.Name) > MaxDenialText || key.Name == "" {
			return store.Invalidf("the key %s does not fit a row of denials, whose subject and name have 1 to %d bytes", key, MaxDenialText)
		}
		if err := d.Rows[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (d *Denials) checkLetThrough() error {
	if len(d.LetThrough) > MaxDenialRows {
		return store.Invalidf("%d overrides that let takes through in one call; at most %d fit", len(d.LetThrough), MaxDenialRows)
	}
	seen := make(map[string]bool, len(d.LetThrough))
	for _, l := range d.LetThrough {
		if err := l.Check(); err != nil {
			return err
		}
		if seen[l.Override] {
			return store.Invalidf("what the override %s let through is there twice; sum it up", l.Override)
		}
		seen[l.Override] = true
	}
	return nil
}

// check checks all but the key and the count.
func (d *Denied) check() error {
	switch {
	case d.Blocked < 0 || d.Blocked > d.Count:
		return store.Invalidf("%d of %d denials of %s by an override; there must be 0 to as many", d.Blocked, d.Count, d.Key)
	case d.Allowed < 0 || d.Compared < 0 || d.Compared > d.Count:
		return store.Invalidf("%d allowed takes of %s, and %d of %d denials compared; there must be 0 or more, and of denials 0 to as many",
			d.Allowed, d.Key, d.Compared, d.Count)
	case !isOverrideID(d.Override):
		return store.Invalidf("%.40q is not the ID of an override", d.Override)
	case d.Limit == store.Limit{}:
		return nil
	}
	_, err := d.Limit.Normalize()
	return err
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

// MaxOverrides is the most overrides that can be in force in a store.
const MaxOverrides = 1000

// OverrideTable keeps the overrides of a store, separate from its limits: at most [MaxOverrides]. Each expires by
// itself at its end, even if no program runs.
//
// All stores of this module have one. [OverrideTableOf] finds it, and the option limiter.Overrides applies it.
type OverrideTable interface {
	// OverrideVersion returns a version that changes whenever an override is set or revoked; it is empty if there
	// is none. A version never comes back with other overrides. It is one small read. The end of an override does
	// not change the version, unless it was the last.
	OverrideVersion(ctx context.Context) (string, error)
	// Overrides returns the overrides that have not ended, the newest first, and their version. If a foreign value
	// prevents reading some of them, it returns the others together with a [store.ErrForeign] that names one.
	Overrides(ctx context.Context) (overrides []store.Override, version string, err error)
	// SetOverride adds o for that time, in whole milliseconds, and returns it with its ID, CreatedAt and ExpiresAt.
	// If an override in force has the same subjects, names, attributes, effect and amount, it extends that one,
	// which keeps its ID and takes the new end, reason and author. The error is a [store.ErrInvalid] if
	// [store.Override.Check] fails, and a [store.ErrRefused] if there are already [MaxOverrides]. After a
	// [store.ErrOutcomeUnknown] it may have been set.
	SetOverride(ctx context.Context, o store.Override, lasts time.Duration) (store.Override, error)
	// RevokeOverride ends an override and returns it. It may not exist or have ended.
	RevokeOverride(ctx context.Context, id string) (o store.Override, found bool, err error)
}

// OverrideTableOf returns the table of backend, or of the store that it wraps; see
// [DenialTableOf].
func OverrideTableOf(backend store.Store) (table OverrideTable, has bool) {
	return store.As[OverrideTable](backend)
}
