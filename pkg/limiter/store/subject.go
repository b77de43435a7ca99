package store

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/subjecttext"
)

// What a subject made by [Subject] has at most, in bytes, and what a shortened one ends in:
// a mark that is never part of an escaped text, and 192 bits of a hash.
const (
	maxMadeSubject = 200
	hashMark       = "%~"
	hashBytes      = 24
)

// Subject makes a valid subject of any parts: Subject("user", "42") is "user:42". Use it
// where a part comes from outside, such as a user agent or a path.
//
// "%", ":", the braces, control characters and bytes that are not UTF-8 are written as %XX in each part, and an empty
// part as "%". An IPv6 address as the last part keeps its colons where that can only be read as an address. Policies
// write the attributes of their keys in the same way.
//
// A subject of more than 200 bytes is cut, and a hash of all parts (192 bits of SHA-256)
// stands in place of the rest, so that a long path costs no more memory than that. Its
// beginning can still be selected by a pattern, such as 'path:/api/*'.
//
// Different parts never make the same subject, if no hash collides. The same parts make
// the same subject in all versions of this package.
func Subject(parts ...string) string {
	text := joinParts(parts)
	if len(text) <= maxMadeSubject {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	hash := base64.RawURLEncoding.EncodeToString(sum[:hashBytes])
	return cutAt(text, maxMadeSubject-len(hashMark)-len(hash)) + hashMark + hash
}

// joinParts writes any two lists of parts in different ways.
func joinParts(parts []string) string {
	if len(parts) == 0 {
		return "%%"
	}
	var b strings.Builder
	starts := make([]int, len(parts))
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(':')
		}
		starts[i] = b.Len()
		if part == "" {
			b.WriteByte('%')
		}
		b.WriteString(subjecttext.Escape(part))
	}
	text, start, last := b.String(), starts[len(starts)-1], parts[len(parts)-1]
	asAddress := func(text string) bool { // from a part before the last one on
		for _, start := range starts[:len(starts)-1] {
			if subjecttext.IsPlainIPv6(text[start:]) {
				return true
			}
		}
		return false
	}
	if subjecttext.IsPlainIPv6(last) {
		if readable := text[:start] + last; !asAddress(readable) {
			return readable
		}
	}
	if asAddress(text) { // eight parts that look like one address
		return fmt.Sprintf("%s%%%02X%s", text[:start], last[0], last[1:])
	}
	return text
}

// cutAt returns the beginning of text, at most length bytes of it, without the beginning of
// a character or of an escape at its end.
func cutAt(text string, length int) string {
	for !utf8.RuneStart(text[length]) {
		length--
	}
	if i := strings.LastIndexByte(text[max(0, length-2):length], '%'); i >= 0 {
		return text[:max(0, length-2)+i]
	}
	return text[:length]
}
