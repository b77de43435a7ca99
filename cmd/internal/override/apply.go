package override

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type overrideApplyOptions struct {
	*cli.Globals
	cli.ConsentOptions
	file          string
	prune, dryRun bool
}

func newOverrideApplyCmd(global *cli.Globals) *cobra.Command {
	o := &overrideApplyOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Bring the overrides of a file in force",
		Long: `Apply sets the overrides of a YAML or JSON file that are not in force as the
file says. The same file twice changes nothing the second time: the field
"changed" of the JSON is then false, and the exit code is 0 both times. So
Ansible, Terraform and cron jobs can run it. FILE can be - for standard input.

The file has an owner, which is a name for whoever keeps it, and a list of
overrides, whose fields are those of "limitctl override list -o json":

  owner: ansible
  overrides:
    - subject: tenant:acme:*
      effect: times       # with factor; or add with units, limit with limit,
      factor: 3           # block, exempt
      reason: as sold
      expires_at: 2026-12-01T04:00:00Z
    - attributes: {tenant: globex}
      name: exports/*
      effect: exempt
      reason: migration
      expires_at: 2026-12-01T04:00:00Z

It removes nothing, unless --prune is given: that ends the overrides that the
owner has applied before and that are no longer in the file. It never ends those
that an operator or another owner has set. If an operator has set an override of
the file for longer, that stays, and apply says so. One that is in force for
another owner with another end or reason is refused.

Ends that differ by less than 10 seconds are equal. An override whose time is
over is left out. Apply asks as "limitctl override set" does, and writes to the
audit log. After an error a second run goes on.`,
		Example: `  limitctl override apply -f overrides.yaml --dry-run
  limitctl override apply -f overrides.yaml --prune --yes -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && o.file == "" {
				return cli.Usagef("the file is not named with a flag; write `%s`",
					shell.Command("limitctl", "override", "apply", "-f", args[0]))
			}
			return cli.NoArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.file == "" {
				return cli.Usagef("no file given; give -f FILE, or -f - for standard input")
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "the `FILE` of overrides, or - for standard input")
	flags.BoolVar(&o.prune, "prune", false, "end overrides that the owner has applied before and that are no longer in the file")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	o.AddConsentFlags(cmd)
	return cmd
}

func (o *overrideApplyOptions) run(ctx context.Context) error {
	file, err := readWanted(o.Env, o.file)
	if err != nil {
		return err
	}
	s, err := o.Settings()
	if err == nil && !o.dryRun {
		s, err = o.SettingsToChange(ctx)
	}
	if err != nil {
		return err
	}
	open := o.OpenToRead
	if !o.dryRun {
		open = o.Open
		const otherwise = ", or --dry-run to look first"
		if err := o.Check(s.Access(), o.Env.InIsTerminal, "override apply", "changes overrides", otherwise); err != nil {
			return err
		}
	}
	backend, where, err := open()
	if err != nil {
		return err
	}
	defer backend.Close()
	runner := cli.NewRunner(o.Globals, s, backend, where)
	plan := &operation.ApplyPlan{Owner: file.owner, Overrides: file.overrides, Prune: o.prune, Consent: o.Given()}
	difference, err := runner.Difference(ctx, plan)
	if err != nil {
		return err
	}
	answer := &applyAnswer{dryRun: o.dryRun, owner: file.owner, difference: difference, steps: difference.Steps, now: o.Env.Now(),
		place: s.Place("")}
	if o.dryRun {
		return o.Print(answer)
	}
	if !plan.Consent.Covers(s.Access()) {
		for _, line := range answer.stepLines() {
			o.Say("%s", line)
		}
	}
	answer.steps, err = runner.Apply(ctx, plan, difference, &cli.Observer{Global: o.Globals})
	answer.did, answer.now = true, o.Env.Now()
	if err != nil && len(answer.steps) == 0 {
		return err
	}
	return errors.Join(o.Print(answer), err)
}

// stepWords say what a step will do, or has done.
func stepWords(do string, did bool) string {
	switch {
	case do == operation.DoSet && did:
		return "✓ set"
	case do == operation.DoChange && did:
		return "✓ changed"
	case did:
		return "✓ revoked"
	}
	return "would " + do
}

// stepSentence is an override of a file in words. It has no ID before it is set.
func (a *applyAnswer) stepSentence(step *operation.ApplyStep) string {
	o := step.Override
	if o.ID == "" {
		o.Left = o.ExpiresAt.Sub(a.now)
		return strings.TrimPrefix(sentence(&o, a.now), "override : ")
	}
	return sentence(&o, a.now)
}

// asBefore is what is changed, for people.
func asBefore(before *store.Override, a *applyAnswer) string {
	return "it was in force " + cli.Ending(before, a.now)
}
