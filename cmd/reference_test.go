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

var update = flag.Bool("update", false, "write the pages of the commands as they are now")

// The page of all commands, and that of each group of the help.
const allCommands = "commands.md"

var pageOf = map[string]string{
	toLook: "commands-see.md", toChange: "commands-step-in.md", toDecide: "commands-decide.md", toTest: "commands-test.md",
	toServe: "commands-serve.md",
}

// exitNoOf says what exit code 1 means for the commands that can end with it.
var exitNoOf = map[string]string{
	"limitctl check":   "it would be denied",
	"limitctl consume": "denied; nothing was charged",
	"limitctl doctor":  "a problem was found",

	"limitctl config status": "a process lags",

	"limitctl override revoke": "an ID is of no override in force",
	"limitctl unblock":         "no such block is in force",

	"limitctl loadtest": "the audit found something wrong or a threshold could not be judged (unless --no-fail), a threshold is " +
		"missed, more than --max-errors of the requests got no decision, or with --strict the verdict is inconclusive",
	"limitctl report": "the audit found something wrong or a threshold could not be judged (unless --no-fail), a threshold is missed, " +
		"too many requests got no decision, or with --strict the verdict is inconclusive",
	"limitctl verify": "the audit found something wrong, a threshold is missed or could not be judged, more than --max-errors of the " +
		"requests got no decision, or too little was seen",
	"limitctl simulate": "the audit found something wrong (unless --no-fail), a threshold is missed, no count keeps the promise of " +
		"--suggest, or the store of --store disagrees",
}

// The pages of the reference are what the commands say of themselves. Write them anew with `make docs`.
func TestTheReferenceIsUpToDate(t *testing.T) {
	w := newWorld(t)
	w.Timeout = 0 // so that the default of --timeout is that of production
	root := newRootCmd(&cli.Globals{Env: w.Env})
	root.InitDefaultHelpCmd()
	for page, want := range reference(t, root) {
		path := "../docs/" + page
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) == want {
			continue
		}
		is, wanted := strings.Split(string(got), "\n"), strings.Split(want, "\n")
		for i := range max(len(is), len(wanted)) {
			if i >= len(is) || i >= len(wanted) || is[i] != wanted[i] {
				t.Fatalf("%s is not up to date from line %d on; `make docs` writes it", path, i+1)
			}
		}
	}
}

// reference returns the text of each page. What several commands have, flags or paragraphs, is in the first page alone.
func reference(t *testing.T, root *cobra.Command) map[string]string {
	all := commandsOf(root)
	flags, paragraphs := map[string]int{}, map[string]int{}
	var shared []*pflag.Flag
	var prose []string
	for _, c := range all {
		for _, group := range flagGroupsOf(c) {
			for _, f := range group.flags {
				if flags[sameFlag(f)]++; flags[sameFlag(f)] == 2 && f.Name != "help" {
					shared = append(shared, f)
				}
			}
		}
		for _, paragraph := range details(c) {
			if paragraphs[paragraph]++; paragraphs[paragraph] == 2 {
				prose = append(prose, paragraph)
			}
		}
	}
	// A name that means different things to commands stays with them.
	meanings := map[string]int{}
	for _, f := range shared {
		meanings[f.Name]++
	}
	shared = slices.DeleteFunc(shared, func(f *pflag.Flag) bool { return meanings[f.Name] > 1 })
	slices.SortFunc(shared, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })

	var b strings.Builder
	b.WriteString("# Commands\n\nWritten by `make docs` from what `limitctl COMMAND --help-all` says; a test holds it up to date.\n\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "## %s\n\n", strings.TrimSuffix(group.Title, ":"))
		writeCommands(&b, slices.DeleteFunc(slices.Clone(all), func(c *cobra.Command) bool { return groupOf(c) != group.ID }))
	}
	b.WriteString("## Flags of every command\n\n")
	var global []*pflag.Flag
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) { global = append(global, flag) })
	writeFlags(&b, root, global)
	b.WriteString("## Flags of several commands\n\n")
	writeFlags(&b, root, shared)
	b.WriteString("## What several commands say\n\n")
	for _, paragraph := range prose {
		writeParagraph(&b, root, paragraph)
	}
	b.WriteString("## Environment\n\nA flag goes before a variable, and a variable before the configuration.\n\n")
	b.WriteString("| variable | |\n|---|---|\n")
	for _, variable := range variables() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", variable[0], markdownProse(root, variable[1]))
	}
	b.WriteString("\n## Exit codes\n\n| exit code | means |\n|---|---|\n")
	for _, line := range exitCodeLines() {
		fmt.Fprintf(&b, "| %s | %s |\n", line[0], markdownProse(root, line[1]))
	}
	b.WriteString("\n")
	writeProse(&b, root, exitCodesMore, "")
	pages := map[string]string{allCommands: strings.TrimSpace(b.String()) + "\n"}

	known := 0
	for _, group := range root.Groups() {
		b.Reset()
		fmt.Fprintf(&b, "# %s\n\n", strings.TrimSuffix(group.Title, ":"))
		fmt.Fprintf(&b, "Flags of [every](%s#flags-of-every-command) and of [several](%[1]s#flags-of-several-commands) commands, and "+
			"[what several say](%[1]s#what-several-commands-say), are not said again.\n\n", allCommands)
		for _, c := range all {
			if groupOf(c) != group.ID {
				continue
			}
			if _, has := exitNoOf[c.CommandPath()]; has {
				known++
			}
			writeCommand(&b, root, c, func(f *pflag.Flag) bool { return flags[sameFlag(f)] > 1 && meanings[f.Name] == 1 },
				func(paragraph string) bool { return paragraphs[paragraph] > 1 })
		}
		pages[pageOf[group.ID]] = strings.TrimSpace(b.String()) + "\n"
	}
	if known != len(exitNoOf) {
		t.Errorf("exitNoOf has %d commands, and %d of them are there", len(exitNoOf), known)
	}
	return pages
}

