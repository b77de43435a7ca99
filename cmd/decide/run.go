package decide

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The exit codes of run in place of the command's own. The first two are those of sysexits.h for what may succeed later
// and for a service that is away, and the others those of a shell.
const (
	exitRunUnavailable = 69
	exitRunDenied      = 75
	exitCannotStart    = 126
	exitNoProgram      = 127
)

type runOptions struct {
	consumeOptions
	onDenied int
	command  []string
}

// NewRunCmd makes limitctl run.
func NewRunCmd(global *cli.Globals) *cobra.Command {
	o := &runOptions{consumeOptions: consumeOptions{options: options{Globals: global}, op: store.Take}}
	cmd := &cobra.Command{
		Use: "run KEY --limit [ALGORITHM:]COUNT/PERIOD -- COMMAND... | run --policy NAME ATTRIBUTE=VALUE... -- " +
			"COMMAND...",
		Short: "Run a command if its limit allows it",
		Long: `Run takes --cost units of KEY as "limitctl consume" does, and then runs COMMAND
in its place, with its input, output, signals and exit code. If the request is
denied, COMMAND does not run and nothing is charged.

If COMMAND did not run, the exit code is 75 for a denial (--on-denied), 69 for a
store that is away, 126 if COMMAND cannot be started and 127
if there is no such program. --on-denied 0 is for a job that may be left out.`,
		Example: `  limitctl run backup --limit 5/1h -- echo "back up"
  limitctl run mails --limit leaky-bucket:5/1s --wait -- echo "send one"
  limitctl run report --limit 1/1d --on-denied 0 -q -- echo "write the report"
  limitctl run --policy login ip=203.0.113.9 email=a@example.com -- echo "log in"`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if args, err = o.splitCommand(cmd, args); err != nil {
				return err
			}
			if o.request, err = o.Request(cmd, global, store.Take, args); err != nil {
				return err
			}
			if err = o.readWait(cmd); err != nil {
				return err
			}
			return runRun(cmd.Context(), o)
		},
	}
	o.AddFlags(cmd, global)
	o.AddChargeConsentFlags(cmd)
	addOnErrorFlag(cmd, &o.onError)
	o.addWaitFlags(cmd)
	cli.NumberFlag(cmd.Flags(), &o.onDenied, "on-denied", "", exitRunDenied,
		"exit with `CODE` if the request is denied")
	return cmd
}

// splitCommand keeps the words after -- as the command to run, and returns those before it.
func (o *runOptions) splitCommand(cmd *cobra.Command, args []string) (before []string, err error) {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 || dash == len(args) {
		return nil, cli.Usagef("no command given; write it after --, as in `limitctl run backup --limit 5/1h -- " +
			"./backup.sh`")
	}
	if o.onDenied < 0 || o.onDenied > 255 {
		return nil, cli.Usagef("--on-denied %d is no exit code; it must be from 0 to 255", o.onDenied)
	}
	o.command = args[dash:]
	return args[:dash], nil
}

func runRun(ctx context.Context, o *runOptions) error {
	program, err := exec.LookPath(o.command[0]) // before anything is charged
	if err != nil {
		return notStarted(o.command[0], err)
	}
	err = o.charge(ctx, "run")
	switch {
	case store.IsAway(err):
		return cli.WithExitCode(err, exitRunUnavailable)
	case err != nil:
		return err
	case !store.Summarize(o.request.Decisions).Allowed:
		err := printDenial(o.Globals, &decisionAnswer{LimitRequest: o.request})
		if errors.Is(err, cli.ErrDenied) {
			err = cli.WithExitCode(err, o.onDenied)
		}
		return err
	case ctx.Err() != nil: // Ctrl-C came after the decision
		return ctx.Err()
	}
	code, err := o.Env.Become(program, o.command)
	if err != nil {
		o.Note("the units stay charged; `limitctl refund` gives them back")
		return notStarted(o.command[0], err)
	}
	return cli.WithExitCode(cli.ErrEnded, code)
}

// printDenial is printDecision for a denial, on standard error unless a program reads it.
func printDenial(g *cli.Globals, a *decisionAnswer) error {
	if g.Format.Shape() != output.AsTable {
		return printDecision(g, a)
	}
	env, aside := *g.Env, *g
	env.Out, env.OutIsTerminal = env.Err, env.ErrIsTerminal
	aside.Env = &env
	return printDecision(&aside, a)
}

// notStarted is the error of a command that cannot be started, with the exit code that a shell has for it.
func notStarted(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return cli.WithExitCode(cli.Usagef(
			"there is no program %s; give its path, such as ./job.sh, or a name in a folder of PATH",
			shell.Command(name)), exitNoProgram)
	case errors.Is(err, fs.ErrPermission):
		err = fs.ErrPermission
	}
	return cli.WithExitCode(cli.Usagef("%s cannot be started: %s", shell.Command(name), err), exitCannotStart)
}
