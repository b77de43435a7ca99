package see

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/began"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// handoverChanges is how far back a handover shows changes.
	handoverChanges = 12 * time.Hour
	// topDenied is how many keys it names at most.
	topDenied = 10
)

// NewHandoverCmd makes limitctl handover.
func NewHandoverCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "handover",
		Short: "Show what the next shift has to know, on one screen",
		Long: `Handover shows which published version is in force and who has it, the overrides
in force, what was changed in the last 12 hours, which denials began in the last
10 minutes, and who was denied most in them. On a terminal it takes one screen,
and says of each part how much more there is and which command shows it.

Below each limit whose denials began are the changes in the 10 minutes before
that were about its keys, and a command that may help: a block or a rollback.

If a part cannot be read, it says so, shows the others, and the exit code is 5.`,
		Example: `  limitctl handover
  limitctl handover --context prod -o json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runHandover(cmd.Context(), global) },
	}
}

func runHandover(ctx context.Context, g *cli.Globals) error {
	s, err := g.Settings()
	if err != nil {
		return err
	}
	backend, where, err := g.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	a := &handoverAnswer{now: g.Env.Now(), place: s.Place(where), denials: denialsAnswer{span: began.Window}}
	if g.Env.OutIsTerminal {
		_, a.rows = g.Env.Size()
	}
	runner := cli.NewRunner(g, s, backend, where)
	overrides, err := runner.Overrides(ctx)
	a.failed[partOverrides] = err
	for _, o := range store.NewOverrideList(overrides).All() {
		a.inForce = append(a.inForce, &o)
	}
	history, err := cli.ReadJournal(ctx, g, backend, false, auditlog.Query{Keep: func(e *auditlog.Entry) bool {
		return !e.Time.Before(a.now.Add(-handoverChanges))
	}})
	if err != nil {
		return err
	}
	a.failed[partChanges], a.changes = history.StoreError, history.Runs
	slices.Reverse(a.changes)
	a.failed[partConfig] = a.readConfig(ctx, g, backend)
	a.notCounted = g.NotCounted(ctx)
	var list *store.OverrideList
	if a.failed[partOverrides] == nil {
		list = store.NewOverrideList(overrides)
	}
	a.readDenials(ctx, g, backend, list)
	if a.began != nil {
		for _, l := range a.began.Limits {
			if l.Command != nil && !s.Access().ReadOnly {
				l.Line = cli.CommandHere(g, s, l.Command...)
			}
		}
	}
	if !slices.Contains(a.failed[:], nil) { // there is nothing to hand over
		return a.err()
	}
	if err := g.Print(a); err != nil {
		return err
	}
	return a.err()
}

// readConfig reads which version is in force, and who has it.
func (a *handoverAnswer) readConfig(ctx context.Context, g *cli.Globals, backend store.Store) error {
	c, err := g.InForce(ctx)
	if err != nil || c.Published == nil {
		return err
	}
	a.version = c.Published
	table, err := published.TableOf(backend)
	if err != nil {
		return err
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	a.processes, err = published.Processes(ctx, table)
	return err
}

// readDenials reads who was denied most, and which denials began, for which the overrides in force have to be known.
func (a *handoverAnswer) readDenials(ctx context.Context, g *cli.Globals, backend store.Store,
	list *store.OverrideList) {
	table, has := admin.TablesOf(backend)
	if !has {
		a.failed[partDenials] = store.Invalidf("this store keeps no denials")
		return
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	denials, err := table.Denials(ctx, began.Window)
	a.failed[partDenials] = err
	all, _ := store.ParsePattern("*")
	a.denials.add(&denials, all)
	a.began, err = began.Find(ctx, table, &denials, list)
	a.failed[partChanges] = cmp.Or(a.failed[partChanges], err)
}

// err is the error of the first part that could not be read; it is partly done if another could.
func (a *handoverAnswer) err() error {
	err := cmp.Or(a.failed[:]...)
	if err != nil && slices.Contains(a.failed[:], nil) {
		return outcome.Partly(err)
	}
	return err
}
