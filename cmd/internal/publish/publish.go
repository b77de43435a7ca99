// Package publish has the commands about a configuration in a store: publish, history, fetch, status, promote and rollback,
// and diff, which shows what a configuration would change.
package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Commands makes the commands, for limitctl config.
func Commands(global *cli.Globals) []*cobra.Command {
	return []*cobra.Command{newDiffCmd(global), newPublishCmd(global), newHistoryCmd(global), newFetchCmd(global),
		newStatusCmd(global), newPromoteCmd(global), newRollbackCmd(global)}
}

// options are those of publish and rollback.
type options struct {
	*cli.Globals
	cli.ConsentOptions
	canaryFlags
	summary       markdownFlag
	trace         string
	attributes    []string
	dryRun, force bool
	noKeys        bool
	command       string // for messages
	mends         bool   // a broken head is replaced
}

func (o *options) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	flags.BoolVar(&o.force, "force", false, "even if overrides in force name a policy that is no longer in the configuration")
	flags.BoolVar(&o.noKeys, "no-keys", false, "do not look for keys in use that would be over their new limit")
	flags.StringVar(&o.trace, "trace", "", "also show what the recorded traffic in `FILE` would have got, as simulate does")
	flags.StringArrayVar(&o.attributes, "attribute", nil,
		"`NAME=FIELD`: the attribute NAME of the policies is in the field FIELD of the trace (default the field of that name)")
	cmd.RegisterFlagCompletionFunc("attribute", cobra.NoFileCompletions)
	o.summary.add(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.CheckPlaces(cmd, o.Globals, o.trace, "markdown"); err != nil {
			return err
		}
		return run(cmd, args)
	}
	o.AddPublishConsentFlags(cmd)
}

