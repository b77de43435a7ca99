package cmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Run executes limitctl with args in env and returns its exit code.
func Run(ctx context.Context, args []string, env *Env) int {
	global := &globalOptions{env: env, args: args}
	env, flush := withDoors(env, global.color())
	defer flush()
	global.env = env
	err := panics.Call(func() error { return global.execute(ctx, args) })
	if err != nil && ctx.Err() != nil {
		err = &interruptedError{err}
	}
	if err != nil && !errors.Is(err, errDenied) {
		fmt.Fprintln(env.Err, global.complaint(err))
	}
	if bug := bugIn(err); bug != nil && env.Getenv("LIMITCTL_DEBUG") == "1" {
		fmt.Fprintf(env.Err, "%s", bug.Stack)
	}
	return exitCode(err)
}

func (g *globalOptions) execute(ctx context.Context, args []string) error {
	if isTab(args) {
		return answerTab(ctx, args, g.env)
	}
	root := newRootCmd(g)
	root.SetArgs(args)
	root.SetIn(g.env.In)
	root.SetOut(g.env.Out)
	root.SetErr(g.env.Err)
	return root.ExecuteContext(ctx)
}

// interruptedError is whatever error an interrupt led to.
type interruptedError struct{ error }

// Error leaves out what only says that the command was interrupted.
func (e *interruptedError) Error() string {
	var progress *progressError
	if errors.As(e.error, &progress) && !errors.Is(e.error, limiter.ErrOutcomeUnknown) {
		return "interrupted: " + progress.progress
	}
	if errors.Is(e.error, limiter.ErrOutcomeUnknown) || errors.Is(e.error, errPartly) {
		return "interrupted: " + e.error.Error()
	}
	return "interrupted"
}

func (e *interruptedError) Is(target error) bool { return target == context.Canceled }
func (e *interruptedError) Unwrap() error        { return e.error }

// complaint is what an error says to the user: one line, or a block for each
// mistake of a configuration file.
func (g *globalOptions) complaint(err error) string {
	if mistakes := mistakesOf(err); mistakes != nil {
		p := &output.Printer{Color: g.color()}
		return g.withoutSecrets(mistakes.Format(func(text string) string { return p.Paint(output.AtEnd, text) }))
	}
	complaint := g.withoutSecrets(message(err))
	if bugIn(err) != nil {
		complaint = bugComplaint(complaint)
	}
	return "limitctl: " + complaint
}

// bugComplaint says of a panic, which is a bug, what to do about it.
func bugComplaint(what string) string {
	return what + "; this is a bug of limitctl, please report it with what you ran at " + bugReports + " (LIMITCTL_DEBUG=1 shows where it is)"
}

// bugReports is where to report a bug.
const bugReports = "https://github.com/limitctl/limitctl/issues"

// bugIn returns the panic that an error is about, or nil.
func bugIn(err error) *panics.Error {
	var bug *panics.Error
	errors.As(err, &bug)
	return bug
}

// mistakesOf returns the mistakes of a configuration that an error holds, or nil.
func mistakesOf(err error) *config.Mistakes {
	var mistakes *config.Mistakes
	errors.As(err, &mistakes)
	return mistakes
}

// message puts an error on one line of a length that people read, with all that a server
// or a file may have put into it to be seen.
func message(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	const most = 5
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	const longest = 2000
	return output.Shorten(output.Escape(strings.Join(lines, "; ")), longest)
}

// globalOptions are the flags that every command has.
type globalOptions struct {
	env         *Env
	args        []string
	store       string
	configFile  string
	contextName string
	prefix      string
	timeout     time.Duration
	format      output.Format
	formulas    output.Formulas
	quiet       bool

	// changed tells whether a global flag was given.
	changed func(flag string) bool
	// What was read and chosen, once it was.
	loaded *config.Config
	chosen *settings
	// readPassword is what the context's password file holds, once it was read.
	readPassword string
}

