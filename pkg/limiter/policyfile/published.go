package policyfile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/readfile"
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
	runtimes []*Runtime // that decide by it
	file     *File      // the last one
	news     []error    // what Watch has to report: nil for another version
}

// Follow returns the configuration that was published to backend. A [Runtime] of it follows the store: [Runtime.Watch]
// puts each further version in force. It needs the rights to read the keys "PREFIX!{config}:*" and to write those of
// processes, "PREFIX!{config}:process:*".
//
// Without a published version, or while the store is away, it returns the version in the cache, and else the fallback.
// If there is neither, the error says why: a [store.ErrInvalid] if the store keeps no configurations or nothing was
// published, an error of the store, or [*Mistakes] of a version that this program does not understand.
func Follow(ctx context.Context, backend store.Store, p Published) (*File, error) {
	table, err := published.TableOf(backend)
	if err != nil {
		return nil, err
	}
	source := &publishedFile{prefix: store.DefaultPrefix}
	if s, has := store.As[interface{ Prefix() string }](backend); has {
		source.prefix = s.Prefix()
	}
	settings := published.Settings{Table: table, Use: source.put, Now: time.Now,
		Timeout: cmp.Or(p.Timeout, time.Second),
		Cache:   published.Cache{Path: p.Cache, Read: readfile.All, Write: readfile.Write},
		Process: published.Process{Name: cmp.Or(p.Process, "a service"), Host: p.Host, PID: syscall.Getpid(),
			Program: "policyfile"}}
	settings.OnError, settings.OnWarning = source.tell, source.tell
	source.follower = published.NewFollower(settings)
	err = source.follower.Start(ctx)
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
	for _, r := range s.runtimes {
		if err := r.Use(file); err != nil {
			return err
		}
		s.tell(nil)
	}
	s.file = file
	return nil
}

// add adds a Runtime that decides by the file.
func (s *publishedFile) add(r *Runtime) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.runtimes = append(s.runtimes, r)
	return r.Use(s.file)
}

// look puts the published version in force, if it is another one, and returns the news, once.
func (s *publishedFile) look(ctx context.Context) (news []error, err error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	err = s.follower.Look(ctx)
	news, s.news = s.news, nil
	return news, err
}

// tell adds news: an error, or nil for another version and when all is well again.
func (s *publishedFile) tell(err error) {
	if err != nil || !slices.Contains(s.news, nil) {
		s.news = append(s.news, err)
	}
}

// close withdraws the report of this process.
func (s *publishedFile) close(ctx context.Context) {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.follower.Close(ctx)
}
