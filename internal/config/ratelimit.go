package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/ratelimitfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostLevels is the most directories inside each other, so that a symbolic link to one above is found.
const mostLevels = 16

// RatelimitPaths returns the files of envoyproxy/ratelimit that path names: the file, or those of a directory and of those in
// it, but for names that begin with a dot. All must end with .yaml or .yml: envoyproxy/ratelimit reads the others as well, so
// leaving one out would open its limits. list is [Environment.List].
func RatelimitPaths(path string, list func(path string) ([]string, error)) (paths []string, err error) {
	if isRatelimitFile(path) {
		return []string{path}, nil
	}
	names, err := list(path)
	if err != nil {
		return nil, store.Invalidf("directory %s of envoyproxy/ratelimit cannot be read: %s", path, reason(err))
	}
	if paths, err = pathsIn(path, names, list, 1); err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, store.Invalidf("directory %s of envoyproxy/ratelimit has no file that ends with .yaml or .yml", path)
	}
	return paths, nil
}

func isRatelimitFile(path string) bool {
	extension := filepath.Ext(path)
	return extension == ".yaml" || extension == ".yml"
}

// pathsIn returns the files in a directory that has these names.
func pathsIn(directory string, names []string, list func(path string) ([]string, error), level int) (paths []string, err error) {
	for _, name := range slices.Sorted(slices.Values(names)) {
		path := filepath.Join(directory, name)
		if strings.HasPrefix(name, ".") {
			continue
		}
		if isRatelimitFile(name) {
			paths = append(paths, path)
			continue
		}
		inside, err := list(path)
		if err != nil {
			return nil, store.Invalidf("%s in the directory of envoyproxy/ratelimit does not end with .yaml or .yml; "+
				"rename it, or move it away", path)
		}
		if level == mostLevels {
			return nil, store.Invalidf("directory %s of envoyproxy/ratelimit is the %dth inside another; is there a link to one above?",
				path, level)
		}
		below, err := pathsIn(path, inside, list, level+1)
		if err != nil {
			return nil, err
		}
		paths = append(paths, below...)
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
	c.Remarks = rules.Remarks
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
