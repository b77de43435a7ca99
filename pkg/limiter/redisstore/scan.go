package redisstore

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// page is what a scan has read in one go.
type page struct {
	found         []found
	looked, total int64 // keys looked at, and keys known of now for the first time
}

// found is one key of a page, described or foreign.
type found struct {
	entry admin.Entry
	err   error
}

// scannedKeys is the keys of a page that a query selects.
type scannedKeys struct {
	selected []found
	looked   int64 // how many keys were looked at to find them
}

// scan is one scan of a store.
type scan struct {
	*Store
	query admin.Query
	pace  *redisserver.Pacer
	pages chan page
	// explained is how many foreign values were looked at.
	explained atomic.Int64
}

// Scan implements [admin.Keyspace] with SCAN on the server, on every master
// of a Cluster at once, and batched reads. An exact subject is looked for in its
// slot of a Cluster alone.
func (s *Store) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		if err := s.lanes.Check(); err != nil {
			yield(admin.Entry{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		sc := &scan{Store: s, query: q, pages: make(chan page), pace: redisserver.NewPacer(q.KeysPerSecond)}
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
		seen := s.lanes.Servers.NewSeen()
		for page := range sc.pages {
			for _, f := range page.found {
				if seen.First(f.entry.StoreKey) && !yield(f.entry, f.err) {
					return
				}
			}
			looked, total = looked+page.looked, total+page.total
			q.Report(min(looked, total), total)
		}
		if err := <-scanned; err != nil {
			yield(admin.Entry{}, s.lanes.Explain(err, "scan", false, nil))
			return
		}
		q.Report(total, total)
	}
}

func (sc *scan) run(ctx context.Context) error {
	if sc.query.Keys != nil {
		return sc.readKeys(ctx)
	}
	keys := redisserver.Scan[found]{Servers: sc.lanes.Servers, Match: sc.lanes.Own.Glob(sc.query.Subjects, sc.query.Names), Pace: sc.pace,
		Select: sc.selects, Known: sc.known,
		Read: func(ctx context.Context, p redisserver.Page[found]) error {
			return sc.readAndSend(ctx, p.Server, scannedKeys{p.Keys, int64(p.Looked)})
		}}
	if sc.query.Foreign {
		keys.Match = store.EscapeGlob(string(sc.lanes.Own)) + ":*"
	} else if subject, exact := sc.query.Subjects.Exact(); exact {
		return keys.Tag(ctx, subject)
	}
	return keys.All(ctx)
}

// selects reports whether the query selects a key.
func (sc *scan) selects(storeKey string) (found, bool) {
	key, ok := sc.lanes.Own.Match(storeKey)
	f := found{entry: admin.Entry{Key: key, StoreKey: storeKey}}
	if !ok && sc.query.Foreign {
		f.entry.Key.Subject, ok = strings.CutPrefix(storeKey, string(sc.lanes.Own)+":")
		f.err = &store.ForeignError{StoreKey: storeKey} // what it holds comes later
	}
	return f, ok && sc.query.Selects(f.entry.Key)
}

// known tells the caller how many more keys are now known to exist.
func (sc *scan) known(ctx context.Context, keys int64) error { return sc.send(ctx, page{total: keys}) }

// readKeys looks at exactly the query's keys.
func (sc *scan) readKeys(ctx context.Context) error {
	keys := sc.query.Keys
	if err := validate(keys); err != nil {
		return err
	}
	if err := sc.known(ctx, int64(len(keys))); err != nil {
		return err
	}
	return sc.lanes.EachBatch(ctx, keys, redisserver.KeysPerRead, func(batch []int) error {
		if err := sc.pace.Wait(ctx, len(batch)); err != nil {
			return err
		}
		selected := make([]found, len(batch))
		for n, i := range batch {
			selected[n].entry = admin.Entry{Key: keys[i], StoreKey: sc.lanes.Own.StoreKey(keys[i])}
		}
		server, err := sc.lanes.Servers.ServerOf(ctx, selected[0].entry.StoreKey)
		if err != nil {
			return err
		}
		return sc.lanes.Named(sc.readAndSend(ctx, server, scannedKeys{selected, int64(len(batch))}), server)
	})
}

func (sc *scan) send(ctx context.Context, p page) error {
	select {
	case sc.pages <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
