// Package connect opens the store of a URL. A kind of store is a scheme and a function in the table of openers.
package connect

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/cmd/internal/shell"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store is what commands need: decisions and the keyspace.
type Store = admin.Keyspace

// Options have what a URL does not have.
type Options struct {
	Prefix   string
	Timeout  time.Duration // bounds each exchange with a server
	Password string        // for a URL without one
	// Clock replaces the store's clock in simulations; nil for none.
	Clock func() time.Time
	// OnBatch, if set, gets the number of calls that go to a Redis server together; see
	// [redisstore.WithBatchObserver].
	OnBatch func(calls int)
	// Layouts, if set, opens the limits of other limiters in a Redis, instead of limitctl's own.
	Layouts layouts.Sources
	// OwnFile: the file is limitctl's own, and its directory is created with it.
	OwnFile bool
	// ReadFile reads the certificate files in a URL.
	ReadFile func(name string) ([]byte, error)
}

// opener opens the store of a scheme: a Redis by its client, or an embedded store by the text after "scheme:".
type opener struct {
	form   string // the form of such a URL
	client func(u *redisURL, options Options) (redis.UniversalClient, error)
	store  func(rest string, options Options) (backend Store, where string, err error)
}

func openers() map[string]opener {
	all := map[string]opener{
		"redis":           {form: serverForm, client: serverClient},
		"rediss":          {form: serverForm, client: serverClient},
		"unix":            {form: socketForm, client: socketClient},
		"redis+cluster":   {form: clusterForm, client: clusterClient},
		"rediss+cluster":  {form: clusterForm, client: clusterClient},
		"redis+sentinel":  {form: sentinelForm, client: sentinelClient},
		"rediss+sentinel": {form: sentinelForm, client: sentinelClient},
		"file":            {form: "file:PATH", store: openFile},
		"memory":          {form: "memory:", store: openMemory},
	}
	for scheme, opener := range maps.Clone(all) {
		if kind, is := strings.CutPrefix(scheme, "redis"); is {
			all["valkey"+kind] = opener
		}
	}
	return all
}

func schemes() string {
	names := slices.Sorted(maps.Keys(openers()))
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return redisserver.SchemeKind(name) != name }), ", ")
}

// Open returns the store at url and its name for messages. It does not connect yet. The error about a bad URL is a
// [store.ErrInvalid] without the password.
func Open(url string, options Options) (backend Store, where string, err error) {
	backend, _, where, err = OpenWithClient(url, options)
	return backend, where, err
}

// OpenWithClient is [Open], and also returns the store's client to observe its exchanges, nil for an embedded
// store. The client is not used yet, and closing the store closes it.
func OpenWithClient(url string, options Options) (backend Store, client redis.UniversalClient, where string, err error) {
	if err := store.ValidatePrefix(options.Prefix); err != nil {
		return nil, nil, "", err
	}
	opener, scheme, rest, err := openerOf(url)
	if err != nil {
		return nil, nil, "", err
	}
	if opener.store != nil && options.Layouts != nil {
		return nil, nil, "", badURL("%s: holds limits of limitctl alone; the layouts of other limiters are those of keys in a Redis",
			scheme)
	}
	if opener.store != nil {
		backend, where, err = opener.store(rest, options)
		return backend, nil, where, err
	}
	client, where, err = newClientFor(url, options)
	if err != nil {
		return nil, nil, "", err
	}
	settings := []redisstore.Option{redisstore.WithPrefix(options.Prefix), redisstore.WithSecrets(redisserver.URLSecrets(url)...)}
	if options.Clock != nil {
		settings = append(settings, redisstore.WithClock(options.Clock))
	}
	if options.OnBatch != nil {
		settings = append(settings, redisstore.WithBatchObserver(options.OnBatch))
	}
	own, err := redisstore.Own(client, settings...)
	if err != nil {
		return nil, nil, "", errors.Join(err, client.Close())
	}
	if options.Layouts != nil {
		return own.OtherLimiters(options.Layouts), client, where, nil
	}
	return own, client, where, nil
}

// IsCluster reports whether client is for a Cluster, whose masters have different clocks.
func IsCluster(client redis.UniversalClient) bool {
	_, is := client.(*redis.ClusterClient)
	return is
}

