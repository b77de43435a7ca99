package cmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
)

const (
	helpColumns = 80
	// flagColumns is the most columns of a flag with its text beside it. The text of a longer one is below it.
	flagColumns = 26
)

// The groups of commands, by what the user wants. The help lists them in this order.
const (
	toLook   = "look"
	toChange = "change"
	toDecide = "decide"
	toTest   = "test"
	toServe  = "serve"
)

func commandGroups() []*cobra.Group {
	return []*cobra.Group{
		{ID: toLook, Title: "See what is in use, who is denied, and what was changed:"},
		{ID: toChange, Title: "Step in:"},
		{ID: toDecide, Title: "Decide whether something may happen now:"},
		{ID: toTest, Title: "Test and compare limits:"},
		{ID: toServe, Title: "Serve and set up:"},
	}
}

// commonFlags are the flags that most runs of a command need, for commands whose whole help is long: their --help has
// these, the first paragraph and the first examples, and --help-all has everything.
var commonFlags = map[string]string{
	"consume":   "limit policy cost wait token on-error confirm",
	"dashboard": "policy at-limit refresh once",
	"inspect":   "policy at-limit min-used sort limit-rows summary by fail-if-any layout",
	"loadtest":  "limit policy algorithm rate duration keys scenario threshold html save",
	"probe":     "limit header method max-time same workers i-may-test-this-host junit",
	"reset":     "policy exact at-limit dry-run yes confirm to-remaining reason",
	"run":       "limit policy cost wait on-denied on-error confirm",
	"serve":     "listen admin grpc token-file tls-cert tls-key check-config drain log-format",
	"simulate":  "limit policy algorithm suggest attribute key-field html save",
}

// mostExamples is how many examples a short help has.
const mostExamples = 4

// allHelp is the flag --help-all, true once it was given. Cobra then prints the help, as for --help.
type allHelp bool

func (f *allHelp) String() string   { return "false" }
func (f *allHelp) Type() string     { return "bool" }
func (f *allHelp) IsBoolFlag() bool { return true }

func (f *allHelp) Set(string) error {
	*f = true
	return pflag.ErrHelp
}

// helpPrinter prints the help of commands.
type helpPrinter struct{ out io.Writer }

// printHelp prints the help of a command. An argument that names none of its commands is an error, instead of a help
// that was not asked for.
func printHelp(cmd *cobra.Command) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return cli.UnknownCommand(cmd, args[0])
	}
	(&helpPrinter{cmd.OutOrStdout()}).print(cmd, bool(*cmd.Flag("help-all").Value.(*allHelp)))
	return nil
}

func (p *helpPrinter) print(cmd *cobra.Command, all bool) {
	common := strings.Fields(commonFlags[cmd.Name()])
	short := !all && len(common) > 0 && cmd.Parent() == cmd.Root()
	text, examples := strings.TrimSpace(cmd.Long), cmd.Example
	var codes string
	if i := strings.Index(text, exitCodesBegin); i >= 0 {
		codes, text = text[i:], text[:i]
		if end := strings.Index(codes, "\n\n"); end >= 0 {
			codes, text = codes[:end], text+strings.TrimSpace(codes[end:])
		}
	}
	if short {
		text, _, _ = strings.Cut(text, "\n\n")
		lines := strings.Split(examples, "\n")
		examples = strings.Join(lines[:min(mostExamples, len(lines))], "\n")
	}
	fmt.Fprintln(p.out, cmp.Or(strings.TrimSpace(text), cmd.Short+"."))
	p.title("Usage:")
	for _, line := range usageLines(cmd) {
		p.text("  ", "      ", line)
	}
	if codes != "" {
		p.title(codes)
	}
	if cmd.HasExample() {
		p.title("Examples:")
		fmt.Fprintln(p.out, examples)
	}
	p.commands(cmd)
	groups := flagGroupsOf(cmd)
	if short {
		groups = []flagGroup{{title: "Flags of most runs:"}}
		for _, name := range common {
			groups[0].flags = append(groups[0].flags, cmd.Flags().Lookup(name))
		}
	}
	for _, group := range groups {
		p.title(group.title)
		for _, flag := range group.flags {
			p.flag(flag)
		}
	}
	fmt.Fprintln(p.out)
	if short {
		p.text("", "", fmt.Sprintf("All %s has to say, with all of its flags: %s --help-all", cmd.Name(),
			cmd.CommandPath()))
	}
	if cmd.HasSubCommands() {
		p.text("", "", fmt.Sprintf("The help of one of them: %s COMMAND --help", cmd.CommandPath()))
	}
	p.text("", "", "Flags of every command, such as --store and --output: limitctl help flags")
	if !cmd.HasParent() {
		p.text("", "", "Other pages, for limitctl help PAGE: limits, patterns, exit-codes, environment")
		p.text("", "", "Documentation and reports of bugs: "+projectPage)
	}
}

