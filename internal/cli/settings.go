package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Place is the name of the open store for people: that of its context, else where, which is
// the store's own name.
func (s *Settings) Place(where string) string {
	if s.Context != nil {
		return s.Context.Name
	}
	return where
}

// Settings finds out which store is meant: that of --store, else of --context,
// else of LIMITCTL_STORE or LIMITCTL_CONTEXT, else of the context chosen by "context use", else the
// user's own file. The configuration must have no mistakes. It is not read if flags and
// variables say everything.
func (g *Globals) Settings() (*Settings, error) {
	if g.chosen != nil {
		return g.chosen, nil
	}
	s := &Settings{byFlag: true}
	var contextName, contextOrigin string
	switch {
	case g.Store != "" && g.ContextName != "":
		return nil, Usagef("--store and --context both name a store; give one of them")
	case g.Store != "":
		s.Store = g.Store
	case g.ContextName != "":
		contextName, contextOrigin = g.ContextName, "flag --context"
	case g.Env.Getenv("LIMITCTL_STORE") != "" && g.Env.Getenv(contextVariable) != "":
		return nil, Usagef("LIMITCTL_STORE and %s both name a store; set one of them", contextVariable)
	case g.Env.Getenv("LIMITCTL_STORE") != "":
		s.Store, s.byVariable = g.Env.Getenv("LIMITCTL_STORE"), true
		s.hidden, _, _ = g.chosenContext() // an error does not matter here: the choice is not used
	case g.Env.IsSet("LIMITCTL_STORE"): // a secret that is missing or withheld
		return nil, Usagef("LIMITCTL_STORE is set and empty; give it the URL of a store, or unset it")
	case g.Env.IsSet(contextVariable) && g.Env.Getenv(contextVariable) == "":
		return nil, Usagef("%s is set and empty; give it the name of a context, or unset it", contextVariable)
	default:
		s.byFlag = false
		var err error
		if contextName, contextOrigin, err = g.chosenContext(); err != nil {
			return nil, err
		}
		s.chosenBy = contextOrigin
	}
	if contextName != "" {
		if err := s.useContext(g, contextName, contextOrigin); err != nil {
			return nil, err
		}
	}
	if s.Store == "" {
		path, err := defaultFile(g.Env.Getenv)
		if err != nil {
			return nil, err
		}
		s.Store, s.byDefault = "file:"+path, true
	}
	if err := s.findPrefix(g); err != nil {
		return nil, err
	}
	g.chosen = s
	return s, nil
}

func (s *Settings) useContext(g *Globals, name, origin string) error {
	c, err := g.Config()
	if err != nil {
		return err
	}
	if s.Context, err = c.Context(name); err != nil {
		switch origin {
		case contextVariable:
			err = fmt.Errorf("%s: %w", contextVariable, err)
		case byUse:
			err = fmt.Errorf("%w; it was chosen by `limitctl context use`; choose another, or none with `limitctl "+
				"context use --none`", err)
		}
		return err
	}
	s.Store = s.Context.Store
	return nil
}

func (s *Settings) findPrefix(g *Globals) error {
	if g.Changed("prefix") {
		s.Prefix = g.Prefix
		return nil
	}
	c, err := g.Config()
	if err != nil {
		return err
	}
	if s.Context != nil {
		s.Prefix = s.Context.Prefix
	}
	s.Prefix = cmp.Or(s.Prefix, c.Prefix, store.DefaultPrefix)
	return nil
}

// CheckNamed refuses a store that nobody has named on a runner for CI: its file is empty each time, so that every limit
// would let everything through.
func (s *Settings) CheckNamed(env *Env) error {
	for _, variable := range []string{"CI", "GITHUB_ACTIONS"} {
		value := env.Getenv(variable)
		if s.byDefault && value != "" && value != "false" && value != "0" {
			return Usagef("%s=%s, and no store is named: a runner's own file is empty each time; set LIMITCTL_STORE, "+
				"or give --store file:PATH if you mean a file", variable, value)
		}
	}
	return nil
}

