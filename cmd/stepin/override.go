// Package stepin has the commands by which an operator steps in while a service runs: reset, undo, override, block,
// unblock and exempt.
package stepin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
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

// overrideRevokeOptions are those of the commands that end overrides.
type overrideRevokeOptions struct {
	whomOptions
	cli.ConsentOptions
}

func newOverrideRevokeCmd(global *cli.Globals) *cobra.Command {
	o := &overrideRevokeOptions{whomOptions: whomOptions{Globals: global}}
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "End overrides now",
		Long: `Revoke ends the overrides with these IDs early. Within about a second the limits
apply as configured again. If an ID belongs to no override in force, it revokes
nothing, and the exit code is 1.`,
		Example: `  limitctl override revoke 3f9a1c
  limitctl override revoke 3f9a1c 77b0de --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no ID given; `limitctl override list` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.revoke(cmd.Context(), "override revoke", "overrides",
				func(*operation.Runner, operation.Access) ([]string, error) { return args, nil })
		},
	}
	o.AddConsentFlags(cmd)
	return cmd
}

// NewUnblockCmd makes limitctl unblock.
func NewUnblockCmd(global *cli.Globals) *cobra.Command {
	o := &overrideRevokeOptions{}
	cmd := &cobra.Command{
		Use:   "unblock PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "End the blocks of a pattern now",
		Long: `Unblock revokes all blocks that were set for exactly these keys. Other overrides
and blocks of other patterns stay. If there is no such block, the exit code is
1.`,
		Example: `  limitctl unblock ip:203.0.113.9
  limitctl unblock 'tenant:acme:*' --yes
  limitctl unblock --policy login ip=203.0.113.9 --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.unblock(cmd.Context(), args) },
	}
	o.addWhomFlags(cmd, global)
	o.AddConsentFlags(cmd)
	return cmd
}

// revoke ends the overrides whose IDs choose returns, and prints them. what are these.
func (o *overrideRevokeOptions) revoke(ctx context.Context, command, what string,
	choose func(*operation.Runner, operation.Access) (ids []string, err error)) error {
	if err := mayChange(o.Globals, &o.ConsentOptions, command, "ends "+what, ""); err != nil {
		return err
	}
	runner, s, err := openRunner(o.Globals, false)
	if err != nil {
		return err
	}
	defer runner.Store.Close()
	ids, err := choose(runner, s.Access())
	if err != nil {
		return err
	}
	revoked, err := runner.RevokeOverrides(ctx, ids, o.Given(), &cli.Observer{Global: o.Globals})
	if err != nil && len(revoked) == 0 {
		return err
	}
	return errors.Join(err, o.Print(&overrideAnswer{overrides: revoked, now: o.Env.Now(), did: "revoked",
		place: s.Place("")}))
}

// mayChange returns early what forbids a change of the store in use, or that nobody can be asked. does and otherwise
// are those of [cli.ConsentOptions.Check].
func mayChange(g *cli.Globals, o *cli.ConsentOptions, command, does, otherwise string) error {
	s, err := g.SettingsToChange()
	if err != nil {
		return err
	}
	return o.Check(s.Access(), g.Env.InIsTerminal, command, does, otherwise)
}

// openRunner opens the store in use, to change it or only to look. The caller closes the runner's store.
func openRunner(g *cli.Globals, looks bool) (*operation.Runner, *cli.Settings, error) {
	s, err := g.Settings()
	if err != nil {
		return nil, nil, err
	}
	open := g.Open
	if looks {
		open = g.OpenToRead
	}
	backend, where, err := open()
	if err != nil {
		return nil, nil, err
	}
	return cli.NewRunner(g, s, backend, where), s, nil
}

// unblock ends the blocks that were set by exactly these words.
func (o *overrideRevokeOptions) unblock(ctx context.Context, args []string) error {
	words := strings.Join(args, " ")
	if o.policy != "" {
		words = strings.TrimSpace(shell.Command("--policy", o.policy) + " " + words)
	}
	if o.limitName != "" {
		words += " " + shell.Command("--limit-name", o.limitName)
	}
	var wanted store.Override
	if _, err := o.subjects(ctx, &wanted, args); err != nil {
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
	choose := func(runner *operation.Runner, access operation.Access) (ids []string, err error) {
		overrides, err := runner.Overrides(ctx)
		if err != nil && !errors.Is(err, store.ErrForeign) {
			return nil, err
		}
		for i := range overrides {
			if override := &overrides[i]; override.Effect == store.OverrideBlock && isOf(override) {
				ids = append(ids, override.ID)
				if !o.Given().Covers(access) {
					o.Say("%s", sentence(override, o.Env.Now()))
				}
			}
		}
		if len(ids) == 0 {
			o.Note("no block of exactly %s is in force", words)
			return nil, cli.ErrDenied
		}
		return ids, nil
	}
	return o.revoke(ctx, "unblock", "blocks", choose)
}

// whomOptions are the flags and arguments that say whom an override is for.
type whomOptions struct {
	*cli.Globals
	exact             bool
	policy, limitName string
}

func (o *whomOptions) addWhomFlags(cmd *cobra.Command, global *cli.Globals) {
	o.Globals = global
	flags := cmd.Flags()
	flags.BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, as it is typed")
	flags.StringVar(&o.policy, "policy", "", "keys of the `POLICY`, with the attributes given as arguments")
	flags.StringVar(&o.limitName, "limit-name", "", "only limits called `NAME` (a glob)")
	complete := cli.Offers(global)
	cmd.RegisterFlagCompletionFunc("policy", complete.Policies)
	cmd.RegisterFlagCompletionFunc("limit-name", complete.LimitNames)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if o.policy != "" && o.exact {
			return cli.Usagef("--exact is for a PATTERN, not for --policy")
		}
		if err := o.selection().Arguments(cmd, args); err != nil || o.exact || o.policy != "" {
			return err
		}
		return checkPattern(args[0])
	}
}

