package see

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/began"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
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
the key. These ask, keep a backup and write to the audit log as limitctl reset
and limitctl override do.

It finds further keys with a slow scan, so it can stay open on a busy server.
It always shows keys that are denied. Without a terminal it prints one frame.

` + cli.SelectionHelp,
		Example: `  limitctl dashboard
  limitctl dashboard 'tenant:acme:*'
  limitctl dashboard --policy api tenant=acme --refresh 500ms
  limitctl dashboard --once`,
		Args: func(cmd *cobra.Command, args []string) error { return o.Arguments(cmd, orAll(args)) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			options, err := o.plan(cmd.Context(), args)
			if err != nil {
				return err
			}
			return runDashboard(cmd.Context(), o, options)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddSelectionFlags(cmd, global)
	flags := cmd.Flags()
	flags.StringVar(&o.refresh, "refresh", "1s", "look at the keys every `INTERVAL`")
	flags.BoolVar(&o.once, "once", false, "print one frame as text and leave")
	return cmd
}

// mostKeys is how many keys are followed at most: those closest to their limit.
const mostKeys = 1000

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
	o.LayoutName = config.OwnLayout // whatever the context reads
	selection, err := o.Selected(ctx, o.Globals, args)
	if err != nil {
		return options, err
	}
	o.selection = selection
	interval, err := store.ParsePeriod(o.refresh)
	if err != nil || interval < 100*time.Millisecond || interval > time.Minute {
		return options, cli.Usagef("--refresh %q is not an interval from 100ms to 1m; write it like 500ms or 2s",
			o.refresh)
	}
	options = live.Options{
		Query: selection.Query, Keep: selection.Keep, Selection: selection.Text,
		Refresh: interval, Timeout: o.Timeout, MaxKeys: mostKeys,
		Now: o.Env.Now, Sleep: o.Env.Sleep,
	}
	return options, nil
}

// checkFlags reports flags that do not apply to the dashboard, and a terminal that does not move its cursor, or does
// not say what it is. Any other is taken to obey the usual sequences. Windows has no TERM, and its terminals obey.
func (o *dashboardOptions) checkFlags() error {
	term, onTerminal := o.Env.Getenv("TERM"), o.Env.InIsTerminal && o.Env.OutIsTerminal
	switch {
	case o.Quiet:
		return cli.Usagef("--quiet would leave nothing of the dashboard to show; leave it out")
	case o.Format.String() != "table":
		return cli.Usagef("the dashboard cannot be shown as %s; use limitctl inspect or denials", o.Format)
	case o.once:
	case !onTerminal:
		o.once = true
		o.Note("without a terminal one frame is printed, as with --once")
	case term == "dumb", term == "unknown", term == "" && runtime.GOOS != "windows":
		return cli.Usagef("a terminal with TERM=%q cannot show the dashboard; use `dashboard --once`", term)
	}
	return nil
}

func runDashboard(ctx context.Context, o *dashboardOptions, options live.Options) error {
	if err := o.CloseEarly(); err != nil {
		return err
	}
	url, connection, err := o.Connection()
	if err != nil {
		return err
	}
	backend, client, where, err := connect.OpenWithClient(url, connection)
	allow, settings := o.OpenedToWrite, o.SettingsToChange
	if o.once { // it writes nothing
		allow, settings = o.Opened, o.Settings
	}
	if backend, err = allow(backend, err); err != nil {
		return err
	}
	defer backend.Close()
	chosen, err := settings()
	if err != nil {
		return err
	}
	options.Where, options.Context, options.Protected = where, chosen.Access().Context, chosen.Access().Protected
	var servers *redisserver.Servers
	if client != nil {
		servers = redisserver.New(client, "")
	}
	if err := o.read(ctx, backend, servers, &options); err != nil {
		return err
	}
	if o.once {
		columns, lines := 0, 0 // all rows, as a pipe or a file has room for them
		if o.Env.OutIsTerminal {
			columns, lines = o.Env.Size()
		}
		options.Unread = func(err error) { cli.WarnOfOverrides(o.Globals, err) }
		return dash.Once(ctx, o.Env.Out, options, o.theme(), columns, lines)
	}
	actions := newDashActions(o.Globals, chosen, backend, where)
	if actions == nil {
		return o.show(ctx, options)
	}
	options.Actions = actions
	err = o.show(ctx, options)
	if actions.warning != "" {
		fmt.Fprintf(o.Env.Err, "limitctl: warning: %s\n", actions.warning)
	}
	for _, backup := range actions.backups {
		fmt.Fprintf(o.Env.Err, "limitctl: undo with: %s\n", cli.CommandHere(o.Globals, chosen, "undo", backup))
	}
	return err
}

// read adds to the options what is read of a store; servers is nil for one without.
func (o *dashboardOptions) read(ctx context.Context, backend connect.Store, servers *redisserver.Servers,
	options *live.Options) error {
	options.Store = backend
	options.Denials, _ = admin.TablesOf(backend)
	options.Overrides, options.NotCounted = options.Denials, o.NotCounted(ctx) != ""
	options.Find = func(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
		return o.selection.Entries(ctx, backend, q)
	}
	if err := o.follow(ctx, backend, options); err != nil {
		return err
	}
	if options.Denials != nil {
		options.Began = o.began(options.Denials)
	}
	if servers == nil {
		return nil
	}
	options.NodeOf = servers.NodeOf()
	options.Servers = func(ctx context.Context) []live.Server {
		all, _ := live.AskServers(ctx, servers, cli.Message) // which have their problems
		return all
	}
	_, err := live.AskServers(ctx, servers, cli.Message)
	return err // instead of waiting, since the address may be mistyped
}

func (o *dashboardOptions) show(ctx context.Context, options live.Options) error {
	// the terminal must be restored at the end
	o.Env.Hold()
	shown, closed := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT) // which would end the process at once
	defer closed()
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
	set := func(c *cli.InForce) { now.Store(&limits{allowance.NewConfiguredLimits(c.Policies), c.Source.String()}) }
	set(c)
	options.InForce = func(e *admin.Entry, override *store.Override) store.Limit {
		return now.Load().InForce(e, override)
	}
	options.Config = func() string { return now.Load().source }
	if o.once {
		return nil
	}
	quiet := *o.Globals // nothing is printed into the screen
	quiet.Quiet = true
	panics.Go(func() error {
		for o.Env.Sleep(ctx, lookEvery) == nil {
			if c, err := quiet.LookAgain(ctx, backend); err == nil { // else the limits stay
				set(c)
			}
		}
		return nil
	}, func(error) {})
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
		text := l.Name + " " + cli.Clock(l.Since, now) + ", " + output.Count(l.Keys, "key")
		if len(l.Changes) > 0 {
			text += ", " + after(l.Changes[0], now)
		}
		return output.Escape(text) + command
	}
}
