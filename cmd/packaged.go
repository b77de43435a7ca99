package cmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/shell"
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

// manPage writes the help of a command for man.
func manPage(c *cobra.Command, version string, date time.Time) []byte {
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
			fmt.Fprintf(&b, ".PP\n%s\n", roff(paragraph))
		}
	}
	for _, group := range flagGroupsOf(c) {
		fmt.Fprintf(&b, ".SH %s\n", roff(strings.ToUpper(strings.TrimSuffix(group.title, ":"))))
		for _, flag := range group.flags {
			name, usage := describeFlag(flag)
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(name), roff(usage))
		}
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	var also []string
	if c.HasParent() {
		also = append(also, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			also = append(also, manName(sub))
		}
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s(1)\n", roff(strings.Join(also, "(1), ")))
	}
	return []byte(b.String())
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
