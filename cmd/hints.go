package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// flagComplaint describes a mistake in a flag, instead of the text of Go's own error.
func flagComplaint(err error) string {
	text := err.Error()
	var number *strconv.NumError
	switch errors.As(err, &number); {
	case number == nil:
		if before, _, is := strings.Cut(text, ": time: "); is {
			return before + ": write a duration like 500ms, 2s or 1m"
		}
		return text
	case number.Func == "ParseFloat" && !errors.Is(number, strconv.ErrRange):
		return strings.Replace(text, number.Error(), "write a number", 1)
	case number.Func == "ParseBool":
		return strings.Replace(text, number.Error(), "it is true or false", 1)
	case errors.Is(number, strconv.ErrRange):
		return strings.Replace(text, number.Error(), "it is out of range", 1)
	}
	return strings.Replace(text, number.Error(), "write a whole number", 1)
}

// withPassword is where the password of a server goes: in no argument, as other users of the machine see those.
const withPassword = "--store redis://USER@HOST, with the password in LIMITCTL_PASSWORD"

// flagHabits are flags that other programs have, and what to give instead.
func flagHabits() map[string]string {
	return map[string]string{
		"json": "-o json", "csv": "-o csv", "format": "-o FORMAT", "out": "-o FORMAT",
		"url": "--store URL", "host": "--store redis://HOST:PORT", "port": "--store redis://HOST:PORT", "p": "--store redis://HOST:PORT",
		"db": "--store redis://HOST:PORT/DB", "database": "--store redis://HOST:PORT/DB", "user": "--store redis://USER@HOST",
		"password": withPassword, "pass": withPassword, "force": "--yes", "f": "--yes",
		"name": "--limit-name NAME", "fields": "--jq FILTER", "columns": "--jq FILTER", "query": "--jq FILTER",
		"reason-text": "--reason TEXT", "noop": "--dry-run", "simulate": "--dry-run",
	}
}

// unknownFlag finds the flag in the error of one that a command does not have.
var unknownFlag = texts.Regexp(`^unknown flag: --([^=]+)|^unknown shorthand flag: '(.)'`)

// wrongValue finds the value and the flag in the error of a value that the flag does not take.
var wrongValue = texts.Regexp(`^invalid argument "(.*)" for "(?:-., )?--([^"]+)" flag`)

