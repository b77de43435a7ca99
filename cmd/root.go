package cmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/decide"
	"github.com/limitctl/limitctl/cmd/see"
	"github.com/limitctl/limitctl/cmd/setup"
	"github.com/limitctl/limitctl/cmd/stepin"
	"github.com/limitctl/limitctl/cmd/test"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// newRootCmd makes limitctl with all of its commands.
func newRootCmd(global *cli.Globals) *cobra.Command { return newRootOf(global, commands()) }

// rootFor makes limitctl as far as the arguments need it: with one command, if the first argument
// is its name, since the flags of all of them take as long to make as a whole decision.
func rootFor(global *cli.Globals) *cobra.Command {
	all := commands()
	if len(global.Args) > 0 {
		if i := slices.IndexFunc(all, func(c command) bool { return c.name == global.Args[0] }); i >= 0 {
			return newRootOf(global, all[i:i+1])
		}
	}
	return newRootOf(global, all)
}

// command is a command that is made only if it is needed.
type command struct {
	name, group string
	make        func(*cli.Globals) *cobra.Command
}

func commands() []command {
	return []command{
		{"inspect", toLook, see.NewInspectCmd},
		{"denials", toLook, see.NewDenialsCmd},
		{"dashboard", toLook, see.NewDashboardCmd},
		{"handover", toLook, see.NewHandoverCmd},
		{"audit", toLook, see.NewAuditCmd},
		{"doctor", toLook, see.NewDoctorCmd},
		{"reset", toChange, stepin.NewResetCmd},
		{"undo", toChange, stepin.NewUndoCmd},
		{"override", toChange, stepin.NewOverrideCmd},
		{"block", toChange, stepin.NewBlockCmd},
		{"unblock", toChange, stepin.NewUnblockCmd},
		{"exempt", toChange, stepin.NewExemptCmd},
		{"check", toDecide, decide.NewCheckCmd},
		{"consume", toDecide, decide.NewConsumeCmd},
		{"run", toDecide, decide.NewRunCmd},
		{"refund", toDecide, decide.NewRefundCmd},
		{"settle", toDecide, decide.NewSettleCmd},
		{"loadtest", toTest, test.NewLoadtestCmd},
		{"probe", toTest, test.NewProbeCmd},
		{"verify", toTest, test.NewVerifyCmd},
		{"simulate", toTest, test.NewSimulateCmd},
		{"report", toTest, test.NewReportCmd},
		{"serve", toServe, setup.NewServeCmd},
		{"config", toServe, newConfigCmd},
		{"context", toServe, setup.NewContextCmd},
		{"version", toServe, setup.NewVersionCmd},
		{"completion", toServe, newCompletionCmd},
	}
}

// newConfigCmd makes limitctl config: what is about a file, and what is about a configuration in a store.
func newConfigCmd(global *cli.Globals) *cobra.Command {
	cmd := setup.NewConfigCmd(global)
	cmd.AddCommand(setup.Commands(global)...)
	return cmd
}

func newRootOf(global *cli.Globals, commands []command) *cobra.Command {
	root := &cobra.Command{
		Use:   "limitctl",
		Short: "Operate and test rate limits",
		Long: `limitctl checks, consumes, inspects and resets rate limits in Redis, in a file
or in memory. Without --store it uses a file of the user's own, and so needs no
server. Policies and contexts are in limitctl.yaml: see limitctl config --help.

Exit codes: 0 yes, done; 1 no (denied, a threshold missed, a regression);
2 usage or configuration; 3 store unreachable or timed out; 4 store refused
(auth, ACL, foreign data, out of memory); 5 partly done;
130 interrupted.`,
		Example: `  limitctl consume user:42 --limit 3/10s
  limitctl check user:42 --limit 3/10s && echo "go ahead"
  limitctl inspect 'user:*'
  limitctl reset user:42 --yes`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return global.Begin(cmd)
		},
		Version:       global.Env.ProgramVersion(), // for --version
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs, // so that RunE can suggest
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return cli.UnknownCommand(cmd, args[0])
		},
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true}, // it has one of its own
	}
	root.SetVersionTemplate("limitctl {{.Version}}\n")
	root.SetHelpCommand(newHelpCmd())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if *cmd.Flag("help-all").Value.(*allHelp) { // then err is its ErrHelp, perhaps not wrapped
			return pflag.ErrHelp
		}
		after := pflag.NewFlagSet("", pflag.ContinueOnError) // the error is in the format that stands after it
		after.ParseErrorsWhitelist.UnknownFlags, after.Usage = true, func() {}
		after.VarP(&global.Format, "output", "o", "")
		_ = after.Parse(global.Args)
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
			return cli.UnknownCommand(cmd, args[0]) // whose flags cannot be known
		}
		complaint := flagComplaint(err)
		hint := flagHint(cmd, complaint)
		return cli.Usagef("%s%s; see `%s --help`", complaint, hint, cmd.CommandPath())
	})
	addGlobalFlags(global, root)
	root.AddGroup(commandGroups()...)
	for _, c := range commands {
		made := c.make(global)
		made.GroupID = c.group
		root.AddCommand(made)
	}
	return root
}

