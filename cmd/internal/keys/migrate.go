package keys

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
)

type migrateOptions struct {
	*cli.Globals
	cli.SelectionOptions
	cli.ConsentOptions
	cli.BackupOptions
	target     migrateTarget
	into       string
	dryRun     bool
	keepGoing  bool
	failIfNone bool
}

// NewMigrateCmd makes limitctl migrate.
func NewMigrateCmd(global *cli.Globals) *cobra.Command {
	o := &migrateOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "migrate PATTERN --from LAYOUT --to LIMIT | migrate PATTERN --from LAYOUT --to-policy POLICY ATTRIBUTE=TEMPLATE...",
		Short: "Carry usage over from another rate limiter",
		Long: `Migrate reads the keys of another rate limiter and carries their usage over into
limits of limitctl, so that a service can change its limiter and nobody starts
again at zero. PATTERN is a glob over the other limiter's keys as they are in
Redis, or over their subjects.

Afterwards at least as much is in use as the other limiter counted when its key
was read, up to what the new limit holds. Migrate never lowers usage. So you can
run it while services take units, and run it again: no unit is charged twice.
Give with --limit, or in the layouts of the configuration, what is not in the
keys.

Migrate does not change the old keys. Before you stop the other limiter, run
migrate again: it carries over what was used meanwhile.

In templates {subject} stands for the old limit's subject and {name} for its
name, as inspect --layout shows them.

It first shows what it will do, and asks. Without a terminal it needs --yes. In
a protected context it asks for the context's name, or takes it from --confirm.
It writes a backup of the limits that it changes, so that undo works, and a line
to the audit log. If some usage cannot be carried over, it says how much and
why, and exits with 5.`,
		Example: `  limitctl migrate 'rate:*' --from redis_rate --limit 10/1m --to token-bucket:10/1m --dry-run
  limitctl migrate 'rate:*' --from redis_rate --limit 10/1m --to token-bucket:10/1m --yes
  limitctl migrate 'rate:login:*' --from auto --to 10/1m --subject 'user:{subject}' --yes
  limitctl migrate 'LIMITS:LIMITER/*' --from limits --to-policy api tenant=acme user='{subject}' route=/search --yes
  limitctl migrate 'rl:*' --from rate-limit-redis --limit 100/15m --to fixed-window:100/15m --into prod --confirm prod`,
		Args: o.arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMigrate(cmd, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addFlags(cmd, global)
	o.AddConsentFlags(cmd)
	o.AddBackupFlags(cmd)
	return cmd
}

func (o *migrateOptions) addFlags(cmd *cobra.Command, global *cli.Globals) {
	flags := cmd.Flags()
	flags.StringVar(&o.LayoutName, "from", "", "the `LAYOUT` of the keys to read, or auto; see limitctl layouts")
	flags.StringVar(&o.SaidLimit, "limit", "", "the old `LIMIT`, if it is not in the keys, such as 10/1m,burst=20")
	flags.StringArrayVar(&o.target.limits, "to", nil, "the new `LIMIT`, such as token-bucket:10/1m; repeat it for several of a subject")
	flags.StringVar(&o.target.policy, "to-policy", "", "carry over into the limits of the policy of that `NAME`; the arguments "+
		"after PATTERN "+
		"are its attributes, as templates")
	flags.StringVar(&o.target.subject, "subject", "{subject}", "the new subject, as a `TEMPLATE`")
	flags.StringVar(&o.target.newName, "name", "", "the name of the new limit, as a `TEMPLATE` (default the limit, as consume "+
		"--limit has it)")
	flags.StringVar(&o.into, "into", "", "carry over into another store: its `URL` or the name of its context")
	flags.BoolVar(&o.Exact, "exact", false, "take PATTERN as a subject or key, even if it holds glob characters")
	flags.StringVar(&o.Name, "limit-name", "", "only old limits called `NAME` (a glob), such as kong/minute")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would be carried over and change nothing")
	flags.BoolVar(&o.keepGoing, "keep-going", false, "if not all keys can be read, carry over what was found")
	flags.BoolVar(&o.failIfNone, "fail-if-none", false, "exit with 1 if nothing matches")
	cmd.RegisterFlagCompletionFunc("from", cli.CompleteLayouts)
	cmd.RegisterFlagCompletionFunc("to-policy", cli.Offers(global).Policies)
	cmd.RegisterFlagCompletionFunc("into", cli.Offers(global).Contexts)
	for _, flag := range []string{"limit", "to", "subject", "name", "limit-name"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
}

// arguments is the check of the command's arguments.
func (o *migrateOptions) arguments(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	for _, flag := range []string{"from", "to-policy", "subject", "name", "into", "limit", "limit-name"} {
		if flags.Changed(flag) && flags.Lookup(flag).Value.String() == "" {
			return cli.Usagef("--%s is empty; give it a value or leave it out", flag)
		}
	}
	switch {
	case len(args) == 0:
		return cli.Usagef("no PATTERN given; write a glob over the other limiter's keys, as in `%s 'rate:*' --from redis_rate --to 10/1m`",
			cmd.CommandPath())
	case o.LayoutName == "":
		return cli.Usagef("no layout given; say with --from whose keys they are, or --from auto; see `limitctl layouts`")
	case o.LayoutName == config.OwnLayout:
		return cli.Usagef("--from %s are limitctl's own keys, whose usage stays when their limit changes; name another limiter's layout",
			o.LayoutName)
	case config.CheckLayouts(strings.Split(o.LayoutName, ",")) != nil:
		return cli.Usagef("--from: %s", config.CheckLayouts(strings.Split(o.LayoutName, ",")))
	case len(o.target.limits) == 0 && o.target.policy == "":
		return cli.Usagef("no new limit given; add --to LIMIT, such as --to token-bucket:10/1m, or --to-policy POLICY")
	case len(o.target.limits) > 0 && o.target.policy != "":
		return cli.Usagef("--to and --to-policy both say what the new limits are; give one of them")
	case o.target.policy != "" && (flags.Changed("subject") || flags.Changed("name")):
		return cli.Usagef("--subject and --name are for --to; with --to-policy the attributes say who is meant, as in user='{subject}'")
	case o.target.policy == "" && len(args) > 1:
		return cli.Usagef("%s given, and migrate takes one PATTERN; quote it, so that the shell does not expand it", cli.Several(args))
	case len(o.target.limits) > 1 && o.target.newName != "":
		return cli.Usagef("--name names one limit, and there are %d; give one --to, or leave --name out", len(o.target.limits))
	}
	return nil
}

// migrating is a migration between two stores, or within one.
type migrating struct {
	*migrateOptions
	// from is for the store that is read, and to for that whose limits are changed.
	from, to *cli.Globals
	plan     *operation.MigratePlan
}

// migrating turns the flags and arguments into a migration.
func (o *migrateOptions) migrating(ctx context.Context, args []string) (m *migrating, err error) {
	from, to := *o.Globals, *o.Globals
	m = &migrating{migrateOptions: o, from: &from, to: &to,
		plan: &operation.MigratePlan{DryRun: o.dryRun, KeepGoing: o.keepGoing, Consent: o.Given()}}
	if err := o.CheckBackup(); err != nil {
		return nil, err
	}
	if m.plan.Selection, err = o.Selected(m.from, args[:1]); err != nil {
		return nil, err
	}
	if o.into != "" {
		to.Chosen, to.ReadPassword = nil, ""
		if to.Store, to.ContextName = o.into, ""; !strings.Contains(o.into, ":") {
			to.Store, to.ContextName = "", o.into
		}
	}
	if m.plan.Into, err = o.target.requests(o.Globals, args[1:]); err != nil {
		return nil, err
	}
	m.plan.Selection.Text = o.fromText(args[0])
	m.plan.Text = m.plan.Selection.Text + o.target.text(args[1:])
	if o.dryRun {
		return m, nil
	}
	s, err := m.to.SettingsToChange(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.Check(s.Access(), o.Env.InIsTerminal, "migrate", "changes limits", ", or --dry-run to look first"); err != nil {
		return nil, err
	}
	m.plan.Backup, err = o.BackupPlan(o.Env)
	return m, err
}

// fromText is the selection of the old keys, in the words of a command line.
func (o *migrateOptions) fromText(pattern string) string {
	words := []string{pattern}
	if o.Exact {
		words = []string{"--exact", pattern}
	}
	words = append(words, "--from", o.LayoutName)
	if o.SaidLimit != "" {
		words = append(words, "--limit", o.SaidLimit)
	}
	if o.Name != "" {
		words = append(words, "--limit-name", o.Name)
	}
	return shell.Command(words...)
}

func runMigrate(cmd *cobra.Command, o *migrateOptions, args []string) error {
	ctx := cmd.Context()
	m, err := o.migrating(ctx, args)
	if err != nil {
		return err
	}
	s, err := m.to.Settings()
	if err != nil {
		return err
	}
	old, oldPlace, err := m.openFrom()
	if err != nil {
		return err
	}
	defer old.Close()
	open := m.to.Open
	if o.dryRun {
		open = m.to.OpenToRead
	}
	store, where, err := open()
	if err != nil {
		return err
	}
	defer store.Close()
	m.plan.From = old
	watching := &cli.Observer{Global: o.Globals}
	if !o.Quiet || !o.dryRun && !m.plan.Consent.Covers(s.Access()) { // a question needs the list
		watching.Show = func(selected *operation.Selected) { m.show(selected, s.Place(where)) }
	}
	result, err := cli.NewRunner(m.to, s, store, where).Migrate(ctx, m.plan, watching)
	if result == nil {
		return o.WithHint(err)
	}
	return m.tell(ctx, s, old, oldPlace, result, err)
}

// openFrom opens the store whose keys are read.
func (m *migrating) openFrom() (store connect.Store, where string, err error) {
	reading := *m.from
	reading.Quiet = m.from.Quiet || m.into == "" // else the other store announces itself
	store, where, err = reading.OpenToRead()
	m.from.Chosen = reading.Chosen
	return store, where, err
}

// tell prints the answer of a migration, which ended with err.
func (m *migrating) tell(ctx context.Context, s *cli.Settings, old connect.Store, oldPlace string, result *operation.MigrateResult,
	err error) error {
	if broken := (*operation.BrokenScanError)(nil); errors.As(err, &broken) {
		err = fmt.Errorf("%w; --keep-going carries over what was found", err)
	}
	if none := (*operation.NotCarriedError)(nil); errors.As(err, &none) && none.UsageUnknown > 0 && m.SaidLimit == "" {
		err = fmt.Errorf("%w; say what the old limit is with --limit, such as --limit 10/1m", err)
	}
	fromSettings, settingsErr := m.from.Settings()
	if settingsErr != nil {
		return settingsErr
	}
	answer := newMigrateAnswer(m.plan, result, err)
	answer.ResetOld = cli.CommandHere(m.from, fromSettings, m.resetWords()...)
	answer.doctor = cli.CommandHere(m.from, fromSettings, m.doctorWords()...)
	if answer.Backup = result.Backup; answer.Backup != "" {
		answer.Undo = cli.UndoCommand(m.to, s, answer.Backup)
	}
	printErr := m.Print(answer)
	if answer.Undo != "" && (!m.Quiet || printErr != nil) {
		fmt.Fprintf(m.Env.Err, "limitctl: undo with: %s\n", cli.UndoLine(m.to, s, result.Backup))
	}
	if !m.Quiet {
		m.noteMigration(result, answer)
	}
	if err == nil && result.Matched == 0 && !m.Quiet {
		cli.SayNothingMatches(m.from, &m.plan.Selection, oldPlace)
	}
	if err == nil && printErr == nil && result.Matched == 0 && m.failIfNone {
		return cli.ErrDenied
	}
	return errors.Join(err, printErr)
}

// resetWords are the words of the command that deletes the old keys.
func (m *migrating) resetWords() []string {
	words := []string{"reset"}
	pattern, _ := m.plan.Selection.Query.Subjects.Exact()
	if m.Exact {
		words = append(words, "--exact", pattern)
	} else {
		words = append(words, m.plan.Selection.Query.Subjects.String())
	}
	words = append(words, "--layout", m.LayoutName)
	if m.Name != "" {
		words = append(words, "--limit-name", m.Name)
	}
	return words
}

// doctorWords are the words of the command that looks for what is wrong with the old keys.
func (m *migrating) doctorWords() []string {
	words := []string{"doctor", "--layout", m.LayoutName}
	if m.SaidLimit != "" {
		words = append(words, "--limit", m.SaidLimit)
	}
	return words
}

// noteMigration prints notes that are not in the answer.
func (m *migrating) noteMigration(result *operation.MigrateResult, answer *migrateAnswer) {
	if n := result.Filled; n > 0 {
		m.Note("%s used more than the new limit holds, which is used up now", cli.CountOf(n, "old limit had", "old limits had"))
	}
	if n := result.Shared; n > 0 {
		m.Note("%s with another one into the same limit, where the one most used counts; --limit-name selects some of them",
			cli.CountOf(n, "old limit went together", "old limits went together"))
	}
	if n := result.Stuck; n > 0 {
		m.Note("warning: %s that never comes back by itself: see `%s`",
			cli.CountOf(n, "old limit has usage", "old limits have usage"), answer.doctor)
	}
	noteUnsure(m.migrateOptions.Globals, &result.Unsure, "not carried over")
	if result.Carried() > 0 && !m.dryRun {
		m.Note("the old keys did not change; when nothing uses them any more, delete them with: %s", answer.ResetOld)
	}
}

// show shows what a migration is about to do; place is where.
func (m *migrating) show(s *operation.Selected, place string) {
	if s.Count == 0 {
		return
	}
	migration := s.Migration
	m.Say("%s %s, to be carried over into %s:", cli.CountOf(migration.Matched, "old limit matches", "old limits match"),
		m.plan.Selection.Text, place)
	for i := range migration.Sample {
		c := &migration.Sample[i]
		m.Say("  %s  %s used → %s  %s → %s used", output.Printable(c.Old.StoreKey), usedText(&c.Old), output.Printable(c.Key.String()),
			output.Thousands(c.Before), output.Thousands(c.After))
	}
	if more := migration.Matched - int64(len(migration.Sample)); more > 0 {
		m.Say("  … and %s more", output.Thousands(more))
	}
	if s.Incomplete != nil {
		fmt.Fprintf(m.Env.Err, "limitctl: warning: not all keys could be looked at: %s\n", cli.Message(s.Incomplete))
	}
}
