package memorystore

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/denialtable"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.DenialTable = (*Store)(nil)

// denials is the table of denials. The zero value is an empty one.
type denials struct {
	mu      sync.Mutex
	minutes map[int64]*denialMinute
}

type denialMinute struct {
	rows   map[store.Key]admin.Denied
	others int64
	lost   bool
}

// AddDenials implements [admin.DenialTable].
func (s *Store) AddDenials(_ context.Context, d admin.Denials) error {
	if err := cmp.Or(s.check(), d.Check()); err != nil {
		return err
	}
	now := s.clock()
	s.denials.mu.Lock()
	defer s.denials.mu.Unlock()
	for number := range s.denials.minutes {
		if denialtable.End(number) <= now {
			delete(s.denials.minutes, number)
		}
	}
	number := denialtable.MinuteOf(now)
	m := s.denials.minutes[number]
	if m == nil {
		if s.denials.minutes == nil {
			s.denials.minutes = map[int64]*denialMinute{}
		}
		m = &denialMinute{rows: map[store.Key]admin.Denied{}}
		s.denials.minutes[number] = m
	}
	for _, row := range d.Rows {
		held := m.rows[row.Key]
		m.rows[row.Key] = admin.Denied{Key: row.Key, Count: held.Count + row.Count,
			LastAt: max(held.LastAt, now-max(0, d.Now-row.LastAt))}
	}
	m.others += d.Others
	m.lost = m.lost || d.Lost
	if len(m.rows) > denialtable.MostHeld {
		for _, row := range m.list()[admin.DenialsKept:] {
			m.others += row.Count
			delete(m.rows, row.Key)
		}
	}
	return nil
}

// list returns the rows, those denied most first.
func (m *denialMinute) list() []admin.Denied {
	rows := make([]admin.Denied, 0, len(m.rows))
	for _, row := range m.rows {
		rows = append(rows, row)
	}
	denialtable.SortMostFirst(rows)
	return rows
}

// Denials implements [admin.DenialTable].
func (s *Store) Denials(_ context.Context, last time.Duration) (admin.Denials, error) {
	if err := cmp.Or(s.check(), denialtable.CheckLast(last)); err != nil {
		return admin.Denials{}, err
	}
	now := s.clock()
	sum := denialtable.NewSum(now, last)
	s.denials.mu.Lock()
	defer s.denials.mu.Unlock()
	from, to := denialtable.Minutes(now, last)
	for number := from; number <= to; number++ {
		if m := s.denials.minutes[number]; m != nil {
			sum.Add(m.list(), m.others, m.lost)
		}
	}
	return sum.Denials(), nil
}
