package connect

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/redact"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// redisURL is the URL of a Redis, with the form of its kind.
type redisURL struct {
	*redisserver.URL
	form string // the right form
}

// parseRedisURL parses a URL. Errors never repeat a part of it: an unescaped password can be in any part of the
// URL.
func parseRedisURL(text string) (*redisURL, error) {
	scheme, _, _ := strings.Cut(text, ":")
	form := scheme + openers()[scheme].form
	parsed, err := redisserver.ParseURL(text)
	switch {
	case errors.Is(err, redisserver.ErrUnreadable):
		return nil, badURL("%s; write %s, special characters of the password as %%XX", err, form)
	case err != nil:
		return nil, badURL("%s; write %s", err, form)
	}
	return &redisURL{parsed, form}, nil
}

// tls reports whether the URL asks for TLS.
func (u *redisURL) tls() bool { return strings.HasPrefix(redisserver.SchemeKind(u.Scheme), "rediss") }

// option returns the value of an option, empty if it is missing.
func (u *redisURL) option(name string) string {
	value, _ := u.Option(name)
	return value
}

// secrets returns the secrets of the URL, and the password for it.
func (u *redisURL) secrets(options Options) *redact.Secrets {
	return redact.New(u.Password, u.option(redisserver.SentinelPassword), options.Password)
}

// onlyOptions returns an error that names an unknown option, if there is one.
func (u *redisURL) onlyOptions(known ...string) error {
	known = append(known, tlsOptions...)
	name, found := u.Unknown(func(name string) bool { return slices.Contains(known, name) })
	switch {
	case !found:
		return nil
	case name == "": // part of a password with an unescaped &
		return badURL("one of its options is unknown; known are %s, and an & in a password is written %%26", strings.Join(known, ", "))
	}
	return badURL("its option %q is unknown; known are %s", name, strings.Join(known, ", "))
}

// isPort reports whether text is the number of a port.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// addresses returns the hosts with their ports.
func (u *redisURL) addresses(defaultPort string) ([]string, error) {
	if len(u.Hosts) == 0 {
		return nil, badURL("it does not name a host; write %s", u.form)
	}
	addresses := make([]string, len(u.Hosts))
	for i, text := range u.Hosts {
		host, port, ok := redisserver.SplitHost(text)
		if port == "" {
			port = defaultPort
		}
		switch {
		case ok && !isPort(port): // which may be a password
			return nil, badURL("a port is not a number from 1 to 65535; write %s", u.form)
		case !ok:
			return nil, badURL("a host or its port is wrong; write %s, IPv6 addresses as [::1]:%s", u.form, defaultPort)
		}
		addresses[i] = net.JoinHostPort(host, port)
	}
	return addresses, nil
}

// database reads the number of the database.
func (u *redisURL) database(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, badURL("its database is not a number; write %s", u.form)
	}
	return int(n), nil
}
