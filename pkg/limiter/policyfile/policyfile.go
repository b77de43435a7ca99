// Package policyfile loads policies from the file that the command limitctl reviews,
// validates and simulates, so that a service decides by the same limits:
//
//	policies:
//	  login:
//	    on_error: deny
//	    limits:
//	      - {name: ip-minute, by: [ip], limit: 10/1m, algorithm: sliding-log}
//	      - {name: email-minute, by: [email], limit: 5/1m}
//
// [Load] reads such a file, usually named limitctl.yaml. The rules are those of
// "limitctl config validate", and so are the errors: a [*Mistakes] holds all that is wrong,
// each mistake with its line and a caret below its column.
//
// The file may have contexts, which say where the command finds its stores. They are
// ignored here: the service opens its own store.
//
// # In force
//
// A [File] is only read after it was loaded, so any number of goroutines can use it. To
// change limits while a service runs, load the file again and put the new [File] in the
// place of the old one, such as in an atomic.Pointer. If loading fails, keep the old one.
// Keys are the same under both files as long as the names and by are, so what was used
// stays used.
//
// # A store that does not answer
//
// A policy's on_error says what that means for its requests, and the file's breaker when
// such a store is no longer asked. [File.Wrap] applies both, and the overrides that operators set in the
// store:
//
//	stores := file.Wrap(store, policyfile.Hooks{})
//	logins := limiter.New(stores["login"])
//
// Leases belong between the two. With them, and with other wrappers, [limiter.Stack] puts all in order:
//
//	leased := limiter.WithLeases(file.WithBreaker(store, nil), limiter.Leases{})
//	watch := limiter.WatchOverrides(store, limiter.Overrides{})
//	for _, p := range file.Policies {
//		withFailure := func(store limiter.Store) limiter.Store { return limiter.WithFailure(store, p.Failure()) }
//		stores[p.Name] = limiter.Stack(leased, limiter.Layers{Overrides: watch.Wrap, Failure: withFailure})
//	}
package policyfile

import (
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/readfile"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// MaxSize is the most bytes that a file may have.
const MaxSize = configfile.MaxSize

// File is what a file says. Do not change it.
type File struct {
	// Name is the file's path, or what Parse was told to call it.
	Name string
	// Prefix is what the store's keys begin with: [limiter.DefaultPrefix] unless the
	// file says otherwise.
	Prefix string
	// Breaker has its defaults filled in; nil is that the file wants none.
	Breaker *limiter.Breaker
	// Policies are in the order written.
	Policies []*policy.Policy
	// HTTP says how HTTP requests are limited, with its defaults filled in and a rule for
	// each policy that says so.
	HTTP httplimit.Settings
}

// Load reads the file at a path, which must be a regular file of at most [MaxSize] bytes.
// It returns at once, even for a FIFO or a device. The error is a [*Mistakes] if the file was read
// and is wrong, and else the system's, such as fs.ErrNotExist.
func Load(path string) (*File, error) {
	data, err := readfile.All(path, MaxSize)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads the text of a file; name is what mistakes call it. Its time and memory
// are bounded, for any data. The error is a [*Mistakes].
func Parse(name string, data []byte) (*File, error) {
	read, r := configfile.Read(name, data, configfile.Operators{})
	if mistakes := r.Mistakes(); len(mistakes) > 0 {
		return nil, newMistakes(mistakes)
	}
	file := &File{Name: name, Prefix: read.Prefix, Breaker: read.Breaker, Policies: read.Policies, HTTP: read.HTTP}
	if file.Prefix == "" {
		file.Prefix = limiter.DefaultPrefix
	}
	return file, nil
}

// Policy returns the policy of that name. The error is a [limiter.ErrInvalid] that says
// which policies there are.
func (f *File) Policy(name string) (*policy.Policy, error) {
	return configfile.FindPolicy(f.Name, f.Policies, name)
}

// Hooks are told what [File.Wrap] does instead of asking the store. Each may be nil.
type Hooks struct {
	// OnFailure is told each error that a policy replaced by a decision. It may be called
	// concurrently.
	OnFailure func(policy string, err error)
	// OnBreaker is told each change of the breaker, in order. It must not call the store.
	OnBreaker func(limiter.BreakerChange)
	// OnOverrides is told why overrides could not be read: once, until they can be again.
	OnOverrides func(error)
}

// Wrap returns what decides by each policy, by the policy's name: store behind one breaker
// for all, then what the policy says of a store that is away, and around it the overrides of
// store (see [limiter.WithOverrides]), which are read once for all. Under on_error: local
// each has a shadow in the memory of this process, which begins empty with each call of
// Wrap. Closing one of them closes store.
func (f *File) Wrap(store limiter.Store, hooks Hooks) map[string]limiter.Store {
	watch := limiter.WatchOverrides(store, limiter.Overrides{OnError: hooks.OnOverrides})
	store = f.WithBreaker(store, hooks.OnBreaker)
	stores := map[string]limiter.Store{}
	for _, p := range f.Policies {
		failure := p.Failure()
		if hooks.OnFailure != nil {
			failure.OnFailure = func(err error) { hooks.OnFailure(p.Name, err) }
		}
		stores[p.Name] = limiter.Stack(store, limiter.Layers{Overrides: watch.Wrap,
			Failure: func(store limiter.Store) limiter.Store { return limiter.WithFailure(store, failure) }})
	}
	return stores
}

// WithBreaker returns store behind the file's breaker, or store itself if the file wants
// none. onChange, if not nil, is told each change of its state.
func (f *File) WithBreaker(store limiter.Store, onChange func(limiter.BreakerChange)) limiter.Store {
	if f.Breaker == nil {
		return store
	}
	settings := *f.Breaker
	settings.OnChange = onChange
	return limiter.WithBreaker(store, settings)
}

// Mistake is one thing that is wrong in a file.
type Mistake struct {
	// Path is the file's name.
	Path string
	// Line and Column say where the mistake is, in characters from 1.
	Line, Column int
	// Text says what is wrong, on one line.
	Text string
	// Excerpt is the line and the one before it, and a caret below the column. Values of
	// contexts in it, such as passwords, are stars. Only the first mistakes have one.
	Excerpt string
}

// Mistakes is the error of a file that is wrong: all mistakes, in the order of the lines.
// It is a [limiter.ErrInvalid].
type Mistakes struct {
	List []Mistake
	text string
}

func newMistakes(found []yamlfile.Mistake) *Mistakes {
	m := &Mistakes{text: yamlfile.Format(found, yamlfile.Plain)}
	for _, mistake := range found {
		m.List = append(m.List, Mistake(mistake))
	}
	return m
}

// Error returns several lines for each mistake, with its excerpt, for the first twenty.
// All of it is safe to print: nothing in the file gets at a terminal.
func (m *Mistakes) Error() string { return m.text }

// Is makes Mistakes a [limiter.ErrInvalid].
func (m *Mistakes) Is(target error) bool { return target == limiter.ErrInvalid }
