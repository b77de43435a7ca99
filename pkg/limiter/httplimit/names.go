package httplimit

import "github.com/limitctl/limitctl/pkg/limiter/store"

// defaultName is the name of a single limit without a policy.
const defaultName = "default"

// appendItem appends the name of limit i as a String of structured fields (RFC 9651), as the next member of the
// list that begins at begin.
func appendItem(text []byte, begin int, names []string, reqs []store.Request, i int) []byte {
	if len(text) > begin {
		text = append(text, ',')
	}
	text = append(text, '"')
	switch {
	case names != nil:
		text = appendName(text, names[i])
	case len(reqs) == 1:
		text = append(text, defaultName...)
	default:
		text = appendName(text, keyName(&reqs[i]))
		// A list must not have a name twice, but two subjects can have limits of the same name.
		for j := range reqs[:i] {
			if keyName(&reqs[j]) == keyName(&reqs[i]) {
				text = append(text, '+')
			}
		}
	}
	return append(text, '"')
}

// keyName returns the name of req's limit in the store.
func keyName(req *store.Request) string {
	if req.Key.Name != "" {
		return req.Key.Name
	}
	return req.Limit.DefaultName()
}

// appendName appends name as the content of a String, which has printable ASCII only. It writes all other bytes,
// and "%", as %XX, so that different names stay different.
func appendName(text []byte, name string) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range []byte(name) {
		switch {
		case c == '"' || c == '\\':
			text = append(text, '\\', c)
		case c < ' ' || c > '~' || c == '%':
			text = append(text, '%', digits[c>>4], digits[c&15])
		default:
			text = append(text, c)
		}
	}
	return text
}
