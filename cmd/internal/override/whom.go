package override

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/texts"
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
	set := &overrideSetOptions{Globals: o.Globals, exact: o.exact, policy: o.policy, limitName: o.limitName}
	if o.policy != "" {
		if o.exact {
			return nil, cli.Usagef("--exact is for a PATTERN, not for --policy; attributes are always taken as they are")
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
	case w.limitName != "" && names != w.limitName && !samePattern(o.Names, w.wanted.Names):
		return false
	case w.policy != "":
		return o.Subjects.IsZero() && strings.HasPrefix(names, w.policy+"/") && maps.Equal(o.Attributes, w.wanted.Attributes)
	case w.attributes != nil && o.Subjects.IsZero() && len(o.Attributes) > 0:
		return maps.Equal(o.Attributes, w.attributes)
	}
	return len(o.Attributes) == 0 && samePattern(o.Subjects, w.wanted.Subjects)
}

// isShownAs reports whether the list shows that text as the subject of an override, or as its subject and limits. A
// shell has removed the quotes around it, if any.
func (w *whom) isShownAs(o *store.Override) bool {
	if w.policy != "" || w.limitName != "" && allowance.Pattern(o.Names) != w.limitName {
		return false
	}
	whom := allowance.Whom(o)
	shown := output.Printable(whom)
	return slices.Contains([]string{whom, shown, strings.Trim(shown, `"`), whomText(o)}, w.text)
}

// couldMeet reports whether an override can be for some of the same keys.
func (w *whom) couldMeet(o *store.Override) bool {
	wanted := w.wanted
	if w.attributes != nil && w.policy == "" {
		wanted = store.Override{Attributes: w.attributes}
	}
	return meet(o, &wanted)
}

// isLike reports whether an override is for what is written almost like these keys, or ends in it, such as ip:10.0.0.0/8 for
// 10.0.0.0/8. Attributes are like the subjects that policies make of them.
func (w *whom) isLike(o *store.Override) bool {
	if w.policy != "" {
		return false
	}
	asked, whom := strings.ReplaceAll(w.text, "=", ":"), strings.ReplaceAll(allowance.Whom(o), "=", ":")
	most := 1
	if len(asked) >= 6 {
		most = 2
	}
	written := []string{whom}
	if _, unnamed, is := strings.Cut(whom, ":"); is {
		written = append(written, unnamed)
	}
	begin := len(whom) - len(asked)
	return texts.Nearest(asked, written, most) != "" ||
		begin > 0 && strings.EqualFold(asked, whom[begin:]) && strings.ContainsRune(": ", rune(whom[begin-1]))
}

// couldMeetByName reports whether an override can be for some of the same keys if these are meant with the name that its
// subjects begin with: ip:10.* for 10.0.0.0/8.
func (w *whom) couldMeetByName(o *store.Override) bool {
	subject, exact := o.Subjects.Exact()
	if !exact {
		subject = o.Subjects.LiteralBeginning()
	}
	name, _, is := strings.Cut(subject, ":")
	if !is || w.policy != "" || w.text == "" || strings.HasPrefix(w.text, name+":") {
		return false
	}
	subjects, err := store.ParsePattern(name + ":" + w.text)
	return err == nil && meet(o, &store.Override{Subjects: subjects, Names: w.wanted.Names})
}

// mostNamed is how many overrides a hint names.
const mostNamed = 3

// someOf joins the first few of some words by commas and a last one by a conjunction.
func someOf(words []string, conjunction string) string {
	words = slices.Compact(words)
	last := len(words) - 1
	switch {
	case last == 0:
		return words[0]
	case last >= mostNamed:
		return strings.Join(words[:mostNamed], ", ") + ", …"
	}
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}

// revokeOf ends the overrides of an effect, or of any, that were set for exactly these keys. what is their noun.
func (o *overrideRevokeOptions) revokeOf(ctx context.Context, w *whom, command, what string, keep func(*store.Override) bool) error {
	s, err := o.SettingsToChange(ctx)
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
	// Whom the others are for: those written like these keys, and those for some of the same keys. Attributes come last:
	// without the policy they seem to meet many a pattern.
	var like, around, byAttributes []string
	var attributes map[string]string // of those to end
	for i := range overrides {
		override := &overrides[i]
		switch {
		case !keep(override):
		case w.isOf(override), w.isShownAs(override):
			if len(plan.IDs) > 0 && !maps.Equal(attributes, override.Attributes) { // for example a value with " user=" in it
				return cli.Usagef("%s names overrides of different attributes; give the ID of one to `limitctl override revoke`", w)
			}
			plan.IDs, attributes = append(plan.IDs, override.ID), override.Attributes
			if !plan.Consent.Covers(s.Access()) {
				o.Say("%s", sentence(override, o.Env.Now()))
			}
		case w.isLike(override):
			like = append(like, shell.Command(whomText(override)))
		case len(override.Attributes) > 0 && w.couldMeet(override):
			byAttributes = append(byAttributes, shell.Command(whomText(override)))
		case w.couldMeet(override), w.couldMeetByName(override):
			around = append(around, shell.Command(whomText(override)))
		}
	}
	for _, list := range [][]string{like, around, byAttributes} {
		slices.Sort(list)
	}
	if len(plan.IDs) > 0 { // what was meant is found
		around, like = append(like, around...), nil
	}
	if around = append(around, byAttributes...); len(around) > 0 {
		o.Note("still in force: %s of another pattern, %s; see `limitctl override list`", cli.CountOf(int64(len(around)), what, what+"s"),
			someOf(around, "and"))
	}
	if len(plan.IDs) == 0 {
		hint := ""
		if len(like) > 0 {
			hint = "; did you mean " + someOf(like, "or") + "?"
		}
		o.Note("no %s of exactly %s is in force%s", what, w, hint)
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

// samePattern reports whether two patterns have the same text.
func samePattern(a, b store.Pattern) bool {
	subject, exact := a.Exact()
	other, otherExact := b.Exact()
	return exact == otherExact && subject == other && (exact || a.String() == b.String())
}
