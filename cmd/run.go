package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Run executes limitctl with args in env and returns its exit code.
func Run(ctx context.Context, args []string, env *cli.Env) int {
	global := &cli.Globals{Env: env, Args: args}
	env, flush := cli.WithTerminals(env, global.Color())
	defer flush()
	global.Env = env
	err := panics.Call(func() error { return execute(ctx, global) })
	if err != nil && ctx.Err() != nil && !errors.Is(err, serve.ErrCut) {
		err = &interruptedError{err}
	}
	if closed := global.CloseEarly(); err == nil {
		err = closed
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
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { wrong = printHelp(cmd) })
	return errors.Join(root.ExecuteContext(ctx), wrong)
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
	text := g.WithoutSecrets(cli.Message(err) + g.Mend(err))
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

// orderly is how long an interrupted command has to end by itself and to report its progress.
// It may wait for something that ignores the interrupt: a file system that hangs, a pipe that
// nobody reads, a silent server. A command that called Env.Hold, such as serve, is not bound by it.
const orderly = time.Second

// await returns the exit code of a command, or that of an interrupt if the command does not end
// in time and holds no work of a store.
func await(ctx context.Context, done <-chan int, work *storeWork, stderr io.Writer) int {
	select {
	case code := <-done:
		return code
	case <-ctx.Done():
	}
	select {
	case code := <-done:
		return code
	case <-time.After(orderly):
	}
	if work.leave() {
		fmt.Fprintln(stderr, "limitctl: interrupted")
		return outcome.ExitInterrupted
	}
	return <-done
}

// storeWork records whether a command has begun work that must end in order.
type storeWork struct {
	turn       sync.Mutex
	held, left bool
}

// hold says that the command has begun. It never returns while the process ends.
func (w *storeWork) hold() {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.left {
		select {}
	}
	w.held = true
}

// leave reports whether the process can end, and prevents further work from then on.
func (w *storeWork) leave() bool {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.left = !w.held
	return w.left
}

// namedFlag finds the cause in Go's own error of a flag, if the cause names the flag and its value.
var namedFlag = texts.Regexp(`(?s)^invalid argument "(?:[^"\\]|\\.)*" for "[^"]*" flag: (--.*)`)

// flagComplaint describes a mistake in a flag, instead of the text of Go's own error.
func flagComplaint(err error) string {
	if found := namedFlag().FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	return err.Error()
}

// flagHabits are flags of other programs, and what to give instead where there is such a flag. loadtest has no -c,
// which is the cost in other commands: to other load generators it is the number of connections.
func flagHabits() map[string]string {
	return map[string]string{
		"json": "-o json", "force": "--yes", "host": "--store redis://HOST:PORT", "port": "--store redis://HOST:PORT",
		// No argument has it, as other users of the machine see those.
		"password": "--store redis://USER@HOST, with the password in LIMITCTL_PASSWORD",
		"c":        "--workers N for so many requests at once, or --cost N for units", "vus": "--workers N",
		"concurrency": "--workers N", "z": "--duration 10s",
	}
}

// unknownFlag finds the flag in the error of one that a command does not have.
var unknownFlag = texts.Regexp(`^unknown flag: --([^=]+)|^unknown shorthand flag: '(.)'`)

// flagHint suggests another flag for one that cmd does not have, after a semicolon, or is "".
func flagHint(cmd *cobra.Command, complaint string) string {
	found := unknownFlag().FindStringSubmatch(complaint)
	if found == nil {
		return ""
	}
	name := found[1] + found[2]
	habit := flagHabits()[name]
	if flag, _, _ := strings.Cut(strings.TrimLeft(habit, "-"), " "); habit != "" && cmd.Flag(flag) != nil ||
		flag == "o" {
		return fmt.Sprintf("; did you mean %s?", habit)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	// In a short name two other letters are no slip: --db is not --jq.
	if near := texts.Nearest(name, names, min(2, (len(name)-1)/2)); near != "" {
		return fmt.Sprintf("; did you mean --%s?", near)
	}
	return ""
}
