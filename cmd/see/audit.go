package see

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type auditOptions struct {
	*cli.Globals
	limit int
	since string
	// from is the instant that since says; zero without it.
	from time.Time
	// about is what the runs are about, if it is given: as it was typed, and with the clients that its addresses are.
	about []string
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

"begun" means that the end of a run is not known: it still runs, or was killed.

With PATTERN it shows only runs whose selection names these subjects or covers
them, such as a reset of '*', and the undos of these. It compares the texts.

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
	return cmd
}

func (o *auditOptions) parse(cmd *cobra.Command, args []string) (err error) {
	if len(args) > 0 {
		named, err := o.NameClients(cmd.Context(), false, cli.AttributesOrPattern("", args), args)
		if err != nil { // what is not known to be a client was logged as it was typed
			named = args
		}
		for _, text := range slices.Compact([]string{args[0], named[0]}) {
			if _, err := cli.ParseSubjects(subjectOf(text), false); err != nil {
				return err
			}
			o.about = append(o.about, subjectOf(text))
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
	if o.from, err = cli.ParseInstant(o.since, now, false); err != nil {
		return cli.Usagef("--since %q is neither a duration nor a time; write it like 2h, 7d, 22:00 or '%s'", o.since,
			now.Add(-time.Hour).Format("2006-01-02 15:04"))
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
		return word != "" && slices.ContainsFunc(o.about, func(about string) bool {
			return meet(about, subjectOf(word)) || meet(subjectOf(word), about)
		})
	})
}

// meet reports whether a pattern selects a text, or is an attribute, which is a part of the subjects that policies make
// of it: tenant=acme of tenant:acme:user:7.
func meet(pattern, text string) bool {
	selects, err := store.ParsePattern(pattern)
	return err == nil && (selects.Match(text) || selects.Match(text+":")) ||
		strings.Contains(pattern, ":") && strings.Contains(":"+text+":", ":"+pattern+":")
}

// subjectOf returns NAME=VALUE as it is in subjects, an escaped IPv6 address as it is typed, and other words as they
// are.
func subjectOf(word string) string {
	if name, value, is := strings.Cut(word, "="); is && name != "" && !strings.HasPrefix(name, "-") {
		word = name + ":" + value
	}
	return subjecttext.Readable(word)
}

func runAudit(ctx context.Context, o *auditOptions) error {
	ofContext, err := o.CurrentContext() // whose store's runs are shown; empty for all stores of this machine
	if err != nil {
		return err
	}
	backend, where, err := o.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	keep := o.keeps()
	history, err := cli.ReadJournal(
		ctx, o.Globals, backend, true, auditlog.Query{Most: o.limit, Keep: func(e *auditlog.Entry) bool {
			return keep(e) &&
				(e.Source == auditlog.Store || ofContext == "" || e.Context == ofContext || e.Store == where)
		}})
	if err != nil {
		return err
	}
	if history.StoreError != nil {
		o.Note("warning: the audit log in the store cannot be read, so only that of this machine is shown: %s",
			cli.Message(history.StoreError))
	}
	if len(history.Runs) == 0 {
		o.Note("no run was found that is asked for")
	}
	answer := &auditAnswer{output.SchemaVersion, history.StoreError == nil,
		append([]*auditlog.Entry{}, history.Runs...),
		o.Env.Now().Location()}
	if err := o.Print(answer); err != nil {
		return err
	}
	begun := int64(0)
	for i, e := range history.Runs {
		repeated := func(later *auditlog.Entry) bool { // all of the backup came back
			return later.BringsBack() && later.Outcome == auditlog.Done && later.Selection == e.Selection &&
				later.Store == e.Store && later.Host == e.Host
		}
		if e.Outcome == auditlog.Begun && (e.Undone == nil || e.Undone.Outcome != auditlog.Done) &&
			!(e.BringsBack() && slices.ContainsFunc(history.Runs[i+1:], repeated)) {
			begun++
		}
	}
	if begun > 0 {
		o.Note("%s begun, and nothing says how it ended: still going on, or killed",
			output.Count(begun, "run has", "runs have"))
	}
	return nil
}

// auditAnswer is the answer of audit.
type auditAnswer struct {
	SchemaVersion int               `json:"schema_version"`
	Complete      bool              `json:"complete"` // the store's part is in it
	Runs          []*auditlog.Entry `json:"runs"`
	zone          *time.Location    // of the times that people read
}

// Items implements output.Answer.
func (a *auditAnswer) Items() any { return a.Runs }

// Print implements output.Answer. What was run has a line of its own, since readers need it whole.
func (a *auditAnswer) Print(p *output.Printer) {
	if len(a.Runs) == 0 {
		return
	}
	columns := []output.Column{{Header: "TIME"}, {Header: "USER", Shrinks: 8, Drops: 2},
		{Header: "WHERE", Shrinks: 8, Drops: 3}, {Header: "CHANGED", Right: true, Drops: 1}, {Header: "OUTCOME"}}
	var rows [][]output.Cell
	for _, e := range a.Runs {
		style, outcome := output.AtEnd, string(e.Outcome)
		switch {
		case e.Outcome == auditlog.Done || e.Undone != nil && e.Undone.Outcome == auditlog.Done:
			style = output.Calm
		case e.Outcome == auditlog.Partly:
			style = output.Near
		}
		if e.Undone != nil {
			outcome += ", " + e.Undone.Text()
		}
		rows = append(rows, []output.Cell{{Text: a.clock(e.Time)}, {Text: who(e)}, {Text: cmp.Or(e.Context, e.Store)},
			{Text: e.ChangedText()}, {Text: outcome, Style: style}})
	}
	below := func(text string) {
		for _, line := range output.Wrap(output.Printable(text), p.Width-len(indent)) {
			p.Line("%s%s", indent, line)
		}
	}
	for i, line := range p.TableLines(columns, rows) {
		if fmt.Fprintln(p.Out, line); i == 0 {
			continue
		}
		e := a.Runs[i-1]
		below(e.CommandText() + because(e.Reason))
		switch undo := undoOf(e); {
		case e.Undone != nil:
			below(e.Undone.Text() + " " + a.clock(e.Undone.Time) + " by " + e.Undone.User)
		case undo != "": // which is pasted, so it stays whole
			p.Line("%s%s", indent, output.Printable(undo))
		}
	}
}

const indent = "    "

// clock writes an instant for people.
func (a *auditAnswer) clock(at time.Time) string { return at.In(a.zone).Format(time.DateTime) }

// undoOf is the command that brings back what a run has changed; "" for none.
func undoOf(e *auditlog.Entry) string {
	if e.Backup == "" || e.Undone != nil || !e.MayHaveChanged() {
		return ""
	}
	return shell.Command("limitctl", "undo", cmp.Or(e.Run, e.Backup))
}

// who is the user of a run, on which machine.
func who(e *auditlog.Entry) string {
	text := e.User
	if e.Account != "" {
		text += " as " + e.Account
	}
	if e.Host != "" {
		text += "@" + e.Host
	}
	return text
}
