package connect

import (
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

// openRedis connects to one server.
func openRedis(text, _ string, options Options) (Store, string, error) {
	client, where, err := Client(text, options)
	if err != nil {
		return nil, "", err
	}
	store, err := redisstore.New(client, redisstore.WithPrefix(options.Prefix))
	return store, where, err
}

// Client returns a client of the Redis at url, for what no store offers, and what
// to call it in messages. It does not connect yet.
func Client(text string, options Options) (client redis.UniversalClient, where string, err error) {
	// What a parser says is wrong is never repeated: a password with special
	// characters in it turns up in any part of the URL.
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.User == nil && strings.Contains(text, "@"):
		return nil, "", badURL("it cannot be read; write %s, special characters of the password as %%XX", redisForm(text))
	case parsed.Scheme != "unix" && parsed.Host == "", parsed.Opaque != "":
		return nil, "", badURL("it names no host; write %s", redisForm(text))
	}
	settings, err := redis.ParseURL(text)
	if err != nil {
		return nil, "", badURL("its database or an option is wrong; write %s", redisForm(text))
	}
	if settings.Password == "" {
		settings.Password = options.Password
	}
	// A take must not be sent twice, and a short command needs neither retries
	// nor what a long-lived client asks the server for.
	settings.MaxRetries = -1
	settings.DialerRetries = 1
	settings.ContextTimeoutEnabled = true
	settings.DialTimeout, settings.ReadTimeout, settings.WriteTimeout = options.Timeout, options.Timeout, options.Timeout
	settings.PoolTimeout = options.Timeout
	settings.DisableIdentity = true
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	logging.Disable() // errors are ours to print, once
	return redis.NewClient(settings), parsed.Redacted(), nil
}

// redisForm is how a URL of text's scheme is to be written.
func redisForm(text string) string {
	scheme, _, _ := strings.Cut(text, ":")
	if scheme == "unix" {
		return "unix:///path/to/socket?db=0"
	}
	return scheme + "://[user[:password]@]host:port[/db]"
}