func newRootCmd(global *globalOptions) *cobra.Command {
	root := &cobra.Command{
		Use:   "limitctl",
		Short: "Operate and test rate limits",
		Long: `limitctl checks, consumes, inspects and resets rate limits kept in Redis, in a
file or in memory. Without --store it uses a file of the user's own, so that it
works with no server at all. Policies and contexts are in limitctl.yaml; see
limitctl config --help.

Exit codes: 0 yes, done; 1 no (denied, a threshold missed, a regression);
2 usage or configuration; 3 store unreachable or timed out; 4 store refused
(auth, ACL, foreign data, out of memory); 5 partly done; 130 interrupted.`,
		Example: `  limitctl consume user:42 --limit 3/10s
  limitctl check user:42 --limit 3/10s && echo "go ahead"
  limitctl inspect 'user:*'
  limitctl reset user:42 --yes`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			// An empty one is a variable of a script that is not set; to go on would be
			// to use another store than is meant.
			for _, flag := range []string{"store", "context", "config"} {
				if given := cmd.Flags().Lookup(flag); given != nil && given.Changed && given.Value.String() == "" {
					return usagef("--%s is empty; give it a value or leave it out", flag)
				}
			}
			return nil
		},
		Version:       newVersionAnswer(global.env.Version).Version, // for --version
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs, // so that RunE can suggest
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			hint := "see `limitctl --help`"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean " + strings.Join(near, " or ") + "?"
			}
			return usagef("unknown command %q; %s", args[0], hint)
		},
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true}, // it has one of its own
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s; see `%s --help`", flagComplaint(err), cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	global.changed = flags.Changed
	flags.StringVar(&global.store, "store", "", "store `URL`: redis://, redis+cluster://, redis+sentinel:// (rediss… for TLS), unix://, file:PATH or memory: (default $LIMITCTL_STORE, else the context, else a file)")
	flags.StringVar(&global.contextName, "context", "", "`NAME` of the context to use: a store of the configuration (default the one chosen by \"context use\")")
	flags.StringVar(&global.configFile, "config", "", "configuration `FILE` (default $LIMITCTL_CONFIG, else ./limitctl.yaml, else the user's)")
	flags.StringVar(&global.prefix, "prefix", "", "`PREFIX` that the store's keys begin with (default the context's, else the configuration's, else "+limiter.DefaultPrefix+")")
	flags.DurationVar(&global.timeout, "timeout", 2*time.Second, "wait at most `DURATION` for the store's answer")
	flags.VarP(&global.format, "output", "o", "output `FORMAT`: "+strings.Join(output.Formats(), ", "))
	flags.Var(&global.formulas, "csv-formulas", "`WHAT` to do with CSV cells that a spreadsheet would take for a formula: keep them as they are, or escape them with a '")
	flags.BoolVarP(&global.quiet, "quiet", "q", false, "print no answer; the exit code says it")
	root.RegisterFlagCompletionFunc("context", global.completeContexts)
	root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp))
	root.RegisterFlagCompletionFunc("csv-formulas", cobra.FixedCompletions(output.FormulaNames(), cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(
		newCheckCmd(global),
		newConsumeCmd(global),
		newRefundCmd(global),
		newInspectCmd(global),
		newDashboardCmd(global),
		newResetCmd(global),
		newRestoreCmd(global),
		newAuditCmd(global),
		newLoadtestCmd(global),
		newSimulateCmd(global),
		newConfigCmd(global),
		newContextCmd(global),
		newDoctorCmd(global),
		newReportCmd(global),
		newCompareCmd(global),
		newVersionCmd(global),
		newCompletionCmd(global),
	)
	return root
}

// flagComplaint says what is wrong with a flag, in place of what Go says of its value.
func flagComplaint(err error) string {
	text := err.Error()
	var number *strconv.NumError
	switch errors.As(err, &number); {
	case number == nil:
		if before, _, is := strings.Cut(text, ": time: "); is {
			return before + ": write a duration like 500ms, 2s or 1m"
		}
		return text
	case number.Func == "ParseFloat" && !errors.Is(number, strconv.ErrRange):
		return strings.Replace(text, number.Error(), "write a number", 1)
	case number.Func == "ParseBool":
		return strings.Replace(text, number.Error(), "it is true or false", 1)
	case errors.Is(number, strconv.ErrRange):
		return strings.Replace(text, number.Error(), "it is out of range", 1)
	}
	return strings.Replace(text, number.Error(), "write a whole number", 1)
}

// noArguments is the argument check of commands that take none, and of those that
// only have commands of their own.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return usagef("`%s` takes no argument, and %q was given", cmd.CommandPath(), args[0])
	}
	cmd.SuggestionsMinimumDistance = cmd.Root().SuggestionsMinimumDistance
	hint := fmt.Sprintf("see `%s --help`", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("unknown command %q of `%s`; %s", args[0], cmd.CommandPath(), hint)
}

