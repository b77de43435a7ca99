// Package storetest is the conformance suite of stores: it tests each law of a decision for every kind of limit. A
// store passes if
//
//	storetest.Run(t, harness)
//
// does. Logic is tested in virtual time with random requests, concurrency on the store's own clock.
//
// The two methods of [store.Store] are enough. A store that is an [admin.Keyspace], or has an
// [admin.SideTable], has to keep their laws, too.
package storetest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Harness makes stores of the kind under test.
type Harness struct {
	// New returns an empty store that decides by clock, nil for its own. The test's cleanup closes it, if nobody has.
	New func(tb testing.TB, clock func() time.Time) store.Store
	// Dump returns all that the store keeps, including expiries, in any form that is equal exactly if nothing was
	// written. Without it the suite does not check whether something was.
	Dump func(tb testing.TB, backend store.Store) string
	// Plant puts a foreign value under key, and returns a function that reports whether it is still there
	// unchanged. It is nil for a store that only its own process can write to.
	Plant func(tb testing.TB, backend store.Store, key store.Key, value string) (intact func() bool)
	// Prefix returns the prefix of a store's keys; nil means the default.
	Prefix func(backend store.Store) string
	// DropsEnded: what has ended also leaves Dump, without a call.
	DropsEnded bool
	// Routing: few kinds of limits, for a store that runs the whole suite on one server.
	Routing bool
	// Sequences is the number of random sequences that are compared with the reference, for each kind of limit:
	// many for a store with its own implementation. With -short it is a hundredth of them.
	Sequences int
}

// dump is Dump, or constant without one.
func (h *Harness) dump(tb testing.TB, backend store.Store) string {
	if h.Dump == nil {
		return ""
	}
	return h.Dump(tb, backend)
}

// scan returns the store's Scan, or nothing if it has none.
func scan(ctx context.Context, backend store.Store, q admin.Query) iter.Seq2[admin.Entry, error] {
	if keys, has := admin.KeyspaceOf(backend); has {
		return keys.Scan(ctx, q)
	}
	return func(func(admin.Entry, error) bool) {}
}

// newKeys is New for stores that are a Keyspace.
func (h *Harness) newKeys(tb testing.TB, clock func() time.Time) admin.Keyspace {
	keys, _ := admin.KeyspaceOf(h.New(tb, clock))
	return keys
}

func (h *Harness) storeKey(backend store.Store, key store.Key) string {
	prefix := store.DefaultPrefix
	if h.Prefix != nil {
		prefix = h.Prefix(backend)
	}
	return admin.OwnLayout(prefix).StoreKey(key)
}

// Run runs the suite. For a store that is not an [admin.Keyspace] it omits the laws of one.
func Run(t *testing.T, h Harness) {
	_, hasKeys := admin.KeyspaceOf(h.New(t, nil))
	kinds := store.Kinds()
	few := slices.DeleteFunc(store.Kinds(), func(kind store.Kind) bool { // a state of two numbers, and a ring
		return kind.Algorithm() != store.TokenBucket && kind.Algorithm() != store.SlidingLog
	})
	if h.Routing {
		kinds = few
	}
	run := func(name string, kinds []store.Kind, law func(*testing.T, Harness, store.Kind)) {
		t.Run(name, func(t *testing.T) {
			for _, kind := range kinds {
				t.Run(kind.String(), func(t *testing.T) {
					t.Parallel()
					law(t, h, kind)
				})
			}
		})
	}
	run("ConcurrentTakesEqualASerialOrder", kinds, concurrentTakesEqualASerialOrder)
	run("ForeignDataIsNotTouched", kinds, foreignDataIsNotTouched)
	run("InvalidLimits", few, invalidLimitsAreErrors)
	run("MatchesTheReference", kinds, matchesTheReference)
	if hasKeys { // these hardly depend on the kind
		run("KeptUntilUnused", kinds, keptUntilUnused)
		run("Keyspace", few, keyspaceFindsAndDeletes)
		run("KeyspaceDirectly", few, keyspaceReachesKeysDirectly)
		run("KeyspaceRecords", kinds, keyspaceBringsRecordsBack)
		run("KeyspaceAdjusts", kinds, keyspaceAdjusts)
	}
	t.Run("Closed", func(t *testing.T) { closed(t, h) })
	t.Run("Tables", func(t *testing.T) { tables(t, h) })
}

