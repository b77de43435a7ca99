package probe

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var thorough = flag.Bool("thorough", false, "try every simulated server, not only one or two of each kind")

// seeds is that many with -thorough, and a quarter of them without.
func seeds(n uint64) uint64 {
	if *thorough {
		return n
	}
	return n / 4
}

// discovered is a server and what may be said about it.
type discovered struct {
	name   string
	server func(t *testing.T) *server
	// want are the limits that describe it: one of them is the limit found, or among the
	// alternatives where the limit is not said to be exact.
	want []string
	note string
	// requests and time are what it may take; 0 means 3000 and 10 minutes.
	requests int
	time     time.Duration
	// like: there are others of its kind, so that it is tried with -thorough only.
	like bool
}

func simulated(d decider) *server {
	return &server{decider: d, shortest: 100 * time.Microsecond, longest: 3 * time.Millisecond}
}

// sameLimit reports whether two limits decide alike.
func sameLimit(a, b store.Limit) bool {
	if a.Algorithm.HasBurst() && a.Algorithm == b.Algorithm && a.Refill == b.Refill && a.Capacity() == b.Capacity() {
		return a.Count*b.Period.Microseconds() == b.Count*a.Period.Microseconds()
	}
	a.Phase, b.Phase = 0, 0 // whose clock it is by is another question
	return a == b
}

func anyOf(t *testing.T, wanted []string, l store.Limit) bool {
	for _, text := range wanted {
		limit, err := store.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		if limit, err = limit.Normalize(); err != nil {
			t.Fatal(err)
		}
		if sameLimit(limit, l) {
			return true
		}
	}
	return false
}

