package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// InForce is the configuration that decides: the version that is published in the store, else that of the files.
type InForce struct {
	*config.Config
	// Published is the version in force, nil for files. It also stands beside a file that is looked at in its place.
	Published *published.Version
	// Source says where a published version is from, or which file is looked at in its place; empty if nothing is
	// published.
	Source ConfigSource
	// Doubt says why nothing that depends on the limits may be written; nil if they are those in force.
	Doubt error
}

// ConfigSource says by which configuration an answer is, in JSON.
type ConfigSource struct {
	// Version is the published one; 0 for a file.
	Version int64 `json:"version,omitempty"`
	// Source is "store", "kept" for a version that was kept on this machine, or the path of a file.
	Source string `json:"source"`
}

// String is the source for people, such as "version 5".
func (s ConfigSource) String() string {
	switch {
	case s.Version == 0:
		return s.Source // "" if nothing is published
	case s.Source == fromKept:
		return fmt.Sprintf("version %d, as it was kept here", s.Version)
	}
	return fmt.Sprintf("version %d", s.Version)
}

// The sources of a published version.
const (
	fromStore = "store"
	fromKept  = "kept"
)

// Policy returns the policy of that name. An error is a [store.ErrInvalid].
func (c *InForce) Policy(name string) (*policy.Policy, error) {
	p, err := c.Config.Policy(name)
	if err == nil || c.Source.Version == 0 {
		return p, err
	}
	names := make([]string, len(c.Policies))
	for i, p := range c.Policies {
		names[i] = p.Name
	}
	return nil, store.Invalidf("policy %s is not in version %d%s", name, c.Source.Version,
		configfile.Suggestion(name, names))
}

// Judging returns a selection whose entries have the limits in force, under overrides, which can be nil. Flags such as
// --at-limit go by them.
func (c *InForce) Judging(s operation.Selection, overrides *store.OverrideList) operation.Selection {
	if overrides == nil {
		overrides = store.NewOverrideList(nil)
	}
	limits, keep := allowance.NewConfiguredLimits(c.Policies), s.Keep
	s.Query.InForce = func(e *admin.Entry) store.Limit { return limits.InForce(e, overrides.For(e.Key)) }
	s.Keep = func(e *admin.Entry) bool {
		if o := overrides.For(e.Key); o != nil {
			allowance.Block(e, overrides, o, o.Left)
		}
		return keep == nil || keep(e)
	}
	return s
}

// early is a store that was opened to read what is published, until the command opens it.
type early struct {
	store connect.Store
	where string
}

// take returns the store, once; nil for none.
func (e *early) take() (opened connect.Store, where string) {
	if e != nil {
		opened, where, e.store = e.store, e.where, nil
	}
	return opened, where
}

// CloseEarly closes the store if the command did not open it.
func (g *Globals) CloseEarly() error {
	if opened, _ := g.early.take(); opened != nil {
		return opened.Close()
	}
	return nil
}

// InForce returns the configuration that decides. It reads what is published in the store, once. An error that
// [store.IsAway] has a configuration beside it: the version that was kept on this machine, else that of the files.
// With --config store: something has to be published. A --config FILE with policies is a what-if, of which it warns.
func (g *Globals) InForce(ctx context.Context) (*InForce, error) {
	if g.inForce == nil && g.away == nil {
		g.inForce, g.away = g.findInForce(ctx)
	}
	return g.inForce, g.away
}

// ConfigFor returns the configuration of a command that tries out policies: that of the files, or with --config store:
// the published version.
func (g *Globals) ConfigFor(ctx context.Context) (*InForce, error) {
	if g.FromStore() {
		return g.InForce(ctx)
	}
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	return &InForce{Config: c}, nil
}

func (g *Globals) findInForce(ctx context.Context) (*InForce, error) {
	silent := *g
	silent.Quiet, silent.Layouts = true, nil // who opens the store for its work says which one it is
	url, options, err := silent.Connection()
	if err != nil {
		return nil, err
	}
	g.files, g.chosen, g.filePassword = silent.files, silent.chosen, silent.filePassword
	opened, where, err := connect.Open(url, options)
	if err != nil {
		_, err = silent.Opened(opened, err) // it names the context
		return nil, err
	}
	g.early = &early{opened, where}
	return g.LookAgain(ctx, opened)
}

// LookAgain is [Globals.InForce] for a store that is open. It reads what is published at each call.
func (g *Globals) LookAgain(ctx context.Context, backend store.Store) (*InForce, error) {
	local, err := g.Config()
	if err != nil {
		return nil, err
	}
	files := &InForce{Config: local}
	version, err := g.readPublished(ctx, backend)
	away := store.IsAway(err)
	switch {
	case errors.Is(err, published.ErrNothing) && !g.FromStore():
		return files, nil
	case errors.Is(err, store.ErrRefused) && !away && !g.FromStore():
		files.Doubt, g.unread = err, err
		return files, nil
	case away && version == nil && !g.FromStore():
		return files, err
	case err != nil && (version == nil || !away):
		return nil, err
	}
	if g.isWhatIf(local) {
		g.Warn(fmt.Sprintf("version %d is in force, and this goes by %s", version.Number, local.PolicyFile))
		files.Source.Source, files.Published = local.PolicyFile, version
		files.Doubt = Usagef("version %d is in force, and --config names another configuration; leave it out, or "+
			"name its contexts in "+
			"LIMITCTL_CONFIG", version.Number)
		return files, err
	}
	c, broken := local.WithPublished(fmt.Sprintf("version %d", version.Number), version.Text)
	if broken != nil {
		return nil, broken
	}
	source := ConfigSource{Version: version.Number, Source: fromStore}
	if away {
		source.Source = fromKept
	}
	return &InForce{Config: c, Published: version, Source: source}, err
}

// WarnOfUnread says beside an answer that it is by the configuration file, because what is published cannot be read.
func (g *Globals) WarnOfUnread() {
	if g.unread != nil {
		g.Warn("what is published cannot be read, so the configuration file counts: " + Message(g.unread))
		g.unread = nil
	}
}

// isWhatIf reports whether the command line names policies of its own.
func (g *Globals) isWhatIf(c *config.Config) bool {
	return g.ConfigFile != "" && !g.FromStore() && len(c.Policies) > 0
}

// readPublished returns the version in force and keeps a new one for commands while the store is away. Then it returns
// the one that was kept beside the error.
func (g *Globals) readPublished(ctx context.Context, backend store.Store) (*published.Version, error) {
	table, err := published.TableOf(backend)
	if err != nil {
		return nil, published.ErrNothing
	}
	cache := published.Cache{Read: files.Read, Write: files.Write}
	if isRedis(g.chosen.Store) { // a file is never away
		// Not the file of serve, which must find there what it can use itself, also if the store has lost it.
		cache.Path, _ = storeFile(g, "in-force-", ".config")
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	version, notKept, err := published.InForce(ctx, table, cache)
	if errors.Is(err, published.ErrNothing) && version != nil {
		g.Warn("nothing is published in the store any more, so the configuration file counts")
		files.Remove(cache.Path)
	}
	if notKept != nil && g.Verbose {
		g.Note("version %d is not kept for a store that is away: %s", version.Number, Message(notKept))
	}
	return version, err
}
