package redisserver

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// URL is the parsed URL of a Redis. net/url does not parse several hosts, and go-redis uses the login for the
// Sentinels.
type URL struct {
	Scheme         string
	User, Password string
	// Hosts have the form host or host:port.
	Hosts []string
	// Path is the text after the hosts, still escaped.
	Path string
	// options are in the order of the URL.
	options []option
}

type option struct{ name, value string }

// The options that contain another login.
const (
	SentinelUser     = "sentinel_username"
	SentinelPassword = "sentinel_password"
)

// Errors about a URL that cannot be parsed. They do not repeat any of it: an unescaped password can be in any part
// of a URL.
var (
	errNoHost     = errors.New("it does not name a host")
	ErrUnreadable = errors.New("it cannot be read")
)

// SchemeKind returns the scheme that means the same for a Redis: those of Valkey are only other words.
func SchemeKind(scheme string) string {
	if kind, is := strings.CutPrefix(scheme, "valkey"); is {
		return "redis" + kind
	}
	return scheme
}

// ParseURL parses the URL of a Redis, with any scheme.
func ParseURL(text string) (*URL, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return nil, errNoHost
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

// parseOptions parses a query. Unlike in a form a plus sign is a plus, since passwords in base64 contain it.
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

// Option returns the value of an option, the last if it occurs several times.
func (u *URL) Option(name string) (value string, given bool) {
	for _, o := range u.options {
		if o.name == name {
			value, given = o.value, true
		}
	}
	return value, given
}

// Unknown returns the first option that is not known. name is empty if it can be part of a password: after an
// unescaped &, the rest of a password looks like an option.
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

// hasSecretOption reports whether an option with the name of a password exists, even an unknown one.
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

// URLSecrets returns the secrets of a store's URL. For one that cannot be parsed it returns all that can be a
// password.
func URLSecrets(text string) []string {
	scheme, _, _ := strings.Cut(text, ":")
	if isPath(scheme) {
		return nil
	}
	u, err := ParseURL(text)
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

// suspects returns what can be a password in a URL that cannot be parsed: the text before its last @, behind the
// scheme or a colon, and the values of options.
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

// SplitHost splits host, host:port, [IPv6] or [IPv6]:port.
func SplitHost(text string) (host, port string, ok bool) {
	if address, rest, bracketed := strings.Cut(strings.TrimPrefix(text, "["), "]"); bracketed {
		colon, port, hasPort := strings.Cut(rest, ":")
		plain, zone, hasZone := strings.Cut(address, "%25")
		if address = plain; hasZone {
			address += "%" + zone
		}
		return address, port, text[0] == '[' && colon == "" && (hasPort || rest == "") && net.ParseIP(plain) != nil
	}
	host, port, hasPort := strings.Cut(text, ":")
	return host, port, host != "" && (!hasPort || port != "") && !strings.ContainsAny(host+port, ":[]% \t\n\\")
}

// IsLocal reports whether traffic to a host certainly stays on the machine. Of names, that is only localhost.
func IsLocal(host string) bool {
	host, _, _ = strings.Cut(host, "%") // a zone
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
