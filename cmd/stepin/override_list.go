package stepin

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func newOverrideListCmd(global *cli.Globals) *cobra.Command {
	exact := false
	cmd := &cobra.Command{
		Use:   "list [PATTERN]",
		Short: "Show the overrides that are in force",
		Long: `List shows the overrides in force: to whom they apply, what they do, how long
they last, who set them and why. Where several match a key, the first applies.

PATTERN keeps those that can apply to a matching subject. Those that have ended
are in limitctl audit.`,
		Example: `  limitctl override list
  limitctl override list tenant:acme:user:7
  limitctl override list -o json`,
		Args: cli.AtMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runOverrideList(cmd.Context(), global, args, exact)
		},
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "take PATTERN as a subject, as it is typed")
	return cmd
}

func runOverrideList(ctx context.Context, g *cli.Globals, args []string, exact bool) error {
	keeps := func(*store.Override) bool { return true }
	if len(args) > 0 {
		if err := checkPattern(args[0]); err != nil && !exact {
			return err
		}
		named, err := g.NameClients(ctx, exact, "", args)
		if err != nil {
			return err
		}
		subjects, err := cli.ParseSubjects(named[0], exact)
		if err != nil {
			return err
		}
		keeps = func(o *store.Override) bool { return canApply(o, subjects) }
	}
	s, err := g.Settings()
	if err != nil {
		return err
	}
	backend, where, err := g.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	overrides, err := cli.NewRunner(g, s, backend, where).Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return err
	}
	answer := &overrideAnswer{now: g.Env.Now()}
	for _, override := range store.NewOverrideList(overrides).All() { // the one that applies first
		if keeps(&override) {
			answer.overrides = append(answer.overrides, &override)
		}
	}
	switch others := len(overrides); {
	case len(answer.overrides) > 0 || err != nil || g.Quiet:
	case others == 0:
		g.Note("no override is in force in %s", s.Place(where))
	default:
		g.Note("none of the %s in force in %s can apply to %s", output.Plural(others, "override"), s.Place(where),
			output.Printable(args[0]))
	}
	return errors.Join(g.Print(answer), err)
}

// canApply reports whether an override may apply to keys of these subjects. Of one subject, the attributes are known.
func canApply(o *store.Override, subjects store.Pattern) bool {
	if !o.Subjects.Overlaps(subjects) {
		return false
	}
	subject, exact := subjects.Exact()
	if !exact {
		return true
	}
	attributes, _ := policy.ParseSubject(subject)
	has := allowance.AttributesOf(attributes)
	for name, value := range o.Attributes {
		if has[name] != value {
			return false
		}
	}
	return true
}
