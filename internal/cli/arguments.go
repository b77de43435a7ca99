package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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
	if habit, has := Habits()[name]; has && !cmd.HasParent() {
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

// oneSubject is the argument check of commands that take one KEY.
func oneSubject(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return Usagef("no KEY given; say who is limited, as in `%s user:42`", cmd.CommandPath())
	case len(args) == 2 && strings.Contains(args[1], "/") && isLimit(args[1]):
		return Usagef("%q is no KEY but a limit; write %s", args[1], shell.Command("--limit", args[1]))
	case len(args) == 2 && cmd.Flags().Changed("wait") && isPeriod(args[1]):
		return Usagef("--wait takes its value after an =, as in --wait=30s")
	case len(args) > 1:
		return Usagef("%s given, but %s takes one KEY; quote it if it contains spaces", Several(args), cmd.Name())
	}
	return nil
}

func isLimit(text string) bool {
	_, err := store.ParseLimit(text)
	return err == nil
}

func isPeriod(text string) bool {
	_, err := store.ParsePeriod(text)
	return err == nil
}

// Several describes the arguments where there are too many.
func Several(args []string) string {
	more := ""
	if len(args) > 2 {
		more = ", …"
	}
	return fmt.Sprintf("%d arguments (%q, %q%s)", len(args), args[0], args[1], more)
}

// Habits are words of other programs for commands that have another name here, with what to run instead.
func Habits() map[string]string {
	return map[string]string{
		"get": "limitctl inspect PATTERN", "show": "limitctl inspect PATTERN", "delete": "limitctl reset PATTERN",
		"rm": "limitctl reset PATTERN", "set": "limitctl override set PATTERN --limit LIMIT --for 1h --reason TEXT",
		"ban": "limitctl block PATTERN --for 1h --reason TEXT", "allow": "limitctl exempt PATTERN --for 1h --reason TEXT",
		"init": "limitctl config init", "validate": "limitctl config validate FILE", "bench": "limitctl loadtest --limit LIMIT",
	}
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
