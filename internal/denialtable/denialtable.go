// Package denialtable has what the tables of denials of all stores share: which minutes there are, which rows stay,
// and how they are added. See [admin.DenialTable].
package denialtable

import (
	"cmp"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// MostHeld is the number of rows of a minute above which those beyond [admin.DenialsKept] are removed. The margin
// avoids a search at each write.
const MostHeld = admin.DenialsKept * 3 / 2

const minute = store.Instant(time.Minute / time.Microsecond)

// MinuteOf returns the number of the minute of now, since the epoch.
func MinuteOf(now store.Instant) int64 { return int64(now / minute) }

// End returns when a minute expires.
func End(number int64) store.Instant {
	return store.Instant(number+1)*minute + store.Instant(admin.DenialHistory/time.Microsecond)
}

// Minutes returns the first and the last minute of the period that ends now.
func Minutes(now store.Instant, last time.Duration) (from, to int64) {
	return MinuteOf(max(0, now-store.Instant(last/time.Microsecond))), MinuteOf(now)
}

// CheckLast returns a [store.ErrInvalid] if last is out of bounds.
func CheckLast(last time.Duration) error {
	if last <= 0 || last > admin.DenialHistory {
		return store.Invalidf("denials of the last %s: it must be more than 0 and at most %s", last, admin.DenialHistory)
	}
	return nil
}

// Sum is the sum of minutes.
type Sum struct {
	now, since store.Instant
	rows       map[store.Key]admin.Denied
	others     int64
	lost       bool
}

// NewSum returns an empty sum for the period last that ends at now.
func NewSum(now store.Instant, last time.Duration) *Sum {
	return &Sum{now: now, since: now - store.Instant(last/time.Microsecond), rows: map[store.Key]admin.Denied{}}
}

// Add adds one minute, and may reorder its rows. Only the most denied rows keep their own counts. It leaves out
// rows whose last denial is before the period.
func (s *Sum) Add(rows []admin.Denied, others int64, lost bool) {
	s.others += others
	s.lost = s.lost || lost
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
		if held, has := s.rows[row.Key]; has {
			row.Count += held.Count
			row.LastAt = max(row.LastAt, held.LastAt)
		}
		s.rows[row.Key] = row
	}
}

// Denials returns the sum.
func (s *Sum) Denials() admin.Denials {
	d := admin.Denials{Rows: make([]admin.Denied, 0, len(s.rows)), Others: s.others, Lost: s.lost, Now: s.now}
	for _, row := range s.rows {
		d.Rows = append(d.Rows, row)
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
