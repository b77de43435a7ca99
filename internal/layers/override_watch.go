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

// Overrides has the settings of [WithOverrides]. A zero field means its default.
type Overrides struct {
	// Every is the time between two checks for changed overrides; the default is 1 s.
	Every time.Duration
	// Idle is how long after the last decision the checks go on; the default is 1 minute.
	Idle time.Duration
	// OnError, if set, gets the error when overrides can no longer be read, once until they can be read again.
	OnError func(error)
	// OnRecovered, if set, is called after OnError when overrides were read again.
	OnRecovered func()
	// Clock is the local clock; the default is the process's own. Only its differences matter, so it need not agree
	// with the store's clock.
	Clock func() time.Time
	// Background runs a function after a delay, without blocking its caller; the default uses timers of the
	// process. It is for virtual time: it may run a function without a delay before it returns.
	Background func(delay time.Duration, f func())
}

// WithOverrides wraps backend so that the overrides in its [admin.Tables] apply to calls, within about a
// second. It returns a store without a table unchanged.
//
// It checks for changes in the background, by one small read a second, while decisions are made and for a minute
// after the last. It reads the overrides themselves when they have changed. Only the first decision of a process,
// and the first after more than a minute without any, wait for a read: at most for a second, or until their context
// ends. No decision fails because of overrides. While they cannot be read, because the store is away or the user
// lacks the right, the known ones apply until their ends, by the store's clock as far as it is known; a process
// that has just begun knows none. While the store is away it checks five times less often, so a change made
// meanwhile applies within about six seconds after the return of the store.
//
// If an override changes the limit, that limit decides takes, charges and everything else, under the key of the
// original limit. [store.OverrideList] says which override applies if there are several.
//
// A blocked take is denied without a call: nothing is charged, RetryAfter is the time to the end of the block, and
// Used is 0, since it is unknown. In a call of several requests none is charged then. Operations that give units
// back or charge for past events pass through, and so does a shadow limit, whose decision names the block. A take
// whose cost fits its limit but not the override's is denied in the same way. A take with a token that was allowed
// before the block gets its old answer.
//
// An exempt take is always allowed, without a Delay, and charged if it fits. If it did not fit, nothing was
// charged, and DecidedBy is [store.DecidedByOverride]: do not refund it. An exempt TakeUpTo is granted all units,
// or as many as its other requests; if fewer were charged, DecidedBy is DecidedByOverride, too.
//
// Each such decision names its Override. This layer belongs around those that decide in place of the store, so that
// they decide by the limit that applies.
func WithOverrides(backend store.Store, settings Overrides) store.Store {
	return WatchOverrides(backend, settings).Wrap(backend)
}

// OverrideWatch keeps a copy of the overrides of a store. It is for several stores around one backend, or to load
// overrides before the first decision; otherwise use [WithOverrides].
type OverrideWatch struct {
	Overrides
	table   *admin.Tables // nil for a store without one
	time    stopwatch
	current atomic.Pointer[knownOverrides] // nil for none
	used    atomic.Bool                    // a decision was made since the last check
	awake   atomic.Bool                    // checks are scheduled
	rested  atomic.Bool                    // none was made for a long time, or ever

	ctx   context.Context // of all reads
	close context.CancelFunc

	mu      sync.Mutex
	reading *overrideRead // the read under way
	last    time.Duration // when the last one ended, or was abandoned
	begun   bool          // there was one

	// Of the last read.
	version string
	failing bool
	pause   time.Duration
	read    time.Time // when the list was read
}

// overrideRead is one read, for which any number of callers wait.
type overrideRead struct {
	ended chan struct{}
	err   error // valid once it has ended
}

// knownOverrides are immutable.
type knownOverrides struct {
	*store.OverrideList
	now store.Instant // the store's clock
	at  time.Duration // our clock at that time
}

const (
	overrideTimeout = time.Second // of one check, with a read if there is a change
	// awayLooks is the longest time between two checks while the store is away, in units of Every.
	awayLooks = 5
	// clockStep is the jump of the local clock after which the store's clock is read again.
	clockStep = time.Second
)

// WatchOverrides returns a watch of backend's overrides. It does not call the store yet.
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
	w.table, _ = admin.TablesOf(backend)
	w.ctx, w.close = context.WithCancel(context.Background())
	w.rested.Store(true)
	return w
}

// Wrap is [WithOverrides] for one of several stores around the backend of the watch. Closing the result ends the
// watch. From now on the watch checks regularly.
func (w *OverrideWatch) Wrap(backend store.Store) store.Store {
	if w.table == nil {
		return backend
	}
	w.wake()
	return store.Wrap(newOverrideStore(backend, w), backend)
}

// Load reads the overrides now, so that they apply to the next decision. After an error the known ones still apply.
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
	w.last, w.begun = w.time.now(), true // so that the next decision does not wait again
	w.mu.Unlock()
	if err := store.GaveUp(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: overrides were not read in time", store.ErrUnavailable)
}

// Close ends the watch, and waits for a read under way. The store stays open.
func (w *OverrideWatch) Close() {
	w.close()
	w.mu.Lock()
	read := w.reading
	w.mu.Unlock()
	if read != nil {
		<-read.ended
	}
}

// known returns the overrides, nil for none, and keeps the checks going. If there were no checks for a long time,
// it waits for one.
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

// catchUp waits for a check, unless one has just ended.
func (w *OverrideWatch) catchUp(ctx context.Context) {
	w.mu.Lock()
	recent := w.begun && w.time.now()-w.last < w.Every
	w.mu.Unlock()
	if recent {
		return
	}
	ctx, cancel := store.BudgetContext(ctx, overrideTimeout) // for stores that ignore their context
	defer cancel()
	select {
	case <-w.look().ended:
	case <-ctx.Done():
	}
}

// wake starts the checks, if they are not running.
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

// goOn checks, and schedules the next check unless the last decision, at used, was long ago.
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
		if w.used.Load() { // a decision came in between, and found the checks running
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

// look begins a read, or returns the read under way.
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

// readOnce checks for a change, and sets pause for the next check.
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

// readChange reads the list if its version has changed.
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
	if err != nil && !errors.Is(err, store.ErrForeign) { // otherwise the readable ones still apply
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

// clock returns the store's clock, as far as it is known.
func (k *knownOverrides) clock(time *stopwatch) store.Instant {
	return k.now + store.Instant((time.now() - k.at).Microseconds())
}

func (w *OverrideWatch) wallTime() time.Time {
	if w.Clock != nil {
		return w.Clock()
	}
	return time.Now()
}

// clockWasSet reports whether the wall clock and the monotonic clock differ since the list was read: the clock was
// set, or the machine slept. Then the remaining times of the overrides have to be read again.
func (w *OverrideWatch) clockWasSet() bool {
	now := w.wallTime()
	step := now.Round(0).Sub(w.read.Round(0)) - now.Sub(w.read)
	return step.Abs() > clockStep
}
