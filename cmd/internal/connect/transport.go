package connect

import (
	"context"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/storeurl"
)

// Transport is how bytes travel to the Redis of a URL.
type Transport struct {
	// TLS: all connections are encrypted. Unchecked: whoever answers is taken for the server.
	TLS, Unchecked bool
	// LogsIn: the servers are sent a password, Cluster nodes that others name included.
	LogsIn bool
	// Told are the addresses that are sent a password, as far as the URL and the Sentinels name
	// them. Redact what comes from Sentinels before you show it. A socket has no address.
	Told []string
}

// TransportOf returns how what is said to the Redis of a URL travels. Sentinels are asked
// which master they would send it to; should none tell, the master is not in the answer.
func TransportOf(ctx context.Context, text string, options Options) (Transport, error) {
	scheme, _, _ := strings.Cut(text, ":")
	u, err := parseRedisURL(text, scheme+openers()[scheme].form)
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
	sentinels := strings.HasSuffix(scheme, "+sentinel")
	port := redisPort
	if sentinels {
		port = sentinelPort
	}
	if scheme == "unix" || !t.LogsIn && !(sentinels && u.option(storeurl.SentinelPassword) != "") {
		return t, nil
	}
	addresses, err := u.addresses(port)
	if err != nil {
		return Transport{}, err
	}
	if !sentinels || u.option(storeurl.SentinelPassword) != "" {
		t.Told = addresses
	}
	if sentinels && t.LogsIn {
		if master, err := u.watched(addresses, config, options).find(ctx); err == nil {
			t.Told = append(t.Told, master)
		}
	}
	return t, nil
}
