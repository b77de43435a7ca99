package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/trial"
)

// refuseTrial refuses a trial, which writes to the store, in a context that is not for
// that. kind is the kind of trial, such as "simulation".
func refuseTrial(g *cli.Globals, ctx context.Context, kind string) error {
	s, err := g.SettingsToChange(ctx)
	if err != nil {
		return err
	}
	switch access := s.Access(); {
	case access.ReadOnly:
		return &connect.ReadOnlyError{Context: access.Context, What: kind}
	case access.Reached:
		return cli.Usagef("this is the store of the protected context %q; a %s is for another store", access.Context, kind)
	case access.Protected:
		return cli.Usagef("context %q is protected; a %s is for another store", access.Context, kind)
	}
	return nil
}

// openTrial opens a store for one trial, under a prefix of its own.
func openTrial(g *cli.Globals, url string, options connect.Options) (*trial.Store, error) {
	store, err := trial.OpenStore(url, options)
	return openedTrial(g, store, err)
}

// openedTrial checks that a trial may write to the store that was opened.
func openedTrial(g *cli.Globals, store *trial.Store, err error) (*trial.Store, error) {
	if _, err := g.OpenedToWrite(store, err); err != nil {
		return nil, err
	}
	return store, nil
}

// trialError is an error of a trial as the command reports it: it names the flag that is
// wrong with its value, and says whether something was left in the store.
func trialError(cmd *cobra.Command, err error) error {
	var left *trial.LeftoverError
	if errors.As(err, &left) {
		return outcome.Partly(err)
	}
	var plan *trial.PlanError
	if errors.As(err, &plan) {
		flag := string(plan.Part)
		return cli.Usagef("--%s %s %s", flag, cmd.Flags().Lookup(flag).Value, plan.Problem)
	}
	return err
}
