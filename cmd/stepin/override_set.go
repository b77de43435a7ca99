package stepin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overrideSetOptions are the flags of the commands that set an override.
type overrideSetOptions struct {
	whomOptions
	cli.ConsentOptions
	limit, times string
	add          int64
	fixed        store.OverrideEffect // of block and exempt, which have no flags for it
	lasts, until string
	dryRun       bool
}

// overridePatternHelp explains the arguments that select keys.
const overridePatternHelp = `PATTERN is a glob over subjects or a network. With --policy the arguments are
attributes, and the override is for every key that has them. It ends after
--for, at most 30 days, or at --until: 04:00 (the next one here), a date and
time, or an instant such as 2026-11-22T04:00:00Z.

It first shows what would apply to the keys in use, and asks.`

func newOverrideSetCmd(global *cli.Globals) *cobra.Command {
	o := &overrideSetOptions{}
	cmd := o.command(global, &cobra.Command{
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
	})
	flags := cmd.Flags()
	flags.StringVarP(&o.limit, "limit", "l", "",
		"decide by `[ALGORITHM:]COUNT/PERIOD[,burst=N|,slices=N|,tz=ZONE]` instead, such as 600/1m")
	flags.StringVar(&o.times, "times", "", "multiply count and burst by `N`, such as 3, 2.5 or 0.5")
	cli.SignedFlag(flags, &o.add, "add", "add `N` units to count and burst; a negative number removes units")
	return cmd
}

// NewBlockCmd makes "limitctl block".
func NewBlockCmd(global *cli.Globals) *cobra.Command {
	return (&overrideSetOptions{fixed: store.OverrideBlock}).command(global, &cobra.Command{
		Use:   "block PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Deny everything to some subjects for a while",
		Long: `Block denies every request for the keys whose subject matches PATTERN, until the
block ends or is revoked (see limitctl unblock). It charges nothing.

` + overridePatternHelp,
		Example: `  limitctl block ip:203.0.113.9 --for 1h --reason "scraper"
  limitctl block ip:203.0.113.0/24 --for 1h --reason "scrapers"
  limitctl block 'tenant:acme:*' --until 04:00 --reason "runaway job" --yes`,
	})
}

// NewExemptCmd makes "limitctl exempt".
func NewExemptCmd(global *cli.Globals) *cobra.Command {
	return (&overrideSetOptions{fixed: store.OverrideExempt}).command(global, &cobra.Command{
		Use:   "exempt PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Allow everything to some subjects for a while",
		Long: `Exempt allows every request for the keys whose subject matches PATTERN, until
the exemption ends or is revoked. Requests are still counted.

` + overridePatternHelp,
		Example: `  limitctl exempt tenant:acme --for 30m --reason "migration"
  limitctl exempt --policy api tenant=acme --until 04:00 --reason "migration" --yes`,
	})
}

// command completes cmd, which sets an override.
func (o *overrideSetOptions) command(global *cli.Globals, cmd *cobra.Command) *cobra.Command {
	o.addWhomFlags(cmd, global)
	flags := cmd.Flags()
	flags.StringVar(&o.lasts, "for", "", "for `DURATION` from now, such as 2h, at most 30d")
	flags.StringVar(&o.until, "until", "", "until `TIME` instead, such as 04:00")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	o.AddConsentFlags(cmd)
	flags.Lookup("reason").Usage = "why (required); the audit log shows the `TEXT`"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plan, err := o.plan(cmd)
		if err != nil {
			return err
		}
		if !o.dryRun {
			name := strings.TrimPrefix(cmd.CommandPath(), "limitctl ")
			err := mayChange(o.Globals, &o.ConsentOptions, name, "sets an override", ", or --dry-run to look first")
			if err != nil {
				return err
			}
		}
		if err := o.choose(cmd.Context(), plan, args); err != nil {
			return err
		}
		return o.set(cmd.Context(), plan)
	}
	return cmd
}

