package probe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
)

// slow answers after a while, or when its caller has no more time.
type slow struct {
	*server
	each time.Duration
}

// Send implements [endpoint.Client].
func (s *slow) Send(ctx context.Context, _ string, _ int64, answer *endpoint.Answer) error {
	answer.Sent = time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.each):
	}
	answer.Status, answer.Outcome, answer.Answered = 200, endpoint.Allowed, time.Now()
	return nil
}

// A probe ends in its time, also if answers are slow.
func TestAProbeEndsInItsTime(t *testing.T) {
	for _, config := range []Config{
		{}, {Timeout: 10 * time.Second}, {Limit: parse(t, "token-bucket:10/1m")},
	} {
		synctest.Test(t, func(t *testing.T) {
			config.Client = &slow{server: &server{}, each: 17 * time.Second}
			config.Quota, config.MaxTime, config.Workers = 3000, time.Minute, 16
			begin := time.Now()
			var err error
			if config.Limit.Count > 0 {
				_, err = Run(t.Context(), &config)
			} else {
				_, err = Look(t.Context(), &config)
			}
			if took := time.Since(begin); took > config.MaxTime+3*time.Second {
				t.Errorf("it took %s of at most %s: %v", took, config.MaxTime, err)
			}
		})
	}
}

// A long step is reported every ten seconds, with the time that is left, and none before the first.
func TestALongStepIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		s := newSession(t.Context(), &Config{MaxTime: time.Hour, Step: func(what string, atMost time.Duration) {
			said = append(said, what, atMost.String())
		}})
		begin := time.Now()
		err := s.wait(time.Minute)
		s.step(25*time.Second, "waiting")
		for _, wait := range []time.Duration{9, 3, 13} {
			err = errors.Join(err, s.wait(wait*time.Second))
		}
		if got := fmt.Sprint(said); got != "[waiting 25s waiting 15s waiting 5s]" ||
			time.Since(begin) != 85*time.Second {
			t.Errorf("%s after %s, %v", got, time.Since(begin), err)
		}
	})
}

// hanging never answers one of the requests that it lets in.
type hanging struct {
	*server
	at        int64 // which one
	sent, let atomic.Int64
}

// Send implements [endpoint.Client].
func (h *hanging) Send(ctx context.Context, subject string, cost int64, answer *endpoint.Answer) error {
	h.sent.Add(1)
	err := h.server.Send(ctx, subject, cost, answer)
	if answer.Outcome == endpoint.Allowed && h.let.Add(1) == h.at {
		<-ctx.Done()
		*answer = endpoint.Answer{}
		return ctx.Err()
	}
	return err
}

// A request whose answer the end of the time cuts off may have been charged, so the denials that it explains are not
// wrong.
func TestARequestWithoutAnAnswerAtTheEndMayBeCharged(t *testing.T) {
	limit := parse(t, fmt.Sprintf("fixed-window:%d/1h", sequential+6)) // so its end comes with several at once
	s := simulated(newOurs(t, limit.String()))
	client := &hanging{server: s, at: sequential + 2}
	r := run(t, s, Config{Client: client, Limit: limit, Quota: 3000, MaxTime: time.Minute, Workers: 16})
	if c := r.check(checkAdmitted); c.Verdict == Fail || int64(len(r.Events)) != client.sent.Load() {
		t.Errorf("%s %s, %d events of %d requests", c.Verdict, c.Seen, len(r.Events), client.sent.Load())
	}
}
