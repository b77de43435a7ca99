package storetest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// addOne adds one row that was denied last just now, and first as long ago as a run lasts.
func addOne(t *testing.T, table admin.DenialTable, now time.Time, row admin.Denied, run time.Duration) {
	t.Helper()
	at := store.InstantOf(now)
	row.LastAt, row.Since = at, at-store.Instant(run/time.Microsecond)
	if err := table.AddDenials(context.Background(), admin.Denials{Rows: []admin.Denied{row}, Now: at}); err != nil {
		t.Fatal(err)
	}
}

// denialsOf returns the only row.
func denialsOf(t *testing.T, table admin.DenialTable, last time.Duration) (admin.Denials, admin.Denied) {
	t.Helper()
	d, err := table.Denials(context.Background(), last)
	if err != nil || len(d.Rows) != 1 {
		t.Fatalf("the last %s: %+v, %v", last, d, err)
	}
	return d, d.Rows[0]
}

// denialsAreDescribed checks the limit, the override, and what is blocked, compared and let through.
func denialsAreDescribed(t *testing.T, h Harness) {
	begin := epoch.Truncate(time.Hour)
	now := begin.Add(10*time.Minute + 5*time.Second)
	table, _ := admin.DenialTableOf(h.New(t, func() time.Time { return now }))
	key := store.Key{Subject: "user:42", Name: "n"}
	through := admin.Denied{Key: key, Passed: 100}
	addOne(t, table, now, through, 0) // before any denial of this part: it does not count
	addOne(t, table, now, admin.Denied{Key: key, Count: 3, Limit: "token-bucket:100/1m", Compared: 3, Passed: 5}, 2*time.Second)
	now = now.Add(time.Second)
	addOne(t, table, now, admin.Denied{Key: key, Count: 4, Limit: "token-bucket:50/1m", Override: "abc", Blocked: 2, Compared: 1}, 0)
	through.Passed = 7
	addOne(t, table, now, through, 0)
	now = now.Add(time.Minute)
	addOne(t, table, now, admin.Denied{Key: key, Count: 1, Limit: "token-bucket:60/1m", Blocked: 1, Compared: 1, Passed: 1}, 0)
	for _, last := range []time.Duration{10 * time.Minute, time.Hour, 2 * time.Hour} {
		d, got := denialsOf(t, table, last)
		first := store.InstantOf(begin.Add(10*time.Minute + 3*time.Second))
		want := admin.Denied{Key: key, Count: 8, LastAt: store.InstantOf(now), Since: first, Limit: "token-bucket:60/1m", Blocked: 3,
			Compared: 5, Passed: 13, Steps: []admin.DenialStep{{At: store.InstantOf(begin.Add(10 * time.Minute)), Count: 7, Blocked: 2},
				{At: store.InstantOf(begin.Add(11 * time.Minute)), Count: 1, Blocked: 1}}}
		trend := []int64{0, 7, 1}
		if last > time.Hour {
			want.Steps = []admin.DenialStep{{At: store.InstantOf(begin), Count: 8, Blocked: 3}}
			trend = []int64{0, 0, 8}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("of the last %s:\n%+v, want\n%+v", last, got, want)
		}
		if counts := d.Trend(&got, 3); !reflect.DeepEqual(counts, trend) {
			t.Errorf("the trend of %s is %d, want %d", last, counts, trend)
		}
		if share, known := got.Share(); !known || share != 5.0/18 {
			t.Errorf("the share is %g, %t", share, known)
		}
	}
}

// denialsHaveRuns checks that a run goes on over a pause of [admin.DenialQuiet], also from hour to hour, and that a longer
// pause begins another.
func denialsHaveRuns(t *testing.T, h Harness) {
	begin := epoch.Truncate(time.Hour)
	now := begin
	table, _ := admin.DenialTableOf(h.New(t, func() time.Time { return now }))
	row := admin.Denied{Key: store.Key{Subject: "user:42", Name: "n"}, Count: 1, Limit: "token-bucket:100/1m"}
	const beyond = time.Millisecond // what a store tells apart
	since := begin
	for i, test := range []struct {
		pause time.Duration
		isNew bool
	}{
		{0, true}, {time.Minute, false}, {admin.DenialQuiet, false}, {admin.DenialQuiet + beyond, true}, {9 * time.Minute, false},
		{admin.DenialQuiet, false}, {admin.DenialQuiet, false}, {admin.DenialQuiet, false}, {admin.DenialQuiet, false},
		{admin.DenialQuiet, false}, {admin.DenialQuiet, false}, {admin.DenialQuiet, false}, {3 * time.Hour, true}, {time.Second, false},
	} {
		now = now.Add(test.pause)
		addOne(t, table, now, row, 0)
		if test.isNew {
			since = now
		}
		for _, last := range []time.Duration{admin.DenialQuiet, time.Hour, 2 * time.Hour, admin.DenialHistory} {
			if _, got := denialsOf(t, table, last); got.Since != store.InstantOf(since) {
				t.Errorf("denial %d, the last %s: since %s, want %s", i, last, got.Since.Time(), since)
			}
		}
	}
}

// denialsLastADay checks that an hour is kept as long as one of its instants is within the last day.
func denialsLastADay(t *testing.T, h Harness) {
	begin := epoch.Truncate(time.Hour)
	now := begin.Add(40 * time.Minute)
	table, _ := admin.DenialTableOf(h.New(t, func() time.Time { return now }))
	row := admin.Denied{Key: store.Key{Subject: "user:42", Name: "n"}, Count: 2}
	addOne(t, table, now, row, 0)
	now = begin.Add(24*time.Hour + 39*time.Minute)
	addOne(t, table, now, admin.Denied{Key: store.Key{Subject: "user:42", Name: "n"}, Count: 1}, 0) // removes what is too old
	if d, got := denialsOf(t, table, admin.DenialHistory); got.Count != 3 || d.Step != time.Hour || len(got.Steps) != 2 {
		t.Errorf("after a day: %+v", got)
	}
	if d, got := denialsOf(t, table, time.Hour); got.Count != 1 || d.Step != time.Minute {
		t.Errorf("of the last hour: %+v", got)
	}
	if _, got := denialsOf(t, table, 23*time.Hour); got.Count != 1 {
		t.Errorf("of the last 23 hours: %+v", got)
	}
	now = begin.Add(25 * time.Hour)
	if _, got := denialsOf(t, table, admin.DenialHistory); got.Count != 1 {
		t.Errorf("after the hour has ended a day ago: %+v", got)
	}
}
