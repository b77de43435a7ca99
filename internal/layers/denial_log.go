package layers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// denialLogStore is the law of the denial log: a denied take counts once, for the block that denied it, else for the
// first limit that did. What a shadow limit would have denied has rows of its own. Decisions of a failure policy do not
// count, and who waits for a turn is denied at its end, if at all.
type denialLogStore struct {
	store.Store
	*DenialCollector
}

// Decide implements [store.Store].
func (s *denialLogStore) Decide(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if err != nil || op != store.Take && op != store.TakeUpTo {
		return err
	}
	if store.AllAllowed(decisions) || ctx.Value(waitingKey{}) == nil {
		s.See(reqs, decisions)
	}
	return nil
}

// waitingKey is that of contexts of a caller who waits for a turn.
type waitingKey struct{}

// seeEnd counts how a wait ended that was denied.
func seeEnd(backend store.Store, reqs []store.Request, decisions []store.Decision) {
	if log, has := store.As[*denialLogStore](backend); has && !store.AllAllowed(decisions) {
		log.See(reqs, decisions)
	}
}

// See counts what a caller sees of a take.
func (c *DenialCollector) See(reqs []store.Request, decisions []store.Decision) {
	tookEffect, denied := store.AllAllowed(decisions), -1
	for i := range decisions {
		d := &decisions[i]
		switch {
		case !c.counts(d):
		case d.Shadow:
			if !d.Allowed && !d.Repeated && !isBlocked(d) {
				req := reqs[i]
				req.Key.Name = admin.ShadowName + req.Key.Name
				c.count(&req, d)
			}
		case !d.Allowed:
			if denied < 0 || isBlocked(d) && !isBlocked(&decisions[denied]) {
				denied = i
			}
		case tookEffect:
			c.pass(&reqs[i].Key)
		}
	}
	if denied >= 0 {
		c.count(&reqs[denied], &decisions[denied])
	}
}

// isBlocked reports whether a block denied.
func isBlocked(d *store.Decision) bool {
	return !d.Allowed && d.DecidedBy == store.DecidedByOverride && d.Override != nil &&
		d.Override.Effect == store.OverrideBlock
}

// counts reports whether a decision is one of those that are counted.
func (c *DenialCollector) counts(d *store.Decision) bool {
	return !d.Unguarded && (d.DecidedBy != store.DecidedByLocal || !c.WithoutLocal)
}

// Close writes the rest and closes the store.
func (s *denialLogStore) Close() error {
	s.DenialCollector.Close()
	return s.Store.Close()
}

const (
	denialCounters = 1024
	denialTimeout  = time.Second // of one write
	// shadowKeys is how many keys of shadow limits have a row of their own, so that they leave room for those denied.
	// Each limit's others are one row, of the subject "*".
	shadowKeys = admin.CoarseDenialsKept
)

// DenialCollector counts denials by key, or by block, and adds them to the [admin.Tables] of a store in the background,
// at most once a second. Beyond about 1,000 keys it counts the least denied keys together.
type DenialCollector struct {
	// WithoutLocal leaves out denials by a local share, for a process that does not wait until the store is back.
	WithoutLocal bool

	observer *Observer
	table    *admin.Tables // nil for a store without one
	start    time.Time     // just before, so that no instant is 0
	known    atomic.Bool   // keys were denied lately; otherwise those that pass cost no lock

	mu     sync.Mutex // guards what is counted
	sketch *spacesaving.Sketch[store.Key, denialNote]
	shadow int         // about how many of these keys are of shadow limits
	lost   bool        // a write whose outcome is unknown
	due    bool        // a write is due or under way
	timer  *time.Timer // of the next write
	closed bool

	writing sync.Mutex // held by the writer
	failing bool       // guarded by writing
}

// denialNote is what is known of the denials of a key. One that was denied lately keeps it after a write, so that a run
// of denials keeps its begin.
type denialNote struct {
	admin.Denied
	passed int64           // takes that went through since the last denial
	block  *store.Override // that denied, if it is one that is counted
}

// CollectDenials returns a collector that writes to the [admin.Tables] of backend, for the stacks around it.
func CollectDenials(backend store.Store, observer *Observer) *DenialCollector {
	c := &DenialCollector{observer: cmp.Or(observer, new(Observer)), start: time.Now().Add(-time.Microsecond)}
	c.table, _ = admin.TablesOf(backend)
	c.sketch = spacesaving.New[store.Key, denialNote](denialCounters, func(key store.Key) store.Key {
		return store.Key{Subject: strings.Clone(key.Subject), Name: strings.Clone(key.Name)}
	})
	return c
}

// wrap makes the layer around backend, unless there is no table. Closing it closes the collector.
func (c *DenialCollector) wrap(backend store.Store) store.Store {
	if c.table == nil {
		return backend
	}
	return &denialLogStore{backend, c}
}

// Count counts a denial of req that no store has decided. A request without a limit has a name.
func (c *DenialCollector) Count(req store.Request, d *store.Decision) {
	if req.Limit != (store.Limit{}) {
		req.SetDefaults() // for the key's name
	}
	if c.table != nil && req.Key.Validate() == nil {
		c.count(&req, d)
	}
}

