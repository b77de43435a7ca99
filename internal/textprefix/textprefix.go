// Package textprefix cuts texts that are too long to store or to print in full. It imports
// the standard library only, since services get it with their store.
package textprefix

import "unicode/utf8"

// Of returns the longest beginning of text with at most that many bytes that does not end within a character.
func Of(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	end := max(bytes, 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
