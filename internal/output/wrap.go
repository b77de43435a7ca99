package output

import (
	"fmt"
	"strings"
)

// Wrap breaks text into lines of at most width, between words if possible. A width of 0 or less means no bound.
// Line ends in the text become spaces, and invisible characters are escaped.
func Wrap(text string, width int) []string {
	text = Escape(strings.ReplaceAll(text, "\n", " "))
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line, columns := "", 0
	for word := range strings.FieldsSeq(text) {
		needs := Width(word)
		if line != "" && columns+1+needs <= width {
			line, columns = line+" "+word, columns+1+needs
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for needs > width && width > 1 { // usually a key
			var head string
			head, word = splitAt(word, width)
			lines = append(lines, head)
			needs = Width(word)
		}
		line, columns = word, needs
	}
	return append(lines, line)
}

// besideLabel is the width below which a text goes under its label instead of next to it.
const besideLabel = 40

// Labelled prints a text after a label of indent columns. Where the text is too long it goes on below its own beginning.
// Labelled returns how many columns it has indented the text by.
func (p *Printer) Labelled(label string, indent int, text string) int {
	if p.Width > 0 && p.Width-indent < besideLabel {
		fmt.Fprintln(p.Out, strings.TrimRight(label, " "))
		label, indent = "  ", 2
	}
	for _, line := range Wrap(text, p.Width-indent) {
		fmt.Fprintln(p.Out, label+line)
		label = strings.Repeat(" ", indent)
	}
	return indent
}

// Break breaks text into lines of at most that width, also within words. The joined lines are exactly the text, so
// that a command can be pasted.
func Break(text string, width int) (lines []string) {
	for width > 1 && Width(text) > width {
		var head string
		head, text = splitAt(text, width)
		lines = append(lines, head)
	}
	return append(lines, text)
}
