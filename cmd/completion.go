package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/panics"
)

// tabTime bounds how long a Tab takes, since the user waits for it.
const tabTime = 300 * time.Millisecond

func newCompletionCmd(global *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print or install a completion script for a shell",
		Long: `Completion prints a script for bash, zsh, fish or PowerShell. With it the Tab
key completes commands, flags and their values, the names of policies, limits
and contexts, files, and the subjects that are in use.

The script never runs what is typed or what is in the store. It offers only
names without characters that are special to a shell. The script for PowerShell
is new, and not tried by the tests of limitctl.`,
		Example: `  limitctl completion install fish
  limitctl completion bash --help
  limitctl completion powershell --help`,
		Args:              cli.NoArguments,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	for _, name := range shell.Completed() {
		cmd.AddCommand(newCompletionOfCmd(global, name))
	}
	cmd.AddCommand(newCompletionInstallCmd(global))
	return cmd
}

// completionFile is where a shell finds a script for later sessions, and what else it needs.
type completionFile struct{ now, always, needs string }

func completionFileOf(name string) completionFile {
	return map[string]completionFile{
		"bash": {"source <(limitctl completion bash)", "limitctl completion install bash",
			"The file is found by the package bash-completion. Without it, put the first line\n" +
				"into ~/.bashrc; the script itself does not need the package."},
		"zsh": {"source <(limitctl completion zsh)", "limitctl completion install zsh",
			"It needs zsh's own completion: `autoload -U compinit; compinit` in ~/.zshrc."},
		"fish": {"limitctl completion fish | source", "limitctl completion install fish", "Nothing else is needed."},
		shell.PowerShell: {"limitctl completion powershell | Out-String | Invoke-Expression",
			"limitctl completion powershell >> $PROFILE", "Nothing else is needed."},
	}[name]
}

// newCompletionOfCmd makes the command that prints the script of a shell.
func newCompletionOfCmd(global *cli.Globals, name string) *cobra.Command {
	plain := false
	file := completionFileOf(name)
	cmd := &cobra.Command{
		Use:   name,
		Short: "Print what makes " + name + " complete limitctl's words",
		Long: fmt.Sprintf(`Prints the script for %s. For this session:

  %s

For all later sessions:

  %s

%s`, name, file.now, file.always, file.needs),
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			script, _ := shell.Script(name, !plain)
			if _, err := io.WriteString(global.Env.Out, script); err != nil {
				return cli.NotPrinted(err)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	if name != shell.PowerShell {
		cmd.Flags().BoolVar(&plain, "no-descriptions", false, "offer words without their descriptions")
	}
	return cmd
}

// newCompletionInstallCmd makes limitctl completion install.
func newCompletionInstallCmd(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "install [SHELL]",
		Short: "Write the script to where your shell finds it",
		Long: `Install writes the script of SHELL to the folder of this user from which the
shell loads completions: bash, zsh or fish. The default is the shell of $SHELL.
It replaces the script of an earlier limitctl, and changes no file of the shell.`,
		Example: "  limitctl completion install fish",
		Args:    cli.AtMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := path.Base(g.Env.Getenv("SHELL"))
			if len(args) > 0 {
				name = args[0]
			} else if name == "." {
				return cli.Usagef("SHELL is not set; name one of %s", strings.Join(installed, ", "))
			}
			return installCompletion(g, name)
		},
		ValidArgsFunction: cobra.FixedCompletions(installed, cobra.ShellCompDirectiveNoFileComp),
	}
}

// installed are the shells that look for a script in a folder of their own.
var installed = []string{"bash", "zsh", "fish"}

func installCompletion(g *cli.Globals, name string) error {
	folder := func(variable, otherwise string) string {
		if given := g.Env.Getenv(variable); filepath.IsAbs(given) { // the XDG specification ignores a relative one
			return given
		}
		return filepath.Join(g.Env.Getenv("HOME"), filepath.FromSlash(otherwise))
	}
	var file, then string
	switch name {
	case "bash":
		file = filepath.Join(folder("XDG_DATA_HOME", ".local/share"), "bash-completion", "completions", "limitctl")
	case "zsh":
		file = filepath.Join(folder("XDG_DATA_HOME", ".local/share"), "zsh", "site-functions", "_limitctl")
		then = "; in ~/.zshrc, before compinit: fpath=(" + shell.Command(filepath.Dir(file)) + " $fpath)"
	case "fish":
		file = filepath.Join(folder("XDG_CONFIG_HOME", ".config"), "fish", "completions", "limitctl.fish")
	case shell.PowerShell:
		return cli.Usagef("a profile of PowerShell is not changed; add the script to it: `%s`", completionFileOf(name).always)
	default:
		return cli.Usagef("no script for the shell %s; name one of %s", shell.Command(name), strings.Join(installed, ", "))
	}
	if !filepath.IsAbs(file) {
		return cli.Usagef("HOME is not set to find the folder of %s; write the script where you want it: "+
			"`limitctl completion %[1]s > FILE`", name)
	}
	script, _ := shell.Script(name, true)
	if err := g.Env.WriteShared(file, []byte(script)); err != nil {
		return cli.Usagef("%s cannot be written: %s", shell.Command(file), cli.Cause(err))
	}
	g.Say("wrote %s, for new sessions of %s%s", shell.Command(file), name, then)
	return nil
}

