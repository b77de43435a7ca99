package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Printer returns where and how to print the answer.
func (g *Globals) Printer() *output.Printer {
	p := &output.Printer{Out: g.Env.Out, Data: g.Env.RawOut, Format: g.Format, Filter: g.filter, Quiet: g.Quiet,
		Color: g.Color()}
	if g.Env.OutIsTerminal {
		p.Data = g.Env.Out // somebody is looking at it
		p.Width, _ = g.Env.Size()
	}
	if c := g.inForce; c != nil && c.Source != (ConfigSource{}) {
		p.Config = c.Source
	}
	return p
}

// Color reports whether the answer is to have colours: on a terminal, or where the user wants them in any case, as for
// less -R and logs of CI. NO_COLOR wins.
func (g *Globals) Color() bool {
	if g.Env.Getenv("NO_COLOR") != "" {
		return false
	}
	for _, name := range []string{"FORCE_COLOR", "CLICOLOR_FORCE"} {
		if value := g.Env.Getenv(name); value != "" && value != "0" && value != "false" {
			return true
		}
	}
	return g.Env.OutIsTerminal && g.Env.Getenv("TERM") != "dumb" && g.Env.Getenv("CLICOLOR") != "0"
}

// Print prints an answer in the chosen format. A format that is one document is printed when the
// command ends, since an error is a field of the document.
func (g *Globals) Print(a output.Answer) (err error) {
	if err := g.answer.End(nil); err != nil { // of an answer before
		return NotPrinted(err)
	}
	g.WarnOfUnread()
	p := g.Printer()
	if g.answer, err = p.Hold(a); err != nil {
		return NotPrinted(err)
	}
	return nil
}

// Say writes one line to stderr, for any arguments. Note also writes whose line it is.
func (g *Globals) Say(format string, args ...any) {
	(&output.Printer{Out: g.Env.Err}).Line(format, args...)
}

// Note writes one line to stderr that begins with the name of the program.
func (g *Globals) Note(format string, args ...any) { g.Say("limitctl: "+format, args...) }

// Number writes a number for programs.
func Number(n int64) string { return strconv.FormatInt(n, 10) }

// OrDash writes a duration for a table, and a dash for none.
func OrDash(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return output.Duration(d)
}

// Warn prints a warning, unless --quiet is given.
func (g *Globals) Warn(text string) {
	if !g.Quiet {
		g.Note("warning: %s", text)
	}
}

// NotKnown stands for an unknown value in a table.
const NotKnown = "?"

// LongestKey is how many bytes of a key a message shows at most.
const LongestKey = 100

// readFilter reads --jq before the command does anything.
func (g *Globals) readFilter() (err error) {
	if !g.Changed("jq") {
		return nil
	}
	if g.Changed("output") && g.Format != "json" {
		return Usagef("--jq is for the JSON document; leave out -o %s", g.Format.String())
	}
	if g.filter, err = output.JQ(g.JQ); err != nil {
		return Usagef("--jq: %s", err)
	}
	g.Format = "json"
	return nil
}

// NoteUnsure prints the keys that look like a limiter's and were left out; left is the word for that, such as "not
// shown".
func (g *Globals) NoteUnsure(u *operation.Unsure, left string) {
	if u.Count == 0 {
		return
	}
	noTTL := ""
	if u.NoTTL > 0 {
		noTTL = fmt.Sprintf(", %s without TTL, which may deny for ever", output.Thousands(u.NoTTL))
	}
	g.Note("%s %s%s; select such keys with --layout NAME and a PATTERN of store keys:",
		output.Count(int(u.Count), "key"), left, noTTL)
	for _, key := range u.First {
		g.Say("  %s", output.Printable(output.Shorten(key.Text, 3*LongestKey)))
	}
	if more := u.Count - int64(len(u.First)); more > 0 {
		g.Say("  … and %s more", output.Thousands(more))
	}
}

// UsedText is how much of a limit is used, for people, such as 3/10.
func UsedText(e *admin.Entry) string {
	used, capacity := NotKnown, NotKnown
	if e.UsedKnown() {
		used = Number(e.Used)
	}
	if e.CapacityKnown() {
		capacity = Number(e.Limit.Capacity())
	}
	return used + "/" + capacity
}

// Ending says until when an override is in force, who set it and why.
func Ending(o *store.Override, now time.Time) string {
	text := fmt.Sprintf("until %s (%s left), by %s", Clock(o.ExpiresAt, now),
		output.Duration(o.Left.Truncate(time.Second)),
		output.Printable(o.By))
	if reason := strings.TrimSpace(o.Reason); reason != "" {
		text += ": " + output.Printable(reason)
	}
	return text
}

// PrintApplied prints each override that applies, once. Some may be nil.
func PrintApplied(p *output.Printer, applied []*store.Override, now time.Time) {
	said := map[string]bool{}
	for _, o := range applied {
		if o == nil || said[o.ID] {
			continue
		}
		said[o.ID] = true
		p.Line("override %s applies: %s %s", o.ID, allowance.Effect(o), Ending(o, now))
	}
}

// OperatorsText names an operator's override in a column of notes.
func OperatorsText(o *store.Override) string { return "operator's " + allowance.Effect(o) }

// WarnOfOverrides says that overrides do not apply, if err is why they could not be read.
func WarnOfOverrides(g *Globals, err error) {
	if err != nil {
		g.Warn("overrides cannot be read, and do not apply: " + Message(err))
	}
}

// OverridesOf reads the overrides that are in force in a store. With an error it also returns a
// list, of the overrides that it could read.
func OverridesOf(ctx context.Context, g *Globals, backend store.Store) (*store.OverrideList, error) {
	table, has := admin.TablesOf(backend)
	if !has {
		return store.NewOverrideList(nil), nil
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	overrides, _, err := table.Overrides(ctx)
	return store.NewOverrideList(overrides), err
}

// Clock writes an instant as people say it: the time of day, with the date unless it is
// that of now, and the zone.
func Clock(t, now time.Time) string {
	t = t.In(now.Location())
	layout := "2006-01-02 15:04:05 MST"
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		layout = "15:04:05 MST"
	}
	return t.Format(layout)
}
