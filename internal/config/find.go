package config

import (
	"errors"
	"io/fs"
	"path/filepath"
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
	// List returns the names of the files in a directory, for envoy.ratelimit_config.
	List func(path string) (names []string, err error)
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
// An error is a [store.ErrInvalid]: a named file that cannot be read, or the [*Mistakes] of the files. If it is about
// envoy.ratelimit_config, there is a Config, of which only Ratelimit counts.
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
	l := loader{env: env, config: c}
	switch {
	case env.FromStore:
		if user != "" {
			if _, err := l.file(user, false, true); err != nil {
				return nil, err
			}
		}
		if len(l.mistakes) > 0 {
			return nil, &Mistakes{l.mistakes}
		}
		return c, nil
	case named != "":
		found, err := l.file(named, true, true)
		if err == nil && !found {
			err = store.Invalidf("%s names %q, which does not exist; correct it, or write a first one with `limitctl config init`", by,
				named)
		}
		if err != nil {
			return nil, err
		}
	default:
		local, err := filepath.Abs(LocalFile)
		if err == nil && local == user {
			break
		}
		if _, err := l.file(LocalFile, true, false); err != nil {
			return nil, err
		}
	}
	if user != "" && !same(user, named) {
		if _, err := l.file(user, c.PolicyFile == "", true); err != nil {
			return nil, err
		}
	}
	if len(l.mistakes) > 0 {
		return nil, &Mistakes{l.mistakes}
	}
	return c, c.AddRatelimit(&env)
}

// same reports whether two paths name the same file, judged by their texts.
func same(a, b string) bool {
	absoluteA, errA := filepath.Abs(a)
	absoluteB, errB := filepath.Abs(b)
	return b != "" && errA == nil && errB == nil && absoluteA == absoluteB
}

// loader puts a configuration together from files.
type loader struct {
	env      Environment
	config   *Config
	mistakes []Mistake
}

// file adds the content of a file, if it exists: its policies and its prefix, its contexts, or both.
func (l *loader) file(path string, policies, contexts bool) (found bool, err error) {
	c := l.config
	c.Searched = append(c.Searched, path)
	data, err := l.env.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, store.Invalidf("configuration file %s cannot be read: %s", path, reason(err))
	}
	c.Read = append(c.Read, path)
	refusal := ""
	if !contexts {
		refusal = "contexts are not allowed in ./limitctl.yaml; move them to " + l.env.UserFile()
	}
	part, mistakes := read(path, data, l.env.CheckStore, refusal)
	l.mistakes = append(l.mistakes, mistakes...)
	if policies {
		c.PolicyFile, c.File, c.Layouts = path, part.File, part.Layouts
	}
	if l.env.FromStore {
		c.Prefix = part.Prefix
	}
	c.Contexts = l.add(part, policies)
	return true, nil
}

// add returns the contexts together with the new ones of a part, and adds the origins of the part's values.
func (l *loader) add(part *Config, policies bool) []*Context {
	contexts, there := l.config.Contexts, map[string]bool{}
	for _, x := range contexts {
		there[x.Name] = true
	}
	for _, x := range part.Contexts {
		if !there[x.Name] {
			contexts = append(contexts, x)
		}
	}
	for path, origin := range part.origins {
		if _, known := l.config.origins[path]; known {
			continue
		}
		name, isContext := contextOf(path)
		if isContext && !there[name] || !isContext && policies {
			l.config.origins[path] = origin
		}
	}
	return contexts
}

// reason is the error of an operating system without the path.
func reason(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// contextOf returns the context in a value's path.
func contextOf(path string) (name string, is bool) {
	rest, is := strings.CutPrefix(path, "contexts.")
	name, _, _ = strings.Cut(rest, ".")
	return name, is
}
