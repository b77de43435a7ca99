package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/ratelimitfile"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// RatelimitPaths returns the files of envoyproxy/ratelimit that path names: the file, or those of a directory whose names end
// with .yaml or .yml and do not begin with a dot. list is [Environment.List].
func RatelimitPaths(path string, list func(path string) ([]string, error)) (paths []string, err error) {
	isFile := func(name string) bool {
		extension := filepath.Ext(name)
		return (extension == ".yaml" || extension == ".yml") && !strings.HasPrefix(name, ".")
	}
	if isFile(filepath.Base(path)) {
		return []string{path}, nil
	}
	names, err := list(path)
	if err != nil {
		return nil, store.Invalidf("directory %s of ratelimit_config cannot be read: %s", path, reason(err))
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if isFile(name) {
			paths = append(paths, filepath.Join(path, name))
		}
	}
	if len(paths) == 0 {
		return nil, store.Invalidf("directory %s of ratelimit_config has no file that ends with .yaml or .yml", path)
	}
	return paths, nil
}

// AddRatelimit adds the limits of the files of envoyproxy/ratelimit that a configuration names, if it does. [Load] has done so,
// and [Parse] has not.
func (c *Config) AddRatelimit(env *Environment) error {
	if c.EnvoyOptions.RatelimitConfig == "" {
		return nil
	}
	if c.Ratelimit = c.EnvoyOptions.RatelimitConfig; !filepath.IsAbs(c.Ratelimit) {
		c.Ratelimit = filepath.Join(filepath.Dir(c.PolicyFile), c.Ratelimit)
	}
	var err error
	if c.RatelimitFiles, err = RatelimitPaths(c.Ratelimit, env.List); err != nil {
		return err
	}
	var files []ratelimitfile.File
	for _, path := range c.RatelimitFiles {
		data, err := env.ReadFile(path)
		if err != nil {
			return store.Invalidf("file %s of ratelimit_config cannot be read: %s", path, reason(err))
		}
		files = append(files, ratelimitfile.File{Path: path, Data: data})
	}
	rules, mistakes := ratelimitfile.Read(files)
	if len(mistakes) > 0 {
		return &Mistakes{mistakes}
	}
	c.Read = append(c.Read, c.RatelimitFiles...)
	own := map[string]bool{}
	for _, p := range c.Policies {
		own[p.Name] = true
	}
	for _, p := range rules.Policies {
		if own[p.Name] {
			return store.Invalidf("policy %q is in %s, and the limits in %s make one of that name; rename the first", p.Name, c.PolicyFile,
				c.Ratelimit)
		}
		p.LocalShare = c.LocalShare
	}
	for _, domain := range rules.Domains {
		if _, twice := c.Envoy[domain]; twice {
			return store.Invalidf("domain %q is in %s, and in %s as well; keep one", domain, c.PolicyFile, c.Ratelimit)
		}
	}
	c.Policies = append(c.Policies, rules.Policies...)
	if c.Envoy == nil {
		c.Envoy = configfile.EnvoyDomains{}
	}
	for domain, descriptors := range rules.Envoy {
		c.Envoy[domain] = descriptors
	}
	return nil
}
