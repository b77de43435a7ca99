package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// LocalFile is the configuration of the working directory.
const LocalFile = "limitctl.yaml"

// Environment says where the configuration is.
type Environment struct {
	// Explicit is the file of --config, or empty.
	Explicit string
	Getenv   func(name string) string
	// ReadFile reads a file; the error for a missing one is [fs.ErrNotExist].
	ReadFile func(path string) ([]byte, error)
	// FromStore: the policies are not in a file, and only the user's own file is read, for contexts and the prefix.
	FromStore bool
	// CheckStore, if not nil, returns what is wrong with a store's URL.
	CheckStore func(url string) error
}

// UserFile returns the path of the user's own configuration; empty if the environment does not determine it.
func (e *Environment) UserFile() string {
	directory := e.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(directory) { // the XDG specification says to ignore a relative one
		home := e.Getenv("HOME")
		if home == "" {
			return ""
		}
		directory = filepath.Join(home, ".config")
	}
	return filepath.Join(directory, "limitctl", LocalFile)
}

// Load reads the configuration. The policies, the prefix and the layouts come from the first of: the file of
// --config, that of LIMITCTL_CONFIG, ./limitctl.yaml, the user's own. The contexts come from an explicitly named
// file, and then from the user's own; a file that happens to be in the working directory must not choose the server
// of a command.
//
// An error is a [store.ErrInvalid]: a named file that cannot be read, or the [*Mistakes] of the files.
func Load(env Environment) (*Config, error) {
	named, by := env.Explicit, "--config"
	if named == "" {
		named, by = env.Getenv("LIMITCTL_CONFIG"), "LIMITCTL_CONFIG"
	}
	user := env.UserFile()
	breaker := store.Breaker{}.WithDefaults()
	c := &Config{origins: map[string]Origin{}, File: configfile.File{
		LocalShare: store.DefaultShare, Breaker: &breaker, HTTP: configfile.DefaultHTTP(),
	}}
	type source struct {
		path    string
		refusal string // of contexts
	}
	var sources []source
	switch local, err := filepath.Abs(LocalFile); {
	case env.FromStore:
		named = ""
	case named != "":
		sources = append(sources, source{path: named})
	case err != nil || local != user:
		sources = append(sources, source{LocalFile, "contexts are not allowed in ./limitctl.yaml; move them to " +
			user})
	}
	if user != "" && !same(user, named) {
		sources = append(sources, source{path: user})
	}
	var mistakes []Mistake
	for _, s := range sources {
		c.Searched = append(c.Searched, s.path)
		data, err := env.ReadFile(s.path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && s.path == named:
			return nil, store.Invalidf("%s names %q, which does not exist", by, named)
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, store.Invalidf("configuration file %s cannot be read: %s", s.path, reason(err))
		}
		c.Read = append(c.Read, s.path)
		part, wrong := read(s.path, data, env.CheckStore, s.refusal)
		mistakes = append(mistakes, wrong...)
		c.add(part, !env.FromStore && c.PolicyFile == "")
		if env.FromStore {
			c.Prefix = part.Prefix
		}
	}
	if len(mistakes) > 0 {
		return nil, &Mistakes{mistakes}
	}
	return c, nil
}

// same reports whether two paths name the same file, judged by their texts.
func same(a, b string) bool {
	absoluteA, errA := filepath.Abs(a)
	absoluteB, errB := filepath.Abs(b)
	return b != "" && errA == nil && errB == nil && absoluteA == absoluteB
}

// add adds the contexts of a part that are new and, if they are to come from it, its policies, with their origins.
func (c *Config) add(part *Config, policies bool) {
	if policies {
		c.PolicyFile, c.File, c.Layouts = part.PolicyFile, part.File, part.Layouts
	}
	isNew := map[string]bool{}
	for _, x := range part.Contexts {
		if !slices.ContainsFunc(c.Contexts, func(known *Context) bool { return known.Name == x.Name }) {
			isNew[x.Name] = true
			c.Contexts = append(c.Contexts, x)
		}
	}
	for path, origin := range part.origins {
		name, isContext := strings.CutPrefix(path, "contexts.")
		name, _, _ = strings.Cut(name, ".")
		if isContext && isNew[name] || !isContext && policies {
			c.origins[path] = origin
		}
	}
}

// reason is the error of an operating system without the path.
func reason(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
