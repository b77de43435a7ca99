package see

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/began"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/dash"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type dashboardOptions struct {
	*cli.Globals
	cli.SelectionOptions
	refresh string
	maxKeys int
	once    bool
	// selection is that of the flags and arguments.
	selection operation.Selection
}

// NewDashboardCmd makes limitctl dashboard.
func NewDashboardCmd(global *cli.Globals) *cobra.Command {
	o := &dashboardOptions{Globals: global}
	cmd := &cobra.Command{
		Use:     "dashboard [PATTERN] | --policy POLICY [ATTRIBUTE=VALUE...]",
		Aliases: []string{"top"},
		Short:   "Watch live who is denied, near a limit or at it",
		Long: `Dashboard shows live every limit whose subject matches PATTERN, or all: first
those that are denied most, then those closest to their limit. Press ? for its
keys: they filter and sort, show all about one key, set an override and reset
what is chosen. These ask, keep a backup and write to the audit log as limitctl
reset and limitctl override do.

With --layout it shows the keys of other rate limiters, and marks those with
defects with a !. They have no overrides and no denials.

It finds further keys with a slow scan, so it can stay open on a busy server,
and shows how many of them it covers. It always shows keys that are denied.
Without a terminal it prints one frame, as with --once.

` + cli.SelectionHelp,
		Example: `  limitctl dashboard
  limitctl dashboard 'tenant:acme:*'
  limitctl dashboard --policy api tenant=acme --refresh 500ms
  limitctl dashboard --layout auto
  limitctl dashboard --once`,
		Args: func(cmd *cobra.Command, args []string) error { return o.Arguments(cmd, orAll(args)) },
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := o.plan(cmd.Context(), args)
			if err != nil {
				return err
			}
			if err := o.checkTerminal(); err != nil {
				return err
			}
			if !o.once && !o.onTerminal() {
				o.once = true
				o.Note("without a terminal one frame is printed, as with --once")
			}
			return runDashboard(cmd.Context(), o, options)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddSelectionFlags(cmd, global)
	flags := cmd.Flags()
	flags.StringVar(&o.refresh, "refresh", "1s", "look at the keys every `INTERVAL`")
	cli.NumberFlag(flags, &o.maxKeys, "max-keys", "", 1000, "follow at most `N` keys, those closest to their limit")
	flags.BoolVar(&o.once, "once", false, "print one frame as text and leave")
	return cmd
}

// orAll are the arguments. None means all keys.
func orAll(args []string) []string {
	if len(args) == 0 {
		return []string{"*"}
	}
	return args
}

// plan turns the flags and arguments into the options of the dashboard, without its store.
func (o *dashboardOptions) plan(ctx context.Context, args []string) (options live.Options, err error) {
	if o.Policy == "" {
		args = orAll(args)
	}
	selection, err := o.Selected(ctx, o.Globals, args)
	if err != nil {
		return options, err
	}
	o.selection = selection
	interval, err := store.ParsePeriod(o.refresh)
	if err != nil || interval < 100*time.Millisecond || interval > time.Minute {
		return options, cli.Usagef("--refresh %q is not an interval from 100ms to 1m; write it like 500ms or 2s", o.refresh)
	}
	options = live.Options{
		Query: selection.Query, Keep: selection.Keep, Selection: selection.Text,
		Refresh: interval, Timeout: o.Timeout, MaxKeys: o.maxKeys,
		Now: o.Env.Now, Sleep: o.Env.Sleep, Layouts: o.LayoutsName, Beyond: cli.BeyondOf,
	}
	return options, o.checkFlags()
}

// checkFlags reports flags that do not apply to the dashboard.
func (o *dashboardOptions) checkFlags() error {
	const most = 100_000
	switch {
	case o.maxKeys < 1 || o.maxKeys > most:
		return cli.Usagef("--max-keys %d is out of range; follow from 1 to %d keys", o.maxKeys, most)
	case o.Quiet:
		return cli.Usagef("--quiet would leave nothing of the dashboard to show; leave it out")
	case o.Format.String() != "table":
		return cli.Usagef("the dashboard cannot be shown as %s; use limitctl inspect or denials", o.Format)
	}
	return nil
}

// onTerminal reports whether there is a terminal to draw on and to read keys from.
func (o *dashboardOptions) onTerminal() bool { return o.Env.InIsTerminal && o.Env.OutIsTerminal }

// checkTerminal reports a terminal that does not move its cursor, or does not say what it is. Any other is taken to obey
// the usual sequences. Windows has no TERM, and its terminals obey.
func (o *dashboardOptions) checkTerminal() error {
	term := o.Env.Getenv("TERM")
	switch {
	case o.once || !o.onTerminal():
	case term == "dumb", term == "unknown", term == "" && runtime.GOOS != "windows":
		return cli.Usagef("a terminal with TERM=%q cannot show the dashboard; use `dashboard --once`", term)
	}
	return nil
}

func runDashboard(ctx context.Context, o *dashboardOptions, options live.Options) error {
	now, err := o.open(ctx, options)
	if err != nil {
		return err
	}
	defer now.report()
	defer now.close()
	if !o.once {
		return o.show(ctx, now.options)
	}
	columns, lines := 0, 0 // all rows, as a pipe or a file has room for them
	if o.Env.OutIsTerminal {
		columns, lines = o.Env.Size()
	}
	now.options.Unread = func(err error) { cli.WarnOfOverrides(o.Globals, err) }
	return dash.Once(ctx, o.Env.Out, now.options, o.theme(), columns, lines)
}

func (o *dashboardOptions) show(ctx context.Context, options live.Options) error {
	o.Env.Hold() // the terminal must be restored at the end
	shown, leave := context.WithCancel(ctx)
	defer leave()
	signals := o.Env.Signals(syscall.SIGHUP, syscall.SIGQUIT) // which would end the process at once
	panics.Go(func() error {
		select {
		case <-signals:
			leave()
		case <-shown.Done():
		}
		return nil
	}, func(error) {})
	defer sys.BeSmall()()
	err := dash.Run(shown, o.Env.In, o.Env.RawOut, options, o.theme())
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return cli.ErrLeft // by Ctrl-C or a closed terminal, which are usual ways to leave
	}
	return err
}

