// Package stepin has the commands by which an operator steps in while a service runs: reset, undo, override, block,
// unblock and exempt.
package stepin

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewOverrideCmd makes limitctl override.
func NewOverrideCmd(global *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "override",
		Short: "Change limits for a while, without a deploy",
		Long: `An override changes the limits of some keys until an instant: another limit, a
multiple of the limit, more units, a block, or an exemption. It is in the store,
so all commands and all services with the option limiter.Overrides apply it
within about a second. It ends by itself. It keeps the units in use.

If several overrides match a key, one applies: a block comes first, then an
exemption, then the others. Among those an exact subject comes before a pattern,
a longer literal beginning before a shorter one, more attributes before fewer,
one with --limit-name before one without, and then the newest.`,
		Example: `  limitctl override set 'tenant:acme:*' --times 3 --for 2h --reason "launch day"
  limitctl override list
  limitctl override revoke 3f9a1c`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newOverrideSetCmd(global), newOverrideListCmd(global), newOverrideRevokeCmd(global))
	return cmd
}

type overrideRevokeOptions struct {
	*cli.Globals
	whomOptions
	cli.ConsentOptions
	// subject is a PATTERN that selects overrides instead of their IDs.
	subject string
}

func newOverrideRevokeCmd(global *cli.Globals) *cobra.Command {
	o := &overrideRevokeOptions{Globals: global, whomOptions: whomOptions{Globals: global}}
	cmd := &cobra.Command{
		Use:   "revoke ID... | --subject PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "End overrides now",
		Long: `Revoke ends overrides early. Within about a second the limits apply as
configured again. If an ID belongs to no override in force, it revokes nothing,
and the exit code is 1.

With --subject it ends all overrides that were set for exactly PATTERN, and with
--policy those for exactly these attributes of the policy, whatever they do. A
pattern that matches the same subjects is another one, and stays.`,
		Example: `  limitctl override revoke 3f9a1c
  limitctl override revoke 3f9a1c 77b0de --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch hasSubject := cmd.Flags().Changed("subject"); {
			case hasSubject && o.policy != "":
				return cli.Usagef("--subject and --policy both say whose overrides to end; give one of them")
			case hasSubject && len(args) > 0:
				return cli.Usagef("--subject is given, and %q, too; give IDs or a subject", args[0])
			case hasSubject || o.policy != "":
				return nil
			case o.limitName != "":
				return cli.Usagef("--limit-name is for --subject or --policy; an ID needs no limit")
			case len(args) == 0:
				return cli.Usagef("no ID given; `limitctl override list` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.policy == "" && !cmd.Flags().Changed("subject") {
				return runOverrideRevoke(cmd.Context(), o, args)
			}
			if o.policy == "" {
				args = []string{o.subject}
			}
			of, err := o.whomOptions.parse(args)
			if err != nil {
				return err
			}
			return o.revokeOf(cmd.Context(), of, "override revoke", "override", func(*store.Override) bool { return true })
		},
		ValidArgsFunction: completer{global}.overrideIDs,
	}
	cmd.Flags().StringVar(&o.subject, "subject", "", "end the overrides of exactly `PATTERN`, as the list shows it")
	cmd.RegisterFlagCompletionFunc("subject", cobra.NoFileCompletions)
	o.addWhomFlags(cmd)
	o.AddConsentFlags(cmd)
	return cmd
}

func runOverrideRevoke(ctx context.Context, o *overrideRevokeOptions, ids []string) error {
	s, err := o.SettingsToChange()
	if err != nil {
		return err
	}
	if err := o.Check(s.Access(), o.Env.InIsTerminal, "override revoke", "ends overrides", ""); err != nil {
		return err
	}
	backend, where, err := o.Open()
	if err != nil {
		return err
	}
	defer backend.Close()
	plan := &operation.RevokePlan{IDs: ids, Consent: o.Given()}
	return o.revoke(ctx, cli.NewRunner(o.Globals, s, backend, where), plan, s.Place(""))
}

// revoke ends the overrides of a plan and prints them. place is the name of the context, empty without one.
func (o *overrideRevokeOptions) revoke(ctx context.Context, runner *operation.Runner, plan *operation.RevokePlan, place string) error {
	revoked, err := runner.RevokeOverrides(ctx, plan, &cli.Observer{Global: o.Globals})
	if err != nil && len(revoked) == 0 {
		return err
	}
	answer := &overrideAnswer{now: o.Env.Now(), did: "revoked", place: place}
	for i := range revoked {
		answer.overrides = append(answer.overrides, &revoked[i])
	}
	if printErr := o.Print(answer); err == nil {
		err = printErr
	}
	return err
}
