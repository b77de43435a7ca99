package stepin

import (
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
func (o *whomOptions) parse(args []string) (*whom, error) {
	w := &whom{text: strings.Join(args, " "), policy: o.policy, limitName: o.limitName}
	args, err := o.NameClients(o.exact, cli.AttributesOrPattern(o.policy, args), args)
	if err != nil {
		return nil, err
	}
	set := &overrideSetOptions{Globals: o.Globals, exact: o.exact, policy: o.policy, limitName: o.limitName}
	if o.policy != "" {
		if o.exact {
			return nil, cli.Usagef("--exact is for a PATTERN, not for --policy")
		}
		return w, set.subjects(&w.wanted, args)
	}
	attributes, err := policy.ParseAttributes(args)
	if err == nil && !o.exact && len(args) > 0 {
		w.attributes = attributes
	}
	if len(args) == 1 {
		return w, set.subjects(&w.wanted, args)
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
	overrides, err := runner.Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return err
	}
	plan := &operation.RevokePlan{Consent: o.Given()}
	var attributes map[string]string // of those to end
	for i := range overrides {
		override := &overrides[i]
		if !keep(override) || !w.isOf(override) && !w.isShownAs(override) {
			continue
		}
		if len(plan.IDs) > 0 && !maps.Equal(attributes, override.Attributes) { // for example a value with " user=" in it
			return cli.Usagef("%s names overrides of different attributes; give the ID of one to `limitctl override revoke`", w)
		}
		plan.IDs, attributes = append(plan.IDs, override.ID), override.Attributes
		if !plan.Consent.Covers(s.Access()) {
			o.Say("%s", sentence(override, o.Env.Now()))
		}
	}
	if len(plan.IDs) == 0 {
		o.Note("no %s of exactly %s is in force; `limitctl override list` shows those of other patterns", what, w)
		return cli.ErrDenied
	}
	return o.revoke(ctx, runner, plan, s.Place(""))
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