// plan turns the flags into an override, of nobody yet.
func (o *overrideSetOptions) plan(cmd *cobra.Command) (*operation.OverridePlan, error) {
	plan := &operation.OverridePlan{Consent: o.Given()}
	override := &plan.Override
	effect, err := o.effect(cmd, override)
	if err != nil {
		return nil, err
	}
	now := o.Env.Now()
	end, err := parseEnd(o.lasts, o.until, now)
	if err != nil {
		return nil, err
	}
	plan.Lasts = end.Sub(now)
	override.CreatedAt, override.ExpiresAt, override.Left = now, end, plan.Lasts // by the clock of this machine
	override.Reason = strings.TrimSpace(o.Reason)
	if override.Reason == "" && !o.dryRun {
		return nil, cli.Usagef("no reason given; say why with --reason TEXT, for those who find the override later; " +
			"nothing was set")
	}
	lasts := []string{"--for", store.FormatPeriod(plan.Lasts)}
	if o.until != "" {
		plan.Until = end
		lasts = []string{"--until", end.UTC().Format(time.RFC3339)}
	}
	plan.Text = strings.TrimPrefix(effect+" ", " ") + shell.Command(lasts...)
	return plan, nil
}

// effect sets the effect of the override, and returns how a command line writes it: nothing for block and exempt.
func (o *overrideSetOptions) effect(cmd *cobra.Command, override *store.Override) (text string, err error) {
	if override.Effect = o.fixed; o.fixed != 0 {
		return "", nil
	}
	given := slices.DeleteFunc([]string{"limit", "times", "add"},
		func(flag string) bool { return !cmd.Flags().Changed(flag) })
	if len(given) != 1 {
		return "", cli.Usagef("an override does one thing; give one of --limit COUNT/PERIOD, --times N and --add N")
	}
	switch given[0] {
	case "limit":
		override.Effect = store.OverrideLimit
		override.Limit, err = store.ParseLimit(o.limit)
		return shell.Command("--limit", o.limit), err
	case "times":
		override.Effect = store.OverrideTimes
		override.Thousandths, err = cli.ParseTimes(o.times)
		return shell.Command("--times", o.times), err
	}
	override.Effect, override.Units = store.OverrideAdd, o.add
	if o.add == 0 || o.add > store.MaxCount || o.add < -store.MaxCount {
		err = cli.Usagef("--add %d is out of range; it must be from 1 to %d, or below 0 to take units away", o.add,
			store.MaxCount)
	}
	return shell.Command("--add", cli.Number(o.add)), err
}

// parseEnd returns when an override ends, from --for or --until.
func parseEnd(lasts, until string, now time.Time) (end time.Time, err error) {
	switch {
	case (lasts == "") == (until == ""):
		return end, cli.Usagef("give one of --for DURATION, such as 2h, and --until TIME, such as 04:00")
	case lasts != "":
		d, err := store.ParsePeriod(lasts)
		if err != nil || d < time.Second || d > store.MaxOverrideTime {
			return end, cli.Usagef("--for %q is not a duration from 1s to 30d; write it like 45m, 2h or 1d", lasts)
		}
		return now.Add(d), nil
	}
	end, err = cli.ParseInstant(until, now, true)
	switch left := end.Sub(now); {
	case err != nil:
		return end, cli.Usagef("--until %q is not a time; write it like 04:00 or %s", until,
			now.Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z"))
	case left < time.Second || left > store.MaxOverrideTime:
		return end, cli.Usagef("--until %s is not from 1s to 30d after now, %s", until, cli.Clock(now, now))
	}
	return end, nil
}

// choose adds whom the override is for, by the configuration in force, and how to look for these.
func (o *overrideSetOptions) choose(ctx context.Context, plan *operation.OverridePlan, args []string) error {
	args, err := o.subjects(ctx, &plan.Override, args)
	if err != nil {
		return err
	}
	if plan.Selection, err = o.selection().Selected(ctx, o.Globals, args); err != nil {
		return err
	}
	plan.Text = plan.Selection.Text + " " + plan.Text
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
	if plan.Configured = c.Configured(); !o.dryRun { // else the user waits for all
		plan.Most = o.Timeout
	}
	if o.policy+o.limitName != "" {
		return c.Doubt
	}
	return nil
}

// keepBurst gives a --limit without burst=N the burst of the limits of policies that it replaces.
func (o *overrideSetOptions) keepBurst(plan *operation.OverridePlan, policies []*policy.Policy) error {
	override := &plan.Override
	if override.Effect != store.OverrideLimit || !override.Limit.Algorithm.HasBurst() ||
		strings.Contains(o.limit, "burst=") {
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
	bursts := map[int64]bool{} // 0 for one that follows the count
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
				burst := candidate.Limit.Capacity()
				if burst == candidate.Limit.Count || !candidate.Limit.Algorithm.HasBurst() {
					burst = 0
				}
				bursts[burst] = true
			}
		}
	}
	if len(bursts) > 1 {
		return cli.Usagef("--limit %s replaces limits of several bursts; add burst=N", o.limit)
	}
	for burst := range bursts {
		if burst > 0 {
			override.Limit.Burst = burst
			given := shell.Command("--limit", o.limit)
			plan.Text = strings.Replace(plan.Text, given, given+fmt.Sprintf(",burst=%d", burst), 1)
			if !o.Quiet {
				o.Note("burst %d kept; burst=N sets another", burst)
			}
		}
	}
	return nil
}