// exitCodesBegin begins the paragraph of a command's text that the help prints below the usage.
const exitCodesBegin = "Exit codes:"

func (p *helpPrinter) title(text string) { fmt.Fprintf(p.out, "\n%s\n", text) }

// text prints a text in lines that fit: first goes before the first line, and indent before the others.
func (p *helpPrinter) text(first, indent, text string) {
	for _, line := range output.Wrap(text, helpColumns-len(indent)) {
		fmt.Fprintln(p.out, first+line)
		first = indent
	}
}

// labelled prints a text beside a label of so many columns, or below a longer one.
func (p *helpPrinter) labelled(label string, columns int, text string) {
	if output.Width(label) > columns {
		fmt.Fprintln(p.out, "  "+label)
		label = ""
	}
	p.text("  "+label+strings.Repeat(" ", columns-output.Width(label)+2), strings.Repeat(" ", columns+4), text)
}

// commands prints the commands below one, in their groups.
func (p *helpPrinter) commands(cmd *cobra.Command) {
	columns := 0
	groups := map[string][]*cobra.Command{}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			columns = max(columns, len(sub.Name()))
			groups[sub.GroupID] = append(groups[sub.GroupID], sub)
		}
	}
	for _, group := range append(slices.Clone(cmd.Groups()), &cobra.Group{Title: "Commands:"}) {
		if len(groups[group.ID]) > 0 {
			p.title(group.Title)
		}
		for _, sub := range groups[group.ID] {
			p.labelled(sub.Name(), columns, sub.Short)
		}
	}
}

func (p *helpPrinter) flag(flag *pflag.Flag) {
	name, usage := describeFlag(flag)
	if flag.Shorthand == "" {
		name = "    " + name
	}
	p.labelled(name, flagColumns, usage)
}

// describeFlag returns a flag as it is typed, and what it does.
func describeFlag(flag *pflag.Flag) (name, usage string) {
	kind, usage := pflag.UnquoteUsage(flag)
	name = "--" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand + ", " + name
	}
	if kind != "" {
		name += " " + kind
	}
	if !strings.Contains(usage, "(default") && !slices.Contains([]string{"", "0", "false", "[]", "0s"}, flag.DefValue) {
		usage += " (default " + flag.DefValue + ")"
	}
	return name, usage
}

// usageLines are the forms in which a command is typed, one a line.
func usageLines(cmd *cobra.Command) []string {
	// so that cobra counts the flags of all commands: a command without its own would seem to have none
	cmd.LocalFlags()
	forms := strings.Split(cmd.UseLine(), " | ")
	for i := 1; i < len(forms); i++ {
		forms[i] = cmd.CommandPath() + " " + strings.TrimPrefix(forms[i], cmd.Name()+" ")
	}
	if cmd.HasAvailableSubCommands() {
		forms = []string{cmd.CommandPath() + " COMMAND [flags]"}
	}
	return forms
}

// flagGroup are flags of a command that belong together.
type flagGroup struct {
	title string
	flags []*pflag.Flag
}

// flagGroupsOf returns the flags of a command without those of every command: first those of no group, then the groups
// in the order in which they were added.
func flagGroupsOf(cmd *cobra.Command) []flagGroup {
	if !cmd.HasParent() {
		return nil // --help and --version need no help
	}
	groups := []flagGroup{{title: "Flags:"}}
	flags := cmd.LocalNonPersistentFlags()
	flags.SortFlags = false
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		title := "Flags:"
		if given := flag.Annotations[cli.FlagGroup]; len(given) > 0 {
			title = given[0] + ":"
		}
		i := slices.IndexFunc(groups, func(g flagGroup) bool { return g.title == title })
		if i < 0 {
			i = len(groups)
			groups = append(groups, flagGroup{title: title})
		}
		groups[i].flags = append(groups[i].flags, flag)
	})
	for i := range groups {
		slices.SortStableFunc(groups[i].flags, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	}
	return slices.DeleteFunc(groups, func(g flagGroup) bool { return len(g.flags) == 0 })
}
