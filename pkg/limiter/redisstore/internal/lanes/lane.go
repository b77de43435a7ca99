package lanes

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// InFlight is how many exchanges with a node go on at once before callers
	// share one. More let a caller on a slow network wait less for its turn.
	InFlight = 4
	// sharing is how many of them callers share at most: with two the server has work while answers are handed out.
	sharing = 2
	// slowExchange is how long a caller waits for one of these to end before it does not count.
	slowExchange = 5 * time.Millisecond
	// maxBatch is how many calls share an exchange at most, so that the first does not wait for very many others.
	maxBatch = 128
	// maxAbandoned is how many exchanges with a node may go on that nobody waits for any more, so that a node which
	// hangs does not use up all connections and memory.
	maxAbandoned = 64
)

// lane sends calls to one node. A caller alone sends its own call. While several exchanges are under way, further calls
// queue, and go together in one pipeline each time an exchange ends. Every call stays a decision of its own and is sent
// once. Each caller leaves at its own deadline, and an exchange that all have left makes room for the next at once.
type lane struct {
	sender *Sender
	client *redis.Client
	// keepsDeadlines: client ends what it does at a context's deadline. No client
	// notices that a context is cancelled while it waits for the server.
	keepsDeadlines bool
	// endsInTime: client dials within the budget, too, and nobody else has its connections, so that a caller alone
	// need not pay for a context that says the same.
	endsInTime bool
	// connections is the size of client's pool. A caller that waits for a connection needs that context.
	connections int

	mu          sync.Mutex
	busy        int         // exchanges under way that somebody waits for
	abandoned   int         // exchanges under way that nobody waits for
	batches     int         // of those that are busy, how many callers share
	shared      []*exchange // those that callers share, busy or abandoned
	first, last *ask
	waiting     int // length of the queue from first to last
	// watch ends the waiting of those for whom the store's time is over, and begins
	// exchanges for those who have waited for long. It is one timer for all callers.
	watch   *time.Timer
	watched time.Time // when it is set to; zero if it is not
}

// newLane returns a lane to client.
func (s *Sender) newLane(client *redis.Client) *lane {
	options := client.Options()
	l := &lane{sender: s, client: client, keepsDeadlines: options.ContextTimeoutEnabled, connections: options.PoolSize}
	if longer(options.ReadTimeout, s.Budget) || longer(options.WriteTimeout, s.Budget) {
		l.client = client.WithTimeout(s.Budget) // on the same connections
	}
	dialing := time.Duration(max(1, options.DialerRetries)) * options.DialTimeout
	l.endsInTime = s.Owned && !longer(dialing, s.Budget)
	return l
}

// send sends a and waits for its answer until it is late, or until ctx ends: by itself while it
// is quiet, and else with the others.
func (l *lane) send(ctx context.Context, a *ask) error {
	own, limited := ctx.Deadline() // before the lock: a context of the caller's own can panic
	caller, end, budgeted := store.BudgetOf(ctx)
	var callers time.Time
	if budgeted {
		callers, _ = caller.Deadline()
	}
	l.mu.Lock()
	if l.isQuiet() && (l.keepsDeadlines || !limited || own.After(a.late)) {
		l.busy++
		endsInTime := l.endsInTime && l.busy+l.abandoned <= l.connections
		l.mu.Unlock()
		return l.sendAlone(ctx, a, endsInTime)
	}
	if budgeted && l.keepBudget(end, a) {
		ctx, own = caller, callers
	}
	return a.shared(l.wait(ctx, own, a))
}

// isQuiet reports whether a call is sent at once and by itself. While callers share an
// exchange, others are better off sharing the next. The caller holds the lock.
func (l *lane) isQuiet() bool {
	return l.busy < InFlight && l.batches == 0 && l.first == nil
}

// keepBudget makes the watch end the wait for a at end, too, when the time of [store.WithBudget] is over, and reports
// whether it did: then the caller's own context, which needs no timer, is enough. The watch relies on
// deadlines in the order of the queue, so a call with an earlier deadline than the one
// in front of it keeps the context with the timer. The caller holds the lock.
func (l *lane) keepBudget(end time.Time, a *ask) bool {
	if l.last != nil && end.Before(l.last.late) {
		if l.last.late.Sub(end) > slowExchange { // else they came in the same moment
			return false
		}
		end = l.last.late
	}
	a.late = earlier(a.late, end)
	return true
}

// wait puts a into the queue and waits until it has its answer, until the store's time is
// over, or until ctx ends, whose deadline is own, zero for none. The caller holds the lock, and wait returns it.
func (l *lane) wait(ctx context.Context, own time.Time, a *ask) error {
	if a.done == nil {
		a.done = make(chan struct{}, 1)
	}
	a.end = a.late
	if !own.IsZero() && own.Before(a.end) {
		a.end = own
	}
	l.append(a)
	l.start()
	if l.first == a {
		l.watchUntil(earlier(a.late, a.since.Add(slowExchange)))
	} else {
		l.watchUntil(a.late)
	}
	l.mu.Unlock()
	gone := ctx.Done()
	if gone == nil {
		<-a.done
		return a.outcome()
	}
	select {
	case <-a.done:
		return a.outcome()
	case <-gone:
		return l.leave(a, ctx.Err())
	}
}

