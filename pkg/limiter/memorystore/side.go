package memorystore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// side is the [admin.SideTable] of a store, under one lock.
type side struct {
	store   *Store
	mu      sync.Mutex
	records map[recordName]admin.TableRecord
	lists   map[admin.List][]admin.JournalEntry
	steps   map[stepName]*admin.Tally
}

type recordName struct {
	table admin.Table
	name  string
}

type stepName struct {
	steps  admin.DenialSteps
	number int64
}

func newSide(s *Store) *side {
	return &side{store: s, records: map[recordName]admin.TableRecord{}, lists: map[admin.List][]admin.JournalEntry{},
		steps: map[stepName]*admin.Tally{}}
}

// begin takes the lock, and removes records that have ended.
func (s *side) begin() (now store.Instant, err error) {
	if err := s.store.check(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	now = s.store.clock()
	maps.DeleteFunc(s.records, func(_ recordName, r admin.TableRecord) bool { return r.Ends > 0 && r.Ends <= now })
	return now, nil
}

// Get implements [admin.SideTable].
func (s *side) Get(_ context.Context, t admin.Table, names ...string) (found []admin.TableRecord, now store.Instant,
	err error) {
	if err := t.Check(); err != nil {
		return nil, 0, err
	}
	if now, err = s.begin(); err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	for n, r := range s.records {
		if n.table == t && (names == nil || slices.Contains(names, n.name)) {
			r.Left = now.Until(r.Ends)
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b admin.TableRecord) int { return cmp.Compare(a.Name, b.Name) })
	return found, now, nil
}

// Change implements [admin.SideTable].
func (s *side) Change(_ context.Context, c *admin.Change) (done bool, err error) {
	now, err := s.begin()
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	if err := c.Check(); err != nil || s.records[recordName{c.Table, c.Guard}].Value != c.Was {
		return false, err
	}
	for _, name := range c.Drop {
		delete(s.records, recordName{c.Table, name})
	}
	for _, r := range c.Set {
		if r.Place = "the memory store"; r.Ends == 0 && r.Left > 0 {
			r.Ends = now + store.Instant(r.Left.Microseconds())
		}
		s.records[recordName{c.Table, r.Name}] = r
	}
	if c.Line != "" {
		s.append(admin.HistoryList, c.Line, now)
	}
	return true, nil
}

// Append implements [admin.SideTable].
func (s *side) Append(_ context.Context, l admin.List, text string) error {
	now, err := s.begin()
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.append(l, text, now)
	return nil
}

func (s *side) append(l admin.List, text string, now store.Instant) {
	all := append(s.lists[l], admin.JournalEntry{At: now.Time(), Text: text})
	s.lists[l] = slices.Delete(all, 0, max(0, len(all)-l.Kept()))
}

// Lines implements [admin.SideTable].
func (s *side) Lines(_ context.Context, l admin.List, most int) (lines []admin.JournalEntry, damaged int, err error) {
	if _, err := s.begin(); err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	all := s.lists[l]
	return slices.Clone(all[max(0, len(all)-max(0, most)):]), 0, nil
}

// AddCounts implements [admin.SideTable].
func (s *side) AddCounts(_ context.Context, d *admin.Denials) error {
	now, err := s.begin()
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	maps.DeleteFunc(s.steps, func(n stepName, _ *admin.Tally) bool { return n.steps.End(n.number) <= now })
	for _, steps := range []admin.DenialSteps{admin.FineSteps, admin.CoarseSteps} {
		name := stepName{steps, steps.At(now)}
		if s.steps[name] == nil {
			s.steps[name] = admin.NewTally()
		}
		s.steps[name].Add(steps, d, now)
	}
	return nil
}

// Counts implements [admin.SideTable].
func (s *side) Counts(_ context.Context, last time.Duration, add func(store.Instant, int64, *admin.Tally)) (
	store.Instant, error) {
	now, err := s.begin()
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	steps, from, to := admin.StepsTouched(now, last)
	for number := from; number <= to; number++ {
		if held := s.steps[stepName{steps, number}]; held != nil {
			step := admin.Tally{Rows: maps.Clone(held.Rows), Others: held.Others, Lost: held.Lost}
			add(now, number, &step)
		}
	}
	return now, nil
}
