// Package denialtable has what the tables of denials of all stores share: which parts there are, which rows stay,
// and how they are added. See [admin.DenialTable].
package denialtable

import (
	"cmp"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// MostHeld is the number of rows of a part above which those beyond [admin.DenialsKept] are removed. The margin
// avoids a search at each write.
const MostHeld = admin.DenialsKept * 3 / 2

// Quiet is [admin.DenialQuiet] in the unit of instants.
const Quiet = store.Instant(admin.DenialQuiet / time.Microsecond)

// Step is the length of the parts of one kind.
type Step time.Duration

// The steps. Each denial is added to a part of each.
const (
	Minute = Step(time.Minute)
	Hour   = Step(time.Hour)
)

// Steps are all steps.
var Steps = [...]Step{Minute, Hour}

func (s Step) micros() store.Instant { return store.Instant(time.Duration(s) / time.Microsecond) }

// Number returns the number of the part of now, since the epoch.
func (s Step) Number(now store.Instant) int64 { return int64(now / s.micros()) }

// Begin returns when a part begins.
func (s Step) Begin(number int64) store.Instant { return store.Instant(number) * s.micros() }

// Kept is how long a part is kept after its end.
func (s Step) Kept() time.Duration {
	if s == Minute {
		return admin.DenialMinutes
	}
	return admin.DenialHistory
}

// Expires returns when a part expires: when no instant of it is in the time that is kept.
func (s Step) Expires(number int64) store.Instant {
	return s.Begin(number+1) + store.Instant(s.Kept()/time.Microsecond)
}

// CheckLast returns a [store.ErrInvalid] if last is out of bounds.
func CheckLast(last time.Duration) error {
	if last <= 0 || last > admin.DenialHistory {
		return store.Invalidf("denials of the last %s: it must be more than 0 and at most %s", last, admin.DenialHistory)
	}
	return nil
}

// Part is what a part of a table holds.
type Part struct {
	Rows   []admin.Denied
	Others int64
	Lost   bool
}

// Reader reads parts. It calls add for each part from one number to another that exists, in this order.
type Reader func(step Step, from, to int64, add func(number int64, part Part)) error

// Read returns the denials of the last period, which ends at now.
func Read(now store.Instant, last time.Duration, read Reader) (admin.Denials, error) {
	if last <= admin.DenialMinutes {
		sum, err := readSum(now, last, Minute, read)
		if err == nil && last >= admin.DenialQuiet {
			err = sum.lookBack(Hour.Number(now), read)
		}
		return sum.denials(), err
	}
	sum, err := readSum(now, last, Hour, read)
	if err != nil {
		return sum.denials(), err
	}
	if err := sum.lookBack(Hour.Number(max(0, sum.since)), read); err != nil {
		return sum.denials(), err
	}
	minutes, err := readSum(now, admin.DenialMinutes, Minute, read)
	if err == nil {
		sum.atLeast(minutes)
	}
	return sum.denials(), err
}

// readSum returns the sum of the parts of a period.
func readSum(now store.Instant, last time.Duration, step Step, read Reader) (*sum, error) {
	since := now - store.Instant(last/time.Microsecond)
	s := &sum{step: step, now: now, since: since, rows: map[store.Key]*admin.Denied{}}
	return s, read(step, step.Number(max(0, since)), step.Number(now), s.add)
}

// sum is the sum of parts.
type sum struct {
	step       Step
	now, since store.Instant
	rows       map[store.Key]*admin.Denied
	others     int64
	lost       bool
}

// add adds a part, and may reorder its rows. Only the most denied rows keep their own counts. It leaves out rows whose
// last denial is before the period.
func (s *sum) add(number int64, part Part) {
	s.others += part.Others
	s.lost = s.lost || part.Lost
	rows := part.Rows
	if len(rows) > admin.DenialsKept {
		SortMostFirst(rows)
		for _, row := range rows[admin.DenialsKept:] {
			s.others += row.Count
		}
		rows = rows[:admin.DenialsKept]
	}
	for _, row := range rows {
		if row.LastAt <= s.since {
			continue
		}
		step := admin.DenialStep{At: s.step.Begin(number), Count: row.Count, Blocked: row.Blocked}
		held := s.rows[row.Key]
		if held == nil {
			held = &admin.Denied{Key: row.Key}
			s.rows[row.Key] = held
		}
		Merge(held, row)
		held.Steps = append(held.Steps, step)
	}
}

// Merge adds row to held, which is of the same key, and may be of none yet. A row without Since was counted by an
// older version; its run began with the last denial at the latest.
func Merge(held *admin.Denied, row admin.Denied) {
	if row.Since == 0 || row.Since > row.LastAt {
		row.Since = row.LastAt
	}
	switch {
	case row.Count == 0: // only let through
	case held.Count == 0:
		held.Since = row.Since
	default:
		held.Since = lastRun(held, &row)
	}
	if row.Count > 0 && row.LastAt >= held.LastAt {
		held.LastAt = row.LastAt
		if row.Limit != "" {
			held.Limit, held.Override = row.Limit, row.Override
		}
	}
	held.Count += row.Count
	held.Blocked = min(held.Blocked+row.Blocked, held.Count)
	held.Compared = min(held.Compared+row.Compared, held.Count)
	held.Passed += row.Passed
}

// lastRun returns when the last run of two rows of one key began.
func lastRun(a, b *admin.Denied) store.Instant {
	if a.Since-b.LastAt > Quiet || b.Since-a.LastAt > Quiet { // they are apart
		return max(a.Since, b.Since)
	}
	return min(a.Since, b.Since)
}

// lookBack finds out when the runs began that reach back to the begin of the period, by the hours from the given one
// back.
func (s *sum) lookBack(hour int64, read Reader) error {
	begin := s.since // a denial that is not in the sum was then at the latest
	oldest := Hour.Number(max(0, s.now-store.Instant(admin.DenialHistory/time.Microsecond)))
	for ; hour >= oldest; hour-- {
		begin = min(begin, Hour.Begin(hour+1))
		reachBack := map[store.Key]*admin.Denied{}
		for key, row := range s.rows {
			if row.Since-begin <= Quiet {
				reachBack[key] = row
			}
		}
		if len(reachBack) == 0 {
			return nil
		}
		err := read(Hour, hour, hour, func(_ int64, part Part) {
			for _, before := range part.Rows {
				row := reachBack[before.Key]
				if row != nil && before.Since > 0 && before.Since < row.Since && row.Since-before.LastAt <= Quiet {
					row.Since = before.Since
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// atLeast raises the counts of hours to those of their minutes. They are higher if versions that know no hours counted
// some of the denials.
func (s *sum) atLeast(minutes *sum) {
	s.others = max(s.others, minutes.others)
	s.lost = s.lost || minutes.lost
	for key, row := range minutes.rows {
		hours := byHour(row.Steps)
		held := s.rows[key]
		if held == nil {
			row.Steps = hours
			s.rows[key] = row
			continue
		}
		for _, hour := range hours {
			i, has := slices.BinarySearchFunc(held.Steps, hour, func(a, b admin.DenialStep) int { return cmp.Compare(a.At, b.At) })
			if !has {
				held.Steps = slices.Insert(held.Steps, i, admin.DenialStep{At: hour.At})
			}
			if step := &held.Steps[i]; hour.Count > step.Count {
				held.Count += hour.Count - step.Count
				step.Count = hour.Count
			}
		}
		held.Since = lastRun(held, row)
		held.LastAt = max(held.LastAt, row.LastAt)
	}
}

func byHour(minutes []admin.DenialStep) (hours []admin.DenialStep) {
	for _, minute := range minutes {
		at := Hour.Begin(Hour.Number(minute.At))
		if len(hours) == 0 || hours[len(hours)-1].At != at {
			hours = append(hours, admin.DenialStep{At: at})
		}
		last := &hours[len(hours)-1]
		last.Count += minute.Count
		last.Blocked += minute.Blocked
	}
	return hours
}

func (s *sum) denials() admin.Denials {
	d := admin.Denials{Rows: make([]admin.Denied, 0, len(s.rows)), Others: s.others, Lost: s.lost, Now: s.now,
		Step: time.Duration(s.step)}
	for _, row := range s.rows {
		d.Rows = append(d.Rows, *row)
	}
	SortMostFirst(d.Rows)
	return d
}

// SortMostFirst sorts rows by their counts; among equals the last denial comes first.
func SortMostFirst(rows []admin.Denied) {
	slices.SortFunc(rows, func(a, b admin.Denied) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.LastAt, a.LastAt),
			cmp.Compare(a.Key.Subject, b.Key.Subject), cmp.Compare(a.Key.Name, b.Key.Name))
	})
}

// AtClock returns row with the instants by the store's clock, which shows now when the caller's shows theirs.
func AtClock(row admin.Denied, theirs, now store.Instant) admin.Denied {
	if row.Since == 0 {
		row.Since = row.LastAt
	}
	row.LastAt = now - max(0, theirs-row.LastAt)
	row.Since = now - max(0, theirs-row.Since)
	return row
}

// IsSound reports whether a row that was read can be one that limitctl wrote.
func IsSound(row *admin.Denied) bool {
	return row.Count >= 0 && row.LastAt >= 0 && row.Since >= 0 && row.Blocked >= 0 && row.Compared >= 0 && row.Passed >= 0 &&
		len(row.Limit) <= admin.MaxDenialText && len(row.Override) <= admin.MaxDenialText && row.Key.Validate() == nil
}
