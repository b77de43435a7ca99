package connect

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const clusterForm = "://[user[:password]@]host[:port][,host[:port]…]"

// maxRedirects is how often a command follows a slot to where it is. A node that
// redirects has not run the command, so a take is followed up, too.
const maxRedirects = 5

// clusterClient returns a client of a Cluster, of which the hosts are some nodes.
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
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:        addresses,
		Username:     u.User,
		Password:     u.Password,
		TLSConfig:    config,
		MaxRedirects: maxRedirects,
		// Without the routing policies it need not ask what commands there are,
		// which is a right and a round trip more.
		DisableRoutingPolicies:   true,
		PoolTimeout:              options.Timeout,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		NewClient: func(settings *redis.Options) *redis.Client {
			node := newClient(settings, options)
			// Seeds are asked one after the other: one that does not answer must
			// leave time for the next, and for the command.
			node.AddHook(deadline{within: options.Timeout / time.Duration(len(addresses)+1), only: "cluster slots"})
			return node
		},
	})
	// Each attempt has a timeout, and there may be several.
	client.AddHook(deadline{within: options.Timeout})
	return client, nil
}

// deadline is a [redis.Hook] that bounds how long commands take, redirects and
// retries included.
type deadline struct {
	within time.Duration
	only   string // the one command, or all if it is empty
}

// DialHook implements [redis.Hook].
func (d deadline) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (d deadline) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if d.only != "" && cmd.FullName() != d.only {
			return next(ctx, cmd)
		}
		ctx, cancel := context.WithTimeout(ctx, d.within)
		defer cancel()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (d deadline) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if d.only != "" {
			return next(ctx, cmds)
		}
		ctx, cancel := context.WithTimeout(ctx, d.within)
		defer cancel()
		return next(ctx, cmds)
	}
}
