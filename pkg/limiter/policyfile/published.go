package policyfile

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/readfile"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Published says how a service follows the configuration that "limitctl config publish" puts into its store.
type Published struct {
	// Process names the service in "limitctl config status", and Host its machine, such as what os.Hostname returns.
	Process, Host string
	// Cache is a file in which the last good version is kept, for a start while the store is away; empty for none.
	Cache string
	// Fallback is for a start when nothing was published and nothing was kept; nil for none.
	Fallback *File
	// Timeout bounds each exchange with the store; the default is one second.
	Timeout time.Duration
}

// publishedFile is the source of a published file.
type publishedFile struct {
	looking  sync.Mutex // one look at a time; it guards the rest
	follower *published.Follower
	prefix   string
	runtime  *Runtime // that looks; nil before there is one
	file     *File    // the last one
	warning  error    // the last warning of the follower, until it is told
}

// Follow returns the configuration that was published to backend. A [Runtime] of it follows the store: [Runtime.Watch]
// puts each further version in force. It needs the rights to read the keys "PREFIX!{config}:*" and to write those of
// processes, "PREFIX!{config}:process:*".
//
// Without a published version, or while the store is away, it returns the version that was kept in the cache, and else
// the fallback. If there is neither, the error says why: a [store.ErrInvalid] if the store keeps no configurations or
// nothing was published, [store.ErrUnavailable] and the like of the store, [*Mistakes] of a version that this program
// does not understand.
func Follow(ctx context.Context, backend store.Store, p Published) (*File, error) {
	table, has := admin.ConfigTableOf(backend)
	if !has {
		return nil, store.Invalidf("the store keeps no published configurations; use one in Redis or in a file")
	}
	source := &publishedFile{prefix: store.DefaultPrefix}
	if s, has := store.As[interface{ Prefix() string }](backend); has {
		source.prefix = s.Prefix()
	}
	settings := published.Settings{Table: table, Use: source.put, Now: time.Now, Timeout: cmp.Or(p.Timeout, time.Second),
		Process: published.Process{Name: cmp.Or(p.Process, "a service"), Host: p.Host, PID: syscall.Getpid(), Program: "policyfile"}}
	if p.Cache != "" {
		settings.Keep = func(record string) error { return readfile.Write(p.Cache, []byte(record)) }
		settings.Kept = func() (string, error) {
			record, err := readfile.All(p.Cache, admin.MaxConfigRecord)
			return string(record), err
		}
	}
	settings.OnWarning = func(err error) { source.warning = err }
	source.follower = published.NewFollower(settings)
	err := source.follower.Start(ctx)
	switch {
	case source.file != nil:
		return source.file, nil
	case p.Fallback == nil:
		source.follower.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	file := *p.Fallback
	file.Prefix, file.published = source.prefix, source
	source.file = &file
	return source.file, nil
}

// put makes a file of a version, and puts it in force.
func (s *publishedFile) put(v *published.Version) error {
	name := fmt.Sprintf("published version %d", v.Number)
	file, err := Parse(name, v.Text)
	if err == nil {
		_, err = published.Parse(name, v.Text)
	}
	if err != nil {
		return err
	}
	file.Prefix, file.published = s.prefix, s
	if s.runtime != nil {
		if err := s.runtime.put(file); err != nil {
			return err
		}
	}
	s.file = file
	return nil
}

// look puts the published version in force in a Runtime, if it is another one.
func (s *publishedFile) look(ctx context.Context, r *Runtime) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.runtime = r
	err := s.follower.Look(ctx)
	if s.file != r.File() { // another Runtime of this source has seen it first
		err = cmp.Or(r.put(s.file), err)
	}
	return err
}

// takeWarning returns the last warning, once.
func (s *publishedFile) takeWarning() (err error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	err, s.warning = s.warning, nil
	return err
}

// close withdraws the report of this process.
func (s *publishedFile) close(ctx context.Context) {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.follower.Close(ctx)
}

// watchPublished looks at the store until ctx ends, as [Runtime.Watch] does at a file.
func (r *Runtime) watchPublished(ctx context.Context, source *publishedFile, every time.Duration, onChange func(error)) {
	defer source.close(context.WithoutCancel(ctx))
	told := ""
	for sys.Sleep(ctx, max(every, time.Millisecond)) == nil {
		before := r.File()
		err := source.look(ctx, r)
		if ctx.Err() != nil {
			return
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if onChange != nil && (text != told || err == nil && r.File() != before) {
			onChange(err)
		}
		told = text
		if onChange == nil {
			continue
		}
		if err := source.takeWarning(); err != nil {
			onChange(err)
		}
	}
}
