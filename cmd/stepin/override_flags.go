package stepin

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// effectOptions are the flags for the effect of an override, of which a command line has one.
type effectOptions struct {
	limit, times string
	add          int64
	fixed        store.OverrideEffect // of block and exempt, which have no flags
}

func (o *effectOptions) addEffectFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&o.limit, "limit", "l", "",
		"decide by `[ALGORITHM:]COUNT/PERIOD[,burst=N|,slices=N|,tz=ZONE]` instead, such as 600/1m")
	flags.StringVar(&o.times, "times", "", "multiply count and burst by `N`, such as 3, 2.5 or 0.5")
	cli.NumberFlag(flags, &o.add, "add", "", 0, "add `N` units to count and burst; a negative number removes units")
	cmd.RegisterFlagCompletionFunc("times", cobra.FixedCompletions([]string{"2", "3", "5", "10", "0.5"},
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
}

// effect sets the effect of the override, and returns how a command line writes it: nothing for block and exempt.
func (o *effectOptions) effect(cmd *cobra.Command, override *store.Override) (text string, err error) {
	if o.fixed == store.OverrideBlock || o.fixed == store.OverrideExempt {
		override.Effect = o.fixed
		return "", nil
	}
	var given []string
	for _, flag := range []string{"limit", "times", "add"} {
		if cmd.Flags().Changed(flag) {
			given = append(given, "--"+flag)
		}
	}
	switch {
	case len(given) > 1:
		return "", cli.Usagef("%s are given; an override does one thing, so keep one of them", strings.Join(given, " and "))
	case len(given) == 0:
		return "", cli.Usagef("nothing says what the override does; give one of --limit COUNT/PERIOD, --times N and --add N")
	}
	switch given[0] {
	case "--limit":
		override.Effect = store.OverrideLimit
		limit, err := store.ParseLimit(o.limit)
		override.Limit = limit
		return shell.Command("--limit", o.limit), err
	case "--times":
		override.Effect = store.OverrideTimes
		override.Thousandths, err = cli.ParseTimes(o.times)
		return shell.Command("--times", o.times), err
	default:
		override.Effect, override.Units = store.OverrideAdd, o.add
		if o.add == 0 || o.add > store.MaxCount || o.add < -store.MaxCount {
			return "", cli.Usagef("--add %d is out of range; it must be from 1 to %d, or below 0 to take units away", o.add, store.MaxCount)
		}
		return shell.Command("--add", cli.Number(o.add)), nil
	}
}

// addEndFlags adds the flags for when an override ends; see [parseEnd].
func addEndFlags(cmd *cobra.Command, lasts, until *string) {
	cmd.Flags().StringVar(lasts, "for", "", "for `DURATION` from now, such as 2h, at most 30d")
	cmd.Flags().StringVar(until, "until", "", "until `TIME` instead, such as 04:00")
	cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{"15m", "1h", "2h", "4h", "8h", "1d"},
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
}

// parseEnd returns when an override ends, from --for or --until.
func parseEnd(cmd *cobra.Command, lasts, until string, now time.Time) (end time.Time, err error) {
	switch hasFor, hasUntil := cmd.Flags().Changed("for"), cmd.Flags().Changed("until"); {
	case hasFor && hasUntil:
		return end, cli.Usagef("--for and --until both say when it ends; give one of them")
	case !hasFor && !hasUntil:
		return end, cli.Usagef("nothing says when it ends; give --for DURATION, such as 2h, or --until TIME, such as 04:00")
	case hasFor:
		d, err := store.ParsePeriod(lasts)
		if err == nil && d > store.MaxOverrideTime {
			return end, cli.Usagef("--for %s is too long; an override lasts at most 30d", lasts)
		}
		if err != nil || d < time.Second {
			return end, cli.Usagef("--for %q is not a duration from 1s to 30d; write it like 45m, 2h or 1d", lasts)
		}
		return now.Add(d), nil
	}
	if end, err = parseUntil(until, now); err != nil {
		return end, err
	}
	switch left := end.Sub(now); {
	case left <= 0:
		return end, cli.Usagef("--until %s is over: it is %s now", until, cli.Clock(now, now))
	case left < time.Second:
		return end, cli.Usagef("--until %s is less than 1s away; an override lasts at least 1s", until)
	case left > store.MaxOverrideTime:
		return end, cli.Usagef("--until %s is %s away; an override lasts at most 30d", until, output.Duration(left))
	}
	return end, nil
}

// parseUntil reads a time of day, which is the next one after now, or an instant.
func parseUntil(text string, now time.Time) (time.Time, error) {
	t, err := cli.ParseInstant(text, now, true)
	switch {
	case err == nil:
		return t, nil
	case !errors.Is(err, cli.ErrNoInstant):
		return t, cli.Usagef("--until %s", err)
	}
	return t, cli.Usagef("--until %q is not a time; write it like 04:00, '%s' or %s", text,
		now.Add(time.Hour).Format("2006-01-02 15:04"), now.Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z"))
}
