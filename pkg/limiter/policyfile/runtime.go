package policyfile

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/poll"
	"github.com/limitctl/limitctl/internal/readfile"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Runtime decides by the policies of a file, and can reload the file: all its limits change at one instant. A reload
// keeps usage, overrides, the state of the breaker, and what local shares have counted.
//
// It applies on_error of each policy, the breaker, the rules for HTTP and, if the store keeps them, the overrides of
// operators, and counts denials. It is safe for concurrent use.
type Runtime struct {
	shared *layers.Shared     // the store, and what limiters share of it
	policy []limiter.Option   // of the limiter of each policy
	base   []limiter.Option   // of the part that all policies share
	local  *memorystore.Store // decides while the store is away

	reloading sync.Mutex
	inForce   atomic.Pointer[InForce]
	served    sync.Map // the policies that have a middleware, by name
}

// InForce is what decides by one file. It decides by that even after another file was put in force.
type InForce struct {
	File     *File
	base     *limiter.Limiter
	free     *limiter.Limiter // for requests of no policy
	policies map[string]*policyInForce
}

type policyInForce struct {
	policy     *policy.Prepared
	limits     *limiter.Limiter
	middleware *httplimit.Middleware
	wrong      error // why there is no middleware
}

// NewRuntime decides by file with backend. Open backend with the file's prefix, and use [store.Wrap] for a wrapper of
// your own, which else hides its overrides. Options apply to the store of each policy, such as limiter.Leases or
// limiter.Observer. Do not give what the file decides: the breaker, and a failure policy if a policy has on_error. An
// error is a [limiter.ErrInvalid] about an option or the store.
func NewRuntime(file *File, backend store.Store, options ...limiter.Option) (*Runtime, error) {
	if file == nil {
		return nil, store.Invalidf("the file is nil; make it with Load or Parse")
	}
	if sys.IsNil(backend) {
		return nil, store.Invalidf("the store is nil")
	}
	if s, has := store.As[interface{ Prefix() string }](backend); has && s.Prefix() != file.Prefix {
		return nil, store.Invalidf("the store is open with the prefix %q, and %s has %q; open it with that, where "+
			"operators look",
			s.Prefix(), file.Name, file.Prefix)
	}
	r := &Runtime{local: memorystore.New(memorystore.WithMaxKeys(layers.FallbackKeys)), shared: &layers.Shared{
		Store: backend}}
	var env layers.Env
	for _, option := range options {
		switch o := option.(type) {
		case limiter.Observer:
			env.Observer = &layers.Observer{OnOverrides: o.OnOverrides, OnDenialLog: o.OnDenialLog}
			r.base = append(r.base, limiter.Observer{OnStoreCall: o.OnStoreCall, OnBreaker: o.OnBreaker})
			r.policy = append(r.policy, limiter.Observer{OnCall: o.OnCall, OnFailure: o.OnFailure})
		case limiter.Leases, limiter.Breaker, limiter.Timeout:
			r.base = append(r.base, o)
		default:
			r.policy = append(r.policy, o)
		}
	}
	if _, has := admin.TablesOf(backend); has {
		r.shared.Watch = layers.WatchOverrides(backend, env)
		r.policy = append(r.policy, limiter.Overrides{})
		r.shared.Denials = layers.CollectDenials(backend, env.Observer)
	}
	use := r.Use
	if file.published != nil {
		use = func(*File) error { return file.published.add(r) } // perhaps a later version
	}
	if err := use(file); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// File returns the file in force.
func (r *Runtime) File() *File { return r.InForce().File }

// InForce returns what decides now, for a caller that needs several of its parts to agree.
func (r *Runtime) InForce() *InForce { return r.inForce.Load() }

// Of returns a policy, and what decides its requests; nil if there is no policy of that name. Without a name the policy
// is nil, and the limiter decides requests of limits of your own: it has no failure policy.
func (f *InForce) Of(name string) (*policy.Prepared, *limiter.Limiter) {
	if name == "" {
		return nil, f.free
	}
	if p := f.policies[name]; p != nil {
		return p.policy, p.limits
	}
	return nil, nil
}

// Call has the requests of a policy for one call. All of it is from one file, even if a reload happens meanwhile.
type Call struct {
	// Limits decides the requests, with Reserve or Wait for instance.
	Limits   *limiter.Limiter
	Requests []limiter.Request
	// Policy made the requests. Its UnitsOf returns the costs with which to settle a reservation of them. The
	// policy of a later file can have other limits, in another order.
	Policy *policy.Policy
}

// Call returns the requests of a policy for a call with these attributes. An attribute that the file takes from the
// client becomes the client that the middleware counts. costs has one for each field that is a limit's cost; cost is
// for the limits without their own cost. An error is a [limiter.ErrInvalid].
func (r *Runtime) Call(name string, attributes policy.Attributes, cost int64, costs ...policy.FieldCost) (Call, error) {
	inForce := r.InForce()
	p := inForce.policies[name]
	if p == nil {
		_, err := inForce.File.Policy(name)
		return Call{}, err
	}
	if err := p.policy.CheckCost(store.Take, cost, cost != 0 && cost != 1); err != nil {
		return Call{}, err
	}
	for attribute, value := range attributes {
		if client := inForce.File.HTTP.Client(name, attribute, value); client != value {
			attributes = maps.Clone(attributes)
			attributes[attribute] = client
		}
	}
	asked, _, err := p.policy.AppendRequests(nil, nil, attributes, cost, costs...)
	if err != nil {
		return Call{}, err
	}
	requests := make([]limiter.Request, len(asked))
	for i := range asked {
		requests[i] = limiter.RequestOf(asked[i])
	}
	return Call{p.limits, requests, p.policy.Policy}, nil
}

// Take charges cost units to all limits of a policy, or to none. A limit with its own cost uses that: costs has one
// for each field, such as policy.FieldCost{Field: "tokens", Units: 3000}.
func (r *Runtime) Take(
	ctx context.Context, name string, attributes policy.Attributes, cost int64, costs ...policy.FieldCost,
) (limiter.Decisions, error) {
	call, err := r.Call(name, attributes, cost, costs...)
	if err != nil {
		return limiter.Decisions{}, err
	}
	return call.Limits.Take(ctx, call.Requests...)
}

// Middleware limits HTTP requests by a policy and the file's rules for HTTP. It follows reloads; from now on Reload
// refuses a file without this policy.
func (r *Runtime) Middleware(name string) (func(http.Handler) http.Handler, error) {
	r.reloading.Lock() // no reload removes the policy meanwhile
	defer r.reloading.Unlock()
	inForce := r.InForce()
	p := inForce.policies[name]
	if p == nil {
		_, err := inForce.File.Policy(name)
		return nil, err
	}
	if p.wrong != nil {
		return nil, p.wrong
	}
	r.served.Store(name, true)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			r.InForce().policies[name].middleware.Wrap(next).ServeHTTP(w, request)
		})
	}, nil
}

