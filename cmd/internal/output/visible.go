package output

import (
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/visible"
)

// Escape is [visible.Escape].
func Escape(text string) string { return visible.Escape(text) }

// Printable is [visible.Quote].
func Printable(text string) string { return visible.Quote(text) }

// Shorten cuts a text that is longer than so many bytes, and says how much is left out.
func Shorten(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	end := longest
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "… (" + Bytes(int64(len(text)-end)) + " more)"
}
