package setup

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// NewContextCmd makes limitctl context.
func NewContextCmd(global *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Stores with names: list them, choose one",
		Long: `A context is a named store: its URL, where its password is, and what is allowed
there. Contexts are in the user's own configuration file or that of --config,
and not in the limitctl.yaml of a working directory. --context NAME uses one for
one command, and "context use" for all from now on.`,
		Example: `  limitctl context list
  limitctl context use dev
  limitctl check user:42 --limit 10/1m --context dev`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newContextListCmd(global), newContextUseCmd(global))
	return cmd
}

func newContextListCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the contexts; the one in use has a star",
		Example: "  limitctl context list\n  limitctl context list -o json",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, args []string) error { return runContextList(global) },
	}
}

func runContextList(g *cli.Globals) error {
	c, err := g.Config()
	if err != nil {
		return err
	}
	current, err := g.CurrentContext()
	if err != nil {
		return err
	}
	answer := &contextsAnswer{SchemaVersion: output.SchemaVersion, Contexts: []contextDocument{}}
	for _, x := range c.Contexts {
		answer.Contexts = append(answer.Contexts, newContextDocument(c, *x, current))
	}
	if len(c.Contexts) == 0 && !g.Quiet {
		g.Note("there are no contexts; looked in %s", strings.Join(c.ContextFiles(), ", "))
	}
	return g.Print(answer)
}

func newContextUseCmd(global *cli.Globals) *cobra.Command {
	none := false
	cmd := &cobra.Command{
		Use:   "use NAME | use --none",
		Short: "Use a context from now on",
		Long: `Use chooses a context for all commands from now on, in a file in the state
directory. The flags --store and --context and the variables LIMITCTL_STORE and
LIMITCTL_CONTEXT take precedence.`,
		Example: "  limitctl context use dev\n  limitctl context use --none",
		Args: func(cmd *cobra.Command, args []string) error {
			if none != (len(args) == 0) || len(args) > 1 {
				return cli.Usagef("give the NAME of one context, or --none")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runContextUse(global, args)
		},
		ValidArgsFunction: cli.Offers(global).Contexts,
	}
	cmd.Flags().BoolVar(&none, "none", false, "use no context")
	return cmd
}

// runContextUse uses the context of that name from now on, or none.
func runContextUse(g *cli.Globals, names []string) error {
	path := cli.ContextFile(g.Env.Getenv)
	if path == "" {
		return cli.Usagef("neither XDG_STATE_HOME nor HOME is set, so no context can be remembered; give --context " +
			"NAME to each command")
	}
	if len(names) == 0 {
		if err := files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cli.Usagef("the choice of a context cannot be removed: %s", err)
		}
		if !g.Quiet {
			g.Note("using no context from now on")
		}
		return nil
	}
	c, err := g.Config()
	if err != nil {
		return err
	}
	x, err := c.Context(names[0])
	if err != nil {
		return err
	}
	if err := files.Write(path, []byte(x.Name+"\n")); err != nil {
		return cli.Usagef("the choice of a context cannot be written: %s", err)
	}
	if g.Quiet {
		return nil
	}
	for _, variable := range []string{"LIMITCTL_STORE", "LIMITCTL_CONTEXT"} {
		if g.Env.Getenv(variable) != "" {
			g.Note("%s is set, and overrides the chosen context", variable)
		}
	}
	g.Note("using the context %s from now on: %s", x.Name, redisserver.RedactURL(x.Store))
	return nil
}

// contextDocument is a context in an answer. Its URL has no password.
type contextDocument struct {
	config.Context
	Current bool   `json:"current"`
	Origin  string `json:"origin"`
}

func newContextDocument(c *config.Config, x config.Context, current string) contextDocument {
	origin, _ := c.Origin("contexts." + x.Name)
	x.Store = redisserver.RedactURL(x.Store)
	return contextDocument{x, x.Name == current, origin.String()}
}

// access is what a context allows, in words.
func (d *contextDocument) access() string {
	switch {
	case d.ReadOnly:
		return "read-only"
	case d.Protected:
		return "protected"
	}
	return "-"
}

// contextsAnswer is the list of all contexts.
type contextsAnswer struct {
	SchemaVersion int               `json:"schema_version"`
	Contexts      []contextDocument `json:"contexts"`
}

// Items implements output.Answer.
func (a *contextsAnswer) Items() any { return a.Contexts }

// Print implements output.Answer.
func (a *contextsAnswer) Print(p *output.Printer) {
	if len(a.Contexts) == 0 {
		return
	}
	columns := []output.Column{{Header: ""}, {Header: "NAME"}, {Header: "STORE", Shrinks: 12},
		{Header: "PREFIX", Drops: 2},
		{Header: "ACCESS"}, {Header: "ORIGIN", Shrinks: 8, Drops: 1}}
	var rows [][]output.Cell
	for i := range a.Contexts {
		x, star := &a.Contexts[i], " "
		if x.Current {
			star = "*"
		}
		rows = append(rows, []output.Cell{{Text: star, Style: output.Bold}, {Text: x.Name}, {Text: x.Store},
			{Text: cmp.Or(x.Prefix, "-")}, {Text: x.access()}, {Text: x.Origin, Style: output.Faint}})
	}
	p.Table(columns, rows)
}
