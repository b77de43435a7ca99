package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// epoch is the beginning of virtual time: a second before the beginning of an hour, so that windows end early.
var epoch = time.Date(2026, 3, 29, 0, 59, 59, 123_457_000, time.UTC)

// fixture is a store in virtual time with one of its subjects.
type fixture struct {
	*rapid.T
	store   store.Store
	now     *time.Time
	subject string
}

// quickCases is the number of random cases of a law with -short.
const quickCases = 4

// property checks a law on random cases. They share one store, since starting one is expensive. Each has its own
// subject and deletes it at the end, if the store can.
func property(t *testing.T, h Harness, check func(f *fixture)) {
	now := epoch
	backend := h.New(t, func() time.Time { return now })
	n, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if n++; testing.Short() && n > quickCases && !failed {
			return
		}
		defer func() { failed = failed || rt.Failed() }() // then rapid looks for a smaller case
		now = epoch
		f := &fixture{T: rt, store: backend, now: &now, subject: fmt.Sprintf("case:%d", n)}
		defer f.clear()
		check(f)
	})
}

func (f *fixture) clear() {
	backend, has := admin.KeyspaceOf(f.store)
	if !has {
		return
	}
	var keys []store.Key
	pattern, _ := store.ParsePattern("*")
	for entry := range backend.Scan(context.Background(), admin.Query{Subjects: pattern}) {
		keys = append(keys, entry.Key)
	}
	backend.Delete(context.Background(), admin.Records(keys...)...)
}

// advance moves the clock, back if by is negative.
func (f *fixture) advance(by time.Duration) { *f.now = f.now.Add(by) }

// request returns a request of the fixture's subject.
func (f *fixture) request(limit store.Limit, cost int64) store.Request {
	return store.Request{Key: store.Key{Subject: f.subject, Name: "limit"}, Limit: limit, Cost: cost}
}

func (f *fixture) decide(op store.Op, reqs ...store.Request) []store.Decision {
	f.Helper()
	decisions := make([]store.Decision, len(reqs))
	if err := f.store.Decide(context.Background(), op, reqs, decisions); err != nil {
		f.Fatalf("%s %v: %v", op, reqs, err)
	}
	return decisions
}

func (f *fixture) take(limit store.Limit, cost int64) store.Decision {
	f.Helper()
	return f.decide(store.Take, f.request(limit, cost))[0]
}

func (f *fixture) peek(limit store.Limit, cost int64) store.Decision {
	f.Helper()
	return f.decide(store.Peek, f.request(limit, cost))[0]
}

// use makes random takes, refunds and pauses, so that the key is in a random reachable state, under limits like
// limit.
func (f *fixture) use(limit store.Limit) {
	f.Helper()
	for range rapid.IntRange(0, 8).Draw(f.T, "uses") {
		like := limit
		if rapid.IntRange(0, 4).Draw(f.T, "change") == 0 {
			like = changed(f.T, limit)
		}
		f.takeOrRefund(like)
	}
}

func (f *fixture) takeOrRefund(limit store.Limit) {
	f.Helper()
	op := store.Take
	if rapid.IntRange(0, 5).Draw(f.T, "refund") == 0 {
		op = store.Refund
	}
	f.decide(op, f.request(limit, drawCost(f.T, limit)))
	f.advance(drawPause(f.T, limit))
}

// LimitOf returns a limit of that kind, which is in 60 slices if its kind has some. period must be whole minutes; it is a
// day of UTC if the kind has a calendar.
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

// calendars are windows of calendars: such as have a bound soon after the epoch of the tests, and such as have all
// lengths.
var calendars = []string{
	"1d,tz=Etc/GMT+1", "1d,tz=Europe/Berlin", "1d,tz=America/Havana", "1d,tz=America/Santiago", "1d,tz=Australia/Lord_Howe",
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

// inSlices returns limit with n slices. If they do not divide its period, it extends that by less than a
// microsecond for each.
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

// drawLimit draws a limit of that kind, small or extreme.
func drawLimit(t *rapid.T, kind store.Kind) store.Limit {
	most := kind.Algorithm().MaxCount()
	limit := store.Limit{
		Algorithm: kind.Algorithm(),
		Count:     rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, most)).Draw(t, "count"),
		Period: rapid.OneOf(
			rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, store.MaxPeriod}),
			rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.Int64Range(1000, int64(store.MaxPeriod/time.Microsecond)).Draw(t, "µs")) * time.Microsecond
			}),
		).Draw(t, "period"),
	}
	if kind.Algorithm().HasBurst() && rapid.Bool().Draw(t, "burst") {
		limit.Burst = rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, most)).Draw(t, "burst size")
	}
	if kind.HasSlices() {
		limit = inSlices(limit, rapid.SampledFrom(cuts).Draw(t, "slices"))
	}
	if kind.InCalendar() {
		limit = inCalendar(limit.Count, rapid.SampledFrom(calendars).Draw(t, "calendar"))
	}
	return drainable(limit)
}

// kindOf returns the kind of a limit without defaults.
func kindOf(limit store.Limit) store.Kind {
	limit, _ = limit.Normalize()
	return limit.Kind()
}

// drainable returns limit without its burst if that would take ages to drain: virtual time must not reach the year
// 2112, where records end.
func drainable(limit store.Limit) store.Limit {
	years := float64(limit.Burst) / float64(limit.Count) * limit.Period.Hours() / (24 * 366)
	if _, err := limit.Normalize(); err != nil || years > 40 {
		limit.Burst = 0
	}
	return limit
}

// changed returns limit with another count and burst (or slices), or sometimes another period or algorithm, like a
// changed policy.
func changed(t *rapid.T, limit store.Limit) store.Limit {
	other := drawLimit(t, kindOf(limit))
	switch rapid.IntRange(0, 5).Draw(t, "what changes") {
	case 0:
		return other
	case 1:
		return drawLimit(t, rapid.SampledFrom(store.Kinds()).Draw(t, "kind"))
	}
	return drainable(withPeriod(other, limit))
}

// drawCost draws a cost that can fit, often one at a bound.
func drawCost(t *rapid.T, limit store.Limit) int64 {
	capacity := limit.Capacity()
	return rapid.OneOf(
		rapid.Int64Range(1, min(3, capacity)),
		rapid.Int64Range(1, capacity),
		rapid.Int64Range(max(1, capacity-2), capacity),
	).Draw(t, "cost")
}

// drawPause draws a pause in which a part of the limit's usage expires.
func drawPause(t *rapid.T, limit store.Limit) time.Duration {
	period := limit.Period.Microseconds()
	width := period / max(1, limit.Slices)
	return time.Microsecond * time.Duration(rapid.OneOf(
		rapid.Int64Range(0, 2*width),
		rapid.Int64Range(0, 3),
		rapid.Int64Range(0, max(1, period/limit.Count)),
		rapid.Int64Range(0, period),
		rapid.Int64Range(period-1, period+1),
		rapid.Int64Range(0, 3*period),
	).Draw(t, "pause"))
}

// fails checks that the error is of that kind and has a text.
func (f *fixture) fails(kind error, op store.Op, reqs ...store.Request) {
	f.Helper()
	err := f.store.Decide(context.Background(), op, reqs, make([]store.Decision, len(reqs)))
	if !errors.Is(err, kind) {
		f.Fatalf("%s %v: got error %v, want one that is %q", op, reqs, err, kind)
	}
}
