package redisserver

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// URL is the URL of a Redis. net/url does not parse several hosts, and go-redis uses the login for the Sentinels.
type URL struct {
	Kind           string // a key of forms
	TLS            bool
	User, Password string
	Addresses      []string // with ports; a socket has none
	Socket, Master string
	Database       int

	scheme, path string // as they were written
	hosts        []string
	options      []option
}

type option struct{ name, value string }

// forms are the forms of URLs by kind, after the scheme.
var forms = map[string]string{
	"redis":          "://[user[:password]@]host[:port][/db]",
	"unix":           "://[user[:password]@]/path/to/socket[?db=0]",
	"redis+cluster":  "://[user[:password]@]host[:port][,host[:port]…]",
	"redis+sentinel": "://[user[:password]@]host[:port][,host[:port]…]/MASTER[/db]",
}

const (
	sentinelUser     = "sentinel_username"
	sentinelPassword = "sentinel_password"
)

// optionsOf are the options of URLs by kind; those with TLS have tlsOptions, too.
var (
	optionsOf = map[string][]string{"redis": {"db"}, "unix": {"db"}, "redis+sentinel": {sentinelUser, sentinelPassword}}

	tlsOptions = []string{"tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_insecure"}
)

// kindOf returns the kind of a scheme, empty if it is of no Redis. The words of Valkey mean the same.
func kindOf(scheme string) (kind string, tls bool) {
	if rest, is := strings.CutPrefix(scheme, "valkey"); is {
		scheme = "redis" + rest
	}
	kind = strings.Replace(scheme, "rediss", "redis", 1)
	if forms[kind] == "" {
		return "", false
	}
	return kind, kind != scheme
}

// IsURL reports whether a text has the scheme of a Redis.
func IsURL(text string) bool {
	scheme, _, _ := strings.Cut(text, ":")
	kind, _ := kindOf(scheme)
	return kind != ""
}

// SeemsURL reports whether a word has a scheme like those of a Redis, perhaps a misspelt one.
func SeemsURL(word string) bool {
	scheme, _, found := strings.Cut(word, "://")
	return found && (strings.HasPrefix(scheme, "redis") || strings.HasPrefix(scheme, "valkey") || scheme == "unix")
}

// URLError is a [store.ErrInvalid] about the store's URL.
type URLError struct{ error }

// Unwrap makes it the kind of error that it is.
func (e URLError) Unwrap() error { return e.error }

// BadURL returns an error about the store's URL.
func BadURL(format string, args ...any) error {
	return URLError{store.Invalidf("store URL: "+format, args...)}
}

// bad returns an error that ends with the right form of the URL.
func (u *URL) bad(problem string) error {
	return BadURL("%s; write %s", problem, u.scheme+forms[u.Kind])
}

// ParseURL parses the URL of a Redis. Errors repeat only names of options: an unescaped password can be in any part.
func ParseURL(text string) (*URL, error) {
	u, err := splitURL(text)
	if err != nil {
		return nil, err
	}
	return u, cmp.Or(u.readHosts(), u.readPath(), u.checkOptions())
}

// splitURL is ParseURL of which the parts can be wrong.
func splitURL(text string) (*URL, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	u := &URL{scheme: scheme}
	u.Kind, u.TLS = kindOf(scheme)
	rest, found := strings.CutPrefix(rest, "//")
	if !found {
		return nil, u.bad("it does not name a host")
	}
	unreadable := BadURL("it cannot be read; write %s, special characters of the password as %%XX",
		u.scheme+forms[u.Kind])
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	hosts, rest := rest[:end], rest[end:]
	if strings.ContainsAny(rest, "@#") {
		return nil, unreadable
	}
	var query string
	u.path, query, _ = strings.Cut(rest, "?")
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		user, password, _ := strings.Cut(hosts[:at], ":")
		hosts = hosts[at+1:]
		var err, err2 error
		u.User, err = url.PathUnescape(user)
		u.Password, err2 = url.PathUnescape(password)
		if err != nil || err2 != nil {
			return nil, unreadable
		}
	}
	if hosts != "" {
		u.hosts = strings.Split(hosts, ",")
	}
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value) // a plus sign is a plus, since passwords in base64 contain it
		if err != nil {
			return nil, unreadable
		}
		u.options = append(u.options, option{name, value})
	}
	return u, nil
}

