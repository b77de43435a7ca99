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

// DenialLog says how [WithDenialLog] writes. A zero field stands for its default.
type DenialLog struct {
	// Every is the least time between two writes; 1 s unless said.
	Every time.Duration
	// OnError, if set, is told why denials could not be written: once, until they can be
	// again.
	OnError func(error)
	// WithoutLocal leaves out whom a local share denies while the store is away: for a process that
	// does not wait until the store is back.
	WithoutLocal bool
	// OnRecovered, if set, is told after OnError that denials were written again.
	OnRecovered func()
}

// WithDenialLog wraps backend so that an operator can see who is denied: denied takes are summed
// up by key, and added to the [admin.DenialTable] of backend in the background, at most once a second.
// While nothing is denied nothing is written. A store without a table is returned as it is.
//
// What callers see as denied is counted, whoever decided it: the store, a denial memory, a
// lease, a local share. So this goes around those wrappers. Peeks, shadows and what a
// failure policy turned away are not counted.
//
// The memory for it is bounded (some 1,000 keys) whatever is denied. Keys beyond that are
// counted together, those that were denied least first, so the keys denied most are always
// told apart. While the table cannot be written, for instance because the store is away or
// the user lacks the right, decisions are made as ever, counting goes on, and writing is
// tried again after a while. Close writes what is left, for which it takes 1 s at most.
func WithDenialLog(backend store.Store, settings DenialLog) store.Store {
	return CollectDenials(backend, settings).Wrap(backend)
}

// CollectDenials returns a collector that writes to the [admin.DenialTable] of backend. It is for those who
// wrap several stores around one; others use [WithDenialLog].
func CollectDenials(backend store.Store, settings DenialLog) *DenialCollector {
	if settings.Every <= 0 {
		settings.Every = time.Second
	}
	c := &DenialCollector{settings: settings, seed: maphash.MakeSeed(), start: time.Now(), pause: settings.Every}
	c.table, _ = admin.DenialTableOf(backend)
	for i := range c.parts {
		c.parts[i].sketch = spacesaving.New(countersPerPart, cloneKey)
	}
	return c
}

// Wrap is [WithDenialLog] for one of several stores around the one that is written to. Closing
// the result closes the collector.
func (c *DenialCollector) Wrap(backend store.Store) store.Store {
	if c.table == nil {
		return backend
	}
	return store.Wrap(&denialLogStore{Store: backend, collector: c}, backend)
}

// denialLogStore has a collector count whom a store denies.
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
	for i := range decisions {
		d := &decisions[i]
		isLeftOut := d.DecidedBy == store.DecidedByLocal && s.collector.settings.WithoutLocal
		if !d.Allowed && !d.Shadow && !d.Unguarded && !isLeftOut {
			s.collector.count(reqs[i])
		}
	}
	return nil
}

// Close writes what is left and closes the store.
func (s *denialLogStore) Close() error {
	s.collector.Close()
	return s.Store.Close()
}

const (
	denialParts     = 8 // so that callers who are denied rarely wait for each other
	countersPerPart = 128

	// denialBytes is about how large one write is at most: all 200 rows, unless their names are long.
	denialBytes    = 56 << 10
	denialRowBytes = 24 // of a row besides its names

	denialTimeout = time.Second      // of one write
	mostAwayPause = 30 * time.Second // between writes to a store that is away
	refusedPause  = time.Minute      // after a refusal, which somebody has to do something about
)

// DenialCollector sums up who is denied, and writes it to a store now and then. Its memory is
// bounded.
type DenialCollector struct {
	settings DenialLog
	table    admin.DenialTable // nil for a store without one
	seed     maphash.Seed
	start    time.Time
	parts    [denialParts]denialPart
	lost     atomic.Bool // a write whose outcome is unknown

	due     atomic.Bool // a write is due or under way
	writing sync.Mutex  // held by the one that writes; it guards what follows
	pause   time.Duration
	failing bool

	mu     sync.Mutex
	timer  *time.Timer // of the next write
	closed bool
}

// denialPart counts the keys whose hash leads to it.
type denialPart struct {
	mu     sync.Mutex
	sketch *spacesaving.Sketch[store.Key]
	_      [64]byte // keep neighbours off one line of the processor's cache
}

func cloneKey(key store.Key) store.Key {
	return store.Key{Subject: strings.Clone(key.Subject), Name: strings.Clone(key.Name)}
}

// count counts a denial of req.
func (c *DenialCollector) count(req store.Request) {
	req.SetDefaults() // for its name
	now := c.now()
	part := c.part(req.Key)
	part.mu.Lock()
	part.sketch.Add(req.Key, 1, int64(now))
	part.mu.Unlock()
	c.writeLater()
}

// now is a clock that only differences count of. Asking it costs half of time.Now.
func (c *DenialCollector) now() store.Instant {
	return store.Instant(time.Since(c.start) / time.Microsecond)
}

// part returns the part that counts key.
func (c *DenialCollector) part(key store.Key) *denialPart {
	hash := maphash.String(c.seed, key.Subject) ^ bits.RotateLeft64(maphash.String(c.seed, key.Name), 32)
	return &c.parts[hash%denialParts]
}

// writeLater sees to it that what is counted gets written.
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

// writeNow writes, and sees to the next write if there is anything left.
func (c *DenialCollector) writeNow() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.write(context.Background())
	if c.isEmpty() {
		c.due.Store(false)
		if !c.isEmpty() { // a denial came in between, and found a write due
			c.writeLater()
		}
		return
	}
	c.writeAfter(c.pause)
}

func (c *DenialCollector) isEmpty() bool {
	for i := range c.parts {
		part := &c.parts[i]
		part.mu.Lock()
		empty := part.sketch.IsEmpty()
		part.mu.Unlock()
		if !empty {
			return false
		}
	}
	return true
}

// write writes the keys denied most, and says by c.pause when to write again. The caller
// holds c.writing.
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
	case errors.Is(err, store.ErrOutcomeUnknown): // to add them again could count them twice
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

// drain takes the keys denied most out of the sketches: the counts of them, and as they
// are to be written.
func (c *DenialCollector) drain() (counts []spacesaving.Count[store.Key], d admin.Denials) {
	for i := range c.parts {
		part := &c.parts[i]
		part.mu.Lock()
		some, lost := part.sketch.Drain()
		part.mu.Unlock()
		counts = append(counts, some...)
		d.Others += lost
	}
	slices.SortFunc(counts, func(a, b spacesaving.Count[store.Key]) int { return cmp.Compare(b.N, a.N) })
	room := denialBytes
	for i, counted := range counts {
		row := admin.Denied{Key: counted.Key, Count: counted.N, LastAt: store.Instant(counted.Last)}
		row.Shorten()
		room -= len(row.Key.Subject) + len(row.Key.Name) + denialRowBytes
		if i == admin.MaxDenialRows || room < 0 { // the others stay, and count on until they are among the first
			c.putBack(counts[i:], 0)
			counts = counts[:i]
			break
		}
		d.Rows = append(d.Rows, row)
	}
	d.Now = c.now()
	return counts, d
}

// putBack counts what was not written.
func (c *DenialCollector) putBack(counts []spacesaving.Count[store.Key], others int64) {
	for _, counted := range counts {
		part := c.part(counted.Key)
		part.mu.Lock()
		part.sketch.Add(counted.Key, counted.N, counted.Last)
		part.mu.Unlock()
	}
	part := &c.parts[0]
	part.mu.Lock()
	part.sketch.AddLost(others)
	part.mu.Unlock()
}

// Close writes what is left, and writes no more. It leaves the store open.
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