// flagHint suggests another flag for one that cmd does not have, after a semicolon, or is "".
func flagHint(cmd *cobra.Command, complaint string) string {
	found := unknownFlag().FindStringSubmatch(complaint)
	if found == nil {
		return ""
	}
	name := found[1] + found[2]
	habit, has := flagHabits()[name]
	if cmd.Flags().Lookup("rate") != nil || cmd.Flags().Lookup("denied-status") != nil { // loadtest, or a command for endpoints
		if forLoad, hasLoad := loadHabits()[name]; hasLoad {
			habit, has = forLoad, true
		}
	}
	switch {
	case cmd.Flags().Lookup("admin") != nil && slices.Contains([]string{"port", "p", "addr", "address", "bind", "host"}, name):
		habit, has = "--listen HOST:PORT", true
	case cmd.Flags().Lookup("log-format") != nil && name == "format":
		habit = "--log-format FORMAT for the log, or -o FORMAT for the answer"
	}
	if has {
		flag, _, _ := strings.Cut(strings.TrimLeft(habit, "-"), " ")
		if cmd.Flags().Lookup(flag) != nil || len(flag) == 1 && cmd.Flags().ShorthandLookup(flag) != nil {
			return fmt.Sprintf("; did you mean %s?", habit)
		}
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

// refuseApartValues makes cmd and the commands below it refuse a value that stands apart from its flag, as in --watch 5s, if the
// flag takes one only after an equals sign. It would be an argument, such as a pattern that matches nothing.
func refuseApartValues(g *cli.Globals, cmd *cobra.Command) {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if flag, value := apartValue(cmd, g.Args); flag != "" {
			return cli.Usagef("%s takes its value after an =, and %s is an argument of its own; write %[1]s=%[2]s", flag, value)
		}
		if check == nil {
			return nil
		}
		return check(cmd, args)
	}
	for _, sub := range cmd.Commands() {
		refuseApartValues(g, sub)
	}
}

// apartValue returns the first flag among args with a value that may be left out, and the duration that follows it as another
// argument. The flag is "" if there is none.
func apartValue(cmd *cobra.Command, args []string) (flag, value string) {
	for i, arg := range args[:max(0, len(args)-1)] {
		if arg == "--" {
			break
		}
		f := cmd.Flags().Lookup(strings.TrimPrefix(arg, "--"))
		if len(arg) == 2 && arg[0] == '-' {
			f = cmd.Flags().ShorthandLookup(arg[1:])
		}
		if f == nil || arg[0] != '-' || f.NoOptDefVal == "" || f.Value.Type() == "bool" {
			continue
		}
		if _, err := store.ParsePeriod(args[i+1]); err == nil {
			return "--" + f.Name, args[i+1]
		}
	}
	return "", ""
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

// loadHabits are flags of other load generators, such as k6, hey, vegeta, wrk and ab, and
// what to give instead. loadtest has no -c, which is the cost in other commands, since to all of
// these it is the number of connections.
func loadHabits() map[string]string {
	habits := map[string]string{
		"c": "--workers N for so many requests at once, or --cost N for units", "z": "--duration 10s", "time": "--duration 10s",
		"i": "--requests N", "iterations": "--requests N", "total": "--requests N", "count": "--requests N",
		"qps": "--rate N", "rps": "--rate N", "R": "--rate N", "max-rate": "--rate N", "request-rate": "--rate N",
		"s": "--stages 10s:1000,10s:0", "stage": "--stages 10s:1000,10s:0", "ramp-up": "--stages 10s:1000,10s:0",
		"users": "--keys N", "subjects": "--keys N", "summary-export": "--save FILE",
		"summary": "--markdown FILE", "summary-markdown": "--markdown FILE", "junit-xml": "--junit FILE", "junitxml": "--junit FILE",
		"junitfile": "--junit FILE", "report": "--html FILE", "assert": "--threshold 'p99<5ms'", "fail-fast": "--abort-on-fail",
		"random-seed": "--seed N", "data": "--body TEXT", "data-raw": "--body TEXT", "data-binary": "--body @FILE", "json": "--body TEXT",
		"D": "--body @FILE", "body-file": "--body @FILE", "request": "--method METHOD", "m": "--method METHOD",
		"T": "--header 'Content-Type: …'", "A": "--header 'Accept: …'", "user": "--header 'Authorization: Basic …'",
		"user-agent": "--header 'User-Agent: …'", "cookie": "--header 'Cookie: …'", "h2": "--http2", "h2c": "--http2",
		"disable-keepalive": "--no-keepalive", "keepalive": "--no-keepalive", "tls-skip-verify": "--insecure",
		"insecure-skip-tls-verify": "--insecure", "root-certs": "--cacert FILE",
	}
	for _, name := range []string{"vus", "u", "concurrency", "connections", "threads", "t", "max-workers", "max-vus", "clients"} {
		habits[name] = "--workers N"
	}
	return habits
}

// valueHint suggests another value for one that a flag does not take, or is "".
func valueHint(cmd *cobra.Command, complaint string) string {
	found := wrongValue().FindStringSubmatch(complaint)
	if found == nil {
		return ""
	}
	value, flag := found[1], found[2]
	switch f := cmd.Flags().Lookup(flag); {
	case f == nil:
	case f.Value.Type() == "duration":
		if n, err := strconv.ParseFloat(value, 64); err == nil && n > 0 {
			return "; did you mean " + value + "s?"
		}
	case flag == "output" && strings.ContainsAny(value, "=./") && cmd.Flags().Lookup("save") != nil:
		return "; --save FILE writes the report to a file"
	}
	return ""
}
