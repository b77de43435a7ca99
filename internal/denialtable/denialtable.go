// Package denialtable has what the tables of denials of all stores share: which steps there are, which rows stay, and
// how they are added. See [admin.DenialTable].
package denialtable

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Steps are the steps of one length. They are numbered since the epoch.
type Steps struct {
	Length  time.Duration
	History time.Duration // how long a step is kept after its end
	Kept    int           // the most keys of a step
}

// A table has both at once.
var (
	Minutes = Steps{time.Minute, admin.DenialMinutes, admin.DenialsKept}
	Coarse  = Steps{10 * time.Minute, admin.DenialHistory, admin.CoarseDenialsKept}
)

// For returns the steps that a sum of the last period is made of.
func For(last time.Duration) Steps {
	if last <= Minutes.History {
		return Minutes
	}
	return Coarse
}

// Held is the number of rows of a step above which those beyond s.Kept are removed. The margin avoids a search at
// each write.
func (s Steps) Held() int { return s.Kept * 3 / 2 }

// At returns the number of the step of now.
func (s Steps) At(now store.Instant) int64 { return int64(now) / s.Length.Microseconds() }

// End returns when a step expires.
func (s Steps) End(number int64) store.Instant {
	return store.Instant((number+1)*s.Length.Microseconds() + s.History.Microseconds())
}

// Touched returns the first and the last step of the period that ends now.
func (s Steps) Touched(now store.Instant, last time.Duration) (from, to int64) {
	return s.At(max(0, now-store.Instant(last.Microseconds()))), s.At(now)
}

// CheckLast returns a [store.ErrInvalid] if last is out of bounds.
func CheckLast(last time.Duration) error {
	if last <= 0 || last > admin.DenialHistory {
		return store.Invalidf("denials of the last %s: it must be more than 0 and at most %s", last, admin.DenialHistory)
	}
	return nil
}

// ByClock returns row with its instants by the clock that shows now, where theirs shows its.
func ByClock(row admin.Denied, its, now store.Instant) admin.Denied {
	if row.Since == 0 || row.Since > row.LastAt {
		row.Since = row.LastAt
	}
	row.Since, row.LastAt = now-max(0, its-row.Since), now-max(0, its-row.LastAt)
	return row
}

// Merge returns the sum of two counts of a key, of which held was added before. Either may be zero.
func Merge(held, added admin.Denied) admin.Denied {
	if held.Count == 0 {
		return added
	}
	const pause = store.Instant(admin.DenialPause / time.Microsecond)
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
	sum.Steps = held.Steps
	return sum
}

// Sum is the sum of steps.
type Sum struct {
	steps      Steps
	now, since store.Instant
	first      int64
	rows       map[store.Key]admin.Denied
	letThrough map[string]int64 // by the ID of an override
	others     int64
	lost       bool
}

// NewSum returns an empty sum for the period last that ends at now.
func NewSum(now store.Instant, last time.Duration) *Sum {
	steps := For(last)
	first, _ := steps.Touched(now, last)
	return &Sum{steps: steps, now: now, since: now - store.Instant(last.Microseconds()), first: first, rows: map[store.Key]admin.Denied{},
		letThrough: map[string]int64{}}
}

// Add adds the step with that number, after those before it, and may reorder its rows. Only the most denied rows keep
// their own counts. It leaves out rows whose last denial is before the period.
func (s *Sum) Add(number int64, step *admin.Denials) {
	s.others += step.Others
	s.lost = s.lost || step.Lost
	for _, l := range step.LetThrough {
		s.letThrough[l.Override] += l.Count
	}
	rows := step.Rows
	if len(rows) > s.steps.Kept {
		SortMostFirst(rows)
		for _, row := range rows[s.steps.Kept:] {
			s.others += row.Count
		}
		rows = rows[:s.steps.Kept]
	}
	for _, row := range rows {
		if row.LastAt <= s.since {
			continue
		}
		row.LastAt = min(row.LastAt, s.now) // another clock's, or nobody's
		row.Since = min(row.Since, row.LastAt)
		sum := Merge(s.rows[row.Key], row)
		sum.Steps = append(sum.Steps, admin.DenialStep{Number: number, Count: row.Count})
		s.rows[row.Key] = sum
	}
}

// Denials returns the sum.
func (s *Sum) Denials() admin.Denials {
	d := admin.Denials{Rows: make([]admin.Denied, 0, len(s.rows)), Others: s.others, Lost: s.lost, Now: s.now,
		Step: s.steps.Length, FirstStep: s.first}
	for _, row := range s.rows {
		if name, shadow := strings.CutPrefix(row.Key.Name, admin.ShadowName); shadow {
			row.Key.Name = name
			d.Shadows = append(d.Shadows, row)
		} else {
			d.Rows = append(d.Rows, row)
		}
	}
	SortMostFirst(d.Rows)
	SortMostFirst(d.Shadows)
	for id, count := range s.letThrough {
		d.LetThrough = append(d.LetThrough, admin.LetThrough{Override: id, Count: count})
	}
	slices.SortFunc(d.LetThrough, func(a, b admin.LetThrough) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Override, b.Override))
	})
	return d
}

// SortMostFirst sorts rows by their counts; among equals the last denial comes first.
func SortMostFirst(rows []admin.Denied) {
	slices.SortFunc(rows, func(a, b admin.Denied) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.LastAt, a.LastAt),
			cmp.Compare(a.Key.Subject, b.Key.Subject), cmp.Compare(a.Key.Name, b.Key.Name))
	})
}
