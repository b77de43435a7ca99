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
	"github.com/limitctl/limitctl/internal/naive"
	"github.com/limitctl/limitctl/internal/outcome"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Implementations of decisions in Redis.
const (
	// Script is the real one: a script decides in the server.
	Script = "script"
	// Naive takes several commands, and lets too much through. A load test of it shows that the audit finds that.
	Naive = "naive"
)

// StoreTarget is a store for one run, whose keys have a prefix of their own. It is a [Target].
type StoreTarget struct {
	connect.Store
	decides     store.Store           // the store itself, or a naive one
	client      redis.UniversalClient // nil for an embedded store
	prefix      string                // of its keys
	description Description

	mu         sync.Mutex
	impossible loadgen.ErrorCount
}

// OpenStore opens the store at url, with the options that [connect.Open] takes, under the option's prefix and a random
// ending. It does not connect yet. The implementation is [Script] or, for Redis, [Naive]. A wrong URL, prefix or
// implementation is a [store.ErrInvalid].
func OpenStore(url string, options connect.Options, implementation string) (*StoreTarget, error) {
	// The prefix that the user knows is checked, and not the one made of it.
	if err := store.ValidatePrefix(options.Prefix); err != nil {
		return nil, err
	}
	options.Prefix += ":loadtest:" + strings.ToLower(rand.Text()[:10])
	backend, client, where, err := connect.OpenWithClient(url, options)
	if err != nil {
		return nil, err
	}
	t := &StoreTarget{Store: backend, decides: backend, client: client, prefix: options.Prefix,
		description: Description{Name: where, Server: "embedded in limitctl"}}
	if client != nil {
		t.description.Implementation = implementation
		if t.description.Divided = connect.IsCluster(client); t.description.Divided {
			t.description.Skew = time.Second
		}
	}
	switch {
	case implementation == Script:
	case client == nil:
		err = store.Invalidf("--implementation %s is for Redis, and the store is %s; use a store at redis://…",
			implementation, where)
	default:
		t.decides = naive.New(client, options.Prefix)
	}
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	return t, nil
}

// Decide implements [store.Store].
func (t *StoreTarget) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
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

// Report implements [Target].
func (t *StoreTarget) Report(run *report.Run) { run.Impossible = t.impossible }

// Prepare implements [Target].
func (t *StoreTarget) Prepare(ctx context.Context, requests []store.Request, timeout time.Duration) (
	is Description, err error) {
	is = t.description
	decisions := make([]store.Decision, len(requests))
	// The first call connects and finds the way. The second one is as quick as can be, so that the clock is read well.
	for range 2 {
		asked := time.Now()
		bounded, cancel := store.BudgetContext(ctx, timeout)
		err := t.Decide(bounded, store.Peek, requests, decisions)
		cancel()
		if err != nil {
			return is, err
		}
		is.Ahead = decisions[0].At.Time().Sub(asked.Add(time.Since(asked) / 2))
	}
	if t.client != nil {
		is.Server = t.server(ctx, timeout)
	}
	return is, nil
}

// server is the product and the version of the server, such as "Redis 7.0.15"; empty if unknown, for example for lack
// of a right.
func (t *StoreTarget) server(ctx context.Context, timeout time.Duration) string {
	ctx, cancel := store.BudgetContext(ctx, timeout)
	defer cancel()
	info, err := redisserver.New(t.client, "").Info(t.client.Info(ctx, "server"))
	version := info.Version()
	switch {
	case err != nil || version.Text == "":
		return ""
	case t.description.Divided:
		version.Text += ", Cluster"
	}
	return version.Product + " " + version.Text
}

// CleanUp implements [Target].
func (t *StoreTarget) CleanUp(ctx context.Context, keys []store.Key) error {
	const atMost, batch = time.Minute, 10_000
	ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), atMost)
	defer cancel()
	for some := range slices.Chunk(keys, batch) {
		if _, _, err := t.Delete(ctx, admin.Records(some...)...); err != nil {
			return outcome.Partly(fmt.Errorf("the run's keys, which begin with %s:, could not all be removed: %w",
				t.prefix, err))
		}
	}
	return nil
}
