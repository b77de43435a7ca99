// Package connect turns a store URL into a store. A kind of store is a scheme
// and a function in the table of openers.
package connect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// Store is what commands need: decisions, and looking after keys.
type Store interface {
	limiter.Store
	limiter.Keyspace
}

// Options is what a URL does not say.
type Options struct {
	Prefix   string
	Timeout  time.Duration // bounds each exchange with a server
	Password string        // for a URL without one
}

// opener makes a store of the part of a URL after "scheme:". where names it in
// messages, without a password.
type opener func(url, rest string, options Options) (store Store, where string, err error)

func openers() map[string]opener {
	return map[string]opener{
		"redis":  openRedis,
		"rediss": openRedis,
		"unix":   openRedis,
		"file":   openFile,
		"memory": openMemory,
	}
}

func schemes() string {
	return strings.Join(slices.Sorted(maps.Keys(openers())), ", ")
}

// Open returns the store at url and what to call it in messages. It does not
// connect yet. A bad URL's error is a [limiter.ErrInvalid] without the password.
func Open(url string, options Options) (store Store, where string, err error) {
	if err := limiter.ValidatePrefix(options.Prefix); err != nil {
		return nil, "", err
	}
	scheme, rest, found := strings.Cut(url, ":")
	open, known := openers()[scheme]
	if !found || !known {
		return nil, "", unknownScheme(url)
	}
	return open(url, rest, options)
}

// unknownScheme explains, without repeating what may hold a password.
func unknownScheme(url string) error {
	if scheme, _, found := strings.Cut(url, "://"); found && !strings.ContainsAny(scheme, "@:/") {
		return badURL("unknown scheme %q; it is one of %s", scheme, schemes())
	}
	if !strings.ContainsAny(url, ":@") {
		return badURL("%q has no scheme; did you mean redis://%s or file:%s?", url, url, url)
	}
	return badURL("it has no scheme; write redis://[user[:password]@]host:port, file:PATH or memory:")
}

// urlError is an ErrInvalid about the store's URL.
type urlError struct{ text string }

func (e *urlError) Error() string        { return "store URL: " + e.text }
func (e *urlError) Is(target error) bool { return target == limiter.ErrInvalid }

func badURL(format string, args ...any) error {
	return &urlError{fmt.Sprintf(format, args...)}
}

func openMemory(_, rest string, options Options) (Store, string, error) {
	if rest != "" && rest != "//" {
		return nil, "", badURL("nothing goes after memory:, and %q does", rest)
	}
	return memorystore.New(memorystore.WithPrefix(options.Prefix)), "memory", nil
}

func openFile(_, rest string, options Options) (Store, string, error) {
	path := rest
	if strings.HasPrefix(path, "///") { // file:///absolute/path
		path = path[2:]
	}
	if path == "" {
		return nil, "", badURL("file: needs a path, such as file:limits.db")
	}
	store, err := filestore.New(path, filestore.WithPrefix(options.Prefix))
	return store, path, err
}
