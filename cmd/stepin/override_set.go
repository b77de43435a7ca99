package stepin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overrideSetOptions are the flags of the commands that set an override.
type overrideSetOptions struct {
	*cli.Globals
	cli.ConsentOptions
	exact     bool
	policy    string
	limitName string
	effectOptions
	lasts, until string
	dryRun       bool
}

// overridePatternHelp explains the arguments that select keys.
const overridePatternHelp = `PATTERN is a glob over subjects or a network, as in inspect. With --policy the
arguments are attributes, and the override is for every key of the policy that
has them. It ends after --for, at most 30 days, or at --until: 04:00 (the next
one here), a date and time, or an instant such as 2026-11-22T04:00:00Z.

It first shows what would apply to the keys in use, looking for at most
--timeout, and asks. Without a terminal it needs --yes, in a protected context
the context's name, which --confirm gives.`

func newOverrideSetCmd(global *cli.Globals) *cobra.Command {
	o := &overrideSetOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "set PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Change the limits of some subjects for a while",
		Long: `Set gives the keys whose subject matches PATTERN another limit for a while
(--limit), a multiple of their limit (--times), or more units (--add). The same
override set again keeps its ID and takes the new end and reason. Without
burst=N, a --limit keeps the burst of the limit in force.

` + overridePatternHelp,
		Example: `  limitctl override set 'tenant:acme:*' --times 3 --for 2h --reason "launch day"
  limitctl override set user:42 --limit 1000/1m --until 04:00 --reason "import"
  limitctl override set --policy api tenant=acme --add 500 --for 1h --reason "as sold"
  limitctl override set 'tenant:acme:*' --times 3 --for 2h --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.addFlags(cmd)
	o.addEffectFlags(cmd)
	return cmd
}

// NewBlockCmd makes "limitctl block".
func NewBlockCmd(global *cli.Globals) *cobra.Command {
	o := &overrideSetOptions{Globals: global, effectOptions: effectOptions{fixed: store.OverrideBlock}}
	cmd := &cobra.Command{
		Use:   "block PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Deny everything to some subjects for a while",
		Long: `Block denies every request for the keys whose subject matches PATTERN, until the
block ends or is revoked (see limitctl unblock). It charges nothing.

` + overridePatternHelp,
		Example: `  limitctl block ip:203.0.113.9 --for 1h --reason "scraper"
  limitctl block ip:203.0.113.0/24 --for 1h --reason "scrapers"
  limitctl block 'tenant:acme:*' --until 04:00 --reason "runaway job" --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.addFlags(cmd)
	return cmd
}