func servers() (all []discovered) {
	for i, text := range []string{
		"token-bucket:10/1s", "token-bucket:100/1m", "token-bucket:10/1s,burst=6", "token-bucket:5/1s,burst=20",
		"token-bucket:60/1h,burst=3",
		"token-bucket:1000/1s", "token-bucket:50/1s,burst=500", "leaky-bucket:20/1s",
		"fixed-window:10/1s", "fixed-window:20/1m", "fixed-window:100/10s", "fixed-window:7/7s", "fixed-window:5/100ms",
		"fixed-window:300/30s",
		"fixed-window:10/10s,from=first", "fixed-window:60/1m,from=first", "fixed-window:5/1s,from=first", "fixed-window:3/2m,from=first",
		"fixed-window:200/5s,from=first",
		"sliding-log:10/1s", "sliding-log:50/30s", "sliding-log:5/1m", "sliding-log:100/1m", "sliding-log:25/7s",
		"sliding-counter:10/10s", "sliding-counter:100/1m", "sliding-counter:5/1s", "sliding-counter:40/30s",
		"sliding-counter:30/1m,slices=6", "sliding-counter:20/10s,slices=10", "sliding-counter:12/1m,slices=3",
		"sliding-counter:60/1m,slices=60",
	} {
		want := []string{strings.Replace(text, "leaky", "token", 1)}
		all = append(all, discovered{name: text, want: want, like: i%2 != 0,
			server: func(t *testing.T) *server { return simulated(newOurs(t, text)) }})
	}
	for _, text := range []string{"token-bucket:1/1s", "fixed-window:1/1s,from=first", "sliding-log:1/10s"} {
		want := []string{}
		_, numbers, _ := strings.Cut(text, ":")
		numbers, _, _ = strings.Cut(numbers, ",")
		for _, format := range []string{"token-bucket:%s", "fixed-window:%s,from=first", "sliding-log:%s"} {
			want = append(want, fmt.Sprintf(format, numbers))
		}
		all = append(all, discovered{name: text, want: want, server: func(t *testing.T) *server { return simulated(newOurs(t, text)) }})
	}
	for i, text := range []string{
		"token-bucket:10/1s", "token-bucket:60/1m", "fixed-window:10/5s", "fixed-window:30/1m,from=first",
		"sliding-log:10/10s", "sliding-counter:20/20s",
	} {
		want := []string{text}
		all = append(all, discovered{name: text + " jitter", want: want, like: i%3 != 1, server: func(t *testing.T) *server {
			s := simulated(newOurs(t, text))
			s.longest = 50 * time.Millisecond
			return s
		}}, discovered{name: text + " errors", want: want, like: i%2 != 0, server: func(t *testing.T) *server {
			s := simulated(newOurs(t, text))
			s.errors = 0.01
			return s
		}}, discovered{name: text + " status 503", want: want, like: i%3 != 2, server: func(t *testing.T) *server {
			s := simulated(newOurs(t, text))
			s.deniedStatus = 503
			return s
		}})
	}
	for i, text := range []string{"fixed-window:10/5s", "fixed-window:30/1m", "sliding-counter:20/20s"} {
		all = append(all, discovered{name: text + " clock ahead", want: []string{text}, like: i > 0, server: func(t *testing.T) *server {
			s := simulated(newOurs(t, text))
			s.skew = 1300 * time.Millisecond
			return s
		}})
	}
	for i, text := range []string{"token-bucket:10/1s", "fixed-window:10/5s,from=first", "sliding-log:10/10s"} {
		shared := discovered{name: text + " shared", want: []string{text}, note: "share", like: i > 0}
		shared.server = func(t *testing.T) *server {
			o := newOurs(t, text)
			o.shared = true
			return simulated(o)
		}
		all = append(all, shared)
	}
	return append(all,
		discovered{name: "nginx 10r/s burst=5", want: []string{"token-bucket:10/1s,burst=6"}, server: func(*testing.T) *server {
			return simulated(&nginxLimit{rate: 10_000, burst: 5})
		}},
		discovered{name: "nginx 30r/m burst=20", want: []string{"token-bucket:30/1m,burst=21"}, server: func(*testing.T) *server {
			return simulated(&nginxLimit{rate: 500, burst: 20})
		}},
		discovered{name: "nginx 100r/s", want: []string{"token-bucket:100/1s,burst=1"}, server: func(*testing.T) *server {
			return simulated(&nginxLimit{rate: 100_000})
		}},
		discovered{name: "haproxy 10 in 10s", note: "denied", want: []string{"sliding-counter:10/10s,from=first"},
			server: func(*testing.T) *server {
				return simulated(&haproxyRate{most: 10, period: 10_000})
			}},
		discovered{name: "haproxy 50 in 5s", note: "denied", want: []string{"sliding-counter:50/5s,from=first"},
			server: func(*testing.T) *server {
				return simulated(&haproxyRate{most: 50, period: 5000})
			}},
		discovered{name: "rounded", want: []string{"sliding-counter:10/1s"}, note: "nearest", server: func(*testing.T) *server {
			return simulated(&roundedCounter{most: 10, period: 1e6})
		}},
		discovered{name: "rounded of a minute", want: []string{"sliding-counter:60/1m"}, note: "nearest", server: func(*testing.T) *server {
			return simulated(&roundedCounter{most: 60, period: 60e6})
		}},
		discovered{name: "refreshed", want: []string{"fixed-window:10/10s,from=first"}, note: "denied", server: func(*testing.T) *server {
			return simulated(&refreshedCounter{most: 10, period: 10e6})
		}},
		discovered{name: "refreshed of a minute", want: []string{"fixed-window:30/1m,from=first"}, note: "denied",
			server: func(*testing.T) *server {
				return simulated(&refreshedCounter{most: 30, period: 60e6})
			}},
		discovered{name: "counted log", want: []string{"sliding-log:10/10s"}, note: "denied", server: func(*testing.T) *server {
			return simulated(&countedLog{most: 10, period: 10e6})
		}},
		discovered{name: "counted log of 40", want: []string{"sliding-log:40/5s"}, note: "denied", server: func(*testing.T) *server {
			return simulated(&countedLog{most: 40, period: 5e6})
		}},
		discovered{name: "filled up at intervals", want: []string{"token-bucket:10/10s,refill=10s"}, note: "first request",
			server: func(*testing.T) *server {
				return simulated(&intervals{most: 10, period: 10e6})
			}},
		discovered{name: "clock of a second", want: []string{"token-bucket:5/1s,burst=20"}, note: "clock",
			server: func(t *testing.T) *server {
				o := newOurs(t, "token-bucket:5/1s,burst=20")
				o.tick = 1e6
				return simulated(o)
			}},
		discovered{name: "ban", want: []string{"sliding-log:10/2s"}, note: "stays out for 15s", server: func(t *testing.T) *server {
			return simulated(&banning{decider: newOurs(t, "sliding-log:10/2s"), ban: 15 * time.Second})
		}},
		discovered{name: "ban of a minute", want: []string{"fixed-window:20/10s,from=first"}, note: "stays out for 1m",
			server: func(t *testing.T) *server {
				return simulated(&banning{decider: newOurs(t, "fixed-window:20/10s,from=first"), ban: time.Minute})
			}},
		discovered{name: "ban of a bucket", want: []string{"token-bucket:10/1s"}, note: "stays out for 30s",
			server: func(t *testing.T) *server {
				return simulated(&banning{decider: newOurs(t, "token-bucket:10/1s"), ban: 30 * time.Second})
			}},
	)
}

