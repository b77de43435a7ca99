package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// setting is a value and what it comes from.
type setting struct{ value, origin string }

// byDefault is the origin of what nobody said.
const byDefault = "default"

// settings are which store a command is for.
type settings struct {
	store, prefix setting
	// context is the one that says so, or nil.
	context *config.Context
	// byFlag: somebody typed the store or the context just now.
	byFlag bool
}

// settings finds out which store is meant: that of --store, else of --context,
// else of LIMITCTL_STORE, else of the context chosen by "context use", else the
// user's own file. The configuration is read, and must have no mistakes, unless
// all is said without it.
func (g *globalOptions) settings() (*settings, error) {
	if g.chosen != nil {
		return g.chosen, nil
	}
	s := &settings{byFlag: true}
	var contextName, contextOrigin string
	switch {
	case g.store != "" && g.contextName != "":
		return nil, usagef("--store and --context both say which store to use; give one of them")
	case g.store != "":
		s.store = setting{g.store, "flag --store"}
	case g.contextName != "":
		contextName, contextOrigin = g.contextName, "flag --context"
	case g.env.Getenv("LIMITCTL_STORE") != "":
		s.store = setting{g.env.Getenv("LIMITCTL_STORE"), "environment variable LIMITCTL_STORE"}
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
			err = fmt.Errorf("%w; it was chosen by `limitctl context use`, choose another or none", err)
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
		s.prefix = setting{limiter.DefaultPrefix, byDefault}
	}
	return nil
}

// announce says which store was chosen without having been typed.
func (s *settings) announce(w io.Writer) {
	switch {
	case strings.HasPrefix(s.store.value, "memory:"):
		fmt.Fprintln(w, "limitctl: the store memory: holds limits for this command only")
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
	c, err := config.Load(g.configEnvironment())
	if err != nil {
		return nil, err
	}
	g.loaded = c
	return c, nil
}

func (g *globalOptions) configEnvironment() config.Environment {
	return config.Environment{Explicit: g.configFile, Getenv: g.env.Getenv, ReadFile: g.readConfig}
}

// readConfig reads a configuration file.
func (g *globalOptions) readConfig(path string) ([]byte, error) {
	return g.env.ReadFile(path, configfile.MaxSize)
}

// readCertificate reads the file of a certificate or its key.
func (g *globalOptions) readCertificate(path string) ([]byte, error) {
	return g.env.ReadFile(path, files.MaxCertificate)
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
	case err != nil: // to go on would be to use another store than the chosen one
		return "", usagef("which context was chosen cannot be read: %s", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// contextFile is where "context use" remembers its choice; empty if nothing says
// where that could be.
func contextFile(getenv func(string) string) string {
	directory := stateDir(getenv)
	if directory == "" {
		return ""
	}
	return filepath.Join(directory, "context")
}

// defaultFile returns the path of the file that is the store when none is said.
func defaultFile(getenv func(string) string) (string, error) {
	directory := stateDir(getenv)
	if directory == "" {
		return "", usagef("no --store given, and neither XDG_STATE_HOME nor HOME says where a file could be; give --store file:PATH")
	}
	return filepath.Join(directory, "limits.db"), nil
}

// stateDir is where limitctl keeps what is no configuration; empty if
// nothing says where that could be.
func stateDir(getenv func(string) string) string {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // a relative one is to be ignored, by the XDG specification
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "limitctl")
}
