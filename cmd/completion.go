package cmd

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/internal/texts"
)

func newCompletionCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for a shell",
		Long: `Completion prints a script for bash, zsh, fish or PowerShell. With it the Tab
key completes commands, flags and their values, files, and the names of
policies, limits and contexts.

On Tab the shell evaluates what is typed, as on Enter: quote what you paste.`,
		Example: `  source <(limitctl completion bash)
  source <(limitctl completion zsh)
  limitctl completion fish | source
  limitctl completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			root, script := cmd.Root(), bytes.Buffer{}
			switch strings.Join(args, " ") {
			case "bash":
				err = root.GenBashCompletionV2(&script, true)
			case "zsh":
				err = root.GenZshCompletion(&script)
			case "fish":
				err = root.GenFishCompletion(&script, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(&script)
			default:
				return cli.Usagef("name one shell: bash, zsh, fish or powershell")
			}
			if err != nil {
				return err
			}
			if _, err := quotedInScript.WriteString(global.Env.Out, script.String()); err != nil {
				return cli.NotPrinted(err)
			}
			return nil
		},
	}
}

// quotedInScript mends cobra's scripts, which evaluate quoted words as if they were not: in fish all of them, and in
// zsh the last one up to an equals sign.
var quotedInScript = strings.NewReplacer("(commandline -opc)", "(string escape -- (commandline -opc))",
	`=~ '-.*=' ]]`, `=~ '^--[a-z-]+=' ]]`)

// isTab reports whether args are a request of a completion script.
func isTab(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// offerFilesForFiles lets a shell offer files only where the help says FILE. Commands and flags that offer words of
// their own keep them.
func offerFilesForFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if kind, _ := pflag.UnquoteUsage(flag); kind != "FILE" {
			cmd.RegisterFlagCompletionFunc(flag.Name, cobra.NoFileCompletions) // an error, if it has offers of its own
		}
	})
	for _, sub := range cmd.Commands() {
		offerFilesForFiles(sub)
	}
}

// answerTab answers a request of a completion script. It leaves out all words that a shell gives another meaning.
func answerTab(ctx context.Context, args []string, env *cli.Env) error {
	var found bytes.Buffer
	quiet := *env
	quiet.Out, quiet.Err = &found, io.Discard
	root := newRootCmd(&cli.Globals{Env: &quiet})
	offerFilesForFiles(root)
	root.SetArgs(args)
	root.SetOut(&found)
	root.SetErr(io.Discard)
	_ = root.ExecuteContext(ctx) // what is not complete yet is no mistake
	var safe strings.Builder
	for line := range strings.Lines(found.String()) {
		word, description, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		flag := strings.HasPrefix(args[len(args)-1], "-")
		if !shell.IsPlain(word) || word[0] == '-' && !flag {
			continue
		}
		if description != "" && texts.Escape(description) == description {
			word += "\t" + strings.ReplaceAll(description, "`", "")
		}
		safe.WriteString(word + "\n")
	}
	if _, err := io.WriteString(env.Out, safe.String()); err != nil {
		return cli.NotPrinted(err)
	}
	return nil
}
