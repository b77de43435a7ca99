package connect

import (
	"net/url"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

const (
	serverForm  = "://[user[:password]@]host[:port][/db]"
	socketForm  = "://[user[:password]@]/path/to/socket[?db=0]"
	clusterForm = "://[user[:password]@]host[:port][,host[:port]…]"
	redisPort   = "6379"
)

// serverClient returns a client of one server.
func serverClient(u *redisURL, options Options) (redis.UniversalClient, error) {
	addresses, err := u.addresses(redisPort)
	if err != nil {
		return nil, err
	}
	if len(addresses) > 1 {
		return nil, badURL("it names several hosts; write redis+cluster:// for a Cluster, redis+sentinel:// for Sentinels")
	}
	path := strings.TrimPrefix(u.Path, "/")
	if path != "" && u.option("db") != "" {
		return nil, badURL("it names a database twice; write %s", u.form)
	}
	return oneServer(u, options, &redis.Options{Addr: addresses[0]}, path+u.option("db"))
}

// socketClient returns a client of one server on its unix socket.
func socketClient(u *redisURL, options Options) (redis.UniversalClient, error) {
	path, err := url.PathUnescape(u.Path)
	if err != nil || len(u.Hosts) > 0 || strings.Trim(path, "/") == "" {
		return nil, badURL("it does not name a socket by its absolute path; write %s", u.form)
	}
	return oneServer(u, options, &redis.Options{Network: "unix", Addr: path}, u.option("db"))
}

func oneServer(u *redisURL, options Options, settings *redis.Options, database string) (_ redis.UniversalClient, err error) {
	if settings.DB, err = u.database(database); err != nil {
		return nil, err
	}
	if err = u.onlyOptions("db"); err != nil {
		return nil, err
	}
	if settings.TLSConfig, err = u.tlsConfig(options); err != nil {
		return nil, err
	}
	settings.Username, settings.Password = u.User, u.Password
	return newClient(settings, options), nil
}

// clusterClient returns a client of a Cluster. The hosts are some of its nodes.
func clusterClient(u *redisURL, options Options) (redis.UniversalClient, error) {
	addresses, err := u.addresses(redisPort)
	if err != nil {
		return nil, err
	}
	if u.Path != "" && u.Path != "/" {
		return nil, badURL("a Cluster has no databases; write %s", u.form)
	}
	if err := u.onlyOptions(); err != nil {
		return nil, err
	}
	config, err := u.tlsConfig(options)
	if err != nil {
		return nil, err
	}
	silenceClients()
	client := redisserver.NewClusterClient(redis.ClusterOptions{Addrs: addresses, Username: u.User, Password: u.Password,
		TLSConfig: config}, options.Timeout)
	client.OnNewNode(func(node *redis.Client) { node.AddHook(portProtocolOf(config, options)) })
	return client, nil
}

// newClient returns a client with the settings that all share.
func newClient(settings *redis.Options, options Options) *redis.Client {
	silenceClients()
	client := redisserver.NewClient(*settings, options.Timeout)
	if settings.Dialer == nil { // otherwise the dialer does this
		client.AddHook(portProtocolOf(settings.TLSConfig, options))
	}
	return client
}

// silenceClients stops the client library from printing errors. The command prints them once.
var silenceClients = sync.OnceFunc(logging.Disable)