// announce names a store that the user has not typed. It names the user's own file only until the file is there, since
// it is always the same one.
func (s *Settings) announce(env *Env) {
	w, file := env.Err, strings.TrimPrefix(s.Store, "file:")
	switch {
	case s.Store == "memory:":
		fmt.Fprintln(w, "limitctl: the store memory: holds limits for this command only")
	case s.hidden != "":
		fmt.Fprintf(w, "limitctl: using LIMITCTL_STORE, %s, and not the context %s (chosen by context use)\n",
			output.Escape(redisserver.RedactURL(s.Store)), output.Escape(s.hidden))
	case s.byFlag:
	case s.Context != nil:
		fmt.Fprintf(w, "limitctl: using the context %s (chosen by %s)\n", output.Escape(s.Context.Name), s.chosenBy)
	default:
		opened, err := files.Open(file)
		if err == nil {
			opened.Close()
			return
		}
		fmt.Fprintf(w, "limitctl: using the file %s (no --store given)\n", output.Escape(file))
	}
}

// Config reads the configuration, once.
func (g *Globals) Config() (*config.Config, error) {
	if g.files != nil {
		return g.files, nil
	}
	c, err := g.LoadConfig(nil)
	if err == nil {
		g.files = c
	}
	return c, err
}

// LoadConfig reads the configuration. checkStore, if not nil, returns what is wrong with a store's URL.
func (g *Globals) LoadConfig(checkStore func(url string) error) (*config.Config, error) {
	if g.ConfigFile == "" && g.Env.IsSet(configVariable) && g.Env.Getenv(configVariable) == "" {
		return nil, Usagef("%s is set and empty; give it the path of a file, or unset it", configVariable)
	}
	env := ConfigEnvironment(g)
	env.CheckStore = checkStore
	return config.Load(env)
}

// NotCounted says why nobody counts denials, or is "": the configuration in force says so.
func (g *Globals) NotCounted(ctx context.Context) string {
	c, err := g.InForce(ctx)
	if err != nil || !c.NoDenials {
		return ""
	}
	at, _ := c.Origin("denials")
	return "denials are not counted (denials: false in " + output.Escape(at.String()) + ")"
}

// ConfigEnvironment is what the configuration is read from.
func ConfigEnvironment(g *Globals) config.Environment {
	e := config.Environment{Explicit: g.ConfigFile, Getenv: g.Env.Getenv, ReadFile: ReadConfig}
	if g.FromStore() {
		e.Explicit, e.FromStore = "", true
	}
	return e
}

// configVariable is the environment variable that names a configuration.
const configVariable = "LIMITCTL_CONFIG"

// publishedConfig is a --config that means the configuration that was published to the store.
const publishedConfig = "store:"

// FromStore reports whether the configuration is the one that was published to the store.
func (g *Globals) FromStore() bool {
	return g.ConfigFile == publishedConfig || g.ConfigFile == "" && g.Env.Getenv(configVariable) == publishedConfig
}

// byUse is the origin of a context that "context use" has remembered.
const byUse = "context use"

// chosenContext returns the name in LIMITCTL_CONTEXT, else the one that "context use" has remembered, or "".
func (g *Globals) chosenContext() (name, origin string, err error) {
	if name = g.Env.Getenv(contextVariable); name != "" {
		return name, contextVariable, nil
	}
	path := ContextFile(g.Env.Getenv)
	if path == "" {
		return "", "", nil
	}
	text, err := files.Read(path, files.MaxChoice)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", nil
	case err != nil: // without the choice, the command would use another store
		return "", "", Usagef("the choice of a context cannot be read: %s", err)
	}
	return strings.TrimSpace(string(text)), byUse, nil
}

// CurrentContext returns the name of the context that a command would use, or "".
func (g *Globals) CurrentContext() (string, error) {
	switch {
	case g.ContextName != "":
		return g.ContextName, nil
	case g.Store != "" || g.Env.Getenv("LIMITCTL_STORE") != "":
		return "", nil
	}
	name, _, err := g.chosenContext()
	return name, err
}