// atMostOneArgument is the argument check of commands that take one or none.
func atMostOneArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%s given, and `%s` takes one at most", several(args), cmd.CommandPath())
	}
	return nil
}

// printer returns where and how to print the answer.
func (g *globalOptions) printer() *output.Printer {
	p := &output.Printer{Out: g.env.Out, Data: g.env.rawOut, Format: g.format, Formulas: g.formulas, Quiet: g.quiet}
	if g.env.OutIsTerminal {
		p.Data = p.Out // somebody is looking at it
		p.Width, _ = g.env.Size()
		p.Color = g.color()
	}
	return p
}

// color reports whether the terminal is to see colours.
func (g *globalOptions) color() bool {
	return g.env.OutIsTerminal && g.env.Getenv("NO_COLOR") == "" && g.env.Getenv("TERM") != "dumb"
}

// print prints an answer in the chosen form.
func (g *globalOptions) print(a output.Answer) error {
	p := g.printer()
	if err := p.Answer(a); err != nil {
		return &outputError{err}
	}
	g.warnOfFormulas(p)
	return nil
}

// open connects to the chosen store; where names it in messages. The command may write
// to it, and so ends in order from now on.
func (g *globalOptions) open() (store connect.Store, where string, err error) {
	url, options, err := g.connection()
	if err != nil {
		return nil, "", err
	}
	store, where, err = connect.Open(url, options)
	store, err = g.guarded(store, err)
	return store, where, err
}

// openToRead is open for a command that writes nothing, and so may end at any time.
func (g *globalOptions) openToRead() (store connect.Store, where string, err error) {
	url, options, err := g.connection()
	if err != nil {
		return nil, "", err
	}
	store, where, err = connect.Open(url, options)
	store, err = g.allowed(store, err)
	return store, where, err
}

// guarded is a store that was opened and that the command may write to, as the context
// in use allows it to be used.
func (g *globalOptions) guarded(store connect.Store, err error) (connect.Store, error) {
	g.env.Hold()
	return g.allowed(store, err)
}

// allowed is a store as the context in use allows it to be used.
func (g *globalOptions) allowed(store connect.Store, err error) (connect.Store, error) {
	name, readOnly, _ := g.inUse()
	switch {
	case err != nil && name != "":
		return nil, fmt.Errorf("context %q: %w", name, err)
	case err != nil:
		return nil, err
	case readOnly:
		store = connect.ReadOnly(store, name)
	}
	return store, nil
}

// connection returns the URL of the chosen store and what that does not say.
func (g *globalOptions) connection() (url string, options connect.Options, err error) {
	if g.timeout <= 0 {
		return "", options, usagef("--timeout %s is not positive; give a duration such as 2s", g.timeout)
	}
	s, err := g.settings()
	if err != nil {
		return "", options, err
	}
	if !g.quiet {
		s.announce(g.env.Err)
	}
	if s.store.origin == byDefault { // an earlier limitctl left it readable
		for _, suffix := range []string{"", "-wal", "-shm"} {
			g.env.Keep(strings.TrimPrefix(s.store.value, "file:") + suffix)
		}
	}
	password, err := g.password(s.context)
	return s.store.value, connect.Options{Prefix: s.prefix.value, Timeout: g.timeout, Password: password, ReadFile: g.readCertificate}, err
}
