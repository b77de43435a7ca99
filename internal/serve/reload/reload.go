// Package reload keeps the configuration of the server in force: that of its files, or the one that is published to its store. While
// there are mistakes in it, the old one stays.
package reload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/poll"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Options are the parts of a Reloader.
type Options struct {
	// Environment says where the configuration is.
	Environment config.Environment
	// Config is the configuration at the start. Of a published one it has what is not published: contexts and the prefix.
	Config *config.Config
	// Fixed returns the parts of a configuration that apply only at the start, by name, such as the prefix. The
	// values can be secret; they are compared and not shown.
	Fixed func(c *config.Config) map[string]string
	// OnReload, if set, is called after each reading of the configuration, with the hash of the one in force and
	// the reason why it is not the one of the files.
	OnReload func(hash string, err error)
	// Describe returns an error in one line without secrets.
	Describe func(error) string
	Log      *slog.Logger
	Now      func() time.Time
}

// Reloader replaces the configuration in force. State is safe for concurrent use; Refresh is for one goroutine.
type Reloader struct {
	Options
	// Apply puts another configuration in force. Set it before Refresh is called.
	Apply func(c *config.Config)

	files    *poll.Source[contents]
	listed   string              // envoy.ratelimit_config, whose files are read, too; empty for none
	follower *published.Follower // nil for files
	asked    bool                // somebody waits for the result of this Refresh
	inForce  *config.Config
	start    map[string]string // the fixed parts at the start
	fixed    map[string]string // the fixed parts in force
	wrong    error             // why the published version is not in force

	mu    sync.Mutex
	state State
}

// State is the state of the configuration, for operators.
type State struct {
	// Files are the files of the configuration.
	Files []string `json:"files"`
	// Hash is for comparing servers of one version; see [Hash].
	Hash     string `json:"hash"`
	Policies int    `json:"policies"`
	// Version is the published version in force, and Refused one that this server cannot use; 0 for none.
	Version int64 `json:"version,omitempty"`
	Refused int64 `json:"refused,omitempty"`
	// LoadedAt is when the configuration in force was loaded.
	LoadedAt time.Time `json:"loaded_at"`
	// Error says why the current content of the files is not in force, and StaleSince since when.
	Error      string     `json:"error,omitempty"`
	StaleSince *time.Time `json:"stale_since,omitempty"`
}

// contents are the contents of files by their paths.
type contents map[string]content

type content struct {
	data []byte
	err  error
}

// New returns a Reloader of files.
func New(o Options) *Reloader {
	r := &Reloader{Options: o}
	r.files = &poll.Source[contents]{Read: r.read, Apply: r.load, Settle: poll.Settle}
	r.begin(o.Config)
	return r
}

// Follow returns a Reloader of the configuration that is published. Without one it begins with the version that was kept, and else
// with fallback, if that is not nil. An error says why there is no configuration to begin with.
func Follow(ctx context.Context, o Options, settings published.Settings, fallback *config.Config) (*Reloader, error) {
	r := &Reloader{Options: o}
	settings.Use, settings.OnError = r.use, r.looked
	r.follower = published.NewFollower(settings)
	err := r.follower.Start(ctx)
	if r.inForce == nil {
		if fallback == nil {
			r.Close(context.WithoutCancel(ctx))
			return nil, err
		}
		c := *fallback
		c.Contexts, c.Prefix = o.Config.Contexts, o.Config.Prefix
		r.begin(&c)
	}
	r.looked(r.wrong)
	r.setVersion()
	return r, nil
}

// Config returns the configuration in force.
func (r *Reloader) Config() *config.Config { return r.inForce }

// Close says that this process no longer follows what is published.
func (r *Reloader) Close(ctx context.Context) {
	if r.follower != nil {
		r.follower.Close(ctx)
	}
}

// State returns the state of the configuration.
func (r *Reloader) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Refresh puts the configuration in force if it has changed, or reads it anew if asked is set. It leaves files that are being
// written for the next call.
func (r *Reloader) Refresh(ctx context.Context, asked bool) {
	if r.asked = asked; r.follower == nil {
		r.files.Look(ctx, asked)
		return
	}
	r.follower.Look(ctx)
	r.setVersion()
}

// read reads the files. One that cannot be read can be optional.
func (r *Reloader) read(context.Context) (now contents, sum string, _ error) {
	now = contents{}
	var texts [][]byte
	paths := r.inForce.Searched
	if r.listed != "" {
		more, err := config.RatelimitPaths(r.listed, r.Environment.List)
		texts = append(texts, fmt.Append(nil, err))
		paths = slices.Concat(paths, more)
	}
	for _, path := range paths {
		data, err := r.Environment.ReadFile(path)
		now[path] = content{data, err}
		texts = append(texts, []byte(path), data, fmt.Append(nil, err))
	}
	return now, poll.Sum(texts...), nil
}

// load puts these contents in force.
func (r *Reloader) load(now contents) error {
	environment := r.Environment
	environment.ReadFile = func(path string) ([]byte, error) {
		if held, known := now[path]; known {
			return held.data, held.err
		}
		return r.Environment.ReadFile(path)
	}
	c, err := config.Load(environment)
	for _, path := range r.inForce.Read {
		if held := now[path]; err == nil && errors.Is(held.err, fs.ErrNotExist) {
			err = store.Invalidf("%s does not exist any more", path)
		}
	}
	if err == nil {
		r.replace(c)
		return nil
	}
	if c != nil && c.Ratelimit != "" {
		r.listed = c.Ratelimit // a mistake there can be mended, too
	}
	r.keep("the configuration cannot be used", err)
	return err
}

