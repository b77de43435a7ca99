package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Commands makes the commands, for limitctl config.
func Commands(global *cli.Globals) []*cobra.Command {
	return []*cobra.Command{newDiffCmd(global), newPublishCmd(global), newHistoryCmd(global), newFetchCmd(global),
		newStatusCmd(global), newRollbackCmd(global)}
}

// options are those of publish and rollback.
type options struct {
	*cli.Globals
	cli.ConsentOptions
	dryRun, force bool
	command       string // for messages
}

func (o *options) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	flags.BoolVar(&o.force, "force", false,
		"even if overrides in force name a policy that is no longer in the configuration")
	o.AddPublishConsentFlags(cmd)
}

func newPublishCmd(global *cli.Globals) *cobra.Command {
	o := &options{Globals: global, command: "config publish"}
	cmd := &cobra.Command{
		Use:   "publish FILE",
		Short: "Put the policies of a file in force in all processes",
		Long: `Publish writes the policies of FILE into the store as the next version, with
who, when and why. A file with contexts or layouts is refused. Processes that
follow the store have it in force within two seconds: limitctl serve --config
store:, and policyfile.Follow in Go.

It first shows the limits that change, and asks. Nothing is written if FILE has
a mistake or changes nothing, if somebody else has published meanwhile, or if a
policy disappears that an override in force names.`,
		Example: `  limitctl config publish limitctl.yaml -m "more for acme" --context prod
  limitctl config publish limitctl.yaml --dry-run
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
	return cmd
}

func (o *options) publish(ctx context.Context, path string) error {
	data, err := readConfig(path)
	if err != nil {
		return err
	}
	c, err := newChange(path, data)
	if err != nil {
		return err
	}
	return o.change(ctx, func(*place) (*change, error) { return c, nil })
}

// place is a store with published configurations.
type place struct {
	settings *cli.Settings
	backend  connect.Store
	where    string
	table    *admin.Tables
	state    *published.State
}

// openPlace opens the store by open, and reads what is published there.
func openPlace(ctx context.Context, g *cli.Globals, s *cli.Settings, open func() (connect.Store, string, error)) (
	*place, error) {
	backend, where, err := open()
	if err != nil {
		return nil, err
	}
	p := &place{settings: s, backend: backend, where: where}
	if p.table, err = published.TableOf(backend); err == nil {
		err = p.read(ctx, g)
	}
	if err != nil {
		backend.Close()
		return nil, err
	}
	return p, nil
}

// read reads what is published.
func (p *place) read(ctx context.Context, g *cli.Globals) (err error) {
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	if p.state, err = published.Read(ctx, p.table); err != nil {
		return err
	}
	if warning := p.state.Head.TriedWarning(); warning != nil {
		g.Note("warning: %s", warning)
	}
	return nil
}

// fetch returns a version.
func (p *place) fetch(ctx context.Context, g *cli.Globals, number int64) (*published.Version, error) {
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	return p.state.Fetch(ctx, p.table, number)
}

// inForce returns the version in force; v is not nil if only its text has mistakes.
func (p *place) inForce(ctx context.Context, g *cli.Globals) (v *published.Version, c *config.Config, err error) {
	if v, err = p.fetch(ctx, g, p.state.Head.Version); err == nil {
		c, err = config.Parse(fmt.Sprintf("version %d", v.Number), v.Text, nil)
	}
	return v, c, err
}

// change is what a command is about to publish.
type change struct {
	title string // in messages
	text  []byte
	of    int64 // the version that it was before; 0 for a file
	after *config.Config
}

// newChange reads what is to be published, before a store is asked.
func newChange(title string, text []byte) (*change, error) {
	after, err := config.Parse(title, text, nil)
	switch {
	case err != nil:
		return nil, err
	case len(after.Policies) == 0:
		return nil, cli.Usagef("%s has no policies, so there is nothing to publish", title)
	case len(after.Contexts)+len(after.Layouts) > 0:
		return nil, cli.Usagef("%s has contexts or layouts, which stay on this machine; move its other parts to a "+
			"file of their own", title)
	}
	return &change{title: title, text: text, after: after}, nil
}

// change shows what would change, asks, and publishes.
func (o *options) change(ctx context.Context, next func(p *place) (*change, error)) error {
	if strings.TrimSpace(o.Reason) == "" && !o.dryRun {
		return cli.Usagef("no reason given; say why with -m TEXT, for those who read the history later")
	}
	s, err := o.Settings()
	if err == nil && !o.dryRun {
		s, err = o.SettingsToChange()
	}
	if err != nil {
		return err
	}
	open := o.OpenToRead
	if !o.dryRun {
		open = o.Open
		if err := o.Check(s.Access(), o.Env.InIsTerminal, o.command, "publishes",
			", or --dry-run to look first"); err != nil {
			return err
		}
	}
	p, err := openPlace(ctx, o.Globals, s, open)
	if err != nil {
		return err
	}
	defer p.backend.Close()
	c, err := next(p)
	if err != nil {
		return err
	}
	if p.state.Broken != nil {
		o.Note("warning: %s; it is replaced, and what is in force is not compared", cli.Message(p.state.Broken))
	}
	answer, err := o.preview(ctx, p, c)
	if err != nil {
		return err
	}
	if answer.same || o.dryRun {
		return o.Print(answer)
	}
	plan := &operation.PublishPlan{Command: o.command, Text: c.title, State: p.state, Config: c.text, Of: c.of,
		Consent: o.ConsentOptions.Given(), Question: "Publish " + c.title}
	if c.of != 0 {
		plan.Question = "Bring " + c.title + " back"
	}
	shown := !plan.Consent.Covers(s.Access())
	if shown && !o.Quiet {
		answer.show(&output.Printer{Out: o.Env.Err})
	}
	v, err := cli.NewRunner(o.Globals, s, p.backend, p.where).Publish(ctx, plan, &cli.Observer{Global: o.Globals})
	if v == nil {
		return err
	}
	answer.Version, answer.Hash, answer.Published, answer.By, answer.Reason, answer.shown = v.Number, v.Hash, true,
		v.By, v.Reason, shown
	answer.At = new(output.UTC(v.At))
	printErr := o.Print(answer)
	if before := p.state.Head.Version; before != 0 && !answer.unreadable && !o.Quiet {
		o.Note("go back with: %s", cli.CommandHere(o.Globals, s, "config", "rollback", cli.Number(before), "-m",
			fmt.Sprint("back to ", before)))
	}
	return errors.Join(err, printErr)
}

// preview compares what would be published with what is in force.
func (o *options) preview(ctx context.Context, p *place, c *change) (*publishAnswer, error) {
	a := &publishAnswer{SchemaVersion: output.SchemaVersion, DryRun: o.dryRun, Of: c.of,
		Did:   strings.TrimPrefix(o.command, "config "),
		place: p.settings.Place(p.where), Before: p.state.Head.Version, Version: p.state.NextNumber(),
		Differences: []config.Difference{}}
	after, prefix := c.after, p.settings.Prefix
	if cmp.Or(after.Prefix, prefix) != prefix {
		return nil, cli.Usagef("%s has the prefix %q, and the store is open with %q, so nobody would find the keys; "+
			"give %s", c.title, after.Prefix, prefix, shell.Command("--prefix", after.Prefix))
	}
	before, err := config.Parse("nothing", []byte("contexts: {}\n"), nil)
	if err != nil {
		return nil, err
	}
	if p.state.Head.Version > 0 {
		v, inForce, err := p.inForce(ctx, o.Globals)
		switch {
		case v != nil && v.Hash == published.Hash(c.text):
			a.same, a.Version = true, a.Before
			return a, nil
		case err == nil:
			before = inForce
		default: // it is replaced, so that nobody is stuck with it
			a.unreadable = true
			o.Note("warning: version %d, which is in force, cannot be read, so it is not compared: %s",
				p.state.Head.Version,
				cli.Message(err))
		}
	}
	before.Prefix, after.Prefix = "", ""
	a.Differences = config.Differences(before, after)
	return a, o.checkOverrides(ctx, p, before, after)
}

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
	return cli.Usagef("the override %s in force names %s, and the configuration no longer has this policy; revoke "+
		"the override, or "+
		"give --force; nothing was published", overrides[i].ID, overrides[i].Names)
}

// publishAnswer is the answer of publish and rollback.
type publishAnswer struct {
	SchemaVersion int `json:"schema_version"`
	// Version is the version in force afterwards; of a dry run the one that there would be.
	Version   int64  `json:"version"`
	Hash      string `json:"hash,omitempty"`
	Before    int64  `json:"before"` // the version in force before, 0 for none
	Published bool   `json:"published"`
	DryRun    bool   `json:"dry_run"`
	Of        int64  `json:"of,omitempty"` // the version that was brought back
	// Did is publish or rollback.
	Did         string              `json:"did"`
	At          *time.Time          `json:"at,omitempty"`
	By          string              `json:"by,omitempty"`
	Reason      string              `json:"reason,omitempty"`
	Differences []config.Difference `json:"differences"`

	place      string
	same       bool // nothing was to be published
	unreadable bool // the version before
	shown      bool // all but the version is on stderr already
}

// Records implements output.Answer: the differences of limits, which the columns of config diff hold.
func (a *publishAnswer) Records() [][]string { return output.Rows(a.Differences) }

// Print implements output.Answer.
func (a *publishAnswer) Print(p *output.Printer) {
	if a.same {
		p.Line("version %d, which is in force in %s, has the same text; nothing was published", a.Before,
			output.Printable(a.place))
		return
	}
	if !a.shown {
		a.show(p)
	}
	if !a.Published {
		p.Line("would publish version %d in %s (dry run)", a.Version, output.Printable(a.place))
		return
	}
	of := ""
	if a.Of != 0 {
		of = fmt.Sprintf(", with the text of version %d", a.Of)
	}
	p.Line("%s version %d in %s%s", p.Paint(output.Calm, "✓ published"), a.Version, output.Printable(a.place), of)
}

// show prints what changes.
func (a *publishAnswer) show(p *output.Printer) {
	if len(a.Differences) == 0 {
		p.Line("no limit changes")
	}
	printDifferences(p, a.Differences)
}
