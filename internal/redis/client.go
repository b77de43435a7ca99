package redisserver

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// NewClient returns a client of one server with settings for a limiter. An answer is useful only while a caller
// waits for it: the client keeps a context's deadline, dials a dead server once, never sends anything twice, and
// sends no other commands. timeout is the default of each time-out in options.
func NewClient(options redis.Options, timeout time.Duration) *redis.Client {
	fit(&options, timeout)
	return redis.NewClient(&options)
}

func fit(o *redis.Options, timeout time.Duration) {
	o.DialTimeout = cmp.Or(o.DialTimeout, timeout)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, timeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, timeout)
	o.PoolTimeout = cmp.Or(o.PoolTimeout, timeout)
	o.ContextTimeoutEnabled = true
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DisableIdentity = true
	o.MaintNotificationsConfig = quiet()
}

func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// maxRedirects is how often a command follows a slot to another node. A node that redirects has not run the
// command, so a take can follow, too.
const maxRedirects = 5

// NewClusterClient is [NewClient] for a Cluster. A call takes at most ReadTimeout, including redirects.
func NewClusterClient(options redis.ClusterOptions, timeout time.Duration) *redis.ClusterClient {
	options.DialTimeout = cmp.Or(options.DialTimeout, timeout)
	options.ReadTimeout = cmp.Or(options.ReadTimeout, timeout)
	options.WriteTimeout = cmp.Or(options.WriteTimeout, timeout)
	options.PoolTimeout = cmp.Or(options.PoolTimeout, timeout)
	options.MaxRedirects = cmp.Or(options.MaxRedirects, maxRedirects)
	options.ContextTimeoutEnabled = true
	options.MaintNotificationsConfig = quiet()
	// Without the routing policies it does not call COMMAND, which needs another right and a round trip.
	options.DisableRoutingPolicies = true
	newNode := options.NewClient
	if newNode == nil {
		newNode = redis.NewClient
	}
	within := options.ReadTimeout // negative for no bound
	options.NewClient = func(settings *redis.Options) *redis.Client {
		fit(settings, timeout)
		node := newNode(settings)
		if within > 0 {
			// Seeds are tried one after the other: one that does not answer must leave time for the next, and for
			// the command.
			node.AddHook(deadline{within: within / time.Duration(len(options.Addrs)+1), only: "cluster slots"})
		}
		return node
	}
	client := redis.NewClusterClient(&options)
	if within > 0 { // each attempt has a timeout, and there can be several
		client.AddHook(deadline{within: within})
	}
	return client
}

// deadline is a [redis.Hook] that bounds the time of commands, including redirects and retries.
type deadline struct {
	PassHook
	within time.Duration
	only   string // the only command to bound; empty for all
}

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
