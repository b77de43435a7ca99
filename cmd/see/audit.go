package see

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type auditOptions struct {
	*cli.Globals
	limit int
	since string
	until string
	by    string
	local bool
	// from and to are the instants that since and until say; zero without them.
	from, to time.Time
	// about is what the runs are about, if it is given: as it was typed, and with the clients that its addresses are.
	about []about
	// context is the one whose store's runs are shown; empty for all stores of this machine.
	context string
}

// NewAuditCmd makes limitctl audit.
func NewAuditCmd(global *cli.Globals) *cobra.Command {
	o := &auditOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "audit [PATTERN]",
		Short: "Show who changed what, and when",
		Long: `Audit shows the audit log, the latest run last: the runs of reset, undo and
override, and in protected contexts those of refund and large consumes. For each
run it shows who, when, where, why, what was selected, how many keys changed,
and the backup.

It shows the entries of the store in use, from all machines and users, and the
entries of this machine, for all stores. With a context, such as that of
LIMITCTL_CONTEXT, it shows only runs in the store of the context. --local does
not read the store, and shows the entries of this machine, for all stores unless
--context is given. If the store cannot be read, it prints a warning and shows
the entries of this machine.

A run is logged before its first change and after its last one. "begun" means
that its end is not known: it still runs, or it was killed. If it has a backup,
"limitctl undo" brings back what it has changed so far. A run whose backup
was restored since on the same machine says so, such as "begun, undone".

With PATTERN it shows only runs about these subjects: those whose selection
names one of them, such as 'tenant:acme:*' or tenant=acme, those whose selection
covers PATTERN, such as a reset of '*', and the undos of these. A run
about an override is about whom the override is for, also if its ID was given.
It compares the texts: a run that selected a tenant by another attribute is not
found.

--since and --until together show the runs that were going on between the two.

Without --limit-rows it shows the last 10,000 runs. A store keeps the latest
2,500 entries, two for each run. This machine keeps its own in
limitctl/audit.jsonl in the state directory ($XDG_STATE_HOME, else
~/.local/state). Damaged entries are left out, with a warning.`,
		Example: `  limitctl audit
  limitctl audit --since 2h
  limitctl audit 'tenant:acme:*' --since 1d
  limitctl audit --since 22:00 --until 23:30 --by alice
  limitctl audit --limit-rows 3 -o jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("%s given, and audit takes at most one PATTERN; quote it, so that the shell does not expand it",
					cli.Several(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd, args); err != nil {
				return err
			}
			return runAudit(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	cli.NumberFlag(flags, &o.limit, "limit-rows", "n", 0, "show only the last `N`")
	flags.StringVar(&o.since, "since", "", "show only runs that ended since `TIME`: a duration such as 2h or 7d, a time such as 22:00, "+
		"or a date and time")
	flags.StringVar(&o.until, "until", "", "show only runs that began until `TIME`, written like that of --since")
	flags.StringVar(&o.by, "by", "", "show only runs of the user `NAME`")
	flags.BoolVar(&o.local, "local", false, "show only the entries of this machine, and read no store")
	for _, flag := range []string{"since", "until"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions([]string{"1h", "1d", "7d"}, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

func (o *auditOptions) parse(cmd *cobra.Command, args []string) (err error) {
	if o.limit < 0 {
		return cli.Usagef("--limit-rows %d is negative; give a number of runs, or 0 for all", o.limit)
	}
	if len(args) > 0 {
		named, err := o.NameClients(cmd.Context(), false, cli.AttributesOrPattern("", args), args)
		if err != nil { // what is not known to be a client was logged as it was typed
			named = args
		}
		for _, text := range slices.Compact([]string{args[0], named[0]}) {
			about, err := aboutOf(text)
			if err != nil {
				return err
			}
			o.about = append(o.about, about)
		}
	}
	if cmd.Flags().Changed("since") {
		if o.from, err = o.instant("since", o.since); err != nil {
			return err
		}
	}
	if !cmd.Flags().Changed("until") {
		return nil
	}
	if o.to, err = o.instant("until", o.until); err != nil {
		return err
	}
	if clock, err := cli.ParseInstant(o.until, o.from, true); err == nil && o.to.Before(o.from) {
		o.to = clock // 22:00 to 06:00, asked at 05:00: the last 06:00 was before that 22:00
	}
	if o.to.Before(o.from) {
		return cli.Usagef("the time of --until, %s, is before that of --since, %s; nothing is between them",
			o.to.Format(time.DateTime), o.from.Format(time.DateTime))
	}
	return nil
}

// instant reads the time of a flag: so long ago, or the last such time.
func (o *auditOptions) instant(flag, text string) (time.Time, error) {
	now := o.Env.Now()
	if ago, err := store.ParsePeriod(text); err == nil {
		return now.Add(-ago), nil
	}
	at, err := cli.ParseInstant(text, now, false)
	switch {
	case err == nil:
		return at, nil
	case !errors.Is(err, cli.ErrNoInstant):
		return at, cli.Usagef("--%s %s", flag, err)
	}
	return at, cli.Usagef("--%s %q is neither a duration nor a time; write it like 2h, 7d, 22:00 or '%s'", flag, text,
		now.Add(-time.Hour).Format("2006-01-02 15:04"))
}

// keeps returns what reports whether an entry is one that the flags ask for. It wants the entries in their order, since the
// restore of a backup is about what the run was about that made it.
func (o *auditOptions) keeps() func(*auditlog.Entry) bool {
	backups := map[string]bool{} // of runs about the PATTERN
	isAbout := func(e *auditlog.Entry) bool {
		if o.about == nil {
			return true
		}
		if e.BringsBack() {
			return backups[e.Selection] || o.names(e)
		}
		is := o.names(e)
		if is && e.Backup != "" {
			backups[e.Backup] = true
		}
		return is
	}
	return func(e *auditlog.Entry) bool {
		about := isAbout(e)
		began := e.Began
		if began.IsZero() {
			began = e.Time
		}
		return about && !e.Time.Before(o.from) && (o.to.IsZero() || !began.After(o.to)) &&
			(o.by == "" || e.User == o.by || e.Account == o.by)
	}
}

// names reports whether the selection of an entry names what the PATTERN selects, or the PATTERN what the selection does. An
// entry about overrides has the subjects of IDs in brackets, and several between commas.
func (o *auditOptions) names(e *auditlog.Entry) bool {
	words := shell.Words(e.Selection)
	if !e.CountsKeys() {
		words = append(words, strings.FieldsFunc(e.Selection, func(r rune) bool { return strings.ContainsRune(" ,;()", r) })...)
	}
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.ContainsFunc(o.about, func(a about) bool { return a.meets(word) })
	})
}

// about is a PATTERN, whose text was an attribute if ofAttribute.
type about struct {
	subjects    store.Pattern
	text        string
	ofAttribute bool
}

func aboutOf(text string) (a about, err error) {
	a.text, a.ofAttribute = attributeAsSubject(text)
	a.subjects, err = cli.ParseSubjects(a.text, false)
	return a, err
}

// meets reports whether the PATTERN and a word of a selection have a subject in common. An attribute is a part of the
// subjects that policies make of it: tenant=acme of tenant:acme:user:7.
func (a about) meets(word string) bool {
	if word == "" {
		return false
	}
	word, isAttribute := attributeAsSubject(word)
	selected, err := store.ParsePattern(word)
	if a.subjects.Match(word) || err == nil && selected.Match(a.text) {
		return true
	}
	return isAttribute && (a.subjects.Match(word+":") || hasPart(a.text, word)) ||
		a.ofAttribute && (err == nil && selected.Match(a.text+":") || hasPart(word, a.text))
}

// attributeAsSubject returns NAME=VALUE as it is in subjects, and other words as they are.
func attributeAsSubject(word string) (subject string, is bool) {
	name, value, is := strings.Cut(word, "=")
	if is = is && name != "" && !strings.HasPrefix(name, "-"); !is {
		return word, false
	}
	return name + ":" + value, true
}

// hasPart reports whether a subject has a part, between colons.
func hasPart(subject, part string) bool { return strings.Contains(":"+subject+":", ":"+part+":") }

func runAudit(ctx context.Context, o *auditOptions) error {
	answer := &auditAnswer{complete: true, zone: o.Env.Now().Location()}
	if dir := cli.StateDir(o.Env.Getenv); dir != "" {
		answer.backups = filepath.Join(dir, "backups")
	}
	var backend store.Store
	where := ""
	o.context = o.ContextName
	if !o.local {
		var err error
		if o.context, err = o.CurrentContext(); err != nil {
			return err
		}
		o.OfAnyKeys = true
		opened, name, err := o.OpenToRead()
		if err != nil {
			return err
		}
		defer opened.Close()
		backend, where = opened, name
	}
	keep := o.keeps()
	history, err := cli.ReadJournal(ctx, o.Globals, backend, true, auditlog.Query{Most: o.limit, Keep: func(e *auditlog.Entry) bool {
		return keep(e) && (e.Source == auditlog.Store || o.context == "" || e.Context == o.context || e.Store == where && where != "")
	}})
	if err != nil {
		return err
	}
	if history.StoreError != nil {
		o.Note("warning: the audit log in the store cannot be read, so only that of this machine is shown: %s",
			cli.Message(history.StoreError))
		answer.complete = false
	}
	answer.entries = history.Runs
	if shown := len(history.Runs); history.Total > shown && o.limit == 0 {
		fmt.Fprintf(o.Env.Err, "limitctl: warning: only the last %d of %d runs are shown; --limit-rows N shows the last N\n",
			shown, history.Total)
	}
	if len(history.Runs) == 0 {
		o.Note("no run was found that is asked for")
	}
	if err := o.Print(answer); err != nil {
		return err
	}
	if begun, undo := answer.begun(); begun > 0 {
		o.Note("%s begun, and nothing says how it ended: still going on, or killed%s",
			map[bool]string{true: "1 run has", false: fmt.Sprintf("%d runs have", begun)}[begun == 1], undo)
	}
	return nil
}
