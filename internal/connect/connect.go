// Package connect opens the store of a URL.
package connect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/shell"
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
	// OnBatch, if set, gets the number of calls that go to a Redis server together; see [redisstore.WithBatchObserver].
	OnBatch func(calls int)
	// Layouts, if set, opens the limits of other limiters in a Redis, instead of limitctl's own.
	Layouts layouts.Sources
	// OwnFile: the file is limitctl's own, and its directory is created with it.
	OwnFile bool
	// ReadFile reads the certificate files in a URL.
	ReadFile func(name string) ([]byte, error)
}

// Open returns the store at url and its name for messages. It does not connect yet. The error about a bad URL is a
// [store.ErrInvalid] without the password.
func Open(url string, options Options) (backend Store, where string, err error) {
	backend, _, where, err = OpenWithClient(url, options)
	return backend, where, err
}

// OpenWithClient is [Open], and also returns the store's client to observe its exchanges, nil for an embedded
// store. The client is not used yet, and closing the store closes it.
func OpenWithClient(url string, options Options) (backend Store, client redis.UniversalClient, where string,
	err error) {
	if err := store.ValidatePrefix(options.Prefix); err != nil {
		return nil, nil, "", err
	}
	if err := checkScheme(url); err != nil {
		return nil, nil, "", err
	}
	if scheme, rest, _ := strings.Cut(url, ":"); !redisserver.IsURL(url) {
		if options.Layouts != nil {
			return nil, nil, "", redisserver.BadURL(
				"%s: holds limits of limitctl alone; the layouts of other limiters are those of keys in a Redis",
				scheme)
		}
		open := openFile
		if scheme == "memory" {
			open = openMemory
		}
		backend, where, err = open(rest, options)
		return backend, nil, where, err
	}
	parsed, err := redisserver.ParseURL(url)
	if err != nil {
		return nil, nil, "", err
	}
	if client, err = parsed.Connect(options.access()); err != nil {
		return nil, nil, "", err
	}
	settings := []redisstore.Option{
		redisstore.WithPrefix(options.Prefix), redisstore.WithSecrets(redisserver.URLSecrets(url)...)}
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
		return own.OtherLimiters(options.Layouts), client, parsed.Where(), nil
	}
	return own, client, parsed.Where(), nil
}

func (o *Options) access() redisserver.Access {
	return redisserver.Access{Password: o.Password, Timeout: o.Timeout, ReadFile: o.ReadFile}
}

// IsCluster reports whether client is for a Cluster, whose masters have different clocks.
func IsCluster(client redis.UniversalClient) bool {
	_, is := client.(*redis.ClusterClient)
	return is
}

// Redis returns the parsed URL of a Redis, and what it does not have. A URL of another kind of store is a
// [store.ErrInvalid].
func Redis(url string, options Options) (*redisserver.URL, redisserver.Access, error) {
	if err := checkScheme(url); err != nil {
		return nil, redisserver.Access{}, err
	}
	if !redisserver.IsURL(url) {
		scheme, _, _ := strings.Cut(url, ":")
		return nil, redisserver.Access{}, redisserver.BadURL("%s: is not a Redis", scheme)
	}
	parsed, err := redisserver.ParseURL(url)
	return parsed, options.access(), err
}

// Address returns a text that is the same for all URLs of one store, without a password; see
// [redisserver.URL.Identity]. [Open] must accept the URL.
func Address(url string) (string, error) {
	if scheme, rest, _ := strings.Cut(url, ":"); scheme == "file" {
		path, err := filepath.Abs(filePath(rest))
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		return "file " + path, err
	} else if !redisserver.IsURL(url) {
		return scheme, nil
	}
	parsed, err := redisserver.ParseURL(url)
	if err != nil {
		return "", err
	}
	return parsed.Identity(), nil
}

// checkScheme returns an error unless url has the scheme of a store. It does not repeat what can contain a password.
func checkScheme(url string) error {
	if strings.TrimSpace(url) != url { // as a secret from a file can
		return redisserver.BadURL("it begins or ends with a blank or a line end; leave that out")
	}
	if redisserver.IsURL(url) || strings.HasPrefix(url, "file:") || strings.HasPrefix(url, "memory:") {
		return nil
	}
	if scheme, _, found := strings.Cut(url, "://"); found && !strings.ContainsAny(scheme, "@:/") {
		return redisserver.BadURL("unknown scheme %q; it is one of file, memory, redis, redis+cluster, "+
			"redis+sentinel, rediss, "+
			"rediss+cluster, rediss+sentinel, unix", scheme)
	}
	if !strings.ContainsAny(url, ":@") {
		return redisserver.BadURL("%q has no scheme; did you mean %s or %s?", url, shell.Command("redis://"+url),
			shell.Command("file:"+url))
	}
	return redisserver.BadURL("it has no scheme; write redis://[user[:password]@]host:port, file:PATH or memory:")
}

