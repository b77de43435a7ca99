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

// A stride begins small, doubles while answers are quick, shrinks at a late one, and grows slowly from then on, between
// its bounds. The server rests from what came late, and not for long if it hangs.
func TestAStride(t *testing.T) {
	const quick = 100 * time.Microsecond
	const justInTime, late, way = quick + strideTime, quick + strideTime + 1, 80 * time.Millisecond
	type answer struct {
		keys int // 0 for a whole stride
		took time.Duration
		want int // after it
	}
	for name, c := range map[string][]answer{
		"between its bounds": {
			{0, quick, 20}, {0, justInTime, 40}, {0, quick, 80}, {0, quick, 160}, {0, quick, 320}, {0, quick, 640},
			{0, justInTime, 1000},
			{0, quick, 1000}, {0, late, 666}, {0, quick, 750}, {0, late, 500}, {0, late, 333}, {0, late, 222},
			{0, late, 148},
			{0, late, leastStride}, {0, late, leastStride}, {0, quick, 113}},
		// One that comes quickly says nothing of a whole one; one that comes late makes the next smaller than it was.
		"a part": {{0, quick, 20}, {0, quick, 40}, {0, quick, 80}, {0, quick, 160}, {159, quick, 160},
			{156, time.Second, 104}},
		"a server far away": {{0, way, 20}, {0, way + way/strideShare, 40}, {0, way + way/strideShare + 1, 40},
			{0, way, 46}},
		"late at once": {{0, quick, 20}, {0, late, 20}, {0, quick, 23}},
	} {
		s := NewStride()
		for i, a := range c {
			isLate := a.took-quick > strideTime && (a.took < way || a.took-way > way/strideShare)
			rest := time.Duration(0)
			if isLate {
				rest = min(a.took/2, longestRest)
			}
			if got := s.learn(cmp.Or(a.keys, s.Size()), a.took); s.Size() != a.want || got != rest {
				t.Errorf("%s: after answer %d, %s, the stride is %d, not %d, and it rests for %s", name, i+1, a.took,
					s.Size(), a.want, got)
				break
			}
		}
	}
}

// Exchanges come one at a time. Rests add up until they are worth a sleep, what the caller does meanwhile counts as
// rest, and an exchange that failed needs none.
func TestAnExchangeLetsTheServerRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quick, late = 100 * time.Microsecond, 1200 * time.Microsecond
		s, ended := NewStride(), time.Now()
		exchange := func(work time.Duration, problem error) (rested time.Duration) {
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
		want := func(rested, want time.Duration) {
			t.Helper()
			if rested != want {
				t.Errorf("it rested for %s, not %s", rested, want)
			}
		}
		want(exchange(quick, nil), 0)
		for range 4 { // the first sleep has a credit of 1 ms
			want(exchange(late, nil), 0)
		}
		want(exchange(quick, nil), 4*late/2-nap)
		want(exchange(late, nil), 0)
		want(exchange(late, nil), 0)
		time.Sleep(late - time.Microsecond)
		want(exchange(quick, nil), late-time.Microsecond)
		time.Sleep(time.Minute)
		want(exchange(late, context.DeadlineExceeded), time.Minute)
		want(exchange(quick, nil), 0)

		other := make(chan bool)
		go func() { exchange(late, nil); close(other) }()
		synctest.Wait()
		exchange(quick, nil)
		<-other
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.rested = time.Now().Add(time.Second)
		if err := s.Exchange(ctx, 100, func() error {
			t.Error("an exchange after the end")
			return nil
		}); err != context.Canceled {
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