// NewExemptCmd makes "limitctl exempt".
func NewExemptCmd(global *cli.Globals) *cobra.Command {
	o := &overrideSetOptions{Globals: global, effectOptions: effectOptions{fixed: store.OverrideExempt}}
	cmd := &cobra.Command{
		Use:   "exempt PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Allow everything to some subjects for a while",
		Long: `Exempt allows every request for the keys whose subject matches PATTERN, until
the exemption ends or is revoked. Requests are still counted.

` + overridePatternHelp,
		Example: `  limitctl exempt tenant:acme --for 30m --reason "migration"
  limitctl exempt --policy api tenant=acme --until 04:00 --reason "migration" --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.addFlags(cmd)
	return cmd
}

// addFlags adds the flags of all commands that set an override.
func (o *overrideSetOptions) addFlags(cmd *cobra.Command) {
	complete := cli.Offers(o.Globals)
	cmd.ValidArgsFunction = complete.Attributes
	cmd.Args = func(cmd *cobra.Command, args []string) error { return o.arguments(cmd, args) }
	flags := cmd.Flags()
	flags.BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, as it is typed")
	flags.StringVar(&o.policy, "policy", "", "keys of the `POLICY`, with the attributes given as arguments")
	flags.StringVar(&o.limitName, "limit-name", "", "only limits called `NAME` (a glob)")
	addEndFlags(cmd, &o.lasts, &o.until)
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	o.AddConsentFlags(cmd)
	flags.Lookup("reason").Usage = "why (required); the override and the audit log show the `TEXT`"
	cmd.RegisterFlagCompletionFunc("policy", complete.Policies)
	cmd.RegisterFlagCompletionFunc("limit-name", complete.LimitNames)
}

// arguments is the check of the command's arguments.
func (o *overrideSetOptions) arguments(cmd *cobra.Command, args []string) error {
	if o.policy != "" && o.exact {
		return cli.Usagef("--exact is for a PATTERN, not for --policy")
	}
	if err := o.selection().Arguments(cmd, args); err != nil {
		return err
	}
	if o.exact {
		return nil
	}
	if o.policy == "" {
		return checkBlockable(args[0])
	}
	return nil
}

// checkValues refuses patterns in the place of attributes' values.
func (o *overrideSetOptions) checkValues(ctx context.Context, args []string) error {
	for _, attribute := range args {
		name, value, _ := strings.Cut(attribute, "=")
		if o.policy != "" && o.isPatternValue(ctx, name, value) {
			return cli.Usagef("%s: an attribute has one value, so %q is no pattern; write %s without --policy", attribute, value,
				shell.Command(name+":"+value, "--limit-name", o.policy+"/"+cmp.Or(o.limitName, "*")))
		}
	}
	return nil
}

// isPatternValue reports whether the value of an attribute looks like a pattern or a network. Neither is allowed, except the
// network that stands for one client.
func (o *overrideSetOptions) isPatternValue(ctx context.Context, name, value string) bool {
	network, err := netip.ParsePrefix(value)
	if err != nil || network.Addr().Is4() {
		return err == nil || strings.ContainsAny(value, "*?[") && !isAddress(value)
	}
	c, err := o.InForce(ctx)
	if err != nil {
		return false
	}
	address := network.Addr().String()
	client := c.HTTP.Client(o.policy, name, address)
	return client != address && client != c.HTTP.Client(o.policy, name, value)
}

// checkBlockable refuses patterns that look like an address, a network or an attribute and hardly match any subject:
// the command would succeed and change nothing. --exact allows them.
func checkBlockable(pattern string) error {
	switch what, instead := mistaken(pattern); what {
	case "":
		return nil
	case "an attribute":
		return cli.Usagef("%s is an attribute, and without --policy a PATTERN of subjects is needed; write %s, or add --policy '*'",
			pattern,
			shell.Command(instead))
	default:
		return cli.Usagef("%s is %s, and subjects begin with a name; write %s, or add --exact if a subject is %s alone",
			pattern, what,
			shell.Command(instead), "the "+what[strings.IndexByte(what, ' ')+1:])
	}
}

// mistaken recognizes an address, a network or an attribute that was typed in place of a pattern, and returns what to write
// instead; empty for others.
func mistaken(pattern string) (what, instead string) {
	name, value, isPair := strings.Cut(pattern, "=")
	_, networkErr := netip.ParsePrefix(pattern)
	switch {
	case isPair && subjecttext.IsName(name):
		return "an attribute", name + ":" + value
	case isAddress(pattern):
		return "an address", "ip:" + pattern
	case networkErr == nil:
		return "a network", "ip:" + pattern
	}
	return "", ""
}

// selection is the override's selection in the form of the commands that select keys.
func (o *overrideSetOptions) selection() *cli.SelectionOptions {
	return &cli.SelectionOptions{Exact: o.exact, Policy: o.policy, Name: o.limitName}
}

// run sets the override of the command line, or shows what it would do.
func (o *overrideSetOptions) run(cmd *cobra.Command, args []string) error {
	plan, err := o.plan(cmd)
	if err != nil {
		return err
	}
	s, err := o.Settings()
	if err == nil && !o.dryRun {
		s, err = o.SettingsToChange()
	}
	if err != nil {
		return err
	}
	if !o.dryRun {
		name := strings.TrimPrefix(cmd.CommandPath(), "limitctl ")
		if err := o.Check(s.Access(), o.Env.InIsTerminal, name, "sets an override", ", or --dry-run to look first"); err != nil {
			return err
		}
	}
	if err := o.choose(cmd.Context(), plan, args); err != nil {
		return err
	}
	return o.set(cmd.Context(), s, plan)
}

// overridePlan is the override of a command line.
type overridePlan struct {
	operation.OverridePlan
	// selection finds the keys in use that the override concerns.
	selection operation.Selection
	// configured is [cli.InForce.Configured].
	configured func(store.Key) (store.Limit, bool)
}

// plan turns the flags into an override, of nobody yet.
func (o *overrideSetOptions) plan(cmd *cobra.Command) (*overridePlan, error) {
	plan := &overridePlan{OverridePlan: operation.OverridePlan{Consent: o.Given()}}
	override := &plan.Override
	effect, err := o.effect(cmd, override)
	if err != nil {
		return nil, err
	}
	now := o.Env.Now()
	end, err := parseEnd(cmd, o.lasts, o.until, now)
	if err != nil {
		return nil, err
	}
	plan.Lasts = end.Sub(now)
	override.CreatedAt, override.ExpiresAt, override.Left = now, end, plan.Lasts // by the clock of this machine
	override.Reason = strings.TrimSpace(o.Reason)
	if override.Reason == "" && !o.dryRun {
		return nil, cli.Usagef("no reason given; say why with --reason TEXT, for those who find the override later; nothing was set")
	}
	lasts := []string{"--for", store.FormatPeriod(plan.Lasts)}
	if o.until != "" {
		plan.Until = end
		lasts = []string{"--until", end.UTC().Format(time.RFC3339)}
	}
	plan.Text = strings.TrimPrefix(effect+" ", " ") + shell.Command(lasts...)
	return plan, nil
}

// choose adds whom the override is for, by the configuration in force.
func (o *overrideSetOptions) choose(ctx context.Context, plan *overridePlan, args []string) error {
	if err := o.checkValues(ctx, args); err != nil {
		return err
	}
	args, err := o.NameClients(ctx, o.exact, o.policy, args)
	if err != nil {
		return err
	}
	if plan.selection, err = o.selection().Selected(ctx, o.Globals, args); err != nil {
		return err
	}
	plan.Text = plan.selection.Text + " " + plan.Text
	if err := o.subjects(ctx, &plan.Override, args); err != nil {
		return err
	}
	c, err := o.InForce(ctx)
	if err != nil {
		return err
	}
	if err := o.keepBurst(plan, c.Policies); err != nil {
		return err
	}
	if err := plan.Override.Check(plan.Lasts); err != nil { // before the audit records the begin of a change
		return err
	}
	if plan.configured = c.Configured(); o.policy+o.limitName != "" && c.Doubt != nil {
		return c.Doubt
	}
	return nil
}

// keepBurst gives a --limit without burst=N the burst of the limits of policies that it replaces.
func (o *overrideSetOptions) keepBurst(plan *overridePlan, policies []*policy.Policy) error {
	override := &plan.Override
	if override.Effect != store.OverrideLimit || !override.Limit.Algorithm.HasBurst() || strings.Contains(o.limit, "burst=") {
		return nil
	}
	known := policy.Attributes(override.Attributes)
	if known == nil {
		subject, exact := override.Subjects.Exact()
		if !exact { // what a glob or a network begins with
			text := override.Subjects.String()
			subject = text[:strings.IndexAny(text+"*", `*?[\`)]
		}
		list, _ := policy.ParseSubject(strings.TrimRight(subject, ":"))
		known = allowance.AttributesOf(list)
	}
	var bursts []int64 // 0 for one that follows the count
	for _, p := range policies {
		for i := range p.Limits {
			l, all := &p.Limits[i], policy.Attributes{}
			for _, name := range l.By {
				all[name] = cmp.Or(known[name], "any")
			}
			if !override.Matches(p.Key(l, all)) {
				continue
			}
			for _, candidate := range l.Candidates(known) {
				limit, burst := candidate.Limit, int64(0)
				if limit.Algorithm.HasBurst() && limit.Capacity() != limit.Count {
					burst = limit.Capacity()
				}
				if !slices.Contains(bursts, burst) {
					bursts = append(bursts, burst)
				}
			}
		}
	}
	switch {
	case len(bursts) > 1:
		return cli.Usagef("--limit %s replaces limits of the bursts %s; add burst=N", o.limit,
			strings.Join(strings.Fields(strings.Trim(fmt.Sprint(bursts), "[]")), " and "))
	case len(bursts) == 1 && bursts[0] > 0:
		override.Limit.Burst = bursts[0]
		given := shell.Command("--limit", o.limit)
		plan.Text = strings.Replace(plan.Text, given, given+fmt.Sprintf(",burst=%d", bursts[0]), 1)
		if !o.Quiet {
			o.Note("burst %d kept; burst=N sets another", bursts[0])
		}
	}
	return nil
}

// subjects sets the subjects or attributes of the override.
func (o *overrideSetOptions) subjects(ctx context.Context, override *store.Override, args []string) (err error) {
	limits := o.limitName
	switch {
	case o.policy == "":
		if trimmed := strings.TrimSpace(args[0]); trimmed != args[0] && !o.exact {
			return cli.Usagef("the pattern %q begins or ends with a blank; write %q, or give --exact for that subject", args[0], trimmed)
		}
		if override.Subjects, err = cli.ParseSubjects(args[0], o.exact); err != nil || limits == "" {
			return err
		}
		if o.isOfPolicies(ctx, limits) {
			limits = "*/" + limits
		}
	default:
		if override.Attributes, err = policy.ParseAttributes(args); err != nil {
			return err
		}
		if limits, err = cli.WithoutPolicy(cmp.Or(limits, "*"), o.policy); err != nil {
			return err
		}
		limits = o.policy + "/" + limits
	}
	override.Names, err = store.ParsePattern(limits)
	return err
}

// isOfPolicies reports whether a --limit-name is the name of a limit within its policy.
func (o *overrideSetOptions) isOfPolicies(ctx context.Context, limitName string) bool {
	name, err := store.ParsePattern(limitName)
	if err != nil || strings.Contains(limitName, "/") {
		return false
	}
	c, err := o.InForce(ctx)
	return err == nil && slices.ContainsFunc(c.Policies, func(p *policy.Policy) bool {
		return slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return name.Match(l.Name) })
	})
}

// set shows the keys that the override concerns, asks, sets it and prints it.
func (o *overrideSetOptions) set(ctx context.Context, s *cli.Settings, plan *overridePlan) error {
	open := o.Open
	if o.dryRun {
		open = o.OpenToRead
	}
	backend, where, err := open()
	if err != nil {
		return err
	}
	defer backend.Close()
	runner := cli.NewRunner(o.Globals, s, backend, where)
	answer := &overrideAnswer{now: o.Env.Now(), did: "set", place: s.Place("")}
	most := o.Timeout
	if _, exact := plan.Override.Subjects.Exact(); o.dryRun && !exact {
		most = 0 // the user waits for it
	}
	asks := !plan.Consent.Covers(s.Access())
	if o.dryRun || asks {
		if answer.concerned, err = o.concerned(ctx, runner, plan, most); err != nil {
			return err
		}
	}
	if answer.concerned != nil && !o.Quiet {
		o.noteConcerned(ctx, plan, answer.concerned, s.Place(where))
	}
	preview := &previewAnswer{&plan.Override, answer.concerned}
	if o.dryRun {
		return o.Print(preview)
	}
	if asks && !o.Quiet {
		p := o.Printer()
		p.Out = o.Env.Err
		preview.Print(p)
	}
	set, err := runner.SetOverride(ctx, &plan.OverridePlan, &cli.Observer{Global: o.Globals})
	if set == nil {
		return err
	}
	answer.overrides = []*store.Override{set}
	printErr := o.Print(answer)
	if answer.concerned == nil && !o.Quiet {
		if concerned, _ := o.concerned(ctx, runner, plan, most); concerned != nil {
			o.noteConcerned(ctx, plan, concerned, s.Place(where))
		}
	}
	if !o.Quiet || printErr != nil {
		o.Note("end it sooner with: %s", cli.CommandHere(o.Globals, s, "override", "revoke", set.ID))
	}
	return errors.Join(err, printErr)
}

// isAddress reports whether a text is an address, however it is written.
func isAddress(text string) bool {
	_, is := (&httplimit.Clients{}).Client(text)
	return is && !strings.Contains(text, "/")
}
