package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Run executes limitctl with args in env and returns its exit code.
func Run(ctx context.Context, args []string, env *cli.Env) int {
	global := &cli.Globals{Env: env, Args: args}
	env, flush := cli.WithTerminals(env, global.Color())
	defer flush()
	global.Env = env
	err := panics.Call(func() error { return execute(ctx, global) })
	if cut := new(serve.CutError); err != nil && ctx.Err() != nil && !errors.As(err, &cut) {
		err = &interruptedError{err}
	}
	if ended := cli.EndAnswer(global, err); ended != nil {
		err = errors.Join(err, cli.NotPrinted(ended))
	}
	if err != nil && !errors.Is(err, cli.ErrDenied) && !errors.Is(err, cli.ErrLeft) && !errors.Is(err, cli.ErrEnded) {
		fmt.Fprintln(env.Err, complaint(global, err))
	}
	if bug := bugIn(err); bug != nil && env.Getenv("LIMITCTL_DEBUG") == "1" {
		fmt.Fprintf(env.Err, "%s", bug.Stack)
	}
	return cli.ExitCode(err)
}

func execute(ctx context.Context, g *cli.Globals) error {
	if isTab(g.Args) {
		return answerTab(ctx, g.Args, g.Env)
	}
	root := rootFor(g)
	root.SetArgs(g.Args)
	root.SetIn(g.Env.In)
	root.SetOut(g.Env.Out)
	root.SetErr(g.Env.Err)
	var wrong error // cobra takes none from a help
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { wrong = printHelp(g, cmd) })
	cmd, err := root.ExecuteContextC(ctx)
	if cli.ExitCode(err) == cli.ExitCode(cli.Usagef("")) {
		if name := oneDash(cmd, g.Args); name != "" {
			return cli.Usagef("-%s has one dash; write --%[1]s; see `%s --help`", name, cmd.CommandPath())
		}
	}
	if err != nil {
		return err
	}
	return wrong
}

// interruptedError is the error of a command that was interrupted.
type interruptedError struct{ error }

// Error leaves out a text that says nothing but that.
func (e *interruptedError) Error() string {
	var progress *outcome.ProgressError
	if errors.As(e.error, &progress) && !errors.Is(e.error, store.ErrOutcomeUnknown) {
		return "interrupted: " + progress.Progress
	}
	if errors.Is(e.error, store.ErrOutcomeUnknown) || errors.Is(e.error, outcome.ErrPartly) {
		return "interrupted: " + e.error.Error()
	}
	return "interrupted"
}

func (e *interruptedError) Is(target error) bool { return target == context.Canceled }

func (e *interruptedError) Unwrap() error { return e.error }

// complaint is the message of an error for the user: one line, or one for each mistake in a
// configuration file.
func complaint(g *cli.Globals, err error) string {
	if mistakes := cli.MistakesOf(err); mistakes != nil {
		return g.WithoutSecrets(mistakes.Error())
	}
	text := g.WithoutSecrets(cli.Message(err))
	if bugIn(err) != nil {
		text = bugComplaint(text)
	}
	return "limitctl: " + text
}

// bugComplaint adds to the message of a panic how to report the bug.
func bugComplaint(what string) string {
	return what + "; this is a bug of limitctl, please report it with what you ran at " + bugReports +
		" (LIMITCTL_DEBUG=1 shows where it is)"
}

const (
	projectPage = "https://github.com/limitctl/limitctl"
	// bugReports is where to report a bug.
	bugReports = projectPage + "/issues"
)

// bugIn returns the panic that an error is about, or nil.
func bugIn(err error) *panics.Error {
	var bug *panics.Error
	errors.As(err, &bug)
	return bug
}
