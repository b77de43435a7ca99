package override

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type overrideExtendOptions struct {
	*cli.Globals
	cli.ConsentOptions
	lasts, until string
}

func newOverrideExtendCmd(global *cli.Globals) *cobra.Command {
	o := &overrideExtendOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "extend ID",
		Short: "Keep an override in force for longer",
		Long: `Extend gives an override in force a later end. It keeps the ID, and also the
reason if --reason gives no other. --for counts from now, not from the old end.
An end that is not later is refused. Extend asks as "limitctl override set"
does, and writes to the audit log. Like an override that is set again it counts
as the newest.

If no override in force has the ID, it changes nothing, and the exit code is 1.`,
		Example: `  limitctl override extend 3f9a1c --for 2h
  limitctl override extend 3f9a1c --until 04:00 --reason "the import takes longer" --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return cli.Usagef("no ID given; `limitctl override list` shows them")
			case 1:
				return nil
			}
			return cli.Usagef("%s given, and extend takes one ID", cli.Several(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			now := o.Env.Now()
			end, err := parseEnd(cmd, o.lasts, o.until, now)
			if err != nil {
				return err
			}
			return o.extend(cmd.Context(), args[0], end.Sub(now))
		},
		ValidArgsFunction: completer{global}.overrideIDs,
	}
	addEndFlags(cmd, &o.lasts, &o.until)
	o.AddConsentFlags(cmd)
	return cmd
}

// extend lets the override of an ID last that long from now.
func (o *overrideExtendOptions) extend(ctx context.Context, id string, lasts time.Duration) error {
	s, err := o.SettingsToChange(ctx)
	if err != nil {
		return err
	}
	if err := o.Check(s.Access(), o.Env.InIsTerminal, "override extend", "extends an override", ""); err != nil {
		return err
	}
	backend, where, err := o.Open()
	if err != nil {
		return err
	}
	defer backend.Close()
	runner := cli.NewRunner(o.Globals, s, backend, where)
	plan := &operation.ExtendPlan{ID: id, Lasts: lasts, Ends: shell.Command("--for", store.FormatPeriod(lasts)), Consent: o.Given()}
	if o.until != "" {
		plan.Ends = shell.Command("--until", o.Env.Now().Add(lasts).UTC().Format(time.RFC3339))
	}
	set, err := runner.ExtendOverride(ctx, plan, &cli.Observer{Global: o.Globals})
	if set == nil {
		return err
	}
	answer := &overrideAnswer{now: o.Env.Now(), did: "extended", place: s.Place(""), overrides: []*store.Override{set}}
	return errors.Join(err, o.Print(answer))
}
