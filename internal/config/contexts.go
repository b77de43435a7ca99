package config

import (
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/yamlfile"
)

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
	for at, line := range r.Lines() {
		c.origins[at] = Origin{path, line}
	}
	return c, r.Mistakes()
}

// readContext reads a context. checkStore, if not nil, returns what is wrong with its URL.
func readContext(r *yamlfile.Reader, v yamlfile.Value, checkStore func(url string) error) *Context {
	result := &Context{Name: v.Name}
	fields, ok := r.Fields(v, "the context", configfile.ContextObject())
	if !ok {
		return result
	}
	if result.Store, ok = r.Text(fields["store"], "store", "a URL, such as redis://localhost:6379"); ok && checkStore != nil {
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
		if scheme, _, _ := strings.Cut(result.Store, ":"); len(result.Layouts) > 0 && (scheme == "file" || scheme == "memory") {
			r.MistakeAtKey(e, "layouts are those of keys in a Redis, and the store %s: holds limits of limitctl alone", scheme)
		}
	}
	result.ReadOnly = r.Bool(fields["read_only"])
	result.Protected = r.Bool(fields["protected"])
	return result
}
