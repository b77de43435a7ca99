package layouts

import (
	"bytes"
	"strings"

	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// IsOwn reports whether limitctl wrote a value itself, under whatever prefix: the record of a
// limit, or what it keeps with limits.
func IsOwn(value *Value) bool {
	if value.Type == StringValue && bytes.HasPrefix(value.Text, []byte(recordformat.Magic)) {
		if _, err := store.DecodeRecordLimit(value.Text); err == nil {
			return true
		}
	}
	_, rest, is := strings.Cut(value.StoreKey, "!")
	return is && isKeptWithLimits(rest)
}

// isKeptWithLimits reports whether it is what follows the prefix and "!" in a key of limitctl.
func isKeptWithLimits(name string) bool {
	tag, rest, hasTag := strings.Cut(strings.TrimPrefix(name, "{"), "}")
	if !hasTag || !strings.HasPrefix(name, "{") {
		return name == "id" || isToken(name)
	}
	switch {
	case tag == "audit":
		return rest == ""
	case tag == "override":
		return rest == "" || strings.HasPrefix(rest, ":")
	case strings.HasPrefix(tag, "denials:"):
		return rest == "" || strings.HasPrefix(rest, ":")
	}
	token, is := strings.CutPrefix(rest, ":")
	return is && isToken(token)
}

func isToken(name string) bool {
	return strings.HasPrefix(name, "token:") || strings.HasPrefix(name, "token-sha256:")
}
