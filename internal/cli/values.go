package cli

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ParseInstant reads an instant, or a time of day: the next one after now if future, else the
// last one. Without a zone it is by the clock of this machine.
func ParseInstant(text string, now time.Time, future bool) (instant time.Time, err error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{"15:04", "15:04:05", "15:04Z07:00", "15:04:05Z07:00"} {
		t, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		now = now.In(t.Location())
		at := func(days int) time.Time {
			return time.Date(now.Year(), now.Month(), now.Day()+days, t.Hour(), t.Minute(), t.Second(), 0, t.Location())
		}
		switch instant = at(0); {
		case future && !instant.After(now):
			instant = at(1)
		case !future && instant.After(now):
			instant = at(-1)
		}
		return instant, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05",
		"2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
		if instant, err = time.ParseInLocation(layout, text, now.Location()); err == nil {
			return instant, nil
		}
	}
	return instant, err
}

// ParseShare reads a share such as "80%" or "0.8", and tells whether it was a percentage.
func ParseShare(text string) (share float64, percent, ok bool) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	decimal, ok := store.ParseDecimal(number)
	if !ok {
		return 0, percent, false
	}
	if share, _ = decimal.Float64(); percent {
		share /= 100
	}
	return share, percent, true
}

// ParseSubjects reads a PATTERN; exact takes it as a subject.
func ParseSubjects(text string, exact bool) (store.Pattern, error) {
	if exact {
		return store.ExactPattern(text)
	}
	return store.ParsePattern(text)
}

// ParseTimes reads a factor such as 3, 2.5 or 0.5, in thousandths.
func ParseTimes(text string) (thousandths int64, err error) {
	factor, ok := store.ParseDecimal(strings.TrimSpace(text))
	if ok {
		factor.Mul(factor, big.NewRat(1000, 1))
	}
	if !ok || !factor.IsInt() || factor.Sign() == 0 || factor.Cmp(big.NewRat(store.MaxOverrideThousandths, 1)) > 0 {
		return 0, Usagef("--times %q is not a factor from 0.001 to 1000000 with at most three decimals; write it "+
			"like 3, 2.5 or 0.5", text)
	}
	return factor.Num().Int64(), nil
}

// parseMinUsed reads a share of the limit such as "80%" or "0.8".
func parseMinUsed(text string) (float64, error) {
	share, percent, ok := ParseShare(text)
	if !ok || share > 1000 || share > 1 && !percent { // 80 for 80% would find nothing, and look like good news
		return 0, Usagef("--min-used %q is not a share; write it like 80%% or 0.8", text)
	}
	return share, nil
}

// NumberFlag adds a flag with a number from 0 as [store.ParseNumber] reads it. shorthand may be empty.
func NumberFlag[T int | int64 | uint64](f *pflag.FlagSet, to *T, name, shorthand string, otherwise T, usage string) {
	numberFlag(f, to, 0, name, shorthand, otherwise, usage)
}

// SignedFlag is [NumberFlag] for a number that can be negative.
func SignedFlag(f *pflag.FlagSet, to *int64, name, usage string) {
	numberFlag(f, to, math.MinInt64, name, "", 0, usage)
}

func numberFlag[T int | int64 | uint64](f *pflag.FlagSet, to *T, least int64, name, shorthand string, otherwise T,
	usage string) {
	*to = otherwise
	f.VarP(&value[T]{"number", to, func(text string) (T, error) {
		n, err := store.ParseNumber("--"+name, text, least, math.MaxInt64)
		if err == nil && (T(n) < 0) != (n < 0) {
			err = fmt.Errorf("--%s %s is out of range", name, text)
		}
		return T(n), err
	}, func(n T) string { return fmt.Sprint(n) }}, name, shorthand, usage)
}

// DecimalFlag adds a flag with a number as [store.ParseDecimal] reads it.
func DecimalFlag(f *pflag.FlagSet, to *float64, name, shorthand, usage string) {
	f.VarP(&value[float64]{"decimal", to, func(text string) (float64, error) {
		number, ok := store.ParseDecimal(text)
		if !ok {
			return 0, fmt.Errorf("--%s %q is not a number, such as 0.5, 200 or 2k", name, text)
		}
		decimal, _ := number.Float64()
		return decimal, nil
	}, func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }}, name, shorthand, usage)
}

// DurationFlag adds a flag with a duration as [store.ParsePeriod] reads it.
func DurationFlag(f *pflag.FlagSet, to *time.Duration, name, shorthand string, otherwise time.Duration, usage string) {
	*to = otherwise
	f.VarP(&value[time.Duration]{"period", to, func(text string) (time.Duration, error) {
		d, err := store.ParsePeriod(text)
		if err != nil {
			err = fmt.Errorf("--%s %q is not a duration; write it like 500ms, 2s, 1m or 1d", name, text)
		}
		return d, err
	}, time.Duration.String}, name, shorthand, usage)
}

// value is a flag's value. It implements pflag.Value.
type value[T any] struct {
	kind  string
	to    *T
	parse func(text string) (T, error)
	write func(T) string
}

func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.to = parsed
	}
	return err
}

func (v *value[T]) String() string { return v.write(*v.to) }

func (v *value[T]) Type() string { return v.kind }

// NoArguments is the argument check of commands that take none, and of those that
// only have commands of their own.
func NoArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return Usagef("`%s` takes no argument, but %q was given", cmd.CommandPath(), args[0])
	}
	return UnknownCommand(cmd, args[0])
}

// UnknownCommand is the mistake of a name that no command below cmd has.
func UnknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = cmd.Root().SuggestionsMinimumDistance
	hint := fmt.Sprintf("see `%s --help`", cmd.CommandPath())
	if habit, has := habits[name]; has && !cmd.HasParent() {
		hint = fmt.Sprintf("that is `%s`", habit)
	} else if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	if cmd.HasParent() {
		return Usagef("unknown command %q of `%s`; %s", name, cmd.CommandPath(), hint)
	}
	return Usagef("unknown command %q; %s", name, hint)
}

// AtMostOneArgument is the argument check of commands that take one or none.
func AtMostOneArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return Usagef("%s given, but `%s` takes at most one", Several(args), cmd.CommandPath())
	}
	return nil
}

// Several describes the arguments where there are too many.
func Several(args []string) string {
	more := ""
	if len(args) > 2 {
		more = ", …"
	}
	return fmt.Sprintf("%d arguments (%q, %q%s)", len(args), args[0], args[1], more)
}

// habits are words of other programs for commands that have another name here, with what to run instead.
var habits = map[string]string{
	"get": "limitctl inspect PATTERN", "delete": "limitctl reset PATTERN", "rm": "limitctl reset PATTERN",
	"ban":   "limitctl block PATTERN --for 1h --reason TEXT",
	"bench": "limitctl loadtest --limit LIMIT",
}

// FlagGroup is the annotation of a flag with the title under which the help lists it.
const FlagGroup = "limitctl-group"

// GroupFlags gives the flags that add adds to a command a title in its help.
func GroupFlags(cmd *cobra.Command, title string, add func(*cobra.Command)) {
	before := map[string]bool{}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { before[flag.Name] = true })
	add(cmd)
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !before[flag.Name] && flag.Annotations[FlagGroup] == nil {
			cmd.Flags().SetAnnotation(flag.Name, FlagGroup, []string{title})
		}
	})
}
