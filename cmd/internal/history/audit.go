// Package history has the commands about what was changed: who did it, and how to bring back what was there
// before: audit, backups, restore and undo.
package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type auditOptions struct {
	*cli.Globals
	limit int
	since string
	user  string
	local bool
	// layouts names layouts of other limiters.
	layouts string
	// from is the instant that since says.
	from time.Time
}

// NewAuditCmd makes limitctl audit.
func NewAuditCmd(global *cli.Globals) *cobra.Command {
	o := &auditOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, and when",
		Long: `Audit shows the audit log, the latest run last: the runs of reset, restore and
override, and in protected contexts those of refund and large consumes. For each
run it shows who, when, where, why, what was selected, how many keys changed,
and the backup.

It shows the entries of the store in use, from all machines and users, and the
entries of this machine, for all stores. With --context it shows only runs in
the store of that context. --local does not read the store. If the store cannot
be read, it prints a warning and shows the entries of this machine.

A run is logged before its first change and after its last one. "begun" means
that its end is not known: it still runs, or it was killed. If it has a backup,
"limitctl restore" brings back what it has changed so far.

With --layout it shows only runs on keys of that limiter.

Without --limit-rows it shows the last 10,000 runs. A store keeps the latest
2,500 entries, two for each run. This machine keeps its own in
limitctl/audit.jsonl in the state directory ($XDG_STATE_HOME, else
~/.local/state). Damaged entries are left out, with a warning.`,
		Example: `  limitctl audit
  limitctl audit --since 2h
  limitctl audit --since 22:00 --user alice
  limitctl audit --limit-rows 3 -o jsonl`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd); err != nil {
				return err
			}
			return runAudit(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.IntVar(&o.limit, "limit-rows", 0, "show only the last `N`")
	flags.StringVar(&o.since, "since", "", "show only runs that ended since `TIME`: a duration such as 2h or 7d, a time such as 22:00, "+
		"or a date and time")
	flags.StringVar(&o.user, "user", "", "show only runs of the user `NAME`")
	flags.BoolVar(&o.local, "local", false, "show only the entries of this machine, and read no store")
	flags.StringVar(&o.layouts, "layout", "", "show only runs on keys of the layout `NAME`; auto for any other "+
		"limiter, limitctl for its own keys")
	cmd.RegisterFlagCompletionFunc("layout", cli.CompleteLayouts)
	cmd.RegisterFlagCompletionFunc("since", cobra.FixedCompletions([]string{"1h", "1d", "7d"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("user", cobra.NoFileCompletions)
	return cmd
}

func (o *auditOptions) parse(cmd *cobra.Command) error {
	if o.limit < 0 {
		return cli.Usagef("--limit-rows %d is negative; give a number of runs, or 0 for all", o.limit)
	}
	if cmd.Flags().Changed("layout") {
		if err := config.CheckLayouts(strings.Split(o.layouts, ",")); err != nil {
			return cli.Usagef("--layout: %s", err)
		}
	}
	if !cmd.Flags().Changed("since") {
		return nil
	}
	now := o.Env.Now()
	if ago, err := store.ParsePeriod(o.since); err == nil {
		o.from = now.Add(-ago)
		return nil
	}
	from, is := cli.ParseInstant(o.since, now, false)
	if !is {
		return cli.Usagef("--since %q is neither a duration nor a time; write it like 2h, 7d, 22:00 or '%s'", o.since,
			now.Add(-time.Hour).Format("2006-01-02 15:04"))
	}
	o.from = from
	return nil
}

// keep reports whether an entry has the time, the user and the layout of the flags.
func (o *auditOptions) keep(e *auditlog.Entry) bool {
	return !e.Time.Before(o.from) && (o.user == "" || e.User == o.user || e.Account == o.user) && o.concerns(e)
}

// concerns reports whether an entry is about a layout of the flags. A run that found no keys is about those that it
// looked for.
func (o *auditOptions) concerns(e *auditlog.Entry) bool {
	switch o.layouts {
	case "":
		return true
	case layouts.Auto:
		return e.Layout != ""
	case config.OwnLayout:
		return e.Layout == ""
	}
	of := strings.Split(e.Layout, ",")
	return slices.ContainsFunc(strings.Split(o.layouts, ","), func(name string) bool {
		return slices.Contains(of, name) || e.Layout == layouts.Auto
	})
}

func runAudit(ctx context.Context, o *auditOptions) error {
	answer := &auditAnswer{complete: true, zone: o.Env.Now().Location()}
	if dir := cli.StateDir(o.Env.Getenv); dir != "" {
		answer.backups = filepath.Join(dir, "backups")
	}
	backend, where := &auditlog.History{}, ""
	if !o.local {
		var err error
		if backend, where, err = o.readStore(ctx); backend == nil {
			return err
		} else if err != nil {
			fmt.Fprintf(o.Env.Err, "limitctl: warning: the audit in the store cannot be read, so only that of this machine is shown: %s\n",
				cli.Message(err))
			answer.complete = false
		}
	}
	machine, err := o.readMachine(ctx, where)
	if err != nil {
		return err
	}
	history := auditlog.Merge(machine, backend, o.limit)
	answer.entries = history.Runs
	if shown := len(history.Runs); history.Total > shown && o.limit == 0 {
		fmt.Fprintf(o.Env.Err, "limitctl: warning: only the last %d of %d runs are shown; --limit-rows N shows the last N\n",
			shown, history.Total)
	}
	if len(history.Runs) == 0 {
		o.Note("%s", o.nothing())
	}
	if err := o.Print(answer); err != nil {
		return err
	}
	if begun := answer.begun(); begun > 0 {
		o.Note("%s begun, and nothing says how: still going on, or killed; `limitctl restore BACKUP` brings back what was changed",
			map[bool]string{true: "1 run has", false: fmt.Sprintf("%d runs have", begun)}[begun == 1])
	}
	return nil
}

// nothing is the reason why no run is shown.
func (o *auditOptions) nothing() string {
	if o.since != "" || o.user != "" || o.ContextName != "" || o.layouts != "" {
		return "no run was found that the flags ask for"
	}
	return "nothing was changed yet"
}

// readStore reads the audit in the store; where is the store's name. The history is nil if the store cannot be opened.
func (o *auditOptions) readStore(ctx context.Context) (history *auditlog.History, where string, err error) {
	o.OfAnyKeys = true
	backend, where, err := o.OpenToRead()
	if err != nil {
		return nil, "", err
	}
	defer backend.Close()
	history, err = cli.ReadJournal(ctx, o.Globals, backend, auditlog.Query{Most: o.limit, Keep: o.keep})
	return history, where, err
}

// readMachine reads the audit log of this machine; one that is not there yet is empty.
func (o *auditOptions) readMachine(ctx context.Context, where string) (*auditlog.History, error) {
	path, err := cli.AuditFile(o.Env.Getenv)
	if err != nil {
		return nil, err
	}
	history, err := readAuditLog(ctx, o.Globals, path, auditlog.Query{Most: o.limit, Keep: func(e *auditlog.Entry) bool {
		return o.keep(e) && (o.ContextName == "" || e.Context == o.ContextName || e.Store == where && where != "")
	}})
	if err != nil {
		return nil, cli.Usagef("the audit log cannot be read: %s", err)
	}
	for _, bad := range history.FirstBad {
		fmt.Fprintf(o.Env.Err, "limitctl: warning: %s:%d is not an entry of the audit and is left out: %s\n",
			path, bad.Number, cli.Message(bad.Reason))
	}
	if history.Bad > len(history.FirstBad) {
		fmt.Fprintf(o.Env.Err, "limitctl: warning: %d lines in all are not entries of the audit and are left out\n", history.Bad)
	}
	return history, nil
}

// readAuditLog reads the audit log of this machine from its file.
func readAuditLog(ctx context.Context, g *cli.Globals, path string, q auditlog.Query) (*auditlog.History, error) {
	file, err := g.Env.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &auditlog.History{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, skipped, err := auditlog.SkipOld(file)
	if err != nil {
		return nil, err
	}
	if skipped {
		fmt.Fprintf(g.Env.Err, "limitctl: warning: %s has %d MB; only the last %d are read, and lines are counted from there\n",
			path, size>>20, auditlog.MaxSize>>20)
	}
	return auditlog.Read(ctx, file, q)
}
