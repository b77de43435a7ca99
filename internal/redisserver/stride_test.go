package redisserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A stride begins small, doubles while answers are quick, shrinks at a late one, and grows slowly from then on, between its
// bounds.
func TestAStride(t *testing.T) {
	const quick = 100 * time.Microsecond
	const justInTime, late = quick + strideTime, quick + strideTime + 1
	s := NewStride(1000)
	for i, test := range []struct {
		took time.Duration
		want int // after it
	}{
		{quick, 200}, {justInTime, 400}, {quick, 800}, {late, 533}, {quick, 600}, {quick, 676}, {late, 450}, {late, 300}, {late, 200},
		{late, 133}, {late, leastStride}, {late, leastStride}, {quick, 113},
	} {
		if s.took(s.Size(), test.took); s.Size() != test.want {
			t.Fatalf("after answer %d, %s, the stride is %d, not %d", i+1, test.took, s.Size(), test.want)
		}
	}
	for range 100 {
		s.took(s.Size(), quick)
	}
	if s.Size() != 1000 {
		t.Errorf("after many quick answers the stride is %d", s.Size())
	}
}

// A part of a stride that comes quickly says nothing of a whole one. One that comes late makes the next ones smaller than it was.
func TestAPartOfAStride(t *testing.T) {
	s := NewStride(1000)
	for range 3 {
		s.took(s.Size(), time.Millisecond)
	}
	if s.took(s.Size()-1, time.Millisecond); s.Size() != 800 {
		t.Errorf("after a part the stride is %d", s.Size())
	}
	if s.took(300, time.Second); s.Size() != 200 {
		t.Errorf("after a late part the stride is %d", s.Size())
	}
}

// A server far away may be later, by a share of the way to it.
func TestAStrideOfAServerFarAway(t *testing.T) {
	const way = 80 * time.Millisecond
	s := NewStride(1000)
	s.took(100, way)
	if s.took(200, way+way/strideShare); s.Size() != 400 {
		t.Errorf("a little later than the way: %d", s.Size())
	}
	if s.took(400, way+way/strideShare+1); s.Size() != 266 {
		t.Errorf("later: %d", s.Size())
	}
}

// A pace can allow less than the least stride.
func TestAStrideOfFewKeys(t *testing.T) {
	s := NewStride(2)
	for _, took := range []time.Duration{time.Millisecond, time.Second, time.Millisecond} {
		if s.took(s.Size(), took); s.Size() != 2 {
			t.Errorf("after %s: %d", took, s.Size())
		}
	}
}

// Between two exchanges a scan pauses for as long as the server was busy, so that most others find it idle. The way there and
// back is not the server's work, and a server that hangs is not waited for longer.
func TestAStridePauses(t *testing.T) {
	for _, test := range []struct{ quickest, took, want time.Duration }{
		{100 * time.Microsecond, 100 * time.Microsecond, 100 * time.Microsecond},
		{100 * time.Microsecond, 700 * time.Microsecond, 700 * time.Microsecond},
		{80 * time.Millisecond, 80 * time.Millisecond, mostQuick},
		{80 * time.Millisecond, 83 * time.Millisecond, 3*time.Millisecond + mostQuick},
		{time.Millisecond, 2 * time.Second, longestPause},
	} {
		s := NewStride(1000)
		s.took(100, test.quickest)
		if got := s.took(100, test.took); got != test.want {
			t.Errorf("after %s, %s at best, the pause is %s, not %s", test.took, test.quickest, got, test.want)
		}
	}
}

// The next exchange begins when the server has rested from the one before. What the caller does meanwhile counts as rest, and
// an exchange that failed needs none.
func TestAnExchangeLetsTheServerRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = 300 * time.Microsecond
		s, ended := NewStride(1000), time.Now()
		exchange := func(problem error) (rested time.Duration) {
			t.Helper()
			if err := s.Exchange(t.Context(), 100, func() error {
				rested = time.Since(ended)
				time.Sleep(work)
				ended = time.Now()
				return problem
			}); err != problem {
				t.Fatal(err)
			}
			return rested
		}
		first := exchange(nil)
		second := exchange(nil)
		time.Sleep(work - time.Microsecond)
		third := exchange(nil)
		time.Sleep(time.Minute)
		failed := exchange(context.DeadlineExceeded)
		again := exchange(nil)
		if first != 0 || second != work || third != work || failed != time.Minute || again != 0 {
			t.Errorf("it rested for %s, %s, %s, %s, %s", first, second, third, failed, again)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Exchange(ctx, 100, func() error { t.Error("an exchange after the end"); return nil }); err != context.Canceled {
			t.Error(err)
		}
	})
}
