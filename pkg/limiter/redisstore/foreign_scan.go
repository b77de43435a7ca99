package redisstore

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// foreignPage is what a scan has read in one go.
type foreignPage struct {
	found         []foreignFound
	looked, total int64
}

// foreignFound is what came of one store key, or of several that belong together.
type foreignFound struct {
	storeKey string
	entries  []admin.Entry
	err      error
}

// foreignScan is one scan. It reads from several goroutines.
type foreignScan struct {
	*foreignKeys
	query admin.Query
	pace  *redisserver.Pacer
	pages chan foreignPage
	// hashes: most values that were read last are no strings.
	hashes atomic.Bool
	mu     sync.Mutex
	seen   *familiesSeen
	ahead  map[redis.Cmdable]time.Duration // how far clocks of servers are ahead of ours
	lost   map[string]error                // what is missing, by master
}

// Scan implements [admin.Keyspace].
func (f *foreignKeys) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		if err := f.store.lanes.Check(); err != nil {
			yield(admin.Entry{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		sc := &foreignScan{foreignKeys: f, query: q, pages: make(chan foreignPage), pace: redisserver.NewPacer(q.KeysPerSecond),
			seen: newFamiliesSeen(f.store.lanes.Servers), ahead: map[redis.Cmdable]time.Duration{}, lost: map[string]error{}}
		scanned := make(chan error, 1)
		panics.Go(func() error { return sc.run(ctx) }, func(err error) {
			scanned <- err
			close(sc.pages)
		})
		defer func() { // leave nothing running behind the caller's back
			cancel()
			for range sc.pages {
			}
		}()
		var looked, total int64
		for page := range sc.pages {
			for i := range page.found {
				if !page.found[i].yield(yield) {
					return
				}
			}
			looked, total = looked+page.looked, total+page.total
			q.Report(min(looked, total), total)
		}
		if err := sc.withLost(<-scanned); err != nil {
			yield(admin.Entry{}, f.store.lanes.Explain(err, "scan", false, nil))
			return
		}
		q.Report(total, total)
	}
}

func (found *foreignFound) yield(yield func(admin.Entry, error) bool) bool {
	if found.err != nil {
		return yield(admin.Entry{StoreKey: found.storeKey}, found.err)
	}
	for i := range found.entries {
		if !yield(found.entries[i], nil) {
			return false
		}
	}
	return true
}

func (sc *foreignScan) run(ctx context.Context) error {
	if sc.query.StoreKeys != nil {
		return sc.readKeys(ctx)
	}
	keys := redisserver.Scan[*foreign.Look]{
		Servers: sc.store.lanes.Servers, Match: sc.sources.Glob(sc.query.Subjects), Pace: sc.pace,
		Select: func(storeKey string) (*foreign.Look, bool) {
			look := sc.sources.Look(storeKey, &sc.query)
			return look, look != nil && !sc.isBeside(storeKey)
		},
		Known: func(ctx context.Context, keys int64) error { return sc.send(ctx, foreignPage{total: keys}) },
		Read: func(ctx context.Context, p redisserver.Page[*foreign.Look]) error {
			return sc.readPage(ctx, p.Server, p.Keys, int64(p.Looked))
		},
	}
	return keys.All(ctx)
}

// readKeys looks at exactly the query's keys. A store key can have several of them.
func (sc *foreignScan) readKeys(ctx context.Context) error {
	if err := sc.send(ctx, foreignPage{total: int64(len(sc.query.StoreKeys))}); err != nil {
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
	return sc.store.lanes.EachBatch(ctx, tagsOf(storeKeys), redisserver.KeysPerRead, func(batch []int) error {
		if err := sc.pace.Wait(ctx, len(batch)); err != nil {
			return err
		}
		var looks []*foreign.Look
		looked := 0
		for _, i := range batch {
			looked += max(1, len(keys[storeKeys[i]]))
			if look := sc.lookAt(storeKeys[i], keys[storeKeys[i]]); look != nil && !sc.isBeside(storeKeys[i]) {
				looks = append(looks, look)
			}
		}
		server, err := sc.store.lanes.Servers.ServerOf(ctx, storeKeys[batch[0]])
		if err != nil {
			return err
		}
		return sc.store.lanes.Named(sc.readPage(ctx, server, looks, int64(looked)), server)
	})
}

// lookAt looks at one of the query's store keys. Of keys without a name only whom they are of is
// known, and the query says that.
func (sc *foreignScan) lookAt(storeKey string, keys []store.Key) *foreign.Look {
	if len(keys) == 0 || keys[0].Name == "" {
		return sc.sources.Look(storeKey, &sc.query)
	}
	return sc.sources.LookFor(storeKey, keys...)
}

func (sc *foreignScan) send(ctx context.Context, p foreignPage) error {
	select {
	case sc.pages <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readPage reads what the looks need, and sends what came of them.
func (sc *foreignScan) readPage(ctx context.Context, server redis.Cmdable, looks []*foreign.Look, looked int64) error {
	page := foreignPage{looked: looked}
	for some := range slices.Chunk(looks, redisserver.KeysPerRead) {
		err := sc.read(ctx, server, some, func(found []foreignFound) error {
			if page.found = append(page.found, found...); bytesOf(page.found) < bytesPerExchange {
				return nil
			}
			full := foreignPage{found: page.found}
			page.found = nil
			return sc.send(ctx, full)
		})
		if err != nil {
			return err
		}
	}
	return sc.send(ctx, page)
}

// bytesOf is how many bytes the values take that were found.
func bytesOf(found []foreignFound) (bytes int) {
	for i := range found {
		for j := range found[i].entries {
			bytes += found[i].entries[j].Record.Size()
		}
	}
	return bytes
}

// loseMaster notes that a master could not be asked for keys that belong to others elsewhere. A
// scan goes on without them.
func (sc *foreignScan) loseMaster(node *redis.Client, err error) error {
	if sc.query.StoreKeys != nil {
		return sc.store.lanes.Named(err, node)
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if address := node.Options().Addr; sc.lost[address] == nil {
		sc.lost[address] = sc.store.lanes.Servers.Incomplete(err, node)
	}
	return nil
}

// hasLost reports whether a master could not be asked.
func (sc *foreignScan) hasLost(node *redis.Client) bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.lost[node.Options().Addr] != nil
}

// withLost returns the error of the scan, and those of masters that were asked in passing and
// that it does not name.
func (sc *foreignScan) withLost(err error) error {
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
		return []string{of.Part}
	}
	return nil
}
