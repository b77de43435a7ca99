package interval

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// epoch is when the runs of these tests begin, by the clock of whoever asks.
const epoch = store.Instant(1_700_000_000_123_457)

// server decides requests in the order in which they reach it, by its own clock.
type server interface {
	allows(key uint32, cost int64, now store.Instant) bool
}

// asked is a request on its way.
type asked struct {
	Observation
	decided store.Instant
	lost    bool // no answer came
	never   bool // it did not reach the server
}

// world is a run in virtual time.
type world struct {
	limit   store.Limit
	options Options
	clock   store.Instant // of the server, ahead of ours
	ticks   store.Instant // of the server's clock
	drift   float64       // by which part the server's clock runs fast
	// uncertain: those who are turned away do not know by which limit.
	uncertain bool
	keys      int
	asked     []asked
	reports   func() *Reported // what the server reported last
}

// ask adds a request that takes some time to the server and some back.
func (w *world) ask(key int, at, there, back store.Instant, cost int64) *asked {
	w.asked = append(w.asked, asked{
		Observation: Observation{Key: uint32(key), Sent: at, Answered: at + there + back, Cost: cost},
		decided:     at + there,
	})
	return &w.asked[len(w.asked)-1]
}

// run lets a server decide, and an Auditor judge it.
func (w *world) run(s server) audit.Finding {
	w.decide(s)
	return w.audit()
}

func (w *world) decide(s server) {
	slices.SortStableFunc(w.asked, func(a, b asked) int { return int(a.decided - b.decided) })
	for i := range w.asked {
		a := &w.asked[i]
		a.Answer = Unknown
		if a.never {
			continue
		}
		now := a.decided + w.clock + store.Instant(float64(a.decided-epoch)*w.drift)
		if w.ticks > 1 {
			now -= now % w.ticks
		}
		allowed := s.allows(a.Key, a.Cost, now)
		switch {
		case a.lost:
		case allowed:
			a.Answer = Admitted
		case w.uncertain:
			a.Answer = Uncertain
		default:
			a.Answer = Denied
		}
		if w.reports != nil && !a.lost {
			a.Reported = w.reports()
		}
	}
}

// audit gives the answers to an Auditor as they come.
func (w *world) audit() audit.Finding {
	a := New(w.options)
	for key := range w.keys {
		a.SetLimit(uint32(key), w.limit)
	}
	bySent := slices.Clone(w.asked)
	slices.SortStableFunc(bySent, func(a, b asked) int { return int(a.Sent - b.Sent) })
	answered := map[store.Instant]int{}
	slices.SortStableFunc(w.asked, func(a, b asked) int { return int(a.Answered - b.Answered) })
	next := 0
	for i := range w.asked {
		a.Observe(w.asked[i].Observation)
		answered[w.asked[i].Sent]++
		for next < len(bySent) && answered[bySent[next].Sent] > 0 {
			answered[bySent[next].Sent]--
			next++
		}
		if i%16 == 0 && next < len(bySent) {
			a.Settle(bySent[next].Sent)
		}
	}
	a.Settle(maxInstant)
	return a.Finding()
}

// exact is a server that is right: pkg/limiter/store's own rules.
type exact struct {
	limit         store.Limit
	chargesDenied bool
	states        map[uint32]*store.State
}

func newExact(limit store.Limit) *exact {
	return &exact{limit: limit, states: map[uint32]*store.State{}}
}

func (s *exact) allows(key uint32, cost int64, now store.Instant) bool {
	return s.decide(key, cost, now).Allowed
}

func (s *exact) decide(key uint32, cost int64, now store.Instant) (d store.Decision) {
	state := s.states[key]
	if state == nil {
		state = &store.State{}
		s.states[key] = state
	}
	request := store.Request{Limit: s.limit, Cost: cost}
	store.DecideOne(store.Take, &request, state, &d, now)
	if !d.Allowed && s.chargesDenied {
		state.Charge(s.limit, cost, now)
		d = state.Answer(&request, now, false)
	}
	return d
}

