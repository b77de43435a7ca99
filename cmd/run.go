package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Run executes limitctl with args in env and returns its exit code.
func Run(ctx context.Context, args []string, env *Env) int {
	global := &globalOptions{env: env, args: args}
	env, flush := withTerminals(env, global.color())
	defer flush()
	global.env = env
	err := panics.Call(func() error { return execute(ctx, global) })
	if cut := new(serve.CutError); err != nil && ctx.Err() != nil && !errors.As(err, &cut) {
		err = &interruptedError{err}
	}
	if ended := global.endAnswer(err); ended != nil {
		err = errors.Join(err, &outputError{ended})
	}
	if err != nil && !errors.Is(err, errDenied) && !errors.Is(err, errLeft) {
		fmt.Fprintln(env.Err, complaint(global, err))
	}
	if bug := bugIn(err); bug != nil && env.Getenv("LIMITCTL_DEBUG") == "1" {
		fmt.Fprintf(env.Err, "%s", bug.Stack)
	}
	return exitCode(err)
}

func execute(ctx context.Context, g *globalOptions) error {
	if isTab(g.args) {
		return answerTab(ctx, g.args, g.env)
	}
	root := rootFor(g)
	root.SetArgs(g.args)
	root.SetIn(g.env.In)
	root.SetOut(g.env.Out)
	root.SetErr(g.env.Err)
	return root.ExecuteContext(ctx)
}

// interruptedError is the error that an interrupt led to.
type interruptedError struct{ error }

// Error leaves out what only says that the command was interrupted.
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
func (e *interruptedError) Unwrap() error        { return e.error }