// Stats returns the figures of the limiters in force. See [limiter.Limiter.Stats].
func (r *Runtime) Stats() limiter.Stats { return r.InForce().base.Stats() }

// Reload reads the file again, or looks at the store that it was published to, and applies it. On an error the file
// before stays in force.
func (r *Runtime) Reload() error {
	file := r.File()
	if file.published != nil {
		_, err := file.published.look(context.Background())
		return err
	}
	text, err := readfile.All(file.Name, MaxSize)
	if err != nil {
		return err
	}
	return r.apply(text)
}

// apply puts another text of the file in force.
func (r *Runtime) apply(text []byte) error {
	before := r.File()
	file, err := Parse(before.Name, text)
	if err != nil {
		return err
	}
	if file.Prefix != before.Prefix {
		return store.Invalidf("%s has another prefix now, and the store is open with %q; start the service again",
			file.Name, before.Prefix)
	}
	return r.Use(file)
}

// Watch reloads the file when it changes, until ctx ends. It looks at it with the period every, such as a second.
// onChange, if not nil, gets nil after each reload, and an error once for each change that cannot be used. Of a
// published file it also gets the error when the store cannot be read or the cache written, and nil when it can be
// read again.
func (r *Runtime) Watch(ctx context.Context, every time.Duration, onChange func(error)) {
	if onChange == nil {
		onChange = func(error) {}
	}
	inForce := r.File()
	read := func(path string) ([]byte, error) { return readfile.All(path, MaxSize) }
	file := poll.Files(read, func(texts [][]byte) error { return r.apply(texts[0]) }, inForce.Name)
	file.Settle, file.Seen = poll.Settle, inForce.sum
	look := func() {
		if applied, err := file.Look(ctx, false); applied || err != nil {
			onChange(err)
		}
	}
	if source := inForce.published; source != nil {
		defer source.close(context.WithoutCancel(ctx))
		look = func() {
			news, _ := source.look(ctx)
			for _, err := range news {
				onChange(err)
			}
		}
	}
	for sys.Sleep(ctx, max(every, time.Millisecond)) == nil {
		look()
	}
}

