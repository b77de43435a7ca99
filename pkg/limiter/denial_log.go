package limiter

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
)

// DenialLog says how [WithDenialLog] writes. A zero field stands for its default.
type DenialLog struct {
	// Every is the least time between two writes; 1 s unless said.
	Every time.Duration
	// OnError, if set, is told why denials could not be written: once, until they can be
	// again.
	OnError func(error)
}

// WithDenialLog wraps store so that who is denied can be seen by an operator: denied takes
// are summed up by key, and at most once a second added to the [DenialTable] of store, for
// which it is not asked by callers but in the background. While nothing is denied nothing
// is written. A store without a table is returned as it is.
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
func WithDenialLog(store Store, settings DenialLog) Store {
	table, has := DenialTableOf(store)
	if !has {
		return store
	}
	if settings.Every <= 0 {
		settings.Every = time.Second
	}
	s := &denialLogStore{Store: store, DenialLog: settings, table: table, seed: maphash.MakeSeed(), start: time.Now(), pause: settings.Every}
	for i := range s.parts {
		s.parts[i].sketch = spacesaving.New(countersPerPart, cloneKey)
	}
	return KeepKeyspace(s, store)
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

type denialLogStore struct {
	Store
	DenialLog
	table DenialTable
	seed  maphash.Seed
	start time.Time
	parts [denialParts]denialPart
	lost  atomic.Bool // a write whose outcome is unknown

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
	sketch *spacesaving.Sketch[Key]
	_      [64]byte // keep neighbours off one line of the processor's cache
}

func cloneKey(key Key) Key {
	return Key{Subject: strings.Clone(key.Subject), Name: strings.Clone(key.Name)}
}

// Decide implements [Store].
func (s *denialLogStore) Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error {
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if err != nil || op != Take && op != TakeUpTo {
		return err
	}
	for i := range decisions {
		if d := &decisions[i]; !d.Allowed && !d.Shadow && !d.Unguarded {
			s.count(reqs[i])
		}
	}
	return nil
}

// count counts a denial of req.
func (s *denialLogStore) count(req Request) {
	req.SetDefaults() // for its name
	now := s.now()
	part := s.part(req.Key)
	part.mu.Lock()
	part.sketch.Add(req.Key, 1, int64(now))
	part.mu.Unlock()
	s.writeLater()
}

// now is a clock that only differences count of. Asking it costs half of time.Now.
func (s *denialLogStore) now() Instant { return Instant(time.Since(s.start) / time.Microsecond) }

// part returns the part that counts key.
func (s *denialLogStore) part(key Key) *denialPart {
	hash := maphash.String(s.seed, key.Subject) ^ bits.RotateLeft64(maphash.String(s.seed, key.Name), 32)
	return &s.parts[hash%denialParts]
}

// writeLater sees to it that what is counted gets written.
func (s *denialLogStore) writeLater() {
	if !s.due.Load() && s.due.CompareAndSwap(false, true) {
		s.writeAfter(s.Every)
	}
}

func (s *denialLogStore) writeAfter(pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.timer = time.AfterFunc(pause, s.writeNow)
	}
}

// writeNow writes, and sees to the next write if there is anything left.
func (s *denialLogStore) writeNow() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.write(context.Background())
	if s.isEmpty() {
		s.due.Store(false)
		if !s.isEmpty() { // a denial came in between, and found a write due
			s.writeLater()
		}
		return
	}
	s.writeAfter(s.pause)
}

func (s *denialLogStore) isEmpty() bool {
	for i := range s.parts {
		part := &s.parts[i]
		part.mu.Lock()
		empty := part.sketch.IsEmpty()
		part.mu.Unlock()
		if !empty {
			return false
		}
	}
	return true
}

// write writes the keys denied most, and says by s.pause when to write again. The caller
// holds s.writing.
func (s *denialLogStore) write(ctx context.Context) error {
	counts, d := s.drain()
	if len(d.Rows) == 0 && d.Others == 0 {
		return nil
	}
	d.Lost = s.lost.Swap(false)
	ctx, cancel := BudgetContext(ctx, denialTimeout)
	defer cancel()
	err := panics.Call(func() error { return s.table.AddDenials(ctx, d) })
	switch {
	case err == nil:
		s.pause, s.failing = s.Every, false
		return nil
	case errors.Is(err, ErrOutcomeUnknown): // to add them again could count them twice
		s.lost.Store(true)
	default:
		s.putBack(counts, d.Others)
		if d.Lost {
			s.lost.Store(true)
		}
	}
	if IsAway(err) || errors.Is(err, ErrGaveUp) {
		s.pause = min(2*s.pause, max(s.Every, mostAwayPause))
	} else {
		s.pause = max(s.Every, refusedPause)
	}
	if !s.failing && s.OnError != nil {
		panics.Call(func() error { s.OnError(fmt.Errorf("denials cannot be written: %w", err)); return nil })
	}
	s.failing = true
	return err
}

// drain takes the keys denied most out of the sketches: the counts of them, and as they
// are to be written.
func (s *denialLogStore) drain() (counts []spacesaving.Count[Key], d Denials) {
	for i := range s.parts {
		part := &s.parts[i]
		part.mu.Lock()
		some, lost := part.sketch.Drain()
		part.mu.Unlock()
		counts = append(counts, some...)
		d.Others += lost
	}
	slices.SortFunc(counts, func(a, b spacesaving.Count[Key]) int { return cmp.Compare(b.N, a.N) })
	room := denialBytes
	for i, c := range counts {
		row := Denied{Key: c.Key, Count: c.N, LastAt: Instant(c.Last)}
		row.Shorten()
		room -= len(row.Key.Subject) + len(row.Key.Name) + denialRowBytes
		if i == MaxDenialRows || room < 0 { // the others stay, and count on until they are among the first
			s.putBack(counts[i:], 0)
			counts = counts[:i]
			break
		}
		d.Rows = append(d.Rows, row)
	}
	d.Now = s.now()
	return counts, d
}

// putBack counts what was not written.
func (s *denialLogStore) putBack(counts []spacesaving.Count[Key], others int64) {
	for _, c := range counts {
		part := s.part(c.Key)
		part.mu.Lock()
		part.sketch.Add(c.Key, c.N, c.Last)
		part.mu.Unlock()
	}
	part := &s.parts[0]
	part.mu.Lock()
	part.sketch.AddLost(others)
	part.mu.Unlock()
}

// Close writes what is left and closes the store.
func (s *denialLogStore) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	ctx, cancel := BudgetContext(context.Background(), denialTimeout)
	defer cancel()
	for ctx.Err() == nil && !s.isEmpty() && s.write(ctx) == nil {
	}
	return s.Store.Close()
}
