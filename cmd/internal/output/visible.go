package output

import (
	"github.com/limitctl/limitctl/internal/textprefix"
	"github.com/limitctl/limitctl/internal/visible"
)

// Escape is [visible.Escape].
func Escape(text string) string { return visible.Escape(text) }

// Printable is [visible.Quote].
func Printable(text string) string { return visible.Quote(text) }

// Shorten cuts a text that is longer than that many bytes, and adds how much is missing.
func Shorten(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	head := textprefix.Of(text, longest)
	return head + "… (" + Bytes(int64(len(text)-len(head))) + " more)"
}