// count counts a denial of req.
func (c *DenialCollector) count(req *store.Request, d *store.Decision) {
	now, key := c.now(), req.Key
	if isBlocked(d) {
		key = store.Key{Subject: d.Override.ID} // no key of a limit is without a name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if isShadow(key) && c.sketch.Note(key) == nil {
		if c.shadow == shadowKeys {
			key.Subject = "*"
		} else {
			c.shadow++
		}
	}
	note := c.sketch.Add(key, 1)
	if note.LastAt == 0 || now-note.LastAt > denialPause {
		note.Since, note.passed = now, 0
	} else {
		note.Compared++
	}
	note.LastAt, note.Allowed, note.passed = max(note.LastAt, now), note.Allowed+note.passed, 0
	if isBlocked(d) {
		note.block = d.Override
	} else if req.Limit != (store.Limit{}) {
		note.Limit = d.Override.Apply(req.Limit)
	}
	c.known.Store(true)
	c.writeLater()
}

func isShadow(key store.Key) bool { return strings.HasPrefix(key.Name, admin.ShadowName) }

// denialPause is the longest time between two denials of a run.
const denialPause = store.Instant(admin.DenialPause / time.Microsecond)

// pass counts a take of key that went through, if it was denied lately.
func (c *DenialCollector) pass(key *store.Key) {
	if !c.known.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if note := c.sketch.Note(*key); note != nil {
		note.passed++
	}
}

// now is a clock for differences only. It costs half of time.Now.
func (c *DenialCollector) now() store.Instant {
	return store.Instant(time.Since(c.start) / time.Microsecond)
}

// writeLater schedules a write, unless one is due or under way. The caller holds the lock.
func (c *DenialCollector) writeLater() {
	if !c.due && !c.closed {
		c.due, c.timer = true, time.AfterFunc(every, c.writeNow)
	}
}

// writeNow writes, and schedules the next write if anything is left.
func (c *DenialCollector) writeNow() {
	c.writing.Lock()
	defer c.writing.Unlock()
	pause := every
	if c.write(context.Background()) != nil {
		pause *= failedPause
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due = !c.isEmpty(); c.due && !c.closed {
		c.timer = time.AfterFunc(pause, c.writeNow)
	}
}

// isEmpty reports whether there is nothing to write. The caller holds the lock.
func (c *DenialCollector) isEmpty() bool { return !c.lost && c.sketch.IsEmpty() }

type countedKey = spacesaving.Count[store.Key, denialNote]

// write writes the most denied keys. The caller holds c.writing.
func (c *DenialCollector) write(ctx context.Context) error {
	counts, d := c.drain()
	if len(d.Rows) == 0 && d.Others == 0 && !d.Lost {
		return nil
	}
	ctx, cancel := store.BudgetContext(ctx, denialTimeout)
	defer cancel()
	err := panics.Call(func() error { return c.table.AddDenials(ctx, d) })
	failed := c.failing
	c.failing = err != nil
	switch {
	case err == nil && failed:
		notify(c.observer, c.observer.OnDenialLog, nil)
	case err != nil && !failed:
		notify(c.observer, c.observer.OnDenialLog, fmt.Errorf("denials cannot be written: %w", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, store.ErrOutcomeUnknown): // another try could count them twice
		c.lost = true
	case err != nil:
		c.addBack(counts)
		c.sketch.AddLost(d.Others)
		c.lost = c.lost || d.Lost
	}
	return err
}

// drain removes what one write takes: the most denied keys, with their counts.
func (c *DenialCollector) drain() (counts []countedKey, d admin.Denials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.Now, d.Lost, c.lost = c.now(), c.lost, false
	places := map[store.Key]int{}
	c.known.Store(false)
	c.shadow = 0
	counts, d.Others = c.sketch.Drain(func(counted *countedKey) (note denialNote, stays bool) {
		if d.Now-counted.Note.LastAt > denialPause {
			return note, false
		}
		c.known.Store(true)
		note.Since, note.LastAt, note.passed = counted.Note.Since, counted.Note.LastAt, counted.Note.passed
		note.block = counted.Note.block
		if isShadow(counted.Key) && counted.Key.Subject != "*" {
			c.shadow++
		}
		return note, true
	})
	slices.SortFunc(counts, func(a, b countedKey) int { return cmp.Compare(b.N, a.N) })
	for i, counted := range counts {
		row := counted.Note.Denied
		row.Key, row.Count = counted.Key, counted.N
		if block := counted.Note.block; block != nil {
			row.Key, row.Blocked, row.Override = admin.BlockKey(block), row.Count, block.ID
		}
		row.Shorten()
		if i == admin.MaxDenialRows { // the others stay, and count on until they are among the first
			c.addBack(counts[i:])
			return counts[:i], d
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

// addBack adds counts to what has been counted since. The caller holds the lock.
func (c *DenialCollector) addBack(counts []countedKey) {
	for i := range counts {
		before := counts[i].Note.Denied
		before.Count = counts[i].N
		note := c.sketch.Add(counts[i].Key, counts[i].N)
		note.block = counts[i].Note.block
		if note.LastAt == 0 {
			note.Denied = before
		} else {
			note.Denied = admin.MergeDenied(before, note.Denied)
		}
		c.known.Store(true)
	}
}

// Close writes the rest, for which it takes at most a second, and stops. The store stays open.
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
	for left := true; left && ctx.Err() == nil; {
		if c.write(ctx) != nil {
			return
		}
		c.mu.Lock()
		left = !c.isEmpty()
		c.mu.Unlock()
	}
}
