package redisstore

import (
	"context"
	"errors"
	"fmt"
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
		names := "*"
		if !q.Names.IsZero() {
			names = q.Names.RedisGlob()
		}
		sc := &scan{Store: s, query: q, pages: make(chan page), pace: newPacer(q.KeysPerSecond),
			match: limiter.EscapeGlob(s.prefix) + ":{" + q.Subjects.RedisGlob() + "}:" + names}
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
			selected[n].entry = limiter.Entry{Key: keys[i], StoreKey: limiter.StoreKey(sc.prefix, keys[i])}
		}
		server, err := sc.serverOf(ctx, selected[0].entry.StoreKey)
		if err != nil {
			return err
		}
		read, err := sc.read(ctx, server, selected)
		if err != nil {
			return err
		}
		return sc.send(ctx, page{found: read, looked: int64(len(batch))})
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
		if key, ok := limiter.ParseStoreKey(sc.prefix, storeKey); ok && sc.query.Selects(key) {
			keys.selected = append(keys.selected, found{entry: limiter.Entry{Key: key, StoreKey: storeKey}})
		}
	}
	return keys
}

// readAndSend reads keys, and sends a page of them.
func (sc *scan) readAndSend(ctx context.Context, server redis.Cmdable, keys scannedKeys) error {
	p := page{looked: keys.looked}
	for selected := keys.selected; len(selected) > 0; {
		n := min(keysPerRead, len(selected))
		read, err := sc.read(ctx, server, selected[:n])
		if err != nil {
			return err
		}
		p.found = append(p.found, read...)
		selected = selected[n:]
	}
	return sc.send(ctx, p)
}

// firstBytes is how much of each value a scan reads: every record whole but a
// large log's, which is asked for by a peek.
const firstBytes = 512

// movesFollowed is how often keys are followed that are elsewhere whenever they are
// asked for.
const movesFollowed = 10

// read describes the selected keys, in one round trip and another for the large
// logs among them. It leaves out those that are gone or unused. Those that went to
// another master before they could be read, the Cluster's client finds.
func (sc *scan) read(ctx context.Context, server redis.Cmdable, selected []found) ([]found, error) {
	kept, moved, err := sc.readFrom(ctx, server, selected)
	for n := 0; err == nil && len(moved) > 0 && sc.isCluster; n++ {
		var found []found
		found, moved, err = sc.readFrom(ctx, sc.client, moved)
		kept = append(kept, found...)
		if n == movesFollowed && len(moved) > 0 {
			return nil, fmt.Errorf("key %q keeps moving: %w", moved[0].entry.StoreKey, errNoMaster)
		}
	}
	return kept, err
}

// isElsewhere reports whether an answer says that a key is at another master.
func isElsewhere(err error) bool { return isServerError(err, "MOVED") || isServerError(err, "ASK") }

