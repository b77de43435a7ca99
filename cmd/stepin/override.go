// Package stepin has the commands by which an operator steps in while a service runs: reset, undo, override, block,
// unblock and exempt.
package stepin

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewOverrideCmd makes limitctl override.
func NewOverrideCmd(global *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "override",
		Short: "Change limits for a while, without a deploy",
		Long: `An override changes the limits of some keys until an instant: another limit, a
multiple, more units, a block, or an exemption. It is in the store, so all
commands and services apply it within about a second, and it ends by itself.

If several match a key, one applies: a block before an exemption, and that
before the others; then an exact subject, a longer literal beginning, more
attributes, one with --limit-name, and the newest.`,
		Example: `  limitctl override set 'tenant:acme:*' --times 3 --for 2h --reason "launch day"
  limitctl override list
  limitctl override revoke 3f9a1c`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newOverrideSetCmd(global), newOverrideListCmd(global), newOverrideRevokeCmd(global))
	return cmd
}

// overrideRevokeOptions are those of the commands that end overrides, which are named by the words that set them.
type overrideRevokeOptions struct {
	*cli.Globals
	cli.ConsentOptions
	exact             bool
	policy, limitName string
	subject           string // of revoke: a PATTERN instead of IDs
}

func newOverrideRevokeCmd(global *cli.Globals) *cobra.Command {
	o := &overrideRevokeOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "revoke ID... | --subject PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "End overrides now",
		Long: `Revoke ends overrides early: those with these IDs, or all that were set for
exactly PATTERN, or for exactly these attributes of the policy. Within about a
second the limits apply as configured again. If an ID belongs to no override in
force, it revokes nothing, and the exit code is 1.`,
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
				return o.revoke(cmd.Context(), "override revoke", "override",
					func(*operation.Runner, operation.Access) ([]string, error) { return args, nil })
			}
			if o.policy == "" {
				args = []string{o.subject}
			}
			return o.revokeOf(cmd.Context(), args, "override revoke", "override", func(*store.Override) bool { return true })
		},
		ValidArgsFunction: cli.Offers(global).Attributes,
	}
	cmd.Flags().StringVar(&o.subject, "subject", "", "end the overrides of exactly `PATTERN`, as the list shows it")
	o.addWhomFlags(cmd)
	o.AddConsentFlags(cmd)
	return cmd
}

// revoke ends the overrides whose IDs choose returns, and prints them. what is their noun.
func (o *overrideRevokeOptions) revoke(ctx context.Context, command, what string,
	choose func(*operation.Runner, operation.Access) (ids []string, err error)) error {
	s, err := o.SettingsToChange()
	if err != nil {
		return err
	}
	if err := o.Check(s.Access(), o.Env.InIsTerminal, command, "ends "+what+"s", ""); err != nil {
		return err
	}
	backend, where, err := o.Open()
	if err != nil {
		return err
	}
	defer backend.Close()
	runner := cli.NewRunner(o.Globals, s, backend, where)
	ids, err := choose(runner, s.Access())
	if err != nil {
		return err
	}
	plan := &operation.RevokePlan{IDs: ids, Consent: o.Given()}
	revoked, err := runner.RevokeOverrides(ctx, plan, &cli.Observer{Global: o.Globals})
	if err != nil && len(revoked) == 0 {
		return err
	}
	answer := &overrideAnswer{now: o.Env.Now(), did: "revoked", place: s.Place("")}
	for i := range revoked {
		answer.overrides = append(answer.overrides, &revoked[i])
	}
	if printErr := o.Print(answer); err == nil {
		err = printErr
	}
	return err
}

func (o *overrideRevokeOptions) addWhomFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.policy, "policy", "", "those for keys of the `POLICY`, with the attributes given as arguments")
	flags.StringVar(&o.limitName, "limit-name", "", "only those that were set for limits called `NAME`")
	complete := cli.Offers(o.Globals)
	cmd.RegisterFlagCompletionFunc("policy", complete.Policies)
	cmd.RegisterFlagCompletionFunc("limit-name", complete.LimitNames)
}

// revokeOf ends the overrides that keep selects among those that were set by exactly these words. what is their noun.
func (o *overrideRevokeOptions) revokeOf(ctx context.Context, args []string, command, what string,
	keep func(*store.Override) bool) error {
	words := strings.Join(args, " ")
	if o.policy != "" {
		words = strings.TrimSpace(shell.Command("--policy", o.policy) + " " + words)
	}
	if o.limitName != "" {
		words += " " + shell.Command("--limit-name", o.limitName)
	}
	args, err := o.NameClients(ctx, o.exact, o.policy, args)
	if err != nil {
		return err
	}
	var wanted store.Override
	set := &overrideSetOptions{Globals: o.Globals, exact: o.exact, policy: o.policy, limitName: o.limitName}
	if err := set.subjects(ctx, &wanted, args); err != nil {
		return err
	}
	isOf := func(other *store.Override) bool {
		switch {
		case o.limitName != "" && !allowance.SamePattern(other.Names, wanted.Names):
			return false
		case o.policy != "":
			return other.Subjects.IsZero() && strings.HasPrefix(other.Names.String(), o.policy+"/") &&
				maps.Equal(other.Attributes, wanted.Attributes)
		}
		return len(other.Attributes) == 0 && allowance.SamePattern(other.Subjects, wanted.Subjects)
	}
	return o.revoke(ctx, command, what, func(runner *operation.Runner, access operation.Access) (ids []string, err error) {
		overrides, err := runner.Overrides(ctx)
		if err != nil && !errors.Is(err, store.ErrForeign) {
			return nil, err
		}
		for i := range overrides {
			if override := &overrides[i]; keep(override) && isOf(override) {
				ids = append(ids, override.ID)
				if !o.Given().Covers(access) {
					o.Say("%s", sentence(override, o.Env.Now()))
				}
			}
		}
		if len(ids) == 0 {
			o.Note("no %s of exactly %s is in force", what, words)
			return nil, cli.ErrDenied
		}
		return ids, nil
	})
}

// NewUnblockCmd makes limitctl unblock.
func NewUnblockCmd(global *cli.Globals) *cobra.Command {
	o := &overrideRevokeOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "unblock PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "End the blocks of a pattern now",
		Long: `Unblock revokes all blocks that were set for exactly these keys: for PATTERN, or
with --policy for these attributes of the policy. --limit-name keeps the blocks
of other limits. Other overrides and blocks of other patterns stay. If there is
no such block, the exit code is 1.`,
		Example: `  limitctl unblock ip:203.0.113.9
  limitctl unblock 'tenant:acme:*' --yes
  limitctl unblock --policy login ip=203.0.113.9 --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && o.policy == "" {
				return cli.Usagef("unblock takes one PATTERN, that of the block; `limitctl override list` shows them")
			}
			return (&overrideSetOptions{exact: o.exact, policy: o.policy, limitName: o.limitName}).arguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.revokeOf(cmd.Context(), args, "unblock", "block",
				func(override *store.Override) bool { return override.Effect == store.OverrideBlock })
		},
		ValidArgsFunction: cli.Offers(global).Attributes,
	}
	cmd.Flags().BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, as it is typed")
	o.addWhomFlags(cmd)
	o.AddConsentFlags(cmd)
	return cmd
}
