package policyfile

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/readfile"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Runtime decides by the policies of a file, and can reload the file: all its limits change at one instant. A
// reload keeps the usage of a limit whose name and attributes stay, overrides, the state of the breaker, and what
// local shares have counted.
//
// It applies on_error of each policy, the breaker, and the rules for HTTP. If the store keeps overrides and
// denials, it applies the overrides of operators and counts denials. It is safe for concurrent use.
type Runtime struct {
	store  store.Store
	policy []limiter.Option // of the limiter of each policy
	base   []limiter.Option // of the part that all policies share

	watch   *layers.OverrideWatch
	denials *layers.DenialCollector
	local   *memorystore.Store // decides while the store is away

	reloading sync.Mutex
	inForce   atomic.Pointer[version]
	served    sync.Map // the policies that have a middleware, by name
}

// version is a file in force.
type version struct {
	file     *File
	base     *limiter.Limiter
	policies map[string]*policyInForce
}

type policyInForce struct {
	policy     *policy.Prepared
	limits     *limiter.Limiter
	middleware *httplimit.Middleware
	wrong      error // why there is no middleware
}

// NewRuntime decides by file with backend. Open backend with the file's prefix, where operators look. Use
// [store.Wrap] for a wrapper of your own; otherwise it hides the overrides and denials of the store inside. Options
// apply to the store of each policy, such as limiter.Leases, limiter.Timeout or limiter.Observer. Do not give what
// the file decides: the breaker, and a failure policy if a policy has on_error.
//
// An error is a [limiter.ErrInvalid] about an option or the store.
func NewRuntime(file *File, backend store.Store, options ...limiter.Option) (*Runtime, error) {
	if file == nil {
		return nil, store.Invalidf("the file is nil; make it with Load or Parse")
	}
	if sys.IsNil(backend) {
		return nil, store.Invalidf("the store is nil")
	}
	if s, has := store.As[interface{ Prefix() string }](backend); has && s.Prefix() != file.Prefix {
		return nil, store.Invalidf("the store is open with the prefix %q, and %s has %q; open it with that, where operators look",
			s.Prefix(), file.Name, file.Prefix)
	}
	r := &Runtime{local: memorystore.New()}
	var observer limiter.Observer
	for _, option := range options {
		switch o := option.(type) {
		case limiter.Observer:
			observer = o
			r.base = append(r.base, limiter.Observer{OnStoreCall: o.OnStoreCall, OnBreaker: o.OnBreaker, OnPanic: o.OnPanic})
			r.policy = append(r.policy, limiter.Observer{OnCall: o.OnCall, OnFailure: o.OnFailure, OnPanic: o.OnPanic})
		case limiter.Leases, limiter.Breaker, limiter.Timeout:
			r.base = append(r.base, o)
		default:
			r.policy = append(r.policy, o)
		}
	}
	if _, has := admin.OverrideTableOf(backend); has {
		r.watch = layers.WatchOverrides(backend, layers.Overrides{OnError: observer.OnOverrides,
			OnRecovered: recovered(observer.OnOverrides)})
		r.policy = append(r.policy, limiter.Overrides{})
	}
	if _, has := admin.DenialTableOf(backend); has {
		r.denials = layers.CollectDenials(backend, layers.DenialLog{OnError: observer.OnDenialLog,
			OnRecovered: recovered(observer.OnDenialLog)})
		r.policy = append(r.policy, limiter.DenialLog{})
	}
	r.store = &layers.Shared{Store: backend, Watch: r.watch, Denials: r.denials}
	if err := r.put(file); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// recovered returns a function that reports to f that an error is over.
func recovered(f func(error)) func() {
	if f == nil {
		return nil
	}
	return func() { f(nil) }
}

// File returns the file in force.
func (r *Runtime) File() *File { return r.inForce.Load().file }

// Call has the requests of a policy for one call. All of it is from one file, even if a reload happens meanwhile.
type Call struct {
	// Limits decides the requests, with Reserve or Wait for instance.
	Limits   *limiter.Limiter
	Requests []limiter.Request
	// Policy made the requests. Its UnitsOf returns the costs with which to settle a reservation of them. The
	// policy of a later file can have other limits, in another order.
	Policy *policy.Policy
}

// Call returns the requests of a policy for a call with these attributes. The address of an attribute that the file takes from
// the client becomes the client that serve and the middleware count by the same file. costs has one for each field that is a
// limit's cost; cost is for the limits without their own cost, and 1 if there are none. An error is a
// [limiter.ErrInvalid]: there is no such policy, or attributes or costs are missing or too many.
func (r *Runtime) Call(name string, attributes policy.Attributes, cost int64, costs ...policy.FieldCost) (Call, error) {
	version := r.inForce.Load()
	p := version.policies[name]
	if p == nil {
		_, err := version.file.Policy(name)
		return Call{}, err
	}
	if err := p.policy.CheckCost(store.Take, cost, cost != 0 && cost != 1); err != nil {
		return Call{}, err
	}
	for attribute, value := range attributes {
		if client := version.file.HTTP.Client(name, attribute, value); client != value {
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
	version := r.inForce.Load()
	p := version.policies[name]
	if p == nil {
		_, err := version.file.Policy(name)
		return nil, err
	}
	if p.wrong != nil {
		return nil, p.wrong
	}
	r.served.Store(name, true)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			r.inForce.Load().policies[name].middleware.Wrap(next).ServeHTTP(w, request)
		})
	}, nil
}

