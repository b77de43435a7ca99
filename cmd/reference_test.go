package cmd

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
)

var update = flag.Bool("update", false, "write docs/commands.md as the commands are now")

const referencePath = "../docs/commands.md"

// exitNoOf says what exit code 1 means for the commands that can end with it.
var exitNoOf = map[string]string{
	"limitctl check":   "it would be denied",
	"limitctl consume": "denied; nothing was charged",
	"limitctl reset":   "the question was not answered yes; nothing was changed",
	"limitctl doctor":  "a problem was found",

	"limitctl config publish":  "the question was not answered yes; nothing was changed",
	"limitctl config rollback": "the question was not answered yes; nothing was changed",
	"limitctl config status":   "a process lags",

	"limitctl override set":    "the question was not answered yes; nothing was changed",
	"limitctl override revoke": "an ID is of no override in force, or the question was not answered yes; nothing was changed",
	"limitctl block":           "the question was not answered yes; nothing was changed",
	"limitctl unblock":         "no such block is in force, or the question was not answered yes; nothing was changed",
	"limitctl exempt":          "the question was not answered yes; nothing was changed",

	"limitctl loadtest": "the audit found something wrong or a threshold could not be judged (unless --no-fail), a threshold is " +
		"missed, more than --max-errors of the requests got no decision, or with --strict the verdict is inconclusive",
	"limitctl report": "the audit found something wrong or a threshold could not be judged (unless --no-fail), a threshold is missed, " +
		"too many requests got no decision, or with --strict the verdict is inconclusive",
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
		writeCommands(&b, slices.DeleteFunc(slices.Clone(all), func(c *cobra.Command) bool { return groupOf(c) != group.ID }))
	}
	b.WriteString("## Flags of every command\n\n")
	var global []*pflag.Flag
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) { global = append(global, flag) })
	writeFlags(&b, root, global)
	b.WriteString("## Environment\n\nA flag goes before a variable, and a variable before the configuration.\n\n")
	b.WriteString("| variable | |\n|---|---|\n")
	for _, variable := range variables() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", variable[0], markdownProse(root, variable[1]))
	}
	b.WriteString("\n## Exit codes\n\n| exit code | means |\n|---|---|\n")
	for _, line := range exitCodeLines() {
		fmt.Fprintf(&b, "| %s | %s |\n", line[0], markdownProse(root, line[1]))
	}
	b.WriteString("\nEach command says below what 1 means.\n\n")
	writeProse(&b, root, exitCodesMore, "")
	known := 0
	for _, c := range all {
		fmt.Fprintf(&b, "## %s\n\n", c.CommandPath())
		first, more, _ := strings.Cut(strings.TrimSpace(c.Long), "\n\n")
		writeProse(&b, root, first, c.Short)
		fmt.Fprintf(&b, "```text\n%s\n```\n\n", strings.Join(usageLines(c), "\n"))
		if len(c.Aliases) > 0 {
			fmt.Fprintf(&b, "Also called: %s.\n\n", strings.Join(c.Aliases, ", "))
		}
		if no, has := exitNoOf[c.CommandPath()]; has {
			known++
			b.WriteString(markdownProse(root, "Exit code 1: "+no) + ".\n\n")
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "### Examples\n\n```text\n%s\n```\n\n", unindented(c.Example))
		}
		if below := commandsOf(c); len(below) > 0 {
			b.WriteString("### Commands\n\n")
			writeCommands(&b, below)
		}
		for _, group := range flagGroupsOf(c) {
			if len(group.flags) > 1 || group.flags[0].Name != "help" {
				fmt.Fprintf(&b, "### %s\n\n", strings.TrimSuffix(group.title, ":"))
				writeFlags(&b, root, group.flags)
			}
		}
		if more != "" {
			b.WriteString("### Details\n\n")
			writeProse(&b, root, more, "")
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

// writeCommands lists commands with links to what is said of them.
func writeCommands(b *strings.Builder, commands []*cobra.Command) {
	for _, c := range commands {
		path := c.CommandPath()
		fmt.Fprintf(b, "- [%s](#%s): %s\n", path, strings.ReplaceAll(path, " ", "-"), escapeMarkdown(c.Short))
	}
	b.WriteString("\n")
}

func writeFlags(b *strings.Builder, root *cobra.Command, flags []*pflag.Flag) {
	b.WriteString("| flag | |\n|---|---|\n")
	for _, f := range flags {
		if f.Name == "help" {
			continue
		}
		name, usage := describeFlag(f)
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), strings.ReplaceAll(markdownProse(root, usage), "|", `\|`))
	}
	b.WriteString("\n")
}

// writeProse writes the long help, whose indented paragraphs are what is typed or shown.
func writeProse(b *strings.Builder, root *cobra.Command, long, short string) {
	if long == "" {
		long = short + "."
	}
	for paragraph := range strings.SplitSeq(strings.Trim(long, "\n"), "\n\n") {
		if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") {
			fmt.Fprintf(b, "```text\n%s\n```\n\n", unindented(paragraph))
			continue
		}
		fmt.Fprintf(b, "%s\n\n", markdownProse(root, paragraph))
	}
}

// flagInProse is a flag in a help text, with what goes before it.
var flagInProse = regexp.MustCompile(`(^|[\s("])(--[a-z][a-z0-9-]*(?:=[A-Za-z0-9:@/_]+)?)`)

// markdownProse makes Markdown of a help text: flags are code, and the commands and pages that it names are links.
func markdownProse(root *cobra.Command, text string) string {
	var b strings.Builder
	at := 0
	for _, found := range flagInProse.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(escapeMarkdown(text[at:found[4]]))
		fmt.Fprintf(&b, "`%s`", text[found[4]:found[5]])
		at = found[5]
	}
	b.WriteString(escapeMarkdown(text[at:]))
	return references(root, b.String(), func(to *cobra.Command, found string) string {
		return fmt.Sprintf("[%s](#%s)", found, strings.ReplaceAll(to.CommandPath(), " ", "-"))
	}, func(page string) string {
		return fmt.Sprintf("[docs/%s.md](%[1]s.md)", page)
	})
}

// referred is a command or a page of the docs that a help text names.
var referred = regexp.MustCompile("\"limitctl(\\s[a-z\\s]+)\"|\\blimitctl(\\s[a-z\\s]+)`?--help\\b`?|\\bdocs/([a-z/-]+)\\.md\\b")

// references replaces in a help text the names of commands, as in "limitctl settle", and of pages, as in docs/redis.md.
func references(root *cobra.Command, text string, command func(to *cobra.Command, found string) string,
	page func(name string) string) string {
	return referred.ReplaceAllStringFunc(text, func(found string) string {
		m := referred.FindStringSubmatch(found)
		if m[3] != "" {
			return page(m[3])
		}
		words := strings.Fields(m[1] + m[2])
		to, rest, err := root.Find(words)
		if err != nil || len(rest) > 0 {
			return found // a word of another kind
		}
		return command(to, strings.Trim(found, `"`))
	})
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
