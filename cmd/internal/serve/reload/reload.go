// Package reload keeps the configuration in force that the files have: it looks at them again and
// again, and keeps the one before while they have mistakes.
//
// It reads the files, and compares what they hold. Notices of the file system would come sooner, but
// not from every file system, not for what a symbolic link leads to, and not for a directory that is
// made anew. What a file holds is the same wherever it lies, and reading it costs little.
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
	// settle is how long files must hold the same until they are taken for written, and settles
	// how often that is tried at one look.
	settle  = 100 * time.Millisecond
	settles = 5
)

// Options are what a Reloader works with.
type Options struct {
	// Environment says where the configuration is.
	Environment config.Environment
	// Config is the one in force at the start.
	Config *config.Config
	// Check, if set, says why a configuration cannot be put in force here.
	Check func(c *config.Config) error
	// Apply puts a configuration in force.
	Apply func(c *config.Config)
	// Fixed returns what a configuration says that counts at the start only, by name, such as the
	// prefix. The values may be secret; they are compared and not shown.
	Fixed func(c *config.Config) map[string]string
	// OnReload, if set, is told of each time that the configuration was read again: the hash of the one in
	// force, and why it is not that of the files.
	OnReload func(hash string, err error)
	// Describe is an error in one line without secrets.
	Describe func(error) string
	// Subjects: the log may name whom overrides of policies are for.
	Subjects bool
	Log      *slog.Logger
	Now      func() time.Time
	Sleep    func(ctx context.Context, d time.Duration) error
}

// Reloader puts other configurations in force. State is safe for concurrent use; Refresh is for
// one goroutine.
type Reloader struct {
	Options
	start  map[string]string // what is fixed
	paths  []string          // the files that are looked for
	seen   [sha256.Size]byte // what they held when they were last loaded
	loaded *config.Config    // the last one without mistakes, which is in force
	fixed  map[string]string // of that one

	mu    sync.Mutex
	state State
}

// State is what is known of the configuration, for operators.
type State struct {
	// Files are those that it was read from.
	Files []string `json:"files"`
	// Hash is for comparing servers of one version; see [Hash].
	Hash     string `json:"hash"`
	Policies int    `json:"policies"`
	// LoadedAt is when the one in force was put there.
	LoadedAt time.Time `json:"loaded_at"`
	// Error is why what the files hold now is not in force, and StaleSince is since when.
	Error      string     `json:"error,omitempty"`
	StaleSince *time.Time `json:"stale_since,omitempty"`
}

// New returns a Reloader of the configuration in force.
func New(o Options) *Reloader {
	r := &Reloader{Options: o, paths: o.Config.Searched, loaded: o.Config, start: o.Fixed(o.Config)}
	r.fixed = r.start
	r.state = State{Files: slices.Clone(o.Config.Read), Hash: Hash(o.Config), Policies: len(o.Config.Policies), LoadedAt: o.Now().UTC()}
	return r
}

// State returns what is known of the configuration.
func (r *Reloader) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Refresh looks at the files, and loads the configuration if they have changed, or if that was asked
// for. Files that are being written are left for the next look.
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
		r.keep(err)
		return
	}
	r.replace(c, asked)
}

// contents are what files held at one time.
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
	for _, path := range r.paths {
		data, err := r.Environment.ReadFile(path)
		now.files[path] = content{data, err}
		fmt.Fprintf(sum, "%q %d %q\n", path, len(data), fmt.Sprint(err))
		sum.Write(data)
	}
	now.sum = [sha256.Size]byte(sum.Sum(nil))
	return now
}

// load reads the configuration that files held.
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
		return nil, err
	}
	for _, path := range r.loaded.Read {
		if held, known := now.files[path]; known && errors.Is(held.err, fs.ErrNotExist) {
			return nil, store.Invalidf("%s does not exist any more", path)
		}
	}
	if r.Check != nil {
		err = r.Check(c)
	}
	return c, err
}

// keep keeps the configuration in force, since the files have none.
func (r *Reloader) keep(err error) {
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
	r.Log.Error("the configuration cannot be used; the one before stays in force", "error", text, "loaded_at", loaded)
	if r.OnReload != nil {
		r.OnReload(hash, err)
	}
}

// replace puts a configuration in force, unless it says the same.
func (r *Reloader) replace(c *config.Config, asked bool) {
	before, hash := r.loaded, Hash(c)
	changed := hash != r.state.Hash
	if changed {
		r.Apply(c)
	}
	r.loaded, r.paths = c, c.Searched
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
		r.Log.Info("the configuration can be used again, and says what is in force", "hash", hash)
	case asked:
		r.Log.Info("the configuration was read again, and says what is in force", "hash", hash)
	}
	r.tellFixed(c)
	if r.OnReload != nil {
		r.OnReload(hash, nil)
	}
}

// tellFixed tells what of a configuration is not in force until the next start.
func (r *Reloader) tellFixed(c *config.Config) {
	fixed := r.Fixed(c)
	for _, name := range slices.Sorted(bothKeys(fixed, r.start)) {
		if fixed[name] != r.start[name] && fixed[name] != r.fixed[name] {
			r.Log.Warn("another "+name+" is configured, which is used from the next start on", "setting", name)
		}
	}
	r.fixed = fixed
}