// epoch is the beginning of virtual time: a second before the beginning of an hour, so that windows end early.
var epoch = time.Date(2026, 3, 29, 0, 59, 59, 123_457_000, time.UTC)

// check is rapid.Check with fewer cases: in each there are many calls.
func check(t *testing.T, property func(*rapid.T)) {
	cases, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if cases++; cases > 25 && !failed {
			return
		}
		defer func() { failed = failed || rt.Failed() }() // then rapid looks for a smaller case
		property(rt)
	})
}

// LimitOf returns a limit of that kind, in 60 slices or a day of UTC if it has some. period is whole minutes.
func LimitOf(kind store.Kind, count int64, period time.Duration) store.Limit {
	limit := store.Limit{Algorithm: kind.Algorithm(), Count: count, Period: period}
	if kind.HasSlices() {
		limit.Slices = 60
	}
	if kind.InCalendar() {
		limit = inCalendar(count, "1d,tz=UTC")
	}
	return limit
}

// calendars are windows with a bound soon after the epoch of the tests, and of all lengths.
var calendars = []string{
	"1d,tz=Etc/GMT+1", "1d,tz=Europe/Berlin", "1d,tz=America/Havana", "1d,tz=America/Santiago",
	"1d,tz=Australia/Lord_Howe",
	"1w,tz=Asia/Kathmandu", "1mo,tz=Europe/Berlin", "3mo,tz=America/St_Johns", "1y,tz=UTC", "1y,tz=Asia/Almaty",
}

// inCalendar returns a limit in windows of a calendar.
func inCalendar(count int64, window string) store.Limit {
	limit, err := store.ParseLimit(fmt.Sprintf("fixed-window:%d/%s", count, window))
	if err != nil {
		panic(err)
	}
	return limit
}

// inWindow returns a limit as it is recorded at an instant, without its zone, which no record has.
func inWindow(limit store.Limit, at time.Time) store.Limit {
	limit, _ = limit.Normalize()
	limit = limit.InWindow(store.InstantOf(at))
	limit.Calendar = nil
	return limit
}

// cuts are numbers of slices. Each of them divides the longest period.
var cuts = []int64{2, 3, 6, 10, 60, 3600}

// inSlices returns limit with n slices, and a period that is a little longer if they do not divide it.
func inSlices(limit store.Limit, n int64) store.Limit {
	limit.Slices = n
	if over := limit.Period.Microseconds() % n; over > 0 {
		limit.Period += time.Duration(n-over) * time.Microsecond
	}
	return limit
}

// withPeriod returns limit, a random one, with the period of another.
func withPeriod(limit, other store.Limit) store.Limit {
	limit.Period, limit.Calendar = other.Period, other.Calendar
	if limit.Slices > 0 && limit.Period.Microseconds()%limit.Slices != 0 {
		limit.Slices = other.Slices
	}
	return limit
}

// kindOf returns the kind of a limit without defaults.
func kindOf(limit store.Limit) store.Kind {
	limit, _ = limit.Normalize()
	return limit.Kind()
}

// ask returns what the reference would answer to op on a copy of state i, and how much is then in use.
func (c *comparison) ask(i int, op store.Op, req store.Request, at store.Instant) (d store.Decision, used int64) {
	req.Token, req.NotAfter, req.Shadow = "", 0, false
	state := c.states[i].Clone()
	if op == store.Refund {
		state.Refund(req.Cost, at)
	} else {
		store.DecideOne(op, &req, state, &d, at)
	}
	return d, state.Used(at)
}

