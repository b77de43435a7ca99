package redisstore

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// scanCount is how many keys the server looks at in one SCAN; a thousand take it
// well under a millisecond.
const scanCount = 1000

// page is what a scan has looked at in one go.
type page struct {
	found         []found
	looked, total int64 // keys looked at, and keys known of now for the first time
}

// found is one key of a page, described or foreign.
type found struct {
	entry limiter.Entry
	err   error
}

// scan is one scan of a store.
type scan struct {
	*Store
	query limiter.Query
	match string // the glob for the server, which selects at least what query does
	pace  *pacer
	pages chan page
}

// Scan implements [limiter.Keyspace] with SCAN on the server, on every master
// of a Cluster at once, and batched reads. An exact subject is looked for in its
// slot of a Cluster alone.
func (s *Store) Scan(ctx context.Context, q limiter.Query) iter.Seq2[limiter.Entry, error] {
	return func(yield func(limiter.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		sc := &scan{Store: s, query: q, pages: make(chan page), pace: newPacer(q.KeysPerSecond),
			match: s.own.Glob(q.Subjects, q.Names)}
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
		seen := s.newSeen()
		for page := range sc.pages {
			looked, total = looked+page.looked, total+page.total
			q.Report(min(looked, total), total)
			for _, f := range page.found {
				if seen.has(f.entry.StoreKey) {
					continue
				}
				seen.add(f.entry.StoreKey)
				if !yield(f.entry, f.err) {
					return
				}
			}
		}
		if err := <-scanned; err != nil {
			yield(limiter.Entry{}, s.translate(err, "scan", false, nil))
			return
		}
		q.Report(total, total)
	}
}

// newSeen returns what remembers keys, since some come twice: from one server
// soon, from the masters of a Cluster whenever their slot moves.
func (s *Store) newSeen() interface {
	has(key string) bool
	add(key string)
} {
	if s.isCluster {
		return newSeenKeys(seenPartsMost)
	}
	return newSeenLately()
}

func (sc *scan) run(ctx context.Context) error {
	switch subject, exact := sc.query.Subjects.Exact(); {
	case sc.query.Keys != nil:
		return sc.readKeys(ctx)
	case sc.isCluster && exact:
		return sc.scanCluster(ctx, slotOf(subject))
	case sc.isCluster:
		return sc.scanCluster(ctx, -1)
	}
	return sc.scanServer(ctx, sc.client)
}

// keysPerRead is how many keys one pipeline reads, so that others get their turn.
const keysPerRead = 250

// readKeys looks at exactly the query's keys.
func (sc *scan) readKeys(ctx context.Context) error {
	keys := sc.query.Keys
	if err := validate(keys); err != nil {
		return err
	}
	if err := sc.send(ctx, page{total: int64(len(keys))}); err != nil {
		return err
	}
	return sc.eachBatch(ctx, keys, keysPerRead, func(batch []int) error {
		if err := sc.pace.wait(ctx, len(batch)); err != nil {
			return err
		}
		selected := make([]found, len(batch))
		for n, i := range batch {
			selected[n].entry = limiter.Entry{Key: keys[i], StoreKey: sc.own.StoreKey(keys[i])}
		}
		server, err := sc.serverOf(ctx, selected[0].entry.StoreKey)
		if err != nil {
			return err
		}
		return sc.readAndSend(ctx, server, scannedKeys{selected, int64(len(batch))})
	})
}

// serverOf returns the server that has a key.
func (sc *scan) serverOf(ctx context.Context, storeKey string) (redis.Cmdable, error) {
	if cluster, is := sc.client.(*redis.ClusterClient); is {
		return cluster.MasterForKey(ctx, storeKey)
	}
	return sc.client, nil
}

func (sc *scan) send(ctx context.Context, p page) error {
	select {
	case sc.pages <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// scanServer goes through the keys of one server.
func (sc *scan) scanServer(ctx context.Context, server redis.Cmdable) error {
	walk, err := NewWalk(ctx, server)
	if err != nil {
		return err
	}
	total, _ := walk.Total()
	if err := sc.send(ctx, page{total: total}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// While one page's keys are read, the next is looked for.
	pages := make(chan scannedKeys, 1)
	walked := make(chan error, 1)
	panics.Go(func() error { return sc.walk(ctx, server, walk, pages) }, func(err error) {
		walked <- err
		close(pages)
	})
	for keys := range pages {
		if err := sc.readAndSend(ctx, server, keys); err != nil {
			return err
		}
	}
	return <-walked
}

// scannedKeys is the keys that a query selects, among so many that were looked at.
type scannedKeys struct {
	selected []found
	looked   int64
}

// walk sends the server's keys that match, as many in a page as are among so many.
func (sc *scan) walk(ctx context.Context, server redis.Cmdable, walk *Walk, pages chan<- scannedKeys) error {
	count := sc.pace.batch(scanCount)
	for {
		if err := sc.pace.wait(ctx, count); err != nil {
			return err
		}
		storeKeys, next, err := server.Scan(ctx, walk.Cursor(), sc.match, int64(count)).Result()
		if err != nil {
			return err
		}
		done, err := walk.Answered(ctx, count, len(storeKeys), next)
		if err != nil {
			return err
		}
		select {
		case pages <- sc.selected(storeKeys, max(count, len(storeKeys))):
		case <-ctx.Done():
			return ctx.Err()
		}
		if done {
			return nil
		}
	}
}

// selected returns those of storeKeys that the query selects; looked is among how many.
func (sc *scan) selected(storeKeys []string, looked int) scannedKeys {
	keys := scannedKeys{looked: int64(looked)}
	for _, storeKey := range storeKeys {
		if key, ok := sc.own.Match(storeKey); ok && sc.query.Selects(key) {
			keys.selected = append(keys.selected, found{entry: limiter.Entry{Key: key, StoreKey: storeKey}})
		}
	}
	return keys
}

// pacer spreads a scan out in time, over all masters together.
type pacer struct {
	perKey time.Duration // 0: as fast as it goes
	mu     sync.Mutex
	next   time.Time
}

func newPacer(keysPerSecond int) *pacer {
	p := &pacer{}
	if keysPerSecond > 0 {
		p.perKey = time.Second / time.Duration(keysPerSecond)
	}
	return p
}

// batch returns how many of most keys to look at in one go, lest a slow scan comes
// in bursts: what it may in a tenth of a second.
func (p *pacer) batch(most int) int {
	if p.perKey == 0 {
		return most
	}
	return max(1, min(most, int(100*time.Millisecond/p.perKey)))
}

// wait waits until so many more keys may be looked at.
func (p *pacer) wait(ctx context.Context, keys int) error {
	if p.perKey == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	pause := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(keys) * p.perKey)
	p.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
