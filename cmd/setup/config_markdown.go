package setup

import (
	"errors"
	"fmt"
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
	a.write(&b)
	if len(a.traffic) > 0 {
		columns, rows := trafficTable(a.traffic)
		writeTable(&b, columns, rows)
	}
	for _, t := range a.traffic {
		if t.Error != "" {
			fmt.Fprintf(&b, "- %s was not tried: %s\n", markdown.Code(t.Policy), markdown.Text(t.Error))
		}
	}
	return []byte(b.String())
}

// write writes the limits that differ, or the keys in use whose limit changes.
func (a *diffAnswer) write(b *strings.Builder) {
	switch {
	case len(a.rows) > 0:
		columns, rows := a.table()
		writeTable(b, columns, rows)
	case a.ofKeys:
		b.WriteString("No key in use changes its limit.\n\n")
	default:
		b.WriteString("No limit changes.\n\n")
	}
}

// writeTable writes a table as Markdown.
func writeTable(b *strings.Builder, columns []output.Column, rows [][]output.Cell) {
	header, right := make([]string, len(columns)), make([]bool, len(columns))
	for i, column := range columns {
		header[i], right[i] = strings.ToLower(column.Header), column.Right
	}
	cells := make([][]string, min(len(rows), mostRows))
	for i := range cells {
		for _, cell := range rows[i] {
			cells[i] = append(cells[i], markdown.Code(cell.Text))
		}
	}
	markdown.Table(b, header, right, cells)
	if more := len(rows) - mostRows; more > 0 {
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
	a.limits.write(&b)
	if a.keys != nil {
		a.keys.write(&b)
	}
	return []byte(b.String())
}
