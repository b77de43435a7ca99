package engine

import (
	"context"
	"errors"
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
// so is who may not be held, without getting before those who are, also after a reload with another limiter.
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
			if err != nil || d.Allowed || d.RetryAfter != 100*time.Millisecond ||
				time.Since(begin) != 400*time.Millisecond {
				t.Errorf("when the server stops: %+v, %v after %s", d, err, time.Since(begin))
			}
		})
		time.Sleep(300 * time.Millisecond)
		e.Replace(settingsOf(t, heldFile+"    on_error: allow\n"))
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