// readHosts reads the addresses.
func (u *URL) readHosts() error {
	if u.Kind == "unix" {
		if len(u.hosts) > 0 {
			return u.bad("it does not name a socket by its absolute path")
		}
		return nil
	}
	defaultPort := "6379"
	if u.Kind == "redis+sentinel" {
		defaultPort = "26379"
	}
	for _, text := range u.hosts {
		host, port, ok := splitHost(text)
		port = cmp.Or(port, defaultPort)
		switch {
		case ok && !isPort(port): // which may be a password
			return u.bad("a port is not a number from 1 to 65535")
		case !ok:
			return BadURL("a host or its port is wrong; write %s, IPv6 addresses as [::1]:%s", u.scheme+forms[u.Kind],
				defaultPort)
		}
		u.Addresses = append(u.Addresses, net.JoinHostPort(host, port))
	}
	switch {
	case len(u.hosts) == 0:
		return u.bad("it does not name a host")
	case len(u.hosts) > 1 && u.Kind == "redis":
		return BadURL("it names several hosts; write redis+cluster:// for a Cluster, redis+sentinel:// for Sentinels")
	}
	return nil
}

// readPath reads the socket, the master and the database.
func (u *URL) readPath() (err error) {
	database, path := u.option("db"), strings.TrimPrefix(u.path, "/")
	switch u.Kind {
	case "unix":
		if u.Socket, err = url.PathUnescape(u.path); err != nil || strings.Trim(u.Socket, "/") == "" {
			return u.bad("it does not name a socket by its absolute path")
		}
	case "redis+cluster":
		if path != "" {
			return u.bad("a Cluster has no databases")
		}
		return nil
	case "redis+sentinel":
		u.Master, database, _ = strings.Cut(path, "/")
		if u.Master, err = url.PathUnescape(u.Master); err != nil || u.Master == "" {
			return u.bad("it does not name a master")
		}
	default:
		if path != "" && database != "" {
			return u.bad("it names a database twice")
		}
		database = path + database
	}
	number, err := strconv.ParseUint(cmp.Or(database, "0"), 10, 31)
	if err != nil {
		return u.bad("its database is not a number")
	}
	u.Database = int(number)
	return nil
}

// checkOptions checks that the options exist and have values of their kind.
func (u *URL) checkOptions() error {
	known := append(slices.Clip(optionsOf[u.Kind]), tlsOptions...)
	unknown := slices.IndexFunc(u.options, func(o option) bool { return !slices.Contains(known, o.name) })
	isTLS := slices.IndexFunc(u.options, func(o option) bool { return slices.Contains(tlsOptions, o.name) })
	switch {
	case unknown >= 0 && slices.ContainsFunc(u.options, option.isSecret): // part of a password with an unescaped &
		return BadURL("one of its options is unknown; known are %s, and an & in a password is written %%26",
			strings.Join(known, ", "))
	case unknown >= 0:
		return BadURL("its option %q is unknown; known are %s", u.options[unknown].name, strings.Join(known, ", "))
	case u.option(sentinelUser) != "" && u.option(sentinelPassword) == "":
		return BadURL("sentinel_username needs sentinel_password")
	case isTLS >= 0 && !u.TLS:
		return BadURL("its option %s is for TLS; write rediss instead of redis", u.options[isTLS].name)
	case !slices.Contains([]string{"", "true", "false"}, u.option("tls_insecure")):
		return BadURL("its option tls_insecure is neither true nor false")
	}
	return nil
}

// option returns the value of an option, the last if it occurs several times, and empty if it is missing.
func (u *URL) option(name string) (value string) {
	for _, o := range u.options {
		if o.name == name {
			value = o.value
		}
	}
	return value
}

// isSecret reports whether the value of an option is one, even of an unknown option.
func (o option) isSecret() bool {
	name := strings.ToLower(o.name)
	return name != "tls_key" && slices.ContainsFunc([]string{"pass", "pw", "secret", "token", "auth", "cred", "key"},
		func(word string) bool { return strings.Contains(name, word) })
}

// isPort reports whether text is the number of a port.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// splitHost splits host, host:port, [IPv6] or [IPv6]:port.
func splitHost(text string) (host, port string, ok bool) {
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

// URLSecrets returns the secrets of a store's URL. For one that cannot be parsed it returns all that can be a password.
func URLSecrets(text string) (secrets []string) {
	scheme, isBare := strings.CutSuffix(text, "://") // messages that say how a URL is written have it, too
	if kind, _ := kindOf(scheme); isBare && kind != "" || strings.HasPrefix(text, "file:") ||
		strings.HasPrefix(text, "memory:") {
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
