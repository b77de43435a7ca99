package output

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// Width is how many columns of a terminal a text takes. The text has no styles in it. It
// is the same in every locale: a character whose width differs between terminals, such as
// "…" or "█", is one column wide.
func Width(text string) int { return displaywidth.String(text) }

// Cut shortens a text without styles to a width in columns, with an ellipsis in place of
// what is left out.
func Cut(text string, width int) string {
	switch {
	case Width(text) <= width:
		return text
	case width <= 0:
		return ""
	}
	return displaywidth.TruncateString(text, width, "…")
}

// splitAt returns the longest beginning of a text that is not wider than that many columns,
// but at least one character, and the rest.
func splitAt(text string, width int) (head, rest string) {
	head = displaywidth.TruncateString(text, width, "")
	if head == "" {
		_, size := utf8.DecodeRuneInString(text)
		head = text[:size]
	}
	return head, text[len(head):]
}

// CutPainted is [Cut] for a text with styles in it. It leaves no style on.
func CutPainted(text string, width int) string {
	var b strings.Builder
	columns := 0 // how many were written
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
