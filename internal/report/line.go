package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// longestFact is how much is shown of a load, of a store's address and of a command line.
const longestFact = 600

// finding is a sentence for the reader, and how bad it is.
type finding struct {
	style output.Style
	text  string
}

func (f finding) mark() string {
	switch f.style {
	case output.Calm:
		return "✓"
	case output.AtEnd:
		return "✗"
	default:
		return "!"
	}
}

// Name makes a text of others fit to be shown: nothing invisible in it, and no
// longer than one reads.
func shortName(text string) string {
	const longest = 90
	return output.Cut(output.Printable(text), longest)
}

const (
	// indent is where the text of a labelled line begins.
	indent = 11
	// narrow is the width below which labels have lines of their own.
	narrow = 60
)

// line prints a text under a label, wrapped to the terminal.
func line(p *output.Printer, label string, style output.Style, text string) {
	at := indent
	if p.Width > 0 && p.Width < narrow {
		at = 2
		if label != "" {
			fmt.Fprintln(p.Out, p.Paint(output.Faint, label))
			label = ""
		}
	}
	for _, part := range output.Wrap(text, p.Width-at) {
		space := strings.Repeat(" ", at-output.Width(label))
		fmt.Fprintln(p.Out, strings.TrimRight(p.Paint(output.Faint, label)+space+p.Paint(style, part), " "))
		label = ""
	}
}

// Say prints a finding at the margin.
func say(p *output.Printer, style output.Style, text string) {
	f := finding{style, text}
	lead := f.mark() + " "
	for _, part := range output.Wrap(f.text, p.Width-2) {
		fmt.Fprintln(p.Out, p.Paint(f.style, lead+part))
		lead = "  "
	}
}

// mostReasons is how many reasons are shown to people before the rest is only counted.
const mostReasons = 8

// shortened is reasons as people are shown them.
func shortened(reasons []string) []string {
	if len(reasons) <= mostReasons+1 {
		return reasons
	}
	left := fmt.Sprintf("and %d more reasons; -o json lists them", len(reasons)-mostReasons)
	return append(slices.Clone(reasons[:mostReasons]), left)
}

// Labelled prints texts after a label in the same colour, a line or more for each.
func labelled(p *output.Printer, label string, style output.Style, texts []string) {
	at := max(indent, output.Width(label)+2)
	lead := p.Paint(style, label) + strings.Repeat(" ", at-output.Width(label))
	if p.Width > 0 && p.Width < narrow {
		lead = p.Paint(style, label) + "  "
	}
	rest := strings.Repeat(" ", at)
	if p.Width > 0 && p.Width < narrow {
		rest = strings.Repeat(" ", len(label)+2)
	}
	for _, text := range shortened(texts) {
		for _, part := range output.Wrap(output.Printable(text), p.Width-len(rest)) {
			fmt.Fprintln(p.Out, lead+p.Paint(style, part))
			lead = rest
		}
	}
}
