package cmd

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/internal/cli"
)

var update = flag.Bool("update", false, "write docs/commands.md as the commands are now")

const referencePath = "../docs/commands.md"

// exitNoOf says what exit code 1 means for the commands that can end with it.
var exitNoOf = map[string]string{
	"limitctl check":   "it would be denied",
	"limitctl consume": "denied; nothing was charged",
	"limitctl reset":   "the question was not answered yes; nothing was changed",
	"limitctl restore": "the question was not answered yes; nothing was changed",
	"limitctl doctor":  "a problem was found",

	"limitctl config publish":  "the question was not answered yes; nothing was changed",
	"limitctl config promote":  "the question was not answered yes; nothing was changed",
	"limitctl config rollback": "the question was not answered yes; nothing was changed",
	"limitctl config status":   "a process lags",

	"limitctl override set":    "the question was not answered yes; nothing was changed",
	"limitctl override extend": "the ID is of no override in force, or the question was not answered yes; nothing was changed",
	"limitctl override revoke": "an ID is of no override in force, or the question was not answered yes; nothing was changed",
	"limitctl block":           "the question was not answered yes; nothing was changed",
	"limitctl unblock":         "no such block is in force, or the question was not answered yes; nothing was changed",
	"limitctl exempt":          "the question was not answered yes; nothing was changed",

	"limitctl compare": "something became worse",
	"limitctl loadtest": "the audit found something wrong (unless --no-fail), a threshold is missed, more than --max-errors of the " +
		"requests got no decision, or with --strict the verdict is inconclusive",
	"limitctl report": "the audit found something wrong (unless --no-fail), a threshold is missed, too many requests got no decision, " +
		"or with --strict the verdict is inconclusive",
	"limitctl simulate": "the audit found something wrong (unless --no-fail), a threshold is missed, no count keeps the promise of " +
		"--suggest, or the store of --store disagrees",
}

// docs/commands.md is what the commands say of themselves. Write it anew with `make docs`.
func TestTheReferenceIsUpToDate(t *testing.T) {
	w := newWorld(t)
	w.Timeout = 0 // so that the default of --timeout is that of production
	root := newRootCmd(&cli.Globals{Env: w.Env})
	root.InitDefaultHelpCmd()
	want := reference(t, root)
	if *update {
		if err := os.WriteFile(referencePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) == want {
		return
	}
	is, wanted := strings.Split(string(got), "\n"), strings.Split(want, "\n")
	for i := range max(len(is), len(wanted)) {
		if i >= len(is) || i >= len(wanted) || is[i] != wanted[i] {
			t.Fatalf("docs/commands.md is not up to date from line %d on; `make docs` writes it", i+1)
		}
	}
}

func reference(t *testing.T, root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(`# Commands

Written by ` + "`make docs`" + ` from what ` + "`limitctl COMMAND --help`" + ` says; a test holds it up to date.

## All commands

`)
	all := commandsOf(root)
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "%s\n\n", group.Title)
		for _, c := range all {
			if groupOf(c) == group.ID {
				path := c.CommandPath()
				fmt.Fprintf(&b, "- [%s](#%s): %s\n", path, strings.ReplaceAll(path, " ", "-"), escapeMarkdown(c.Short))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("## Flags of every command\n\n")
	var global []*pflag.Flag
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) { global = append(global, flag) })
	writeFlags(&b, global)
	b.WriteString("## Environment\n\nA flag goes before a variable, and a variable before the configuration.\n\n")
	b.WriteString("| variable | |\n|---|---|\n")
	for _, variable := range cli.Variables() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", variable[0], escapeMarkdown(variable[1]))
	}
	b.WriteString("\n## Exit codes\n\n| exit code | means |\n|---|---|\n")
	for _, line := range exitCodeLines() {
		fmt.Fprintf(&b, "| %s | %s |\n", line[0], escapeMarkdown(line[1]))
	}
	b.WriteString("\nEach command says below what 1 means.\n\n")
	writeProse(&b, exitCodesMore, "")
	known := 0
	for _, c := range all {
		fmt.Fprintf(&b, "## %s\n\n", c.CommandPath())
		writeProse(&b, c.Long, c.Short)
		fmt.Fprintf(&b, "```text\n%s\n```\n\n", c.UseLine())
		if len(c.Aliases) > 0 {
			fmt.Fprintf(&b, "Also called: %s.\n\n", strings.Join(c.Aliases, ", "))
		}
		if no, has := exitNoOf[c.CommandPath()]; has {
			known++
			fmt.Fprintf(&b, "Exit code 1: %s.\n\n", no)
		}
		for i, group := range flagGroupsOf(c) {
			if i > 0 {
				fmt.Fprintf(&b, "%s\n\n", group.title)
			}
			writeFlags(&b, group.flags)
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "```text\n%s\n```\n\n", unindented(c.Example))
		}
	}
	if known != len(exitNoOf) {
		t.Errorf("exitNoOf has %d commands, and %d of them are there", len(exitNoOf), known)
	}
	return strings.TrimSpace(b.String()) + "\n"
}

// commandsOf returns the commands below c that people see, those below others behind them.
func commandsOf(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(append(all, sub), commandsOf(sub)...)
		}
	}
	return all
}

// groupOf is the group of a command, or of the one that it is below.
func groupOf(c *cobra.Command) string {
	for c.GroupID == "" {
		c = c.Parent()
	}
	return c.GroupID
}

func writeFlags(b *strings.Builder, flags []*pflag.Flag) {
	b.WriteString("| flag | |\n|---|---|\n")
	for _, f := range flags {
		if f.Name == "help" {
			continue
		}
		name, usage := describeFlag(f)
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), strings.ReplaceAll(escapeMarkdown(usage), "|", `\|`))
	}
	b.WriteString("\n")
}

// writeProse writes the long help, whose indented paragraphs are what is typed or shown.
func writeProse(b *strings.Builder, long, short string) {
	if long == "" {
		long = short + "."
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(long), "\n\n") {
		if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") {
			fmt.Fprintf(b, "```text\n%s\n```\n\n", unindented(paragraph))
			continue
		}
		fmt.Fprintf(b, "%s\n\n", escapeMarkdown(paragraph))
	}
}

func unindented(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(line, "\t"), "  ")
	}
	return strings.Join(lines, "\n")
}

// escapeMarkdown makes Markdown show a text as it is.
func escapeMarkdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, "`", "\\`").Replace(text)
}
