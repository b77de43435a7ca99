package keyspace

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// scan is one scan. It reads from several goroutines.
type scan struct {
	*Keyspace
	query   admin.Query
	batches chan batch
	mu      sync.Mutex
	// single are store keys that came and are a limit by themselves, families all those of others: the second one may
	// come at any time after the first.
	single, families *redisserver.Seen
	strides          map[redis.Cmdable]*redisserver.Stride // of exchanges with each server
}

// batch is what a scan has read in one go.
type batch struct {
	found         []found
	looked, total int64 // keys looked at, and keys known of now for the first time
}

// found is an entry, or an error about its store key.
type found struct {
	entry admin.Entry
	err   error
}

// What a scan reads comes in these lists, which are used again: each of millions of keys takes some hundred bytes of
// them.
var (
	founds = sync.Pool{New: func() any { return new([]found) }}
	values = sync.Pool{New: func() any { return new([]held) }}
)

// Scan implements [admin.Keyspace] with SCAN on the server, on every master of a Cluster at once, and batched reads.
func (k *Keyspace) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		if err := k.Check(); err != nil {
			yield(admin.Entry{}, err)
			return
		}
		sc := &scan{Keyspace: k, query: q, batches: make(chan batch), single: k.Servers.NewSeen(),
			families: redisserver.NewSeenAll(),
			strides:  map[redis.Cmdable]*redisserver.Stride{}}
		sc.run(ctx, yield)
	}
}

// run yields what is read until reading is over.
func (sc *scan) run(ctx context.Context, yield func(admin.Entry, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	scanned := make(chan error, 1)
	panics.Go(func() error { return sc.readAll(ctx) }, func(err error) {
		scanned <- err
		close(sc.batches)
	})
	defer func() { // leave nothing running behind the caller's back
		cancel()
		for range sc.batches {
		}
	}()
	var looked, total int64
	for b := range sc.batches {
		for i := range b.found {
			if f := &b.found[i]; !yield(f.entry, f.err) {
				return
			}
		}
		if len(b.found) > 0 {
			clear(b.found)
			founds.Put(&b.found)
		}
		looked, total = looked+b.looked, total+b.total
		sc.query.Report(min(looked, total), total)
	}
	if err := <-scanned; err != nil {
		yield(admin.Entry{}, sc.Explain(err, "scan", false, nil))
		return
	}
	sc.query.Report(total, total)
}

func (sc *scan) readAll(ctx context.Context) error {
	if listed, isListed, err := sc.layout.listed(&sc.query); err != nil || isListed {
		if err == nil {
			err = sc.readListed(ctx, listed)
		}
		return err
	}
	glob, tag := sc.layout.glob(&sc.query)
	keys := redisserver.Scan{Servers: sc.Servers, Match: glob, Stride: sc.stride, Known: sc.known,
		Read: func(ctx context.Context, p redisserver.Page) error {
			wanted := make([]chosen, 0, len(p.StoreKeys))
			for _, storeKey := range p.StoreKeys {
				if c, is := sc.layout.choose(storeKey, &sc.query); is {
					wanted = append(wanted, c)
				}
			}
			return sc.read(ctx, p.Server, wanted, int64(p.Looked))
		}}
	if tag != "" {
		return keys.Tag(ctx, tag)
	}
	return keys.All(ctx)
}

// readListed looks at exactly the query's keys.
func (sc *scan) readListed(ctx context.Context, listed []chosen) error {
	if err := sc.known(ctx, int64(len(listed))); err != nil {
		return err
	}
	return sc.EachBatch(ctx, storeKeysOf(listed), redisserver.KeysPerRead, func(batch []int) error {
		server, err := sc.Servers.ServerOf(ctx, listed[batch[0]].storeKey)
		if err != nil {
			return err
		}
		return sc.Named(sc.read(ctx, server, pick(listed, batch), int64(len(batch))), server)
	})
}

// read sends what is found under keys that a server has, a stride at a time. looked is how many keys the batch had.
func (sc *scan) read(ctx context.Context, server redis.Cmdable, all []chosen, looked int64) error {
	give := func(read []found) error { return sc.send(ctx, batch{found: read}) }
	for stride := sc.stride(server); len(all) > 0; {
		n := min(stride.Size(), redisserver.KeysPerRead, len(all))
		if err := sc.layout.read(ctx, sc, server, all[:n], give); err != nil {
			return err
		}
		all = all[n:]
	}
	return sc.send(ctx, batch{looked: looked})
}

// known tells the caller how many more keys are now known to exist.
func (sc *scan) known(ctx context.Context, keys int64) error { return sc.send(ctx, batch{total: keys}) }

func (sc *scan) send(ctx context.Context, b batch) error {
	select {
	case sc.batches <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stride returns the stride of exchanges with a server.
func (sc *scan) stride(server redis.Cmdable) *redisserver.Stride {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.strides[server] == nil {
		sc.strides[server] = redisserver.NewStride()
	}
	return sc.strides[server]
}

// isUnused reports whether nothing of a limit is in use any more. A key with a defect counts as used, and one that
// never expires: they stay, so people want to see them.
func isUnused(e admin.Entry) bool {
	return e.UsedKnown() && e.Used <= 0 && e.TTL >= 0 && len(e.Defects) == 0
}

// isFirst reports whether what was found under a store key has not come before. principal is the store key that stands
// for all that belong together. The caller holds sc.mu.
func (sc *scan) isFirst(storeKey, principal string, entries []admin.Entry) bool {
	several := principal != storeKey ||
		slices.ContainsFunc(entries, func(e admin.Entry) bool { return len(e.Record.Members) > 1 })
	if !several {
		return !sc.families.Has(storeKey) && sc.single.First(storeKey)
	}
	first := !sc.single.Has(principal) && sc.families.First(principal)
	for i := range entries {
		for _, member := range entries[i].Record.Members {
			if member.StoreKey != principal && !sc.families.First(member.StoreKey) && i == 0 {
				first = false
			}
		}
	}
	return first
}

// storeKeysOf returns the store keys of what was chosen.
func storeKeysOf(all []chosen) []string {
	storeKeys := make([]string, len(all))
	for i := range all {
		storeKeys[i] = all[i].storeKey
	}
	return storeKeys
}