func openMemory(rest string, options Options) (Store, string, error) {
	if rest != "" && rest != "//" {
		return nil, "", redisserver.BadURL("nothing goes after memory:")
	}
	settings := []memorystore.Option{memorystore.WithPrefix(options.Prefix)}
	if options.Clock != nil {
		settings = append(settings, memorystore.WithClock(options.Clock))
	}
	return memorystore.New(settings...), "memory", nil
}

func openFile(rest string, options Options) (Store, string, error) {
	path := filePath(rest)
	if path == "" {
		return nil, "", redisserver.BadURL("file: needs a path, such as file:limits.db")
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

// filePath returns the path of "file:" with that rest, which can be ///absolute/path.
func filePath(rest string) string {
	if strings.HasPrefix(rest, "///") {
		return rest[2:]
	}
	return rest
}

// ReadOnly wraps the store of a context so that nothing can write to it. A write fails with a [store.ErrInvalid]
// that names the context.
func ReadOnly(backend Store, name string) Store {
	s := &readOnlyStore{store: backend, name: name}
	if tables, has := admin.AuditOf(backend); has {
		s.Tables = *tables
		s.SideTable = readOnlySide{tables.SideTable, name}
	}
	return s
}

// readOnlyStore has every method of a store rather than embedding one, so that a new method of the interface has to
// be considered here.
type readOnlyStore struct {
	admin.Tables
	store Store
	name  string
}

// ReadOnlyError says that a context is read-only. It is a [store.ErrInvalid].
type ReadOnlyError struct {
	Context string
	What    string // the refused operation, such as "reset"
}

// Error names the context and the refused operation.
func (e *ReadOnlyError) Error() string {
	article := "a"
	if strings.ContainsAny(e.What[:1], "aeiou") {
		article = "an"
	}
	return fmt.Sprintf("context %q is read-only; %s %s writes, so it was not done", e.Context, article, e.What)
}

// Is makes every ReadOnlyError a [store.ErrInvalid].
func (e *ReadOnlyError) Is(target error) bool { return target == store.ErrInvalid }

// Decide passes only peeks.
func (s *readOnlyStore) Decide(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
	if op != store.Peek {
		return &ReadOnlyError{s.name, op.String()}
	}
	return s.store.Decide(ctx, op, reqs, decisions)
}

// Scan implements admin.Keyspace.
func (s *readOnlyStore) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return s.store.Scan(ctx, q)
}

// Delete refuses.
func (s *readOnlyStore) Delete(context.Context, ...admin.Record) (int, []admin.Record, error) {
	return 0, nil, &ReadOnlyError{s.name, "deletion"}
}

// Adjust refuses.
func (s *readOnlyStore) Adjust(context.Context, ...admin.Adjustment) ([]admin.Adjusted, error) {
	return nil, &ReadOnlyError{s.name, store.Adjust.String()}
}

// Import refuses.
func (s *readOnlyStore) Import(context.Context, bool, ...admin.Record) ([]admin.ImportOutcome, error) {
	return nil, &ReadOnlyError{s.name, "import"}
}

// Close implements store.Store.
func (s *readOnlyStore) Close() error { return s.store.Close() }

// readOnlySide refuses to change what is beside the limits.
type readOnlySide struct {
	admin.SideTable
	name string
}

// Change refuses.
func (s readOnlySide) Change(_ context.Context, c *admin.Change) (bool, error) {
	return false, &ReadOnlyError{s.name, c.What}
}

// Append refuses.
func (s readOnlySide) Append(_ context.Context, l admin.List, _ string) error {
	return &ReadOnlyError{s.name, "write to " + l.String()}
}

// AddCounts refuses.
func (s readOnlySide) AddCounts(context.Context, *admin.Denials) error {
	return &ReadOnlyError{s.name, "count of denials"}
}
