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

// WithDenialLog wraps backend so that an operator can see who is denied, and what overrides let through: it counts
// denied takes by key, and allowed calls by the override that applied. It adds them to the [admin.Tables] of
// backend in the background, at most once a second. Without any it writes nothing. It returns a store without a table
// unchanged.
//
// It counts what callers see as denied or allowed, whoever decided: the store, an override, a denial memory, a lease or
// a local share. So it belongs around those layers. What a shadow limit would have denied has rows of its own. It does
// not count peeks, repeated calls that were allowed before, and what a failure policy decides.
//
// Its memory is bounded (about 1,000 keys). Beyond that, it counts the least denied keys together, so the most
// denied ones always have their own counts. While the table cannot be written, for instance because the store is
// away or the user lacks the right, decisions are not affected, counting goes on, and it tries again later. Close
// writes the rest, for which it takes at most 1 s.
func WithDenialLog(backend store.Store, settings DenialLog) store.Store {
	return CollectDenials(backend, settings).Wrap(backend)
}

// CollectDenials returns a collector that writes to the [admin.Tables] of backend. It is for several stores
// around one backend; otherwise use [WithDenialLog].
func CollectDenials(backend store.Store, settings DenialLog) *DenialCollector {
	if settings.Every <= 0 {
		settings.Every = time.Second
	}
	c := &DenialCollector{settings: settings, seed: maphash.MakeSeed(), start: time.Now().Add(-time.Microsecond), pause: settings.Every}
	c.table, _ = admin.TablesOf(backend)
	for i := range c.stripes {
		c.stripes[i].sketch = spacesaving.New[store.Key, denialNote](countersPerStripe, cloneKey)
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
	tookEffect := store.AllAllowed(decisions)
	for i := range decisions {
		d := &decisions[i]
		switch {
		case !s.counts(d):
		case d.Shadow:
			if !d.Allowed && !d.Repeated {
				req := reqs[i]
				req.SetDefaults()
				req.Key.Name = admin.ShadowName + req.Key.Name
				s.collector.count(req, d)
			}
		case !d.Allowed:
			s.collector.count(reqs[i], d)
		case tookEffect:
			s.collector.pass(reqs[i])
			if d.Override != nil && !d.Repeated && !s.isCounted(decisions[:i], d.Override) {
				s.collector.passUnder(d.Override)
			}
		}
	}
	return nil
}

// counts reports whether a decision is one of those that are counted.
func (s *denialLogStore) counts(d *store.Decision) bool {
	return !d.Unguarded && (d.DecidedBy != store.DecidedByLocal || !s.collector.settings.WithoutLocal)
}

// isCounted reports whether an earlier decision of the same call was counted for an override.
func (s *denialLogStore) isCounted(earlier []store.Decision, o *store.Override) bool {
	for i := range earlier {
		if earlier[i].Override == o && !earlier[i].Shadow && s.counts(&earlier[i]) {
			return true
		}
	}
	return false
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
	denialRowBytes = 48 // of a row without its texts
	// letThroughBytes is that of what an override let through, without its ID.
	letThroughBytes = 24

	denialTimeout = time.Second      // of one write
	mostAwayPause = 30 * time.Second // between writes to a store that is away
	refusedPause  = time.Minute      // after a refusal, which somebody has to fix
)

// DenialCollector counts denials by key, and by override what that let through. It writes them to a store from time to
// time. Its memory is bounded.
type DenialCollector struct {
	settings DenialLog
	table    *admin.Tables // nil for a store without one
	seed     maphash.Seed
	start    time.Time // just before, so that no instant is 0
	stripes  [denialStripes]denialStripe
	lost     atomic.Bool // a write whose outcome is unknown

	letThrough letThrough

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
	known  atomic.Uint64 // a bit for each key with a counter, so that other keys cost no lock when they pass
	mu     sync.Mutex
	sketch *spacesaving.Sketch[store.Key, denialNote]
	_      [64]byte // keeps neighbours in different cache lines
}

// denialNote is what is known of the denials of a key, besides how many there are. A key that was denied lately keeps
// it after a write, so that a run of denials keeps its begin.
type denialNote struct {
	since, lastAt store.Instant
	limit         store.Limit
	blocked       int64
	override      string
	// compared counts the denials of a run after the first, allowed what went through between two of them, and passed
	// what did since the last one.
	compared, allowed, passed int64
}

func cloneKey(key store.Key) store.Key {
	return store.Key{Subject: strings.Clone(key.Subject), Name: strings.Clone(key.Name)}
}

// Count counts a denial of req that no store has decided. A request without a limit has a name. An invalid key is left out, since
// no table takes it.
func (c *DenialCollector) Count(req store.Request, d *store.Decision) {
	if c.table != nil && req.Key.Validate() == nil {
		c.count(req, d)
	}
}

// count counts a denial of req.
func (c *DenialCollector) count(req store.Request, d *store.Decision) {
	known := req.Limit != (store.Limit{})
	req.SetDefaults() // for the key's name
	now := c.now()
	stripe, bit := c.stripe(req.Key)
	stripe.mu.Lock()
	note := stripe.sketch.Add(req.Key, 1)
	if note.lastAt == 0 || now-note.lastAt > store.Instant(admin.DenialPause/time.Microsecond) {
		note.since, note.passed = now, 0
	} else {
		note.compared++
	}
	note.lastAt, note.allowed, note.passed = max(note.lastAt, now), note.allowed+note.passed, 0
	if d.DecidedBy == store.DecidedByOverride && d.Override != nil {
		note.blocked++
		note.override = d.Override.ID
	} else if known {
		note.limit = d.Override.Apply(req.Limit)
	}
	stripe.known.Or(bit)
	stripe.mu.Unlock()
	c.writeLater()
}

// pass counts a take of req that went through, if its key was denied lately.
func (c *DenialCollector) pass(req store.Request) {
	if !c.knowsAny() {
		return
	}
	req.SetDefaults()
	stripe, bit := c.stripe(req.Key)
	if stripe.known.Load()&bit == 0 {
		return
	}
	stripe.mu.Lock()
	if note := stripe.sketch.Note(req.Key); note != nil {
		note.passed++
	}
	stripe.mu.Unlock()
}

// passUnder counts a call that an override let through.
func (c *DenialCollector) passUnder(o *store.Override) {
	if c.letThrough.add(o.ID, 1) {
		c.writeLater()
	}
}

// knowsAny reports whether any key was denied lately.
func (c *DenialCollector) knowsAny() bool {
	for i := range c.stripes {
		if c.stripes[i].known.Load() != 0 {
			return true
		}
	}
	return false
}

// now is a clock for differences only. It costs half of time.Now.
func (c *DenialCollector) now() store.Instant {
	return store.Instant(time.Since(c.start) / time.Microsecond)
}

// stripe returns the stripe that counts key, and its bit there.
func (c *DenialCollector) stripe(key store.Key) (stripe *denialStripe, bit uint64) {
	hash := maphash.String(c.seed, key.Subject) ^ bits.RotateLeft64(maphash.String(c.seed, key.Name), 32)
	return &c.stripes[hash%denialStripes], 1 << (hash / denialStripes % 64)
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
	if c.lost.Load() || !c.letThrough.isEmpty() {
		return false
	}
	for i := range c.stripes {
		stripe := &c.stripes[i]
		stripe.mu.Lock()
		empty := stripe.sketch.IsEmpty()
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
	d.Lost = c.lost.Swap(false)
	if len(d.Rows) == 0 && len(d.LetThrough) == 0 && d.Others == 0 && !d.Lost {
		return nil
	}
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
		for _, l := range d.LetThrough {
			c.letThrough.add(l.Override, l.Count)
		}
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

type countedKey = spacesaving.Count[store.Key, denialNote]

// drain removes the most denied keys from the sketches, and counts of what overrides let through. It returns the
// counts of the keys, and what to write.
func (c *DenialCollector) drain() (counts []countedKey, d admin.Denials) {
	d.Now, d.LetThrough = c.now(), c.letThrough.drain()
	for i := range c.stripes {
		some, lost := c.drainStripe(&c.stripes[i], d.Now)
		counts = append(counts, some...)
		d.Others += lost
	}
	slices.SortFunc(counts, func(a, b countedKey) int { return cmp.Compare(b.N, a.N) })
	room, places := denialBytes, map[store.Key]int{}
	for _, l := range d.LetThrough {
		room -= len(l.Override) + letThroughBytes
	}
	for i, counted := range counts {
		note := counted.Note
		row := admin.Denied{Key: counted.Key, Count: counted.N, LastAt: note.lastAt, Since: note.since, Blocked: note.blocked,
			Override: note.override, Allowed: note.allowed, Compared: note.compared, Limit: note.limit}
		row.Shorten()
		room -= len(row.Key.Subject) + len(row.Key.Name) + len(row.Override) + denialRowBytes
		if i == admin.MaxDenialRows || room < 0 { // the others stay, and count on until they are among the first
			c.putBack(counts[i:], 0)
			counts = counts[:i]
			break
		}
		if place, known := places[row.Key]; known { // a long name, and one that is what Shorten makes of it
			d.Rows[place] = admin.MergeDenied(d.Rows[place], row)
			continue
		}
		places[row.Key] = len(d.Rows)
		d.Rows = append(d.Rows, row)
	}
	return counts, d
}

// drainStripe takes the counts of a stripe. Keys that were denied lately keep their counters.
func (c *DenialCollector) drainStripe(stripe *denialStripe, now store.Instant) (counts []countedKey, lost int64) {
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	known := uint64(0)
	counts, lost = stripe.sketch.Drain(func(counted *countedKey) (note denialNote, yes bool) {
		if now-counted.Note.lastAt > store.Instant(admin.DenialPause/time.Microsecond) {
			return note, false
		}
		_, bit := c.stripe(counted.Key)
		known |= bit
		return denialNote{since: counted.Note.since, lastAt: counted.Note.lastAt, passed: counted.Note.passed}, true
	})
	stripe.known.Store(known)
	return counts, lost
}

// putBack adds the counts that were not written.
func (c *DenialCollector) putBack(counts []countedKey, others int64) {
	for i := range counts {
		stripe, bit := c.stripe(counts[i].Key)
		stripe.mu.Lock()
		stripe.sketch.Add(counts[i].Key, counts[i].N).putBack(&counts[i].Note)
		stripe.known.Or(bit)
		stripe.mu.Unlock()
	}
	stripe := &c.stripes[0]
	stripe.mu.Lock()
	stripe.sketch.AddLost(others)
	stripe.mu.Unlock()
}

// putBack adds what was noted before n was made anew.
func (n *denialNote) putBack(before *denialNote) {
	if n.lastAt == 0 {
		n.since = before.since
	}
	n.lastAt = max(n.lastAt, before.lastAt)
	n.blocked += before.blocked
	n.allowed += before.allowed
	n.compared += before.compared
	if n.limit == (store.Limit{}) {
		n.limit = before.limit
	}
	n.override = cmp.Or(n.override, before.override)
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
