package output

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// Width returns the width of a text without styles on a terminal. It does not depend on the locale: a character
// whose width differs between terminals, such as "…" or "█", counts as one column.
func Width(text string) int { return displaywidth.String(text) }

// Cut shortens a text without styles to a width, with an ellipsis for the missing part.
func Cut(text string, width int) string {
	switch {
	case Width(text) <= width:
		return text
	case width <= 0:
		return ""
	}
	return displaywidth.TruncateString(text, width, "…")
}

// splitAt returns the longest beginning of a text within a width, but at least one character, and the rest.
func splitAt(text string, width int) (head, rest string) {
	head = displaywidth.TruncateString(text, width, "")
	if head == "" {
		_, size := utf8.DecodeRuneInString(text)
		head = text[:size]
	}
	return head, text[len(head):]
}

// CutPainted is [Cut] for a text with styles. It ends any style.
func CutPainted(text string, width int) string {
	var b strings.Builder
	columns := 0 // the width so far
	for rest := text; rest != ""; {
		words, styled, _ := strings.Cut(rest, startOfStyle)
		if columns+Width(words) > width {
			b.WriteString(Cut(words, width-columns) + endOfStyle)
			return b.String()
		}
		b.WriteString(words)
		columns += Width(words)
		style, after, found := strings.Cut(styled, "m")
		if found {
			b.WriteString(startOfStyle + style + "m")
		}
		rest = after
	}
	return b.String()
}
