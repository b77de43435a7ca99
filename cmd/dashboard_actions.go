package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/dash"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// dashActions is what the dashboard does to keys, by the same way as reset and
// restore do. It has asked already, and shows itself what there is to say.
type dashActions struct {
	*globalOptions
	consent
	store connect.Store
	where string
	// undo are the commands that bring back what was reset.
	undo []string
	// inUse are the keys that the last undo of a backup left, as they had been used
	// since. Only these are brought back over what they hold: the others have been
	// brought back already, and may have been used since then.
	inUse map[string]map[limiter.Key]bool
}

// newDashActions returns nil where nothing may be changed.
func (o *dashboardOptions) newDashActions(store connect.Store, where string) *dashActions {
	name, readOnly, protected := o.inUse()
	if readOnly {
		return nil
	}
	silent, env := *o.globalOptions, *o.env
	silent.quiet, silent.env, env.Err = true, &env, io.Discard // nothing is to be printed over the screen
	a := &dashActions{globalOptions: &silent, store: store, where: where, consent: consent{yes: true},
		inUse: map[string]map[limiter.Key]bool{}}
	if protected {
		a.confirm = name
	}
	return a
}

// Reset implements dash.Actions.
func (a *dashActions) Reset(ctx context.Context, keys []limiter.Key) (done dash.Changed, err error) {
	o := &resetOptions{globalOptions: a.globalOptions, consent: a.consent, toRemaining: -1}
	o.query.Keys = keys
	o.text = "in the dashboard: " + output.Printable(keys[0].String())
	if more := len(keys) - 1; more > 0 {
		o.text += fmt.Sprintf(" and %d more", more)
	}
	answer, err := o.reset(ctx, a.store, a.where)
	if answer != nil {
		done = dash.Changed{Keys: answer.Deleted, Backup: answer.Backup}
	}
	if done.Backup != "" {
		a.undo = append(a.undo, answer.Undo)
	}
	return done, err
}

// Undo implements dash.Actions. That keys were used since and left is no error here:
// it is asked about.
func (a *dashActions) Undo(ctx context.Context, reset dash.Changed, replace bool) (done dash.Changed, err error) {
	o := &restoreOptions{globalOptions: a.globalOptions, consent: a.consent, path: reset.Backup, replace: replace, left: map[limiter.Key]bool{}}
	if replace {
		o.only = a.inUse[reset.Backup]
	}
	file, contents, err := o.readBackup()
	if err != nil {
		return done, err
	}
	defer file.Close()
	answer, err := o.restore(ctx, a.store, a.where, file, contents, true)
	if answer != nil {
		if !replace {
			a.inUse[reset.Backup] = o.left
		}
		done = dash.Changed{Keys: answer.Restored, InUse: answer.InUse, Lapsed: answer.Lapsed, Backup: reset.Backup}
		if left := usedSinceError(0); errors.As(err, &left) {
			err = nil
		}
	}
	return done, err
}