// Stats returns the figures of the limiters in force. See [limiter.Limiter.Stats].
func (r *Runtime) Stats() limiter.Stats {
	version := r.inForce.Load()
	stats := version.base.Stats()
	stats.LocalKeys = int64(r.local.Len()) // all policies share it
	for _, p := range version.policies {
		stats.Denials += p.limits.Stats().Denials
	}
	return stats
}

// Reload reads the file again, or looks at the store that it was published to, and applies it. On an error the file
// before stays in force.
func (r *Runtime) Reload() error {
	before := r.File()
	if before.published != nil {
		return before.published.look(context.Background(), r)
	}
	file, err := Load(before.Name)
	if err != nil {
		return err
	}
	if file.Prefix != before.Prefix {
		return store.Invalidf("%s has another prefix now, and the store is open with %q; start the service again", file.Name, before.Prefix)
	}
	return r.put(file)
}

// settle is the time for which a changed file must stay the same before it is read.
const settle = 100 * time.Millisecond

// Watch reloads the file when it changes, until ctx ends. It looks at it with the period every, such as a second.
// onChange, if not nil, gets nil after each reload, and an error once for each change that cannot be used.
//
// It follows the store if the file was published there: by one small read each time, for which no decision waits. It
// also reports which version is in force, for "limitctl config status"; onChange also gets the error when the store
// cannot be read, and nil when it can be read again, and an error if a version is in force and cannot be kept in the cache.
func (r *Runtime) Watch(ctx context.Context, every time.Duration, onChange func(error)) {
	inForce := r.File()
	if inForce.published != nil {
		r.watchPublished(ctx, inForce.published, every, onChange)
		return
	}
	looked := string(inForce.sum[:])
	for sys.Sleep(ctx, max(every, time.Millisecond)) == nil {
		now := contentOf(inForce.Name)
		if now == looked || sys.Sleep(ctx, settle) != nil || contentOf(inForce.Name) != now {
			continue
		}
		looked = now
		if err := r.Reload(); onChange != nil {
			onChange(err)
		}
	}
}

// contentOf returns a text that identifies the content of a file, or the reason why it cannot be read.
func contentOf(path string) string {
	text, err := readfile.All(path, MaxSize)
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// put puts a file in force.
func (r *Runtime) put(file *File) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	before := r.inForce.Load()
	next := &version{file: file, policies: map[string]*policyInForce{}}
	if before != nil && sameBreaker(before.file.Breaker, file.Breaker) {
		next.base = before.base
	} else {
		base := r.base
		if b := file.Breaker; b != nil {
			base = append(base[:len(base):len(base)], *b)
		}
		var err error
		if next.base, err = limiter.New(r.store, base...); err != nil {
			return err
		}
	}
	for _, p := range file.Policies {
		var err error
		if next.policies[p.Name], err = r.policyOf(p, file, before, next.base); err != nil {
			return err
		}
	}
	var wrong error
	r.served.Range(func(name, _ any) bool {
		if p := next.policies[name.(string)]; p == nil {
			wrong = store.Invalidf("%s has no policy %q any more, and HTTP requests are limited by it", file.Name, name)
		} else if p.wrong != nil {
			wrong = p.wrong
		}
		return wrong == nil
	})
	if wrong == nil {
		r.inForce.Store(next)
	}
	return wrong
}

func sameBreaker(one, other *limiter.Breaker) bool {
	return one == other || one != nil && other != nil && *one == *other
}

// policyOf puts a policy in force. It keeps the old limiter if that decides in the same way.
func (r *Runtime) policyOf(p *policy.Policy, file *File, before *version, base *limiter.Limiter) (*policyInForce, error) {
	q := &policyInForce{policy: p.Prepare()}
	if before != nil && before.base == base {
		if old := before.policies[p.Name]; old != nil && old.policy.OnError == p.OnError && old.policy.LocalShare == p.LocalShare {
			q.limits = old.limits
		}
	}
	if q.limits == nil {
		options := r.policy
		if fail := r.onError(p); fail != nil {
			options = append(options[:len(options):len(options)], fail)
		}
		var err error
		if q.limits, err = limiter.New(base.Store(), options...); err != nil {
			return nil, err
		}
	}
	q.middleware, q.wrong = httplimit.New(q.limits, p, file.HTTP.Options(p.Name))
	return q, nil
}

// onError returns the failure policy of p as an option.
func (r *Runtime) onError(p *policy.Policy) limiter.Option {
	switch p.OnError {
	case store.FailOnError:
		return nil
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
	}
	return nil
}

// Close gives back leased units, writes the denials that are not yet written, and stops the work in the background.
// The store stays open.
func (r *Runtime) Close() error {
	var errs []error
	if v := r.inForce.Load(); v != nil {
		for _, p := range v.policies {
			errs = append(errs, p.limits.Close())
		}
		errs = append(errs, v.base.Close())
	}
	if r.denials != nil {
		r.denials.Close()
	}
	if r.watch != nil {
		r.watch.Close()
	}
	return errors.Join(append(errs, r.local.Close())...)
}