// Use puts a file in force that the program has read by itself, except its prefix. After an error the file before stays
// in force: the new one lacks a policy with a [Runtime.Middleware].
func (r *Runtime) Use(file *File) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	before := r.inForce.Load()
	next := &InForce{File: file, policies: map[string]*policyInForce{}}
	if before != nil && reflect.DeepEqual(before.File.Breaker, file.Breaker) {
		next.base = before.base
	} else {
		base := r.base
		if b := file.Breaker; b != nil {
			base = append(base[:len(base):len(base)], *b)
		}
		var err error
		if next.base, err = limiter.New(r.shared, base...); err != nil {
			return err
		}
	}
	var err error
	if next.free, err = limiter.New(next.base.Store(), r.optionsOf(file)...); err != nil {
		return err
	}
	for _, p := range file.Policies {
		if next.policies[p.Name], err = r.policyOf(p, before, next); err != nil {
			return err
		}
	}
	r.served.Range(func(name, _ any) bool {
		if p := next.policies[name.(string)]; p == nil {
			err = store.Invalidf("%s has no policy %q any more, and HTTP requests are limited by it", file.Name, name)
		} else {
			err = p.wrong
		}
		return err == nil
	})
	if err == nil {
		r.inForce.Store(next)
	}
	return err
}

// optionsOf returns the options of the limiters of a file's policies.
func (r *Runtime) optionsOf(file *File) []limiter.Option {
	if r.shared.Denials == nil || !file.Denials {
		return r.policy
	}
	return append(r.policy[:len(r.policy):len(r.policy)], limiter.DenialLog{})
}

// policyOf puts a policy in force. It keeps the old limiter if that decides in the same way.
func (r *Runtime) policyOf(p *policy.Policy, before, next *InForce) (*policyInForce, error) {
	q := &policyInForce{policy: p.Prepare()}
	if before != nil && before.base == next.base && before.File.Denials == next.File.Denials {
		if old := before.policies[p.Name]; old != nil && old.policy.OnError == p.OnError &&
			old.policy.LocalShare == p.LocalShare {
			q.limits = old.limits
		}
	}
	if q.limits == nil {
		options := r.optionsOf(next.File)
		if fail := r.onError(p); fail != nil {
			options = append(options[:len(options):len(options)], fail)
		}
		var err error
		if q.limits, err = limiter.New(next.base.Store(), options...); err != nil {
			return nil, err
		}
	}
	q.middleware, q.wrong = httplimit.New(q.limits, p, next.File.HTTP.Options(p.Name))
	return q, nil
}

// onError returns the failure policy of p as an option.
func (r *Runtime) onError(p *policy.Policy) limiter.Option {
	switch p.OnError {
	case store.AllowOnError:
		return limiter.FailOpen()
	case store.DenyOnError:
		return limiter.FailClosed()
	case store.LocalOnError:
		share := p.LocalShare
		if share == 0 {
			share = store.DefaultShare
		}
		return limiter.FailLocalIn(r.local, float64(share)/float64(store.WholeShare))
	default:
		return nil
	}
}

// Close gives back leased units, writes the denials that are not yet written, and stops the work in the background.
// The store stays open.
func (r *Runtime) Close() error {
	var errs []error
	if f := r.inForce.Load(); f != nil {
		for _, p := range f.policies {
			errs = append(errs, p.limits.Close())
		}
		errs = append(errs, f.free.Close(), f.base.Close())
	}
	if r.shared.Watch != nil {
		r.shared.Denials.Close()
		r.shared.Watch.Close()
	}
	return errors.Join(append(errs, r.local.Close())...)
}
