package connect

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// Address returns a text that is the same for all URLs of one store, as far as the URLs show it: whatever the
// login, with or without TLS, with defaults or without. It contains no password. [Open] must accept the URL.
func Address(text string) (string, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	if scheme == "file" {
		if strings.HasPrefix(rest, "///") {
			rest = rest[2:]
		}
		path, err := filepath.Abs(rest)
		return "file " + path, err
	}
	if openers()[scheme].client == nil {
		return scheme, nil
	}
	u, err := parseRedisURL(text)
	if err != nil {
		return "", err
	}
	scheme = strings.Replace(redisserver.SchemeKind(scheme), "rediss", "redis", 1)
	if scheme == "unix" {
		path, err := url.PathUnescape(u.Path)
		return fmt.Sprintf("unix %s db %s", path, cmp.Or(u.option("db"), "0")), err
	}
	port, database, master := redisPort, strings.TrimPrefix(u.Path, "/"), ""
	if scheme == "redis+sentinel" {
		port = sentinelPort
		if master, database, err = u.master(); err != nil {
			return "", err
		}
		master = " master " + master
	}
	addresses, err := u.addresses(port)
	if err != nil {
		return "", err
	}
	for i, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", err
		}
		host = strings.ToLower(strings.TrimSuffix(host, "."))
		if redisserver.IsLocal(host) {
			host = "localhost"
		}
		addresses[i] = net.JoinHostPort(host, port)
	}
	slices.Sort(addresses) // they are nodes or Sentinels of the same store
	database = cmp.Or(database, u.option("db"), "0")
	return fmt.Sprintf("%s %s%s db %s", scheme, strings.Join(slices.Compact(addresses), ","), master, database), nil
}
