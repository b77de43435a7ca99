package layers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/poll"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// OverrideWatch is the law of how soon overrides apply: a change in the [admin.Tables] of a store applies to the calls of its
// stacks within about a second.
//
// It checks for changes in the background while decisions are made and for a minute after the last. Only the first decision
// of a process, and the first after more than a minute without any, wait for a read: at most for a second, or until their
// context ends. No decision fails because of overrides. While they cannot be read, whatever the cause, the known ones
// apply until their ends, by the store's clock as far as it is known, and checks are five times less often.
type OverrideWatch struct {
	store.Overrides
	Env
	table    *admin.Tables // nil for a store without one
	time     stopwatch
	current  atomic.Pointer[knownOverrides] // nil for none
	used     atomic.Bool                    // a decision was made since the last check
	watching atomic.Bool                    // there are checks, so no decision waits

	ctx   context.Context // of all reads
	close context.CancelFunc

	mu        sync.Mutex
	reading   *overrideRead // the read under way
	scheduled bool          // the next check is

	// Of one read after the other.
	source  poll.Source[readOverrides]
	seen    readOverrides
	read    time.Time // when the list was read
	failing bool
	lastUse time.Duration // when a check last found that a decision was made
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

// readOverrides is the result of a read.
type readOverrides struct {
	known   *knownOverrides // nil for none
	foreign error           // why some could not be read; the others apply
}

const (
	overrideTimeout = time.Second // of one check, with a read if there is a change
	// failedPause is the time between two checks, or writes of denials, while they fail, in units of Every.
	failedPause = 5
	// clockStep is the jump of the local clock after which the store's clock is read again.
	clockStep = time.Second
)

// WatchOverrides returns a watch of backend's overrides. It does not call the store yet.
func WatchOverrides(backend store.Store, settings store.Overrides, env Env) *OverrideWatch {
	settings = settings.WithDefaults()
	w := &OverrideWatch{Overrides: settings, Env: env, time: newStopwatch(env.Clock)}
	w.Observer = cmp.Or(w.Observer, new(Observer))
	w.table, _ = admin.TablesOf(backend)
	w.ctx, w.close = context.WithCancel(context.Background())
	w.source.Read, w.source.Apply = w.readChange, w.apply
	return w
}

// wrap makes the layer around backend, unless there is no table, and begins to check regularly.
func (w *OverrideWatch) wrap(backend store.Store) store.Store {
	if w.table == nil {
		return backend
	}
	if !w.watching.Load() {
		w.look()
	}
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
	w.watching.Store(true) // so that the next decision does not wait again
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

// known returns the overrides, nil for none, and keeps the checks going. If there are none, it waits for one.
func (w *OverrideWatch) known(ctx context.Context) *knownOverrides {
	if !w.used.Load() {
		w.used.Store(true)
	}
	if !w.watching.Load() {
		ctx, cancel := store.BudgetContext(ctx, overrideTimeout) // for stores that ignore their context
		defer cancel()
		select {
		case <-w.look().ended:
		case <-ctx.Done():
		}
	}
	return w.current.Load()
}

// look begins a read, or returns the read under way. After it the next check is scheduled.
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
			var pause time.Duration
			pause, read.err = w.readOnce()
			w.mu.Lock()
			again := !w.scheduled && w.ctx.Err() == nil
			w.reading, w.scheduled = nil, w.scheduled || again
			w.mu.Unlock()
			w.watching.Store(true)
			close(read.ended)
			if again {
				w.after(pause, w.check)
			}
		})
	}
	return read
}

// check reads, unless the last decision was long ago. Then the next one waits for a read.
func (w *OverrideWatch) check() {
	w.mu.Lock()
	w.scheduled = false
	now := w.time.now()
	if w.used.Swap(false) {
		w.lastUse = now
	}
	rests := now-w.lastUse >= w.Idle
	w.mu.Unlock()
	switch {
	case rests:
		w.watching.Store(false)
	case w.ctx.Err() == nil:
		w.look()
	}
}

// readOnce reads what has changed, tells the observer if that begins to fail or to work, and returns the pause before the
// next check.
func (w *OverrideWatch) readOnce() (pause time.Duration, err error) {
	_, err = w.source.Look(w.ctx, true)
	switch {
	case err == nil && w.failing:
		notify(w.Observer, w.Observer.OnOverrides, nil)
	case err != nil && !w.failing && w.ctx.Err() == nil:
		notify(w.Observer, w.Observer.OnOverrides, fmt.Errorf("overrides cannot be read: %w", err))
	}
	if w.failing = err != nil; w.source.Seen == "" {
		return failedPause * w.Every, err
	}
	return w.Every, err
}

// readChange reads the list if its version has changed.
func (w *OverrideWatch) readChange(ctx context.Context) (read readOverrides, version string, err error) {
	ctx, cancel := store.BudgetContext(ctx, overrideTimeout)
	defer cancel()
	version, err = w.table.OverrideVersion(ctx)
	if err != nil || versionPrefix+version == w.source.Seen && !w.clockWasSet() {
		return w.seen, versionPrefix + version, err
	}
	if version == "" {
		return read, versionPrefix, nil
	}
	list, version, err := w.table.Overrides(ctx)
	if errors.Is(err, store.ErrForeign) {
		read.foreign, err = err, nil
	}
	if len(list) > 0 {
		now := store.InstantOf(list[0].ExpiresAt.Add(-list[0].Left))
		read.known = &knownOverrides{store.NewOverrideList(list), now, w.time.now()}
	}
	w.read = w.wallTime()
	return read, versionPrefix + version, err
}

// versionPrefix is before a version, which is empty if there was never an override.
const versionPrefix = "version "

// apply uses the overrides that were read.
func (w *OverrideWatch) apply(read readOverrides) error {
	w.seen = read
	w.current.Store(read.known)
	return read.foreign
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
