package output

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// Wrap breaks text into lines no wider than width, between words where it can be
// helped. A width of 0 or less is no bound. Line ends in it are spaces, and what people
// would not see is escaped.
func Wrap(text string, width int) []string {
	text = Escape(strings.ReplaceAll(text, "\n", " "))
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line, columns := "", 0
	for word := range strings.FieldsSeq(text) {
		needs := runewidth.StringWidth(word)
		if line != "" && columns+1+needs <= width {
			line, columns = line+" "+word, columns+1+needs
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for needs > width && width > 1 { // a key, mostly
			head := runewidth.Truncate(word, width, "")
			lines, word = append(lines, head), word[len(head):]
			needs = runewidth.StringWidth(word)
		}
		line, columns = word, needs
	}
	return append(lines, line)
}

// Break breaks text into lines of that width wherever they end, and changes nothing
// else: put together again they are the text, as a command has to be.
func Break(text string, width int) (lines []string) {
	for width > 1 && runewidth.StringWidth(text) > width {
		head := runewidth.Truncate(text, width, "")
		lines, text = append(lines, head), text[len(head):]
	}
	return append(lines, text)
}
