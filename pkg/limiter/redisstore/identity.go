package redisstore

import (
	"context"
	"errors"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.Identity = (*Store)(nil)

// identityKey returns the key of the store's id. It never expires.
func (s *Store) identityKey() string { return string(s.lanes.Own) + "!id" }

// StoreID implements [admin.Identity] with a GET.
func (s *Store) StoreID(ctx context.Context) (string, error) {
	if err := s.lanes.Check(); err != nil {
		return "", err
	}
	key := s.identityKey()
	cmd, err := s.lanes.Read(ctx, key, "get", key)
	id := lanes.Text(cmd.Val())
	switch {
	case errors.Is(err, redis.Nil):
		return "", nil
	case redisserver.IsErrorReply(err, "WRONGTYPE"), err == nil && !admin.IsStoreID(id):
		return "", &store.ForeignError{StoreKey: key, Holds: "a value that is not the id of a store"}
	case err != nil:
		return "", s.lanes.Explain(err, "read of the store's id", false, []string{key})
	}
	return id, nil
}

// EnsureStoreID implements [admin.Identity]: one GET where there is an id, and else a SET
// that only the first of several callers succeeds with, and another GET.
func (s *Store) EnsureStoreID(ctx context.Context) (string, error) {
	id, err := s.StoreID(ctx)
	if err != nil || id != "" {
		return id, err
	}
	key := s.identityKey()
	if _, err := s.lanes.Write(ctx, key, false, "set", key, admin.NewStoreID(), "nx"); err != nil && !errors.Is(err, redis.Nil) {
		return "", s.lanes.Explain(err, "write of the store's id", true, []string{key})
	}
	return s.StoreID(ctx)
}
