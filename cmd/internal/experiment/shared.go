package experiment

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// MachineID returns a name for this machine's part of a run that several machines share. It is
// different each time.
func MachineID() string { return strings.ToLower(rand.Text()[:10]) }

// mostLookedAt is how many subjects' keys are looked at, before a run, whether they are unused.
// The first ones ask most where some ask more than others.
const mostLookedAt = 64

// checkUnused finds out whether keys that several machines share were used before the run: what is
// in use from before is in no machine's answers, so the audit would call denials wrong. An
// endpoint cannot be asked without being charged.
func (r *loadRun) checkUnused(ctx context.Context, target Target, l *workload) error {
	if r.Shared == nil || r.Endpoint != nil {
		return nil
	}
	decisions := make([]store.Decision, l.population.Limits())
	for subject := range uint32(min(mostLookedAt, l.population.Size())) {
		requests := l.population.Requests(subject)
		err := func() error {
			ctx, cancel := store.BudgetContext(ctx, r.Timeout)
			defer cancel()
			return target.Decide(ctx, store.Peek, requests, decisions)
		}()
		if err != nil {
			return err
		}
		for i := range decisions {
			if decisions[i].Used > 0 {
				return store.Invalidf("the keys of the run %q are in use already: %s has %d units; give the run another name",
					r.Shared.Name, requests[i].Key.Subject, decisions[i].Used)
			}
		}
	}
	return nil
}

// share notes in the report of a run what the audit of all machines together needs.
func (r *loadRun) share(run *report.Run, result *loadgen.Result) {
	if r.Shared == nil {
		return
	}
	shared := *r.Shared
	r.answers, shared.NotRecorded = result.Record, result.NotRecorded
	if r.Endpoint != nil {
		run.Warnings = append(run.Warnings, "the subjects follow from the name of the run, so another run of that name would "+
			"find them used")
		begun := false
		for i := range run.Limits {
			if run.Limits[i].BeginsWithARequest() {
				run.Limits[i].Doubtful, begun = true, true
			}
		}
		if begun {
			run.Warnings = append(run.Warnings, "requests of other machines can have begun windows, or intervals of a refill, so the "+
				"audit of this machine alone proves nothing")
		}
	}
	run.Shared = &shared
	run.Alone()
}
