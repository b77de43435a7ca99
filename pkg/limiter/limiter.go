package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store keeps usage and decides by its own clock. Packages memorystore, filestore and redisstore each have one. To
// write one, see package store.
type Store = store.Store

// Limiter decides by limits with a [Store]. It is safe for concurrent use.
type Limiter struct {
	stacked Store // the store with all options around it
	wrapped bool  // there are options, which Close ends
	store   Store // stacked, until the limiter is closed
	waiter  layers.Waiter
	calls   sync.Pool // of *call

	isClosed atomic.Bool
	closing  context.Context // is done when Close begins
	close    sync.Once
	end      context.CancelFunc
	result   error // of Close
}

// call is the memory for a call of one request, which is reused so that a call allocates nothing.
type call struct {
	requests  [1]store.Request
	decisions [1]store.Decision
}

// New returns a limiter that decides with s. Closing the limiter leaves s open. An error is an [ErrInvalid] that
// says which option is wrong, is given twice, or has no effect on s.
func New(s Store, options ...Option) (*Limiter, error) {
	if sys.IsNil(s) {
		return nil, store.Invalidf("the store is nil")
	}
	b := &builder{store: s, given: map[string]bool{}}
	stacked, err := b.stack(options)
	if err != nil {
		return nil, err
	}
	l := &Limiter{stacked: stacked, wrapped: len(options) > 0, calls: sync.Pool{New: func() any { return new(call) }}}
	l.closing, l.end = context.WithCancel(context.Background())
	l.store = store.Wrap(gate{l}, stacked)
	l.waiter.Store = l.store
	return l, nil
}

// Take charges all requests, or none if one of them is denied. A denial is no error. A request that a [LeakyBucket]
// allows has its turn after [Decisions.Delay]: the caller has to wait for that time. Wait does so itself.
func (l *Limiter) Take(ctx context.Context, requests ...Request) (Decisions, error) {
	return l.decide(ctx, store.Take, requests)
}

// TakeUpTo charges as many units as fit, the same number to each request, and returns the number as Granted. It is
// allowed if at least one unit fits. All requests must have the same cost.
func (l *Limiter) TakeUpTo(ctx context.Context, requests ...Request) (Decisions, error) {
	return l.decide(ctx, store.TakeUpTo, requests)
}

// Peek returns the answer of a Take, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, requests ...Request) (Decisions, error) {
	return l.decide(ctx, store.Peek, requests)
}

// Charge charges all requests, even if they do not fit, for costs that are known only afterwards. The usage can
// exceed the limit then. Nothing is denied.
func (l *Limiter) Charge(ctx context.Context, requests ...Request) (Decisions, error) {
	return l.decide(ctx, store.Charge, requests)
}

// Refund gives units back: the newest first, and never more than are in use. Refund only what the store charged:
// [Decision.DecidedBy] says who decided. A [Reservation] does so by itself.
func (l *Limiter) Refund(ctx context.Context, requests ...Request) (Decisions, error) {
	return l.decide(ctx, store.Refund, requests)
}

// Wait charges all requests as soon as they fit together. It returns nil only when the caller may go on: the
// requests are charged, or the store is away and [FailOpen] or [FailLocal] let them through.
//
// If the turn would come after ctx's deadline, the error is a [*DeniedError], which is also a
// context.DeadlineExceeded. Wait returns it at once if it knows, and always if [FailClosed] denies. If ctx is
// cancelled, or ends before the store answers, the error is an [ErrGaveUp], and Wait takes the charge back; if it
// cannot, the error is an [ErrNotGivenBack], too. Callers of one Limiter get their turns in the order of their calls,
// except that nobody waits for one who leaves more units (see [Request.Leave]). Across processes only a [LeakyBucket]
// keeps an order.
func (l *Limiter) Wait(ctx context.Context, requests ...Request) error {
	if err := l.check(ctx, requests); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.closing, cancel)()
	decisions, err := l.waiter.Take(ctx, stored(requests)...)
	switch {
	case l.isClosed.Load() && err != nil && !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrNotGivenBack):
		return errClosed
	case err != nil && ctx.Err() != nil && !errors.Is(err, ErrGaveUp):
		return errors.Join(store.GaveUp(ctx), err)
	case err != nil:
		return err
	case !store.AllAllowed(decisions):
		return &DeniedError{DecisionsOf(decisions), slices.Clone(requests), true}
	}
	return nil
}

