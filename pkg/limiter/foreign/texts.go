package foreign

import (
	"errors"
	"strings"
)

// errNoUnit is of a window that is none of any unit.
var errNoUnit = errors.New("a counter of no unit that its window can have")

// errNotHash is of a hash of counters that holds something else.
var errNotHash = errors.New("a hash whose fields are not counters")

// cutLastColon cuts a text at its last colon.
func cutLastColon(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
}

// isDigits reports whether a text is one or more decimal digits.
func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// isUUID reports whether a text is a UUID with its dashes, in lower case.
func isUUID(text string) bool {
	const dashes = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(text) != len(dashes) {
		return false
	}
	for i := range len(dashes) {
		if isDash := dashes[i] == '-'; isDash != (text[i] == '-') || !isDash && !isHex(text[i:i+1]) {
			return false
		}
	}
	return true
}
