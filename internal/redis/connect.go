package redisserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Access is what the URL of a Redis does not have.
type Access struct {
	Password string        // for a URL without one
	Timeout  time.Duration // bounds each exchange with a server
	ReadFile func(name string) ([]byte, error)
}

// silence stops the client library from printing errors. The command prints them once.
var silence = sync.OnceFunc(logging.Disable)

// Connect returns a client of the servers of the URL. It does not connect yet.
func (u *URL) Connect(a Access) (redis.UniversalClient, error) {
	password := cmp.Or(u.Password, a.Password)
	if u.User != "" && password == "" { // the client would not log in, and commands would run as the default user
		return nil, BadURL("it names the user %q and no password is known; set LIMITCTL_PASSWORD, or write %s", u.User,
			u.scheme+forms[u.Kind])
	}
	config, err := u.tlsConfig(a)
	if err != nil {
		return nil, err
	}
	silence()
	settings := redis.Options{Username: u.User, Password: password, DB: u.Database, TLSConfig: config}
	switch u.Kind {
	case "redis+cluster":
		return NewClusterClient(redis.ClusterOptions{Addrs: u.Addresses, Username: u.User, Password: password, TLSConfig: config},
			a.Timeout), nil
	case "redis+sentinel":
		return NewFailoverClient(u.failover(a, config), a.Timeout), nil
	case "unix":
		settings.Network, settings.Addr = "unix", u.Socket
	default:
		settings.Addr = u.Addresses[0]
	}
	return NewClient(settings, a.Timeout), nil
}

// failover returns the settings of a client that gets its master from Sentinels.
func (u *URL) failover(a Access, config *tls.Config) redis.FailoverOptions {
	return redis.FailoverOptions{MasterName: u.Master, SentinelAddrs: u.Addresses, SentinelUsername: u.option(sentinelUser),
		SentinelPassword: u.option(sentinelPassword), Username: u.User, Password: cmp.Or(u.Password, a.Password), DB: u.Database,
		TLSConfig: config}
}

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

// Transport returns how the connections are protected. It asks Sentinels for the master; if none answers, the result
// does not include it.
func (u *URL) Transport(ctx context.Context, a Access) (Transport, error) {
	config, err := u.tlsConfig(a)
	if err != nil {
		return Transport{}, err
	}
	t := Transport{TLS: u.TLS, Unchecked: u.TLS && config.InsecureSkipVerify, LogsIn: u.Password != "" || a.Password != ""}
	if u.Kind != "redis+sentinel" {
		if t.LogsIn {
			t.PasswordTo = u.Addresses
		}
		return t, nil
	}
	if u.option(sentinelPassword) != "" {
		t.PasswordTo = slices.Clone(u.Addresses)
	}
	if t.LogsIn {
		if master, err := newSentinels(u.failover(a, config), a.Timeout).find(ctx); err == nil {
			t.PasswordTo = append(t.PasswordTo, master)
		}
	}
	return t, nil
}