// set shows the keys that the override concerns, asks, sets it and prints it.
func (o *overrideSetOptions) set(ctx context.Context, plan *operation.OverridePlan) error {
	runner, s, err := openRunner(o.Globals, o.dryRun)
	if err != nil {
		return err
	}
	defer runner.Store.Close()
	observer := &cli.Observer{Global: o.Globals}
	answer := &overrideAnswer{now: o.Env.Now(), did: "set", place: s.Place(""), DryRun: o.dryRun,
		overrides: []store.Override{plan.Override}}
	asks, place := !plan.Consent.Covers(s.Access()), s.Place(runner.Place.Store)
	if o.dryRun || asks {
		if answer.Concerned, err = runner.PreviewOverride(ctx, plan, observer); err != nil {
			return err
		}
		o.noteConcerned(ctx, plan, answer.Concerned, place)
	}
	if o.dryRun {
		return o.Print(answer)
	}
	if asks && !o.Quiet {
		p := o.Printer()
		p.Out = o.Env.Err
		answer.printConcerned(p)
	}
	set, err := runner.SetOverride(ctx, plan, observer)
	if set == nil {
		return err
	}
	answer.overrides[0] = *set
	printErr := o.Print(answer)
	if answer.Concerned == nil && !o.Quiet {
		if concerned, _ := runner.PreviewOverride(ctx, plan, observer); concerned != nil {
			o.noteConcerned(ctx, plan, concerned, place)
		}
	}
	if !o.Quiet || printErr != nil {
		o.Note("end it sooner with: %s", cli.CommandHere(o.Globals, s, "override", "revoke", set.ID))
	}
	return errors.Join(err, printErr)
}

// noteConcerned prints whom an override concerns. A misspelt pattern must not look like success.
func (o *overrideSetOptions) noteConcerned(ctx context.Context, plan *operation.OverridePlan, c *operation.Concerned,
	place string) {
	text, subjects := plan.Selection.Text, plan.Override.Subjects
	switch {
	case o.Quiet:
		return
	case c.Keys == 0 && c.Denied == 0 && c.Complete:
		o.Note("nothing in use matches %s in %s yet; the override is for keys to come, too%s", text, place,
			o.UnknownClient(ctx, subjects))
	default:
		least, denied := "", ""
		if !c.Complete {
			least = "at least "
		}
		if c.DeniedOf > 0 {
			denied = fmt.Sprintf(", and %d of %s denied in the last 10m", c.Denied, output.Count(c.DeniedOf, "key"))
		}
		o.Note("%s concerns %s%s in use in %s%s", text, least, output.Count(c.Keys, "key"), place, denied)
	}
	noteLeft(o.Globals, subjects)
	if len(c.Values) > 1 {
		showShares(o.Globals, c.By, c.Values)
	}
	first := map[string]int64{} // other overrides that decide, and of how many keys
	for i := range c.Limits {
		if id := c.Limits[i].Override; id != "" {
			first[id] += c.Limits[i].Keys
		}
	}
	if c.First != "" {
		o.Note("override %s comes first, so this one changes nothing", c.First)
	}
	for id, keys := range first {
		o.Note("override %s comes first, so this one changes nothing for %s", id, output.Count(keys, "key"))
	}
	if c.Incomplete != nil {
		o.Note("warning: not all keys could be looked at: %s", cli.Message(c.Incomplete))
	}
}
