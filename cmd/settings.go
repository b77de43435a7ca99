package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/identity"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/storeurl"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// setting is a value and what it comes from.
type setting struct{ value, origin string }

// byDefault is the origin of a value that nothing sets.
const byDefault = "default"

// settings are which store a command is for.
type settings struct {
	store, prefix setting
	// context is the one that says so, or nil.
	context *config.Context
	// byFlag: the command line or the environment names the store.
	byFlag bool
	// hidden is the context chosen by "context use" that LIMITCTL_STORE overrides.
	hidden string
	// guard is the protected context whose store it is, besides the one in use; see protect.go.
	guard *config.Context
	// guardAnnounced: the user was told of it.
	guardAnnounced bool
	// looked: guard was looked for.
	looked bool
	// announced: it was said which store it is.
	announced bool
	// identity is which store it is, once its servers were asked.
	identity *identity.Store
}

// access is what the context in use allows, or the protected one whose store it is; without
// either nothing is forbidden. What changes something calls settingsToChange before.
func (s *settings) access() operation.Access {
	switch {
	case s.guard != nil:
		return operation.Access{Context: s.guard.Name, Protected: true, Reached: true}
	case s.context != nil:
		return operation.Access{Context: s.context.Name, ReadOnly: s.context.ReadOnly, Protected: s.context.Protected}
	}
	return operation.Access{}
}

// place is what to call the open store to people: the name of its context, if it has one,
// else where, which is the store's own name.
func (s *settings) place(where string) string {
	if s.context != nil {
		return s.context.Name
	}
	return where
}

// placeOf is what to call the open store to people; where is the store's own name.
func (g *globalOptions) placeOf(where string) string {
	if g.chosen == nil {
		return where
	}
	return g.chosen.place(where)
}

// settings finds out which store is meant: that of --store, else of --context,
// else of LIMITCTL_STORE, else of the context chosen by "context use", else the
// user's own file. The configuration must have no mistakes. It is not read if flags and
// variables say everything.
func (g *globalOptions) settings() (*settings, error) {
	if g.chosen != nil {
		return g.chosen, nil
	}
	s := &settings{byFlag: true}
	var contextName, contextOrigin string
	switch {
	case g.store != "" && g.contextName != "":
		return nil, usagef("--store and --context both name a store; give one of them")
	case g.store != "":
		s.store = setting{g.store, "flag --store"}
	case g.contextName != "":
		contextName, contextOrigin = g.contextName, "flag --context"
	case g.env.Getenv("LIMITCTL_STORE") != "":
		s.store = setting{g.env.Getenv("LIMITCTL_STORE"), "environment variable LIMITCTL_STORE"}
		s.hidden, _ = g.chosenContext() // a choice that cannot be read is not used either
	default:
		s.byFlag = false
		name, err := g.chosenContext()
		if err != nil {
			return nil, err
		}
		contextName, contextOrigin = name, "context use"
	}
	if contextName != "" {
		if err := s.useContext(g, contextName, contextOrigin); err != nil {
			return nil, err
		}
	}
	if s.store.value == "" {
		path, err := defaultFile(g.env.Getenv)
		if err != nil {
			return nil, err
		}
		s.store = setting{"file:" + path, byDefault}
	}
	if err := s.findPrefix(g); err != nil {
		return nil, err
	}
	g.chosen = s
	return s, nil
}

func (s *settings) useContext(g *globalOptions, name, origin string) error {
	c, err := g.config()
	if err != nil {
		return err
	}
	if s.context, err = c.Context(name); err != nil {
		if origin == "context use" {
			err = fmt.Errorf("%w; it was chosen by `limitctl context use`: choose another, or none", err)
		}
		return err
	}
	at, _ := c.Origin("contexts." + name + ".store")
	s.store = setting{s.context.Store, fmt.Sprintf("context %s (%s), chosen by %s", name, at, origin)}
	return nil
}

func (s *settings) findPrefix(g *globalOptions) error {
	if g.changed("prefix") {
		s.prefix = setting{g.prefix, "flag --prefix"}
		return nil
	}
	c, err := g.config()
	if err != nil {
		return err
	}
	switch {
	case s.context != nil && s.context.Prefix != "":
		at, _ := c.Origin("contexts." + s.context.Name + ".prefix")
		s.prefix = setting{s.context.Prefix, at.String()}
	case c.Prefix != "":
		at, _ := c.Origin("prefix")
		s.prefix = setting{c.Prefix, at.String()}
	default:
		s.prefix = setting{store.DefaultPrefix, byDefault}
	}
	return nil
}

// announce says which store was chosen without having been typed.
func (s *settings) announce(w io.Writer) {
	switch {
	case strings.HasPrefix(s.store.value, "memory:"):
		fmt.Fprintln(w, "limitctl: the store memory: holds limits for this command only")
	case s.hidden != "":
		fmt.Fprintf(w, "limitctl: using LIMITCTL_STORE, %s, and not the context %s (chosen by context use)\n",
			output.Escape(storeurl.Redact(s.store.value)), output.Escape(s.hidden))
	case s.byFlag:
	case s.context != nil:
		fmt.Fprintf(w, "limitctl: using the context %s (chosen by context use)\n", output.Escape(s.context.Name))
	default:
		fmt.Fprintf(w, "limitctl: using the file %s (no --store given)\n", output.Escape(strings.TrimPrefix(s.store.value, "file:")))
	}
}

// config reads the configuration, once.
func (g *globalOptions) config() (*config.Config, error) {
	if g.loaded != nil {
		return g.loaded, nil
	}
	c, err := config.Load(configEnvironment(g))
	if err != nil {
		return nil, err
	}
	g.loaded = c
	return c, nil
}

func configEnvironment(g *globalOptions) config.Environment {
	return config.Environment{Explicit: g.configFile, Getenv: g.env.Getenv, ReadFile: g.env.readConfig}
}

// readConfig reads a configuration file.
func (e *Env) readConfig(path string) ([]byte, error) {
	return e.ReadFile(path, configfile.MaxSize)
}

// readCertificate reads the file of a certificate or its key.
func (e *Env) readCertificate(path string) ([]byte, error) {
	return e.ReadFile(path, files.MaxCertificate)
}

// chosenContext returns the name that "context use" has remembered, or "".
func (g *globalOptions) chosenContext() (string, error) {
	path := contextFile(g.env.Getenv)
	if path == "" {
		return "", nil
	}
	text, err := g.env.ReadFile(path, files.MaxChoice)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil: // to go on would use another store than the chosen one
		return "", usagef("the choice of a context cannot be read: %s", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// currentContext returns the name of the context that a command would use, or "".
func (g *globalOptions) currentContext() (string, error) {
	switch {
	case g.contextName != "":
		return g.contextName, nil
	case g.store != "" || g.env.Getenv("LIMITCTL_STORE") != "":
		return "", nil
	}
	return g.chosenContext()
}
