package endpoint

import (
	"net/url"
	"strings"

	"github.com/limitctl/limitctl/internal/redact"
)

// RedactURL returns the URL of an endpoint in a form that can be shown: without its password, and without query
// values whose names sound like a secret.
func RedactURL(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	authority, after := rest, ""
	if end := strings.IndexAny(rest, `/?#\`); end >= 0 {
		authority, after = rest[:end], rest[end:]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		login, host := authority[:at], authority[at:]
		if user, _, has := strings.Cut(login, ":"); has {
			login = user + ":" + redact.Mark
		}
		authority = login + host
	}
	path, query, has := strings.Cut(after, "?")
	if has {
		query = "?" + redactQuery(query)
	}
	return scheme + "://" + authority + path + query
}

// RedactHeader returns a header of a request in a form that can be shown: with its value only if that holds a place for who
// asks.
func RedactHeader(text string) string {
	name, value, _ := strings.Cut(text, ":")
	if strings.Contains(value, SubjectPlace) || strings.Contains(value, CostPlace) {
		return text
	}
	return name + ": " + redact.Mark
}

// redactQuery hides the values of a query that sound like secrets.
func redactQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, has := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if has && value != SubjectPlace && value != CostPlace && isSecretName(name) {
			pairs[i] = pair[:strings.IndexByte(pair, '=')+1] + redact.Mark
		}
	}
	return strings.Join(pairs, "&")
}

// isSecretName reports whether the name of a parameter or a header sounds like that of a secret.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "pwd", "secret", "token", "auth", "cred", "key", "sign", "session", "cookie"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return name == "sig"
}
