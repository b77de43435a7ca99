package cmd

import (
	"cmp"
	"context"
	"net"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/identity"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/goroutines"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// askingTime is how long a command may look for a protected context whose store it is about
// to change.
func (g *globalOptions) askingTime() time.Duration {
	return min(g.timeout, max(time.Second, g.env.Timeout))
}

// settingsToChange is settings for a command that changes what others have. What protects a
// context protects its store, in whichever way that is reached: by URL, by another context,
// by another node of its Cluster. It asks no server unless there is a protected context of
// another name and the same prefix. The keys of other limiters are under no prefix of ours, so
// for these any protected context counts.
func (g *globalOptions) settingsToChange(ctx context.Context) (*settings, error) {
	s, err := g.settings()
	if err != nil || s.looked {
		return s, err
	}
	c, err := g.config()
	if err != nil {
		return nil, err
	}
	s.looked = true
	if s.context != nil && (s.context.Protected || s.context.ReadOnly) {
		return s, nil
	}
	var others []*config.Context
	for _, x := range c.Contexts {
		samePrefix := cmp.Or(x.Prefix, c.Prefix, store.DefaultPrefix) == s.prefix.value
		if x.Protected && x != s.context && (samePrefix || g.layouts != nil) {
			others = append(others, x)
		}
	}
	if len(others) == 0 {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.askingTime())
	defer cancel()
	s.guard, err = g.guardOf(ctx, s, others)
	return s, err
}

// guardOf returns the first of the protected contexts whose store is the chosen one, nil if
// there is none.
func (g *globalOptions) guardOf(ctx context.Context, s *settings, protected []*config.Context) (*config.Context, error) {
	here := identity.Store{Prefix: s.prefix.value}
	var err error
	if here.Address, err = connect.Address(s.store.value); err != nil {
		return nil, err
	}
	for _, x := range protected { // by the addresses alone, without asking a server
		there := identity.Store{Prefix: s.prefix.value}
		if there.Address, err = connect.Address(x.Store); err == nil && identity.Meet(ctx, &here, &there, g.lookUp()) {
			return x, nil
		}
	}
	if here, err = g.identifySettings(ctx, s); store.IsAway(err) {
		return nil, err
	}
	if here.ID == "" && here.Servers == nil {
		return nil, nil // it is an embedded store, or says nothing of itself to this user
	}
	asked := make([]identity.Store, len(protected))
	errs := make([]error, len(protected))
	var asking goroutines.Group
	for i, x := range protected {
		if isRedis(x.Store) {
			asking.Go(func() { asked[i], errs[i] = g.askContext(ctx, s, x) })
		}
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	for i, x := range protected {
		known := &asked[i]
		if known.ID == "" {
			known.ID = g.rememberedID(x.Name, s.prefix.value)
		}
		if known.ID != "" && known.ID == here.ID || identity.Meet(ctx, &here, known, g.lookUp()) {
			return x, nil
		}
		if errs[i] != nil && known.ID == "" && !g.quiet {
			g.note("warning: nobody can tell whether this is the store of the protected context %s, which could not be asked: %s",
				output.Printable(x.Name), message(errs[i]))
		}
	}
	return nil, nil
}

// askContext finds out which store a context has, by the login of the context.
func (g *globalOptions) askContext(ctx context.Context, s *settings, x *config.Context) (identity.Store, error) {
	options := connect.Options{Prefix: s.prefix.value, Timeout: g.askingTime(), ReadFile: g.env.readCertificate}
	if x.PasswordFile != "" || x.PasswordEnv != "" { // else LIMITCTL_PASSWORD, which may be for another store
		var err error
		aside := *g // which remembers the password of the store that is chosen
		if options.Password, err = aside.password(x); err != nil {
			return identity.Store{}, err
		}
	}
	return identity.Ask(ctx, x.Store, options)
}

// identifySettings finds out which store is chosen.
func (g *globalOptions) identifySettings(ctx context.Context, s *settings) (identity.Store, error) {
	if s.identity != nil {
		return *s.identity, nil
	}
	known := identity.Store{Prefix: s.prefix.value}
	var err error
	if known.Address, err = connect.Address(s.store.value); err != nil || !isRedis(s.store.value) {
		return known, err
	}
	password, err := g.password(s.context)
	if err != nil {
		return known, err
	}
	asked, err := identity.Ask(ctx, s.store.value, connect.Options{Prefix: s.prefix.value, Timeout: g.askingTime(),
		Password: password, ReadFile: g.env.readCertificate})
	if err != nil {
		return known, err
	}
	s.identity = &asked
	return asked, nil
}

// isRedis reports whether the store of a URL has servers.
func isRedis(url string) bool {
	return !strings.HasPrefix(url, "file:") && !strings.HasPrefix(url, "memory:")
}

// identify is what is known of an open store: see [operation.Runner].
func (g *globalOptions) identify(ctx context.Context, s *settings, backend connect.Store) (identity.Store, error) {
	known, err := g.identifySettings(ctx, s)                       // the address at least
	if known.ID == "" && (err != nil || !isRedis(s.store.value)) { // else it was asked
		ctx, cancel := context.WithTimeout(ctx, g.timeout)
		defer cancel()
		var asked error
		if known.ID, asked = identity.ID(ctx, backend); asked == nil {
			err = nil
		}
	}
	return known, err
}

// lookUp resolves names of hosts.
func (g *globalOptions) lookUp() identity.LookUp {
	return func(ctx context.Context, host string) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, g.askingTime())
		defer cancel()
		return net.DefaultResolver.LookupHost(ctx, host)
	}
}

// rememberedID is the id that the store of a context had when its last backup was made on this
// machine; empty if there is none. So a protected store is known also when it was chosen in a
// way that works and its context does not, as in an outage of the Sentinels.
func (g *globalOptions) rememberedID(name, prefix string) string {
	folder, err := g.backupFolder()
	if err != nil {
		return ""
	}
	files, _ := folder.List()
	const looked = 100
	for _, file := range files[:min(looked, len(files))] {
		header, err := folder.Header(file.Path)
		if err == nil && header.Context == name && header.Prefix == prefix && admin.IsStoreID(header.StoreID) {
			return header.StoreID
		}
	}
	return ""
}