// ContextFile is where "context use" remembers its choice; empty if there is no directory for it.
func ContextFile(getenv func(string) string) string {
	directory := stateDir(getenv)
	if directory == "" {
		return ""
	}
	return filepath.Join(directory, "context")
}

// defaultFile returns the path of the default store.
func defaultFile(getenv func(string) string) (string, error) {
	directory := stateDir(getenv)
	if directory == "" {
		return "", Usagef("no --store given, and neither XDG_STATE_HOME nor HOME is set to find a file; give --store " +
			"file:PATH")
	}
	return filepath.Join(directory, "limits.db"), nil
}

// stateDir is where limitctl keeps its state; empty if the environment names no directory.
func stateDir(getenv func(string) string) string {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the XDG specification ignores a relative one
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "limitctl")
}

// FallbackFile returns the path of the fallback store of the chosen store. There is one for each
// store and prefix, which all commands of the user share. The URL identifies the store, since a
// store that is away cannot be asked.
func FallbackFile(g *Globals) (string, error) { return storeFile(g, "local-shadow-", ".db") }

// PublishedFile returns the path of the file in which serve keeps the published configuration of the chosen store.
func PublishedFile(g *Globals) (string, error) { return storeFile(g, "published-", ".config") }

// storeFile returns the path of a file of the user about the chosen store.
func storeFile(g *Globals, before, after string) (string, error) {
	s, err := g.Settings()
	if err != nil {
		return "", err
	}
	directory := stateDir(g.Env.Getenv)
	if directory == "" {
		return "", errors.New("neither XDG_STATE_HOME nor HOME is set to find a file for it")
	}
	address, err := connect.Address(s.Store)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256([]byte(address + "\x00" + s.Prefix))
	return filepath.Join(directory, before+hex.EncodeToString(hash[:8])+after), nil
}

// contextVariable names a context, as the flag --context does.
const contextVariable = "LIMITCTL_CONTEXT"

// Begin reads the filter of a command whose flags have no mistake.
func (g *Globals) Begin(cmd *cobra.Command) error {
	// An empty value comes from a variable that a script did not set. The command would use another store than the
	// intended one.
	if err := NotEmpty(cmd, "store", "context", "config"); err != nil {
		return err
	}
	return g.readFilter()
}

// NotEmpty refuses flags that are given without a value.
func NotEmpty(cmd *cobra.Command, flags ...string) error {
	for _, flag := range flags {
		if given := cmd.Flags().Lookup(flag); given != nil && given.Changed && given.Value.String() == "" {
			return Usagef("--%s is empty; give it a value or leave it out", flag)
		}
	}
	return nil
}

// SettingsToChange is Settings for a command that changes what others use. What protects a context protects its store,
// also if a URL or another context of the same address and prefix names it. The keys of other limiters are under no
// prefix of ours, so for these any protected context of the address counts.
func (g *Globals) SettingsToChange() (*Settings, error) {
	s, err := g.Settings()
	if err == nil {
		err = s.CheckNamed(g.Env)
	}
	if err != nil {
		return s, err
	}
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	if s.Context != nil && (s.Context.Protected || s.Context.ReadOnly) {
		return s, nil
	}
	here, err := connect.Address(s.Store)
	if err != nil {
		return nil, err
	}
	for _, x := range c.Contexts {
		samePrefix := cmp.Or(x.Prefix, c.Prefix, store.DefaultPrefix) == s.Prefix
		if s.Guard != nil || !x.Protected || !samePrefix && g.Layouts == nil {
			continue
		}
		if there, err := connect.Address(x.Store); err == nil && there == here {
			s.Guard = x
		}
	}
	return s, nil
}

// isRedis reports whether the store of a URL has servers.
func isRedis(url string) bool {
	return !strings.HasPrefix(url, "file:") && !strings.HasPrefix(url, "memory:")
}
