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
	toLook: "commands-see.md", toChange: "commands-step-in.md", toDecide: "commands-decide.md",
	toTest: "commands-test.md", toServe: "commands-serve.md",
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
	all, times := commandsOf(root), map[string]int{}
	count := func(texts, repeated []string) []string {
		for _, text := range texts {
			if times[text]++; times[text] == 2 {
				repeated = append(repeated, text)
			}
		}
		return repeated
	}
	var flags, prose, global, environment, codes []string
	for _, c := range all {
		for _, f := range flagsOf(c) {
			flags = count([]string{flagLine(root, f)}, flags)
		}
		prose = count(details(c), prose)
	}
	slices.SortFunc(flags, func(a, b string) int { return cmp.Compare(longName(a), longName(b)) })
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { global = append(global, flagLine(root, f)) })
	for _, variable := range variables() {
		// Its flag says so, if there is no more to say.
		if !strings.HasPrefix(variable[1], "the default of --") || strings.Contains(variable[1], ";") {
			environment = append(environment, listed(root, variable[0], variable[1]))
		}
	}
	for _, line := range exitCodeLines() {
		codes = append(codes, listed(root, line[0], line[1]))
	}

	pages := map[string][]string{allCommands: {
		"# Commands",
		"Written by `make docs` from what `limitctl COMMAND --help-all` says; a test holds it up to date.",
	}}
	for _, group := range root.Groups() {
		title, page, commands := strings.TrimSuffix(group.Title, ":"), []string{}, []string{}
		for _, c := range all {
			if groupOf(c) == group.ID {
				name := strings.TrimPrefix(c.CommandPath(), "limitctl ")
				commands = append(commands, fmt.Sprintf("- [%s](%s): %s", name, linkTo(c), escapeMarkdown(c.Short)))
				page = append(page, ofCommand(root, c, func(text string) bool { return times[text] > 1 })...)
			}
		}
		pages[allCommands] = append(pages[allCommands], "## "+title, strings.Join(commands, "\n"))
		pages[pageOf[group.ID]] = append([]string{"# " + title, fmt.Sprintf("Not repeated here: flags of "+
			"[every](%s#flags-of-every-command) and of [several](%[1]s#flags-of-several-commands) commands, and "+
			"[what several say](%[1]s#what-several-commands-say).", allCommands)}, page...)
	}
	pages[allCommands] = slices.Concat(pages[allCommands], []string{
		"## Flags of every command", strings.Join(global, "\n"),
		"## Flags of several commands", strings.Join(flags, "\n"), "## What several commands say",
	}, paragraphs(root, prose), []string{
		"## Environment",
		"A flag goes before a variable, and a variable before the configuration. Flags with a variable name it.",
		strings.Join(environment, "\n"), "## Exit codes", strings.Join(codes, "\n"),
	}, paragraphs(root, strings.Split(exitCodesMore, "\n\n")))
	texts := map[string]string{}
	for name, page := range pages {
		texts[name] = strings.Join(page, "\n\n") + "\n"
	}
	return texts
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
	return listed(root, name, usage)
}

func listed(root *cobra.Command, name, text string) string {
	return fmt.Sprintf("- `%s`: %s", name, markdownProse(root, text))
}

// longName is what a line of flagLine is sorted by.
func longName(line string) string { return line[strings.Index(line, "--"):] }

// details returns the paragraphs of a command's help behind the first.
func details(c *cobra.Command) []string {
	return strings.Split(strings.TrimSpace(c.Long), "\n\n")[1:]
}

// ofCommand are the paragraphs about a command, without flags and details that are shared.
func ofCommand(root, c *cobra.Command, shared func(text string) bool) []string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.Long), "\n\n")
	typed := strings.ReplaceAll(strings.Join(usageLines(c), "\n"), " [flags]", "")
	examples := strings.Split(unindented(c.Example), "\n")
	examples = slices.DeleteFunc(examples, func(e string) bool { return strings.Contains(typed, e) })
	if len(examples) > 0 {
		typed += "\n\n" + strings.Join(examples[:min(mostExamples, len(examples))], "\n")
	}
	all := append([]string{"## " + c.CommandPath()}, paragraphs(root, []string{cmp.Or(first, c.Short+".")})...)
	all = append(all, "```text\n"+typed+"\n```")
	var own, others []string
	for _, f := range flagsOf(c) {
		if line := flagLine(root, f); shared(line) {
			others = append(others, "`--"+f.Name+"`")
		} else {
			own = append(own, line)
		}
	}
	if len(own) > 0 {
		all = append(all, strings.Join(own, "\n"))
	}
	if len(others) > 0 {
		all = append(all, "Also "+strings.Join(others, ", ")+".")
	}
	return append(all, paragraphs(root, slices.DeleteFunc(details(c), shared))...)
}

// commandsOf returns the commands below c that people see, those below others behind them.
func commandsOf(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, append([]*cobra.Command{sub}, commandsOf(sub)...)...)
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

// paragraphs makes Markdown of those of a help text. Indented ones are what is typed or shown.
func paragraphs(root *cobra.Command, texts []string) (all []string) {
	for _, text := range texts {
		if text = strings.Trim(text, "\n"); strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t") {
			all = append(all, "```text\n"+unindented(text)+"\n```")
		} else {
			all = append(all, markdownProse(root, text))
		}
	}
	return all
}

// flagInProse is a flag in a help text, with what goes before it.
var flagInProse = regexp.MustCompile(`(^|[\s("])(--[a-z][a-z0-9-]*(?:=[A-Za-z0-9:@/_]+)?)`)

// referred is a command or a page of the docs that a help text names, as in "limitctl settle" and docs/redis.md.
var referred = regexp.MustCompile("\"limitctl(\\s[a-z\\s]+)\"|\\blimitctl(\\s[a-z\\s]+)`?--help\\b`?|" +
	"\\bdocs/([a-z/-]+)\\.md\\b")

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
	return regexp.MustCompile("[\\\\*_\\[\\]<`]").ReplaceAllString(text, `\$0`)
}
