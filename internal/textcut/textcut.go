// Package textcut cuts texts that are too long to store or to show.
package textcut

import "unicode/utf8"

// Prefix returns the longest beginning of text that has at most that many bytes and does
// not end within a character.
func Prefix(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	end := max(bytes, 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
