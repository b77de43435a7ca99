package configfile

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// String returns the entry's key in the form of a file: KEY or KEY=VALUE.
func (e *EnvoyEntry) String() string {
	if e.Fixed {
		return e.Key + "=" + e.Value
	}
	return e.Key
}

// IsPattern reports whether * in the entry's value stands for any text, if its descriptor is ordered.
func (e *EnvoyEntry) IsPattern() bool { return e.Fixed && strings.Contains(e.Value, "*") }

// IsOneValue reports whether an entry of d has the same value in all requests that match.
func (d *EnvoyDescriptor) IsOneValue(e *EnvoyEntry) bool {
	return e.Fixed && !(d.Ordered && e.IsPattern())
}

// emptyValue replaces an empty value, which no attribute can have. All clients without a value share their limits,
// since an error would let all of them pass.
const emptyValue = "(empty)"

// AttributeOf returns the form of an entry's value in keys. A long value is cut and ends with a hash of the whole
// value, so that a client cannot make its key too long to be limited. The key has room for all entries of d.
func (d *EnvoyDescriptor) AttributeOf(value string) string {
	if value == "" {
		return emptyValue
	}
	const (
		room    = 800 // of the 1,024 bytes of a subject; the rest is for names
		escaped = 3   // the most that a byte takes
		hash    = 24  // bytes: 192 bits
	)
	longest := max(room/max(len(d.Entries), 1), 48)
	if len(value) <= longest/escaped {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	mark := "~" + base64.RawURLEncoding.EncodeToString(sum[:hash])
	return value[:(longest-len(mark))/escaped] + mark
}
