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
	local bool
	// from is the instant that since says; zero without it.
	from time.Time
	// about is what the runs are about, if it is given: as it was typed, and with the clients that its addresses are.
	about []about
}

// NewAuditCmd makes limitctl audit.
func NewAuditCmd(global *cli.Globals) *cobra.Command {
	o := &auditOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "audit [PATTERN]",
		Short: "Show who changed what, and when",
		Long: `Audit shows who changed what, when and why, the latest run last: reset, undo,
override and config publish, and in protected contexts refunds and large
consumes.

It shows the runs of the store in use, from all machines, and those that this
machine has logged for any store; with a context only those in its store. If the
store cannot be read, it warns and shows those of this machine.

A run is logged before its first change and after its last one. "begun" means
that its end is not known: it still runs, or it was killed. If it has a backup,
"limitctl undo" brings back what it has changed so far.

With PATTERN it shows only runs about these subjects: whose selection names one
of them or covers PATTERN, such as a reset of '*', and the undos of these. It
compares the texts: a run that selected a tenant by another attribute is not
found.

A store keeps the latest 2,500 entries, two for each run. This machine keeps its
own in limitctl/audit.jsonl in the state directory ($XDG_STATE_HOME, else
~/.local/state).`,
		Example: `  limitctl audit
  limitctl audit --since 2h
  limitctl audit 'tenant:acme:*' --since 1d
  limitctl audit --since 22:00
  limitctl audit --limit-rows 3 -o jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("%s given, and audit takes at most one PATTERN; quote it, so that the shell does "+
					"not expand it",
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
	flags.StringVar(&o.since, "since", "",
		"show only runs that ended since `TIME`: a duration such as 2h or 7d, a time such as 22:00, "+
			"or a date and time")
	flags.BoolVar(&o.local, "local", false, "show only the entries of this machine, and read no store")
	cmd.RegisterFlagCompletionFunc("since",
		cobra.FixedCompletions([]string{"1h", "1d", "7d"}, cobra.ShellCompDirectiveNoFileComp))
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
			text = attributeAsSubject(text)
			subjects, err := cli.ParseSubjects(text, false)
			if err != nil {
				return err
			}
			o.about = append(o.about, about{subjects, text})
		}
	}
	if cmd.Flags().Changed("since") {
		return o.readSince()
	}
	return nil
}

// readSince reads --since: so long ago, or the last such time.
func (o *auditOptions) readSince() error {
	now := o.Env.Now()
	ago, err := store.ParsePeriod(o.since)
	if err == nil {
		o.from = now.Add(-ago)
		return nil
	}
	o.from, err = cli.ParseInstant(o.since, now, false)
	switch {
	case errors.Is(err, cli.ErrNoInstant):
		return cli.Usagef("--since %q is neither a duration nor a time; write it like 2h, 7d, 22:00 or '%s'", o.since,
			now.Add(-time.Hour).Format("2006-01-02 15:04"))
	case err != nil:
		return cli.Usagef("--since %s", err)
	}
	return nil
}

// keeps returns what reports whether an entry is one that the flags ask for. It wants the entries in their order, since
// the restore of a backup is about what the run was about that made it.
func (o *auditOptions) keeps() func(*auditlog.Entry) bool {
	backups := map[string]bool{} // of runs about the PATTERN
	return func(e *auditlog.Entry) bool {
		is := o.about == nil || o.names(e) || e.BringsBack() && backups[e.Selection]
		if is && e.Backup != "" {
			backups[e.Backup] = true
		}
		return is && !e.Time.Before(o.from)
	}
}

// names reports whether the selection of an entry names what the PATTERN selects, or the PATTERN what the selection
// does. An entry about overrides has the subjects of IDs in brackets, and several between commas.
func (o *auditOptions) names(e *auditlog.Entry) bool {
	words := shell.Words(e.Selection)
	if !e.CountsKeys() {
		words = append(words, strings.FieldsFunc(
			e.Selection, func(r rune) bool { return strings.ContainsRune(" ,;()", r) })...)
	}
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.ContainsFunc(o.about, func(a about) bool { return a.meets(attributeAsSubject(word)) })
	})
}

// about is a PATTERN.
type about struct {
	subjects store.Pattern
	text     string
}

// meets reports whether the PATTERN and a word of a selection have a subject in common. An attribute is a part of the
// subjects that policies make of it: tenant=acme of tenant:acme:user:7.
func (a about) meets(word string) bool {
	if word == "" {
		return false
	}
	selected, err := store.ParsePattern(word)
	return a.subjects.Match(word) || a.subjects.Match(word+":") || hasPart(a.text, word) || hasPart(word, a.text) ||
		err == nil && (selected.Match(a.text) || selected.Match(a.text+":"))
}

// attributeAsSubject returns NAME=VALUE as it is in subjects, and other words as they are.
func attributeAsSubject(word string) string {
	if name, value, is := strings.Cut(word, "="); is && name != "" && !strings.HasPrefix(name, "-") {
		return name + ":" + value
	}
	return word
}

// hasPart reports whether a subject has an attribute, between colons.
func hasPart(subject, attribute string) bool {
	return strings.Contains(attribute, ":") && strings.Contains(":"+subject+":", ":"+attribute+":")
}

func runAudit(ctx context.Context, o *auditOptions) error {
	answer := &auditAnswer{complete: true, zone: o.Env.Now().Location()}
	if dir := cli.StateDir(o.Env.Getenv); dir != "" {
		answer.backups = filepath.Join(dir, "backups")
	}
	var backend store.Store
	where := ""
	ofContext := o.ContextName // whose store's runs are shown; empty for all stores of this machine
	if !o.local {
		var err error
		if ofContext, err = o.CurrentContext(); err != nil {
			return err
		}
		opened, name, err := o.OpenToRead()
		if err != nil {
			return err
		}
		defer opened.Close()
		backend, where = opened, name
	}
	keep := o.keeps()
	history, err := cli.ReadJournal(
		ctx, o.Globals, backend, true, auditlog.Query{Most: o.limit, Keep: func(e *auditlog.Entry) bool {
			return keep(e) &&
				(e.Source == auditlog.Store || ofContext == "" || e.Context == ofContext || e.Store == where &&
					where != "")
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