func sameFlag(f *pflag.Flag) string {
	name, usage := describeFlag(f)
	return name + " " + usage
}

// details returns the paragraphs of a command's help behind the first.
func details(c *cobra.Command) []string {
	_, more, has := strings.Cut(strings.TrimSpace(c.Long), "\n\n")
	if !has {
		return nil
	}
	return strings.Split(strings.Trim(more, "\n"), "\n\n")
}

func writeCommand(b *strings.Builder, root, c *cobra.Command, sharedFlag func(*pflag.Flag) bool, sharedProse func(string) bool) {
	fmt.Fprintf(b, "## %s\n\n", c.CommandPath())
	first, _, _ := strings.Cut(strings.TrimSpace(c.Long), "\n\n")
	writeProse(b, root, first, c.Short)
	fmt.Fprintf(b, "```text\n%s\n```\n\n", strings.Join(usageLines(c), "\n"))
	if len(c.Aliases) > 0 {
		fmt.Fprintf(b, "Also called: %s.\n\n", strings.Join(c.Aliases, ", "))
	}
	if no, has := exitNoOf[c.CommandPath()]; has {
		b.WriteString(markdownProse(root, "Exit code 1: "+no) + ".\n\n")
	}
	if c.Example != "" {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", unindented(c.Example))
	}
	var own, others []*pflag.Flag
	for _, group := range flagGroupsOf(c) {
		for _, f := range group.flags {
			if f.Name == "help" {
				continue
			}
			if sharedFlag(f) {
				others = append(others, f)
			} else {
				own = append(own, f)
			}
		}
	}
	if len(own) > 0 {
		writeFlags(b, root, own)
	}
	if len(others) > 0 {
		names := make([]string, len(others))
		for i, f := range others {
			names[i] = "`--" + f.Name + "`"
		}
		fmt.Fprintf(b, "Also %s.\n\n", strings.Join(names, ", "))
	}
	for _, paragraph := range slices.DeleteFunc(details(c), sharedProse) {
		writeParagraph(b, root, paragraph)
	}
}

// commandsOf returns the commands below c that people see, those below others behind them.
func commandsOf(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			if all = append(all, sub); sub.Name() != "completion" { // whose commands are alike
				all = append(all, commandsOf(sub)...)
			}
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

func linkTo(c *cobra.Command) string {
	return pageOf[groupOf(c)] + "#" + strings.ReplaceAll(c.CommandPath(), " ", "-")
}

// writeCommands lists commands with links to what is said of them.
func writeCommands(b *strings.Builder, commands []*cobra.Command) {
	for _, c := range commands {
		fmt.Fprintf(b, "- [%s](%s): %s\n", c.CommandPath(), linkTo(c), escapeMarkdown(c.Short))
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
		writeParagraph(b, root, paragraph)
	}
}

func writeParagraph(b *strings.Builder, root *cobra.Command, paragraph string) {
	if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", unindented(paragraph))
		return
	}
	fmt.Fprintf(b, "%s\n\n", markdownProse(root, paragraph))
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
		return fmt.Sprintf("[%s](%s)", found, linkTo(to))
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
