// Package setup has the commands about how limitctl is set up, and the server: serve, config, context and version.
package setup

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewConfigCmd makes limitctl config.
func NewConfigCmd(global *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and explain the configuration file",
		Long: `The configuration is a file, limitctl.yaml, that you can review like code. It
has policies, which are limits that are decided together; contexts, which are
named stores; and the prefix of all keys. docs/configuration.md has every field.

limitctl uses the first of these: --config FILE, $LIMITCTL_CONFIG,
./limitctl.yaml, and the user's $XDG_CONFIG_HOME/limitctl/limitctl.yaml, of
which it always reads the contexts. Go programs load it with policyfile.`,
		Example: `  limitctl config validate
  limitctl config publish limitctl.yaml -m "more for acme" --context prod
  limitctl config explain --policy login ip=203.0.113.9 email=a@example.com`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigValidateCmd(global), newConfigExplainCmd(global),
		newConfigImportCmd(global), newConfigSchemaCmd(global))
	return cmd
}

func newConfigValidateCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Find all mistakes in the configuration",
		Long: `Validate reads FILE, or the files that other commands would read, and shows each
mistake with its line. The exit code is 0 without mistakes, else 2.`,
		Example: "  limitctl config validate\n  limitctl config validate limitctl.yaml -o json",
		Args:    cli.AtMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConfigValidate(global, args)
		},
	}
}

func runConfigValidate(g *cli.Globals, args []string) error {
	if len(args) > 0 {
		data, err := readConfig(args[0])
		if err != nil {
			return err
		}
		c, err := config.Parse(args[0], data, storeChecker(g))
		return printValidation(g, c, err)
	}
	c, err := g.LoadConfig(storeChecker(g))
	if err == nil && len(c.Read) == 0 {
		return cli.Usagef("there is no configuration file; looked for %s; name one with --config FILE",
			strings.Join(c.Searched, ", "))
	}
	return printValidation(g, c, err)
}

// readConfig reads a configuration that an argument names.
func readConfig(path string) ([]byte, error) {
	data, err := cli.ReadConfig(path)
	if err != nil {
		return nil, cli.Usagef("the file %s cannot be read: %s", shell.Command(path), cli.Cause(err))
	}
	return data, nil
}

// storeChecker returns a function that checks a store's URL. It does not connect, and needs no password, which may
// exist only on another machine.
func storeChecker(g *cli.Globals) func(url string) error {
	const unread = "(the password is not read)"
	return func(url string) error {
		backend, _, err := connect.Open(
			url, connect.Options{Prefix: store.DefaultPrefix, Timeout: g.Timeout, Password: unread,
				ReadFile: files.ReadCertificate})
		if err != nil {
			return err
		}
		return backend.Close()
	}
}

// printValidation prints that a configuration is valid, or returns its mistakes.
func printValidation(g *cli.Globals, c *config.Config, err error) error {
	answer := &validAnswer{SchemaVersion: output.SchemaVersion, Valid: err == nil, Mistakes: []config.Mistake{}}
	if mistakes := cli.MistakesOf(err); mistakes != nil {
		answer.Mistakes = mistakes.List
	} else if err != nil {
		return err
	}
	if err == nil {
		answer.Files, answer.Policies, answer.Layouts, answer.Contexts = c.Read, len(c.Policies), len(c.Layouts),
			len(c.Contexts)
	}
	if printErr := g.Print(answer); printErr != nil {
		return printErr
	}
	return err
}

// validAnswer is the answer of config validate.
type validAnswer struct {
	SchemaVersion int              `json:"schema_version"`
	Valid         bool             `json:"valid"`
	Files         []string         `json:"files,omitempty"`
	Policies      int              `json:"policies"`
	Layouts       int              `json:"layouts,omitempty"`
	Contexts      int              `json:"contexts"`
	Mistakes      []config.Mistake `json:"mistakes"`
}

// Records implements output.Answer.
func (a *validAnswer) Records() [][]string { return output.Rows(a.Mistakes) }

// Print implements output.Answer. Mistakes are the command's error.
func (a *validAnswer) Print(p *output.Printer) {
	if a.Valid {
		layouts := ""
		if a.Layouts > 0 {
			layouts = ", " + output.Count(a.Layouts, "mapping") + " of layouts"
		}
		p.Line("%s %s: %s%s, %s", p.Paint(output.Calm, "✓ valid"), strings.Join(a.Files, ", "),
			output.Count(a.Policies, "policy", "policies"), layouts, output.Count(a.Contexts, "context"))
	}
}

func newConfigSchemaCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file",
		Long: `Schema prints a JSON Schema. Editors use it to check and complete limitctl.yaml.
Begin the file with

  # yaml-language-server: $schema=limitctl.schema.json`,
		Example: "  limitctl config schema > limitctl.schema.json",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := global.Env.Out.Write(configfile.SchemaText()); err != nil {
				return cli.NotPrinted(err)
			}
			return nil
		},
	}
}
