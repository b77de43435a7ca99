package cmd

import (
	"cmp"
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

// The pages of the reference are what the commands say of themselves. Write them anew with `make docs`.
func TestTheReferenceIsUpToDate(t *testing.T) {
	w := newWorld(t)
	w.Timeout = 0 // so that the default of --timeout is that of production
	root := newRootCmd(&cli.Globals{Env: w.Env})
	root.InitDefaultHelpCmd()
	for page, want := range reference(root) {
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
func reference(root *cobra.Command) map[string]string {
	all := commandsOf(root)
	times := map[string]int{}
	var shared, prose []string
	for _, c := range all {
		for _, f := range flagsOf(c) {
			line := flagLine(root, f)
			if times[line]++; times[line] == 2 {
				shared = append(shared, line)
			}
		}
		for _, paragraph := range details(c) {
			if times[paragraph]++; times[paragraph] == 2 {
				prose = append(prose, paragraph)
			}
		}
	}

	var b strings.Builder
	b.WriteString("# Commands\n\nWritten by `make docs` from what `limitctl COMMAND --help-all` says; a test holds it up to date.\n\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "## %s\n\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range all {
			if groupOf(c) == group.ID {
				fmt.Fprintf(&b, "- [%s](%s): %s\n", strings.TrimPrefix(c.CommandPath(), "limitctl "), linkTo(c), escapeMarkdown(c.Short))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("## Flags of every command\n\n")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { b.WriteString(flagLine(root, f)) })
	b.WriteString("\n## Flags of several commands\n\n")
	slices.SortFunc(shared, func(a, b string) int { return cmp.Compare(longName(a), longName(b)) })
	for _, line := range shared {
		b.WriteString(line)
	}
	b.WriteString("\n## What several commands say\n\n")
	for _, paragraph := range prose {
		writeParagraph(&b, root, paragraph)
	}
	b.WriteString("## Environment\n\nA flag goes before a variable, and a variable before the configuration. Flags with a variable name it.\n\n")
	for _, variable := range variables() {
		if strings.HasPrefix(variable[1], "the default of --") && !strings.Contains(variable[1], ";") {
			continue // its flag says so
		}
		fmt.Fprintf(&b, "- `%s`: %s\n", variable[0], markdownProse(root, variable[1]))
	}
	b.WriteString("\n## Exit codes\n\n")
	for _, line := range exitCodeLines() {
		fmt.Fprintf(&b, "- `%s`: %s\n", line[0], markdownProse(root, line[1]))
	}
	b.WriteString("\n")
	writeProse(&b, root, exitCodesMore)
	pages := map[string]string{allCommands: strings.TrimSpace(b.String()) + "\n"}

	for _, group := range root.Groups() {
		b.Reset()
		fmt.Fprintf(&b, "# %s\n\nNot repeated here: flags of [every](%s#flags-of-every-command) and of [several](%[2]s#flags-of-several-commands) "+
			"commands, and [what several say](%[2]s#what-several-commands-say).\n\n", strings.TrimSuffix(group.Title, ":"), allCommands)
		for _, c := range all {
			if groupOf(c) == group.ID {
				writeCommand(&b, root, c, func(text string) bool { return times[text] > 1 })
			}
		}
		pages[pageOf[group.ID]] = strings.TrimSpace(b.String()) + "\n"
	}
	return pages
}

// flagsOf are the flags of a command in the order of its help.
func flagsOf(c *cobra.Command) (all []*pflag.Flag) {
	for _, group := range flagGroupsOf(c) {
		all = append(all, group.flags...)
	}
	return slices.DeleteFunc(all, func(f *pflag.Flag) bool { return f.Name == "help" })
}

func flagLine(root *cobra.Command, f *pflag.Flag) string {
	name, usage := describeFlag(f)
	return fmt.Sprintf("- `%s`: %s\n", name, markdownProse(root, usage))
}

// longName is what a line of flagLine is sorted by.
func longName(line string) string { return line[strings.Index(line, "--"):] }

// details returns the paragraphs of a command's help behind the first.
func details(c *cobra.Command) []string {
	return strings.Split(strings.TrimSpace(c.Long), "\n\n")[1:]
}

func writeCommand(b *strings.Builder, root, c *cobra.Command, shared func(text string) bool) {
	fmt.Fprintf(b, "## %s\n\n", c.CommandPath())
	first, _, _ := strings.Cut(strings.TrimSpace(c.Long), "\n\n")
	writeParagraph(b, root, cmp.Or(first, c.Short+"."))
	typed := strings.ReplaceAll(strings.Join(usageLines(c), "\n"), " [flags]", "")
	examples := slices.DeleteFunc(strings.Split(unindented(c.Example), "\n"), func(e string) bool { return strings.Contains(typed, e) })
	if len(examples) > 0 {
		typed += "\n\n" + strings.Join(examples[:min(mostExamples, len(examples))], "\n")
	}
	fmt.Fprintf(b, "```text\n%s\n```\n\n", typed)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(b, "Also called: %s.\n\n", strings.Join(c.Aliases, ", "))
	}
	var others []string
	own := 0
	for _, f := range flagsOf(c) {
		line := flagLine(root, f)
		if shared(line) {
			others = append(others, "`--"+f.Name+"`")
			continue
		}
		b.WriteString(line)
		own++
	}
	if own > 0 {
		b.WriteString("\n")
	}
	if len(others) > 0 {
		fmt.Fprintf(b, "Also %s.\n\n", strings.Join(others, ", "))
	}
	for _, paragraph := range slices.DeleteFunc(details(c), shared) {
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

// writeProse writes a help text, whose indented paragraphs are what is typed or shown.
func writeProse(b *strings.Builder, root *cobra.Command, text string) {
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
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

// referred is a command or a page of the docs that a help text names, as in "limitctl settle" and docs/redis.md.
var referred = regexp.MustCompile("\"limitctl(\\s[a-z\\s]+)\"|\\blimitctl(\\s[a-z\\s]+)`?--help\\b`?|\\bdocs/([a-z/-]+)\\.md\\b")

// markdownProse makes Markdown of a help text: flags are code, and the commands and pages that it names are links.
func markdownProse(root *cobra.Command, text string) string {
	text = flagInProse.ReplaceAllString(escapeMarkdown(text), "$1`$2`")
	return referred.ReplaceAllStringFunc(text, func(found string) string {
		m := referred.FindStringSubmatch(found)
		if m[3] != "" {
			return fmt.Sprintf("[docs/%s.md](%[1]s.md)", m[3])
		}
		if to, rest, err := root.Find(strings.Fields(m[1] + m[2])); err == nil && len(rest) == 0 {
			return fmt.Sprintf("[%s](%s)", strings.Trim(found, `"`), linkTo(to))
		}
		return found // a word of another kind
	})
}

func unindented(text string) string {
	return regexp.MustCompile("(?m)^(\t|  )").ReplaceAllString(strings.Trim(text, "\n"), "")
}

// escapeMarkdown makes Markdown show a text as it is.
func escapeMarkdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, "`", "\\`").Replace(text)
}
