// Package config reads limitctl's configuration: policies, which are reviewed like code, and contexts, which name
// the stores. It reads strictly, finds every mistake of a file at once, and remembers where each value was written.
package config

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Config is the content of one file, or of several together.
type Config struct {
	// PolicyFile is the file with the policies; empty if there is none.
	PolicyFile string
	// File is the content of PolicyFile, without what is for operators alone.
	configfile.File
	// Layouts say which keys of other limiters have which layout, in the order of the file.
	Layouts layouts.Sources
	// Contexts are in the order of the files.
	Contexts []*Context
	// Read are the files that were read.
	Read []string
	// Searched are the files that were looked for, in the order of their precedence.
	Searched []string

	origins map[string]Origin
}

// Parse reads a configuration file; path is its name in messages. checkStore, if not nil, returns what is wrong
// with the URL of a context's store, without its password. An error is a [*Mistakes] with all mistakes.
func Parse(path string, data []byte, checkStore func(url string) error) (*Config, error) {
	c, mistakes := read(path, data, checkStore, "")
	if len(mistakes) > 0 {
		return nil, &Mistakes{mistakes}
	}
	return c, nil
}

// WithPublished returns c with the policies of a published text, and what else decides; name is the text's name in
// messages. A text with contexts or layouts was not published by limitctl, and is a [store.ErrInvalid]; other errors
// are [*Mistakes].
func (c *Config) WithPublished(name string, text []byte) (*Config, error) {
	published, err := Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	if len(published.Contexts) > 0 || len(published.Layouts) > 0 {
		return nil, store.Invalidf("%s has contexts or layouts, so limitctl did not publish it", name)
	}
	published.Prefix, published.Contexts, published.Layouts, published.Searched = c.Prefix, c.Contexts, c.Layouts,
		c.Searched
	return published, nil
}

// Context is a store with a name, and rules for what may be done to it, as JSON shows it.
type Context struct {
	Name string `json:"name"`
	// Store is the store's URL; answers have it without its password.
	Store string `json:"store"`
	// Prefix is the text that the store's keys begin with; empty if the context has none.
	Prefix string `json:"prefix,omitempty"`
	// Layouts are the default layouts of other limiters, by which keys are read; none for limitctl's own keys.
	Layouts []string `json:"layouts,omitempty"`
	// PasswordFile and PasswordEnv say where the password is; at most one is set.
	PasswordFile string `json:"password_file,omitempty"`
	PasswordEnv  string `json:"password_env,omitempty"`
	// ReadOnly: nothing may write. Protected: destructive commands need a confirmation.
	ReadOnly  bool `json:"read_only"`
	Protected bool `json:"protected"`
}

// Origin is the place of a value.
type Origin struct {
	Path string
	Line int
	text string // as it is written
}

// String returns the origin as "limitctl.yaml:12".
func (o Origin) String() string { return fmt.Sprintf("%s:%d", o.Path, o.Line) }

// Origin returns the place of the value at a path, such as "policies.login.limits[0].limit" or
// "contexts.prod.store".
func (c *Config) Origin(path string) (origin Origin, ok bool) {
	origin, ok = c.origins[path]
	return origin, ok
}

// Policy returns the policy of that name. An error is a [store.ErrInvalid] that lists the policies, or the files
// that were looked for.
func (c *Config) Policy(name string) (*policy.Policy, error) {
	if c.PolicyFile == "" {
		return nil, store.Invalidf("policy %q: there is no configuration file; looked for %s; name one with --config "+
			"FILE", name,
			strings.Join(c.Searched, ", "))
	}
	return configfile.FindPolicy(c.PolicyFile, c.Policies, name)
}

// Context returns the context of that name. An error is a [store.ErrInvalid] that lists the contexts.
func (c *Config) Context(name string) (*Context, error) {
	names := make([]string, 0, len(c.Contexts))
	for _, x := range c.Contexts {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	if len(names) == 0 {
		return nil, store.Invalidf("context %q: no contexts are configured; looked in %s; write contexts: {NAME: "+
			"{store: URL}} there", name,
			strings.Join(c.ContextFiles(), ", "))
	}
	return nil, store.Invalidf("context %q is unknown%s; there are %s", name, configfile.Suggestion(name, names),
		strings.Join(names, ", "))
}

// ContextFiles are the files in which contexts were looked for.
func (c *Config) ContextFiles() []string {
	var files []string
	for _, path := range c.Searched {
		if path != LocalFile {
			files = append(files, path)
		}
	}
	return files
}

// Mistake is one mistake in a file, with its place.
type Mistake = yamlfile.Mistake

// Mistakes is the error of files with mistakes, in the order of the files and of
// their lines. It is a [store.ErrInvalid].
type Mistakes struct{ List []Mistake }

// Error returns a line for each mistake.
func (m *Mistakes) Error() string { return yamlfile.Format(m.List) }

// Is makes Mistakes a store.ErrInvalid.
func (m *Mistakes) Is(target error) bool { return target == store.ErrInvalid }

// read reads as much of a file as it can. Do not use the Config if there are mistakes. refusal, if not empty, is
// the mistake of a file that has contexts.
func read(path string, data []byte, checkStore func(url string) error, refusal string) (*Config, []Mistake) {
	c := &Config{PolicyFile: path, Read: []string{path}, Searched: []string{path}, origins: map[string]Origin{}}
	file, r := configfile.Read(path, data, configfile.Operators{
		Contexts: func(r *yamlfile.Reader, v yamlfile.Value) {
			for _, each := range configfile.Named(r, v, "context", "contexts") {
				c.Contexts = append(c.Contexts, readContext(r, each, checkStore))
			}
			if refusal != "" {
				r.Mistake(v, "%s", refusal)
			}
		},
		Layouts: func(r *yamlfile.Reader, v yamlfile.Value) { c.Layouts = readMappings(r, v) },
	})
	c.File = file
	for at, place := range r.Places() {
		c.origins[at] = Origin{path, place.Line, place.Text}
	}
	return c, r.Mistakes()
}

// readContext reads a context. checkStore, if not nil, returns what is wrong with its URL.
func readContext(r *yamlfile.Reader, v yamlfile.Value, checkStore func(url string) error) *Context {
	result := &Context{Name: v.Name}
	fields, ok := r.Fields(v, "the context", configfile.Fields("context"))
	if !ok {
		return result
	}
	if result.Store, ok = r.Text(fields["store"], "store", "a URL, such as redis://localhost:6379"); ok &&
		checkStore != nil {
		r.Hide(redisserver.URLSecrets(result.Store)...)
		if err := checkStore(result.Store); err != nil {
			r.Mistake(fields["store"], "%s", err)
		}
	}
	result.Prefix = configfile.Prefix(r, fields)
	result.PasswordFile, _ = r.Text(fields["password_file"], "password_file", "a path")
	if e, given := fields["password_env"]; given {
		result.PasswordEnv, _ = r.Text(e, "password_env", "the name of an environment variable")
		if _, both := fields["password_file"]; both {
			r.MistakeAtKey(e, "the context has both a password_file and a password_env; keep one")
		}
	}
	if e, given := fields["layout"]; given {
		result.Layouts = readLayout(r, e)
		if scheme, _, _ := strings.Cut(result.Store, ":"); len(result.Layouts) > 0 &&
			(scheme == "file" || scheme == "memory") {
			r.MistakeAtKey(e, "layouts are those of keys in a Redis, and the store %s: holds limits of limitctl alone",
				scheme)
		}
	}
	result.ReadOnly = r.Bool(fields["read_only"])
	result.Protected = r.Bool(fields["protected"])
	return result
}
