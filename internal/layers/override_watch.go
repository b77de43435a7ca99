package layers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Overrides says how [WithOverrides] reads. A zero field stands for its default.
type Overrides struct {
	// Every is the time between two looks at whether there are other overrides; 1 s unless said.
	Every time.Duration
	// Idle is how long after the last decision it goes on looking; 1 minute unless said.
	Idle time.Duration
	// OnError, if set, is told why overrides could not be read: once, until they can be again.
	OnError func(error)
	// OnRecovered, if set, is told after OnError that overrides were read again.
	OnRecovered func()
	// Clock is the local time; the process's own unless said. It is only used for how much
	// time passed, so the store's clock may show another time.
	Clock func() time.Time
	// Background runs a function after a delay, without keeping its caller waiting; timers
	// of the process unless said. It is for virtual time: a function without a delay may
	// be run before Background returns.
	Background func(delay time.Duration, f func())
}

// WithOverrides wraps backend so that what operators have said in its [admin.OverrideTable] applies to
// what callers ask, within about a second. A store without a table is returned as it is.
//
// Whether there is anything new is asked in the background, by one small read a second, while decisions
// are made and for a minute after the last. The overrides themselves are read when they have changed.
// Only the first decisions of a process, and those after more than a minute without any, wait for a read:
// for as long as the store takes for it, at most until their context ends or for a second. No decision fails
// because of overrides. While they cannot be read, because the store is away
// or the user lacks the right, those that are known apply until their ends, by the store's
// clock as far as it is known; a process that has just begun knows none. While the store is away it is asked
// five times less often, so what is set meanwhile applies within about six seconds after its return.
//
// Under an override of the limit, takes, charges and all else are decided by that limit, under the
// key of the limit asked for. [store.OverrideList] says which override applies if there are several.
//
// A take that is blocked is denied without asking the store: nothing is charged, RetryAfter is until the
// end of the block, and Used is 0, since nobody was asked. None of several requests is charged then.
// What gives units back or charges what happened already passes through, and so does a shadow,
// whose decision tells of the block. A take whose cost fits its limit but not that of the override is denied
// in the same way. A take with a token that was allowed before the block is answered as it was.
//
// An exempt take is charged if it fits and allowed in any case, without a Delay. If it was
// allowed though it did not fit, nothing was charged, and DecidedBy is [store.DecidedByOverride]: do not
// refund it. A TakeUpTo is granted all it asks for, or what its other requests are; DecidedBy is
// DecidedByOverride, too, if less than that was charged.
//
// Each such decision names its Override. It belongs around wrappers that decide
// in the store's place, so that they decide by the limit that applies.
func WithOverrides(backend store.Store, settings Overrides) store.Store {
	return WatchOverrides(backend, settings).Wrap(backend)
}

// OverrideWatch knows the overrides of a store. It is for those who wrap several stores around
// one, or who load before they decide; others use [WithOverrides].
type OverrideWatch struct {
	Overrides
	table   admin.OverrideTable // nil for a store without one
	time    stopwatch
	current atomic.Pointer[knownOverrides] // nil for none
	used    atomic.Bool                    // for a decision since the last look
	awake   atomic.Bool                    // looks are made
	rested  atomic.Bool                    // none was made for long, or ever

	ctx   context.Context // of all reads
	close context.CancelFunc

	mu      sync.Mutex
	reading *overrideRead // under way
	last    time.Duration // when the last one ended, or was given up
	begun   bool          // there was one

	// Of the read under way.
	version string
	failing bool
	pause   time.Duration
	read    time.Time // when the list was read
}

// overrideRead is one read, which any number of callers wait for.
type overrideRead struct {
	ended chan struct{}
	err   error // may be read once it has ended
}

// knownOverrides are never changed.
type knownOverrides struct {
	*store.OverrideList
	now store.Instant // what the store's clock showed
	at  time.Duration // when ours showed this
}

const (
	overrideTimeout = time.Second // of one look, with a read if it finds something new
	// awayLooks is how many times longer than Every it waits at most when the store is away.
	awayLooks = 5
	// clockStep is how much a clock may be set until it is asked how late it is for the store.
	clockStep = time.Second
)

// WatchOverrides returns a watch of backend's overrides. It asks nothing yet.
func WatchOverrides(backend store.Store, settings Overrides) *OverrideWatch {
	if settings.Every <= 0 {
		settings.Every = time.Second
	}
	if settings.Idle <= 0 {
		settings.Idle = time.Minute
	}
	if settings.Background == nil {
		settings.Background = background
	}
	w := &OverrideWatch{Overrides: settings, time: newStopwatch(settings.Clock), pause: settings.Every}
	w.table, _ = admin.OverrideTableOf(backend)
	w.ctx, w.close = context.WithCancel(context.Background())
	w.rested.Store(true)
	return w
}

// Wrap is [WithOverrides] for one of several stores around the one that is watched. Closing the result
// ends the watch. From now on it looks by itself.
func (w *OverrideWatch) Wrap(backend store.Store) store.Store {
	if w.table == nil {
		return backend
	}
	w.wake()
	return store.Wrap(newOverrideStore(backend, w), backend)
}

