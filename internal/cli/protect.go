package cli

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/identity"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// askingTime is how long a command may search for a protected context that has the store which
// it is about to change.
func askingTime(g *Globals) time.Duration {
	return min(g.Timeout, max(time.Second, g.Env.Timeout))
}

// SettingsToChange is Settings for a command that changes what others use. What protects a
// context protects its store, in whichever way that is reached: by URL, by another context,
// by another node of its Cluster. It asks no server unless there is a protected context of
// another name and the same prefix. The keys of other limiters are under no prefix of ours, so
// for these any protected context counts.
func (g *Globals) SettingsToChange(ctx context.Context) (*Settings, error) {
	s, err := g.Settings()
	if err != nil || s.Looked {
		return s, err
	}
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	s.Looked = true
	if s.Context != nil && (s.Context.Protected || s.Context.ReadOnly) {
		return s, nil
	}
	var others []*config.Context
	for _, x := range c.Contexts {
		samePrefix := cmp.Or(x.Prefix, c.Prefix, store.DefaultPrefix) == s.Prefix.Value
		if x.Protected && x != s.Context && (samePrefix || g.Layouts != nil) {
			others = append(others, x)
		}
	}
	if len(others) == 0 {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askingTime(g))
	defer cancel()
	s.Guard, err = guardOf(ctx, g, s, others)
	return s, err
}

// guardOf returns the first of the protected contexts whose store is the chosen one, nil if
// there is none.
func guardOf(ctx context.Context, g *Globals, s *Settings, protected []*config.Context) (*config.Context, error) {
	here := identity.Store{Prefix: s.Prefix.Value}
	var err error
	if here.Address, err = connect.Address(s.Store.Value); err != nil {
		return nil, err
	}
	for _, x := range protected { // by the addresses alone, without asking a server
		there := identity.Store{Prefix: s.Prefix.Value}
		if there.Address, err = connect.Address(x.Store); err == nil && identity.Meet(&here, &there) {
			return x, nil
		}
	}
	if here, err = identifySettings(ctx, g, s); store.IsAway(err) {
		return nil, err
	}
	if here.ID == "" && here.Servers == nil {
		return nil, nil // an embedded store, or this user may not ask who it is
	}
	asked := make([]identity.Store, len(protected))
	errs := make([]error, len(protected))
	var asking panics.Group
	for i, x := range protected {
		if IsRedis(x.Store) {
			asking.Go(func() { asked[i], errs[i] = askContext(ctx, g, s, x) })
		}
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	for i, x := range protected {
		known := &asked[i]
		if known.ID == "" {
			known.ID = rememberedID(g, x.Name, s.Prefix.Value)
		}
		if known.ID != "" && known.ID == here.ID || identity.Meet(&here, known) {
			return x, nil
		}
		if errs[i] != nil && known.ID == "" && !g.Quiet {
			g.Note("warning: this may be the store of the protected context %s, which did not answer: %s",
				output.Printable(x.Name), Message(errs[i]))
		}
	}
	return nil, nil
}

// askContext identifies the store of a context, with the login of the context.
func askContext(ctx context.Context, g *Globals, s *Settings, x *config.Context) (identity.Store, error) {
	options := connect.Options{Prefix: s.Prefix.Value, Timeout: askingTime(g), ReadFile: g.Env.ReadCertificate}
	if x.PasswordFile != "" || x.PasswordEnv != "" { // else LIMITCTL_PASSWORD, which may be for another store
		var err error
		aside := *g // which remembers the password of the store that is chosen
		if options.Password, err = aside.password(x); err != nil {
			return identity.Store{}, err
		}
	}
	return identity.Ask(ctx, x.Store, options)
}

// identifySettings identifies the chosen store.
func identifySettings(ctx context.Context, g *Globals, s *Settings) (identity.Store, error) {
	if s.identity != nil {
		return *s.identity, nil
	}
	known := identity.Store{Prefix: s.Prefix.Value}
	var err error
	if known.Address, err = connect.Address(s.Store.Value); err != nil || !IsRedis(s.Store.Value) {
		return known, err
	}
	password, err := g.password(s.Context)
	if err != nil {
		return known, err
	}
	asked, err := identity.Ask(ctx, s.Store.Value, connect.Options{Prefix: s.Prefix.Value, Timeout: askingTime(g),
		Password: password, ReadFile: g.Env.ReadCertificate})
	if err != nil {
		return known, err
	}
	s.identity = &asked
	return asked, nil
}

// IsRedis reports whether the store of a URL has servers.
func IsRedis(url string) bool {
	return !strings.HasPrefix(url, "file:") && !strings.HasPrefix(url, "memory:")
}

// identify identifies an open store: see [operation.Runner].
func identify(ctx context.Context, g *Globals, s *Settings, backend connect.Store) (identity.Store, error) {
	known, err := identifySettings(ctx, g, s)                      // the address at least
	if known.ID == "" && (err != nil || !IsRedis(s.Store.Value)) { // else it was asked
		ctx, cancel := context.WithTimeout(ctx, g.Timeout)
		defer cancel()
		var asked error
		if known.ID, asked = identity.ID(ctx, backend); asked == nil {
			err = nil
		}
	}
	return known, err
}

// rememberedID is the ID that the store of a context had at the last backup on this machine, or
// empty. So a protected store is recognized even if its context does not work and the way by
// which it was chosen does, as in an outage of the Sentinels.
func rememberedID(g *Globals, name, prefix string) string {
	folder, err := BackupFolder(g)
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
