package see

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/began"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// handoverChanges is how far back a handover shows changes.
	handoverChanges = 12 * time.Hour
	// topDenied is how many keys it names at most.
	topDenied = 10
	// mostBegan is how many limits that began to deny, and how many changes before each, are shown.
	mostBegan = 3
)

// NewHandoverCmd makes limitctl handover.
func NewHandoverCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "handover",
		Short: "Show what the next shift has to know, on one screen",
		Long: `Handover shows which published version is in force and who has it, the overrides
in force, what was changed in the last 12 hours, which denials began in the last
10 minutes, and who was denied most in them. On a terminal it takes one screen,
and says of each part how much more there is and which command shows it.

Below each limit whose denials began are the changes in the 10 minutes before
that were about its keys, and a command that may help: a block or a rollback.

If a part cannot be read, it says so, shows the others, and the exit code is 5.`,
		Example: `  limitctl handover
  limitctl handover --context prod -o json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runHandover(cmd.Context(), global) },
	}
}

// The parts of a handover.
const (
	partConfig    = "config"
	partOverrides = "overrides"
	partChanges   = "changes"
	partDenials   = "denials"
	handoverParts = 4
)

// handoverAnswer is what the next shift has to know.
type handoverAnswer struct {
	SchemaVersion int                  `json:"schema_version"`
	At            time.Time            `json:"at"`
	Place         string               `json:"place"`     // the context, or the store
	Processes     []published.Process  `json:"processes"` // that follow what is published
	Overrides     []allowance.Document `json:"overrides"`
	Changes       []*auditlog.Entry    `json:"changes"` // of the last 12 hours, the latest first
	Began         *began.Began         `json:"began"`   // null if no denials began in the last 10 minutes
	Denials       denialSums           `json:"denials"`
	Unread        []unread             `json:"unread"` // the parts that could not be read whole

	now        time.Time
	rows       int                // of the terminal; 0 for no bound
	version    *published.Version // nil if nothing is published
	inForce    []*store.Override
	denials    denialsAnswer
	notCounted string // why nobody counts denials
}

// unread is why a part could not be read.
type unread struct {
	Part  string `json:"part"` // config, overrides, changes or denials
	Error string `json:"error"`
	err   error
}

func runHandover(ctx context.Context, g *cli.Globals) error {
	s, err := g.Settings()
	if err != nil {
		return err
	}
	backend, where, err := g.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	now := g.Env.Now()
	a := &handoverAnswer{SchemaVersion: output.SchemaVersion, At: output.UTC(now), now: now, Place: s.Place(where),
		Processes: []published.Process{}, Overrides: []allowance.Document{}, Changes: []*auditlog.Entry{},
		Unread: []unread{}, denials: denialsAnswer{span: began.Window}}
	if g.Env.OutIsTerminal {
		_, a.rows = g.Env.Size()
	}
	a.read(partConfig, a.readConfig(ctx, g, backend))
	overrides, err := cli.NewRunner(g, s, backend, where).Overrides(ctx)
	list := store.NewOverrideList(overrides)
	for _, o := range list.All() {
		a.inForce, a.Overrides = append(a.inForce, &o), append(a.Overrides, allowance.NewDocument(&o))
	}
	if a.read(partOverrides, err); err != nil {
		list = nil
	}
	history, err := cli.ReadJournal(ctx, g, backend, false, auditlog.Query{Keep: func(e *auditlog.Entry) bool {
		return !e.Time.Before(now.Add(-handoverChanges))
	}})
	if err != nil {
		return err
	}
	a.Changes = append(a.Changes, history.Runs...)
	slices.Reverse(a.Changes)
	a.notCounted = g.NotCounted(ctx)
	beganErr, err := a.readDenials(ctx, g, backend, list)
	a.read(partChanges, cmp.Or(history.StoreError, beganErr))
	a.read(partDenials, err)
	if a.Began != nil && !s.Access().ReadOnly {
		for _, l := range a.Began.Limits {
			if l.Command != nil {
				l.Line = cli.CommandHere(g, s, l.Command...)
			}
		}
	}
	switch {
	case len(a.Unread) == 0:
		return g.Print(a)
	case len(a.Unread) == handoverParts: // there is nothing to hand over
		return a.Unread[0].err
	}
	return cmp.Or(g.Print(a), outcome.Partly(a.Unread[0].err))
}

// read notes why a part could not be read, if there is an error.
func (a *handoverAnswer) read(part string, err error) {
	if err != nil {
		a.Unread = append(a.Unread, unread{part, cli.Message(err), err})
	}
}

// readConfig reads which version is in force, and who has it.
func (a *handoverAnswer) readConfig(ctx context.Context, g *cli.Globals, backend store.Store) error {
	c, err := g.InForce(ctx)
	if err != nil {
		return err
	}
	table, err := published.TableOf(backend)
	if err != nil {
		return nil
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	if a.version = c.Published; a.version == nil {
		return published.Lost(ctx, table)
	}
	processes, err := published.Processes(ctx, table)
	a.Processes = append(a.Processes, processes...)
	return err
}

// readDenials reads who was denied most, and which denials began, for which the overrides in force have to be known.
func (a *handoverAnswer) readDenials(ctx context.Context, g *cli.Globals, backend store.Store,
	list *store.OverrideList) (ofBegan, err error) {
	table, has := admin.TablesOf(backend)
	if !has {
		return nil, store.Invalidf("this store keeps no denials")
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	denials, err := table.Denials(ctx, began.Window)
	all, _ := store.ParsePattern("*")
	a.denials.add(&denials, all)
	limits, shadows := 0, 0
	a.denials.rows = slices.DeleteFunc(a.denials.rows, func(row *denialRow) bool {
		of := &limits
		if row.shadow {
			of = &shadows
		}
		if row.Denied > 0 {
			*of++
		}
		return row.Denied == 0 || *of > topDenied
	})
	a.Denials = a.denials.denialSums
	a.Denials.Denials = ofKeys(a.denials.rows)
	a.Began, ofBegan = began.Find(ctx, table, &denials, list)
	return ofBegan, err
}

// Print implements output.Answer. On a terminal it takes one screen: each part gets as many rows as fit, the same
// number.
func (a *handoverAnswer) Print(p *output.Printer) {
	for most := cmp.Or(a.rows, math.MaxInt); ; most-- {
		var text bytes.Buffer
		s := &screen{Printer: *p, most: most}
		s.Out = &text
		a.print(s)
		const shell = 2 // the lines of the prompt and of an error
		if a.rows == 0 || most == 0 || bytes.Count(text.Bytes(), []byte("\n"))+s.wrapped+shell <= a.rows {
			_, _ = p.Out.Write(text.Bytes())
			return
		}
	}
}

// screen is where a handover is drawn.
type screen struct {
	output.Printer
	most    int // rows of a part
	wrapped int // further lines that commands take
}

// line draws one line of the terminal.
func (s *screen) line(style output.Style, text string) {
	if text = output.Escape(text); s.Width > 0 {
		text = output.Cut(text, s.Width)
	}
	s.Line("%s", s.Paint(style, text))
}

// part draws the headline of a part and its rows, as many as there is room for. left is how many more there are, and
// command shows all of them.
func (a *handoverAnswer) part(s *screen, part, headline, count string, columns []output.Column, rows [][]output.Cell,
	left int, command string) {
	at := slices.IndexFunc(a.Unread, func(u unread) bool { return u.Part == part })
	switch {
	case at >= 0 && len(rows) == 0: // then there may be any number
		count = "cannot be read"
	case at >= 0:
		count += "; not all can be read"
	}
	if s.line(output.Bold, headline+"  "+count); at >= 0 {
		s.line(output.AtEnd, "  "+a.Unread[at].Error)
	}
	shown := min(s.most, len(rows))
	if shown > 0 {
		within := s.Printer
		within.Width = max(0, s.Width-2)
		for _, text := range within.TableLines(columns, rows[:shown])[1:] { // without the header
			s.Line("  %s", text)
		}
	}
	if left += len(rows) - shown; left > 0 {
		s.line(output.Plain, fmt.Sprintf("  … and %s more: %s", output.Thousands(int64(left)), command))
	}
}

// cells are the cells of a row of texts.
func cells(texts ...string) []output.Cell {
	row := make([]output.Cell, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	return row
}

// whole is a column that is never cut, long one that may be, and less one that may be missing, too.
var whole, long, less = output.Column{}, output.Column{Shrinks: 8}, output.Column{Shrinks: 8, Drops: 1}

func (a *handoverAnswer) print(s *screen) {
	s.line(output.Faint, "handover of "+a.now.Format("2006-01-02 15:04 MST")+" in "+a.Place)
	a.printConfig(s)
	a.printOverrides(s)
	a.printChanges(s)
	a.printBegan(s)
	a.printDenials(s)
}

// printConfig draws nothing if nothing is published.
func (a *handoverAnswer) printConfig(s *screen) {
	v, text := a.version, ""
	var rows [][]output.Cell
	switch {
	case v != nil:
		text = fmt.Sprintf("version %d, published %s by %s: %s", v.Number, cli.Clock(v.At, a.now),
			output.Printable(v.By), output.Printable(v.Reason))
	case !slices.ContainsFunc(a.Unread, func(u unread) bool { return u.Part == partConfig }):
		return
	}
	for i := range a.Processes {
		p := &a.Processes[i]
		row := cells(p.Name+" on "+p.Host, "version "+p.VersionText(), p.Error)
		switch {
		case p.Compares:
			row[1].Text = "by a file"
		case !p.Has(v.Number, v.Hash):
			row[1] = output.Cell{Text: row[1].Text + "  lags", Style: output.Near}
		}
		rows = append(rows, row)
	}
	a.part(s, partConfig, "CONFIG", text, []output.Column{long, whole, less}, rows, 0, "limitctl config status")
}

func (a *handoverAnswer) printOverrides(s *screen) {
	blocks := 0
	var rows [][]output.Cell
	for _, o := range a.inForce {
		if o.Effect == store.OverrideBlock {
			blocks++
		}
		rows = append(rows, cells(o.ID, allowance.Effect(o), allowance.WhomText(o),
			output.Duration(o.Left.Truncate(time.Second))+" left", "by "+o.By+because(o.Reason)))
	}
	count := output.Count(len(rows), "override")
	if blocks > 0 {
		count += " (" + output.Count(blocks, "block") + ")"
	}
	a.part(s, partOverrides, "IN FORCE", count, []output.Column{whole, whole, long, whole, less}, rows, 0,
		"limitctl override list")
}

func (a *handoverAnswer) printChanges(s *screen) {
	var rows [][]output.Cell
	for _, e := range a.Changes {
		text := e.CommandText()
		switch {
		case e.CountsKeys() && e.Outcome == auditlog.Begun: // it is not known how many it changed
			text += ", begun on " + output.Count(e.Matched, "key")
		case e.CountsKeys():
			text += ", " + output.Count(e.Changed, "key")
		}
		if e.Outcome != auditlog.Done && e.Outcome != auditlog.Begun {
			text += ", " + string(e.Outcome)
		}
		if undo := undoOf(e); undo != "" && e.Outcome == auditlog.Begun {
			text += "; " + undo + " brings back what it changed"
		} else if e.Undone != nil {
			text += ", " + e.Undone.Text() + " " + cli.Clock(e.Undone.Time, a.now) + " by " + e.Undone.User
		}
		rows = append(rows, cells(cli.Clock(e.Time, a.now), who(e), text+because(e.Reason)))
	}
	since, count := store.FormatPeriod(handoverChanges), output.Count(len(rows), "run")
	if len(rows) > 1 {
		count += ", the latest first"
	}
	a.part(s, partChanges, "CHANGED in the last "+since, count, []output.Column{whole, long, long}, rows, 0,
		shell.Command("limitctl", "audit", "--since", since))
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// printBegan draws nothing if no denials began lately.
func (a *handoverAnswer) printBegan(s *screen) {
	b := a.Began
	if b == nil {
		return
	}
	s.line(output.Bold, "BEGAN in the last "+store.FormatPeriod(began.Window)+"  "+a.denials.denials(b.Denied))
	shown, written := b.Limits[:min(mostBegan, s.most, len(b.Limits))], ""
	for _, l := range shown {
		s.line(output.Plain, "  "+cli.Clock(l.Since, a.now)+"  "+l.Name+"  "+a.denials.count(l.Denied)+" denied, "+
			output.Count(l.Keys, "key"))
		for _, e := range l.Changes[:min(mostBegan, len(l.Changes))] {
			s.line(output.Plain, "    "+after(e, a.now))
		}
		if l.Line != "" && l.Line != written { // it is pasted, so it stays whole
			written = l.Line
			s.Line("    %s", l.Line)
			s.wrapped += (3 + output.Width(l.Line)) / max(1, s.Width)
		}
	}
	if left := len(b.Limits) - len(shown); left > 0 {
		s.line(output.Plain, "  … and "+output.Thousands(int64(left))+" more: limitctl denials --by limit --sort since")
	}
}

// after says which change came before denials.
func after(e *auditlog.Entry, now time.Time) string {
	return "after " + e.CommandText() + " " + cli.Clock(e.Time, now) + " by " + who(e) + because(e.Reason)
}

func (a *handoverAnswer) printDenials(s *screen) {
	d := &a.denials
	text := cmp.Or(a.notCounted, "no denial was counted")
	if d.Denied > 0 {
		text = d.denials(d.Denied+d.Others) + " of " + output.Count(d.keys, "key")
	}
	if d.Blocked > 0 {
		text += "; " + d.count(d.Blocked) + " blocked"
	}
	var rows [][]output.Cell
	for _, row := range d.rows {
		style, text := output.AtEnd, "since "+ago(row.all.Since, d.now)+", last "+ago(row.all.LastAt, d.now)
		switch {
		case row.shadow:
			style, text = output.Faint, "would be denied by a shadow limit"
		case row.all.LastAt.Until(d.now) > admin.DenialPause:
			text = "over since " + ago(row.all.LastAt, d.now)
		}
		rows = append(rows, append([]output.Cell{{Text: d.count(row.Denied), Style: style}},
			cells(subjecttext.Readable(row.key.Subject), row.key.Name, text)...))
	}
	a.part(s, partDenials, "DENIED in the last "+store.FormatPeriod(began.Window), text,
		[]output.Column{{Right: true}, long, long, {Drops: 1}}, rows, max(0, d.keys-topDenied), "limitctl denials")
}
