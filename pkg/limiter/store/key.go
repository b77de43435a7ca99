package store

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/subjecttext"
)

// DefaultPrefix is the default prefix of store keys.
const DefaultPrefix = "rl"

// Bounds on the parts of a key, in bytes.
const (
	MaxSubjectLength = 1024
	MaxNameLength    = 1024
	MaxPrefixLength  = 256
)

// Key identifies a state: a subject (who is limited, "user:42") and the name of one of its limits
// ("login/ip-minute"). If Name is empty, [Limit.DefaultName] is the name.
type Key struct {
	Subject string
	Name    string
}

// Validate returns an [ErrInvalid] if k is not a valid key. A subject or a name is UTF-8 of 1 to 1024 bytes without
// control characters and braces, which delimit the subject in a store key. The Name may be empty.
func (k Key) Validate() error {
	if err := checkPart("subject", k.Subject, MaxSubjectLength); err != nil {
		return err
	}
	if k.Name == "" {
		return nil
	}
	return checkPart("name", k.Name, MaxNameLength)
}

// String returns the subject and, where there is one, the name: "user:42 login/ip".
func (k Key) String() string {
	if k.Name == "" {
		return k.Subject
	}
	return k.Subject + " " + k.Name
}

// ValidatePrefix returns an [ErrInvalid] if prefix is not a valid prefix of store keys. The rules are those of a
// subject. In addition, it has no "!", which follows the prefix in keys that do not hold a limit.
func ValidatePrefix(prefix string) error {
	if strings.Contains(prefix, "!") {
		return Invalidf("prefix %q contains %q, which tells other keys from those of limits; leave it out", prefix, '!')
	}
	return checkPart("prefix", prefix, MaxPrefixLength)
}

func checkPart(what, text string, maxLength int) error {
	switch {
	case text == "":
		return Invalidf("%s is empty; it needs at least one character", what)
	case len(text) > maxLength:
		return Invalidf("%s %.20q… is %d bytes long; at most %d fit", what, text, len(text), maxLength)
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > 'z' { // not the usual ASCII below the braces
			return checkCharacters(what, text)
		}
	}
	return nil
}

func checkCharacters(what, text string) error {
	if !utf8.ValidString(text) {
		return Invalidf("%s %q is not valid UTF-8", what, text)
	}
	for _, r := range text {
		switch {
		case r == '{' || r == '}':
			return Invalidf("%s %q contains %q, which delimits the subject in a key; leave it out", what, text, r)
		case unicode.IsControl(r):
			return Invalidf("%s %q contains the control character %U; leave it out", what, text, r)
		}
	}
	return nil
}

// What a subject made by [Subject] has at most, in bytes, and what a shortened one ends in: a mark and a hash.
const (
	maxMadeSubject = 200
	hashMark       = "%~"
	hashBytes      = 24
)

// Subject makes a valid subject of any parts, such as of a path from outside: Subject("user", "42") is "user:42".
//
// "%", ":", the braces, control characters and bytes that are not UTF-8 are written as %XX in each part, and an empty
// part as "%". An IPv6 address as the last part keeps its colons where that is unambiguous. In place of what is beyond
// 200 bytes stands a hash of all parts. Different parts never make the same subject, in all versions of this package.
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

// cutAt returns at most length bytes of the beginning of text, without half a character or escape at its end.
func cutAt(text string, length int) string {
	for !utf8.RuneStart(text[length]) {
		length--
	}
	if i := strings.LastIndexByte(text[max(0, length-2):length], '%'); i >= 0 {
		return text[:max(0, length-2)+i]
	}
	return text[:length]
}
