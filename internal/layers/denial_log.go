package layers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/spacesaving"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DenialLog has the settings of [WithDenialLog]. A zero field means its default.
type DenialLog struct {
	// Every is the shortest time between two writes; the default is 1 s.
	Every time.Duration
	// OnError, if set, gets the error when denials can no longer be written, once until they can be written again.
	OnError func(error)
	// WithoutLocal leaves out denials by a local share while the store is away, for a process that does not wait
	// until the store is back.
	WithoutLocal bool
	// OnRecovered, if set, is called after OnError when denials were written again.
	OnRecovered func()
}

// WithDenialLog wraps backend so that an operator can see who is denied: it counts denied takes by key, and adds
// them to the [admin.DenialTable] of backend in the background, at most once a second. A minute after the last
// denial it writes nothing. It returns a store without a table unchanged.
//
// It counts what callers see as denied, whoever decided: the store, a denial memory, a lease or a local share. So
// it belongs around those layers. It does not count peeks, shadow limits and denials by a failure policy. Of keys that
// it denied within a minute, it also counts the takes that it lets through, so that the share of denials is known.
//
// Its memory is bounded (about 1,000 keys). Beyond that, it counts the least denied keys together, so the most
// denied ones always have their own counts. While the table cannot be written, for instance because the store is
// away or the user lacks the right, decisions are not affected, counting goes on, and it tries again later. Close
// writes the rest, for which it takes at most 1 s.
func WithDenialLog(backend store.Store, settings DenialLog) store.Store {
	return CollectDenials(backend, settings).Wrap(backend)
}

// CollectDenials returns a collector that writes to the [admin.DenialTable] of backend. It is for several stores
// around one backend; otherwise use [WithDenialLog].
func CollectDenials(backend store.Store, settings DenialLog) *DenialCollector {
	if settings.Every <= 0 {
		settings.Every = time.Second
	}
	c := &DenialCollector{settings: settings, seed: maphash.MakeSeed(), start: time.Now(), pause: settings.Every}
	c.table, _ = admin.DenialTableOf(backend)
	for i := range c.stripes {
		c.stripes[i].sketch = spacesaving.New[store.Key, denialFacts](countersPerStripe, cloneKey)
	}
	return c
}

// Wrap is [WithDenialLog] for one of several stores around the backend of the collector. Closing the result closes
// the collector.
func (c *DenialCollector) Wrap(backend store.Store) store.Store {
	if c.table == nil {
		return backend
	}
	return store.Wrap(&denialLogStore{Store: backend, collector: c}, backend)
}

// denialLogStore passes the denials of a store to a collector.
type denialLogStore struct {
	store.Store
	collector *DenialCollector
}

// Decide implements [store.Store].
func (s *denialLogStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if err != nil || op != store.Take && op != store.TakeUpTo {
		return err
	}
	isAllowed := s.collector.follows.Load() > 0 && store.AllAllowed(decisions)
	for i := range decisions {
		d := &decisions[i]
		isLeftOut := d.DecidedBy == store.DecidedByLocal && s.collector.settings.WithoutLocal
		switch {
		case d.Shadow || d.Unguarded || isLeftOut:
		case !d.Allowed:
			s.collector.count(reqs[i], d)
		case isAllowed:
			s.collector.pass(&reqs[i])
		}
	}
	return nil
}

// Close writes the rest and closes the store.
func (s *denialLogStore) Close() error {
	s.collector.Close()
	return s.Store.Close()
}

const (
	denialStripes     = 8 // so that callers with few denials rarely wait for each other
	countersPerStripe = 128

	// denialBytes is the approximate size of the largest write: all 200 rows, unless their names are long.
	denialBytes    = 56 << 10
	denialRowBytes = 64 // of a row without its texts

	followedFor = store.Instant(time.Minute / time.Microsecond)

	denialTimeout = time.Second      // of one write
	mostAwayPause = 30 * time.Second // between writes to a store that is away
	refusedPause  = time.Minute      // after a refusal, which somebody has to fix
)

// DenialCollector counts denials by key and writes them to a store from time to time. Its memory is bounded.
type DenialCollector struct {
	settings DenialLog
	table    admin.DenialTable // nil for a store without one
	seed     maphash.Seed
	start    time.Time
	stripes  [denialStripes]denialStripe
	lost     atomic.Bool  // a write whose outcome is unknown
	follows  atomic.Int64 // how many keys are followed

	due     atomic.Bool // a write is due or under way
	writing sync.Mutex  // held by the writer; guards the fields below
	pause   time.Duration
	failing bool

	mu     sync.Mutex
	timer  *time.Timer // of the next write
	closed bool
}

// denialStripe counts the keys with certain hashes.
type denialStripe struct {
	mu     sync.Mutex
	sketch *spacesaving.Sketch[store.Key, denialFacts]
	// followed are keys that were denied within a minute. What is let through of them counts.
	followed map[store.Key]*followedKey
	passed   int64         // the sum of those of followed
	lookedAt store.Instant // when old ones were removed from followed
	_        [64]byte      // keeps neighbours in different cache lines
}

