package redisstore

import (
	"cmp"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DefaultTimeout is how long a client of [NewClient] waits for a server, for each of
// dialing, writing and reading, unless its options say so.
const DefaultTimeout = 250 * time.Millisecond

// NewClient returns a client of one server with settings that fit a limiter, whose answer
// is of use only while a caller waits for it: a context's deadline is kept, a dead server
// is dialled once and not five times, nothing is sent twice, and time-outs that options
// leave out are [DefaultTimeout] instead of several seconds. It asks the server for
// nothing but what is asked of it. Everything else is as options have it.
func NewClient(options redis.Options) *redis.Client {
	options.DialTimeout = cmp.Or(options.DialTimeout, DefaultTimeout)
	options.ReadTimeout = cmp.Or(options.ReadTimeout, DefaultTimeout)
	options.WriteTimeout = cmp.Or(options.WriteTimeout, DefaultTimeout)
	options.PoolTimeout = cmp.Or(options.PoolTimeout, DefaultTimeout)
	options.ContextTimeoutEnabled = true
	options.MaxRetries, options.DialerRetries = -1, 1
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(&options)
}
