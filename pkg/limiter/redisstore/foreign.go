package redisstore

import (
	"context"
	"iter"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
)

// Foreign returns the limits that other limiters keep in the servers of s, as far as sources
// know them. Closing it closes s.
//
// Scan reads only with commands that never write. Keys that sources are not sure of come with
// a [foreign.UnsureError]. Delete and Import go by the parts of a record, each of which is
// checked and changed in one step. Decide is a [limiter.ErrInvalid]: only the limiter itself
// decides. The journal and the identity are those of s.
func (s *Store) Foreign(sources foreign.Sources) limiter.Keyspace {
	return &foreignKeys{store: s, sources: sources}
}

// foreignKeys is the keyspace of other limiters.
type foreignKeys struct {
	store   *Store
	sources foreign.Sources
}

// Decide implements [limiter.Store].
func (f *foreignKeys) Decide(context.Context, limiter.Op, []limiter.Request, []limiter.Decision) error {
	return limiter.Invalidf("only the limiter that wrote the keys can decide by them")
}

// Close implements [limiter.Store].
func (f *foreignKeys) Close() error { return f.store.Close() }

// AppendJournal implements [limiter.Journal].
func (f *foreignKeys) AppendJournal(ctx context.Context, text string) error {
	return f.store.AppendJournal(ctx, text)
}

// ReadJournal implements [limiter.Journal].
func (f *foreignKeys) ReadJournal(ctx context.Context, most int) ([]limiter.JournalEntry, int, error) {
	return f.store.ReadJournal(ctx, most)
}

// StoreID implements [limiter.Identity].
func (f *foreignKeys) StoreID(ctx context.Context) (string, error) { return f.store.StoreID(ctx) }

// EnsureStoreID implements [limiter.Identity].
func (f *foreignKeys) EnsureStoreID(ctx context.Context) (string, error) {
	return f.store.EnsureStoreID(ctx)
}

// foreignPage is what a scan has read in one go.
type foreignPage struct {
	found         []foreignFound
	looked, total int64
}

// foreignFound is what came of one store key. Those with the same principal are one.
type foreignFound struct {
	principal string
	entries   []limiter.Entry
	err       error
}

// foreignScan is one scan.
type foreignScan struct {
	*foreignKeys
	query limiter.Query
	pace  *redisserver.Pacer
	pages chan foreignPage
}

// Scan implements [limiter.Keyspace].
func (f *foreignKeys) Scan(ctx context.Context, q limiter.Query) iter.Seq2[limiter.Entry, error] {
	return func(yield func(limiter.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		sc := &foreignScan{foreignKeys: f, query: q, pages: make(chan foreignPage), pace: redisserver.NewPacer(q.KeysPerSecond)}
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
		seen := f.store.servers.NewSeen()
		groups := map[string]bool{} // the principals of keys that are several
		for page := range sc.pages {
			for i := range page.found {
				if !sc.isFirst(&page.found[i], seen, groups) {
					continue
				}
				if !page.found[i].yield(yield) {
					return
				}
			}
			looked, total = looked+page.looked, total+page.total
			q.Report(min(looked, total), total)
		}
		if err := <-scanned; err != nil {
			yield(limiter.Entry{}, f.store.explain(err, "scan", false, nil))
			return
		}
		q.Report(total, total)
	}
}

// isFirst reports whether what was found has not come before.
func (sc *foreignScan) isFirst(found *foreignFound, seen redisserver.Seen, groups map[string]bool) bool {
	several := false
	for i := range found.entries {
		several = several || len(found.entries[i].Record.Parts) > 1
	}
	if !several {
		return seen.First(found.principal)
	}
	if groups[found.principal] {
		return false
	}
	groups[found.principal] = true
	return true
}

func (found *foreignFound) yield(yield func(limiter.Entry, error) bool) bool {
	if found.err != nil {
		return yield(limiter.Entry{StoreKey: found.principal}, found.err)
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
		Servers: sc.store.servers, Match: sc.sources.Glob(sc.query.Subjects), Pace: sc.pace,
		Select: func(storeKey string) (*foreign.Look, bool) {
			look := sc.sources.Look(storeKey, &sc.query)
			return look, look != nil && !sc.isOwn(storeKey)
		},
		Known: func(ctx context.Context, keys int64) error { return sc.send(ctx, foreignPage{total: keys}) },
		Read: func(ctx context.Context, p redisserver.Page[*foreign.Look]) error {
			return sc.readPage(ctx, p.Server, p.Keys, int64(p.Looked))
		},
	}
	return keys.All(ctx)
}

// isOwn reports whether a store key is limitctl's own, of a limit or of what is kept with them.
func (f *foreignKeys) isOwn(storeKey string) bool {
	_, is := f.store.own.Match(storeKey)
	return is || strings.HasPrefix(storeKey, string(f.store.own)+"!")
}

// readKeys looks at exactly the query's keys.
func (sc *foreignScan) readKeys(ctx context.Context) error {
	if err := sc.send(ctx, foreignPage{total: int64(len(sc.query.StoreKeys))}); err != nil {
		return err
	}
	return sc.store.eachBatch(ctx, tagsOf(sc.query.StoreKeys), redisserver.KeysPerRead, func(batch []int) error {
		if err := sc.pace.Wait(ctx, len(batch)); err != nil {
			return err
		}
		var looks []*foreign.Look
		for _, i := range batch {
			if look := sc.sources.Look(sc.query.StoreKeys[i], &sc.query); look != nil {
				looks = append(looks, look)
			}
		}
		server, err := sc.store.servers.ServerOf(ctx, sc.query.StoreKeys[batch[0]])
		if err != nil {
			return err
		}
		return sc.readPage(ctx, server, looks, int64(len(batch)))
	})
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
	for len(looks) > 0 {
		n := min(redisserver.KeysPerRead, len(looks))
		found, err := sc.read(ctx, server, looks[:n])
		if err != nil {
			return err
		}
		page.found = append(page.found, found...)
		looks = looks[n:]
	}
	return sc.send(ctx, page)
}

// tagsOf returns keys whose subjects lie in the slots of store keys.
func tagsOf(storeKeys []string) []limiter.Key {
	keys := make([]limiter.Key, len(storeKeys))
	for i, storeKey := range storeKeys {
		keys[i].Subject = hashTag(storeKey)
	}
	return keys
}

// hashTag returns the part of a store key that decides its slot in a Cluster: what is between
// the first brace and the one that ends it, if that is something, else all of it.
func hashTag(storeKey string) string {
	_, rest, opened := strings.Cut(storeKey, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if opened && closed && tag != "" {
		return tag
	}
	return storeKey
}
