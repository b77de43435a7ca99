package serve

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/panics"
)

// linger is how long connections without a request are kept when the server stops. A client that uses its
// connection in that time gets its answer, and the hint to use another connection.
const linger = time.Second

// CutError says that requests were not answered when the drain was over. It is an [outcome.ErrPartly], and does
// not name the signal, since a signal is the usual way to end a server.
type CutError struct {
	Connections int
	After       time.Duration
}

func (e *CutError) Error() string {
	return fmt.Sprintf("%d connections still had a request after %s, and were cut; give --drain more time", e.Connections, e.After)
}

// Is implements [errors.Is].
func (e *CutError) Is(target error) bool { return target == outcome.ErrPartly }

// drain ends the listeners so that all requests that were sent are answered.
func drain(ctx context.Context, o *Options, listeners []*opened) error {
	begun := time.Now()
	ctx, cancel := context.WithDeadline(ctx, begun.Add(o.Drain))
	defer cancel()
	waitFor(ctx, nil, o.Delay)
	var cut atomic.Int64
	for _, operators := range []bool{false, true} {
		var group panics.Group
		for _, listener := range listeners {
			if listener.Operators == operators {
				group.Go(func() { cut.Add(int64(listener.drain(ctx, begun.Add(o.Delay+linger)))) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	if n := int(cut.Load()); n > 0 {
		return &CutError{n, o.Drain}
	}
	o.Log.Info("drained", "after", time.Since(begun).Round(time.Millisecond).String())
	return nil
}

// drain ends a listener, and returns how many connections it had to cut. Those without a request can stay until leave.
// [http.Server.Shutdown] drops requests that are on their way, so it comes last.
func (l *opened) drain(ctx context.Context, leave time.Time) (cut int) {
	l.connections.Close()
	select {
	case <-l.ended:
	case <-ctx.Done():
	}
	open, idle := l.connections.count()
	if l.Server == nil && open > 0 { // others inform their clients themselves
		for idle > 0 && !l.Operators && time.Now().Before(leave) && ctx.Err() == nil {
			waitFor(ctx, nil, lastLook/10)
			_, idle = l.connections.count()
		}
		l.connections.leave()
		waitFor(ctx, nil, 2*lastLook)
	}
	if l.server.Shutdown(ctx) == nil {
		return 0
	}
	cut, _ = l.connections.count()
	l.server.Close()
	return cut
}

// waitFor waits until a channel is closed, at most for a time, or until ctx ends. Without a channel it waits for
// the time.
func waitFor(ctx context.Context, closed <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(max(most, 0))
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	case <-ctx.Done():
	}
}
