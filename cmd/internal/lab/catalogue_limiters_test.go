package lab

import (
	"fmt"
	"net/http"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// decides is a limiter that answers with its own counting.
func decides(admit func(q *asked) bool, retry time.Duration) handler {
	return func(q *asked, a *answered) {
		a.status = http.StatusOK
		if a.Allowed = admit(q); !a.Allowed {
			a.status, a.RetryAfter = http.StatusTooManyRequests, retry
		}
	}
}

// holds is a bucket that gets back a unit each 100 ms, up to as many as most says for one who was idle so long.
func holds(most func(idle time.Duration) float64) handler {
	type level struct {
		units float64
		at    time.Time
	}
	levels := map[string]*level{}
	const each = 100 * time.Millisecond
	return func(q *asked, a *answered) {
		l := levels[q.subject]
		if l == nil {
			l = &level{most(0), q.now()}
			levels[q.subject] = l
		}
		idle := q.now().Sub(l.at)
		l.units, l.at = min(most(idle), l.units+idle.Seconds()/each.Seconds()), q.now()
		a.status, a.Allowed = http.StatusOK, l.units >= 1
		if a.Allowed {
			l.units--
		} else {
			a.status, a.RetryAfter = http.StatusTooManyRequests, time.Duration((1-l.units)*float64(each))
		}
		a.Remaining, a.ResetAfter = int64(l.units), time.Duration((20-l.units)*float64(each))
	}
}

// counter is a count that ends at an instant.
type counter struct {
	n    int64
	ends time.Time
}

// counters keep a count of each subject that begins with its first request. next changes it at each request before it is
// counted.
func counters(l store.Limit, next func(q *asked, c *counter)) handler {
	all := map[string]*counter{}
	return func(q *asked, a *answered) {
		c := all[q.subject]
		if c == nil || !q.now().Before(c.ends) {
			c = &counter{ends: q.now().Add(l.Period)}
			all[q.subject] = c
		}
		if next != nil {
			next(q, c)
		}
		c.n++
		a.status, a.Allowed, a.ResetAfter = http.StatusOK, c.n <= l.Count, c.ends.Sub(q.now())
		if a.Remaining = max(0, l.Count-c.n); !a.Allowed {
			a.status, a.RetryAfter = http.StatusTooManyRequests, a.ResetAfter
		}
	}
}

// losesExpiry never ends each window of that number.
func losesExpiry(l store.Limit, each int) handler {
	begun := 0
	return counters(l, func(q *asked, c *counter) {
		if c.n > 0 {
			return
		}
		if begun++; begun%each == 0 {
			c.ends = q.now().Add(24 * time.Hour)
		}
	})
}

// lags decides by what was counted a while ago.
func lags(d time.Duration) func(handler) handler {
	return decidesBy(func(q *asked) time.Time { return q.now().Add(-d) })
}

// decidesBy is a bucket of 20 that refills in 2 s and decides by what was admitted until an instant.
func decidesBy(until func(q *asked) time.Time) func(handler) handler {
	return func(handler) handler {
		limit, admitted := limitOf(bucket), map[string][]time.Time{}
		return tells(plainly, bucket, func(q *asked, a *answered) {
			seen, state := until(q), new(store.State)
			for _, at := range admitted[q.subject] {
				if !at.After(seen) {
					state.Charge(limit, 1, store.InstantOf(at))
				}
			}
			request := store.Request{Limit: limit, Cost: 1}
			store.DecideOne(store.Take, &request, state, &a.Decision, store.InstantOf(q.now()))
			if !a.Allowed {
				a.status = http.StatusTooManyRequests
				return
			}
			kept := admitted[q.subject]
			for len(kept) > 0 && q.now().Sub(kept[0]) > 10*time.Second {
				kept = kept[1:]
			}
			admitted[q.subject] = append(kept, q.now())
		})
	}
}

// truncates is a bucket whose refill since the last request is rounded down to whole units.
func truncates(most int64, period time.Duration) handler {
	type level struct {
		units int64
		at    time.Time
	}
	levels := map[string]*level{}
	return decides(func(q *asked) bool {
		l := levels[q.subject]
		if l == nil {
			l = &level{most, q.now()}
			levels[q.subject] = l
		}
		l.units = min(most, l.units+int64(q.now().Sub(l.at)*time.Duration(most)/period))
		l.at = q.now()
		if l.units == 0 {
			return false
		}
		l.units--
		return true
	}, period/time.Duration(most))
}

// repeatsDenials answers with the last denial for a while.
func repeatsDenials(d time.Duration) func(handler) handler {
	return func(h handler) handler {
		type kept struct {
			until time.Time
			answered
		}
		denials := map[string]kept{}
		return func(q *asked, a *answered) {
			if k := denials[q.subject]; q.now().Before(k.until) {
				*a = k.answered
				return
			}
			if h(q, a); a.status == http.StatusTooManyRequests {
				denials[q.subject] = kept{q.now().Add(d), *a}
			}
		}
	}
}

// bans keeps a subject out after so many denials in a row.
func bans(denials int, d time.Duration) func(handler) handler {
	return func(h handler) handler {
		row, until := map[string]int{}, map[string]time.Time{}
		return func(q *asked, a *answered) {
			if q.now().Before(until[q.subject]) {
				a.status = http.StatusTooManyRequests
				a.header.Set("Retry-After", seconds(until[q.subject].Sub(q.now())))
				return
			}
			h(q, a)
			if row[q.subject]++; a.status != http.StatusTooManyRequests {
				row[q.subject] = 0
			} else if row[q.subject] == denials {
				until[q.subject], row[q.subject] = q.now().Add(d), 0
			}
		}
	}
}

// denies with another status, without Retry-After.
func denies(status int) func(handler) handler {
	return func(h handler) handler {
		return saying(func(_ *asked, a *answered) {
			if a.status == http.StatusTooManyRequests {
				a.status = status
				a.header.Del("Retry-After")
			}
		}, h)
	}
}

// delays lets in 20 at once, and what is more when its turn comes.
func delays(each time.Duration) func(handler) handler {
	return func(handler) handler {
		turns := map[string]time.Time{}
		return func(q *asked, a *answered) {
			turn := turns[q.subject]
			if earliest := q.now().Add(-19 * each); turn.Before(earliest) {
				turn = earliest
			}
			a.late = max(0, turn.Sub(q.now()))
			turns[q.subject] = turn.Add(each)
		}
	}
}

// chargesDenied counts denied requests as well, so many times.
func chargesDenied(l store.Limit, n int64) handler {
	states := memory{}
	inner := states.keeps(l)
	return func(q *asked, a *answered) {
		if inner(q, a); !a.Allowed {
			request := store.Request{Limit: l, Cost: 1}
			states.of(q.subject).Charge(l, n, store.InstantOf(q.now()))
			a.Decision = states.of(q.subject).Answer(&request, store.InstantOf(q.now()), false)
		}
	}
}

// expiresIdle forgets a subject so long after its last admission.
func expiresIdle(d time.Duration) func(handler) handler {
	return func(h handler) handler {
		last, generation := map[string]time.Time{}, map[string]int{}
		return func(q *asked, a *answered) {
			subject := q.subject
			if q.now().Sub(last[subject]) > d {
				generation[subject]++
			}
			q.subject = fmt.Sprint(subject, generation[subject])
			if h(q, a); a.status == http.StatusOK {
				last[subject] = q.now()
			}
		}
	}
}

// sameMillisecond is a log in which requests of one millisecond have one place.
func sameMillisecond(l store.Limit) handler {
	inner, last := memory{}, map[string]int64{}
	count := inner.keeps(l)
	return func(q *asked, a *answered) {
		before := inner.of(q.subject).Clone()
		ms := q.now().UnixMilli()
		if count(q, a); a.Allowed && last[q.subject] == ms {
			inner[q.subject] = before
		}
		last[q.subject] = ms
	}
}