func TestServersAreNamedRightly(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	for _, c := range servers() {
		if c.like && !*thorough {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if c.requests == 0 {
				c.requests = 3000
			}
			if c.time == 0 {
				c.time = 10 * time.Minute
			}
			begin := time.Now()
			s := c.server(t)
			d, took := discover(t, s, Config{Quota: c.requests, MaxTime: c.time, Workers: 16}, 7)
			told := "nothing"
			right := d.Limit == nil && c.want == nil
			if d.Limit != nil {
				told = d.Limit.String()
				right = anyOf(t, c.want, *d.Limit)
				for _, other := range d.Alternatives {
					right = right || !d.Exact && anyOf(t, c.want, other)
				}
			}
			text := fmt.Sprintf("%s: told %s, exact %v, phase %s %v within %s, alternatives %v, notes %q, %d requests, %s, real %s",
				c.name, told, d.Exact, d.Phase, d.PhaseKnown, d.PhaseWithin,
				d.Alternatives, d.Notes, s.sent, took, time.Since(begin).Round(time.Millisecond))
			if !right || !strings.Contains(strings.Join(d.Notes, "; "), c.note) {
				t.Errorf("WRONG %s", text)
			} else {
				t.Log(text)
			}
			if d.PhaseKnown && d.Limit != nil {
				off := (d.Phase + s.skew) % d.Limit.Period
				if off > d.Limit.Period/2 {
					off -= d.Limit.Period
				}
				if off.Abs() > d.PhaseWithin+5*time.Millisecond {
					t.Errorf("phase %s within %s, off by %s", d.Phase, d.PhaseWithin, off)
				}
			}
			if s.sent > c.requests || took > c.time+time.Second {
				t.Errorf("the quota was exceeded: %d requests, %s", s.sent, took)
			}
		})
	}
}

// The limit that a server has is never ruled out, however uneven its answers are: each of these runs has an
// admission that may have been decided before its window began, by the time in the middle of sending and
// being answered.
func TestTheTruthIsNotRuledOut(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	t.Parallel()
	limit := newOurs(t, "fixed-window:10/1s,from=first").limit
	for _, seed := range []uint64{16, 151} {
		s := &server{decider: &milliseconds{most: 10, period: 1e6}, shortest: 300 * time.Microsecond, longest: 25 * time.Millisecond}
		d, _ := discover(t, s, Config{Quota: 3000, MaxTime: 10 * time.Minute, Workers: 16}, seed)
		if d.Limit == nil || *d.Limit != limit {
			t.Errorf("seed %d: found %v (%q), want %s", seed, d.Limit, d.Notes, limit)
		}
		if n := explain.HistoryOf(d.Events, false).Contradictions(&explain.Model{Limit: limit}, len(d.Events)); n > 0 {
			t.Errorf("seed %d: %d answers contradict the limit that the server has", seed, n)
		}
	}
}

// An honest server is never called a guess because a window ended while one of its subjects was asked.
func TestWindowsThatEndWhileASubjectIsAskedAreNoGuess(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	for seed := range seeds(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := simulated(newOurs(t, "fixed-window:20/2s"))
			r := runWhole(t, s, everything(s), seed)
			if c := r.check(checkAdmitted); c.Verdict != Pass || !r.Exact || r.withoutRetry().Overall() != Pass {
				t.Errorf("found %v, exact %v, notes %q: %+v", r.Limit, r.Exact, r.Notes, r.Checks)
			}
		})
	}
}