// isTab reports whether args are a request for completion: of our own scripts, or of
// the cobra library's, which limitctl printed before.
func isTab(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{shell.Tab, cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0])
}

// answerTab answers a request for completion. All offers pass here.
func answerTab(ctx context.Context, args []string, env *cli.Env) error {
	var answer string
	if args[0] == shell.Tab {
		request, ok := shell.ParseRequest(args[1:])
		if !ok {
			return cli.Usagef("%s is for the scripts that `limitctl completion` prints", shell.Tab)
		}
		directive, offers := cobra.ShellCompDirectiveDefault, []shell.Offer(nil)
		if !request.ToFile {
			directive, offers = findOffers(ctx, request.Words, env)
		}
		answer = request.Answer(kindOf(directive, offers), offers)
	} else {
		words := args[1:]
		if len(words) == 0 {
			words = []string{""}
		}
		directive, offers := findOffers(ctx, words, env)
		begun := words[len(words)-1]
		if directive&cobra.ShellCompDirectiveFilterFileExt != 0 {
			begun = "" // an ending of file names does not begin with it
		}
		for _, o := range shell.Safe(offers, begun) {
			answer += strings.TrimSuffix(o.Word+"\t"+o.Description, "\t") + "\n"
		}
		answer += fmt.Sprintf(":%d\n", directive)
	}
	if _, err := io.WriteString(env.Out, answer); err != nil {
		return cli.NotPrinted(err)
	}
	return nil
}

// kindOf turns cobra's directive into what the shell does. Files are the answer where there is no
// offer.
func kindOf(directive cobra.ShellCompDirective, offers []shell.Offer) shell.Kind {
	switch {
	case directive&cobra.ShellCompDirectiveError != 0:
		return shell.Offers
	case directive&cobra.ShellCompDirectiveFilterFileExt != 0 && len(offers) > 0:
		return shell.FilesOf(offers[0].Word)
	case directive&cobra.ShellCompDirectiveNoFileComp == 0 && len(offers) == 0:
		return shell.Files
	case directive&cobra.ShellCompDirectiveNoSpace != 0:
		return shell.NoSpace
	}
	return shell.Offers
}

// findOffers returns the completions of the last of words. It takes little longer than the time
// for a Tab, even if a file or a server hangs.
func findOffers(ctx context.Context, words []string, env *cli.Env) (cobra.ShellCompDirective, []shell.Offer) {
	words = slices.Clone(words)
	for i, word := range words[:len(words)-1] { // as the shell will do
		if rest, is := strings.CutPrefix(word, "~/"); is {
			words[i] = env.Getenv("HOME") + "/" + rest
		}
	}
	found := make(chan string, 1)
	var out bytes.Buffer
	panics.Go(func() error {
		quiet := *env
		quiet.Out, quiet.Err = &out, io.Discard
		root := newRootCmd(&cli.Globals{Env: &quiet})
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, words...))
		root.SetOut(&out)
		root.SetErr(io.Discard)
		return root.ExecuteContext(ctx)
	}, func(error) { found <- out.String() })
	late := time.NewTimer(env.TabTime + env.TabTime/2) // an answer within its own time still counts
	defer late.Stop()
	select {
	case text := <-found:
		return readOffers(text, words)
	case <-late.C:
	case <-ctx.Done():
	}
	return cobra.ShellCompDirectiveNoFileComp, nil
}

// readOffers reads what cobra found: a line for each word, with its description, and
// the directive.
func readOffers(text string, words []string) (cobra.ShellCompDirective, []shell.Offer) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":"))
	if err != nil {
		return cobra.ShellCompDirectiveError, nil
	}
	// In --flag=value only the value is offered.
	last, flag := words[len(words)-1], ""
	if n := strings.IndexByte(last, '='); n > 0 && last[0] == '-' && !slices.Contains(words[:len(words)-1], "--") {
		flag = last[:n+1]
	}
	if directive&int(cobra.ShellCompDirectiveFilterFileExt) != 0 {
		flag = "" // it is not a value, but how files' names end
	}
	var offers []shell.Offer
	for _, line := range lines[:len(lines)-1] {
		word, description, _ := strings.Cut(line, "\t")
		offers = append(offers, shell.Offer{Word: flag + word, Description: strings.ReplaceAll(description, "`", "")})
	}
	return cobra.ShellCompDirective(directive), offers
}