// limitOf returns a limit of any kind that there is.
func limitOf(kind int, count int64, period time.Duration, random *rand.Rand) store.Limit {
	l := store.Limit{Count: count, Period: period}
	switch kind {
	case 0, 1:
		l.Algorithm = store.TokenBucket + store.Algorithm(kind)
		l.Burst = 1 + random.Int64N(2*count)
	case 2:
		l.Algorithm = store.FixedWindow
	case 3:
		l.Algorithm, l.FromFirst = store.FixedWindow, true
	case 4:
		l.Algorithm = store.SlidingLog
	case 5:
		l.Algorithm = store.SlidingCounter
	case 6:
		l.Algorithm, l.Slices = store.SlidingCounter, 4
	}
	l, err := l.Normalize()
	if err != nil {
		panic(err)
	}
	return l
}

const kinds = 7

// chance reports true so often.
func chance(random *rand.Rand, often float64) bool { return random.Float64() < often }

// randomWorld makes a limit, a load of any intensity and shape, and answers that take any time.
func randomWorld(random *rand.Rand, requests int) *world {
	periods := []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 7 * time.Second, time.Minute}
	period := periods[random.IntN(len(periods))]
	w := &world{limit: limitOf(random.IntN(kinds), 1+random.Int64N(12), period, random), keys: 1 + random.IntN(3)}
	length := store.Instant(period / time.Microsecond)
	w.clock = store.Instant(random.Int64N(int64(2*length))) - length
	w.options = Options{Resolution: time.Microsecond}
	if chance(random, 0.3) {
		w.ticks = []store.Instant{1000, 1_000_000}[random.IntN(2)]
		w.options.Resolution = time.Duration(w.ticks) * time.Microsecond
	}
	mixed := chance(random, 0.3)
	w.uncertain = chance(random, 0.1)
	if chance(random, 0.3) {
		w.drift = (random.Float64() - 0.5) / 1000
	}
	latency := float64(length) * []float64{0, 0.001, 0.02, 0.2, 3}[random.IntN(5)]
	pace := float64(length) / float64(w.limit.Count) / []float64{0.5, 0.9, 1.1, 2, 5, 20}[random.IntN(6)] / float64(
		w.keys)
	lost := []float64{0, 0, 0, 0.01, 0.2}[random.IntN(5)]
	at := float64(epoch)
	for range requests {
		switch {
		case chance(random, 0.3): // at once
		case chance(random, 0.02):
			at += random.Float64() * 3 * float64(length)
		default:
			at += random.ExpFloat64() * pace
		}
		cost := int64(1)
		if mixed {
			cost += random.Int64N(min(w.limit.Capacity(), 4))
		}
		there, back := random.Float64()*latency, random.Float64()*latency
		if chance(random, 0.02) {
			there *= 10
		}
		a := w.ask(random.IntN(w.keys), store.Instant(at), store.Instant(there), store.Instant(back), cost)
		if chance(random, lost) {
			a.lost = true
			a.never = chance(random, 0.5)
			if chance(random, 0.5) {
				a.Answered = a.Sent + (a.Answered-a.Sent)/4 // it was given up
			}
		}
	}
	return w
}

// worst returns the most units that a key was admitted in a span of one period, of those that were answered.
func (w *world) worst() (worst int64) {
	slices.SortStableFunc(w.asked, func(a, b asked) int { return int(a.decided - b.decided) })
	for key := range uint32(w.keys) {
		first, units := 0, int64(0)
		for i := range w.asked {
			a := &w.asked[i]
			if a.Key != key || a.Answer != Admitted {
				continue
			}
			for units += a.Cost; a.decided-w.asked[first].decided >= periodOf(&w.limit); first++ {
				if f := &w.asked[first]; f.Key == key && f.Answer == Admitted {
					units -= f.Cost
				}
			}
			worst = max(worst, units)
		}
	}
	return worst
}
