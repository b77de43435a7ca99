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
	mu              sync.Mutex
	minutes, coarse map[int64]*denialStep
}

type denialStep struct {
	rows       map[store.Key]admin.Denied
	letThrough map[string]int64 // by the ID of an override
	others     int64
	lost       bool
}

// AddDenials implements [admin.DenialTable].
func (s *Store) AddDenials(_ context.Context, d admin.Denials) error {
	if err := cmp.Or(s.check(), d.Check()); err != nil {
		return err
	}
	now := s.clock()
	s.denials.mu.Lock()
	defer s.denials.mu.Unlock()
	if s.denials.minutes == nil {
		s.denials.minutes, s.denials.coarse = map[int64]*denialStep{}, map[int64]*denialStep{}
	}
	addDenials(s.denials.minutes, denialtable.Minutes, &d, now)
	addDenials(s.denials.coarse, denialtable.Coarse, &d, now)
	return nil
}

// addDenials adds d to the current one of held, and drops those that have expired.
func addDenials(held map[int64]*denialStep, steps denialtable.Steps, d *admin.Denials, now store.Instant) {
	for number := range held {
		if steps.End(number) <= now {
			delete(held, number)
		}
	}
	number := steps.At(now)
	step := held[number]
	if step == nil {
		step = &denialStep{rows: map[store.Key]admin.Denied{}, letThrough: map[string]int64{}}
		held[number] = step
	}
	for _, row := range d.Rows {
		row.Steps = nil
		step.rows[row.Key] = denialtable.Merge(step.rows[row.Key], denialtable.ByClock(row, d.Now, now))
	}
	for _, l := range d.LetThrough {
		if before := step.letThrough[l.Override]; before > 0 || len(step.letThrough) < admin.LetThroughKept {
			step.letThrough[l.Override] = before + l.Count
		}
	}
	step.others += d.Others
	step.lost = step.lost || d.Lost
	if len(step.rows) > steps.Held() {
		for _, row := range step.list()[steps.Kept:] {
			step.others += row.Count
			delete(step.rows, row.Key)
		}
	}
}

// list returns the rows, those denied most first.
func (s *denialStep) list() []admin.Denied {
	rows := make([]admin.Denied, 0, len(s.rows))
	for _, row := range s.rows {
		rows = append(rows, row)
	}
	denialtable.SortMostFirst(rows)
	return rows
}

// denials returns the step as a table does.
func (s *denialStep) denials() *admin.Denials {
	d := &admin.Denials{Rows: s.list(), Others: s.others, Lost: s.lost}
	for id, count := range s.letThrough {
		d.LetThrough = append(d.LetThrough, admin.LetThrough{Override: id, Count: count})
	}
	return d
}

// Denials implements [admin.DenialTable].
func (s *Store) Denials(_ context.Context, last time.Duration) (admin.Denials, error) {
	if err := cmp.Or(s.check(), denialtable.CheckLast(last)); err != nil {
		return admin.Denials{}, err
	}
	now := s.clock()
	sum, steps := denialtable.NewSum(now, last), denialtable.For(last)
	s.denials.mu.Lock()
	defer s.denials.mu.Unlock()
	held := s.denials.minutes
	if steps == denialtable.Coarse {
		held = s.denials.coarse
	}
	from, to := steps.Touched(now, last)
	for number := from; number <= to; number++ {
		if step := held[number]; step != nil {
			sum.Add(number, step.denials())
		}
	}
	return sum.Denials(), nil
}
