package memorystore

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/overridetable"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.OverrideTable = (*Store)(nil)

// overrides is the table of overrides. The zero value is an empty one.
type overrides struct {
	mu      sync.Mutex
	byID    map[string]*override
	version string
}

type override struct {
	text             []byte // the form of other stores
	created, expires store.Instant
}

// at returns o as a reader sees it at now.
func (o *override) at(id string, now store.Instant) (store.Override, error) {
	read, err := overridetable.Decode(o.text)
	overridetable.Complete(&read, id, o.created, o.expires, now)
	return read, err
}

// drop removes the overrides that have ended. The caller holds mu.
func (t *overrides) drop(now store.Instant) {
	maps.DeleteFunc(t.byID, func(_ string, o *override) bool { return o.expires <= now })
	if len(t.byID) == 0 {
		t.version = ""
	}
}

// OverrideVersion implements [admin.OverrideTable].
func (s *Store) OverrideVersion(context.Context) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	s.overrides.mu.Lock()
	defer s.overrides.mu.Unlock()
	s.overrides.drop(s.clock())
	return s.overrides.version, nil
}

// Overrides implements [admin.OverrideTable].
func (s *Store) Overrides(context.Context) (list []store.Override, version string, err error) {
	if err := s.check(); err != nil {
		return nil, "", err
	}
	s.overrides.mu.Lock()
	defer s.overrides.mu.Unlock()
	now := s.clock()
	s.overrides.drop(now)
	for id, o := range s.overrides.byID {
		read, err := o.at(id, now)
		if err != nil {
			return nil, "", err
		}
		list = append(list, read)
	}
	overridetable.SortNewestFirst(list)
	return list, s.overrides.version, nil
}

// SetOverride implements [admin.OverrideTable].
func (s *Store) SetOverride(_ context.Context, o store.Override, lasts time.Duration) (store.Override, error) {
	if err := s.check(); err != nil {
		return store.Override{}, err
	}
	written, err := overridetable.Encode(&o, lasts)
	if err != nil {
		return store.Override{}, err
	}
	s.overrides.mu.Lock()
	defer s.overrides.mu.Unlock()
	now := s.clock()
	s.overrides.drop(now)
	try := 0
	id := written.ID(try)
	for s.overrides.byID[id] != nil && !written.IsOf(string(s.overrides.byID[id].text)) {
		try++
		id = written.ID(try)
	}
	if s.overrides.byID[id] == nil && len(s.overrides.byID) >= admin.MaxOverrides {
		return store.Override{}, overridetable.ErrFull()
	}
	if s.overrides.byID == nil {
		s.overrides.byID = map[string]*override{}
	}
	held := &override{text: slices.Clip(written.Text)}
	held.created, held.expires = overridetable.Times(now, lasts)
	s.overrides.byID[id] = held
	s.overrides.version = overridetable.NewVersion()
	return held.at(id, now)
}

// RevokeOverride implements [admin.OverrideTable].
func (s *Store) RevokeOverride(_ context.Context, id string) (o store.Override, found bool, err error) {
	if err := s.check(); err != nil {
		return store.Override{}, false, err
	}
	s.overrides.mu.Lock()
	defer s.overrides.mu.Unlock()
	now := s.clock()
	s.overrides.drop(now)
	held := s.overrides.byID[id]
	if held == nil {
		return store.Override{}, false, nil
	}
	delete(s.overrides.byID, id)
	s.overrides.version = overridetable.NewVersion()
	s.overrides.drop(now)
	o, err = held.at(id, now)
	return o, true, err
}
