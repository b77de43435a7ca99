package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// Printer returns where and how to print the answer.
func (g *Globals) Printer() *output.Printer {
	p := &output.Printer{Out: g.Env.Out, Data: g.Env.RawOut, Format: g.Format, Filter: g.Filter, Quiet: g.Quiet, Color: g.Color()}
	if g.Env.OutIsTerminal {
		p.Data = g.Env.Out // somebody is looking at it
		p.Width, _ = g.Env.Size()
	}
	return p
}

// Color reports whether the answer is to have colours: on a terminal, or where the user wants them in any case, as for less -R
// and logs of CI. NO_COLOR wins.
func (g *Globals) Color() bool {
	if g.Env.Getenv("NO_COLOR") != "" {
		return false
	}
	for _, name := range []string{"FORCE_COLOR", "CLICOLOR_FORCE"} {
		if value := g.Env.Getenv(name); value != "" && value != "0" && value != "false" {
			return true
		}
	}
	return g.Env.OutIsTerminal && g.Env.Getenv("TERM") != "dumb"
}

// Print prints an answer in the chosen format. A format that is one document is printed when the
// command ends, since an error is a field of the document.
func (g *Globals) Print(a output.Answer) (err error) {
	if err := g.answer.End(nil); err != nil { // of an answer before
		return NotPrinted(err)
	}
	p := g.Printer()
	if g.answer, err = p.Hold(a); err != nil {
		return NotPrinted(err)
	}
	WarnOfFormulas(g, p)
	return nil
}

// Say writes one line to stderr, for any arguments. Note also writes whose line it is.
func (g *Globals) Say(format string, args ...any) {
	(&output.Printer{Out: g.Env.Err}).Line(format, args...)
}

// Note writes one line to stderr that begins with the name of the program.
func (g *Globals) Note(format string, args ...any) { g.Say("limitctl: "+format, args...) }

// WarnOfFormulas warns if a spreadsheet would run or hide cells of the CSV that was printed.
func WarnOfFormulas(g *Globals, p *output.Printer) {
	if n := p.FormulaCells(); n > 0 {
		g.Note("warning: a spreadsheet would take %s for formulas; import them as text", output.Plural(n, "cell"))
	}
	if n := p.HiddenCells(); n > 0 && !g.Env.OutIsTerminal {
		g.Note("warning: %s with control characters, or with bytes that are not UTF-8; CSV has them as they are, and -o json escapes them",
			CountOf(int64(n), "cell was printed", "cells were printed"))
	}
}

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

// CountOf writes a number with the words for one thing or for several.
func CountOf(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return output.Thousands(n) + " " + several
}

// NotKnown stands for an unknown value in a table.
const NotKnown = "?"

// LongestKey is how many bytes of a key a message shows at most.
const LongestKey = 100

// namesAnnotation marks the commands that have -o name.
const namesAnnotation = "limitctl-names"

// ListsNames gives a command -o name. Its CSV has a column of names.
func ListsNames(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{namesAnnotation: "true"}
	return cmd
}

// ReadFilter reads --jq, and checks -o name, before the command does anything.
func (g *Globals) ReadFilter(cmd *cobra.Command) (err error) {
	if g.Format == output.Names && cmd.Annotations[namesAnnotation] == "" {
		return Usagef("-o name is for commands that list things, such as inspect, denials and override list; for `%s` give one of %s",
			cmd.CommandPath(), strings.Join(output.Formats(), ", "))
	}
	if !g.Changed("jq") {
		return nil
	}
	if g.Changed("output") && g.Format != "json" {
		return Usagef("--jq is for the JSON document; leave out -o %s", g.Format.String())
	}
	if g.Filter, err = output.JQ(g.JQ); err != nil {
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
	if u.NeverExpire > 0 {
		noTTL = fmt.Sprintf(", %s without TTL, which may deny for ever", output.Thousands(u.NeverExpire))
	}
	g.Note("%s %s%s; select such keys with --layout NAME and a PATTERN of store keys:", output.Plural(int(u.Count), "key"), left, noTTL)
	for _, key := range u.First {
		g.Say("  %s", output.Printable(output.Shorten(key.Error(), 3*LongestKey)))
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
