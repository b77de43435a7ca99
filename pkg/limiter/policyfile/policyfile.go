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
// [Load] reads such a file, usually named limitctl.yaml. The rules and errors are those of "limitctl config
// validate": a [*Mistakes] has all mistakes, each with its line and column. Contexts are ignored: the service opens its
// own store.
//
// A [Runtime] decides by a file, and reloads it when it has changed:
//
//	file, err := policyfile.Load("limitctl.yaml")
//	...
//	policies, err := policyfile.NewRuntime(file, store)
//	...
//	defer policies.Close()
//	go policies.Watch(ctx, time.Second, func(err error) { log.Print("reload: ", err) })
//	...
//	decisions, err := policies.Take(ctx, "login", policy.Attributes{"ip": ip, "email": email}, 1)
//
// [Follow] gets the policies from the store instead, where "limitctl config publish" puts them. Then Watch puts each
// further version in force within two seconds:
//
//	published := policyfile.Published{Process: "checkout", Cache: "/var/lib/checkout/limits"}
//	file, err := policyfile.Follow(ctx, store, published)
//	...
//	policies, err := policyfile.NewRuntime(file, store)
package policyfile

import (
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/poll"
	"github.com/limitctl/limitctl/internal/readfile"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// MaxSize is the largest size of a file in bytes.
const MaxSize = configfile.MaxSize

// File is the content of a file. Do not change it.
type File struct {
	// Name is the file's path, or the name that Parse got.
	Name string
	// Prefix is the text that the store's keys begin with. The default is [store.DefaultPrefix].
	Prefix string
	// Breaker has its defaults filled in; nil means no breaker.
	Breaker *limiter.Breaker
	// Policies are in the order of the file.
	Policies []*policy.Policy
	// HTTP says how HTTP requests are limited, with its defaults filled in and a rule for each policy that has one.
	HTTP httplimit.Settings
	// Denials are counted for "limitctl denials", unless the file says "denials: false".
	Denials bool

	sum string // of the text
	// published follows the store that the file was published to; nil for a file of the machine.
	published *publishedFile
}

// Load reads a file, which must be a regular file of at most [MaxSize] bytes. It returns at once, even for a FIFO
// or a device. The error is a [*Mistakes] if the content is wrong, else the system's, such as fs.ErrNotExist.
func Load(path string) (*File, error) {
	text, err := readfile.All(path, MaxSize)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Parse reads the text of a file; name is its name in mistakes. Time and memory are bounded for any data. An error
// is a [*Mistakes].
func Parse(name string, data []byte) (*File, error) {
	read, r := configfile.Read(name, data, configfile.Operators{})
	if mistakes := r.Mistakes(); len(mistakes) > 0 {
		return nil, newMistakes(mistakes)
	}
	file := &File{Name: name, Prefix: read.Prefix, Policies: read.Policies, HTTP: read.HTTP, Denials: !read.NoDenials,
		sum: poll.Sum(data)}
	file.Breaker = (*limiter.Breaker)(read.Breaker)
	if file.Prefix == "" {
		file.Prefix = store.DefaultPrefix
	}
	return file, nil
}

// Policy returns the policy of that name. An error is a [limiter.ErrInvalid] that lists the policies.
func (f *File) Policy(name string) (*policy.Policy, error) {
	return configfile.FindPolicy(f.Name, f.Policies, name)
}

// Mistake is one mistake in a file.
type Mistake struct {
	// Path is the file's name.
	Path string
	// Line and Column are the place of the mistake; Column counts characters. Both begin at 1.
	Line, Column int
	// Text says what is wrong, on one line.
	Text string
}

// Mistakes is the error of a wrong file: all mistakes, in the order of the lines. It is a [limiter.ErrInvalid].
type Mistakes struct {
	List []Mistake
	text string
}

func newMistakes(found []yamlfile.Mistake) *Mistakes {
	m := &Mistakes{text: yamlfile.Format(found)}
	for _, mistake := range found {
		m.List = append(m.List, Mistake(mistake))
	}
	return m
}

// Error returns a line for each of the first twenty mistakes. The text is safe to print:
// it contains no control characters of the file.
func (m *Mistakes) Error() string { return m.text }

// Is makes Mistakes a [limiter.ErrInvalid].
func (m *Mistakes) Is(target error) bool { return target == store.ErrInvalid }
