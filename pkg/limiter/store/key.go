package store

import (
	"strings"
	"unicode"
	"unicode/utf8"
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

// Validate returns an [ErrInvalid] if k is not a valid key. A subject or a name is UTF-8 of 1 to MaxSubjectLength
// (MaxNameLength) bytes without control characters, "{" or "}": the braces delimit the subject in a store key. The
// Name may be empty.
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
