package redisserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
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
		return NewClusterClient(redis.ClusterOptions{Addrs: u.Addresses, Username: u.User, Password: password,
			TLSConfig: config},
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
	return redis.FailoverOptions{MasterName: u.Master, SentinelAddrs: u.Addresses,
		SentinelUsername: u.option(sentinelUser), SentinelPassword: u.option(sentinelPassword),
		Username: u.User, Password: cmp.Or(u.Password, a.Password), DB: u.Database, TLSConfig: config}
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
	t := Transport{TLS: u.TLS, Unchecked: u.TLS && config.InsecureSkipVerify,
		LogsIn: u.Password != "" || a.Password != ""}
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

// tlsConfig returns the TLS configuration of the URL, and nil for a URL without TLS.
func (u *URL) tlsConfig(a Access) (*tls.Config, error) {
	if !u.TLS {
		return nil, nil
	}
	// Without a server name go-redis checks the certificate for the host that it dials.
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.option("tls_server_name"),
		InsecureSkipVerify: u.option("tls_insecure") == "true"}
	authority, cert, key := u.option("tls_ca"), u.option("tls_cert"), u.option("tls_key")
	switch {
	case authority != "" && config.InsecureSkipVerify:
		return nil, BadURL("tls_insecure=true checks no certificate, so tls_ca would mean nothing; give one of them")
	case (cert == "") != (key == ""):
		return nil, BadURL("tls_cert and tls_key need each other; give the client's certificate and its private key, " +
			"in PEM form")
	}
	var contents [3][]byte
	for i, o := range []option{{"tls_ca", authority}, {"tls_cert", cert}, {"tls_key", key}} {
		if o.value == "" {
			continue
		}
		content, err := a.ReadFile(o.value)
		if path, is := errors.AsType[*fs.PathError](err); is {
			err = path.Err // the message already has the name
		}
		if err != nil {
			return nil, BadURL("%s: %q cannot be read (%s); give a file in PEM form", o.name, o.value, err)
		}
		contents[i] = content
	}
	if authority != "" {
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(contents[0]) {
			return nil, BadURL("tls_ca: %q holds no certificate; give that of the authority that signed the "+
				"server's, in PEM form",
				authority)
		}
	}
	if cert == "" {
		return config, nil
	}
	pair, err := tls.X509KeyPair(contents[1], contents[2])
	if err != nil {
		return nil, BadURL("tls_cert and tls_key: %q and %q are not a certificate and its private key in PEM form: %s",
			cert, key,
			strings.TrimPrefix(err.Error(), "tls: "))
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
