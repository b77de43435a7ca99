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
	mu    sync.Mutex
	parts map[partKey]*denialPart
}

type partKey struct {
	step   denialtable.Step
	number int64
}

type denialPart struct {
	rows   map[store.Key]*admin.Denied
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
	for part := range s.denials.parts {
		if part.step.Expires(part.number) <= now {
			delete(s.denials.parts, part)
		}
	}
	if s.denials.parts == nil {
		s.denials.parts = map[partKey]*denialPart{}
	}
	for _, step := range denialtable.Steps {
		part := partKey{step, step.Number(now)}
		if s.denials.parts[part] == nil {
			s.denials.parts[part] = &denialPart{rows: map[store.Key]*admin.Denied{}}
		}
		s.denials.parts[part].add(&d, now)
	}
	return nil
}

// add adds d, which comes at now.
func (p *denialPart) add(d *admin.Denials, now store.Instant) {
	for _, row := range d.Rows {
		held := p.rows[row.Key]
		if held == nil {
			if row.Count == 0 {
				continue
			}
			held = &admin.Denied{Key: row.Key}
			p.rows[row.Key] = held
		}
		denialtable.Merge(held, denialtable.AtClock(row, d.Now, now))
	}
	p.others += d.Others
	p.lost = p.lost || d.Lost
	if len(p.rows) > denialtable.MostHeld {
		for _, row := range p.list()[admin.DenialsKept:] {
			p.others += row.Count
			delete(p.rows, row.Key)
		}
	}
}

// list returns the rows, those denied most first.
func (p *denialPart) list() []admin.Denied {
	rows := make([]admin.Denied, 0, len(p.rows))
	for _, row := range p.rows {
		rows = append(rows, *row)
	}
	denialtable.SortMostFirst(rows)
	return rows
}

// Denials implements [admin.DenialTable].
func (s *Store) Denials(_ context.Context, last time.Duration) (admin.Denials, error) {
	if err := cmp.Or(s.check(), denialtable.CheckLast(last)); err != nil {
		return admin.Denials{}, err
	}
	s.denials.mu.Lock()
	defer s.denials.mu.Unlock()
	read := func(step denialtable.Step, from, to int64, add func(number int64, part denialtable.Part)) error {
		for number := from; number <= to; number++ {
			if p := s.denials.parts[partKey{step, number}]; p != nil {
				add(number, denialtable.Part{Rows: p.list(), Others: p.others, Lost: p.lost})
			}
		}
		return nil
	}
	return denialtable.Read(s.clock(), last, read)
}