// followedKey is a key that was denied lately.
type followedKey struct {
	deniedAt store.Instant
	passed   int64 // let through, and not written
}

// denialFacts is what is known of denials of one key, beside their number. The numbers are of those that count.
type denialFacts struct {
	since             store.Instant
	blocked, compared int64
	limit             store.Limit // of the last
	override          *store.Override
}

// merge adds what is known of other denials, the last of which was at last.
func (f *denialFacts) merge(other *denialFacts, isLater bool) {
	if f.since == 0 || other.since < f.since {
		f.since = other.since
	}
	f.blocked += other.blocked
	f.compared += other.compared
	if isLater || f.limit == (store.Limit{}) {
		f.limit, f.override = other.limit, other.override
	}
}

func cloneKey(key store.Key) store.Key {
	return store.Key{Subject: strings.Clone(key.Subject), Name: strings.Clone(key.Name)}
}

// count counts the denial d of req.
func (c *DenialCollector) count(req store.Request, d *store.Decision) {
	req.SetDefaults() // for the key's name
	now := c.now()
	denied := denialFacts{since: now, limit: req.Limit, override: d.Override}
	if d.DecidedBy == store.DecidedByOverride {
		denied.blocked = 1
	}
	stripe := c.stripe(req.Key)
	stripe.mu.Lock()
	if c.follow(stripe, req.Key, now) {
		denied.compared = 1
	}
	stripe.sketch.Add(req.Key, 1, int64(now)).merge(&denied, true)
	stripe.mu.Unlock()
	c.writeLater()
}

// follow begins to count what is let through of a key that is denied now. It reports whether there is room.
func (c *DenialCollector) follow(stripe *denialStripe, key store.Key, now store.Instant) bool {
	if followed := stripe.followed[key]; followed != nil {
		followed.deniedAt = now
		return true
	}
	if len(stripe.followed) >= countersPerStripe {
		c.unfollow(stripe, now)
	}
	if len(stripe.followed) >= countersPerStripe {
		return false
	}
	if stripe.followed == nil {
		stripe.followed = map[store.Key]*followedKey{}
	}
	stripe.followed[cloneKey(key)] = &followedKey{deniedAt: now}
	c.follows.Add(1)
	return true
}

// unfollow forgets the keys that were not denied for a while, and of which all is written.
func (c *DenialCollector) unfollow(stripe *denialStripe, now store.Instant) {
	stripe.lookedAt = now
	for key, followed := range stripe.followed {
		if followed.passed == 0 && now-followed.deniedAt >= followedFor {
			delete(stripe.followed, key)
			c.follows.Add(-1)
		}
	}
}

// pass counts a take that was let through, if its key is followed.
func (c *DenialCollector) pass(req *store.Request) {
	key := req.Key
	if key.Name == "" {
		named := store.Request{Key: key, Limit: req.Limit}
		named.SetDefaults()
		key = named.Key
	}
	stripe := c.stripe(key)
	stripe.mu.Lock()
	now := c.now()
	if now-stripe.lookedAt >= followedFor {
		c.unfollow(stripe, now)
	}
	followed := stripe.followed[key]
	isDue := followed != nil && now-followed.deniedAt < followedFor
	if isDue {
		followed.passed++
		stripe.passed++
	}
	stripe.mu.Unlock()
	if isDue {
		c.writeLater()
	}
}

// now is a clock for differences only. It costs half of time.Now.
func (c *DenialCollector) now() store.Instant {
	return 1 + store.Instant(time.Since(c.start)/time.Microsecond) // 0 is no instant
}

// stripe returns the stripe that counts key.
func (c *DenialCollector) stripe(key store.Key) *denialStripe {
	hash := maphash.String(c.seed, key.Subject) ^ bits.RotateLeft64(maphash.String(c.seed, key.Name), 32)
	return &c.stripes[hash%denialStripes]
}

// writeLater schedules a write.
func (c *DenialCollector) writeLater() {
	if !c.due.Load() && c.due.CompareAndSwap(false, true) {
		c.writeAfter(c.settings.Every)
	}
}

func (c *DenialCollector) writeAfter(pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.timer = time.AfterFunc(pause, c.writeNow)
	}
}

// writeNow writes, and schedules the next write if anything is left.
func (c *DenialCollector) writeNow() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.write(context.Background())
	if c.isEmpty() {
		c.due.Store(false)
		if !c.isEmpty() { // a denial came in between, and relied on this write
			c.writeLater()
		}
		return
	}
	c.writeAfter(c.pause)
}