// addGlobalFlags adds the flags of all commands.
func addGlobalFlags(g *cli.Globals, root *cobra.Command) {
	flags := root.PersistentFlags()
	g.Changed = flags.Changed
	flags.StringVar(&g.Store, "store", "",
		"store `URL`: redis://, redis+cluster://, redis+sentinel:// (rediss… for TLS; "+
			"valkey… is the same), unix://, file:PATH or memory: "+
			"(default $LIMITCTL_STORE, else the context, else a file)")
	flags.StringVar(&g.ContextName, "context", "", "use the context `NAME`: a named store of the configuration "+
		"(default $LIMITCTL_CONTEXT, else the one chosen by \"context use\")")
	flags.StringVar(&g.ConfigFile, "config", "", "configuration `FILE`, or store: for the published one "+
		"(default $LIMITCTL_CONFIG, else ./limitctl.yaml, else the user's)")
	flags.StringVar(&g.Prefix, "prefix", "", "`PREFIX` that the store's keys begin with "+
		"(default that of the context, else of the configuration, else "+store.DefaultPrefix+")")
	cli.DurationFlag(flags, &g.Timeout, "timeout", "", cmp.Or(g.Env.Timeout, 2*time.Second),
		"wait at most `DURATION` for the store's answer")
	flags.VarP(&g.Format, "output", "o", "output `FORMAT`: "+strings.Join(output.Formats(), ", "))
	flags.StringVar(&g.JQ, "jq", "", "print what the jq `FILTER` makes of the JSON answer, such as .remaining")
	flags.BoolVarP(&g.Quiet, "quiet", "q", false, "print no answer, which only the exit code gives, and no progress")
	flags.BoolVarP(&g.Verbose, "verbose", "v", false,
		"also say what changes no answer, such as that a denial could not be counted")
	flags.VarPF(new(allHelp), "help-all", "",
		"print the whole help of a command, with all of its flags").NoOptDefVal = "true"
	root.RegisterFlagCompletionFunc("context", cli.Offers(g).Contexts)
	root.RegisterFlagCompletionFunc(
		"output", cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp))
}

// newHelpCmd makes "limitctl help COMMAND", which is "limitctl COMMAND --help", and "limitctl help PAGE".
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND|PAGE]",
		Short:   "Help about any command",
		Example: "  limitctl help consume\n  limitctl help context use\n  limitctl help limits",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if page := strings.Join(args, " "); page == "flags" {
				p := helpPrinter{cmd.OutOrStdout()}
				cmd.Root().PersistentFlags().VisitAll(p.flag)
				return nil
			} else if text := topics()[page]; text != "" {
				fmt.Fprintln(cmd.OutOrStdout(), text)
				return nil
			}
			switch {
			case err != nil:
				return cli.Usagef("%s", err)
			case len(rest) > 0:
				return cli.UnknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// Root returns limitctl with all of its commands, to write its man pages.
func Root() *cobra.Command {
	return newRootCmd(&cli.Globals{Env: &cli.Env{Getenv: func(string) string { return "" }}})
}