// use puts a published version in force.
func (r *Reloader) use(v *published.Version) error {
	c, err := r.Options.Config.WithPublished(fmt.Sprintf("published version %d", v.Number), v.Text)
	switch {
	case err != nil:
		return store.Invalidf("%s", firstMistake(err, err.Error()))
	case r.inForce == nil:
		r.begin(c)
	default:
		r.replace(c)
	}
	return nil
}

// looked gets why the published version is not in force, and nil when it is again.
func (r *Reloader) looked(err error) {
	r.wrong = err
	switch {
	case r.inForce == nil:
	case err == nil && r.State().StaleSince != nil: // no other version is in force, which would have ended that
		r.replace(r.inForce)
	case store.IsAway(err):
		r.keep("the store with the published configuration cannot be reached", err)
	case err != nil:
		r.keep("the published configuration cannot be used", err)
	}
}

// setVersion tells operators which version is in force.
func (r *Reloader) setVersion() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Refused = r.follower.Refused()
	if v := r.follower.InForce; v != nil {
		r.state.Version = v.Number
	}
}

// begin begins with a configuration.
func (r *Reloader) begin(c *config.Config) {
	r.start = r.Fixed(c)
	r.fixed = r.start
	r.set(c, Hash(c))
	r.tellRemarks(c)
}

// set notes the configuration in force, and returns what was before.
func (r *Reloader) set(c *config.Config, hash string) (before *config.Config, was State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, was = r.inForce, r.state
	r.inForce, r.listed = c, c.Ratelimit
	r.state.Files, r.state.Hash, r.state.Policies = slices.Clone(c.Read), hash, len(c.Policies)
	r.state.Error, r.state.StaleSince = "", nil
	if hash != was.Hash {
		r.state.LoadedAt = r.Now().UTC()
	}
	return before, was
}

// replace puts a configuration in force, unless it is equal.
func (r *Reloader) replace(c *config.Config) {
	hash := Hash(c)
	if hash != r.state.Hash {
		r.Apply(c)
	}
	before, was := r.set(c, hash)
	switch {
	case hash != was.Hash:
		r.Log.Info("another configuration is in force", "files", c.Read, "hash", hash, "policies", len(c.Policies))
	case was.StaleSince != nil:
		r.Log.Info("the configuration can be used again, and is the one in force", "hash", hash)
	case r.asked:
		r.Log.Info("the configuration was read again, and is the one in force", "hash", hash)
	}
	if !slices.Equal(c.Remarks, before.Remarks) {
		r.tellRemarks(c)
	}
	fixed := r.Fixed(c)
	for name := range maps.Keys(r.start) {
		if fixed[name] != r.start[name] && fixed[name] != r.fixed[name] {
			r.Log.Warn("another "+name+" is configured, which is used from the next start on", "setting", name)
		}
	}
	r.fixed = fixed
	if r.OnReload != nil {
		r.OnReload(hash, nil)
	}
}

// keep keeps the configuration in force, because of an error; what says in the log what is wrong.
func (r *Reloader) keep(what string, err error) {
	if mistakes := new(config.Mistakes); errors.As(err, &mistakes) {
		for _, m := range mistakes.List[:min(len(mistakes.List), mostTold)] {
			r.Log.Error("a mistake in the configuration", "at", fmt.Sprintf("%s:%d:%d", m.Path, m.Line, m.Column), "mistake", m.Text)
		}
	}
	r.mu.Lock()
	if r.state.Error = firstMistake(err, r.Describe(err)); r.state.StaleSince == nil {
		now := r.Now().UTC()
		r.state.StaleSince = &now
	}
	state := r.state
	r.mu.Unlock()
	r.Log.Error(what+"; the old one stays in force", "error", state.Error, "loaded_at", state.LoadedAt)
	if r.OnReload != nil {
		r.OnReload(state.Hash, err)
	}
}

// firstMistake is the first of several mistakes, and how many more there are; otherwise it is text.
func firstMistake(err error, text string) string {
	mistakes := new(config.Mistakes)
	if !errors.As(err, &mistakes) || len(mistakes.List) == 0 {
		return text
	}
	m := mistakes.List[0]
	text = fmt.Sprintf("%s:%d:%d: %s", m.Path, m.Line, m.Column, m.Text)
	if n := len(mistakes.List); n > 1 {
		text = fmt.Sprintf("%s (and %d more)", text, n-1)
	}
	return text
}

// mostTold is the most mistakes and remarks that the log lists.
const mostTold = 50

// tellRemarks logs what has no equal in the files of envoyproxy/ratelimit.
func (r *Reloader) tellRemarks(c *config.Config) {
	for _, remark := range c.Remarks[:min(len(c.Remarks), mostTold)] {
		r.Log.Warn("a setting of envoyproxy/ratelimit has no equal", "at", fmt.Sprintf("%s:%d", remark.Path, remark.Line),
			"setting", remark.Field, "remark", remark.Text)
	}
}

// Hash identifies the part of a configuration about policies and how they are served. Contexts, which can contain
// passwords, and comments do not count.
func Hash(c *config.Config) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %t %v\n", c.Prefix, !c.NoDenials, c.LocalShare)
	if b := c.Breaker; b != nil {
		fmt.Fprintln(sum, "breaker", b.Failures, b.Slow, b.Pause, b.MaxPause)
	}
	for _, p := range c.Policies {
		fmt.Fprintf(sum, "policy %+v\n", *p)
	}
	for _, setting := range config.HTTPSettings(c) {
		fmt.Fprintf(sum, "%s %q\n", setting.Name, setting.Value)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}
