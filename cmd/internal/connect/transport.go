package connect

import (
	"context"
	"strings"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// Transport says how the connections to the Redis of a URL are protected.
type Transport struct {
	// TLS: all connections are encrypted. Unchecked: the server's certificate is not checked.
	TLS, Unchecked bool
	// LogsIn: the client sends a password.
	LogsIn bool
	// PasswordTo are the addresses that get the password, from the URL and Sentinels; those from Sentinels have to be
	// redacted. A socket has none.
	PasswordTo []string
}

// TransportOf returns how the connections to the Redis of a URL are protected. It asks Sentinels for the master; if
// none answers, the result does not include it.
func TransportOf(ctx context.Context, text string, options Options) (Transport, error) {
	u, err := parseRedisURL(text)
	if err != nil {
		return Transport{}, err
	}
	config, err := u.tlsConfig(options)
	if err != nil {
		return Transport{}, err
	}
	t := Transport{
		TLS:       config != nil,
		Unchecked: config != nil && config.InsecureSkipVerify,
		LogsIn:    u.Password != "" || options.Password != "",
	}
	sentinels := strings.HasSuffix(u.Scheme, "+sentinel")
	port := redisPort
	if sentinels {
		port = sentinelPort
	}
	if u.Scheme == "unix" || !t.LogsIn && !(sentinels && u.option(redisserver.SentinelPassword) != "") {
		return t, nil
	}
	addresses, err := u.addresses(port)
	if err != nil {
		return Transport{}, err
	}
	if !sentinels || u.option(redisserver.SentinelPassword) != "" {
		t.PasswordTo = addresses
	}
	if sentinels && t.LogsIn {
		if master, err := u.watched(addresses, config, options).find(ctx); err == nil {
			t.PasswordTo = append(t.PasswordTo, master)
		}
	}
	return t, nil
}
