package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// looked looks at a server in virtual time, as the command does.
func looked(t *testing.T, s *server, seed uint64) (seen *Seen) {
	t.Helper()
	s.seed = seed
	s.begun(t, func(t *testing.T) {
		var err error
		config := Config{Client: s, Quota: 100, MaxTime: 30 * time.Second, Workers: 16}
		if seen, err = Look(t.Context(), &config); err != nil {
			t.Errorf("error %v", err)
		}
	})
	return seen
}

// words are the limits that something looks like.
func words(seen *Seen) (texts []string) {
	for i := range seen.LooksLike {
		texts = append(texts, seen.LooksLike[i].String())
	}
	return texts
}

// What a limit gives back while it is emptied is neither taken for its size, nor for denials that keep it empty. A log
// whose units leave one by one is no bucket.
func TestALookAtASlowlyEmptiedLimit(t *testing.T) {
	for _, c := range []struct {
		limit string
		each  time.Duration // of an answer
		most  int           // limits that it looks like
	}{
		{"token-bucket:10/2s", 40 * time.Millisecond, 1}, {"token-bucket:10/1s", 20 * time.Millisecond, 1},
		{"token-bucket:20/2s", time.Millisecond, 1}, {"token-bucket:5/1s", 30 * time.Millisecond, 1},
		{"token-bucket:10/1s,burst=6", time.Millisecond, 1}, {"sliding-log:10/2s", 40 * time.Millisecond, 3},
	} {
		for seed := range uint64(20) {
			s := simulated(newOurs(t, c.limit))
			s.shortest, s.longest = c.each*9/10, c.each*11/10
			seen := looked(t, s, seed)
			lines := words(seen)
			if len(lines) > c.most || !slices.Contains(lines, c.limit) {
				t.Errorf("%s, %d: %v of %d, %+v", c.limit, seed, lines, seen.Passed, seen.Back)
			}
		}
	}
}

// A period that is told does not make a bucket of a log, whose first unit is back after most of it.
func TestALookAtALogThatTellsItsPeriod(t *testing.T) {
	for seed := range uint64(20) {
		s, _ := newServed(t, "sliding-log:50/5s", headers.DialectDraft8, seed)
		if seen := looked(t, s, seed); !slices.Contains(words(seen), "sliding-log:50/5s") {
			t.Errorf("%d: %v of %d, %+v", seed, words(seen), seen.Passed, seen.Back)
		}
	}
}

// renewing denies for a while from the last request, whether that was admitted or denied.
type renewing struct {
	count  int
	block  time.Duration
	passed map[string]int
	last   map[string]store.Instant
}

func (r *renewing) decide(subject string, now store.Instant) (d store.Decision) {
	if last := r.last[subject]; now.Time().Sub(last.Time()) >= r.block {
		r.passed[subject] = 0
	}
	r.last[subject] = now
	r.passed[subject]++
	if d.Allowed = r.passed[subject] <= r.count; !d.Allowed {
		d.RetryAfter = r.block
	}
	return d
}

// Denials that keep a subject out are told.
func TestDenialsThatRenew(t *testing.T) {
	r := &renewing{20, 2 * time.Second, make(map[string]int), make(map[string]store.Instant)}
	checked := given(t, simulated(r), "fixed-window:20/2s,from=first", Config{Quota: 3000, MaxTime: time.Minute})
	if notes := fmt.Sprint(checked.Notes); checked.check(checkRecovery).Verdict != Fail ||
		!strings.Contains(notes, "begin the wait anew") {
		t.Errorf("%s, %+v", notes, checked.Checks)
	}
	// and a look without any header finds their period by the first pause that is long enough
	for seed := range uint64(10) {
		r := &renewing{10, time.Second, make(map[string]int), make(map[string]store.Instant)}
		s := simulated(r)
		s.lie = func(h http.Header, _ *store.Decision, _ time.Time) { h.Del("Retry-After") }
		if seen := looked(t, s, seed); !slices.Contains(words(seen), "fixed-window:10/1s,from=first") {
			t.Errorf("%d: %v of %d, %+v", seed, words(seen), seen.Passed, seen.Back)
		}
	}
}

// A look asks once more at the end of its time, after the longest pause.
func TestALookAsksAtItsEnd(t *testing.T) {
	s, _ := newServed(t, "fixed-window:10/28s,from=first", "none", 1)
	if seen := looked(t, s, 1); len(seen.Back) != 1 {
		t.Errorf("back %+v, %q", seen.Back, seen.Notes)
	}
}

// What cannot be read is told, and that those who are admitted are told to wait.
func TestALookAtOddFields(t *testing.T) {
	for limit, c := range map[string]struct{ name, value, want string }{
		"fixed-window:5/1s": {"X-RateLimit-Remaining", "abc", `X-RateLimit-Remaining: "abc" is not a whole number`},
		"1000000/1s": {"Retry-After", "2",
			"80 answers had a Retry-After: if that is how it denies, add --denied-header"},
	} {
		s := simulated(newOurs(t, limit))
		s.lie = func(h http.Header, _ *store.Decision, _ time.Time) { h.Set(c.name, c.value) }
		if seen := looked(t, s, 1); !strings.Contains(strings.Join(seen.Notes, "\n"), c.want) {
			t.Errorf("%s: %q", limit, seen.Notes)
		}
	}
}

// telling tells its limit of 50 in a second with each answer.
type telling struct{ *server }

func (s *telling) Send(ctx context.Context, subject string, cost int64, answer *endpoint.Answer) error {
	err := s.server.Send(ctx, subject, cost, answer)
	answer.Statuses = []rls.Status{{HasLimit: true, RequestsPerUnit: 50, Unit: 1}}
	return err
}

// A bucket that refills while several requests are under way is waited for, and not taken for a window.
func TestALookAtAFastBucket(t *testing.T) {
	for seed := range uint64(20) {
		s := simulated(newOurs(t, "token-bucket:50/1s"))
		s.shortest, s.longest, s.seed = time.Millisecond, 30*time.Millisecond, seed
		s.begun(t, func(t *testing.T) {
			config := Config{Client: &telling{s}, Quota: 150, MaxTime: 30 * time.Second, Workers: 16}
			seen, err := Look(t.Context(), &config)
			if err != nil || len(seen.Back) == 0 && len(seen.Notes) == 0 || words(seen)[0] != "token-bucket:50/1s" {
				t.Errorf("%d: %v of %d, %q, %+v, %v", seed, words(seen), seen.Passed, seen.Notes, seen.Back, err)
			}
		})
	}
}

// An endpoint that only fails is one that does not answer.
func TestFailuresAreNoAnswers(t *testing.T) {
	for _, quota := range []int{10, 100} {
		synctest.Test(t, func(t *testing.T) {
			seen, err := Look(t.Context(), &Config{Client: &alike{outcome: endpoint.Failed, status: 500}, Quota: quota})
			err = errors.Join(err, Unanswered(seen.Events))
			if !store.IsAway(err) || !strings.Contains(err.Error(), "500 Internal") {
				t.Errorf("of %d: %v", quota, err)
			}
		})
	}
}
