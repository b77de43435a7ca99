package interval

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A limit whose windows begin at an instant of their own is told from the same one with windows elsewhere, and from
// one unit more or less.
func TestWindowsWithAPhaseOfTheirOwn(t *testing.T) {
	for _, text := range []string{
		"fixed-window:10/1s,phase=370ms", "sliding-counter:10/1s,phase=370ms", "sliding-counter:10/1s,from=first",
		"token-bucket:10/1s,refill=1s", "token-bucket:10/1s,burst=15,refill=500ms",
	} {
		limit, err := store.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		if limit, err = limit.Normalize(); err != nil {
			t.Fatal(err)
		}
		elsewhere := func(l *store.Limit) {
			switch {
			case l.Phase != 0:
				l.Phase = 700 * time.Millisecond
			case l.FromFirst:
				l.FromFirst = false
			default:
				l.Refill = 0
			}
		}
		for _, test := range []struct {
			name        string
			change      func(*store.Limit)
			over, under bool
		}{
			{"right", func(*store.Limit) {}, false, false},
			{"one more", func(l *store.Limit) { l.Count, l.Burst = l.Count+2, l.Burst+2 }, true, false},
			{"two less", func(l *store.Limit) { l.Count, l.Burst = l.Count-2, l.Burst-2 }, false, true},
			{"elsewhere", elsewhere, true, true},
		} {
			w := &world{limit: limit, keys: 3, options: Options{Resolution: time.Millisecond, Skew: -1}}
			random := rand.New(rand.NewPCG(3, 4))
			for at := epoch; at < epoch+20_000_000; at += store.Instant(random.Int64N(10_000)) {
				w.ask(random.IntN(3), at, 1000+store.Instant(random.Int64N(1000)), 500, 1)
			}
			f, sensitivity := w.run(with(limit, test.change))
			wrong := f.OverAdmitted + f.UnderAdmitted
			switch {
			case test.name == "elsewhere" && wrong > 0:
			case test.name == "elsewhere", f.OverAdmitted > 0 != test.over, f.UnderAdmitted > 0 != test.under:
				t.Errorf("%s, %s: %d too many and %d too few; an excess of %d and %d would have shown", text, test.name, f.OverAdmitted,
					f.UnderAdmitted, sensitivity.LeastOver, sensitivity.LeastUnder)
			}
			if test.name == "right" && (sensitivity.LeastOver > 2 || sensitivity.LeastUnder > 3) {
				t.Errorf("%s: an excess of %d and %d would have shown", text, sensitivity.LeastOver, sensitivity.LeastUnder)
			}
		}
	}
}

// Until windows begin anew, a wrong phase under which the denied are charged can explain as much as the true one, and
// then turn out to be wrong. In these worlds one does.
func TestAPhaseThatChargesTheDeniedIsNotKept(t *testing.T) {
	for _, seed := range []uint64{71, 359, 366, 1759, 4898, 9747, 13996} {
		random := rand.New(rand.NewPCG(seed, 2))
		w := randomWorld(random, 20+random.IntN(400))
		if f, sensitivity := w.run(newExact(w.limit)); f.OverAdmitted+f.UnderAdmitted > 0 || !ownPhase(&w.limit) {
			t.Errorf("seed %d: %s: %+v, %+v", seed, w.limit, f, sensitivity)
		}
	}
}

// A request whose fate is not known keeps no window alive.
func TestWindowsBeginAnewAfterWhatMayNotHaveBeenCharged(t *testing.T) {
	a := New(Options{})
	a.SetLimit(0, parse(t, "sliding-counter:2/1s,from=first"))
	observe := func(milliseconds store.Instant, answer Answer) {
		at := epoch + 1000*milliseconds
		a.Observe(Observation{Sent: at, Answered: at + 1000, Cost: 1, Answer: answer})
	}
	observe(0, Admitted)
	observe(900, Uncertain)
	observe(1800, Uncertain)
	observe(2700, Admitted) // the first of a window, unless one of those before was charged
	observe(2750, Admitted)
	observe(3650, Denied)
	a.Settle(maxInstant)
	if f := a.Finding(); f.OverAdmitted+f.UnderAdmitted > 0 {
		t.Errorf("%+v", f)
	}
}

// A clock that runs slow or fast moves windows also where many periods are judged at once.
func TestPhasesFollowAClockThatDrifts(t *testing.T) {
	for _, text := range []string{"fixed-window:10/1s", "sliding-counter:10/1s,from=first", "token-bucket:10/1s,refill=1s"} {
		for _, drift := range []float64{-0.00049, 0.00049} {
			random := rand.New(rand.NewPCG(1, 6))
			w := &world{limit: parse(t, text), keys: 1, drift: drift}
			for at := epoch; at < epoch+300_000_000; at += store.Instant(random.Int64N(100_000)) {
				w.ask(0, at, 0, 0, 1)
			}
			w.decide(newExact(w.limit))
			a := New(Options{Resolution: time.Microsecond, Skew: -1})
			a.SetLimit(0, w.limit)
			for i := range w.asked {
				a.Observe(w.asked[i].Observation)
			}
			a.Settle(maxInstant)
			if f := a.Finding(); f.OverAdmitted+f.UnderAdmitted > 0 {
				t.Errorf("%s, drift %f: %+v", text, drift, f)
			}
		}
	}
}

// Subjects that are asked for seldom begin their windows anew, and that is no mistake.
func TestWindowsThatBeginAnew(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 5))
		limit := limitOf(7+random.IntN(2), 2+random.Int64N(5), time.Second, random)
		w := &world{limit: limit, keys: 1, options: Options{Resolution: time.Millisecond, Skew: -1}}
		for at, n := epoch, 0; n < 200; n++ {
			for range random.IntN(10) {
				w.ask(0, at+store.Instant(random.Int64N(100_000)), 1000, 500, 1)
			}
			at += store.Instant(random.Int64N(4_000_000))
		}
		if f, _ := w.run(newExact(limit)); f.OverAdmitted+f.UnderAdmitted > 0 || f.Keys != 1 {
			t.Errorf("seed %d, %s: %+v", seed, limit, f)
		}
		more := with(limit, func(l *store.Limit) { l.Count, l.Burst = l.Count+4, l.Burst+4 })
		if f, _ := w.run(more); f.OverAdmitted == 0 || f.KeysOver != 1 {
			t.Errorf("seed %d, %s with 4 more: %+v", seed, limit, f)
		}
	}
}
