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
	// Neither parser's error is repeated: both may quote the password.
	parsed, err := url.Parse(text)
	if err != nil {
		return nil, "", badURL("it cannot be read; write redis://[user[:password]@]host:port[/db], special characters of the password as %%XX")
	}
	settings, err := redis.ParseURL(text)
	if err != nil {
		return nil, "", badURL("%s; write %s", redact(err.Error(), parsed), redisForm(parsed.Scheme))
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
	store, err := redisstore.New(redis.NewClient(settings), redisstore.WithPrefix(options.Prefix))
	return store, parsed.Redacted(), err
}

func redisForm(scheme string) string {
	if scheme == "unix" {
		return "unix:///path/to/socket?db=0"
	}
	return scheme + "://[user[:password]@]host:port[/db]"
}

// redact takes the URL's password out of a message.
func redact(message string, parsed *url.URL) string {
	if password, has := parsed.User.Password(); has && password != "" {
		message = strings.ReplaceAll(message, password, "***")
	}
	return strings.TrimPrefix(message, "redis: ")
}
