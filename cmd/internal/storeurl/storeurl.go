// Package storeurl takes the URL of a store apart: for connecting, and for showing it
// without its passwords. Both see the same parts, so that what one takes for a password
// the other hides.
package storeurl

import (
	"errors"
	"net/url"
	"strings"
)

// URL is the URL of a Redis, taken apart. net/url does not read several hosts, and
// go-redis takes the login for the Sentinels'.
type URL struct {
	Scheme         string
	User, Password string
	// Hosts are each a host with or without a port.
	Hosts []string
	// Path is what follows the hosts, still escaped.
	Path string
	// options are in the order written.
	options []option
}

type option struct{ name, value string }

// The options that hold a login of their own.
const (
	SentinelUser     = "sentinel_username"
	SentinelPassword = "sentinel_password"
)

// Errors of a URL that cannot be taken apart. Neither repeats any of it: a password
// with special characters turns up in any part of a URL.
var (
	ErrNoHost     = errors.New("it does not name a host")
	ErrUnreadable = errors.New("it cannot be read")
)

// Parse takes the URL of a Redis apart. The scheme may be any.
func Parse(text string) (*URL, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return nil, ErrNoHost
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	if strings.ContainsAny(rest, "@#") {
		return nil, ErrUnreadable
	}
	path, query, _ := strings.Cut(rest, "?")
	u := &URL{Scheme: scheme, Path: path}
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		hosts = authority[at+1:]
		user, password, _ := strings.Cut(authority[:at], ":")
		var err, err2 error
		u.User, err = url.PathUnescape(user)
		u.Password, err2 = url.PathUnescape(password)
		if err != nil || err2 != nil {
			return nil, ErrUnreadable
		}
	}
	if hosts != "" {
		u.Hosts = strings.Split(hosts, ",")
	}
	return u, u.parseOptions(query)
}

// parseOptions reads a query. Unlike in a form a plus sign is one, as base64 has
// it in passwords.
func (u *URL) parseOptions(query string) error {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		if err != nil {
			return ErrUnreadable
		}
		u.options = append(u.options, option{name, value})
	}
	return nil
}

// Option returns the value of an option, the last if it is there several times.
func (u *URL) Option(name string) (value string, given bool) {
	for _, o := range u.options {
		if o.name == name {
			value, given = o.value, true
		}
	}
	return value, given
}

// Unknown returns the first option that is not known. name is empty if it can
// be a part of a password: where an & in one is not escaped, the rest of the password
// is an option.
func (u *URL) Unknown(known func(name string) bool) (name string, found bool) {
	for _, o := range u.options {
		switch {
		case known(o.name):
		case u.hasSecretOption():
			return "", true
		case !found:
			name, found = o.name, true
		}
	}
	return name, found
}

// hasSecretOption reports whether an option is meant to hold a password. The option
// need not exist.
func (u *URL) hasSecretOption() bool {
	for _, o := range u.options {
		if isSecret(o.name) {
			return true
		}
	}
	return false
}

func isSecret(option string) bool {
	option = strings.ToLower(option)
	for _, word := range []string{"pass", "pw", "secret", "token", "auth", "cred", "key"} {
		if strings.Contains(option, word) && option != "tls_key" {
			return true
		}
	}
	return false
}

// Secrets returns what nobody is to see of a store's URL. Of one that cannot be read it
// is all that can be a password.
func Secrets(text string) []string {
	scheme, _, _ := strings.Cut(text, ":")
	if isPath(scheme) {
		return nil
	}
	u, err := Parse(text)
	if err != nil {
		return suspects(text)
	}
	secrets := []string{u.Password}
	for _, o := range u.options {
		if isSecret(o.name) {
			secrets = append(secrets, o.value)
		}
	}
	return secrets
}

// suspects returns what can be a password in a URL that cannot be read: what is before
// its last @, behind the scheme or a colon, and what options hold.
func suspects(text string) (secrets []string) {
	_, rest, found := strings.Cut(text, "://")
	if !found {
		_, rest, _ = strings.Cut(text, ":")
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		login := rest[:at]
		if _, password, found := strings.Cut(login, ":"); found {
			login = password
		}
		secrets = append(secrets, login)
	}
	if _, query, found := strings.Cut(rest, "?"); found {
		for pair := range strings.SplitSeq(query, "&") {
			if name, value, _ := strings.Cut(pair, "="); isSecret(name) {
				secrets = append(secrets, value)
			}
		}
	}
	return secrets
}
