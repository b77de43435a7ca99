package store

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const testDay = 24 * time.Hour

func TestDescribeLimit(t *testing.T) {
	for _, test := range []struct {
		limit      Limit
		text, name string
		capacity   int64
	}{
		{Limit{Count: 10, Period: time.Minute}, "token-bucket:10/1m", "token-bucket/1m", 10},
		{Limit{Algorithm: LeakyBucket, Count: 5, Period: 90 * time.Second, Burst: 1}, "leaky-bucket:5/1m30s,burst=1",
			"leaky-bucket/1m30s", 1},
		{Limit{Algorithm: FixedWindow, Count: 7, Period: testDay}, "fixed-window:7/1d", "fixed-window/1d", 7},
		{Limit{Algorithm: SlidingLog, Count: 7, Period: time.Hour, Burst: 7}, "sliding-log:7/1h", "sliding-log/1h", 7},
		{Limit{Algorithm: SlidingCounter, Count: 5, Period: time.Hour, Slices: 2}, "sliding-counter:5/1h,slices=2",
			"sliding-counter/1h,2", 5},
		{Limit{Algorithm: 9, Count: 7, Period: time.Hour}, "algorithm(9):7/1h", "algorithm(9)/1h", 7},
	} {
		l := test.limit
		if name, text := l.DefaultName(), l.String(); name != test.name || text != test.text ||
			l.Capacity() != test.capacity {
			t.Errorf("%+v is %q, named %q, with a capacity of %d", l, text, name, l.Capacity())
		}
	}
}

// A window that begins with the first request ends one period after it, whatever the clock's windows are.
func TestAWindowFromTheFirstRequest(t *testing.T) {
	limit, err := ParseLimit("fixed-window:2/1m,from=first")
	if err != nil || !limit.FromFirst || limit.String() != "fixed-window:2/1m,from=first" ||
		limit.DefaultName() != "fixed-window/1m,first" {
		t.Fatalf("%+v %v", limit, err)
	}
	limit, _ = limit.Normalize()
	var s State
	second := func(n int64) Instant { return Instant(1_000_000 * n) }
	for _, step := range []struct {
		at      Instant
		allowed bool
	}{
		{second(90), true}, {second(125), true}, {second(149), false}, {second(150) - 1, false},
		{second(150), true}, {second(209), true}, {second(210) - 1, false}, {second(211), true},
	} {
		var d [1]Decision
		_, _ = Decide(Take, []Request{{Key: Key{Subject: "a"}, Limit: limit, Cost: 1}}, []*State{&s}, d[:], nil,
			step.at)
		if d[0].Allowed != step.allowed {
			t.Errorf("at %d: %+v", step.at, d[0])
		}
	}
	if err := limit.CheckStored(); !errors.Is(err, ErrInvalid) ||
		!strings.HasSuffix(err.Error(), "; leave from=first out") {
		t.Error("stores keep it:", err)
	}
}
