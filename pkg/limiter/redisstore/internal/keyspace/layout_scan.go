package keyspace

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// layoutScan is a scan for limits of other limiters.
type layoutScan struct {
	*scan
	sources layouts.Sources
	// hashes: most values that were read last are no strings.
	hashes atomic.Bool
	mu     sync.Mutex
	seen   *familiesSeen
	ahead  map[redis.Cmdable]time.Duration // how far clocks of servers are ahead of ours
	lost   map[string]error                // what is missing, by master
}

// Scan implements [admin.Keyspace].
func (f *Others) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		sc := &layoutScan{scan: f.newScan(q), sources: f.sources, seen: newFamiliesSeen(f.Servers),
			ahead: map[redis.Cmdable]time.Duration{}, lost: map[string]error{}}
		sc.run(ctx, yield, func(ctx context.Context) error { return sc.withLost(sc.readAll(ctx)) }, nil)
	}
}

func (sc *layoutScan) readAll(ctx context.Context) error {
	if sc.query.StoreKeys != nil {
		return sc.readKeys(ctx)
	}
	keys := redisserver.Scan[*layouts.Look]{
		Servers: sc.Servers, Match: sc.sources.Glob(sc.query.Subjects), Known: sc.known,
		Select: func(storeKey string) (*layouts.Look, bool) {
			look := sc.sources.Look(storeKey, &sc.query)
			return look, look != nil && !sc.isBeside(storeKey)
		},
		Read: func(ctx context.Context, p redisserver.Page[*layouts.Look]) error {
			return sc.readAndSend(ctx, p.Server, p.Keys, int64(p.Looked))
		},
	}
	return keys.All(ctx)
}

// readKeys looks at exactly the query's keys. A store key can have several of them.
func (sc *layoutScan) readKeys(ctx context.Context) error {
	if err := sc.known(ctx, int64(len(sc.query.StoreKeys))); err != nil {
		return err
	}
	storeKeys, keys := sc.query.StoreKeys, map[string][]store.Key{}
	if len(sc.query.Keys) == len(storeKeys) {
		storeKeys = nil
		for i, storeKey := range sc.query.StoreKeys {
			if keys[storeKey] == nil {
				storeKeys = append(storeKeys, storeKey)
			}
			keys[storeKey] = append(keys[storeKey], sc.query.Keys[i])
		}
	}
	return sc.readExactly(ctx, storeKeys, func(server redis.Cmdable, batch []int) error {
		var looks []*layouts.Look
		looked := 0
		for _, i := range batch {
			looked += max(1, len(keys[storeKeys[i]]))
			if look := sc.lookAt(storeKeys[i], keys[storeKeys[i]]); look != nil && !sc.isBeside(storeKeys[i]) {
				looks = append(looks, look)
			}
		}
		return sc.readAndSend(ctx, server, looks, int64(looked))
	})
}

// lookAt begins to look at one of the query's store keys. Keys without a name have only a subject, which
// the query selects.
func (sc *layoutScan) lookAt(storeKey string, keys []store.Key) *layouts.Look {
	if len(keys) == 0 || keys[0].Name == "" {
		return sc.sources.Look(storeKey, &sc.query)
	}
	return sc.sources.LookFor(storeKey, keys...)
}

// readAndSend reads the values that the looks need, and sends the results.
func (sc *layoutScan) readAndSend(ctx context.Context, server redis.Cmdable, looks []*layouts.Look, looked int64) error {
	return sendBatch(ctx, sc.scan, server, looks, looked, func(some []*layouts.Look, give func([]found) error) error {
		return sc.read(ctx, server, some, give)
	})
}

// loseMaster notes that a master could not be reached for keys that belong to others elsewhere. A
// scan goes on without them.
func (sc *layoutScan) loseMaster(node *redis.Client, err error) error {
	if sc.query.StoreKeys != nil {
		return sc.Named(err, node)
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if address := node.Options().Addr; sc.lost[address] == nil {
		sc.lost[address] = sc.Servers.Incomplete(err, node)
	}
	return nil
}

// hasLost reports whether a master could not be reached.
func (sc *layoutScan) hasLost(node *redis.Client) bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.lost[node.Options().Addr] != nil
}

// withLost returns the error of the scan, joined with those of lost masters that it does not name.
func (sc *layoutScan) withLost(err error) error {
	if len(sc.lost) == 0 {
		return err
	}
	named := partsIn(err)
	errs := []error{err}
	for _, lost := range sc.lost {
		if !slices.Contains(named, partsIn(lost)[0]) {
			errs = append(errs, lost)
		}
	}
	if len(errs) == 1 {
		return err
	}
	return errors.Join(errs...)
}

// partsIn returns the masters that joined errors of a scan are of.
func partsIn(err error) (parts []string) {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, err := range joined.Unwrap() {
			parts = append(parts, partsIn(err)...)
		}
		return parts
	}
	if of := (*admin.IncompleteError)(nil); errors.As(err, &of) {
		return []string{of.Shard}
	}
	return nil
}
