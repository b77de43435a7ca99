package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/poll"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Reloader keeps a configuration in force: that of the files, or the one that is published to the store. While there
// are mistakes in it, the old one stays. State is safe for concurrent use; the rest is for one goroutine.
type Reloader struct {
	// Environment says where the files of the configuration are.
	Environment config.Environment
	// Config is the configuration in force. Before there is one it has what is not published: contexts and the prefix.
	Config *config.Config
	// Apply puts another configuration in force. Set it before Refresh is called, for those after the first.
	Apply func(c *config.Config)
	// OnReload gets, after each reading, the hash of the configuration in force, and why another is not.
	OnReload func(hash string, err error)
	// Describe returns an error in one line without secrets.
	Describe func(error) string
	Log      *slog.Logger
	Now      func() time.Time

	files    *poll.Source[struct{}]
	follower *published.Follower // nil for files
	compared *published.Follower // of files, nil if nothing is published to the store by others
	due      time.Time           // of the next comparison
	asked    bool                // somebody waits for the result of this Refresh

	mu    sync.Mutex
	state ReloadState
}

// ReloadState is the state of the configuration, for operators.
type ReloadState struct {
	// Files are the files of the configuration.
	Files []string `json:"files"`
	// Hash is for comparing servers of one version; see [config.Hash].
	Hash     string `json:"hash"`
	Policies int    `json:"policies"`
	// Version is the published version in force, and Refused one that this server cannot use; 0 for none.
	Version int64 `json:"version,omitempty"`
	Refused int64 `json:"refused,omitempty"`
	// LoadedAt is when the configuration in force was loaded.
	LoadedAt time.Time `json:"loaded_at"`
	// Error says why another configuration is not in force, and StaleSince since when.
	Error      string     `json:"error,omitempty"`
	StaleSince *time.Time `json:"stale_since,omitempty"`
}

// BeginFiles begins with the configuration of the files, which Config is.
func (r *Reloader) BeginFiles() {
	r.files = &poll.Source[struct{}]{Read: r.read, Apply: r.load, Settle: poll.Settle}
	r.put(r.Config, 0)
}

// BeginPublished begins with the configuration that is published. Without one it begins with the version that was kept,
// and else with fallback, if that is not nil. An error says why there is no configuration to begin with.
func (r *Reloader) BeginPublished(ctx context.Context, settings published.Settings, fallback *config.Config) error {
	settings.Use, settings.OnError = r.use, r.looked
	r.follower = published.NewFollower(settings)
	err := r.follower.Start(ctx)
	if r.state.Hash == "" {
		if fallback == nil {
			r.Close(context.WithoutCancel(ctx))
			return err
		}
		c := *fallback
		c.Contexts, c.Prefix = r.Config.Contexts, r.Config.Prefix
		r.put(&c, 0)
	}
	r.looked(r.follower.Err)
	return nil
}

// Compare compares the configuration of the files with the published version from now on, reports that to others, and
// warns in the log while they differ.
func (r *Reloader) Compare(settings published.Settings) {
	settings.Compares = true
	settings.Use = func(v *published.Version) error {
		c, err := r.Config.WithPublished(fmt.Sprintf("published version %d", v.Number), v.Text)
		if err == nil && config.Hash(c) != r.state.Hash {
			err = store.Invalidf("this process goes by %s, which differs",
				cmp.Or(strings.Join(r.state.Files, ", "), "no file"))
		}
		return err
	}
	settings.OnError = func(err error) {
		if refused, is := errors.AsType[*published.RefusedError](err); is {
			r.Log.Warn("another configuration is published", "version", refused.Version, "error",
				r.Describe(refused.Cause))
		}
	}
	r.compared = published.NewFollower(settings)
}

// compareEvery is the time between two comparisons.
const compareEvery = 10 * time.Second

// compare looks whether another version is published.
func (r *Reloader) compare(ctx context.Context) {
	if now := r.Now(); r.compared != nil && !now.Before(r.due) {
		r.due = now.Add(compareEvery)
		r.compared.Look(ctx)
	}
}