// Load reads the overrides now, so that they apply to the next decision. After an error those that
// were known before apply.
func (w *OverrideWatch) Load(ctx context.Context) error {
	if w.table == nil {
		return nil
	}
	read := w.look()
	select {
	case <-read.ended:
		return read.err
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.last, w.begun = w.time.now(), true // the next decision does not wait for it once more
	w.mu.Unlock()
	if err := store.GaveUp(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: overrides were not read in time", store.ErrUnavailable)
}

// Close ends the watch, and waits for the read that may be under way. It leaves the store open.
func (w *OverrideWatch) Close() {
	w.close()
	w.mu.Lock()
	read := w.reading
	w.mu.Unlock()
	if read != nil {
		<-read.ended
	}
}

// known returns the overrides, nil for none, and sees to it that there will be looks for others.
// If there were none for long, it waits for one.
func (w *OverrideWatch) known(ctx context.Context) *knownOverrides {
	if !w.used.Load() {
		w.used.Store(true)
		w.wake()
	}
	if w.rested.Load() {
		w.catchUp(ctx)
	}
	return w.current.Load()
}

// catchUp waits for a look, unless one has just ended.
func (w *OverrideWatch) catchUp(ctx context.Context) {
	w.mu.Lock()
	recent := w.begun && w.time.now()-w.last < w.Every
	w.mu.Unlock()
	if recent {
		return
	}
	ctx, cancel := store.BudgetContext(ctx, overrideTimeout) // also where a store does not heed its context
	defer cancel()
	select {
	case <-w.look().ended:
	case <-ctx.Done():
	}
}

// wake begins to look, unless it does so already.
func (w *OverrideWatch) wake() {
	if w.awake.Load() || !w.awake.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	delay := time.Duration(0)
	if w.begun {
		delay = max(0, w.last+w.Every-w.time.now())
	}
	w.mu.Unlock()
	w.Background(delay, func() { w.goOn(w.time.now()) })
}

// goOn looks, and sees to the next look unless nobody has decided for long. It was decided
// last at used.
func (w *OverrideWatch) goOn(used time.Duration) {
	if w.ctx.Err() != nil {
		return
	}
	if w.used.Swap(false) {
		used = w.time.now()
	}
	if w.time.now()-used >= w.Idle {
		w.rested.Store(true)
		w.awake.Store(false)
		if w.used.Load() { // a decision came in between, and found it awake
			w.wake()
		}
		return
	}
	<-w.look().ended
	w.rested.Store(false)
	w.mu.Lock()
	pause := w.pause
	w.mu.Unlock()
	w.Background(pause, func() { w.goOn(used) })
}

// look begins to read, or returns the read that is under way.
func (w *OverrideWatch) look() *overrideRead {
	w.mu.Lock()
	if read := w.reading; read != nil {
		w.mu.Unlock()
		return read
	}
	read := &overrideRead{ended: make(chan struct{})}
	w.reading = read
	w.mu.Unlock()
	w.Background(0, func() {
		read.err = panics.Call(w.readOnce)
		w.mu.Lock()
		w.reading, w.last, w.begun = nil, w.time.now(), true
		w.mu.Unlock()
		close(read.ended)
	})
	return read
}

// readOnce looks for a change, and says by pause when to look again.
func (w *OverrideWatch) readOnce() error {
	ctx, cancel := store.BudgetContext(w.ctx, overrideTimeout)
	defer cancel()
	err := panics.Call(func() error { return w.readChange(ctx) })
	pause := w.Every
	switch {
	case err == nil:
		if w.failing && w.OnRecovered != nil {
			panics.Call(func() error { w.OnRecovered(); return nil })
		}
		w.failing = false
	case store.IsAway(err) || errors.Is(err, store.ErrGaveUp):
		pause = min(2*w.pause, awayLooks*w.Every)
	case !errors.Is(err, store.ErrForeign):
		pause = max(w.Every, refusedPause)
	}
	w.mu.Lock()
	w.pause = pause
	w.mu.Unlock()
	if err != nil && !w.failing && w.ctx.Err() == nil {
		w.failing = true
		if w.OnError != nil {
			panics.Call(func() error { w.OnError(fmt.Errorf("overrides cannot be read: %w", err)); return nil })
		}
	}
	return err
}

// readChange reads the list if its version is another one.
func (w *OverrideWatch) readChange(ctx context.Context) error {
	version, err := w.table.OverrideVersion(ctx)
	if err != nil {
		return err
	}
	if version == "" {
		w.version = ""
		w.current.Store(nil)
		return nil
	}
	if version == w.version && !w.clockWasSet() {
		w.drop()
		return nil
	}
	list, version, err := w.table.Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) { // then the others apply all the same
		return err
	}
	w.version, w.read = version, w.wallTime()
	if len(list) == 0 {
		w.current.Store(nil)
		return err
	}
	w.current.Store(&knownOverrides{store.NewOverrideList(list), store.InstantOf(list[0].ExpiresAt.Add(-list[0].Left)), w.time.now()})
	return err
}

// drop forgets the overrides once all of them have ended.
func (w *OverrideWatch) drop() {
	known := w.current.Load()
	if known == nil {
		return
	}
	now := known.clock(&w.time)
	for i := range known.All() {
		if now < store.InstantOf(known.All()[i].ExpiresAt) {
			return
		}
	}
	w.current.Store(nil)
}

// clock returns what the store's clock shows now, as far as that is known.
func (k *knownOverrides) clock(time *stopwatch) store.Instant {
	return k.now + store.Instant((time.now() - k.at).Microseconds())
}

func (w *OverrideWatch) wallTime() time.Time {
	if w.Clock != nil {
		return w.Clock()
	}
	return time.Now()
}

// clockWasSet reports whether the time of day went on by more or less than the time that passed
// since the list was read: the clock was set, or the machine slept. Then the store is asked anew
// how long the overrides last.
func (w *OverrideWatch) clockWasSet() bool {
	now := w.wallTime()
	step := now.Round(0).Sub(w.read.Round(0)) - now.Sub(w.read)
	return step.Abs() > clockStep
}
