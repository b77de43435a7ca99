package memorystore

import (
	"context"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

var _ admin.Identity = (*Store)(nil)

// StoreID implements [admin.Identity].
func (s *Store) StoreID(context.Context) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	if id := s.id.Load(); id != nil {
		return *id, nil
	}
	return "", nil
}

// EnsureStoreID implements [admin.Identity].
func (s *Store) EnsureStoreID(ctx context.Context) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	id := admin.NewStoreID()
	s.id.CompareAndSwap(nil, &id)
	return s.StoreID(ctx)
}