// Close withdraws what this process reports to others.
func (r *Reloader) Close(ctx context.Context) {
	for _, follower := range []*published.Follower{r.follower, r.compared} {
		if follower != nil {
			follower.Close(ctx)
		}
	}
}

// State returns the state of the configuration.
func (r *Reloader) State() ReloadState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Refresh puts a changed configuration in force, or any if asked. It leaves files that are being written.
func (r *Reloader) Refresh(ctx context.Context, asked bool) {
	if r.asked = asked; r.follower != nil {
		r.follower.Look(ctx)
		return
	}
	if applied, _ := r.files.Look(ctx, asked); applied && r.compared != nil {
		r.compared.Again()
		r.due = time.Time{}
	}
	r.compare(ctx)
}

// read identifies what the files hold. One that cannot be read can be optional.
func (r *Reloader) read(context.Context) (_ struct{}, sum string, _ error) {
	var texts [][]byte
	for _, path := range r.Config.Searched {
		data, err := r.Environment.ReadFile(path)
		texts = append(texts, []byte(path), data, fmt.Append(nil, err))
	}
	return struct{}{}, poll.Sum(texts...), nil
}

// load puts the files in force. What has changed since they were read is loaded again by the next look.
func (r *Reloader) load(struct{}) error {
	c, err := config.Load(r.Environment)
	for _, path := range r.Config.Searched {
		if err == nil && slices.Contains(r.Config.Read, path) && !slices.Contains(c.Read, path) {
			err = store.Invalidf("%s does not exist any more", path)
		}
	}
	if err != nil {
		r.keep(err)
		return err
	}
	r.put(c, 0)
	return nil
}

// use puts a published version in force.
func (r *Reloader) use(v *published.Version) error {
	c, err := r.Config.WithPublished(fmt.Sprintf("published version %d", v.Number), v.Text)
	if err != nil {
		return store.Invalidf("%s", r.Describe(err))
	}
	r.put(c, v.Number)
	return nil
}

// looked gets why the published version is not in force, and nil when it is again.
func (r *Reloader) looked(err error) {
	switch {
	case r.state.Hash == "":
	case err != nil:
		r.keep(err)
	case r.state.StaleSince != nil: // no other version is in force, which would have ended that
		r.put(r.Config, r.state.Version)
	}
}

// put puts a configuration in force, the published one of that version or that of the files.
func (r *Reloader) put(c *config.Config, version int64) {
	before, was := r.Config, r.state
	now := ReloadState{Files: slices.Clone(c.Read), Hash: config.Hash(c), Policies: len(c.Policies), Version: version,
		LoadedAt: was.LoadedAt}
	changed := now.Hash != was.Hash
	if changed {
		now.LoadedAt = r.Now().UTC()
	}
	if changed && r.Apply != nil {
		r.Apply(c)
	}
	r.mu.Lock()
	r.Config, r.state = c, now
	r.mu.Unlock()
	if was.Hash != "" && (changed || was.StaleSince != nil || r.asked) { // the first is logged by the server
		r.Log.Info("the configuration is in force", "changed", changed, "files", c.Read, "hash", now.Hash, "policies",
			now.Policies)
	}
	if c.Prefix != before.Prefix {
		r.Log.Warn("another prefix is configured, which is used from the next start on")
	}
	r.OnReload(now.Hash, nil)
}

// keep keeps the configuration in force, because of an error.
func (r *Reloader) keep(err error) {
	state := r.State()
	state.Error, state.Refused = r.Describe(err), 0
	if refused, is := errors.AsType[*published.RefusedError](err); is {
		state.Refused = refused.Version
	}
	if state.StaleSince == nil {
		state.StaleSince = new(r.Now().UTC())
	}
	r.mu.Lock()
	r.state = state
	r.mu.Unlock()
	r.Log.Error("the configuration cannot be used; the old one stays in force", "error", state.Error, "loaded_at",
		state.LoadedAt)
	r.OnReload(state.Hash, err)
}
