package layers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// virtual is a clock that sleep advances.
type virtual struct{ now time.Time }

func (v *virtual) sleep(ctx context.Context, d time.Duration) error {
	v.now = v.now.Add(d)
	return ctx.Err()
}

func newVirtual() (*virtual, *layers.Waiter) {
	v := &virtual{now: time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return v.now }
	return v, &layers.Waiter{Store: memorystore.New(memorystore.WithClock(clock)), Now: clock, Sleep: v.sleep}
}

// A turn that others made too late is given back, even if its caller leaves at that moment, unless an earlier call with
// its token has it, or a failure policy let it through. The answer describes the key afterwards, and a failed refund is
// an error.
func TestWhichTurnsAreGivenBack(t *testing.T) {
	const late = time.Second + time.Microsecond
	taken := store.Decision{Allowed: true, Delay: late}
	for name, test := range map[string]struct {
		taken     store.Decision // the answer to the take
		leaves    bool           // its caller, at that moment
		refundErr error
		refunds   int
		want      []error
	}{
		"too late":                        {taken: taken, refunds: 1},
		"too late for another call":       {taken: store.Decision{Allowed: true, Delay: late, Repeated: true}},
		"too late, and its caller leaves": {taken: taken, leaves: true, refunds: 1},
		"the refund fails": {
			taken: taken, refundErr: errAway, want: []error{layers.ErrNotGivenBack, errAway}},
		"its caller leaves, and it fails": {taken: taken, leaves: true, refundErr: errAway,
			want: []error{layers.ErrNotGivenBack, errAway}},
		"it was not taken": {taken: store.Decision{Allowed: true, Unguarded: true}, leaves: true,
			want: []error{context.Canceled}},
	} {
		ctx, leave := context.WithCancel(t.Context())
		_, w := newVirtual()
		used, refunds := int64(4), 0
		w.Store = &double{nil, func(ctx context.Context, op store.Op, decisions []store.Decision,
			_ passing) error {
			if ctx.Err() != nil && op == store.Refund {
				return ctx.Err()
			}
			switch op {
			case store.Peek:
				decisions[0] = store.Decision{Allowed: true, Used: used, Remaining: 10 - used}
				if refunds > 0 {
					decisions[0].Delay = late
				}
			case store.Take: // another caller was faster
				used += 2
				decisions[0] = test.taken
				decisions[0].Used = used
				if test.leaves {
					leave()
				}
			case store.Refund:
				if test.refundErr != nil {
					return test.refundErr
				}
				used--
				refunds++
			}
			return nil
		}}
		req := asking("u", "leaky-bucket:10/1h", 1)
		req.Token = map[bool]string{true: "t"}[test.taken.Repeated]
		decisions, err := w.TakeWithin(ctx, time.Second, req)
		leave()
		for _, want := range test.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if test.want == nil && (err != nil || decisions[0].Allowed || decisions[0].RetryAfter != time.Microsecond ||
			decisions[0].Used != used) || refunds != test.refunds {
			t.Errorf("%s: %+v, %v, %d refunds, and %d are used", name, decisions, err, refunds, used)
		}
	}
}

// Who waits for the end of a block goes on soon after it is revoked, and is told of the wait.
func TestABlockThatIsRevokedEndsAWait(t *testing.T) {
	v, w := newVirtual()
	begin, told := v.now, []time.Duration(nil)
	w.OnWait = func(wait time.Duration) { told = append(told, wait) }
	w.Store = &double{nil, func(_ context.Context, _ store.Op, decisions []store.Decision, _ passing) error {
		decisions[0] = store.Decision{Allowed: true}
		if v.now.Sub(begin) < 15*time.Second {
			block := &store.Override{Effect: store.OverrideBlock}
			decisions[0] = store.Decision{RetryAfter: time.Hour, DecidedBy: store.DecidedByOverride, Override: block}
		}
		return nil
	}}
	decisions, err := w.Take(t.Context(), asking("u", "1/1s", 1))
	if err != nil || !decisions[0].Allowed || v.now.Sub(begin) != 20*time.Second || told[0] != time.Hour {
		t.Errorf("%v, %v after %s; told of %s", decisions, err, v.now.Sub(begin), told)
	}
}

// The turn of a leaky bucket at the end of the longest wait is in time.
func TestALeakyTurnAtTheEndOfTheWait(t *testing.T) {
	for _, token := range []string{"", "t"} {
		for _, short := range []time.Duration{0, time.Microsecond} {
			v, w := newVirtual()
			begin, req := v.now, asking("u", "leaky-bucket:1/1s", 1)
			req.Limit.Burst, req.Token = 10, token
			other := req
			other.Token = ""
			decide(t, w.Store, store.Take, other)
			if token != "" {
				decide(t, w.Store, store.Take, req)
			}
			decisions, err := w.TakeWithin(context.Background(), time.Second-short, req)
			after, retry := time.Second, time.Duration(0)
			if short > 0 {
				after, retry = 0, short
			}
			if d := decisions[0]; err != nil || d.Allowed != (short == 0) || d.RetryAfter != retry ||
				v.now.Sub(begin) != after {
				t.Errorf("token %q, short by %s: %+v, %v after %s", token, short, d, err, v.now.Sub(begin))
			}
		}
	}
}