func newPublishCmd(global *cli.Globals) *cobra.Command {
	o := &options{Globals: global, command: "config publish", mends: true}
	cmd := &cobra.Command{
		Use:   "publish FILE",
		Short: "Put the policies of a file in force in all processes",
		Long: `Publish writes the policies of FILE into the store as the next version, with
who, when and why. Processes that follow the store have it in force within two
seconds: limitctl serve --config store:, and Go services (policyfile.Follow).

What decides is published: policies, http, envoy, breaker, local_share and
denials. Contexts, layouts and the prefix stay in the file, so no store or
password gets into the store.

Before it asks, it shows the limits that change, the keys in use whose limit
changes, and who has more in use than the new limit allows. With --trace it also
shows what recorded traffic would have got, under the old and the new policies.

With --shadow or --percent FILE is tried beside the version in force, which
stays until config promote. A shadow decides nothing: processes count whom it
would deny anew and whom no longer, and config status shows it. --percent 5
--by tenant lets FILE decide for 5 % of the tenants, the same ones in every
process; 10 % contains them. Only limits are tried: http, envoy and the like,
and policies that come or go, change with config promote. config rollback ends
a trial, and so does --until, by itself.

Nothing is written if FILE has a mistake or the same policies as the version in
force, or if somebody else has published meanwhile. A policy that overrides in
force name must not disappear, unless --force is given.

The store keeps the latest 50 versions, at most 8 MB of them, and the history of
1,000.`,
		Example: `  limitctl config publish limitctl.yaml -m "more for acme" --context prod
  limitctl config publish limitctl.yaml --dry-run --trace requests.jsonl
  limitctl config publish limitctl.yaml -m "try less" --shadow --until 2h --yes
  limitctl config publish limitctl.yaml -m "try less" --percent 5 --by user --yes
  limitctl config publish limitctl.yaml -m "$CI_COMMIT_TITLE" --confirm prod --context prod -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return cli.Usagef("no FILE given; name the configuration to publish, such as limitctl.yaml")
			case 1:
				return nil
			}
			return cli.Usagef("%s given, and publish takes one FILE", cli.Several(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.publish(cmd.Context(), args[0]) },
	}
	o.addFlags(cmd)
	o.canaryFlags.add(cmd, cmd.Flags())
	cmd.RegisterFlagCompletionFunc("by", o.completeBy)
	return cmd
}

// completeBy completes attributes of the policies of FILE.
func (o *options) completeBy(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) == 1 {
		if data, err := o.Env.ReadConfig(args[0]); err == nil {
			if c, err := config.Parse(args[0], data, nil); err == nil {
				for _, p := range c.Policies {
					attributes, _ := p.Attributes()
					names = append(names, attributes...)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

func (o *options) publish(ctx context.Context, path string) error {
	if _, err := o.plan(); err != nil {
		return err
	}
	if _, err := o.lasts(o.Env.Now()); err != nil {
		return err
	}
	data, err := o.Env.ReadConfig(path)
	if err != nil {
		return cli.Usagef("the file %s cannot be read: %s", shell.Command(path), cli.Cause(err))
	}
	c, err := config.Parse(path, data, nil)
	if err != nil {
		return err
	}
	if len(c.Policies) == 0 {
		return cli.Usagef("%s has no policies, so there is nothing to publish", path)
	}
	if c.EnvoyOptions.RatelimitConfig != "" {
		return cli.Usagef("%s has a ratelimit_config, whose files other machines do not have; write its limits into the file with "+
			"`limitctl config import envoy`", path)
	}
	text, err := published.TextOf(path, data)
	if err != nil {
		return err
	}
	return o.change(ctx, func(p *place) (*change, error) {
		if c.Prefix != "" && c.Prefix != p.settings.Prefix.Value {
			return nil, cli.Usagef("%s has the prefix %q, and the store is open with %q, so nobody would find the keys; give %s", path,
				c.Prefix, p.settings.Prefix.Value, shell.Command("--prefix", c.Prefix))
		}
		plan, err := o.canary(ctx, p)
		if err != nil {
			return nil, err
		}
		return &change{title: path, text: text, plan: plan}, nil
	})
}

// place is a store with published configurations.
type place struct {
	settings *cli.Settings
	backend  connect.Store
	where    string
	table    admin.ConfigTable
	state    *published.State
}

// openPlace opens the store by open, and reads what is published there. A broken head is an error, unless mends is set:
// then it is as if nothing was published, apart from the history.
func openPlace(ctx context.Context, g *cli.Globals, s *cli.Settings, open func() (connect.Store, string, error), mends bool) (
	*place, error,
) {
	backend, where, err := open()
	if err != nil {
		return nil, err
	}
	p := &place{settings: s, backend: backend, where: where}
	var has bool
	if p.table, has = admin.ConfigTableOf(backend); !has {
		err = cli.Usagef("the store %s keeps no configurations, because no other process could read them; give --store with a Redis or "+
			"a file", where)
	} else {
		ctx, cancel := store.BudgetContext(ctx, g.Timeout)
		defer cancel()
		p.state, err = published.Read(ctx, p.table)
		if mends && errors.Is(err, store.ErrForeign) && p.state != nil && p.state.Was != "" {
			g.Note("warning: %s; it is replaced, and what is in force is not compared", cli.Message(err))
			err = nil
		}
	}
	if err != nil {
		backend.Close()
		return nil, err
	}
	if p.state.Damaged > 0 {
		g.Note("warning: %s in the history of the store are not limitctl's, and are left out",
			cli.CountOf(int64(p.state.Damaged), "entry", "entries"))
	}
	return p, nil
}

// fetch returns a version.
func (p *place) fetch(ctx context.Context, g *cli.Globals, number int64) (*published.Version, error) {
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	return p.state.Fetch(ctx, p.table, number)
}

// change is what a command is about to publish.
type change struct {
	title string // in messages
	text  []byte
	of    int64 // the version that it was before; 0 for a file
	// plan says how the text is tried; nil if it is put in force.
	plan *published.Canary
	// did is didPromote or didWithdraw of the version number, empty for a text that is published.
	did    string
	number int64
}

const (
	didPromote  = "promote"
	didWithdraw = "withdraw"
	didShadow   = "shadow"
	didCanary   = "canary"
)

// make returns what makes the change.
func (c *change) make(s *published.State) func(v *published.Version) admin.ConfigChange {
	switch {
	case c.did == didPromote:
		return s.Promote
	case c.did == didWithdraw:
		return s.Withdraw
	case c.plan != nil:
		return func(v *published.Version) admin.ConfigChange { return s.Try(v, *c.plan) }
	}
	return s.Next
}

// question asks for the change.
func (c *change) question(a *answer) string {
	switch {
	case c.did == didPromote && len(a.apart) > 0:
		return fmt.Sprintf("Promote %s, without what was counted as %s%s", c.title, someOf(a.apart), store.NextSuffix)
	case c.did == didPromote:
		return "Promote " + c.title
	case c.did == didWithdraw:
		return "End the trial of " + c.title
	case c.plan != nil:
		return fmt.Sprintf("Try %s %s", c.title, tries(c.plan))
	case c.of != 0:
		return "Bring " + c.title + " back"
	}
	return "Publish " + c.title
}

// change shows what would change, asks, and publishes.
func (o *options) change(ctx context.Context, next func(p *place) (*change, error)) error {
	if o.trace == "" && len(o.attributes) > 0 {
		return cli.Usagef("--attribute needs a --trace, whose fields it is for")
	}
	if strings.TrimSpace(o.Reason) == "" && !o.dryRun {
		return cli.Usagef("no reason given; say why with -m TEXT, for those who read the history later")
	}
	s, err := o.Settings()
	if err == nil && !o.dryRun {
		s, err = o.SettingsToChange(ctx)
	}
	if err != nil {
		return err
	}
	open := o.OpenToRead
	if !o.dryRun {
		open = o.Open
		if err := o.Check(s.Access(), o.Env.InIsTerminal, o.command, "publishes", ", or --dry-run to look first"); err != nil {
			return err
		}
	}
	p, err := openPlace(ctx, o.Globals, s, open, o.mends)
	if err != nil {
		return err
	}
	defer p.backend.Close()
	c, err := next(p)
	if err != nil {
		return err
	}
	answer, err := o.preview(ctx, p, c)
	if err != nil {
		return err
	}
	if answer.same || o.dryRun {
		return o.summary.print(o.Globals, answer)
	}
	plan := &operation.PublishPlan{Command: o.command, Text: c.title, State: p.state, Config: c.text,
		Of: c.of, Consent: o.ConsentOptions.Given(), Change: c.make(p.state), Question: c.question(answer)}
	shown := !plan.Consent.Covers(s.Access())
	if shown && !o.Quiet {
		answer.show(&output.Printer{Out: o.Env.Err})
	}
	v, err := cli.NewRunner(o.Globals, s, p.backend, p.where).Publish(ctx, plan, &cli.Observer{Global: o.Globals})
	if v == nil {
		return err
	}
	answer.version, answer.shown = v, shown
	printErr := o.summary.print(o.Globals, answer)
	switch before := p.state.Head.Version; {
	case before == 0 || o.Quiet || c.did == didWithdraw:
	case c.plan != nil:
		o.Note("see what it does with: %s; end it with: %s", cli.CommandHere(o.Globals, s, "config", "status"),
			cli.CommandHere(o.Globals, s, "config", "rollback", "-m", "enough"))
	default: // who goes back is in a hurry, and the keys only inform: nothing is refused because of them
		o.Note("go back with: %s", cli.CommandHere(o.Globals, s, "config", "rollback", cli.Number(before), "-m",
			fmt.Sprint("back to ", before), "--no-keys"))
	}
	return errors.Join(err, printErr)
}

// preview compares what would be published with what is in force, and with the keys in use.
func (o *options) preview(ctx context.Context, p *place, c *change) (*answer, error) {
	a := &answer{dryRun: o.dryRun, of: c.of, place: p.settings.Place(p.where), before: p.state.Head.Version,
		next: p.state.NextNumber(), plan: c.plan, did: c.did, ends: p.state.Head.Next.Version}
	switch next := &p.state.Head.Next; {
	case c.did != "":
		a.next = c.number
	case c.plan != nil && next.Exists() && next.Hash == published.Hash(c.text):
		a.next = next.Version
	}
	if c.did == didWithdraw {
		return a, nil
	}
	after, err := config.Parse(c.title, c.text, nil)
	if err != nil {
		return nil, err
	}
	before, err := nothing()
	if err != nil {
		return nil, err
	}
	if p.state.Head.Version > 0 {
		v, err := p.fetch(ctx, o.Globals, p.state.Head.Version)
		if err == nil && v.Hash == published.Hash(c.text) {
			a.same = true
			return a, nil
		}
		if err == nil {
			before, err = config.Parse(fmt.Sprintf("version %d", v.Number), v.Text, nil)
		}
		if err != nil { // it is replaced, so that nobody is stuck with it
			o.Note("warning: version %d, which is in force, cannot be read, so it is not compared: %s", p.state.Head.Version,
				cli.Message(err))
			before, _ = nothing()
		}
	}
	if err := checkBy(c.plan, before, after); err != nil {
		return nil, err
	}
	before.Prefix, after.Prefix = "", ""
	if c.plan != nil || c.did == didPromote {
		a.apart = apartLimits(before, after)
	}
	if c.plan != nil {
		a.later = laterSettings(before, after)
	}
	for _, d := range config.Differences(before, after) {
		a.limits.rows = append(a.limits.rows, diffRow{Difference: d})
	}
	if err := o.checkOverrides(ctx, p, before, after); err != nil {
		return nil, err
	}
	if !o.noKeys && !o.Quiet {
		a.keys = &diffAnswer{ofKeys: true}
		if a.keys.rows, err = keyDifferencesOf(ctx, o.Globals, p.backend, after); err != nil {
			return nil, err
		}
	}
	if o.trace != "" {
		if a.traffic, err = o.replay(ctx, before, after); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// nothing is a configuration that says nothing.
func nothing() (*config.Config, error) { return config.Parse("nothing", []byte("contexts: {}\n"), nil) }

// checkOverrides refuses a configuration without a policy that overrides in force name.
func (o *options) checkOverrides(ctx context.Context, p *place, before, after *config.Config) error {
	var gone []string
	for _, old := range before.Policies {
		if !slices.ContainsFunc(after.Policies, func(now *policy.Policy) bool { return now.Name == old.Name }) {
			gone = append(gone, old.Name)
		}
	}
	if len(gone) == 0 || o.force {
		return nil
	}
	overrides, err := cli.NewRunner(o.Globals, p.settings, p.backend, p.where).Overrides(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(overrides, func(o store.Override) bool {
		policy, _, isPolicys := strings.Cut(o.Names.String(), "/")
		return isPolicys && slices.Contains(gone, policy)
	})
	if i < 0 {
		return nil
	}
	return cli.Usagef("the override %s in force names %s, and the configuration no longer has this policy; revoke the override, or "+
		"give --force; nothing was published", overrides[i].ID, overrides[i].Names)
}
