package redisserver

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// hidden replaces a password.
const hidden = "xxxxx"

// RedactURL returns a store's URL in a form that can be shown: without its passwords, and nothing of a URL that cannot
// be parsed, in which any part can be one.
func RedactURL(text string) string { return show(text, (*URL).text) }

// WithoutPasswords is [RedactURL] with nothing in place of the passwords.
func WithoutPasswords(text string) string {
	return show(text, func(u *URL) string {
		u.Password, u.options = "", slices.DeleteFunc(u.options, option.isSecret)
		return u.text()
	})
}

func show(text string, write func(u *URL) string) string {
	scheme, _, found := strings.Cut(text, ":")
	if found && (scheme == "file" || scheme == "memory") || !found && !strings.ContainsAny(text, "@%&=?") {
		return text // a path, or a name
	}
	u, err := ParseURL(text)
	switch kind, _ := kindOf(scheme); {
	case kind == "": // a text before a colon can be a user, or a password
		return hidden + " (it cannot be read)"
	case err != nil:
		return scheme + "://" + hidden + " (it cannot be read)"
	}
	return write(u)
}

// Where returns the name of the store for messages: its URL without passwords, and without options that do not
// identify the store.
func (u *URL) Where() string {
	where := *u
	where.options = slices.DeleteFunc(slices.Clone(u.options), func(o option) bool { return o.name != "db" })
	return where.text()
}

// text writes the URL with a mark in place of passwords.
func (u *URL) text() string {
	var b strings.Builder
	b.WriteString(u.scheme + "://")
	if u.User != "" {
		b.WriteString(url.User(u.User).String())
	}
	if u.Password != "" {
		b.WriteString(":" + hidden)
	}
	if u.User != "" || u.Password != "" {
		b.WriteString("@")
	}
	b.WriteString(strings.Join(u.hosts, ",") + u.path)
	for i, o := range u.options {
		b.WriteString([]string{"?", "&"}[min(i, 1)] + o.name + "=")
		if o.isSecret() {
			b.WriteString(hidden)
			continue
		}
		for i := range len(o.value) { // what would end the value, or have another meaning, is escaped
			if c := o.value[i]; c <= ' ' || c == 0x7f || strings.IndexByte("%&#@", c) >= 0 {
				fmt.Fprintf(&b, "%%%02X", c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// Identity returns a text that is the same for all URLs of one store, as far as they show it: whatever the login, with
// or without TLS, with defaults or without.
func (u *URL) Identity() string {
	where := "unix " + u.Socket
	if u.Kind != "unix" {
		addresses := make([]string, len(u.Addresses))
		for i, address := range u.Addresses {
			host, port, _ := net.SplitHostPort(address)
			if host = strings.ToLower(strings.TrimSuffix(host, ".")); IsLocal(host) {
				host = "localhost"
			}
			addresses[i] = net.JoinHostPort(host, port)
		}
		slices.Sort(addresses) // they are nodes or Sentinels of the same store
		where = u.Kind + " " + strings.Join(slices.Compact(addresses), ",")
	}
	if u.Master != "" {
		where += " master " + u.Master
	}
	return where + " db " + strconv.Itoa(u.Database)
}

// URLSecrets returns the secrets of a store's URL. For one that cannot be parsed it returns all that can be a
// password.
func URLSecrets(text string) (secrets []string) {
	if strings.HasPrefix(text, "file:") || strings.HasPrefix(text, "memory:") {
		return nil
	}
	u, err := splitURL(text)
	if err != nil {
		return suspects(text)
	}
	secrets = []string{u.Password}
	for _, o := range u.options {
		if o.isSecret() {
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
	_, query, _ := strings.Cut(rest, "?")
	for pair := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(pair, "="); (option{name: name}).isSecret() {
			secrets = append(secrets, value)
		}
	}
	return secrets
}
