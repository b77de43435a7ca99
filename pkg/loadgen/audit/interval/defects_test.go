package interval

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// These are the servers of the catalogue: limits as people build them, each with a mistake.

// serverFunc is a server that is a function.
type serverFunc func(key uint32, cost int64, now store.Instant) bool

func (f serverFunc) allows(key uint32, cost int64, now store.Instant) bool {
	return f(key, cost, now)
}

// with returns a right server of another limit than was promised.
func with(limit store.Limit, change func(*store.Limit)) server {
	change(&limit)
	return newExact(limit)
}

// stale looks at what was used some time ago, as several do that read, decide and write without a
// lock.
func stale(limit store.Limit, age store.Instant) server {
	type charge struct {
		at   store.Instant
		cost int64
	}
	written, late := newExact(limit), map[uint32][]charge{}
	return serverFunc(func(key uint32, cost int64, now store.Instant) bool {
		state := written.states[key]
		if state == nil {
			state = &store.State{}
			written.states[key] = state
		}
		for len(late[key]) > 0 && late[key][0].at+age <= now {
			c := late[key][0]
			state.Charge(limit, c.cost, c.at)
			late[key] = late[key][1:]
		}
		if state.Used(now)+cost > limit.Capacity() {
			return false
		}
		late[key] = append(late[key], charge{now, cost})
		return true
	})
}

// forgetting loses everything at an instant, as a cache that is restarted.
func forgetting(limit store.Limit, when store.Instant) server {
	s, done := newExact(limit), false
	return serverFunc(func(key uint32, cost int64, now store.Instant) bool {
		if now >= when && !done {
			s.states, done = map[uint32]*store.State{}, true
		}
		return s.allows(key, cost, now)
	})
}

// refreshing counts with INCR and sets the expiry again: with each request, or with each that it
// denies.
func refreshing(limit store.Limit, byDenied bool) server {
	type counter struct {
		count int64
		ends  store.Instant
	}
	counters := map[uint32]*counter{}
	return serverFunc(func(key uint32, cost int64, now store.Instant) bool {
		c := counters[key]
		if c == nil || now >= c.ends {
			c = &counter{ends: now + periodOf(&limit)}
			counters[key] = c
		}
		c.count += cost
		allowed := c.count <= limit.Count
		if !allowed || !byDenied {
			c.ends = now + periodOf(&limit)
		}
		return allowed
	})
}

// open lets everybody in from an instant to another one.
func open(s server, from, to store.Instant) server {
	return serverFunc(func(key uint32, cost int64, now store.Instant) bool {
		return from <= now && now < to || s.allows(key, cost, now)
	})
}

// replicas each count for themselves.
func replicas(limit store.Limit, count int) server {
	var all []server
	for range count {
		all = append(all, newExact(limit))
	}
	next := 0
	return serverFunc(func(key uint32, cost int64, now store.Instant) bool {
		next++
		return all[next%count].allows(key, cost, now)
	})
}

// wholeSeconds fills a bucket by the whole seconds since the last request, and forgets the rest.
func wholeSeconds(limit store.Limit) server {
	type bucket struct {
		tokens int64
		at     store.Instant
	}
	buckets := map[uint32]*bucket{}
	return serverFunc(func(key uint32, cost int64, now store.Instant) bool {
		b := buckets[key]
		if b == nil {
			b = &bucket{limit.Burst, now}
			buckets[key] = b
		}
		seconds := int64((now - b.at) / 1_000_000)
		b.tokens = min(limit.Burst, b.tokens+seconds*1_000_000*limit.Count/int64(periodOf(&limit)))
		b.at = now
		if b.tokens < cost {
			return false
		}
		b.tokens -= cost
		return true
	})
}

// clearing empties a log as a whole when its oldest entry is old enough.
func clearing(limit store.Limit) server {
	return with(limit, func(l *store.Limit) { l.Algorithm, l.FromFirst = store.FixedWindow, true })
}

func withChargedDenials(limit store.Limit) server {
	s := newExact(limit)
	s.chargesDenied = true
	return s
}

// times returns a limit's duration so many times as long.
func times(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor).Truncate(time.Microsecond)
}

// defect is a server with a mistake, and what is to be found.
type defect struct {
	name, limit string
	cost        int64
	make        func(store.Limit) server
	over, under bool
}

const runLength = store.Instant(20_000_000)