// A call with a remembered token waits behind nobody, even if the answer is that its turn comes too late.
func TestARepeatedWaitStandsBehindNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &layers.Waiter{Store: memorystore.New()}
		begin, req := time.Now(), asking("u", "leaky-bucket:1/1h", 1)
		req.Limit.Burst = 10
		large := req
		large.Cost = 10
		decide(t, w.Store, store.Take, req)
		req.Token = "t"
		decide(t, w.Store, store.Take, req) // in an hour
		ctx, leave := context.WithCancel(t.Context())
		go w.Take(ctx, large)
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d, err := w.Take(short, req)
		if err != nil || d[0].Allowed || d[0].Unguarded || d[0].RetryAfter != 59*time.Minute || time.Since(begin) != 0 {
			t.Errorf("a turn in an hour: %+v, %v after %s", d, err, time.Since(begin))
		}
		if d, err := w.Take(t.Context(), req); err != nil || !d[0].Allowed || !d[0].Repeated ||
			time.Since(begin) != time.Hour {
			t.Errorf("a turn in an hour: %+v, %v after %s", d, err, time.Since(begin))
		}
		leave()
	})
}

// A token whose units were given back just after it was found waits as usual.
func TestATokenThatWasGivenBackWaits(t *testing.T) {
	v, w := newVirtual()
	begin, takes := v.now, 0
	w.Store = &double{nil, func(_ context.Context, op store.Op, decisions []store.Decision, _ passing) error {
		if takes++; takes > 3 {
			return errUnknown
		}
		found := op == store.Peek
		decisions[0] = store.Decision{Allowed: found || v.now != begin, Repeated: found, RetryAfter: time.Second}
		return nil
	}}
	req := asking("u", "1/1s", 1)
	req.Token = "t"
	if d, err := w.Take(t.Context(), req); err != nil || !d[0].Allowed || v.now.Sub(begin) != time.Second {
		t.Errorf("%+v, %v after %s", d, err, v.now.Sub(begin))
	}
}

// Units with a token are given back as a whole: the store knows what was charged.
func TestATokenIsGivenBackAsAWhole(t *testing.T) {
	for token, want := range map[string]int{"t": 3, "": 1} {
		ctx, leave := context.WithCancel(context.Background())
		_, w := newVirtual()
		refunded := 0
		w.Store = &double{nil, func(_ context.Context, op store.Op, decisions []store.Decision, _ passing) error {
			switch op {
			case store.Take:
				decisions[0] = store.Decision{Allowed: true, Granted: 1, Delay: time.Second}
				decisions[1] = store.Decision{Allowed: true, DecidedBy: store.DecidedByOverride}
				decisions[2] = store.Decision{Allowed: true, DecidedBy: store.DecidedByLocal}
				leave()
			case store.Refund:
				refunded = len(decisions)
			}
			return nil
		}}
		reqs := make([]store.Request, 3)
		for i, subject := range []string{"a", "b", "c"} {
			reqs[i] = asking("u", "leaky-bucket:10/1h", 1)
			reqs[i].Key.Subject, reqs[i].Token = subject, token
		}
		if _, err := w.Take(ctx, reqs...); !errors.Is(err, context.Canceled) || refunded != want {
			t.Errorf("token %q: %v, %d were given back, want %d", token, err, refunded, want)
		}
	}
}

// Wherever a wait ends with its caller's time, it is a denial if the deadline passed after the store had denied, and an
// ErrGaveUp otherwise. It is never a bare error of the context, and nothing stays charged.
func TestWhereverAWaitEnds(t *testing.T) {
	one := asking("u", "leaky-bucket:60/1h", 1) // its turn comes a minute after the one before
	all, token := asking("u", "token-bucket:60/1h", 1), asking("u", "token-bucket:60/1h", 1)
	all.Cost, token.Token = 60, "t"
	for name, c := range map[string]struct {
		req     store.Request
		taken   int  // answered calls; the first takes the same for another caller
		denied  bool // before
		unknown bool // whether the last question charged
	}{
		"in the first question":               {req: all},
		"in the question about a token":       {req: token},
		"in the question after its turn":      {req: all, taken: 2, denied: true},
		"in a question that may have charged": {req: all, taken: 2, unknown: true},
		"in its delay":                        {req: one, taken: 9},
	} {
		for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
			synctest.Test(t, func(t *testing.T) {
				inner := memorystore.New()
				left := c.taken
				backend := &double{inner, func(ctx context.Context, op store.Op, _ []store.Decision,
					ask passing) error {
					if left--; left >= 0 || op == store.Refund {
						return ask(ctx)
					}
					<-ctx.Done()
					if c.unknown {
						return errors.Join(errUnknown, store.GaveUp(ctx))
					}
					return store.GaveUp(ctx)
				}}
				w := &layers.Waiter{Store: backend, Sleep: func(ctx context.Context, d time.Duration) error {
					if d > 0 && c.req.Limit.Algorithm == store.LeakyBucket { // it wakes up late
						d += 2 * time.Hour
					}
					return sys.Sleep(ctx, d)
				}}
				if c.taken > 0 {
					if decisions, err := w.Take(t.Context(), c.req); err != nil || !store.AllAllowed(decisions) {
						t.Fatalf("%s: %+v, %v", name, decisions, err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				if end == context.Canceled {
					time.AfterFunc(90*time.Minute, cancel)
				}
				decisions, err := w.Take(ctx, c.req)
				if !c.denied || end == context.Canceled {
					if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, end) || decisions != nil ||
						errors.Is(err, store.ErrOutcomeUnknown) != c.unknown {
						t.Errorf("%s: who left is told %+v, %v", name, decisions, err)
					}
				} else if err != nil || decisions[0].Allowed || decisions[0].Unguarded ||
					decisions[0].RetryAfter != time.Microsecond {
					t.Errorf("%s: at the deadline: %+v, %v", name, decisions, err)
				}
				if d := decide(t, inner, store.Peek, c.req)[0]; d.Used != 0 {
					t.Errorf("%s: in the end %+v", name, d)
				}
			})
		}
	}
}
