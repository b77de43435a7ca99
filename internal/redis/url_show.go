package redisserver

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// hidden replaces a password.
const hidden = "xxxxx"

// isScheme reports whether a scheme can be shown: other texts before a colon can be a user, or a password.
func isScheme(text string) bool {
	text = SchemeKind(text)
	for _, kind := range []string{"", "+cluster", "+sentinel"} {
		if text == "redis"+kind || text == "rediss"+kind {
			return true
		}
	}
	return text == "unix"
}

// isPath reports whether a path follows the scheme, which has no passwords.
func isPath(scheme string) bool { return scheme == "file" || scheme == "memory" }

// RedactURL returns a store's URL in a form that can be shown. It replaces only the passwords, and parts that could
// belong to one because they mean nothing in their place.
func RedactURL(text string) string {
	scheme, _, found := strings.Cut(text, ":")
	if found && isPath(scheme) {
		return text
	}
	if !found && !strings.ContainsAny(text, "@%&=?") {
		return text // not a URL, but a name
	}
	u, err := ParseURL(text)
	if err != nil || !isScheme(u.Scheme) || !u.isSound() {
		return unreadable(scheme)
	}
	return u.text()
}

// unreadable replaces a URL of which any part could be a password.
func unreadable(scheme string) string {
	if isScheme(scheme) {
		return scheme + "://" + hidden + " (it cannot be read)"
	}
	return hidden + " (it cannot be read)"
}

// WithoutPasswords returns the URL of the same store without its passwords. For a URL that cannot be parsed it
// returns the result of [RedactURL].
func WithoutPasswords(text string) string {
	scheme, _, found := strings.Cut(text, ":")
	if found && isPath(scheme) {
		return text
	}
	u, err := ParseURL(text)
	if err != nil || !isScheme(u.Scheme) || !u.isSound() {
		return RedactURL(text)
	}
	bare := *u
	bare.Password, bare.options = "", nil
	for _, o := range u.options {
		if !isSecret(o.name) && o.isSound() {
			bare.options = append(bare.options, o)
		}
	}
	return bare.text()
}

// Where returns the name of the store for messages: its URL without passwords, and without options that do not
// identify the store.
func (u *URL) Where() string {
	where := *u
	where.options = nil
	if database, given := u.Option("db"); given {
		where.options = []option{{"db", database}}
	}
	return where.text()
}

// text writes the URL with a mark in place of passwords.
func (u *URL) text() string {
	var b strings.Builder
	b.WriteString(u.Scheme + "://")
	if u.User != "" {
		b.WriteString(url.User(u.User).String())
	}
	if u.Password != "" {
		b.WriteString(":" + hidden)
	}
	if u.User != "" || u.Password != "" {
		b.WriteString("@")
	}
	b.WriteString(strings.Join(u.Hosts, ",") + u.Path)
	for i, o := range u.options {
		b.WriteString([]string{"?", "&"}[min(i, 1)])
		switch {
		case isSecret(o.name) && knownOption(o.name):
			b.WriteString(o.name + "=" + hidden)
		case !o.isSound():
			b.WriteString(hidden)
		default:
			b.WriteString(o.name + "=" + escapeValue(o.value))
		}
	}
	return b.String()
}

// escapeValue escapes what would end an option's value, or have another meaning.
func escapeValue(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c == 0x7f || strings.IndexByte("%&#@", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// isSound reports whether all visible parts are valid, and so cannot be a part of a password.
func (u *URL) isSound() bool {
	for _, host := range u.Hosts {
		if _, port, ok := SplitHost(host); !ok || port != "" && !isNumber(port) {
			return false
		}
	}
	path := strings.TrimPrefix(u.Path, "/")
	switch {
	case u.Scheme == "unix", strings.HasSuffix(u.Scheme, "+sentinel"):
		return true
	case strings.HasSuffix(u.Scheme, "+cluster"):
		return path == ""
	}
	return path == "" || isNumber(path)
}

func knownOption(name string) bool {
	switch name {
	case "db", SentinelUser, SentinelPassword, "tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_insecure":
		return true
	}
	return false
}

// isSound reports whether an option exists and its value is valid.
func (o *option) isSound() bool {
	switch o.name {
	case "db":
		return o.value == "" || isNumber(o.value)
	case "tls_insecure":
		return o.value == "" || o.value == "true" || o.value == "false"
	}
	return knownOption(o.name)
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 31)
	return err == nil
}
