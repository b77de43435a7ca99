package experiment

import (
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// limitsOfEachKind are of every algorithm, and of counters in slices.
func limitsOfEachKind() (all []string) {
	for _, name := range store.AlgorithmNames() {
		all = append(all, name+":20/1s")
	}
	return append(all, "sliding-counter:20/1s,slices=10", "sliding-counter:7/250ms,slices=50",
		"token-bucket:7/300ms,burst=31")
}

// correctSetUps are ways to ask a store that is right.
func correctSetUps() (all []planted) {
	for _, limit := range limitsOfEachKind() {
		add := func(name string, p planted) {
			p.name = limit + " " + name
			if p.limits == nil {
				p.limits = []string{limit}
			}
			if p.duration == 0 && p.defect.fails == nil {
				p.duration = 3 * time.Second
			}
			all = append(all, p)
		}
		add("plainly", planted{})
		add("with costs", planted{costs: loadgen.Costs{Least: 1, Most: 7}})
		add("by many at once", planted{workers: 64, subjects: 3, duration: time.Second})
		add("with another limit", planted{limits: []string{limit, "fixed-window:50/10s"}, costs: loadgen.Costs{
			Least: 1, Most: 3}})
		add("with two others", planted{limits: []string{"sliding-log:30/2s", limit, "token-bucket:60/5s,burst=40"}})
		add("whose outcomes are unknown at times", planted{defect: sometimesUnknown()})
		add("in an outage", planted{defect: outage()})
		add("by a clock that is an hour ahead", planted{defect: defect{clock: func(since time.Duration) time.Duration {
			return since + time.Hour
		}}})
		add("by a clock of 10 ms", planted{defect: defect{clock: func(since time.Duration) time.Duration {
			return since.Truncate(10 * time.Millisecond)
		}}})
		add("by a clock that drifts as clocks do",
			planted{defect: defect{clock: func(since time.Duration) time.Duration {
				return since + since/10_000
			}}})
	}
	return all
}

// sometimesUnknown fails now and then, and charges half of what fails.
func sometimesUnknown() defect {
	return defect{fails: func(s *plantedStore) (error, bool) {
		if s.random.IntN(100) > 0 {
			return nil, false
		}
		return errUnsure, s.random.IntN(2) == 0
	}}
}

// outage is a store that is away for half a second, and charges some of what it does not answer.
func outage() defect {
	return defect{fails: func(s *plantedStore) (error, bool) {
		if since := time.Since(s.begin); since < 2*time.Second || since > 2500*time.Millisecond {
			return nil, false
		}
		return fmt.Errorf("%w: %w", store.ErrUnavailable, errUnsure), s.random.IntN(4) == 0
	}}
}

// Nothing is called wrong that is right.
func TestCorrectStoresRaiseNoAlarm(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	setUps := correctSetUps()
	if len(setUps) < 70 {
		t.Errorf("only %d set-ups", len(setUps))
	}
	for _, p := range setUps {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			document, printed := p.run(t)
			run := &document.Runs[0]
			if document.Judge(); document.Verdict == report.Fail || run.Audit.OverAdmitted != 0 ||
				run.Audit.UnderAdmitted != 0 {
				t.Error(printed)
			}
			if run.Requests < 1000 || run.Denied == 0 || len(p.limits) == 1 && *run.Audit.LimitReached < 1 {
				t.Errorf("it proves little:\n%s", printed)
			}
			if lies := run.Audit.Lies; lies == nil || lies.Checked < run.Requests/10 {
				t.Errorf("%+v of %d requests were held against the truth", lies, run.Requests)
			}
		})
	}
}