// Reset makes the keys of requests unused, such as after a successful login. It ignores the cost.
func (l *Limiter) Reset(ctx context.Context, requests ...Request) error {
	if err := l.check(ctx, requests); err != nil {
		return err
	}
	asked := stored(requests)
	for i := range asked {
		asked[i].Cost, asked[i].Token, asked[i].TokenTTL = 0, "", 0
	}
	return l.ask(ctx, store.Adjust, asked, make([]store.Decision, len(asked)))
}

// Store returns the store with all options around it, for a program that uses package store, such as a tool that
// works with keys. Closing it closes the limiter.
func (l *Limiter) Store() Store { return l.store }

// Close gives back leased units, writes the denials that are not yet written, and stops the work in the background.
// The store stays open. Later calls fail with an [ErrClosed]. Another Close returns the same result.
func (l *Limiter) Close() error {
	l.close.Do(func() {
		l.isClosed.Store(true)
		l.end()
		if l.wrapped {
			l.result = l.stacked.Close()
		}
	})
	return l.result
}

// stored converts requests for the store.
func stored(requests []Request) []store.Request {
	asked := make([]store.Request, len(requests))
	for i := range requests {
		asked[i] = requests[i].asked
	}
	return asked
}

// check finds errors that need no call of the store.
func (l *Limiter) check(ctx context.Context, requests []Request) error {
	if l.stacked == nil {
		return store.Invalidf("the limiter is not made by New")
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrGaveUp, ctx.Err())
	}
	if len(requests) == 0 {
		return store.Invalidf("no request; ask with at least one")
	}
	for i := range requests {
		if requests[i].asked.Key.Name == "" {
			return store.Invalidf("request %d of %d is empty, or its limit has no name", i+1, len(requests))
		}
		if asked := &requests[i].asked; asked.Token == "" && asked.TokenTTL != 0 { // it would be charged twice
			return store.Invalidf("the token is empty; it is a text that is different for each call")
		}
	}
	return nil
}

func (l *Limiter) decide(ctx context.Context, op store.Op, requests []Request) (d Decisions, err error) {
	if err := l.check(ctx, requests); err != nil {
		return d, err
	}
	if len(requests) > 1 {
		asked := stored(requests)
		decisions := make([]store.Decision, len(asked))
		if err := l.ask(ctx, op, asked, decisions); err != nil {
			return d, err
		}
		return DecisionsOf(decisions), nil
	}
	c := l.calls.Get().(*call)
	c.requests[0] = requests[0].asked
	c.decisions[0] = store.Decision{}
	if err = l.ask(ctx, op, c.requests[:], c.decisions[:]); err == nil {
		d.count, d.first = 1, c.decisions[0]
	}
	c.requests[0].Key, c.requests[0].Token = store.Key{}, "" // keep nothing of the caller's
	l.calls.Put(c)
	return d, err
}

var errClosed = fmt.Errorf("the limiter is %w", ErrClosed)

// ask calls the store, unless the limiter is closed.
func (l *Limiter) ask(ctx context.Context, op store.Op, requests []store.Request, decisions []store.Decision) error {
	if l.isClosed.Load() {
		return errClosed
	}
	return l.stacked.Decide(ctx, op, requests, decisions)
}

// gate makes a store of a limiter.
type gate struct{ *Limiter }

// Decide implements [Store].
func (g gate) Decide(ctx context.Context, op store.Op, requests []store.Request, decisions []store.Decision) error {
	return g.ask(ctx, op, requests, decisions)
}

// keptOpen is a store that only its owner closes.
type keptOpen struct{ store.Store }

// Close leaves the store open.
func (keptOpen) Close() error { return nil }

// Stats are figures of a limiter at one moment, for gauges. The [Observer] reports what is counted per call.
type Stats struct {
	// Breakers is the state of each breaker by its shard: a master of a Cluster, or "" for other stores. It is nil
	// without a [Breaker].
	Breakers map[string]BreakerState
}

// Stats returns the figures of this moment.
func (l *Limiter) Stats() Stats { return Stats{layers.Breakers(l.stacked)} }
