package operation

import (
	"context"
	"fmt"

	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// PublishPlan says which configuration to publish.
type PublishPlan struct {
	// Command is the command, such as "config publish", and Text says in the words of its command line what it
	// publishes, for the audit log.
	Command, Text string
	// State is what was published when the change was shown. If it is no longer that, nothing is published.
	State *published.State
	// Config is the text to publish, and Of the version that it was before; 0 for a file.
	Config []byte
	Of     int64
	// Question is asked before.
	Question string
	Consent  Consent
}

// Publish asks, and puts a configuration in force as the next version. If it returns no version, nothing was changed,
// or the error says that the outcome is unknown.
func (r *Runner) Publish(ctx context.Context, plan *PublishPlan, observer Observer) (*published.Version, error) {
	table, err := published.TableOf(r.Store)
	if err != nil {
		return nil, err
	}
	v := &published.Version{At: r.Now().UTC(), By: r.User, Reason: plan.Consent.Reason, Of: plan.Of, Text: plan.Config}
	next := plan.State.Next(v)
	entry, counts := r.newEntry(plan.Command, fmt.Sprintf("%s (version %d)", plan.Text, v.Number)), &Counts{Matched: 1}
	_, err = r.change(ctx, observer, &change{entry: entry, Counts: counts, consent: plan.Consent,
		question: plan.Question,
		make: func() error {
			return r.within(ctx, func(ctx context.Context) error {
				done, err := table.Change(ctx, next)
				if err == nil && !done {
					return fmt.Errorf(
						"%w: another version was published meanwhile; see `limitctl config history`, and publish "+
							"again; "+
							"nothing was changed", store.ErrRefused)
				}
				if err == nil {
					counts.Changed = 1
				}
				return err
			})
		}})
	if counts.Changed == 0 {
		return nil, err
	}
	return v, err
}