func defects() []defect {
	count := func(n int64) func(store.Limit) server {
		return func(l store.Limit) server {
			return with(l, func(l *store.Limit) { l.Count, l.Burst = l.Count+n, l.Burst+n })
		}
	}
	algorithm := func(a store.Algorithm) func(store.Limit) server {
		return func(l store.Limit) server { return with(l, func(l *store.Limit) { l.Algorithm, l.Slices = a, 0 }) }
	}
	period := func(factor float64) func(store.Limit) server {
		return func(l store.Limit) server {
			return with(l, func(l *store.Limit) { l.Period = times(l.Period, factor) })
		}
	}
	burst := func(n int64) func(store.Limit) server {
		return func(l store.Limit) server { return with(l, func(l *store.Limit) { l.Burst += n }) }
	}
	keyless := func(l store.Limit) server {
		s := newExact(l)
		return serverFunc(func(_ uint32, cost int64, now store.Instant) bool { return s.allows(0, cost, now) })
	}
	costless := func(l store.Limit) server {
		s := newExact(l)
		return serverFunc(func(key uint32, _ int64, now store.Instant) bool { return s.allows(key, 1, now) })
	}
	never := func(store.Limit) server {
		return serverFunc(func(uint32, int64, store.Instant) bool { return true })
	}
	always := func(store.Limit) server {
		return serverFunc(func(uint32, int64, store.Instant) bool { return false })
	}
	reset := func(l store.Limit) server { return forgetting(l, epoch+runLength/2+2_400_000) }
	gap := func(l store.Limit) server {
		return open(newExact(l), epoch+runLength/2+2_800_000, epoch+runLength/2+3_100_000)
	}
	three := func(l store.Limit) server { return replicas(l, 3) }
	race := func(l store.Limit) server { return stale(l, 30_000) }
	return []defect{
		{"off by one, fixed window", "fixed-window:10/1s", 1, count(1), true, false},
		{"off by one, from the first", "fixed-window:10/1s,from=first", 1, count(1), true, false},
		{"off by one, log", "sliding-log:10/1s", 1, count(1), true, false},
		{"four too many, counter", "sliding-counter:10/1s", 1, count(4), true, false},
		{"two too many, counter in slices", "sliding-counter:10/1s,slices=10", 1, count(2), true, false},
		{"off by one, burst", "token-bucket:10/1s,burst=20", 1, burst(1), true, false},
		{"fixed window sold as a log", "sliding-log:10/1s", 1, algorithm(store.FixedWindow), true, false},
		{"fixed window sold as a counter", "sliding-counter:10/1s", 1, algorithm(store.FixedWindow), true, false},
		{"log cleared as a whole", "sliding-log:10/1s", 1, clearing, true, false},
		{"race", "token-bucket:10/1s", 1, race, true, false},
		{"race in a window", "fixed-window:10/1s,from=first", 1, race, true, false},
		{"counts lost in a restart", "fixed-window:10/1s", 1, reset, true, false},
		{"bucket lost in a restart", "token-bucket:10/1s,burst=20", 1, reset, true, false},
		{"expiry refreshed by each request", "fixed-window:10/1s,from=first", 1,
			func(l store.Limit) server { return refreshing(l, false) }, false, true},
		{"expiry refreshed by the denied", "fixed-window:10/1s,from=first", 1,
			func(l store.Limit) server { return refreshing(l, true) }, false, true},
		{"expiry never set", "fixed-window:10/1s", 1, period(1e6), false, true},
		{"one bucket for all", "token-bucket:10/1s", 1, keyless, false, true},
		{"one window for all", "fixed-window:10/1s", 1, keyless, false, true},
		{"fails open for a while", "sliding-log:10/1s", 1, gap, true, false},
		{"fails open for a while, window", "fixed-window:10/1s", 1, gap, true, false},
		{"each replica counts", "token-bucket:10/1s", 1, three, true, false},
		{"each replica counts windows", "fixed-window:10/1s", 1, three, true, false},
		{"whole seconds", "token-bucket:10/1s", 1, wholeSeconds, false, true},
		{"leaks too fast", "leaky-bucket:10/1s,burst=5", 1, period(0.9), true, false},
		{"leaks too slowly", "leaky-bucket:10/1s,burst=5", 1, period(1.1), false, true},
		{"denies too early", "fixed-window:10/1s", 1, count(-1), false, true},
		{"denies too early, log", "sliding-log:10/1s", 1, count(-1), false, true},
		{"denies too early, counter", "sliding-counter:10/1s", 1, count(-1), false, true},
		{"denies too early, from the first", "fixed-window:10/1s,from=first", 1, count(-1), false, true},
		{"windows too short", "fixed-window:10/1s,from=first", 1, period(0.9), true, false},
		{"windows too long", "fixed-window:10/1s,from=first", 1, period(1.1), false, true},
		{"phase that moves", "fixed-window:10/1s", 1, period(0.97), true, false},
		{"cost ignored", "token-bucket:10/1s", 3, costless, true, false},
		{"cost ignored in a window", "fixed-window:10/1s", 3, costless, true, false},
		{"bucket charges the denied", "token-bucket:10/1s", 1, withChargedDenials, false, true},
		{"no limit", "sliding-counter:10/1s", 1, never, true, false},
		{"nobody gets in", "sliding-log:10/1s", 1, always, false, true},
	}
}

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

// Each mistake is found with the right words, and the same server without it is not called wrong.
func TestEachDefectIsFound(t *testing.T) {
	for _, d := range defects() {
		limit := parse(t, d.limit)
		f := flood(limit, d.cost, 10_000).run(d.make(limit))
		if f.OverAdmitted > 0 != d.over || f.UnderAdmitted > 0 != d.under ||
			f.KeysOver > 0 != d.over || f.KeysUnder > 0 != d.under {
			t.Errorf("%s: %+v", d.name, f)
		}
		t.Logf("%-35s over %4d, under %4d, worst %.2f, peak %.2f",
			d.name, f.OverAdmitted, f.UnderAdmitted, f.WorstRatio, f.PeakRatio)
		if d.name == "fixed window sold as a log" && (f.WorstUnits != 20 || f.WorstRatio != 2) {
			t.Errorf("the worst of a fixed window is %d units, %.2f", f.WorstUnits, f.WorstRatio)
		}
		f = flood(limit, d.cost, 10_000).run(newExact(limit))
		if f.OverAdmitted > 0 || f.UnderAdmitted > 0 || f.PeakRatio != 1 || f.UnderIfFree > 0 {
			t.Errorf("%s, but right: %+v", d.name, f)
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