// theme has the colours of the terminal, or none.
func (o *dashboardOptions) theme() *ui.Theme {
	if o.Color() {
		return ui.OfTerminal(o.Env.Getenv)
	}
	return ui.NoColors()
}

// lookEvery is how often the dashboard looks whether another version was published.
const lookEvery = 5 * time.Second

// follow makes the limits in force those of the dashboard, until ctx ends.
func (o *dashboardOptions) follow(ctx context.Context, backend store.Store, options *live.Options) error {
	c, err := o.InForce(ctx)
	if err != nil {
		return err
	}
	type limits struct {
		allowance.ConfiguredLimits
		source string
	}
	var now atomic.Pointer[limits]
	now.Store(&limits{allowance.NewConfiguredLimits(c.Policies), c.Source.String()})
	options.InForce = func(e *admin.Entry, override *store.Override) store.Limit { return now.Load().InForce(e, override) }
	options.Config = func() string { return now.Load().source }
	if !o.once {
		quiet := *o.Globals // nothing is printed into the screen
		quiet.Quiet = true
		panics.Go(func() error {
			for o.Env.Sleep(ctx, lookEvery) == nil {
				if c, err := quiet.LookAgain(ctx, backend); err == nil { // else the limits stay
					now.Store(&limits{allowance.NewConfiguredLimits(c.Policies), c.Source.String()})
				}
			}
			return nil
		}, func(error) {})
	}
	return nil
}

