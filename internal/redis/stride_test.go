package redisserver

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// A stride begins small, doubles while answers are quick, shrinks at a late one, and grows slowly from then on, between its
// bounds.
func TestAStride(t *testing.T) {
	const quick = 100 * time.Microsecond
	const justInTime, late, way = quick + strideTime, quick + strideTime + 1, 80 * time.Millisecond
	type answer struct {
		keys int // 0 for a whole stride
		took time.Duration
		want int // after it
	}
	for name, c := range map[string]struct {
		most    int
		answers []answer
	}{
		"between its bounds": {1000, []answer{
			{0, quick, 200}, {0, justInTime, 400}, {0, quick, 800}, {0, late, 533}, {0, quick, 600}, {0, quick, 676}, {0, late, 450},
			{0, late, 300}, {0, late, 200}, {0, late, 133}, {0, late, leastStride}, {0, late, leastStride}, {0, quick, 113}}},
		"no more than it may be": {300, []answer{{0, quick, 200}, {0, quick, 300}, {0, quick, 300}}},
		// One that comes quickly says nothing of a whole one; one that comes late makes the next smaller than it was.
		"a part":              {1000, []answer{{0, quick, 200}, {0, quick, 400}, {399, quick, 400}, {300, time.Second, 200}}},
		"a server far away":   {1000, []answer{{0, way, 200}, {0, way + way/strideShare, 400}, {0, way + way/strideShare + 1, 266}}},
		"less than the least": {2, []answer{{0, quick, 2}, {0, time.Second, 2}, {0, quick, 2}}},
	} {
		s := NewStride(c.most)
		for i, a := range c.answers {
			if s.took(cmp.Or(a.keys, s.Size()), a.took); s.Size() != a.want {
				t.Errorf("%s: after answer %d, %s, the stride is %d, not %d", name, i+1, a.took, s.Size(), a.want)
				break
			}
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

// The last generation is remembered whole, and what is older than two is not.
func TestSeenLatelyRemembersAGeneration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := NewSeenAll()
		seen.generation = rapid.IntRange(1, 50).Draw(t, "generation")
		n := rapid.IntRange(0, 300).Draw(t, "keys")
		for i := range n {
			if !seen.First(fmt.Sprint(i)) {
				t.Fatalf("number %d was there before it came", i)
			}
			if oldest := max(0, i+1-seen.generation); seen.First(fmt.Sprint(oldest)) {
				t.Fatalf("after number %d, number %d comes for the first time again", i, oldest)
			}
		}
		has := func(i int) bool { return seen.Has(fmt.Sprint(i)) }
		for i := range n {
			switch age := n - i; { // 1 is the last
			case age <= seen.generation && !has(i):
				t.Fatalf("of the last %d, number %d is forgotten", seen.generation, age)
			case age > 2*seen.generation && has(i):
				t.Fatalf("number %d is still there with generations of %d", age, seen.generation)
			}
		}
	})
}
