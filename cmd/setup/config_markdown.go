package setup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/markdown"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
)

// markdownFlag is the flag for a summary in Markdown, such as for a comment on a pull request.
type markdownFlag struct{ markdown string }

func (f *markdownFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.markdown, "markdown", "",
		"write the change in Markdown to `FILE`, or - for standard output; a file that $GITHUB_STEP_SUMMARY names is extended")
	cmd.MarkFlagFilename("markdown", "md")
}

// print prints an answer, and writes its summary. That of - is on standard output in place of the answer.
func (f *markdownFlag) print(g *cli.Globals, answer interface {
	output.Answer
	Markdown() []byte
}) error {
	var err error
	if f.markdown != cli.StandardOutput {
		err = g.Print(answer)
	}
	if f.markdown == "" {
		return err
	}
	if writeErr := cli.WriteSummary(g, f.markdown, answer.Markdown()); writeErr != nil {
		err = errors.Join(err, cli.NotPrinted(fmt.Errorf("%s: %w", shell.Command("--markdown", f.markdown), cli.Cause(writeErr))))
	}
	return err
}

// mostRows is the most rows of a table in a comment, which has a bound.
const mostRows = 100

// Markdown returns what differs as Markdown.
func (a *diffAnswer) Markdown() []byte {
	var b strings.Builder
	if a.ofKeys {
		a.writeKeys(&b)
	} else {
		a.writeLimits(&b)
	}
	a.writeTraffic(&b)
	return []byte(b.String())
}

// writeLimits writes the limits that differ.
func (a *diffAnswer) writeLimits(b *strings.Builder) {
	if len(a.rows) == 0 {
		b.WriteString("No limit changes.\n\n")
		return
	}
	var rows [][]string
	for i := range a.rows[:min(len(a.rows), mostRows)] {
		r := &a.rows[i]
		rows = append(rows, []string{markdown.Code(r.name()), markdown.Code(cmp.Or(r.When.Text(), "all others")),
			markdown.Text(string(r.Change)), markdown.Code(cmp.Or(r.Old, "-")), markdown.Code(cmp.Or(r.New, "-"))})
	}
	markdown.Table(b, []string{"limit", "for", "change", "old", "new"}, make([]bool, 5), rows)
	a.writeMore(b)
}

// writeKeys writes the keys in use whose limit changes.
func (a *diffAnswer) writeKeys(b *strings.Builder) {
	if len(a.rows) == 0 {
		b.WriteString("No key in use changes its limit.\n\n")
		return
	}
	var rows [][]string
	var over []string
	for i := range a.rows[:min(len(a.rows), mostRows)] {
		r := &a.rows[i]
		rows = append(rows, []string{markdown.Code(r.name()), cli.Number(r.keys), markdown.Text(string(r.Change)),
			markdown.Code(cmp.Or(r.Old, "-")), markdown.Code(cmp.Or(r.New, "-")), markdown.Text(r.overText())})
		for _, key := range r.worst[:min(len(r.worst), shownOver)] {
			over = append(over, fmt.Sprintf("- %s has %s in use, over %s\n", markdown.Code(key.Subject), cli.Number(key.Used),
				markdown.Code(r.New)))
		}
	}
	right := []bool{false, true, false, false, false, true}
	markdown.Table(b, []string{"limit", "keys in use", "change", "old", "new", "over"}, right, rows)
	a.writeMore(b)
	if len(over) > 0 {
		b.WriteString(strings.Join(over, "") + "\n")
	}
}

// writeMore says how many rows are left out.
func (a *diffAnswer) writeMore(b *strings.Builder) {
	if more := len(a.rows) - mostRows; more > 0 {
		fmt.Fprintf(b, "and %s more\n\n", cli.Number(int64(more)))
	}
}

// Markdown returns what a publication changes, as a comment for those who review it.
func (a *answer) Markdown() []byte {
	var b strings.Builder
	place := markdown.Code(a.place)
	switch {
	case a.same:
		fmt.Fprintf(&b, "### Limits: nothing changes in %s\n\nVersion %d, which is in force, has the same text.\n", place, a.before)
		return []byte(b.String())
	case a.dryRun:
		fmt.Fprintf(&b, "### Limits: what would change in %s\n\n", place)
	default:
		fmt.Fprintf(&b, "### Limits: version %d in %s\n\n", a.next, place)
	}
	a.limits.writeLimits(&b)
	if a.keys != nil {
		a.keys.writeKeys(&b)
	}
	return []byte(b.String())
}

// writeTraffic writes what recorded traffic would have got.
func (a *diffAnswer) writeTraffic(b *strings.Builder) {
	if len(a.traffic) == 0 {
		return
	}
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return cli.Number(*n)
	}
	var rows [][]string
	for _, t := range a.traffic {
		rows = append(rows, []string{markdown.Code(t.Policy), cli.Number(t.Requests), number(t.DeniedBefore), number(t.DeniedAfter),
			markdown.Text(t.Error)})
	}
	header := []string{"recorded traffic of", "requests", "denied before", "denied after", ""}
	right := []bool{false, true, true, true, false}
	if !slices.ContainsFunc(a.traffic, func(t traffic) bool { return t.Error != "" }) {
		for i := range rows {
			rows[i] = rows[i][:4]
		}
		header, right = header[:4], right[:4]
	}
	markdown.Table(b, header, right, rows)
}
