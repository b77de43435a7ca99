package redisstore

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
)

// DefaultTimeout is how long a client of [NewClient], [NewClusterClient] or
// [NewFailoverClient] waits for a server, for each of dialing, writing and reading, unless
// its options say so.
const DefaultTimeout = 250 * time.Millisecond

// NewClient returns a client of one server with settings that fit a limiter, whose answer
// is of use only while a caller waits for it: a context's deadline is kept, a dead server
// is dialled once and not five times, nothing is sent twice, and time-outs that options
// leave out are [DefaultTimeout] instead of several seconds. It asks the server for
// nothing but what is asked of it. Everything else is as options have it.
func NewClient(options redis.Options) *redis.Client {
	return redisserver.NewClient(options, DefaultTimeout)
}

// NewClusterClient is [NewClient] for a Cluster. A whole call takes no longer than
// ReadTimeout, even when a slot has moved or a node does not answer.
func NewClusterClient(options redis.ClusterOptions) *redis.ClusterClient {
	return redisserver.NewClusterClient(options, DefaultTimeout)
}

// NewFailoverClient is [NewClient] for the master that Sentinels name. A Sentinel that does
// not answer delays each new connection by up to ReadTimeout.
func NewFailoverClient(options redis.FailoverOptions) *redis.Client {
	return redisserver.NewFailoverClient(options, DefaultTimeout)
}
