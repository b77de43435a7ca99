// Package override has the commands by which an operator steps in while a service runs: override, block,
// unblock and exempt.
package override

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/subjecttext"
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

type overrideListOptions struct {
	*cli.Globals
	exact bool
	// text is PATTERN as given; empty for all. It selects by subjects or by attributes.
	text       string
	subjects   *store.Pattern
	attributes policy.Attributes
}

func newOverrideListCmd(global *cli.Globals) *cobra.Command {
	o := &overrideListOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "list [PATTERN]",
		Short: "Show the overrides that are in force",
		Long: `List shows the overrides in force, the next to end first: to whom they apply,
what they do, how long they last, who set them and why.

With PATTERN it shows only overrides that can apply to a matching subject, also
those that were set for attributes. NAME=VALUE shows those that can apply to
keys with that attribute.`,
		Example: `  limitctl override list
  limitctl override list tenant:acme:user:7
  limitctl override list tenant=acme
  limitctl override list -o json`,
		Args: cli.AtMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(args); err != nil {
				return err
			}
			return runOverrideList(cmd.Context(), o)
		},
		ValidArgsFunction: cli.Offers(global).Keys,
	}
	cmd.Flags().BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, even if it holds glob characters")
	return cmd
}

func (o *overrideListOptions) parse(args []string) error {
	if len(args) == 0 {
		if o.exact {
			return cli.Usagef("--exact is for a PATTERN, and none is given")
		}
		return nil
	}
	o.text = args[0]
	if attributes, err := policy.ParseAttributes(args); err == nil && !o.exact {
		o.attributes = attributes
		return nil
	}
	pattern, err := cli.ParseSubjects(args[0], o.exact)
	o.subjects = &pattern
	return err
}

// keeps reports whether the list shows an override: whether it can apply to a selected key.
func (o *overrideListOptions) keeps(override *store.Override) bool {
	switch {
	case o.attributes != nil:
		return couldHave(override, o.attributes)
	case o.subjects == nil:
		return true
	case !override.Subjects.Overlaps(*o.subjects):
		return false
	}
	subject, exact := o.subjects.Exact()
	if !exact {
		for name, value := range override.Attributes {
			if !canHave(*o.subjects, name, value) {
				return false
			}
		}
		return true
	}
	if len(override.Attributes) == 0 {
		return true
	}
	attributes, _ := policy.ParseSubject(subject)
	has := cli.AttributesOf(attributes)
	for name, value := range override.Attributes {
		if has[name] != value {
			return false
		}
	}
	return true
}

// couldHave reports whether an override can apply to keys with these attributes.
func couldHave(override *store.Override, attributes policy.Attributes) bool {
	named := len(override.Attributes) == 0
	for name, value := range attributes {
		of, is := override.Attributes[name]
		if is && of != value || !canHave(override.Subjects, name, value) {
			return false
		}
		named = named || is
	}
	return named
}

// canHave reports whether a pattern selects subjects that have an attribute. A subject has no attribute twice.
func canHave(subjects store.Pattern, name, value string) bool {
	attribute := store.EscapeGlob(subjecttext.Join([]subjecttext.Attribute{{Name: name, Value: value}}))
	forms := []string{attribute, attribute + ":*"}
	if !strings.HasPrefix(subjects.LiteralBeginning(), name+":") {
		forms = append(forms, "*:"+attribute, "*:"+attribute+":*")
	}
	return slices.ContainsFunc(forms, func(form string) bool {
		pattern, err := store.ParsePattern(form)
		return err == nil && subjects.Overlaps(pattern)
	})
}

func runOverrideList(ctx context.Context, o *overrideListOptions) error {
	s, err := o.Settings()
	if err != nil {
		return err
	}
	backend, where, err := o.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	overrides, err := cli.NewRunner(o.Globals, s, backend, where).Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return err
	}
	answer := &overrideAnswer{now: o.Env.Now()}
	for i := range overrides {
		if o.keeps(&overrides[i]) {
			answer.overrides = append(answer.overrides, &overrides[i])
		}
	}
	answer.sort()
	if len(answer.overrides) == 0 && err == nil && !o.Quiet {
		switch others := len(overrides); {
		case others == 0:
			o.Note("no override is in force in %s", s.Place(where))
		default:
			o.Note("none of the %s in force in %s can apply to %s", output.Plural(others, "override"), s.Place(where),
				output.Printable(o.text))
		}
	}
	return errors.Join(o.Print(answer), err)
}

type overrideRevokeOptions struct {
	*cli.Globals
	cli.ConsentOptions
}

func newOverrideRevokeCmd(global *cli.Globals) *cobra.Command {
	o := &overrideRevokeOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "End overrides now",
		Long: `Revoke ends overrides early. Within about a second the limits apply as
configured again. If an ID belongs to no override in force, it revokes nothing,
and the exit code is 1.`,
		Example: `  limitctl override revoke 3f9a1c
  limitctl override revoke 3f9a1c 77b0de --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no ID given; `limitctl override list` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runOverrideRevoke(cmd.Context(), o, args)
		},
		ValidArgsFunction: completer{global}.overrideIDs,
	}
	o.AddConsentFlags(cmd)
	return cmd
}

func runOverrideRevoke(ctx context.Context, o *overrideRevokeOptions, ids []string) error {
	s, err := o.SettingsToChange(ctx)
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
	return o.revoke(ctx, cli.NewRunner(o.Globals, s, backend, where), plan)
}

// revoke ends the overrides of a plan and prints them.
func (o *overrideRevokeOptions) revoke(ctx context.Context, runner *operation.Runner, plan *operation.RevokePlan) error {
	revoked, err := runner.RevokeOverrides(ctx, plan, &cli.Observer{Global: o.Globals})
	if err != nil && len(revoked) == 0 {
		return err
	}
	answer := &overrideAnswer{now: o.Env.Now(), did: "revoked"}
	for i := range revoked {
		answer.overrides = append(answer.overrides, &revoked[i])
	}
	if printErr := o.Print(answer); err == nil {
		err = printErr
	}
	return err
}