// judge returns which law of a decision the answers of the reference break. before is what was in use before the call,
// and repeated says that its token was known.
func (c *comparison) judge(op store.Op, reqs []store.Request, before []int64, want []store.Decision, repeated bool,
	now store.Instant) string {
	fits, room := true, reqs[0].Cost // of all that deny
	for i := range reqs {
		if free := reqs[i].Capacity() - before[i]; !reqs[i].Shadow {
			fits, room = fits && reqs[i].Cost <= free, min(room, max(0, free))
		}
	}
	for i := range reqs {
		req, d, free := reqs[i], want[i], reqs[i].Capacity()-before[i]
		after := c.states[i].Used(now)
		expected, late := before[i], op == store.Refund && !d.Allowed
		switch {
		case late: // nothing has changed
		case op == store.Settle, op == store.Refund && after >= before[i]-d.Refunded && after <= before[i]:
			expected = after // of a sliding counter, a part of what is given back had faded
		case repeated && op != store.Refund:
			if !d.Repeated || d.Allowed != (d.Granted > 0) || !d.Allowed && !req.Shadow {
				return fmt.Sprintf("Token: what was allowed is repeated as %+v", d)
			}
		case op == store.Take && fits && req.Cost <= free, op == store.Charge:
			expected += req.Cost
		case op == store.TakeUpTo && free > 0:
			expected += min(room, free)
		case op == store.Refund:
			expected -= d.Refunded
		case op == store.Adjust:
			expected = req.Cost
		}
		if after != expected || d.Used != after {
			return fmt.Sprintf("Law03: %d were in use before, %d are after, want %d: %+v", before[i], after, expected,
				d)
		}
		if op == store.Refund && req.Token == "" && !late && d.Refunded != min(req.Cost, before[i]) {
			return fmt.Sprintf("Refund: %d were in use before, %d are after: %+v", before[i], after, d)
		}
		if (op == store.Take || op == store.Peek) && !repeated && d.Allowed != (req.Cost <= free) ||
			d.Shadow != req.Shadow {
			return fmt.Sprintf("Leave: %d fit: %+v", free, d)
		}
		if d.At != now {
			return fmt.Sprintf("At: it is %d: %+v", now, d)
		}
		if law := c.judgeTimes(i, op, req, d, after, now); law != "" {
			return law
		}
	}
	return ""
}

// judgeTimes checks what an answer says of the future, and of a clock that goes back.
func (c *comparison) judgeTimes(i int, op store.Op, req store.Request, d store.Decision, after int64,
	now store.Instant) string {
	if op == store.TakeUpTo {
		req.Cost = 1
	}
	retry, reset := now+store.Instant(d.RetryAfter.Microseconds()), now+store.Instant(d.ResetAfter.Microseconds())
	denied := !d.Allowed && op != store.Refund && req.Cost <= req.Capacity()
	if denied != (d.RetryAfter > 0) && !d.Repeated {
		return fmt.Sprintf("Law04: %+v", d)
	}
	if denied && !d.Repeated {
		early, _ := c.ask(i, store.Peek, req, retry-1)
		if again, _ := c.ask(i, store.Peek, req, retry); early.Allowed || early.RetryAfter != time.Microsecond ||
			!again.Allowed {
			return fmt.Sprintf("Law04: %+v, a microsecond early %+v, in time %+v", d, early, again)
		}
	}
	rest, more := req, req
	rest.Cost, more.Cost = d.Remaining, d.Remaining+1
	all, _ := c.ask(i, store.Peek, rest, now)
	if one, _ := c.ask(i, store.Peek, more, now); d.Remaining != max(0, req.Capacity()-after) ||
		d.Remaining > 0 && !all.Allowed || one.Allowed {
		return fmt.Sprintf("Law05: %d of %d are in use: %+v", after, req.Capacity(), d)
	}
	_, still := c.ask(i, store.Peek, req, reset-1)
	if _, unused := c.ask(i, store.Peek, req, reset); unused != 0 || after > 0 && still == 0 || after == 0 &&
		d.ResetAfter != 0 {
		return fmt.Sprintf("Law06: %d are in use a microsecond before the reset, and then %d: %+v", still, unused, d)
	}
	if d.Granted > 0 && !d.Repeated && op != store.Settle {
		back := req
		back.Cost = d.Granted
		if _, used := c.ask(i, store.Refund, back, now); used != after-d.Granted {
			return fmt.Sprintf("Refund: %d are in use, and %d after a refund of that: %+v", after, used, d)
		}
		for _, back := range []store.Instant{1, 1_000_000, 3_600_000_000} {
			if _, used := c.ask(i, store.Peek, req, now-back); used != after {
				return fmt.Sprintf("Law07: %d are in use after the clock went back by %d µs: %+v", used, back, d)
			}
		}
	}
	req.Limit, _ = randomLimit(c.r, anyKind(c.r)).Normalize()
	req.Cost, req.Leave = max(1, req.Limit.Capacity()-after), 0
	other, used := c.ask(i, store.Take, req, now)
	if other.Used != used || used != max(after, req.Limit.Capacity()) {
		return fmt.Sprintf("Law08: under %s %d are in use, and %d after a take of %d: %+v", req.Limit, other.Used, used,
			req.Cost, d)
	}
	return ""
}
