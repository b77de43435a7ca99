package connect

import (
	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
)

const clusterForm = "://[user[:password]@]host[:port][,host[:port]…]"

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
	client := redisserver.NewClusterClient(redis.ClusterOptions{
		Addrs:     addresses,
		Username:  u.User,
		Password:  u.Password,
		TLSConfig: config,
	}, options.Timeout)
	client.OnNewNode(func(node *redis.Client) { node.AddHook(speechOf(config, options)) })
	return client, nil
}
