package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// foreignLimits are limits that others decide, one of each word.
var foreignLimits = []string{
	"fixed-window:5/1s,from=first", "fixed-window:5/1s,phase=370ms", "sliding-counter:5/1s,phase=1.5ms",
	"sliding-counter:5/1s,from=first", "token-bucket:5/1s,refill=1s", "token-bucket:6/1s,burst=7,refill=500ms",
	"token-bucket:5/1s,spacing=even", "token-bucket:5/1s,burst=5,spacing=even", "token-bucket:5/1s,burst=4,spacing=even",
}

// What describes limits of others is read as it is written, has a name of its own, and is refused by stores with the
// word to leave out.
func TestLimitsOfOthersAreReadAndRefused(t *testing.T) {
	names := map[string]bool{"fixed-window/1s": true, "sliding-counter/1s": true, "token-bucket/1s": true}
	for _, text := range foreignLimits {
		limit, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		normal, _ := limit.Normalize()
		if limit.String() != text || normal.String() != text {
			t.Errorf("%s is written %s, and normalized %s", text, limit, normal)
		}
		words := text[strings.LastIndex(text, ",")+1:]
		err = normal.CheckStored()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), text) ||
			!strings.HasSuffix(fmt.Sprint(err), "leave "+words+" out") {
			t.Errorf("%s: %v", text, err)
		}
		if name := normal.DefaultName(); names[name] && !normal.Even {
			t.Errorf("%s has the name %s of another limit", text, name)
		} else {
			names[name] = true
		}
	}
	if limit, _ := ParseLimit("10/1s,spacing=even"); limit.Burst != 0 {
		t.Error("a burst that is not given is", limit.Burst)
	} else if limit, _ = limit.Normalize(); limit.Burst != 1 {
		t.Error("nothing waits by default, and the burst is", limit.Burst)
	}
}

// theirs counts as another limiter does, from the requests that it admitted and nothing else.
func theirs(limit *Limit, admitted []Instant, now Instant) (used int64) {
	period, phase := Instant(limit.period()), Instant(limit.Phase.Microseconds())
	window := func(at Instant) Instant { return (at - phase) / period }
	switch kind := limit.Kind(); {
	case kind == refilledBucketKind:
		interval := Instant(limit.Refill.Microseconds())
		units, ends := limit.Count*int64(interval)/int64(period), Instant(0)
		for _, at := range append(admitted, now) {
			for ; admitted[0]+(ends+1)*interval <= at; ends++ {
				used = max(0, used-units)
			}
			used++
		}
		return used - 1
	case kind == Kind(FixedWindow):
		for _, at := range admitted {
			if window(at) == window(now) {
				used++
			}
		}
		return used
	case kind == Kind(SlidingCounter):
		before := int64(0)
		for _, at := range admitted {
			switch window(now) - window(at) {
			case 0:
				used++
			case 1:
				before++
			}
		}
		left := int64(period - (now-phase)%period)
		return used + (before*left+int64(period)-1)/int64(period)
	default: // HAProxy's
		begin, current, previous := admitted[0], int64(0), int64(0)
		turn := func(at Instant) {
			switch elapsed := at - begin; {
			case elapsed >= 2*period:
				begin, current, previous = at, 0, 0
			case elapsed >= period:
				begin, current, previous = begin+period, 0, current
			}
		}
		for _, at := range admitted {
			turn(at)
			current++
		}
		turn(now)
		return current + previous*int64(period-(now-begin))/int64(period)
	}
}

// The rules of limits that others decide count as those others do, and know when there is room again.
func TestLimitsOfOthersCountAsTheyDo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, text := range foreignLimits[1:6] {
		limit, _ := ParseLimit(text)
		limit, _ = limit.Normalize()
		for range 300 {
			var s State
			var admitted []Instant
			now := Instant(1_700_000_000_000_000 + random.Int64N(5_000_000))
			for range 40 {
				now += Instant(random.Int64N(400_000) * random.Int64N(2))
				if random.IntN(15) == 0 {
					now += Instant(random.Int64N(3_000_000))
				}
				used := int64(0)
				if len(admitted) > 0 {
					used = theirs(&limit, admitted, now)
				}
				if got := s.Used(now); got != used {
					t.Fatalf("%s after %d: %d in use, and it says %d", text, admitted, used, got)
				}
				room := random.Int64N(limit.Capacity())
				if at := s.UsedAtMost(room, now); s.Used(at) > room || at > now && s.Used(at-1) <= room {
					t.Fatalf("%s after %d at %d: %d are not in use from %d on: %d, and before: %d", text, admitted, now, room, at,
						s.Used(at), s.Used(at-1))
				}
				if used < limit.Capacity() {
					s.Charge(limit, 1, now)
					admitted = append(admitted, now)
				}
			}
			left := random.Int64N(limit.Capacity())
			if s.Adjust(limit, left, now); s.Used(now) != left {
				t.Fatalf("%s: %d are left of %d", text, s.Used(now), left)
			}
		}
	}
}

// A refill of a large limit is exact, although count × refill does not fit in 64 bits.
func TestARefillOfALargeLimitIsExact(t *testing.T) {
	for text, want := range map[string]int64{
		"900M/30d,refill=1d": 30_000_000, "1000M/360d,refill=36d": 100_000_000, "10/1m,refill=12s": 2, "10/1m": 0,
	} {
		limit, err := ParseLimit(text)
		if err == nil {
			limit, err = limit.Normalize()
		}
		if got := limit.RefillUnits(); err != nil || got != want {
			t.Errorf("%s: %d come back, not %d: %v", text, got, want, err)
		}
	}
}