// selection is the same in the form of the commands that select keys.
func (o *whomOptions) selection() *cli.SelectionOptions {
	return &cli.SelectionOptions{Exact: o.exact, Policy: o.policy, Name: o.limitName}
}

// checkPattern refuses what looks like an attribute, an address or a network and hardly matches any subject: it would
// succeed and change nothing. --exact allows it.
func checkPattern(pattern string) error {
	name, value, isPair := strings.Cut(pattern, "=")
	_, notNetwork := netip.ParsePrefix(pattern)
	_, last, _ := strings.Cut(pattern, ":")
	address, bits, _ := strings.Cut(last, "/")
	_, wrongBits := netip.ParsePrefix(last)
	switch {
	case isAddress(address) && bits != "" && wrongBits != nil:
		return cli.Usagef("%q is no network; write it like 203.0.113.0/24, or add --exact", pattern)
	case isPair && subjecttext.IsName(name):
		return cli.Usagef("%s is an attribute, and a PATTERN of subjects is needed; write %s, or add --policy '*'",
			pattern,
			shell.Command(name+":"+value))
	case isAddress(pattern) || notNetwork == nil:
		return cli.Usagef("%s is no subject, which begins with a name; write %s, or add --exact", pattern,
			shell.Command("ip:"+pattern))
	}
	return nil
}

// isAddress reports whether a text is an address, however it is written.
func isAddress(text string) bool {
	_, is := (&httplimit.Clients{}).Client(text)
	return is && !strings.Contains(text, "/")
}

// subjects sets whom the override is for, and returns the arguments with each address as the client that the server
// counts.
func (o *whomOptions) subjects(ctx context.Context, override *store.Override, args []string) (
	named []string, err error) {
	for _, attribute := range args {
		name, value, _ := strings.Cut(attribute, "=")
		if o.policy != "" && o.isPattern(ctx, name, value) {
			return nil, cli.Usagef("%s: an attribute has one value, so %q is no pattern; write %s without --policy",
				attribute, value,
				shell.Command(name+":"+value, "--limit-name", o.policy+"/"+cmp.Or(o.limitName, "*")))
		}
	}
	if args, err = o.NameClients(ctx, o.exact, o.policy, args); err != nil {
		return nil, err
	}
	limits := o.limitName
	if o.policy == "" {
		if trimmed := strings.TrimSpace(args[0]); trimmed != args[0] && !o.exact {
			return nil, cli.Usagef("the pattern %q begins or ends with a blank; write %q, or add --exact", args[0],
				trimmed)
		}
		if override.Subjects, err = cli.ParseSubjects(args[0], o.exact); err != nil || limits == "" {
			return args, err
		}
		if o.isOfPolicies(ctx, limits) {
			limits = "*/" + limits
		}
	} else {
		if override.Attributes, err = policy.ParseAttributes(args); err != nil {
			return nil, err
		}
		if limits, err = cli.WithoutPolicy(cmp.Or(limits, "*"), o.policy); err != nil {
			return nil, err
		}
		limits = o.policy + "/" + limits
	}
	override.Names, err = store.ParsePattern(limits)
	return args, err
}

// isPattern reports whether the value of an attribute is a pattern or a network, but for the network of one client.
func (o *whomOptions) isPattern(ctx context.Context, name, value string) bool {
	network, err := netip.ParsePrefix(value)
	if err != nil || network.Addr().Is4() {
		return err == nil || strings.ContainsAny(value, "*?[") && !isAddress(value)
	}
	c, err := o.InForce(ctx)
	policies, wrong := store.ParsePattern(o.policy)
	if err != nil || wrong != nil {
		return false
	}
	address := netip.AddrPortFrom(network.Addr(), 1).String() // which is never the text of a client
	return slices.ContainsFunc(c.Policies, func(p *policy.Policy) bool {
		client := c.HTTP.Client(p.Name, name, address)
		return policies.Match(p.Name) && client != address && client != c.HTTP.Client(p.Name, name, value)
	})
}

