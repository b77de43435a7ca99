package experiment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/cost"
	"github.com/limitctl/limitctl/internal/naive"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Store is a store for one experiment, whose keys have a prefix of their own.
type Store struct {
	connect.Store
	where, prefix string
	client        redis.UniversalClient // nil for an embedded store
}

// OpenStore opens the store at url, with the options that [connect.Open] takes, under a
// prefix of the experiment's own: the option's prefix and a random ending. It does not connect
// yet. What is wrong with the URL or the prefix is a [store.ErrInvalid].
func OpenStore(url string, options connect.Options) (*Store, error) {
	// The prefix that the user knows is checked, and not the one made of it.
	if err := store.ValidatePrefix(options.Prefix); err != nil {
		return nil, err
	}
	options.Prefix += ":loadtest:" + strings.ToLower(rand.Text()[:10])
	backend, client, where, err := connect.OpenWithClient(url, options)
	if err != nil {
		return nil, err
	}
	return &Store{Store: backend, where: where, prefix: options.Prefix, client: client}, nil
}

const (
	// removalTime is the longest that removing the keys of an experiment may take.
	removalTime = time.Minute
	// removalBatch is how many keys are removed at a time.
	removalBatch = 10_000
)

// remove deletes the keys of a run, also after ctx was cancelled.
func (s *Store) remove(ctx context.Context, keys []store.Key) error {
	ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), removalTime)
	defer cancel()
	for some := range slices.Chunk(keys, removalBatch) {
		if _, _, err := s.Delete(ctx, admin.Records(some...)...); err != nil {
			return &LeftoverError{fmt.Errorf("the run's keys, which begin with %s:, could not all be removed: %w", s.prefix, err)}
		}
	}
	return nil
}

// Implementations of decisions in Redis.
const (
	// Script is the real one: a script decides in the server.
	Script = "script"
	// Naive takes several commands, and lets too much through. A load test of it shows
	// that the audit finds that.
	Naive = "naive"
)

// clusterSkew is by how much the clocks of a Cluster's masters may differ.
const clusterSkew = time.Second

// storeTarget is a store as a target.
type storeTarget struct {
	*Store
	decides        store.Store // the store itself, or a naive one
	implementation string
	server         string // its kind and version, once it is prepared

	mu         sync.Mutex
	impossible loadgen.ErrorCount
}

// NewStoreTarget returns a new Store as a target. The implementation is [Script] or
// [Naive]; Naive with a store that is not Redis is a [PlanError].
func NewStoreTarget(backend *Store, implementation string) (Target, error) {
	t := &storeTarget{Store: backend, decides: backend.Store}
	if backend.client != nil {
		t.implementation = implementation
	}
	if implementation == Script {
		return t, nil
	}
	if backend.client == nil {
		return nil, &PlanError{fieldImplementation, fmt.Sprintf("is for Redis, and the store is %s; use a store at redis://…",
			backend.where)}
	}
	var err error
	t.decides, err = naive.New(backend.client, backend.prefix)
	return t, err
}

// Decide implements [store.Store].
func (t *storeTarget) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	err := t.decides.Decide(ctx, op, reqs, decisions)
	// The keys are the run's own, so that nobody else has put anything there.
	if err != nil && (errors.Is(err, store.ErrForeign) || redisserver.WrongAnswer(err) != nil) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.impossible.Count++; t.impossible.Count == 1 {
			t.impossible.Text = err.Error()
		}
	}
	return err
}

// Describe implements [Target].
func (t *storeTarget) Describe() Description {
	return Description{
		Name: t.where, Server: t.server, Implementation: t.implementation, Prefix: t.prefix, Divided: connect.IsCluster(t.client),
	}
}

// Prepare implements [Target].
func (t *storeTarget) Prepare(ctx context.Context, requests []store.Request, timeout time.Duration) (clock Clock, err error) {
	if connect.IsCluster(t.client) {
		clock.Skew = clusterSkew
	}
	decisions := make([]store.Decision, len(requests))
	// The first call connects and finds the way. The second one is as quick as can be, so
	// that the clock is read well.
	for range 2 {
		asked := time.Now()
		if err := t.peek(ctx, requests, decisions, timeout); err != nil {
			return clock, err
		}
		answered := time.Now()
		clock.Ahead = decisions[0].At.Time().Sub(asked.Add(answered.Sub(asked) / 2))
	}
	return clock, nil
}

func (t *storeTarget) peek(ctx context.Context, requests []store.Request, decisions []store.Decision, timeout time.Duration) error {
	ctx, cancel := store.BudgetContext(ctx, timeout)
	defer cancel()
	return t.Decide(ctx, store.Peek, requests, decisions)
}

// embedded is what a report calls the server of a store that needs none.
const embedded = "embedded in limitctl"

// Measure implements [Target].
func (t *storeTarget) Measure(ctx context.Context) Measurement {
	begun := cost.Begin(ctx, t.client)
	if t.server = begun.Server(); t.client == nil {
		t.server = embedded
	} else if t.server != "" && connect.IsCluster(t.client) {
		t.server += ", Cluster"
	}
	return &storeMeasurement{begun, t.Store}
}

// CleanUp implements [Target].
func (t *storeTarget) CleanUp(ctx context.Context, keys []store.Key) error {
	return t.remove(ctx, keys)
}

// storeMeasurement adds the memory of keys to what the meter of a store measures.
type storeMeasurement struct {
	*cost.Measurement
	keyspace admin.Keyspace
}

// End implements [Measurement].
func (m *storeMeasurement) End(ctx context.Context, decisions int64, sample []store.Key) (report.Cost, []string) {
	spent, warnings := m.Measurement.End(ctx, decisions)
	return spent, append(warnings, cost.Sample(ctx, m.keyspace, sample, &spent)...)
}
