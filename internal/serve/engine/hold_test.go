package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const heldFile = `
policies:
  login:
    wait: 2s
    limits: [{name: ip, by: [ip], limit: 10/1s}]
`

// caller is a call that is held, and how it ended.
type caller struct {
	number           int
	came, ended      time.Duration
	stays            time.Duration // less than the wait for one who leaves
	allowed, hadLeft bool
	used             int64
}

// Two hundred callers, some of whom leave, get their turns in order and not before the limit allows; nobody is held
// in vain or longer than the wait, and who leaves costs nothing. A reload with another limiter changes no order.
func TestTwoHundredAreHeldUntilTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memorystore.New()
		e := New(backend, settingsOf(t, heldFile), Options{Timeout: time.Minute})
		begin, callers := time.Now(), make([]*caller, 200)
		var all sync.WaitGroup
		for i := range callers {
			c := &caller{number: i, came: time.Duration(i) * time.Microsecond, stays: time.Hour}
			if i >= 120 { // while others wait
				c.came = time.Duration(i) * 13 * time.Millisecond
			}
			if i%3 == 0 {
				c.stays = time.Duration(i%5)*300*time.Millisecond + 350*time.Millisecond
			}
			callers[i] = c
			all.Go(func() {
				time.Sleep(c.came)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				defer time.AfterFunc(c.stays, leave).Stop()
				ask, answer := ip(e, "a"), decision.Answer{}
				ask.Hold = true
				err := e.Decide(ctx, ask, &answer)
				if c.ended = time.Since(begin); err != nil {
					c.hadLeft = errors.Is(err, store.ErrGaveUp) && ctx.Err() != nil
					if !c.hadLeft {
						t.Error(err)
					}
					return
				}
				c.allowed, c.used = store.AllAllowed(answer.Decisions), answer.Decisions[0].Used
			})
		}
		time.Sleep(700 * time.Millisecond)
		e.Replace(settingsOf(t, heldFile+"    on_error: allow\n"))
		all.Wait()
		var turns []*caller
		denied, left := int64(0), 0
		for _, c := range callers {
			switch held := c.ended - c.came; {
			case c.hadLeft:
				if left++; held != c.stays {
					t.Errorf("%d left after %s, and was answered after %s", c.number, c.stays, held)
				}
			case !c.allowed:
				if denied++; held > 0 || c.used == 0 {
					t.Errorf("%d was held for %s before it was denied with %d in use", c.number, held, c.used)
				}
			case held > 2*time.Second:
				t.Errorf("%d was held for %s", c.number, held)
			default:
				turns = append(turns, c)
			}
		}
		if !slices.IsSortedFunc(turns, func(a, b *caller) int { return int(a.ended - b.ended) }) {
			t.Error("the order is not kept")
		}
		for i, c := range turns {
			// Ten at once, and then one every 100 ms: not earlier, and not later, since somebody always waits.
			if due := max(0, i-9); c.ended.Truncate(100*time.Millisecond) != time.Duration(due)*100*time.Millisecond {
				t.Errorf("turn %d was at %s", i, c.ended)
			}
		}
		if left < 10 || denied < 50 || len(turns) < 30 {
			t.Errorf("%d had a turn, %d were denied, %d left", len(turns), denied, left)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		table, _ := admin.TablesOf(backend)
		counted, err := table.Denials(t.Context(), time.Minute)
		if err != nil || len(counted.Rows) != 1 || counted.Rows[0].Count != denied {
			t.Errorf("%d denials are counted as %+v, %v", denied, counted.Rows, err)
		}
	})
}

// leaving is a store whose caller leaves just when it takes. Without a caller nobody knows whether it took.
type leaving struct {
	admin.Keyspace
	leave func()
}

func (s *leaving) Decide(ctx context.Context, op store.Op, requests []store.Request, decisions []store.Decision) error {
	err := s.Keyspace.Decide(ctx, op, requests, decisions)
	if op == store.Take {
		s.leave()
	}
	if ctx.Err() != nil {
		return store.ErrOutcomeUnknown
	}
	return err
}

// Who leaves while the store decides gets his units back. When the server stops, who is held is answered at once, and
// so is who may not be held, without getting before those who are.
func TestTheEndOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		backend := &leaving{memorystore.New(), leave}
		stops, stop := context.WithCancel(t.Context())
		e := New(backend, settingsOf(t, heldFile), Options{Timeout: time.Minute, Stops: stops})
		defer e.Close()
		decide := func(ctx context.Context, hold bool, cost int64) (d store.Decision, err error) {
			ask, answer := ip(e, "a"), decision.Answer{}
			ask.Hold, ask.Cost = hold, cost
			if err = e.Decide(ctx, ask, &answer); err == nil {
				d = answer.Decisions[0]
			}
			return d, err
		}
		if _, err := decide(ctx, true, 1); !errors.Is(err, store.ErrGaveUp) {
			t.Error(err)
		}
		if d, err := decide(t.Context(), true, 10); err != nil || !d.Allowed {
			t.Errorf("the caller who left has taken: %+v, %v", d, err)
		}
		var all sync.WaitGroup
		begin := time.Now()
		all.Go(func() {
			d, err := decide(t.Context(), true, 5)
			if err != nil || d.Allowed || d.RetryAfter != 100*time.Millisecond || time.Since(begin) != 400*time.Millisecond {
				t.Errorf("when the server stops: %+v, %v after %s", d, err, time.Since(begin))
			}
		})
		time.Sleep(300 * time.Millisecond)
		d, err := decide(t.Context(), false, 1)
		if err != nil || d.Allowed || d.Used != 7 || d.RetryAfter != 200*time.Millisecond {
			t.Errorf("behind one who is held: %+v, %v", d, err)
		}
		time.Sleep(100 * time.Millisecond)
		stop()
		all.Wait()
		d, err = decide(t.Context(), true, 4)
		if err != nil || !d.Allowed || time.Since(begin) != 400*time.Millisecond {
			t.Errorf("after the server stopped: %+v, %v", d, err)
		}
	})
}