// began says which denials began lately, and what was changed just before.
func (o *dashboardOptions) began(table *admin.Tables) func(context.Context) string {
	return func(ctx context.Context) string {
		ctx, cancel := store.BudgetContext(ctx, o.Timeout)
		defer cancel()
		denials, err := table.Denials(ctx, began.Window)
		if err != nil {
			return ""
		}
		var list *store.OverrideList
		if overrides, _, err := table.Overrides(ctx); err == nil {
			list = store.NewOverrideList(overrides)
		}
		b, err := began.Find(ctx, table, &denials, list)
		if err != nil || b == nil {
			return ""
		}
		command, l, now := "", b.Limits[0], o.Env.Now()
		if s, err := o.Settings(); err == nil && l.Command != nil && !s.Access().ReadOnly {
			command = "\n" + cli.CommandHere(o.Globals, s, l.Command...)
		}
		text := l.Name + " " + cli.Clock(l.Since, now) + ", " + cli.CountOf(int64(l.Keys), "key", "keys")
		if len(l.Changes) > 0 {
			e := l.Changes[0]
			text += ", after " + e.CommandText() + " " + cli.Clock(e.Time, now) + " by " + who(e) + because(e.Reason)
		}
		return output.Escape(text) + command
	}
}

// session is a dashboard of one store, from when that opens until it is closed.
type session struct {
	*dashboardOptions
	options live.Options
	actions *dashActions // nil where nothing may be changed
	chosen  *cli.Settings
	close   func() error
}

// open opens the store that the flags name, and adds it to the options.
func (o *dashboardOptions) open(ctx context.Context, options live.Options) (s *session, err error) {
	if err := o.CloseEarly(); err != nil {
		return nil, err
	}
	url, connection, err := o.Connection()
	if err != nil {
		return nil, err
	}
	backend, client, where, err := connect.OpenWithClient(url, connection)
	allow := o.OpenedToWrite
	if o.once {
		allow = o.Opened // it writes nothing
	}
	if backend, err = allow(backend, err); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			backend.Close()
		}
	}()
	options.Store, options.Where = backend, where
	options.Denials, _ = admin.TablesOf(backend)
	options.NotCounted = o.NotCounted(ctx) != ""
	options.Overrides, _ = admin.TablesOf(backend)
	chosen, err := o.Settings()
	if err == nil && !o.once {
		chosen, err = o.SettingsToChange()
	}
	if err != nil {
		return nil, err
	}
	options.Context, options.Protected = chosen.Access().Context, chosen.Access().Protected
	if o.Layouts == nil {
		if err := o.follow(ctx, backend, &options); err != nil {
			return nil, err
		}
	}
	if options.Denials != nil && o.Layouts == nil {
		options.Began = o.began(options.Denials)
	}
	if client != nil {
		servers := redisserver.New(client, "")
		options.NodeOf = servers.NodeOf()
		options.Servers = func(ctx context.Context) []live.Server {
			all, _ := live.AskServers(ctx, servers, cli.Message) // which have their problems
			return all
		}
		if _, err := live.AskServers(ctx, servers, cli.Message); err != nil {
			return nil, err // instead of waiting, since the address may be mistyped
		}
	}
	s = &session{dashboardOptions: o, chosen: chosen, close: backend.Close}
	options.Find = func(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
		return o.selection.Entries(ctx, backend, q)
	}
	if !o.once {
		if s.actions = newDashActions(o.Globals, chosen, backend, where, options.Query.Subjects); s.actions != nil {
			options.Actions = s.actions
		}
	}
	s.options = options
	return s, nil
}

// report prints what is to be known after the dashboard: warnings, and how to undo what was done.
func (s *session) report() {
	if s.actions != nil {
		if s.actions.warning != "" {
			fmt.Fprintf(s.Env.Err, "limitctl: warning: %s\n", s.actions.warning)
		}
		for _, backup := range s.actions.backups {
			fmt.Fprintf(s.Env.Err, "limitctl: undo with: %s\n", cli.CommandHere(s.Globals, s.chosen, "undo", backup))
		}
	}
}
