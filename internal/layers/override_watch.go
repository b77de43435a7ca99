package layers

import (
	"cmp"
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

// OverrideWatch is the law of how soon overrides apply: a change in the [admin.Tables] of a store applies to the calls
// of its stacks within about a second.
//
// A decision before the end of the first read waits for it for a second at most. No decision fails because of
// overrides. While they cannot be read, the known ones apply until their ends, and checks are five times less often.
type OverrideWatch struct {
	Env
	table   *admin.Tables // nil for a store without one
	time    stopwatch
	current atomic.Pointer[knownOverrides] // nil for none
	ready   atomic.Bool                    // no decision waits any more

	start, end sync.Once     // of the first read
	first      chan struct{} // closed after it
	err        error         // of it
	ctx        context.Context
	close      context.CancelFunc

	reading chan struct{} // has a value while a read is under way, which has the rest
	seen    *string       // the version that was read; nil after an error
	foreign error         // why some overrides could not be read; the others apply
	read    time.Duration // when the list was read
	failing bool
}

// knownOverrides are immutable.
type knownOverrides struct {
	*store.OverrideList
	now store.Instant // the store's clock
	at  time.Duration // our clock at that time
}

const (
	overrideTimeout = time.Second // of one check, with a read if there is a change
	// every is the time between two checks, or writes of denials; while they fail, it is so many times as long.
	every       = time.Second
	failedPause = 5
	// reread is the time after which the store's clock is read again: a machine that sleeps has another one.
	reread = time.Minute
)

// WatchOverrides returns a watch of backend's overrides. It does not call the store yet.
func WatchOverrides(backend store.Store, env Env) *OverrideWatch {
	w := &OverrideWatch{Env: env, time: newStopwatch(env.Clock),
		first: make(chan struct{}), reading: make(chan struct{}, 1)}
	w.Observer = cmp.Or(w.Observer, new(Observer))
	w.table, _ = admin.TablesOf(backend)
	w.ctx, w.close = context.WithCancel(context.Background())
	return w
}

// wrap makes the layer around backend, unless there is no table, and begins to check regularly.
func (w *OverrideWatch) wrap(backend store.Store) store.Store {
	if w.table == nil {
		return backend
	}
	w.begin()
	return &overrideStore{backend, w}
}

func (w *OverrideWatch) begin() { w.start.Do(func() { w.after(0, w.check) }) }

// Load waits for the first read and returns its error. After it no decision waits.
func (w *OverrideWatch) Load(ctx context.Context) error {
	if w.table == nil {
		return nil
	}
	w.begin()
	select {
	case <-w.first:
		return w.err
	case <-ctx.Done():
	}
	w.ready.Store(true)
	if err := store.GaveUp(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: overrides were not read in time", store.ErrUnavailable)
}

// Close ends the watch, and waits for a read under way. The store stays open.
func (w *OverrideWatch) Close() {
	w.close()
	w.reading <- struct{}{} // no read begins any more
	<-w.reading
}

// known returns the overrides, nil for none.
func (w *OverrideWatch) known(ctx context.Context) *knownOverrides {
	if !w.ready.Load() {
		ctx, cancel := store.BudgetContext(ctx, overrideTimeout) // for stores that ignore their context
		defer cancel()
		select {
		case <-w.first:
		case <-ctx.Done():
		}
	}
	return w.current.Load()
}

// check reads what has changed, tells the observer if that begins to fail or to work, and schedules the next check.
func (w *OverrideWatch) check() {
	w.reading <- struct{}{}
	defer func() { <-w.reading }()
	if w.ctx.Err() != nil {
		return
	}
	err := panics.Call(w.readChange)
	pause := every
	if err != nil {
		w.seen, pause = nil, failedPause*every
	} else {
		err = w.foreign
	}
	w.end.Do(func() {
		w.err = err
		w.ready.Store(true)
		close(w.first)
	})
	switch {
	case err == nil && w.failing:
		notify(w.Observer, w.Observer.OnOverrides, nil)
	case err != nil && !w.failing && w.ctx.Err() == nil:
		notify(w.Observer, w.Observer.OnOverrides, fmt.Errorf("overrides cannot be read: %w", err))
	}
	w.failing = err != nil
	w.after(pause, w.check)
}

// readChange reads the list if its version has changed.
func (w *OverrideWatch) readChange() error {
	ctx, cancel := store.BudgetContext(w.ctx, overrideTimeout)
	defer cancel()
	version, err := w.table.OverrideVersion(ctx)
	if err != nil || w.seen != nil && version == *w.seen && w.time.now()-w.read < reread {
		return err
	}
	var list []store.Override
	var foreign error
	if version != "" {
		list, version, err = w.table.Overrides(ctx)
		if errors.Is(err, store.ErrForeign) {
			foreign, err = err, nil
		}
		if err != nil {
			return err
		}
	}
	var known *knownOverrides
	if len(list) > 0 {
		now := store.InstantOf(list[0].ExpiresAt.Add(-list[0].Left))
		known = &knownOverrides{store.NewOverrideList(list), now, w.time.now()}
	}
	w.current.Store(known)
	w.seen, w.foreign, w.read = &version, foreign, w.time.now()
	return nil
}

// clock returns the store's clock, as far as it is known.
func (k *knownOverrides) clock(time *stopwatch) store.Instant {
	return k.now + store.Instant((time.now() - k.at).Microseconds())
}
