package connect

import (
	"net"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// CLI returns the beginning of a redis-cli command for the server of client, to which a Redis command is to be
// added; nil if only Sentinels know the address. The user has to type the password.
func CLI(client redis.UniversalClient) []string {
	words := []string{"redis-cli"}
	switch client := client.(type) {
	case *redis.Client:
		o := client.Options()
		if o.Network == "unix" {
			words = append(words, "-s", o.Addr)
		} else if host, port, err := net.SplitHostPort(o.Addr); err == nil {
			words = append(words, "-h", host, "-p", port)
		} else {
			return nil // only Sentinels know the address
		}
		if o.DB != 0 {
			words = append(words, "-n", strconv.Itoa(o.DB))
		}
		return append(words, login(o.Username, o.Password, o.TLSConfig != nil)...)
	case *redis.ClusterClient:
		o := client.Options()
		host, port, err := net.SplitHostPort(o.Addrs[0])
		if err != nil {
			return nil
		}
		words = append(words, "-c", "-h", host, "-p", port)
		return append(words, login(o.Username, o.Password, o.TLSConfig != nil)...)
	}
	return nil
}

func login(user, password string, tls bool) (words []string) {
	if tls {
		words = append(words, "--tls")
	}
	if user != "" {
		words = append(words, "--user", user)
	}
	if password != "" {
		words = append(words, "--askpass")
	}
	return words
}

// Look is the redis-cli command that shows the beginning of a key's value, or for a sorted set its
// end, where the latest requests are; words are those that reach its server.
func Look(words []string, storeKey, valueType string) string {
	read := []string{"GETRANGE", storeKey, "0", "63"}
	switch layouts.ValueType(valueType) {
	case layouts.HashValue:
		read = []string{"HSCAN", storeKey, "0", "COUNT", "20"}
	case layouts.ListValue:
		read = []string{"LRANGE", storeKey, "0", "19"}
	case layouts.SetValue:
		read = []string{"SSCAN", storeKey, "0", "COUNT", "20"}
	case layouts.SortedSetValue:
		read = []string{"ZRANGE", storeKey, "-20", "-1", "WITHSCORES"}
	default: // the others go on below
	}
	return shell.Command(append(append(slices.Clone(words), "--no-raw"), read...)...)
}
