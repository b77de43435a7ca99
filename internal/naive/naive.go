// Package naive decides limits in Redis in a wrong way that is often written first: it reads the usage, decides in
// the client, and writes the new usage back. It is for comparison, and for load tests that show that the audit
// finds the fault. Nothing else should use it.
//
// Between the read and the write, others read the same, decide the same, and overwrite each other. A limit of one
// lets all concurrent callers through. The arithmetic, the keys and the records are those of the real store. Only
// the race and the number of round trips differ.
package naive

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store is a [store.Store] that lets too much through when callers are concurrent.
type Store struct {
	client  redis.UniversalClient
	servers *redisserver.Servers
	layout  admin.OwnLayout
}

// New returns a Store on client, which is already guarded and stays open. New does not connect yet.
func New(client redis.UniversalClient, prefix string) *Store {
	return &Store{client: client, servers: redisserver.New(client, prefix), layout: admin.OwnLayout(prefix)}
}

// Close implements [store.Store]. It does nothing.
func (s *Store) Close() error { return nil }

// Decide implements [store.Store], except that it decides neither at one instant nor all or nothing: TIME, a GET of
// each key, the decision here, and a SET of each key if it changed something. An error of a later key leaves the
// earlier ones charged.
func (s *Store) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	reqs, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	clock, err := s.client.Time(ctx).Result() // in a Cluster that of some node
	if err != nil {
		return s.servers.Explain(err)
	}
	now := store.InstantOf(clock)
	states := make([]*store.State, len(reqs))
	for i := range reqs {
		states[i] = new(store.State)
		if err := s.read(ctx, reqs[i].Key, states[i]); err != nil {
			return err
		}
	}
	if changes, err := store.Decide(op, reqs, states, decisions, &store.TokenRecord{}, now); err != nil ||
		!changes.States {
		return err
	}
	for i, state := range states {
		if state.IsZero() {
			continue // a shadow that did not fit
		}
		if err := s.write(ctx, op, reqs[i].Key, state, now); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) read(ctx context.Context, key store.Key, state *store.State) error {
	record, err := s.client.Get(ctx, s.layout.StoreKey(key)).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		return s.servers.Explain(err)
	}
	if err := state.DecodeRecord(record); err != nil {
		return &store.ForeignError{StoreKey: s.layout.StoreKey(key), Holds: err.Error()}
	}
	return nil
}

// write sets the key to expire when it equals an unused one, like every record.
func (s *Store) write(ctx context.Context, op store.Op, key store.Key, state *store.State, now store.Instant) error {
	storeKey := s.layout.StoreKey(key)
	lasts := now.Until(state.UnusedAt(now)) + time.Millisecond
	err := s.client.Set(ctx, storeKey, state.AppendRecord(nil), lasts.Truncate(time.Millisecond)).Err()
	return s.servers.ExplainCall(err, redisserver.Call{
		Verb: op.String(), Changes: true, Sent: true,
		GaveUp: store.GaveUp(ctx), Keys: []string{storeKey}})
}
