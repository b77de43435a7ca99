package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// usesStore reports whether a store is to decide, too. One that is only configured is
// none that somebody wants to fill with a simulation.
func (o *simulateOptions) usesStore() bool { return o.changed("store") || o.changed("context") }

// chooseStore finds the store that is to decide, if any, and reports early if it may
// not be used.
func (o *simulateOptions) chooseStore() (err error) {
	if !o.usesStore() {
		return nil
	}
	if o.storeURL, o.storeOptions, err = o.connection(); err != nil {
		return err
	}
	return o.refuseTrial("simulation")
}

// simulateWithStore has the store decide, under a prefix of its own, and removes what
// that has left there, whatever else happens.
func (o *simulateOptions) simulateWithStore(ctx context.Context, log *trace.Trace, candidate loadgen.Candidate, settings loadgen.SimulateOptions) (result *loadgen.Simulation, where string, err error) {
	var clock loadgen.Clock
	options := o.storeOptions
	if options.Prefix, err = trialPrefix(options.Prefix); err != nil {
		return nil, "", err
	}
	options.Clock = clock.Now
	store, where, err := connect.Open(o.storeURL, options)
	if store, err = o.openedToWrite(store, err); err != nil {
		return nil, "", err
	}
	defer store.Close()
	settings.Store, settings.Clock = store, &clock
	result, err = loadgen.Simulate(ctx, log, candidate, settings)
	return result, where, errors.Join(err, removeTrial(ctx, store, "simulation", options.Prefix, result.StoreKeys))
}

// reportDisagreements says where the store did not decide as Go does.
func (o *simulateOptions) reportDisagreements(r *simulatedRun) {
	result := r.result
	o.note("%s: the store decided %d of %d requests differently than Go:", r.run.Limit, result.Disagreements, result.Tally.Requests())
	for _, d := range result.FirstDisagreements {
		o.note("request %d, at %s, of %s, limit %s: the store says %s; Go says %s",
			d.Request, d.At.Time().Format(time.RFC3339Nano), subjectWords(result.Subjects[d.Subject], r.names, r.policy != nil), r.run.Limits[d.Limit].Limit, decisionWords(&d.Store), decisionWords(&d.Go))
	}
}

// decisionWords writes all that a decision says.
func decisionWords(d *limiter.Decision) string {
	verdict := "denied"
	if d.Allowed {
		verdict = "allowed"
	}
	return fmt.Sprintf("%s, %d used, %d remaining, retry after %s, reset after %s, delay %s", verdict, d.Used, d.Remaining, d.RetryAfter, d.ResetAfter, d.Delay)
}