// Client returns a client like that of a store from [Open], to call the servers directly. A URL of another kind of
// store is a [store.ErrInvalid].
func Client(url string, options Options) (client redis.UniversalClient, where string, err error) {
	if client, where, err = newClientFor(url, options); err == nil {
		redisserver.Guard(client)
	}
	return client, where, err
}

// newClientFor is [Client] without the bounds on answers, which a store adds itself.
func newClientFor(url string, options Options) (client redis.UniversalClient, where string, err error) {
	opener, scheme, _, err := openerOf(url)
	switch {
	case err != nil:
		return nil, "", err
	case opener.client == nil:
		return nil, "", badURL("%s: is not a Redis", scheme)
	}
	parsed, err := parseRedisURL(url)
	if err != nil {
		return nil, "", err
	}
	where = parsed.Where()
	if parsed.Password == "" {
		parsed.Password = options.Password
	}
	if parsed.User != "" && parsed.Password == "" {
		// The client would not log in, and commands would run as the default user.
		return nil, "", badURL("it names the user %q and no password is known; set LIMITCTL_PASSWORD, or write %s", parsed.User,
			parsed.form)
	}
	client, err = opener.client(parsed, options)
	return client, where, err
}

// openerOf returns what opens the store at url, and the parts of url.
func openerOf(url string) (o opener, scheme, rest string, err error) {
	if strings.TrimSpace(url) != url { // as a secret from a file can
		return o, "", "", badURL("it begins or ends with a blank or a line end; leave that out")
	}
	scheme, rest, found := strings.Cut(url, ":")
	o, known := openers()[scheme]
	if !found || !known {
		return o, "", "", unknownScheme(url)
	}
	return o, scheme, rest, nil
}

// unknownScheme returns an error that does not repeat what can contain a password.
func unknownScheme(url string) error {
	if scheme, _, found := strings.Cut(url, "://"); found && !strings.ContainsAny(scheme, "@:/") {
		if near := texts.Nearest(strings.ToLower(scheme), slices.Sorted(maps.Keys(openers())), 2); near != "" {
			return badURL("unknown scheme %q; did you mean %s://?", scheme, near)
		}
		return badURL("unknown scheme %q; it is one of %s", scheme, schemes())
	}
	if !strings.ContainsAny(url, ":@") {
		return badURL("%q has no scheme; did you mean %s or %s?", url, shell.Command("redis://"+url), shell.Command("file:"+url))
	}
	// Another pair may be a user and a password.
	host, port, _ := strings.Cut(url, ":")
	if !strings.ContainsAny(host, "@/?") && (port == redisPort || isPort(port) && redisserver.IsLocal(host)) {
		return badURL("it has no scheme; did you mean %s?", shell.Command("redis://"+url))
	}
	return badURL("it has no scheme; write redis://[user[:password]@]host:port, file:PATH or memory:")
}

// urlError is a [store.ErrInvalid] about the store's URL.
type urlError struct{ error }

// Unwrap makes it the kind of error that it is.
func (e urlError) Unwrap() error { return e.error }

// IsURLWrong reports whether an error is about the store's URL, and not about another option.
func IsURLWrong(err error) bool {
	_, is := errors.AsType[urlError](err)
	return is
}

func badURL(format string, args ...any) error {
	return urlError{store.Invalidf("store URL: "+format, args...)}
}

func openMemory(rest string, options Options) (Store, string, error) {
	if rest != "" && rest != "//" {
		return nil, "", badURL("nothing goes after memory:")
	}
	settings := []memorystore.Option{memorystore.WithPrefix(options.Prefix)}
	if options.Clock != nil {
		settings = append(settings, memorystore.WithClock(options.Clock))
	}
	return memorystore.New(settings...), "memory", nil
}

func openFile(rest string, options Options) (Store, string, error) {
	path := rest
	if strings.HasPrefix(path, "///") { // file:///absolute/path
		path = path[2:]
	}
	if path == "" {
		return nil, "", badURL("file: needs a path, such as file:limits.db")
	}
	settings := []filestore.Option{filestore.WithPrefix(options.Prefix)}
	if options.OwnFile {
		settings = append(settings, filestore.WithDirectory())
	}
	if options.Clock != nil {
		settings = append(settings, filestore.WithClock(options.Clock))
	}
	backend, err := filestore.New(path, settings...)
	return backend, path, err
}