// sendAlone sends a in the caller's own goroutine, as one of the busy exchanges. endsInTime
// says that the client's own time-outs are enough.
func (l *lane) sendAlone(ctx context.Context, a *ask, endsInTime bool) error {
	defer l.ended()
	c := l.sender.own(ctx, a)
	if own, limited := ctx.Deadline(); !endsInTime && (!limited || own.After(a.late)) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, a.late)
		defer cancel()
	}
	if l.sender.OnBatch != nil {
		l.sender.OnBatch(1)
	}
	return c.outcome(l.processOne(ctx, c))
}

// processOne sends c. A panic is its error.
func (l *lane) processOne(ctx context.Context, c *call) (err error) {
	defer panics.Catch(&err)
	return l.client.Process(ctx, c)
}

// errLate says that the store's own time for a call was over.
var errLate = lateError{}

type lateError struct{}

func (lateError) Error() string   { return "no answer in time" }
func (lateError) Timeout() bool   { return true }
func (lateError) Temporary() bool { return true }

// append puts a at the end of the queue. The caller holds the lock.
func (l *lane) append(a *ask) {
	if a.before = l.last; a.before == nil {
		l.first = a
	} else {
		a.before.after = a
	}
	l.last = a
	l.waiting++
}

// remove takes a out of the queue, wherever it is. The caller holds the lock.
func (l *lane) remove(a *ask) {
	if a.before == nil {
		l.first = a.after
	} else {
		a.before.after = a.after
	}
	if a.after == nil {
		l.last = a.before
	} else {
		a.after.before = a.before
	}
	a.before, a.after = nil, nil
	l.waiting--
}

// leave ends the waiting of a's caller because of reason.
func (l *lane) leave(a *ask, reason error) error {
	l.mu.Lock()
	if a.over { // in the same moment
		l.mu.Unlock()
		<-a.done
		return a.outcome()
	}
	defer l.mu.Unlock()
	return l.drop(a, reason)
}

// drop ends the waiting for a because of reason, and returns the error that says whether it
// was sent. The caller holds the lock.
func (l *lane) drop(a *ask, reason error) error {
	a.over = true
	if a.in == nil {
		l.remove(a)
		return reason
	}
	unsent := a.withdraw()
	if a.in.callers--; a.in.callers == 0 {
		a.in.cancel()
		l.busy--
		l.batches--
		l.abandoned++
		l.start()
	}
	if unsent {
		return reason
	}
	return MaybeSent(reason)
}

// watchUntil sees to it that the lane looks after its callers at that time, or before. The caller holds the lock.
func (l *lane) watchUntil(at time.Time) {
	switch {
	case l.watch == nil:
		l.watch = time.AfterFunc(time.Until(at), l.lookAfter)
	case l.watched.IsZero() || at.Before(l.watched):
		l.watch.Reset(time.Until(at))
	default:
		return
	}
	l.watched = at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lookAfter is called when the watch's time has come.
func (l *lane) lookAfter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = time.Time{}
	now := time.Now()
	next := l.dropLate(now)
	if room := InFlight - l.busy; room > 0 && l.first != nil && now.Sub(l.first.since) >= slowExchange {
		each := (l.waiting + room - 1) / room // a connection that is silent must not cost them all
		for l.startOne(InFlight, each) {
		}
	}
	if l.first != nil && l.busy < InFlight {
		if at := earlier(l.first.late, l.first.since.Add(slowExchange)); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if !next.IsZero() {
		if soon := now.Add(slowExchange / 2); next.Before(soon) && l.first != nil &&
			now.Sub(l.first.since) >= slowExchange {
			next = soon // there was no room
		}
		l.watchUntil(next)
	}
}

// dropLate ends the waiting of all for whom the store's time is over, and returns when it is
// for the first of the others; zero if there are none. The caller holds the lock.
func (l *lane) dropLate(now time.Time) (next time.Time) {
	var late []*ask
	look := func(a *ask) (isLate bool) {
		switch {
		case a.over:
		case !a.late.After(now):
			late = append(late, a)
			return true
		case next.IsZero() || a.late.Before(next):
			next = a.late
		}
		return false
	}
	for _, e := range l.shared {
		for _, a := range e.calls {
			look(a)
		}
	}
	for a := l.first; a != nil && look(a); a = a.after { // those who came first are late first
	}
	for _, a := range late {
		a.left = l.drop(a, errLate)
		a.done <- struct{}{}
	}
	return next
}

// ended says that an exchange is over that was a caller's own.
func (l *lane) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	l.start()
}
