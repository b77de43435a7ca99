package layers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// OverrideWatch keeps a copy of the overrides in the [admin.Tables] of a store, so that a change applies to the
// calls of its stacks within about a second.
//
// It checks for changes in the background, by one small read a second, while decisions are made and for a minute
// after the last. It reads the overrides themselves when they have changed. Only the first decision of a process,
// and the first after more than a minute without any, wait for a read: at most for a second, or until their context
// ends. No decision fails because of overrides. While they cannot be read, because the store is away or the user
// lacks the right, the known ones apply until their ends, by the store's clock as far as it is known; a process
// that has just begun knows none. While the store is away it checks five times less often, so a change made
// meanwhile applies within about six seconds after the return of the store.
type OverrideWatch struct {
	store.Overrides
	Env
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
	pause   time.Duration // until the next check

	// Of the last read.
	version string
	failing bool
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
func WatchOverrides(backend store.Store, settings store.Overrides, env Env) *OverrideWatch {
	settings = settings.WithDefaults()
	w := &OverrideWatch{Overrides: settings, Env: env, time: newStopwatch(env.Clock), last: -settings.Every, pause: settings.Every}
	w.table, _ = admin.TablesOf(backend)
	w.ctx, w.close = context.WithCancel(context.Background())
	w.rested.Store(true)
	return w
}

// wrap makes the layer around backend, unless there is no table, and begins to check regularly.
func (w *OverrideWatch) wrap(backend store.Store) store.Store {
	if w.table == nil {
		return backend
	}
	w.wake()
	return newOverrideStore(backend, w)
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
	w.last = w.time.now() // so that the next decision does not wait again
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
	if w.rested.Load() && w.sinceLast() >= w.Every {
		ctx, cancel := store.BudgetContext(ctx, overrideTimeout) // for stores that ignore their context
		defer cancel()
		select {
		case <-w.look().ended:
		case <-ctx.Done():
		}
	}
	return w.current.Load()
}

func (w *OverrideWatch) sinceLast() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time.now() - w.last
}

// wake starts the checks, if they are not running.
func (w *OverrideWatch) wake() {
	if !w.awake.Load() && w.awake.CompareAndSwap(false, true) {
		w.after(max(0, w.Every-w.sinceLast()), func() { w.goOn(w.time.now()) })
	}
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
	w.after(pause, func() { w.goOn(used) })
}

// look begins a read, or returns the read under way.
func (w *OverrideWatch) look() *overrideRead {
	w.mu.Lock()
	read, begins := w.reading, w.reading == nil
	if begins {
		read = &overrideRead{ended: make(chan struct{})}
		w.reading = read
	}
	w.mu.Unlock()
	if begins {
		w.after(0, func() {
			pause, err := w.readOnce()
			w.mu.Lock()
			w.reading, w.last, w.pause, read.err = nil, w.time.now(), pause, err
			w.mu.Unlock()
			close(read.ended)
		})
	}
	return read
}

// readOnce checks for a change, and returns the pause before the next check.
func (w *OverrideWatch) readOnce() (pause time.Duration, err error) {
	ctx, cancel := store.BudgetContext(w.ctx, overrideTimeout)
	defer cancel()
	err = panics.Call(func() error { return w.readChange(ctx) })
	pause = w.Every
	switch {
	case err == nil:
		if w.failing {
			w.Observer.overrides(nil)
		}
		w.failing = false
		return pause, nil
	case store.IsAway(err) || errors.Is(err, store.ErrGaveUp):
		pause = min(2*w.pause, awayLooks*w.Every)
	case !errors.Is(err, store.ErrForeign):
		pause = max(w.Every, refusedPause)
	}
	if !w.failing && w.ctx.Err() == nil {
		w.failing = true
		w.Observer.overrides(fmt.Errorf("overrides cannot be read: %w", err))
	}
	return pause, err
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
		if known := w.current.Load(); known != nil && known.haveEnded(known.clock(&w.time)) {
			w.current.Store(nil)
		}
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

// haveEnded reports whether all of them have ended.
func (k *knownOverrides) haveEnded(now store.Instant) bool {
	return !slices.ContainsFunc(k.All(), func(o store.Override) bool { return now < store.InstantOf(o.ExpiresAt) })
}

// clock returns the store's clock, as far as it is known.
func (k *knownOverrides) clock(time *stopwatch) store.Instant {
	return k.now + store.Instant((time.now() - k.at).Microseconds())
}

// clockWasSet reports whether the wall clock and the monotonic clock differ since the list was read: the clock was
// set, or the machine slept. Then the remaining times of the overrides have to be read again.
func (w *OverrideWatch) clockWasSet() bool {
	now := w.wallTime()
	step := now.Round(0).Sub(w.read.Round(0)) - now.Sub(w.read)
	return step.Abs() > clockStep
}
