package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
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
		{"token-bucket:10/2s", 40 * time.Millisecond, 2}, {"token-bucket:10/1s", 20 * time.Millisecond, 2},
		{"token-bucket:20/2s", time.Millisecond, 2}, {"token-bucket:5/1s", 30 * time.Millisecond, 2},
		{"token-bucket:10/1s,burst=6", time.Millisecond, 2}, {"sliding-log:10/2s", 40 * time.Millisecond, 3},
	} {
		for seed := range uint64(20) {
			s := simulated(newOurs(t, c.limit))
			s.shortest, s.longest = c.each*9/10, c.each*11/10
			seen := looked(t, s, seed)
			lines := words(seen)
			if seen.Renews || len(lines) > c.most || !slices.Contains(lines, c.limit) ||
				c.most == 2 && strings.Contains(fmt.Sprint(lines), "sliding") {
				t.Errorf("%s, %d: %v, %v of %d, %+v", c.limit, seed, seen.Renews, lines, seen.Passed, seen.Back)
			}
		}
	}
}

// renewing denies for a while from the last request, whether that was admitted or denied.
type renewing struct {
	count  int
	block  time.Duration
	passed map[string]int
	last   map[string]store.Instant
	tells  bool
}

func (r *renewing) decide(subject string, now store.Instant) (d store.Decision) {
	if last := r.last[subject]; now.Time().Sub(last.Time()) >= r.block {
		r.passed[subject] = 0
	}
	r.last[subject] = now
	r.passed[subject]++
	if d.Allowed = r.passed[subject] <= r.count; !d.Allowed && r.tells {
		d.RetryAfter = r.block
	}
	return d
}

// Denials that keep a subject out are told, and that no limit says so. Of no other limiter this is said.
func TestALookAtDenialsThatRenew(t *testing.T) {
	for _, block := range []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second} {
		for seed := range uint64(10) {
			r := &renewing{10, block, make(map[string]int), make(map[string]store.Instant), false}
			seen := looked(t, simulated(r), seed)
			if !seen.Renews || len(seen.Notes) != 1 || !strings.HasPrefix(seen.Notes[0], "the lines assume that ") {
				t.Errorf("%s, %d: renews: %v, %q, back %+v", block, seed, seen.Renews, seen.Notes, seen.Back)
			}
		}
	}
	for _, block := range []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second, 13 * time.Second} {
		for seed := range uint64(10) { // it tells how long it keeps out
			r := &renewing{10, block, make(map[string]int), make(map[string]store.Instant), true}
			seen := looked(t, simulated(r), seed)
			if lines := words(seen); len(lines) == 0 || !strings.HasPrefix(seen.Notes[0], "a denial said Retry-After: ") ||
				lines[0] != fmt.Sprintf("fixed-window:10/%s,from=first", block) {
				t.Errorf("%s, %d: %q, %q, back %+v", block, seed, lines, seen.Notes, seen.Back)
			}
		}
	}
	r := &renewing{20, 2 * time.Second, make(map[string]int), make(map[string]store.Instant), true}
	checked := given(t, simulated(r), "fixed-window:20/2s,from=first", Config{Quota: 3000, MaxTime: time.Minute})
	if notes := fmt.Sprint(checked.Notes); checked.check(checkRecovery).Verdict != Fail || !strings.Contains(notes, "begin the wait anew") {
		t.Errorf("%s, %+v", notes, checked.Checks)
	}
	for _, limit := range []string{"fixed-window:10/1s", "fixed-window:3/7s", "fixed-window:10/5s,from=first",
		"sliding-log:5/2s", "sliding-log:1/1s", "sliding-counter:10/1s", "sliding-counter:1/2s", "sliding-counter:2/3s",
		"token-bucket:1/1s", "token-bucket:2/1s"} {
		for seed := range uint64(20) {
			for _, longest := range []time.Duration{3 * time.Millisecond, 80 * time.Millisecond} {
				s := simulated(newOurs(t, limit))
				s.longest = longest
				if seen := looked(t, s, seed); seen.Renews || strings.Contains(fmt.Sprint(seen.Notes), "anew") {
					t.Errorf("%s, %d: it is said to renew, back %+v", limit, seed, seen.Back)
				}
			}
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
