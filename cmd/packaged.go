package cmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/texts"
)

// PackageFiles returns what a package of limitctl contains besides the program, by path: a man page for each command in man,
// and the completion scripts in completions. The date is that of the version.
func PackageFiles(version string, date time.Time) map[string][]byte {
	files := map[string][]byte{}
	for _, name := range shell.Completed() {
		script, _ := shell.Script(name, true)
		files["completions/limitctl."+name] = []byte(script)
	}
	env := &cli.Env{Getenv: func(string) string { return "" }}
	root := newRootCmd(&cli.Globals{Env: env})
	addManPages(files, root, version, date)
	return files
}

// addManPages adds the pages of a command and of those below it.
func addManPages(files map[string][]byte, c *cobra.Command, version string, date time.Time) {
	files["man/"+manName(c)+".1"] = manPage(c, version, date)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			addManPages(files, sub, version, date)
		}
	}
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage writes the help of a command for man. The page of limitctl itself has what all commands share.
func manPage(c *cobra.Command, version string, date time.Time) []byte {
	var also []string // commands
	var pages []string
	refer := func(text string) string {
		return roff(references(c.Root(), text, func(to *cobra.Command, _ string) string {
			also = append(also, manName(to))
			return manName(to) + "(1)"
		}, func(page string) string {
			pages = append(pages, page)
			return page + ".html"
		}))
	}
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s %q %q\n", strings.ToUpper(manName(c)), date.UTC().Format(time.DateOnly), "limitctl "+version, "limitctl")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.nf\n", roff(manName(c)), roff(c.Short))
	for _, line := range usageLines(c) {
		fmt.Fprintln(&b, roff(line))
	}
	b.WriteString(".fi\n.SH DESCRIPTION\n")
	for paragraph := range strings.SplitSeq(strings.TrimSpace(c.Long), "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", roff(paragraph))
		} else if paragraph != "" {
			fmt.Fprintf(&b, ".PP\n%s\n", refer(paragraph))
		}
	}
	groups := flagGroupsOf(c)
	if !c.HasParent() {
		all := flagGroup{title: "Flags of every command"}
		c.PersistentFlags().VisitAll(func(flag *pflag.Flag) { all.flags = append(all.flags, flag) })
		groups = append(groups, all)
	}
	for _, group := range groups {
		fmt.Fprintf(&b, ".SH %s\n", roff(strings.ToUpper(strings.TrimSuffix(group.title, ":"))))
		for _, flag := range group.flags {
			name, usage := describeFlag(flag)
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(name), refer(usage))
		}
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	if !c.HasParent() {
		b.WriteString(".SH ENVIRONMENT\n")
		for _, variable := range cli.Variables() {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(variable[0]), refer(variable[1]))
		}
		b.WriteString(".SH EXIT STATUS\n")
		for _, line := range exitCodeLines() {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(line[0]), refer(line[1]))
		}
	}
	b.WriteString(manSeeAlso(c, also, pages, version))
	return []byte(b.String())
}

// manSeeAlso is the end of a page: the commands that it names and those beside it, and where the documentation is.
func manSeeAlso(c *cobra.Command, also, pages []string, version string) string {
	for above := c.Parent(); above != nil; above = above.Parent() {
		also = append(also, manName(above))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			also = append(also, manName(sub))
		}
	}
	slices.Sort(also)
	also = slices.DeleteFunc(slices.Compact(also), func(name string) bool { return name == manName(c) })
	text := ".SH SEE ALSO\n"
	if len(also) > 0 {
		text += roff(strings.Join(also, "(1), ")) + "(1)\n.PP\n"
	}
	if c.HasParent() {
		text += "The flags of every command, such as \\-\\-store and \\-\\-output, are in limitctl(1).\n"
	}
	slices.Sort(pages)
	named := ""
	if pages = slices.Compact(pages); len(pages) > 0 {
		named = " with " + strings.Join(pages, ".html, ") + ".html"
	}
	return text + roff(fmt.Sprintf("The documentation%s: limitctl_%s_site.tar.gz, and\n%s", named, version, projectPage)) + "\n"
}

// referred is a command or a page of the docs that a help text names.
var referred = texts.Regexp("\"limitctl(\\s[a-z\\s]+)\"|\\blimitctl(\\s[a-z\\s]+)`?--help\\b`?|\\bdocs/([a-z/-]+)\\.md\\b")

// references replaces in a help text the names of commands, as in "limitctl settle", and of pages, as in docs/redis.md.
func references(root *cobra.Command, text string, command func(to *cobra.Command, found string) string,
	page func(name string) string) string {
	return referred().ReplaceAllStringFunc(text, func(found string) string {
		m := referred().FindStringSubmatch(found)
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

// roff escapes a text for man.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