func (c *DenialCollector) isEmpty() bool {
	for i := range c.stripes {
		stripe := &c.stripes[i]
		stripe.mu.Lock()
		empty := stripe.sketch.IsEmpty() && stripe.passed == 0
		stripe.mu.Unlock()
		if !empty {
			return false
		}
	}
	return true
}

// write writes the most denied keys, and sets c.pause for the next write. The caller holds c.writing.
func (c *DenialCollector) write(ctx context.Context) error {
	counts, d := c.drain()
	if len(d.Rows) == 0 && d.Others == 0 {
		return nil
	}
	d.Lost = c.lost.Swap(false)
	ctx, cancel := store.BudgetContext(ctx, denialTimeout)
	defer cancel()
	err := panics.Call(func() error { return c.table.AddDenials(ctx, d) })
	switch {
	case err == nil:
		if c.failing && c.settings.OnRecovered != nil {
			panics.Call(func() error { c.settings.OnRecovered(); return nil })
		}
		c.pause, c.failing = c.settings.Every, false
		return nil
	case errors.Is(err, store.ErrOutcomeUnknown): // another try could count them twice
		c.lost.Store(true)
	default:
		c.putBack(counts, d.Others)
		if d.Lost {
			c.lost.Store(true)
		}
	}
	if store.IsAway(err) || errors.Is(err, store.ErrGaveUp) {
		c.pause = min(2*c.pause, max(c.settings.Every, mostAwayPause))
	} else {
		c.pause = max(c.settings.Every, refusedPause)
	}
	if !c.failing && c.settings.OnError != nil {
		panics.Call(func() error { c.settings.OnError(fmt.Errorf("denials cannot be written: %w", err)); return nil })
	}
	c.failing = true
	return err
}

// drain removes the most denied keys from the sketches. It returns their counts, and the rows to write. Rows of keys
// that were only let through come last.
func (c *DenialCollector) drain() (counts []deniedCount, d admin.Denials) {
	d.Now = c.now()
	let := map[store.Key]int64{}
	for i := range c.stripes {
		stripe := &c.stripes[i]
		stripe.mu.Lock()
		some, lost := stripe.sketch.Drain()
		for key, followed := range stripe.followed {
			if followed.passed > 0 {
				let[key] = followed.passed
				followed.passed = 0
			}
		}
		stripe.passed = 0
		c.unfollow(stripe, d.Now)
		stripe.mu.Unlock()
		for _, counted := range some {
			counts = append(counts, deniedCount{counted, let[counted.Key]})
			delete(let, counted.Key)
		}
		d.Others += lost
	}
	for key, passed := range let {
		counts = append(counts, deniedCount{spacesaving.Count[store.Key, denialFacts]{Key: key}, passed})
	}
	slices.SortFunc(counts, func(a, b deniedCount) int { return cmp.Compare(b.N, a.N) })
	room := denialBytes
	for i := range counts {
		row := counts[i].row()
		room -= len(row.Key.Subject) + len(row.Key.Name) + len(row.Limit) + len(row.Override) + denialRowBytes
		if i == admin.MaxDenialRows || room < 0 { // the others stay, and count on until they are among the first
			c.putBack(counts[i:], 0)
			counts = counts[:i]
			break
		}
		d.Rows = append(d.Rows, row)
	}
	return counts, d
}

// deniedCount is a count of denials, and of takes of the key that were let through.
type deniedCount struct {
	spacesaving.Count[store.Key, denialFacts]
	passed int64
}

func (c *deniedCount) row() admin.Denied {
	facts := &c.Value
	row := admin.Denied{Key: c.Key, Count: c.N, LastAt: store.Instant(c.Last), Since: facts.since, Blocked: facts.blocked,
		Compared: facts.compared, Passed: c.passed}
	if c.N > 0 {
		limit := facts.limit
		if facts.override != nil {
			row.Override, limit = facts.override.ID, facts.override.Apply(limit)
		}
		row.Limit = limit.String()
	}
	row.Shorten()
	return row
}

// putBack adds the counts that were not written.
func (c *DenialCollector) putBack(counts []deniedCount, others int64) {
	for i := range counts {
		counted := &counts[i]
		stripe := c.stripe(counted.Key)
		stripe.mu.Lock()
		if counted.N > 0 {
			stripe.sketch.Add(counted.Key, counted.N, counted.Last).merge(&counted.Value, false)
		}
		if followed := stripe.followed[counted.Key]; followed != nil {
			followed.passed += counted.passed
			stripe.passed += counted.passed
		}
		stripe.mu.Unlock()
	}
	stripe := &c.stripes[0]
	stripe.mu.Lock()
	stripe.sketch.AddLost(others)
	stripe.mu.Unlock()
}

// Close writes the rest, and stops. The store stays open.
func (c *DenialCollector) Close() {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	ctx, cancel := store.BudgetContext(context.Background(), denialTimeout)
	defer cancel()
	for ctx.Err() == nil && !c.isEmpty() && c.write(ctx) == nil {
	}
}
