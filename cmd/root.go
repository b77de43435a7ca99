package cmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Run executes limitctl with args in env and returns its exit code.
func Run(ctx context.Context, args []string, env *Env) int {
	global := &globalOptions{env: env}
	root := newRootCmd(global)
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = &interruptedError{err}
	}
	if err != nil && !errors.Is(err, errDenied) {
		fmt.Fprintf(env.Err, "limitctl: %s\n", message(err))
	}
	return exitCode(err)
}

// interruptedError is whatever error an interrupt led to.
type interruptedError struct{ error }

// Error leaves out what only says that the command was interrupted.
func (e *interruptedError) Error() string {
	if errors.Is(e.error, limiter.ErrOutcomeUnknown) || errors.Is(e.error, errPartly) {
		return "interrupted: " + e.error.Error()
	}
	return "interrupted"
}

func (e *interruptedError) Is(target error) bool { return target == context.Canceled }
func (e *interruptedError) Unwrap() error        { return e.error }

// message puts an error on one line.
func message(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	const most = 5
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	return strings.Join(lines, "; ")
}

// globalOptions are the flags that every command has.
type globalOptions struct {
	env     *Env
	store   string
	prefix  string
	timeout time.Duration
	format  output.Format
	quiet   bool
}

func newRootCmd(global *globalOptions) *cobra.Command {
	root := &cobra.Command{
		Use:   "limitctl",
		Short: "Operate and test rate limits",
		Long: `limitctl checks, consumes, inspects and resets rate limits kept in Redis, in a
file or in memory. Without --store it uses a file of the user's own, so that it
works with no server at all.

Exit codes: 0 yes, done; 1 no (denied); 2 usage or configuration; 3 store
unreachable or timed out; 4 store refused (auth, ACL, foreign data, out of
memory); 5 partly done; 130 interrupted.`,
		Example: `  limitctl consume user:42 --limit 3/10s
  limitctl check user:42 --limit 3/10s && echo "go ahead"
  limitctl inspect 'user:*'
  limitctl reset user:42 --yes`,
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
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s; see `%s --help`", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&global.store, "store", "", "store `URL`: redis://, rediss://, unix://, file:PATH or memory: (default $LIMITCTL_STORE, else a file)")
	flags.StringVar(&global.prefix, "prefix", limiter.DefaultPrefix, "what the store's keys begin with")
	flags.DurationVar(&global.timeout, "timeout", 2*time.Second, "how long to wait for the store's answer")
	flags.VarP(&global.format, "output", "o", "output `FORMAT`: "+strings.Join(output.Formats(), ", "))
	flags.BoolVarP(&global.quiet, "quiet", "q", false, "print no answer; the exit code says it")
	root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(
		newCheckCmd(global),
		newConsumeCmd(global),
		newRefundCmd(global),
		newInspectCmd(global),
		newResetCmd(global),
		newDoctorCmd(global),
		newVersionCmd(global),
	)
	root.InitDefaultCompletionCmd()
	return root
}

// printer returns where and how to print the answer.
func (g *globalOptions) printer() *output.Printer {
	p := &output.Printer{Out: g.env.Out, Format: g.format, Quiet: g.quiet}
	if g.env.OutIsTerminal {
		p.Width = g.env.Width()
		p.Color = g.env.Getenv("NO_COLOR") == "" && g.env.Getenv("TERM") != "dumb"
	}
	return p
}

// print prints an answer in the chosen form.
func (g *globalOptions) print(a output.Answer) error {
	if err := g.printer().Answer(a); err != nil {
		return &outputError{err}
	}
	return nil
}

// open connects to the chosen store; where names it in messages.
func (g *globalOptions) open() (store connect.Store, where string, err error) {
	url, err := g.url()
	if err != nil {
		return nil, "", err
	}
	return connect.Open(url, g.connection())
}

// connection is what the store's URL does not say.
func (g *globalOptions) connection() connect.Options {
	return connect.Options{
		Prefix:   g.prefix,
		Timeout:  g.timeout,
		Password: g.env.Getenv("LIMITCTL_PASSWORD"),
	}
}

// url returns the URL of the chosen store.
func (g *globalOptions) url() (string, error) {
	if g.timeout <= 0 {
		return "", usagef("--timeout %s is not positive; give a duration such as 2s", g.timeout)
	}
	url := g.store
	if url == "" {
		url = g.env.Getenv("LIMITCTL_STORE")
	}
	if url == "" {
		path, err := defaultFile(g.env.Getenv)
		if err != nil {
			return "", err
		}
		if !g.quiet {
			fmt.Fprintf(g.env.Err, "limitctl: using the file %s (no --store given)\n", path)
		}
		url = "file:" + path
	}
	return url, nil
}

// defaultFile returns the path of the file that is the store when none is said.
func defaultFile(getenv func(string) string) (string, error) {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // a relative one is to be ignored, by the XDG specification
		home := getenv("HOME")
		if home == "" {
			return "", usagef("no --store given, and neither XDG_STATE_HOME nor HOME says where a file could be; give --store file:PATH")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "limitctl", "limits.db"), nil
}
