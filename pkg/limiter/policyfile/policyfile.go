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
// A [Runtime] decides by a file: what on_error says of a store that is away, the breaker, the overrides of operators, and
// who is denied. It puts a changed file in force while the service runs, and keeps the one before if the new one has a
// mistake:
//
//	file, err := policyfile.Load("limitctl.yaml")
//	...
//	policies, err := policyfile.NewRuntime(file, store)
//	...
//	defer policies.Close()
//	go policies.Watch(ctx, time.Second, func(err error) { log.Print("limits reloaded: ", err) })
//	...
//	decisions, err := policies.Take(ctx, "login", policy.Attributes{"ip": ip, "email": email}, 1)
package policyfile

import (
	"crypto/sha256"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/readfile"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// MaxSize is the most bytes that a file may have.
const MaxSize = configfile.MaxSize

// File is what a file says. Do not change it.
type File struct {
	// Name is the file's path, or what Parse was told to call it.
	Name string
	// Prefix is what the store's keys begin with: [store.DefaultPrefix] unless the
	// file says otherwise.
	Prefix string
	// Breaker has its defaults filled in; nil is that the file wants none.
	Breaker *limiter.Breaker
	// Policies are in the order written.
	Policies []*policy.Policy
	// HTTP says how HTTP requests are limited, with its defaults filled in and a rule for
	// each policy that says so.
	HTTP httplimit.Settings

	sum [sha256.Size]byte // of the text
}

// Load reads the file at a path, which must be a regular file of at most [MaxSize] bytes.
// It returns at once, even for a FIFO or a device. The error is a [*Mistakes] if the file was read
// and is wrong, and else the system's, such as fs.ErrNotExist.
func Load(path string) (*File, error) {
	text, err := readfile.All(path, MaxSize)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Parse reads the text of a file; name is what mistakes call it. Its time and memory
// are bounded, for any data. The error is a [*Mistakes].
func Parse(name string, data []byte) (*File, error) {
	read, r := configfile.Read(name, data, configfile.Operators{})
	if mistakes := r.Mistakes(); len(mistakes) > 0 {
		return nil, newMistakes(mistakes)
	}
	file := &File{Name: name, Prefix: read.Prefix, Policies: read.Policies, HTTP: read.HTTP, sum: sha256.Sum256(data)}
	if b := read.Breaker; b != nil {
		file.Breaker = &limiter.Breaker{Failures: b.Failures, Slow: b.Slow, Pause: b.Pause, MaxPause: b.MaxPause}
	}
	if file.Prefix == "" {
		file.Prefix = store.DefaultPrefix
	}
	return file, nil
}

// Policy returns the policy of that name. The error is a [limiter.ErrInvalid] that says
// which policies there are.
func (f *File) Policy(name string) (*policy.Policy, error) {
	return configfile.FindPolicy(f.Name, f.Policies, name)
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
func (m *Mistakes) Is(target error) bool { return target == store.ErrInvalid }
