// Package reload keeps the configuration of the files in force: it reads them again and again, and keeps the old
// configuration while they have mistakes.
//
// It compares the contents of the files. Notices of the file system would come sooner, but not from every file
// system, not for the target of a symbolic link, and not for a directory that is created anew. The content is the
// same wherever a file is, and reading it costs little.
package reload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// settle is the time for which changed files must stay the same before they are used, and settles the number of
	// tries per check.
	settle  = 100 * time.Millisecond
	settles = 5
)

// Options are the parts of a Reloader.
type Options struct {
	// Environment says where the configuration is.
	Environment config.Environment
	// Config is the configuration at the start.
	Config *config.Config
	// Apply puts a configuration in force.
	Apply func(c *config.Config)
	// Fixed returns the parts of a configuration that apply only at the start, by name, such as the prefix. The
	// values can be secret; they are compared and not shown.
	Fixed func(c *config.Config) map[string]string
	// OnReload, if set, is called after each reading of the configuration, with the hash of the one in force and
	// the reason why it is not the one of the files.
	OnReload func(hash string, err error)
	// Describe returns an error in one line without secrets.
	Describe func(error) string
	// Subjects: the log may name the subjects of overrides in policies.
	Subjects bool
	Log      *slog.Logger
	Now      func() time.Time
	Sleep    func(ctx context.Context, d time.Duration) error
}

// Reloader replaces the configuration in force. State is safe for concurrent use; Refresh is for one goroutine.
type Reloader struct {
	Options
	start  map[string]string // the fixed parts at the start
	paths  []string          // the files to read
	listed string            // envoy.ratelimit_config, whose files are read, too; empty for none
	seen   [sha256.Size]byte // their content at the last loading
	loaded *config.Config    // the last one without mistakes, which is in force
	fixed  map[string]string // the fixed parts of loaded

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

// New returns a Reloader of the configuration in force.
func New(o Options) *Reloader {
	r := &Reloader{Options: o, paths: o.Config.Searched, listed: o.Config.Ratelimit, loaded: o.Config, start: o.Fixed(o.Config)}
	r.fixed = r.start
	r.state = State{Files: slices.Clone(o.Config.Read), Hash: Hash(o.Config), Policies: len(o.Config.Policies), LoadedAt: o.Now().UTC()}
	r.tellRemarks(o.Config)
	return r
}

// State returns the state of the configuration.
func (r *Reloader) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Refresh reads the files, and loads the configuration if they have changed, or if asked is set. It leaves files
// that are being written for the next call.
func (r *Reloader) Refresh(ctx context.Context, asked bool) {
	now := r.read()
	for tries := 0; now.sum != r.seen; tries++ {
		if tries == settles || r.Sleep(ctx, settle) != nil {
			return
		}
		before := now
		if now = r.read(); now.sum == before.sum {
			break
		}
	}
	if now.sum == r.seen && !asked {
		return
	}
	r.seen = now.sum
	c, err := r.load(now)
	if err != nil {
		if c != nil && c.Ratelimit != "" {
			r.listed = c.Ratelimit // a mistake there can be mended, too
		}
		r.keep("the configuration cannot be used", err)
		return
	}
	r.replace(c, asked)
}

// contents are the contents of the files at one time.
type contents struct {
	files map[string]content
	sum   [sha256.Size]byte
}

type content struct {
	data []byte
	err  error
}

func (r *Reloader) read() contents {
	now := contents{files: map[string]content{}}
	sum := sha256.New()
	paths := r.paths
	if r.listed != "" {
		more, err := config.RatelimitPaths(r.listed, r.Environment.List)
		fmt.Fprintf(sum, "%q %v\n", more, err)
		paths = slices.Concat(paths, more)
	}
	for _, path := range paths {
		data, err := r.Environment.ReadFile(path)
		now.files[path] = content{data, err}
		fmt.Fprintf(sum, "%q %d %q\n", path, len(data), fmt.Sprint(err))
		sum.Write(data)
	}
	now.sum = [sha256.Size]byte(sum.Sum(nil))
	return now
}

// load loads the configuration from these contents.
func (r *Reloader) load(now contents) (*config.Config, error) {
	environment := r.Environment
	environment.ReadFile = func(path string) ([]byte, error) {
		if held, known := now.files[path]; known {
			return held.data, held.err
		}
		return r.Environment.ReadFile(path)
	}
	c, err := config.Load(environment)
	if err != nil {
		return c, err
	}
	for _, path := range r.loaded.Searched {
		if !slices.Contains(r.loaded.Read, path) {
			continue
		}
		if held, known := now.files[path]; known && errors.Is(held.err, fs.ErrNotExist) {
			return nil, store.Invalidf("%s does not exist any more", path)
		}
	}
	return c, nil
}

// keep keeps the configuration in force, because of an error; what says in the log what is wrong.
func (r *Reloader) keep(what string, err error) {
	text := r.Describe(err)
	if mistakes := new(config.Mistakes); errors.As(err, &mistakes) {
		const most = 20
		for i, m := range mistakes.List {
			if i == most {
				r.Log.Error("there are more mistakes in the configuration", "more", len(mistakes.List)-most)
				break
			}
			at := fmt.Sprintf("%s:%d:%d", m.Path, m.Line, m.Column)
			r.Log.Error("a mistake in the configuration", "at", at, "mistake", m.Text)
			if i == 0 {
				text = at + ": " + m.Text
			}
		}
		if n := len(mistakes.List); n > 1 {
			text = fmt.Sprintf("%s (and %d more)", text, n-1)
		}
	}
	r.mu.Lock()
	if r.state.Error = text; r.state.StaleSince == nil {
		now := r.Now().UTC()
		r.state.StaleSince = &now
	}
	loaded, hash := r.state.LoadedAt, r.state.Hash
	r.mu.Unlock()
	r.Log.Error(what+"; the old one stays in force", "error", text, "loaded_at", loaded)
	if r.OnReload != nil {
		r.OnReload(hash, err)
	}
}

// replace puts a configuration in force, unless it is equal.
func (r *Reloader) replace(c *config.Config, asked bool) {
	before, hash := r.loaded, Hash(c)
	changed := hash != r.state.Hash
	if changed {
		r.Apply(c)
	}
	r.loaded, r.paths, r.listed = c, c.Searched, c.Ratelimit
	r.mu.Lock()
	wasStale := r.state.StaleSince != nil
	r.state.Files, r.state.Hash, r.state.Policies = slices.Clone(c.Read), hash, len(c.Policies)
	r.state.Error, r.state.StaleSince = "", nil
	if changed {
		r.state.LoadedAt = r.Now().UTC()
	}
	r.mu.Unlock()
	switch {
	case changed:
		r.tell(before, c, hash)
	case wasStale:
		r.Log.Info("the configuration can be used again, and is the one in force", "hash", hash)
	case asked:
		r.Log.Info("the configuration was read again, and is the one in force", "hash", hash)
	}
	if !slices.Equal(c.Remarks, before.Remarks) {
		r.tellRemarks(c)
	}
	r.tellFixed(c)
	if r.OnReload != nil {
		r.OnReload(hash, nil)
	}
}

// tellFixed logs which parts of a configuration apply only after the next start.
func (r *Reloader) tellFixed(c *config.Config) {
	fixed := r.Fixed(c)
	for _, name := range slices.Sorted(bothKeys(fixed, r.start)) {
		if fixed[name] != r.start[name] && fixed[name] != r.fixed[name] {
			r.Log.Warn("another "+name+" is configured, which is used from the next start on", "setting", name)
		}
	}
	r.fixed = fixed
}
