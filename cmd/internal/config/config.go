// Package config reads limitctl's configuration: policies, which are reviewed like
// code, and contexts, which say where the stores are. It reads strictly, finds
// every mistake of a file in one go, and remembers where each value was written.
package config

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Config is what one file says, or what several say together.
type Config struct {
	// PolicyFile is the file that the prefix, denials and the policies come from; empty
	// if there is none.
	PolicyFile string
	// Prefix is what the store's keys begin with; empty if no file says.
	Prefix string
	// Denials: commands count who is denied.
	Denials bool
	// LocalShare is what a local shadow gets of limits without a policy.
	LocalShare store.Share
	// Breaker is that of services, with its defaults filled in; nil is that there is none.
	Breaker *layers.Breaker
	// Policies are in the order written.
	Policies []*policy.Policy
	// HTTP has its defaults filled in.
	HTTP httplimit.Settings
	// Envoy are the descriptors that Envoy may ask about.
	Envoy configfile.EnvoyDomains
	// Layouts say which keys of other limiters have which layout, in the order written.
	Layouts []Mapping
	// Contexts are in the order written.
	Contexts []*Context
	// Read are the files that were read.
	Read []string
	// Searched are the files that were looked for, and would have been used in
	// this order.
	Searched []string

	origins map[string]Origin
}

// Parse reads a configuration file; path names it in messages. checkStore, if not
// nil, tells what is wrong with the URL of a context's store, without showing its
// password. An error is a [*Mistakes] with all that is wrong.
func Parse(path string, data []byte, checkStore func(url string) error) (*Config, error) {
	c, mistakes := read(path, data, checkStore, "")
	if len(mistakes) > 0 {
		return nil, &Mistakes{mistakes}
	}
	return c, nil
}

// Context is a store with a name, and what may be done to it.
type Context struct {
	Name string
	// Store is the store's URL. It may hold a password.
	Store string
	// Prefix is what the store's keys begin with; empty if it does not say.
	Prefix string
	// PasswordFile and PasswordEnv say where the password is; at most one does.
	PasswordFile, PasswordEnv string
	// Layouts name the layouts of other limiters by which the keys there are read if nothing
	// else is asked for; none for limitctl's own keys.
	Layouts []string
	// ReadOnly: nothing may write. Protected: to destroy takes a confirmation.
	ReadOnly, Protected bool
}

// Origin is where a value was written.
type Origin struct {
	Path string
	Line int
}

// String returns the origin as "limitctl.yaml:12".
func (o Origin) String() string { return fmt.Sprintf("%s:%d", o.Path, o.Line) }

// Origin returns where the value at a path was written, such as
// "policies.login.limits[0].limit" or "contexts.prod.store".
func (c *Config) Origin(path string) (origin Origin, ok bool) {
	origin, ok = c.origins[path]
	return origin, ok
}

// ServesDenials reports whether a server counts who is denied: it does unless the file says
// "denials: false".
func (c *Config) ServesDenials() bool {
	_, said := c.Origin("denials")
	return c.Denials || !said
}

// Policy returns the policy of that name. The error is a [store.ErrInvalid]
// that says which there are, or where was looked for any.
func (c *Config) Policy(name string) (*policy.Policy, error) {
	if c.PolicyFile == "" {
		return nil, store.Invalidf("policy %q: there is no configuration file; looked for %s; name one with --config FILE", name,
			strings.Join(c.Searched, ", "))
	}
	return configfile.FindPolicy(c.PolicyFile, c.Policies, name)
}

// Context returns the context of that name. The error is a [store.ErrInvalid]
// that says which there are.
func (c *Config) Context(name string) (*Context, error) {
	names := make([]string, 0, len(c.Contexts))
	for _, x := range c.Contexts {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	if len(names) == 0 {
		return nil, store.Invalidf("context %q: no contexts are configured; looked in %s", name, strings.Join(c.ContextFiles(), ", "))
	}
	return nil, store.Invalidf("context %q is unknown%s; there are %s", name, configfile.Suggestion(name, names),
		strings.Join(names, ", "))
}

// ContextFiles are the files that contexts were looked for in.
func (c *Config) ContextFiles() []string {
	var files []string
	for _, path := range c.Searched {
		if path != LocalFile {
			files = append(files, path)
		}
	}
	return files
}
