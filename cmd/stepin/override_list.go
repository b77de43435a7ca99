package stepin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type overrideListOptions struct {
	*cli.Globals
	exact, all bool
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
		Long: `List shows the overrides in force: to whom they apply, what they do, how long
they last, who set them and why. Where several match a key, the first applies.

PATTERN keeps those that can apply to a matching subject, and NAME=VALUE those
that can apply to keys with that attribute. --all adds those that have ended, as
the audit log in the store has them, which keeps 2,500 entries.`,
		Example: `  limitctl override list
  limitctl override list tenant:acme:user:7
  limitctl override list tenant=acme
  limitctl override list --all
  limitctl override list -o json`,
		Args: cli.AtMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd.Context(), args); err != nil {
				return err
			}
			return runOverrideList(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "also show those that have ended, as far back as the audit log in the store goes")
	cmd.Flags().BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, as it is typed")
	return cli.ListsNames(cmd)
}

func (o *overrideListOptions) parse(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		if o.exact {
			return cli.Usagef("--exact is for a PATTERN, and none is given")
		}
		return nil
	}
	o.text = args[0]
	if args, err = o.NameClients(ctx, o.exact, cli.AttributesOrPattern("", args), args); err != nil {
		return err
	}
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
	has := allowance.AttributesOf(attributes)
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
	for _, override := range store.NewOverrideList(overrides).All() { // the one that applies first
		if o.keeps(&override) {
			answer.overrides = append(answer.overrides, &override)
		}
	}
	if o.all {
		err = errors.Join(err, o.readEnded(ctx, backend, overrides, answer))
	}
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

// readEnded adds the overrides that have ended, and says how far back they go.
func (o *overrideListOptions) readEnded(ctx context.Context, backend store.Store, inForce []store.Override, answer *overrideAnswer) error {
	history, err := cli.ReadJournal(ctx, o.Globals, backend, false, auditlog.Query{})
	if err != nil {
		return err
	}
	answer.ended = slices.DeleteFunc(operation.EndedOverrides(history.Runs, inForce, answer.now),
		func(e operation.Ended) bool { return !o.keeps(&e.Override) })
	switch {
	case history.StoreError != nil:
		return fmt.Errorf("the overrides that have ended cannot be read: %w", history.StoreError)
	case o.Quiet:
	case len(history.Runs) == 0:
		o.Note("the audit log in the store is empty, so it names no override that has ended")
	default:
		o.Note("those that have ended are of the audit log in the store, whose oldest run is of %s",
			cli.Clock(history.Runs[0].Time, answer.now))
	}
	return nil
}
