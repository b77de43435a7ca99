package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
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
	return o.refuseGuarded("simulation")
}

// refuseGuarded refuses what only tries a store out, where the context says that it is
// not for that; what is such as "simulation".
func (g *globalOptions) refuseGuarded(what string) error {
	if _, err := g.settings(); err != nil {
		return err
	}
	switch name, readOnly, protected := g.inUse(); {
	case readOnly:
		return usagef("context %q is read-only; a %s writes, so it was not done", name, what)
	case protected:
		return usagef("context %q is protected; a %s is for another store", name, what)
	}
	return nil
}

// removalTime bounds how long removing the keys of a simulation takes.
const removalTime = time.Minute

// simulateWithStore has the store decide, under a prefix of its own, and removes what
// that has left there, whatever else happens.
func (o *simulateOptions) simulateWithStore(ctx context.Context, log *trace.Trace, candidate loadgen.Candidate, settings loadgen.SimulateOptions) (result *loadgen.Simulation, where string, err error) {
	var clock loadgen.Clock
	options := o.storeOptions
	if err := limiter.ValidatePrefix(options.Prefix); err != nil { // and not of what it becomes
		return nil, "", err
	}
	options.Prefix += ":loadtest:" + strings.ToLower(rand.Text()[:10])
	options.Clock = clock.Now
	store, where, err := connect.Open(o.storeURL, options)
	if name, _, _ := o.inUse(); err != nil && name != "" {
		err = fmt.Errorf("context %q: %w", name, err)
	}
	if err != nil {
		return nil, "", err
	}
	defer store.Close()
	settings.Store, settings.Clock = store, &clock
	result, err = loadgen.Simulate(ctx, log, candidate, settings)
	if len(result.StoreKeys) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
		defer cancel()
		if _, _, removing := store.Delete(ctx, limiter.Records(result.StoreKeys...)...); removing != nil {
			left := fmt.Errorf("the simulation's keys, which begin with %s:, could not be removed: %w", options.Prefix, removing)
			err = errors.Join(err, &partlyError{left})
		}
	}
	return result, where, err
}

// reportDisagreements says where the store did not decide as Go does.
func (o *simulateOptions) reportDisagreements(r *simulatedRun) {
	result := r.result
	fmt.Fprintf(o.env.Err, "limitctl: %s: the store decided %d of %d requests differently than Go:\n", r.run.Limit, result.Disagreements, result.Tally.Requests())
	for _, d := range result.FirstDisagreements {
		fmt.Fprintf(o.env.Err, "limitctl: request %d, at %s, of %s, limit %s: the store says %s; Go says %s\n",
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