// isOfPolicies reports whether a --limit-name is the name of a limit within its policy.
func (o *whomOptions) isOfPolicies(ctx context.Context, limitName string) bool {
	name, err := store.ParsePattern(limitName)
	if err != nil || strings.Contains(limitName, "/") {
		return false
	}
	c, err := o.InForce(ctx)
	return err == nil && slices.ContainsFunc(c.Policies, func(p *policy.Policy) bool {
		return slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return name.Match(l.Name) })
	})
}

// overrideAnswer is the answer of the commands that set, revoke or list overrides.
type overrideAnswer struct {
	SchemaVersion int                  `json:"schema_version"`
	DryRun        bool                 `json:"dry_run,omitempty"`
	Overrides     []allowance.Document `json:"overrides"`
	Concerned     *operation.Concerned `json:"concerned,omitempty"` // what it changes, where that was looked at
	overrides     []store.Override
	now           time.Time
	did           string // "set" or "revoked"; empty for a list
	place         string // the name of the context in which it was done; empty without one
}

// Document implements output.Answer.
func (a *overrideAnswer) Document() any {
	a.SchemaVersion, a.Overrides = output.SchemaVersion, make([]allowance.Document, len(a.overrides))
	for i := range a.overrides {
		a.Overrides[i] = allowance.NewDocument(&a.overrides[i])
	}
	return a
}

// Items implements output.Answer.
func (a *overrideAnswer) Items() any {
	if a.Document(); a.DryRun {
		return []*overrideAnswer{a}
	}
	return a.Overrides
}

// Records implements output.Answer.
func (a *overrideAnswer) Records() [][]string {
	if a.DryRun {
		return output.Rows(a.Concerned.Limits)
	}
	return output.Rows(a.Items())
}

// Print implements output.Answer.
func (a *overrideAnswer) Print(p *output.Printer) {
	switch {
	case a.DryRun:
		a.printConcerned(p)
	case a.did != "":
		did := "✓ " + a.did
		if a.place != "" {
			did += " in " + output.Printable(a.place)
		}
		for i := range a.overrides {
			p.Line("%s  %s", p.Paint(output.Calm, did), sentence(&a.overrides[i], a.now))
		}
	case len(a.overrides) > 0:
		var rows [][]output.Cell
		for i := range a.overrides {
			o := &a.overrides[i]
			rows = append(rows, []output.Cell{{Text: allowance.Whom(o)}, {Text: allowance.Pattern(o.Names)},
				{Text: allowance.Effect(o), Style: effectStyle(o)},
				{Text: output.Duration(o.Left.Truncate(time.Second))},
				{Text: cli.Clock(o.ExpiresAt, a.now)}, {Text: o.By}, {Text: o.Reason}, {Text: o.ID}})
		}
		p.Table([]output.Column{{Header: "SUBJECT", Shrinks: 16}, {Header: "LIMIT", Shrinks: 8},
			{Header: "EFFECT", Shrinks: 10},
			{Header: "LEFT", Right: true}, {Header: "UNTIL", Drops: 3}, {Header: "BY", Shrinks: 5, Drops: 1},
			{Header: "REASON", Shrinks: 8, Drops: 2}, {Header: "ID"}}, rows)
	}
}

// mostPreviewed is how many rows the table of a preview has.
const mostPreviewed = 20

// printConcerned prints what the override changes, by limit, and until when.
func (a *overrideAnswer) printConcerned(p *output.Printer) {
	defer func() { p.Line("until %s", cli.Clock(a.overrides[0].ExpiresAt, a.now)) }()
	if len(a.Concerned.Limits) == 0 {
		p.Line("no key in use would change")
		return
	}
	columns := []output.Column{{Header: "SUBJECT", Shrinks: 12, Drops: 1}, {Header: "LIMIT", Shrinks: 12},
		{Header: "NOW", Shrinks: 12},
		{Header: "", Drops: 2}, {Header: "THEN", Shrinks: 12}, {Header: "KEYS", Right: true},
		{Header: "DECIDED BY", Shrinks: 12}}
	var rows [][]output.Cell
	whom, more := allowance.Whom(&a.overrides[0]), a.Concerned.Keys
	for _, l := range a.Concerned.Limits[:min(len(a.Concerned.Limits), mostPreviewed)] {
		by := "this override"
		if l.Override != "" {
			by = "override " + l.Override + ", which comes first"
		}
		rows = append(rows, []output.Cell{{Text: whom}, {Text: l.Name}, {Text: l.Now}, {Text: "→"},
			{Text: l.Then, Style: effectStyle(&a.overrides[0])}, {Text: output.Thousands(l.Keys)}, {Text: by}})
		more -= l.Keys
	}
	if p.Table(columns, rows); more > 0 {
		p.Line("… and %s more", output.Count(more, "key"))
	}
}

// effectStyle is the style of an override's effect.
func effectStyle(o *store.Override) output.Style {
	if o.Effect == store.OverrideBlock {
		return output.AtEnd
	}
	return output.Plain
}

// sentence describes an override completely, for people.
func sentence(o *store.Override, now time.Time) string {
	return fmt.Sprintf("override %s: %s %s", o.ID, output.Printable(allowance.All(o)), cli.Ending(o, now))
}
