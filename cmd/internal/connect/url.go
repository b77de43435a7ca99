package connect

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// redisURL is the URL of a Redis, taken apart. net/url does not read several
// hosts, and go-redis takes the login for the Sentinels'.
type redisURL struct {
	form           string // how it is to be written
	tls            bool
	user, password string
	hosts          []string // each a host with or without a port
	path           string   // what follows the hosts, still escaped
	options        map[string]string
	where          string // it without passwords, for messages
}

// parseRedisURL takes a URL apart. What is wrong with it is never repeated: a
// password with special characters in it turns up in any part of the URL.
func parseRedisURL(text, form string) (*redisURL, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return nil, badURL("it names no host; write %s", form)
	}
	unreadable := badURL("it cannot be read; write %s, special characters of the password as %%XX", form)
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	path, query, _ := strings.Cut(rest, "?")
	if strings.ContainsAny(rest, "@#") {
		return nil, unreadable
	}
	u := &redisURL{form: form, tls: strings.HasPrefix(scheme, "rediss"), path: path}
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		hosts = authority[at+1:]
		user, password, _ := strings.Cut(authority[:at], ":")
		var err, err2 error
		u.user, err = url.PathUnescape(user)
		u.password, err2 = url.PathUnescape(password)
		if err != nil || err2 != nil {
			return nil, unreadable
		}
	}
	if hosts != "" {
		u.hosts = strings.Split(hosts, ",")
	}
	var err error
	if u.options, err = parseOptions(query); err != nil {
		return nil, unreadable
	}
	u.where = scheme + "://" + u.redactedLogin() + hosts + path
	if database, given := u.options["db"]; given {
		u.where += "?db=" + database
	}
	return u, nil
}

// redactedLogin is what comes before the hosts, for messages.
func (u *redisURL) redactedLogin() string {
	switch {
	case u.password != "":
		return url.User(u.user).String() + ":xxxxx@"
	case u.user != "":
		return url.User(u.user).String() + "@"
	}
	return ""
}

// parseOptions reads a query. Unlike in a form a plus sign is one, as base64 has
// it in passwords.
func parseOptions(query string) (map[string]string, error) {
	options := make(map[string]string)
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if pair == "" {
			continue
		}
		value, err := url.PathUnescape(value)
		if err != nil {
			return nil, err
		}
		options[name] = value
	}
	return options, nil
}

// onlyOptions returns an error naming an option that is none of those known.
func (u *redisURL) onlyOptions(known ...string) error {
	known = append(known, tlsOptions...)
	for _, name := range slices.Sorted(maps.Keys(u.options)) {
		if slices.Contains(known, name) {
			continue
		}
		if _, secret := u.options["sentinel_password"]; secret {
			// Part of the password it is, if an & in that was not escaped.
			return badURL("one of its options is unknown; known are %s, and an & in a password is written %%26", strings.Join(known, ", "))
		}
		return badURL("its option %q is unknown; known are %s", name, strings.Join(known, ", "))
	}
	return nil
}

// addresses returns the hosts with their ports.
func (u *redisURL) addresses(defaultPort string) ([]string, error) {
	if len(u.hosts) == 0 {
		return nil, badURL("it names no host; write %s", u.form)
	}
	addresses := make([]string, len(u.hosts))
	for i, text := range u.hosts {
		host, port, ok := splitHost(text)
		if port == "" {
			port = defaultPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); !ok || err != nil || n == 0 {
			return nil, badURL("a host or its port is wrong; write %s, IPv6 addresses as [::1]:%s", u.form, defaultPort)
		}
		addresses[i] = net.JoinHostPort(host, port)
	}
	return addresses, nil
}

// splitHost reads host, host:port, [IPv6] or [IPv6]:port.
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

// database reads what says which database.
func (u *redisURL) database(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, badURL("its database is no number; write %s", u.form)
	}
	return int(n), nil
}
