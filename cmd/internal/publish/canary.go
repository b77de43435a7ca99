package publish

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// canaryFlags say that a version is tried beside the one in force.
type canaryFlags struct {
	shadow             bool
	percent, by, until string
}

func (f *canaryFlags) add(cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.BoolVar(&f.shadow, "shadow", false, "only judge FILE beside the version in force, which still decides")
	flags.StringVar(&f.percent, "percent", "", "let FILE decide for `N` percent of the values of the attribute --by, such as 5 or 0.5")
	flags.StringVar(&f.by, "by", "", "with --percent, the `ATTRIBUTE` whose values are divided, such as tenant")
	flags.StringVar(&f.until, "until", "", "with --shadow or --percent, end it at `TIME`, such as 18:00, or after a duration, such as 2h")
	for _, name := range []string{"percent", "until"} {
		cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// maxTrial is the longest time until the end of a canary.
const maxTrial = 30 * 24 * time.Hour

// plan returns how the file is tried, without its end; nil if it is put in force.
func (f *canaryFlags) plan() (*published.Canary, error) {
	switch {
	case f.shadow && f.percent != "":
		return nil, cli.Usagef("--shadow decides nothing, and %s does; give one of them", shell.Command("--percent", f.percent))
	case f.percent == "" && f.by != "":
		return nil, cli.Usagef("--by %s is for --percent; give that, too, such as --percent 5", f.by)
	case f.percent != "" && f.by == "":
		return nil, cli.Usagef("--percent %s needs --by ATTRIBUTE, whose values are divided, such as --by tenant", f.percent)
	case !f.shadow && f.percent == "" && f.until != "":
		return nil, cli.Usagef("--until %s is for --shadow and --percent, which it ends; a version in force has no end", f.until)
	case f.shadow:
		return &published.Canary{}, nil
	case f.percent == "":
		return nil, nil
	}
	share, err := parsePercent(f.percent)
	if err != nil {
		return nil, err
	}
	return &published.Canary{Share: share, By: f.by}, nil
}

// parsePercent reads a percentage, and returns it in parts of [policy.WholeShare].
func parsePercent(text string) (int, error) {
	whole, part, _ := strings.Cut(strings.TrimSuffix(text, "%"), ".")
	n, err := strconv.ParseUint(whole+(part + "00")[:max(2, len(part))], 10, 16)
	if err != nil || whole == "" || len(part) > 2 || n < 1 || n > policy.WholeShare {
		return 0, cli.Usagef("--percent %q is not a number from 0.01 to 100 with at most two decimals; write it like 5 or 0.5", text)
	}
	return int(n), nil
}

// percentText is a share as people write it.
func percentText(share int) string {
	text := fmt.Sprintf("%d.%02d", share/100, share%100)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}

// lasts returns how long the canary lasts; 0 for until it is ended.
func (f *canaryFlags) lasts(now time.Time) (time.Duration, error) {
	if f.until == "" {
		return 0, nil
	}
	lasts, err := store.ParsePeriod(f.until)
	if err != nil {
		end, is := cli.ParseInstant(f.until, now, true)
		if !is {
			return 0, cli.Usagef("--until %q is neither a time nor a duration; write it like 18:00, %s or 2h", f.until,
				now.Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z"))
		}
		lasts = end.Sub(now)
	}
	switch {
	case lasts < time.Second:
		return 0, cli.Usagef("--until %s is over, or less than 1s away", f.until)
	case lasts > maxTrial:
		return 0, cli.Usagef("--until %s is %s away; it can be at most 30d", f.until, output.Duration(lasts))
	}
	return lasts, nil
}

// canary returns the whole plan for a place.
func (o *options) canary(ctx context.Context, p *place) (*published.Canary, error) {
	plan, err := o.plan()
	if plan == nil || err != nil {
		return nil, err
	}
	if p.state.Head.Version == 0 {
		return nil, cli.Usagef("no version is in force yet, beside which this one could be tried; publish it without --shadow or --percent")
	}
	lasts, err := o.lasts(o.Env.Now())
	if err != nil || lasts == 0 {
		return plan, err
	}
	ctx, cancel := store.BudgetContext(ctx, o.Timeout)
	defer cancel()
	now, err := p.table.ConfigTime(ctx)
	plan.Until = now + store.Instant(lasts.Microseconds())
	return plan, err
}

// checkBy refuses an attribute that no policy of both versions has, since then the next version would decide no call.
func checkBy(plan *published.Canary, before, after *config.Config) error {
	if plan == nil || plan.By == "" {
		return nil
	}
	var known []string
	for _, p := range slices.Concat(before.Policies, after.Policies) {
		if configfile.NamedPolicy(before.Policies, p.Name) == nil || configfile.NamedPolicy(after.Policies, p.Name) == nil {
			continue
		}
		names, _ := p.Attributes()
		if slices.Contains(names, plan.By) {
			return nil
		}
		known = append(known, names...)
	}
	slices.Sort(known)
	if len(known) == 0 {
		return cli.Usagef("the versions have no policy in common, so there is nothing to try")
	}
	return cli.Usagef("no policy uses the attribute %q; --by can be %s", plan.By, strings.Join(slices.Compact(known), ", "))
}

// apartLimits returns the limits of the next version that do not count as those of the version in force, as "policy/limit".
func apartLimits(before, after *config.Config) (names []string) {
	for _, p := range before.Policies {
		next := configfile.NamedPolicy(after.Policies, p.Name)
		if next == nil {
			continue
		}
		for i := range next.Limits {
			if !p.SharesUsage(next, &next.Limits[i]) {
				names = append(names, p.Name+"/"+next.Limits[i].Name)
			}
		}
	}
	return names
}

// laterSettings returns what differs apart from limits of policies that both versions have, which a canary does not try.
func laterSettings(before, after *config.Config) (names []string) {
	for _, d := range config.Differences(before, after) {
		name := d.Policy
		switch {
		case d.Policy == "":
			name, _, _ = strings.Cut(strings.TrimSpace(d.Old+" "+d.New), " ")
		case configfile.NamedPolicy(before.Policies, d.Policy) != nil && configfile.NamedPolicy(after.Policies, d.Policy) != nil:
			what, _, _ := strings.Cut(strings.TrimSpace(d.Old+" "+d.New), " ")
			if d.Limit != "" || what == "hash_by" {
				continue
			}
			name += " " + what
		default:
			name = "policy " + name
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// mostNamed is how many limits a line names.
const mostNamed = 5

// someOf joins the first few names.
func someOf(names []string) string {
	if n := len(names); n > mostNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), n-mostNamed)
	}
	return strings.Join(names, ", ")
}

// tries says how a version is tried, for people.
func tries(c *published.Canary) string {
	if c.Share == 0 {
		return "as a shadow"
	}
	return fmt.Sprintf("for %s by %s", percentText(c.Share), c.By)
}

func newPromoteCmd(global *cli.Globals) *cobra.Command {
	o := &options{Globals: global, command: "config promote"}
	cmd := &cobra.Command{
		Use:   "promote",
		Short: "Put the version in force that is tried",
		Long: `Promote puts the version in force that config publish --shadow or --percent
tries beside the present one. It shows and asks what config publish does.

Usage stays for each limit that keeps its name, attributes, algorithm and
period. Another limit counted as NAME~next while it was tried. Promote does not
take that over: the question names these limits.`,
		Example: `  limitctl config promote -m "no tenant was denied anew" --context prod
  limitctl config promote --dry-run`,
		Args:              cli.NoArguments,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.promote(cmd.Context()) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addFlags(cmd)
	return cmd
}

func (o *options) promote(ctx context.Context) error {
	return o.change(ctx, func(p *place) (*change, error) {
		next := p.state.Head.Next
		switch {
		case p.state.Was == "":
			return nil, published.ErrNothing
		case !next.Exists():
			return nil, cli.Usagef("no version is tried beside version %d; try one with `limitctl config publish FILE --shadow`",
				p.state.Head.Version)
		}
		v, err := p.fetch(ctx, o.Globals, next.Version)
		if err != nil {
			return nil, err
		}
		if v.Hash != next.Hash {
			return nil, fmt.Errorf("%w: version %d is not the one that the store says is tried", store.ErrForeign, next.Version)
		}
		if _, err := published.Parse(fmt.Sprintf("version %d", v.Number), v.Text); err != nil {
			return nil, err
		}
		return &change{title: fmt.Sprintf("version %d", v.Number), text: v.Text, did: didPromote, number: v.Number}, nil
	})
}

// withdraw ends the trial of a version.
func (o *options) withdraw(p *place) *change {
	number := p.state.Head.Next.Version
	return &change{title: fmt.Sprintf("version %d", number), did: didWithdraw, number: number}
}