// readFrom is read for keys of which some may be elsewhere, which it returns.
func (sc *scan) readFrom(ctx context.Context, server redis.Cmdable, selected []found) (kept, moved []found, err error) {
	pipe := server.Pipeline()
	serverTime := pipe.Time(ctx)
	values, ttls := make([]*redis.StringCmd, len(selected)), make([]*redis.DurationCmd, len(selected))
	sizes := make([]*redis.IntCmd, len(selected))
	exactly := sc.query.Records && !sc.scripts.noExpireTime.Load()
	for i := range selected {
		values[i] = pipe.GetRange(ctx, selected[i].entry.StoreKey, 0, firstBytes-1)
		if exactly {
			ttls[i] = pipe.PExpireTime(ctx, selected[i].entry.StoreKey)
		} else {
			ttls[i] = pipe.PTTL(ctx, selected[i].entry.StoreKey)
		}
		if sc.query.Bytes {
			sizes[i] = pipe.MemoryUsage(ctx, selected[i].entry.StoreKey, 0)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !isServerError(err, "") && !errors.Is(err, redis.Nil) {
		return nil, nil, err
	}
	if serverTime.Err() != nil {
		return nil, nil, serverTime.Err()
	}
	if exactly && len(ttls) > 0 && (isServerError(ttls[0].Err(), "ERR unknown command") || isServerError(ttls[0].Err(), "NOPERM")) {
		sc.scripts.noExpireTime.Store(true)
		return sc.readFrom(ctx, server, selected)
	}
	now := limiter.InstantOf(serverTime.Val())
	if sc.clock != nil {
		now = limiter.InstantOf(sc.clock())
	}
	var largeLogs []int // in kept
	for i, f := range selected {
		value, err := values[i].Bytes()
		// It may have gone between one answer and the next.
		if isElsewhere(err) || isElsewhere(ttls[i].Err()) || sc.query.Bytes && isElsewhere(sizes[i].Err()) {
			moved = append(moved, f)
			continue
		}
		if sc.query.Bytes && sizes[i].Err() == nil {
			f.entry.Bytes = sizes[i].Val()
		} else if sc.query.Bytes && !errors.Is(sizes[i].Err(), redis.Nil) {
			return nil, nil, sizes[i].Err()
		}
		switch {
		case isServerError(err, "WRONGTYPE"):
			f.err = wrongType(ctx, server, f.entry.StoreKey)
		case err != nil:
			return nil, nil, err
		case ttls[i].Err() != nil:
			return nil, nil, ttls[i].Err()
		case ttls[i].Val() == -2: // it expired since the scan
			continue
		default:
			ttl, expires := ttls[i].Val(), time.Time{}
			switch {
			case ttl == -1:
			case exactly:
				expires = time.UnixMilli(ttl.Milliseconds())
				ttl = max(0, expires.Sub(serverTime.Val()))
			default:
				expires = serverTime.Val().Add(ttl)
			}
			if len(value) == firstBytes {
				f.entry.TTL = ttl
				largeLogs = append(largeLogs, len(kept))
				f.entry.Limit, err = limiter.DecodeRecordLimit(value)
				f.err = foreignIf(err, f.entry.StoreKey)
				break
			}
			if sc.query.Records {
				f.entry.Record = limiter.Record{Key: f.entry.Key, Value: value, Expires: expires}
			}
			f.err = describe(&f.entry, value, ttl, now)
		}
		kept = append(kept, f)
	}
	err = sc.describeLargeLogs(ctx, kept, largeLogs)
	return dropUnused(kept), moved, err
}

// dropUnused leaves out keys that are about to expire, and keeps those that never
// will: somebody took care of that, and they stay.
func dropUnused(page []found) []found {
	kept := page[:0]
	for _, f := range page {
		if f.err != nil || f.entry.Decision.Used > 0 || f.entry.TTL < 0 {
			kept = append(kept, f)
		}
	}
	return kept
}

// describe fills in what a value says about its key.
func describe(entry *limiter.Entry, value []byte, ttl time.Duration, now limiter.Instant) error {
	var state limiter.State
	if err := state.DecodeRecord(value); err != nil {
		return foreignIf(err, entry.StoreKey)
	}
	described := limiter.NewEntry(entry.Key, entry.StoreKey, &state, now)
	entry.Limit, entry.Decision = described.Limit, described.Decision
	entry.TTL = ttl // as the server has it, which may be somebody's doing
	return nil
}

// foreignIf says that a value which could not be decoded is somebody else's.
func foreignIf(err error, storeKey string) error {
	if err == nil {
		return nil
	}
	return &limiter.ForeignError{StoreKey: storeKey, Holds: err.Error()}
}

// describeLargeLogs asks the server about logs that are too large to fetch, all at
// once: the calls share pipelines.
func (sc *scan) describeLargeLogs(ctx context.Context, page []found, logs []int) error {
	errs := make([]error, len(logs))
	var asking panics.Group
	for n, i := range logs {
		f := &page[i]
		if f.err != nil {
			continue
		}
		asking.Go(func() {
			var decisions [1]limiter.Decision
			reqs := []limiter.Request{{Key: f.entry.Key, Limit: f.entry.Limit, Cost: 1}}
			err := sc.Decide(ctx, limiter.Peek, reqs, decisions[:])
			f.entry.Decision = decisions[0]
			if errors.Is(err, limiter.ErrForeign) {
				f.err = err
			} else {
				errs[n] = err
			}
		})
	}
	errs = append(errs, asking.Wait())
	if err := errors.Join(errs...); err != nil || !sc.query.Records {
		return err
	}
	return sc.exportLargeLogs(ctx, page, logs)
}

// exportLargeLogs fetches the logs after all, for who wants the records.
func (sc *scan) exportLargeLogs(ctx context.Context, page []found, logs []int) error {
	keys := make([]limiter.Key, len(logs))
	at := make(map[limiter.Key]int, len(logs))
	for n, i := range logs {
		keys[n], at[page[i].entry.Key] = page[i].entry.Key, i
	}
	records, err := sc.export(ctx, keys)
	for _, record := range records {
		page[at[record.Key]].entry.Record = record
	}
	for _, i := range at { // without a record it is gone by now, and unused
		if f := &page[i]; f.err == nil && f.entry.Record.Value == nil {
			f.entry.Decision, f.entry.TTL = limiter.Decision{}, 0
		}
	}
	return err
}

// wrongType names what a key holds that is no string.
func wrongType(ctx context.Context, server redis.Cmdable, storeKey string) error {
	kind, err := server.Type(ctx, storeKey).Result()
	if err != nil {
		kind = "value of another type"
	}
	return foreignIf(fmt.Errorf("a %s, which is no limit record", kind), storeKey)
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
