package storetest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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
