package memorystore

import (
	"context"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ store.Identity = (*Store)(nil)

// StoreID implements [store.Identity].
func (s *Store) StoreID(context.Context) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	if id := s.id.Load(); id != nil {
		return *id, nil
	}
	return "", nil
}

// EnsureStoreID implements [store.Identity].
func (s *Store) EnsureStoreID(ctx context.Context) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	id := store.NewStoreID()
	s.id.CompareAndSwap(nil, &id)
	return s.StoreID(ctx)
}
