package output

import (
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"

	"github.com/limitctl/limitctl/internal/texts"
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

// Escape is [texts.Escape].
func Escape(text string) string { return texts.Escape(text) }

// Printable is [texts.Quote].
func Printable(text string) string { return texts.Quote(text) }

// Shorten cuts a text that is longer than that many bytes, and adds how much is missing.
func Shorten(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	head := texts.Prefix(text, longest)
	return head + "… (" + Bytes(int64(len(text)-len(head))) + " more)"
}
