package interval

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// serverFunc is a server that is a function.
type serverFunc func(key uint32, cost int64, now store.Instant) bool

func (f serverFunc) allows(key uint32, cost int64, now store.Instant) bool {
	return f(key, cost, now)
}

// mistakes are ways to make a right server of a limit a wrong one. Those of whole services are in the catalogue of the
// commands.
var mistakes = map[string]func(right *exact) server{
	"one bucket for all": func(right *exact) server {
		return serverFunc(func(_ uint32, cost int64, now store.Instant) bool { return right.allows(0, cost, now) })
	},
	"cost ignored": func(right *exact) server {
		return serverFunc(func(key uint32, _ int64, now store.Instant) bool { return right.allows(key, 1, now) })
	},
	"fails open for a while": func(right *exact) server {
		from := epoch + runLength/2 + 2_800_000
		return serverFunc(func(key uint32, cost int64, now store.Instant) bool {
			return from <= now && now < from+300_000 || right.allows(key, cost, now)
		})
	},
	"lost in a restart": func(right *exact) server {
		done := false
		return serverFunc(func(key uint32, cost int64, now store.Instant) bool {
			if now >= epoch+runLength/2+2_400_000 && !done {
				right.states, done = map[uint32]*store.State{}, true
			}
			return right.allows(key, cost, now)
		})
	},
	"charges the denied": func(right *exact) server {
		right.chargesDenied = true
		return right
	},
	"no limit": func(*exact) server {
		return serverFunc(func(uint32, int64, store.Instant) bool { return true })
	},
	"nobody gets in": func(*exact) server {
		return serverFunc(func(uint32, int64, store.Instant) bool { return false })
	},
}

const runLength = store.Instant(20_000_000)

// A request just before the end of a window that began with the first one belongs to it, though the window of a clock
// that runs fast would have ended.
func TestTheLastRequestOfAWindowIsNotTheFirstOfTheNext(t *testing.T) {
	w := &world{limit: parse(t, "fixed-window:2/1s,from=first"), keys: 1}
	for _, at := range []store.Instant{0, 999_900, 1_100_000, 1_950_000} {
		w.ask(0, epoch+at, 1, 1, 1)
	}
	if f := w.run(newExact(w.limit)); f.Charged != 4 || f.OverAdmitted > 0 {
		t.Errorf("%+v", f)
	}
}

// flood asks three keys three times as often as is allowed, with answers that take up to most, and
// pauses now and then.
func flood(limit store.Limit, cost int64, most store.Instant) *world {
	random := rand.New(rand.NewPCG(4, uint64(most)))
	w := &world{limit: limit, options: Options{Resolution: time.Millisecond}, keys: 3, clock: 123_456, ticks: 1000}
	for at := epoch; at < epoch+runLength; at += 10_000 {
		if (at-epoch)%5_000_000 < 1_300_000 {
			continue
		}
		there, back := store.Instant(random.Int64N(int64(most))), store.Instant(random.Int64N(int64(most)))
		w.ask(int(random.Int64N(3)), at, there, back, cost)
	}
	return w
}

// What a server keeps instead of its limit, or does wrong, is found with the right words, and the same server without
// that is not called wrong.
func TestEachDefectIsFound(t *testing.T) {
	for _, d := range []struct {
		limit, mistake string // the limit that is kept, or one of the mistakes
		over, under    bool
	}{
		{"fixed-window:10/1s", "fixed-window:11/1s", true, false},
		{"fixed-window:10/1s,from=first", "fixed-window:11/1s,from=first", true, false},
		{"sliding-log:10/1s", "sliding-log:11/1s", true, false},
		{"sliding-counter:10/1s", "sliding-counter:14/1s", true, false},
		{"token-bucket:10/1s,burst=20", "token-bucket:10/1s,burst=21", true, false},
		{"sliding-log:10/1s", "fixed-window:10/1s", true, false},
		{"sliding-counter:10/1s", "fixed-window:10/1s", true, false},
		{"leaky-bucket:10/1s,burst=5", "leaky-bucket:10/1100ms,burst=5", false, true},
		{"fixed-window:10/1s,from=first", "fixed-window:10/1100ms,from=first", false, true},
		{"fixed-window:10/1s", "fixed-window:9/1s", false, true},
		{"sliding-log:10/1s", "sliding-log:9/1s", false, true},
		{"sliding-counter:10/1s", "sliding-counter:9/1s", false, true},
		{"token-bucket:10/1s", "one bucket for all", false, true},
		{"sliding-log:10/1s", "fails open for a while", true, false},
		{"fixed-window:10/1s", "lost in a restart", true, false},
		{"token-bucket:10/1s", "cost ignored", true, false},
		{"token-bucket:10/1s", "charges the denied", false, true},
		{"sliding-counter:10/1s", "no limit", true, false},
		{"token-bucket:10/1s", "no limit", true, false},
		{"sliding-log:10/1s", "nobody gets in", false, true},
	} {
		limit, cost := parse(t, d.limit), int64(1)
		if d.mistake == "cost ignored" {
			cost = 3
		}
		var wrong server
		if mistake := mistakes[d.mistake]; mistake != nil {
			wrong = mistake(newExact(limit))
		} else {
			wrong = newExact(parse(t, d.mistake))
		}
		f := flood(limit, cost, 10_000).run(wrong)
		if f.OverAdmitted > 0 != d.over || f.UnderAdmitted > 0 != d.under || f.KeysOver > 0 != d.over ||
			f.KeysUnder > 0 != d.under {
			t.Errorf("%s, and %s: %+v", d.limit, d.mistake, f)
		}
		if d.mistake == "fixed-window:10/1s" && limit.Algorithm == store.SlidingLog &&
			(f.WorstUnits != 20 || f.WorstRatio != 2) {
			t.Errorf("the worst of a fixed window is %d units, %.2f", f.WorstUnits, f.WorstRatio)
		}
		if limit.Algorithm.HasBurst() && d.mistake == "no limit" && f.WorstRatio < 8 { // 80 units are left after 4 s
			t.Errorf("the worst of no bucket is %.2f", f.WorstRatio)
		}
		f = flood(limit, cost, 10_000).run(newExact(limit))
		if f.OverAdmitted > 0 || f.UnderAdmitted > 0 || f.PeakRatio != 1 || f.UnderIfFree > 0 {
			t.Errorf("%s, and right: %+v", d.limit, f)
		}
	}
}

func parse(t *testing.T, text string) store.Limit {
	t.Helper()
	limit, err := store.ParseLimit(text)
	if err == nil {
		limit, err = limit.Normalize()
	}
	if err != nil {
		t.Fatal(err)
	}
	return limit
}
