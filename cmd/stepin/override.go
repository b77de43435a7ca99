// Package stepin has the commands by which an operator steps in while a service runs: reset, undo, override, block,
// unblock and exempt.
package stepin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
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
				return o.revoke(cmd.Context(), "override revoke", "override",
					func(*operation.Runner, operation.Access) ([]string, error) { return args, nil })
			}
			if o.policy == "" {
				args = []string{o.subject}
			}
			of, err := o.whomOptions.parse(cmd.Context(), args)
			if err != nil {
				return err
			}
			return o.revokeOf(cmd.Context(), of, "override revoke", "override", func(*store.Override) bool { return true })
		},
		ValidArgsFunction: cli.Offers(global).Attributes,
	}
	cmd.Flags().StringVar(&o.subject, "subject", "", "end the overrides of exactly `PATTERN`, as the list shows it")
	cmd.RegisterFlagCompletionFunc("subject", cobra.NoFileCompletions)
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

// whomOptions name overrides in force by whom they were set for, in the words of the command that set them or of the
// list.
type whomOptions struct {
	*cli.Globals
	exact             bool
	policy, limitName string
}

func (o *whomOptions) addWhomFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.policy, "policy", "", "those for keys of the `POLICY`, with the attributes given as arguments")
	flags.StringVar(&o.limitName, "limit-name", "", "only those that were set for limits called `NAME`")
	complete := cli.Offers(o.Globals)
	cmd.RegisterFlagCompletionFunc("policy", complete.Policies)
	cmd.RegisterFlagCompletionFunc("limit-name", complete.LimitNames)
}

// whom selects overrides by whom they were set for.
type whom struct {
	wanted store.Override
	// text is what the list shows as the subject, attributes the same read as attributes.
	text       string
	attributes policy.Attributes
	policy     string
	limitName  string
}

// parse reads the arguments: a pattern, attributes of --policy, or what the list shows.
func (o *whomOptions) parse(ctx context.Context, args []string) (*whom, error) {
	w := &whom{text: strings.Join(args, " "), policy: o.policy, limitName: o.limitName}
	args, err := o.NameClients(ctx, o.exact, cli.AttributesOrPattern(o.policy, args), args)
	if err != nil {
		return nil, err
	}
	set := &overrideSetOptions{Globals: o.Globals, exact: o.exact, policy: o.policy, limitName: o.limitName}
	if o.policy != "" {
		if o.exact {
			return nil, cli.Usagef("--exact is for a PATTERN, not for --policy")
		}
		return w, set.subjects(ctx, &w.wanted, args)
	}
	attributes, err := policy.ParseAttributes(args)
	if err == nil && !o.exact && len(args) > 0 {
		w.attributes = attributes
	}
	if len(args) == 1 {
		return w, set.subjects(ctx, &w.wanted, args)
	}
	if w.attributes == nil {
		return nil, cli.Usagef("%s given; it takes one PATTERN, or attributes such as tenant=acme", cli.Several(args))
	}
	return w, nil
}

// isOf reports whether an override was set for exactly these keys.
func (w *whom) isOf(o *store.Override) bool {
	names := allowance.Pattern(o.Names)
	switch {
	case w.limitName != "" && names != w.limitName && !allowance.SamePattern(o.Names, w.wanted.Names):
		return false
	case w.policy != "":
		return o.Subjects.IsZero() && strings.HasPrefix(names, w.policy+"/") && maps.Equal(o.Attributes, w.wanted.Attributes)
	case w.attributes != nil && o.Subjects.IsZero() && len(o.Attributes) > 0:
		return maps.Equal(o.Attributes, w.attributes)
	}
	return len(o.Attributes) == 0 && allowance.SamePattern(o.Subjects, w.wanted.Subjects)
}

// isCoveredBy reports whether an override that was set for other keys is for all of these, too.
func (w *whom) isCoveredBy(o *store.Override) bool {
	for name, value := range o.Attributes {
		if w.wanted.Attributes[name] != value && w.attributes[name] != value {
			return false
		}
	}
	subject, _ := w.wanted.Subjects.Exact()
	return (o.Names.IsZero() || o.Names.String() == w.wanted.Names.String()) &&
		(o.Subjects.IsZero() || o.Subjects.Match(cmp.Or(subject, w.wanted.Subjects.String())))
}

// isShownAs reports whether the list shows that text as the subject of an override, or as its subject and limits. A
// shell has removed the quotes around it, if any.
func (w *whom) isShownAs(o *store.Override) bool {
	if w.policy != "" || w.limitName != "" && allowance.Pattern(o.Names) != w.limitName {
		return false
	}
	whom := allowance.Whom(o)
	shown := output.Printable(whom)
	return slices.Contains([]string{whom, shown, strings.Trim(shown, `"`), allowance.WhomText(o)}, w.text)
}

// revokeOf ends the overrides of an effect, or of any, that were set for exactly these keys. what is their noun.
func (o *overrideRevokeOptions) revokeOf(ctx context.Context, w *whom, command, what string, keep func(*store.Override) bool) error {
	covering := ""
	err := o.revoke(ctx, command, what, func(runner *operation.Runner, access operation.Access) (ids []string, err error) {
		overrides, err := runner.Overrides(ctx)
		if err != nil && !errors.Is(err, store.ErrForeign) {
			return nil, err
		}
		var attributes map[string]string // of those to end
		for i := range overrides {
			override := &overrides[i]
			if !keep(override) {
				continue
			}
			if !w.isOf(override) && !w.isShownAs(override) {
				if covering == "" && w.isCoveredBy(override) {
					covering = sentence(override, o.Env.Now())
				}
				continue
			}
			if len(ids) > 0 && !maps.Equal(attributes, override.Attributes) { // for example a value with " user=" in it
				return nil, cli.Usagef("%s names overrides of different attributes; give the ID of one to `limitctl override revoke`", w)
			}
			ids, attributes = append(ids, override.ID), override.Attributes
			if !o.Given().Covers(access) {
				o.Say("%s", sentence(override, o.Env.Now()))
			}
		}
		if len(ids) == 0 {
			o.Note("no %s of exactly %s is in force", what, w)
			return nil, cli.ErrDenied
		}
		return ids, nil
	})
	if covering != "" && (err == nil || errors.Is(err, cli.ErrDenied)) {
		o.Note("still in force: %s", covering)
	}
	return err
}

// String names the keys in the words of the command line.
func (w *whom) String() string {
	text := w.text
	if w.policy != "" {
		text = strings.TrimSpace(shell.Command("--policy", w.policy) + " " + text)
	}
	if w.limitName != "" {
		text += " " + shell.Command("--limit-name", w.limitName)
	}
	return text
}
