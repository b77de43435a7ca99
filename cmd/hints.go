package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/texts"
)

// flagComplaint describes a mistake in a flag, instead of the text of Go's own error.
func flagComplaint(err error) string {
	text := err.Error()
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return text
	}
	cause := errors.Unwrap(wrong)
	if strings.HasPrefix(cause.Error(), "--") { // it names the flag and its value
		return cause.Error()
	}
	if number := (*strconv.NumError)(nil); errors.As(cause, &number) && number.Func == "ParseBool" {
		return strings.Replace(text, number.Error(), "it is true or false", 1)
	}
	return text
}

// flagHabits are flags that other programs have, and what to give instead.
func flagHabits() map[string]string {
	return map[string]string{
		"json": "-o json", "csv": "-o csv", "force": "--yes", "host": "--store redis://HOST:PORT", "port": "--store redis://HOST:PORT",
		"db": "--store redis://HOST:PORT/DB",
		// No argument has it, as other users of the machine see those.
		"password": "--store redis://USER@HOST, with the password in LIMITCTL_PASSWORD",
	}
}

// loadHabits are flags of other load generators, and what to give instead. loadtest has no -c, which is the cost in
// other commands, since to all of these it is the number of connections.
func loadHabits() map[string]string {
	return map[string]string{
		"c": "--workers N for so many requests at once, or --cost N for units", "vus": "--workers N", "concurrency": "--workers N",
		"connections": "--workers N", "z": "--duration 10s", "qps": "--rate N", "rps": "--rate N", "json": "--body TEXT",
	}
}

// unknownFlag finds the flag in the error of one that a command does not have.
var unknownFlag = texts.Regexp(`^unknown flag: --([^=]+)|^unknown shorthand flag: '(.)'`)

// flagHint suggests another flag for one that cmd does not have, after a semicolon, or is "".
func flagHint(cmd *cobra.Command, complaint string) string {
	found := unknownFlag().FindStringSubmatch(complaint)
	if found == nil {
		return ""
	}
	name := found[1] + found[2]
	habit := flagHabits()[name]
	if cmd.Flags().Lookup("rate") != nil || cmd.Flags().Lookup("denied-status") != nil { // loadtest, or a command for endpoints
		habit = cmp.Or(loadHabits()[name], habit)
	}
	if flag, _, _ := strings.Cut(strings.TrimLeft(habit, "-"), " "); habit != "" && cmd.Flag(flag) != nil || flag == "o" {
		return fmt.Sprintf("; did you mean %s?", habit)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	// In a short name two other letters are no slip: --db is not --jq.
	if near := texts.Nearest(name, names, min(2, (len(name)-1)/2)); near != "" {
		return fmt.Sprintf("; did you mean --%s?", near)
	}
	return ""
}

// oneDash returns the first flag of cmd among args that is written with one dash, such as -limit, which is read as the flag
// -l with the value "imit". It is "" if there is none.
func oneDash(cmd *cobra.Command, args []string) string {
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		switch {
		case arg == "--":
			return ""
		case strings.HasPrefix(arg, "-") && len(name) > 1 && name[0] != '-' && cmd.Flag(name) != nil:
			return name
		}
	}
	return ""
}

// addUsualAliases lets commands be called as other programs call theirs.
func addUsualAliases(cmd *cobra.Command) {
	if cmd.Name() == "list" {
		cmd.Aliases = append(cmd.Aliases, "ls")
	}
	for _, sub := range cmd.Commands() {
		addUsualAliases(sub)
	}
}
