package test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// decides is a limiter that answers with its own counting.
func decides(admit func(q *asked) bool, retry time.Duration) handler {
	return func(q *asked, a *answered) {
		if a.Allowed = admit(q); !a.Allowed {
			a.status, a.RetryAfter = http.StatusTooManyRequests, retry
		}
	}
}

// losesExpiry counts windows that begin with a first request, and never ends each window of that number.
func losesExpiry(l store.Limit, each int) handler {
	type counter struct {
		n    int64
		ends time.Time
	}
	all, begun := map[string]*counter{}, 0
	return func(q *asked, a *answered) {
		c := all[q.subject]
		if c == nil || !q.now().Before(c.ends) {
			c = &counter{ends: q.now().Add(l.Period)}
			if all[q.subject], begun = c, begun+1; begun%each == 0 {
				c.ends = q.now().Add(24 * time.Hour)
			}
		}
		c.n++
		a.Allowed, a.ResetAfter = c.n <= l.Count, c.ends.Sub(q.now())
		if a.Remaining = max(0, l.Count-c.n); !a.Allowed {
			a.status, a.RetryAfter = http.StatusTooManyRequests, a.ResetAfter
		}
	}
}

// lags decides by what was admitted until a while ago.
func lags(limit store.Limit, behind time.Duration) handler {
	admitted := map[string][]time.Time{}
	return func(q *asked, a *answered) {
		state := new(store.State)
		for _, at := range admitted[q.subject] {
			if q.now().Sub(at) >= behind {
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
	}
}

// twice counts a share of all requests twice.
func twice(h handler, share float64) handler {
	return func(q *asked, a *answered) {
		if h(q, a); q.chance(share) {
			h(q, &answered{})
		}
	}
}

// truncates is a bucket whose refill since the last request is rounded down to whole units.
func truncates(most int64, period time.Duration) handler {
	units, last := map[string]int64{}, map[string]time.Time{}
	return decides(func(q *asked) bool {
		s := q.subject
		if last[s].IsZero() {
			units[s], last[s] = most, q.now()
		}
		units[s] = min(most, units[s]+int64(q.now().Sub(last[s])*time.Duration(most)/period))
		last[s] = q.now()
		if units[s] == 0 {
			return false
		}
		units[s]--
		return true
	}, period/time.Duration(most))
}

// thousandths is limit_req of nginx: a rate in thousandths of a request a second, and whole milliseconds.
func thousandths(rate, burst int64) handler {
	excess := map[string][2]int64{}
	return decides(func(q *asked) bool {
		ms := q.now().UnixMilli()
		was, known := excess[q.subject]
		now := [2]int64{0, ms}
		if known {
			now[0] = max(0, was[0]-rate*(ms-was[1])/1000+1000)
		}
		if now[0] > burst*1000 {
			return false
		}
		excess[q.subject] = now
		return true
	}, 100*time.Millisecond)
}

// repeatsDenials answers with the last denial for a while.
func repeatsDenials(d time.Duration, h handler) handler {
	denials, until := map[string]answered{}, map[string]time.Time{}
	return func(q *asked, a *answered) {
		if q.now().Before(until[q.subject]) {
			*a = denials[q.subject]
			return
		}
		if h(q, a); a.status == http.StatusTooManyRequests {
			denials[q.subject], until[q.subject] = *a, q.now().Add(d)
		}
	}
}

// bans keeps a subject out after so many denials in a row.
func bans(denials int, d time.Duration, h handler) handler {
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

// unavailable denies with 503, without Retry-After.
func unavailable(h handler) handler {
	return func(q *asked, a *answered) {
		if h(q, a); a.status == http.StatusTooManyRequests {
			a.status = http.StatusServiceUnavailable
			a.header.Del("Retry-After")
		}
	}
}

// delays lets in 20 at once, and what is more when its turn comes.
func delays(each time.Duration) handler {
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
func expiresIdle(d time.Duration, h handler) handler {
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

// sameMillisecond is a log whose members are times: requests of one millisecond have one place.
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
