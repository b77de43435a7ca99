package probe

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
)

const (
	pauseGrowth = 1.2 // the factor from one time of a request to the next, while denied
	mostEdges   = 4
	firstPause  = 2 * time.Millisecond
	// lastSecond is the longest pause between requests in the second in which a denial says that the subject is
	// admitted again. Denials give whole seconds.
	lastSecond = 200 * time.Millisecond
	// disbelief is how long a subject is followed although denials say that it is admitted again only after the end
	// of the probe.
	disbelief = 30 * time.Second
)

// follow sends requests of the first subject until it is admitted again, several times.
func (x *explorer) follow() error {
	full := int64(x.burst.admitted)
	x.counts = []int64{full}
	for i := range min(3, x.burst.failed) { // they may have been charged
		x.counts = append(x.counts, full+int64(i)+1)
	}
	requests, begin := x.requestsLeft(), x.clock.Now()
	once := time.Duration(0) // how long the first recovery took
	last := x.burst.events
	for edges, most := 0, mostEdges; edges < most; edges++ {
		x.tellWait(edges, last)
		exhausted := x.clock.Now()
		for pause := firstPause; ; {
			if err := x.wait(pause); err != nil {
				return err
			}
			b, err := x.sendMany(x.subject, int(full)+2, 1)
			if err != nil {
				return err
			}
			last = b.events
			if n := int64(b.admitted); n > 0 {
				if n > full/2 && !slices.Contains(x.counts, n) && len(x.counts) < 4 {
					x.counts = append(x.counts, n)
				}
				switch {
				case b.denied == 0: // more than everything is back: it comes back faster than requests can use it
					most = 0
				case n > full/2: // everything comes back at once, and a second time shows how often
					most = 2
				}
				break
			}
			now := x.clock.Now()
			elapsed := now.Sub(exhausted)
			pause = max(firstPause, time.Duration(float64(elapsed)*(pauseGrowth-1)))
			if once > 0 && elapsed+pause > once*9/10 && elapsed < once*11/10 {
				pause = max(firstPause, once/40) // it may take as long as before
			}
			told := toldBack(last)
			if x.later = told.Sub(now); !told.IsZero() && x.later > x.timeLeft() && elapsed > disbelief {
				return errTime
			}
			pause = sooner(pause, now, told)
		}
		if once == 0 {
			once = x.clock.Now().Sub(exhausted)
		}
		waited := x.clock.Now().Sub(begin)
		if x.requestsLeft() < requests/2 || x.timeLeft() < 2*waited {
			break
		}
	}
	return nil
}

// tellWait reports what the probe waits for.
func (x *explorer) tellWait(edges int, last []explain.Event) {
	if edges > 0 {
		x.step(x.timeLeft(), "waiting until a request is admitted again (%d of %d)", edges+1, mostEdges)
		return
	}
	if told := toldBack(last); !told.IsZero() {
		wait := told.Sub(x.clock.Now())
		x.step(x.timeLeft(), "waiting until a request is admitted again (the denial says in %s)", span(wait.Round(time.Second/10)))
		return
	}
	x.step(x.timeLeft(), "waiting until a request is admitted again")
}

// toldBack returns the latest instant at which the last denial says that a request is admitted again; zero if it
// says nothing. It is a hint when to send a request, and the probe concludes nothing from it.
func toldBack(events []explain.Event) time.Time {
	if len(events) == 0 || events[len(events)-1].Outcome != endpoint.Denied {
		return time.Time{}
	}
	e := &events[len(events)-1]
	r := headers.Read(e.Header, e.Answered, headers.SkewOf(e.Header, e.Sent, e.Answered))
	r.ReadLimits(e.Limits)
	if r.RetryAfter > 0 {
		return e.Answered.Add(r.RetryAfter)
	}
	for i := range r.Families {
		if l := r.Families[i].Tightest(); l != nil && l.HasReset && l.Remaining == 0 && l.Reset > 0 {
			return e.Answered.Add(l.Reset)
		}
	}
	return time.Time{}
}

// sooner shortens a pause so that requests are sent right before, during and right after the second in which one
// should be admitted again.
func sooner(pause time.Duration, now, told time.Time) time.Duration {
	first := told.Add(-mostLate - justBefore)
	switch {
	case told.IsZero() || now.After(told):
		return pause
	case now.Before(first):
		return min(pause, first.Sub(now))
	}
	return max(firstPause, min(pause, lastSecond, told.Add(justAfter).Sub(now)))
}
