package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments is the argument check of commands that take none, and of those that
// only have commands of their own.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return usagef("`%s` takes no argument, but %q was given", cmd.CommandPath(), args[0])
	}
	return unknownCommand(cmd, args[0])
}

// unknownCommand is the mistake of a name that no command below cmd has.
func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = cmd.Root().SuggestionsMinimumDistance
	hint := fmt.Sprintf("see `%s --help`", cmd.CommandPath())
	if habit, has := habits()[cmd.CommandPath()][name]; has {
		hint = fmt.Sprintf("that is `%s`", habit)
	} else if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	if cmd.HasParent() {
		return usagef("unknown command %q of `%s`; %s", name, cmd.CommandPath(), hint)
	}
	return usagef("unknown command %q; %s", name, hint)
}

// atMostOneArgument is the argument check of commands that take one or none.
func atMostOneArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%s given, but `%s` takes at most one", several(args), cmd.CommandPath())
	}
	return nil
}

// oneSubject is the argument check of commands that take one KEY.
func oneSubject(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("no KEY given; say who is limited, as in `%s user:42`", cmd.CommandPath())
	case len(args) > 1:
		hint := ""
		if cmd.Flags().Lookup("wait") != nil {
			hint = ", and write --wait=30s with the ="
		}
		return usagef("%s given, but %s takes one KEY; quote it if it contains spaces%s", several(args), cmd.Name(), hint)
	}
	return nil
}

// several is how to say which arguments there are, where they are too many.
func several(args []string) string {
	more := ""
	if len(args) > 2 {
		more = ", …"
	}
	return fmt.Sprintf("%d arguments (%q, %q%s)", len(args), args[0], args[1], more)
}
