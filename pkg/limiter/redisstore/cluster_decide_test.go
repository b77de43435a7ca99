package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// yearly limits lose nothing while a test runs.
func yearly(count int64) store.Limit {
	return store.Limit{Algorithm: store.FixedWindow, Count: count, Period: redistest.LongPeriod()}
}

// subjectsOn returns a subject on each master, none of which another test uses.
func subjectsOn(t *testing.T, cluster *redistest.Cluster, name string) [3]string {
	t.Helper()
	var subjects [3]string
	for i, missing := 0, 3; missing > 0; i++ {
		subject := fmt.Sprintf("%s:%d", name, i)
		if master, _ := owner(t, cluster, subject); subjects[master] == "" {
			subjects[master] = subject
			missing--
		}
	}
	return subjects
}

// asking returns requests of one unit for subjects on several masters.
func asking(subjects [3]string, limits ...store.Limit) []store.Request {
	reqs := make([]store.Request, len(limits))
	for i, limit := range limits {
		reqs[i] = store.Request{Key: store.Key{Subject: subjects[i], Name: "limit"}, Limit: limit, Cost: 1}
	}
	return reqs
}

// inUse returns what is used of each request's key.
func inUse(t *testing.T, backend store.Store, reqs []store.Request) []int64 {
	t.Helper()
	units := make([]int64, len(reqs))
	for i, req := range reqs {
		d, err := storecall.New(backend).Peek(ctx, req.Key, req.Limit, 1)
		if err != nil {
			t.Fatal(err)
		}
		units[i] = d.Used
	}
	return units
}

func wantUsed(t *testing.T, when string, backend store.Store, reqs []store.Request, want ...int64) {
	t.Helper()
	if got := inUse(t, backend, reqs); !slices.Equal(got, want) {
		t.Errorf("%s: %d used, want %d", when, got, want)
	}
}

// scriptCalls is a hook of a Cluster's nodes that is told of each script call before it
// is sent.
type scriptCalls struct {
	redisserver.PassHook
	sent   atomic.Int64
	before atomic.Pointer[func(n int64)] // n is 1 for the first since it was set
}

// watchScripts adds the hook to the nodes of client, of which nothing was asked yet.
func watchScripts(client *redis.ClusterClient) *scriptCalls {
	h := &scriptCalls{}
	client.OnNewNode(func(node *redis.Client) { node.AddHook(h) })
	return h
}

// tell calls before from now on.
func (h *scriptCalls) tell(before func(n int64)) {
	h.sent.Store(0)
	h.before.Store(&before)
}

func (h *scriptCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if before := h.before.Load(); before != nil && (cmd.Name() == "evalsha" || cmd.Name() == "evalsha_ro") {
			(*before)(h.sent.Add(1))
		}
		return next(ctx, cmd)
	}
}

// interrupted returns a store on the cluster that calls do before its second script
// call from now, and that knows the scripts and has connections.
func interrupted(t *testing.T, cluster *redistest.Cluster, options redis.ClusterOptions, reqs []store.Request,
	do func()) (*redisstore.Store, error) {
	t.Helper()
	options.DialerRetries = 1
	client := clusterClient(t, cluster, options)
	calls := watchScripts(client)
	backend := newStore(t, client)
	for _, op := range []store.Op{store.Take, store.Refund, store.Peek} {
		if err := backend.Decide(ctx, op, reqs, make([]store.Decision, len(reqs))); err != nil {
			return nil, err
		}
	}
	calls.tell(func(n int64) {
		if n == 2 {
			do()
		}
	})
	return backend, nil
}

// Limits in several slots are all charged or none is, and the answer says per limit
// how it stands after what was taken has been given back.
func TestLimitsOfSeveralSlots(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l, backend := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs()})
	take := func(t *testing.T, reqs []store.Request) []store.Decision {
		t.Helper()
		decisions := make([]store.Decision, len(reqs))
		if err := backend.Decide(ctx, store.Take, reqs, decisions); err != nil {
			t.Fatal(err)
		}
		return decisions
	}
	use := func(t *testing.T, req store.Request, units int64) {
		t.Helper()
		if d, err := l.Take(ctx, req.Key, req.Limit, units); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	}

	t.Run("all", func(t *testing.T) {
		reqs := asking(subjectsOn(t, cluster, "all"), yearly(10), yearly(20), yearly(30))
		for i, d := range take(t, reqs) {
			if !d.Allowed || d.Used != 1 || d.Remaining != int64(10*(i+1)-1) {
				t.Errorf("limit %d: %+v", i, d)
			}
		}
		wantUsed(t, "after one take", backend, reqs, 1, 1, 1)
	})

	// Wherever in the order a limit denies.
	for at := range 3 {
		t.Run(fmt.Sprintf("denied by %d", at), func(t *testing.T) {
			limits := []store.Limit{yearly(10), {Algorithm: store.LeakyBucket, Count: 10, Period: store.MaxPeriod}, yearly(10)}
			limits[at] = yearly(3)
			reqs := asking(subjectsOn(t, cluster, fmt.Sprint("denied", at)), limits...)
			before := make([]int64, 3)
			for i, req := range reqs {
				before[i] = int64(i + 1)
				if i == at {
					before[i] = 3
				}
				use(t, req, before[i])
			}
			alone, err := l.Peek(ctx, reqs[at].Key, reqs[at].Limit, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range take(t, reqs) {
				if d.Allowed != (i != at) || d.Used != before[i] || d.Remaining != reqs[i].Limit.Capacity()-before[i] ||
					(d.RetryAfter > 0) != (i == at) {
					t.Errorf("limit %d, with %d used: %+v", i, before[i], d)
				}
				if i == at && (d.RetryAfter > alone.RetryAfter || alone.RetryAfter-d.RetryAfter > time.Minute) {
					t.Errorf("retry after %s, and by itself %s", d.RetryAfter, alone.RetryAfter)
				}
				if isBucket := reqs[i].Limit.Algorithm == store.LeakyBucket; (d.Delay > 0) != isBucket {
					t.Errorf("limit %d: the delay of what would be allowed is %s", i, d.Delay)
				}
			}
			wantUsed(t, "after a denial", backend, reqs, before...)
		})
	}

	t.Run("shadows", func(t *testing.T) {
		subjects := subjectsOn(t, cluster, "shadows")
		// The first slot has a limit in earnest, and a shadow that does not fit.
		reqs := asking(subjects, yearly(10), yearly(10), yearly(2))
		full := store.Request{Key: store.Key{Subject: subjects[0], Name: "full"}, Limit: yearly(5), Cost: 1, Shadow: true}
		use(t, full, 5)
		reqs[1].Shadow = true
		reqs = append(reqs, full)
		for range 2 {
			for i, d := range take(t, reqs) {
				if d.Allowed != (i != 3) || d.Shadow != (i == 1 || i == 3) {
					t.Errorf("limit %d: %+v", i, d)
				}
			}
		}
		wantUsed(t, "after two takes", backend, reqs, 2, 2, 2, 5)
		// The last in earnest denies now: no shadow is charged, and what was not
		// charged is not given back.
		d := take(t, reqs)
		if !d[0].Allowed || !d[1].Allowed || d[2].Allowed || d[3].Allowed || d[0].Used != 2 || d[1].Used != 2 || d[3].Used != 5 {
			t.Errorf("denied by the third: %+v", d)
		}
		wantUsed(t, "after a denial", backend, reqs, 2, 2, 2, 5)
		// One that does not fit in a slot of its own keeps nothing from being charged.
		use(t, reqs[1], 8)
		reqs[2].Limit = yearly(10)
		if d := take(t, reqs); !d[0].Allowed || d[1].Allowed || !d[2].Allowed {
			t.Errorf("beside a full shadow: %+v", d)
		}
		wantUsed(t, "after a take beside full shadows", backend, reqs, 3, 10, 3, 5)
	})

	t.Run("the caller gives up in between", func(t *testing.T) {
		reqs := asking(subjectsOn(t, cluster, "impatient"), yearly(10), yearly(10))
		var err error
		// What is given back can take longer than the caller waits for it, on a busy machine.
		for attempt := 0; attempt == 0 || attempt < 50 && errors.Is(err, store.ErrOutcomeUnknown); attempt++ {
			giving, up := context.WithCancel(ctx)
			backend, notReady := interrupted(t, cluster, redis.ClusterOptions{}, reqs, up)
			if notReady != nil {
				t.Fatal(notReady)
			}
			err = backend.Decide(giving, store.Take, reqs, make([]store.Decision, 2))
			backend.Close() // waits for what is given back
		}
		if !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrGaveUp) || errors.Is(err, store.ErrOutcomeUnknown) ||
			store.IsAway(err) {
			t.Errorf("got %v, want an ErrGaveUp that is context.Canceled: nothing was charged", err)
		}
		wantUsed(t, "after giving up", backend, reqs, 0, 0)
	})

	// Pairs of a user's limit and one of all: never more than either allows, and
	// nothing lost of either.
	t.Run("at the same time", func(t *testing.T) {
		const callers, each, most, ofUser = 32, 20, 300, 12
		everybody := store.Request{Key: store.Key{Subject: "everybody", Name: "limit"}, Limit: yearly(most), Cost: 1}
		pairs, granted := make([]store.Request, callers+1), make([]int64, callers+1)
		pairs[callers] = everybody
		var all sync.WaitGroup
		for n := range callers {
			pairs[n] = store.Request{Key: store.Key{Subject: fmt.Sprint("one:", n), Name: "limit"}, Limit: yearly(ofUser), Cost: 1}
			pair := []store.Request{pairs[n], everybody}
			if n%2 == 0 {
				slices.Reverse(pair)
			}
			all.Go(func() {
				for range each {
					decisions := make([]store.Decision, 2)
					if err := backend.Decide(ctx, store.Take, pair, decisions); err != nil {
						t.Error(err)
					}
					if store.AllAllowed(decisions) {
						granted[n]++
					}
				}
			})
		}
		all.Wait()
		for n := range callers {
			if granted[n] > ofUser {
				t.Errorf("user %d got %d of %d", n, granted[n], ofUser)
			}
			granted[callers] += granted[n]
		}
		if granted[callers] > most || granted[callers] < most/2 {
			t.Errorf("%d of %d were granted", granted[callers], most)
		}
		wantUsed(t, "at the end", backend, pairs, granted...)
	})
}

// A slot whose master is away keeps nothing charged in the others, and the error
// says whether anything may be charged.
func TestALaterSlotIsAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000") // the others go on
	judge := func(when string, err error, want, not error) error {
		if !errors.Is(err, want) || errors.Is(err, not) {
			return fmt.Errorf("%s: %w; want one that is %q and not %q", when, err, want, not)
		}
		return nil
	}
	check := func(when string, err error, want, not error) {
		t.Helper()
		if wrong := judge(when, err, want, not); wrong != nil {
			t.Error(wrong)
		}
	}
	decide := func(backend store.Store, op store.Op, reqs []store.Request) error {
		return backend.Decide(ctx, op, reqs, make([]store.Decision, len(reqs)))
	}

	// It may have been charged where there was no answer, and only there.
	_, patient := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs()})
	wantUsed(t, "before", patient, asking(subjectsOn(t, cluster, "before"), yearly(10)), 0)
	redistest.Patiently(t, 500*time.Millisecond, func(timeout time.Duration) (missing error) {
		defer cluster.Masters[1].Resume()
		reqs := asking(subjectsOn(t, cluster, fmt.Sprint("paused for ", timeout)), yearly(10), yearly(10))
		options := redis.ClusterOptions{ReadTimeout: timeout, DialTimeout: timeout}
		backend, err := interrupted(t, cluster, options, reqs, cluster.Masters[1].Pause)
		if err != nil {
			return err
		}
		missing = judge("hung", decide(backend, store.Take, reqs), store.ErrOutcomeUnknown, store.ErrUnavailable)
		if got := inUse(t, patient, reqs[:1]); missing == nil && got[0] != 0 {
			missing = fmt.Errorf("while the second is hung %d units of the first are used", got[0])
		}
		return missing
	})

	// What cannot be given back may be charged, although the other cannot be.
	killed := false
	redistest.Patiently(t, 500*time.Millisecond, func(timeout time.Duration) (missing error) {
		reqs := asking(subjectsOn(t, cluster, fmt.Sprint("gone for ", timeout)), yearly(10), yearly(10))
		options := redis.ClusterOptions{ReadTimeout: timeout, DialTimeout: timeout}
		backend, err := interrupted(t, cluster, options, reqs, func() {
			cluster.Masters[0].Pause()
			cluster.Masters[1].Kill()
			killed = true
		})
		if err != nil {
			return err
		}
		if err = decide(backend, store.Take, reqs); !killed {
			return fmt.Errorf("the second was not asked: %w", err)
		}
		check("the first hung once charged, the second gone", err, store.ErrOutcomeUnknown, store.ErrUnavailable)
		return nil
	})
	cluster.Masters[0].Resume()

	// Nothing was charged anywhere: the master is known to be gone.
	reqs := asking(subjectsOn(t, cluster, "unreached"), yearly(10), yearly(10))
	_, late := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs(), DialerRetries: 1})
	check("gone", decide(late, store.Take, reqs), store.ErrUnavailable, store.ErrOutcomeUnknown)
	wantUsed(t, "with the second gone", late, reqs[:1], 0)
	check("gone, for a refund that began", decide(late, store.Refund, reqs), store.ErrOutcomeUnknown, store.ErrUnavailable)
	check("gone, for a peek", decide(late, store.Peek, reqs), store.ErrUnavailable, store.ErrOutcomeUnknown)

	// What an earlier limit denies is denied, whoever is away.
	reqs = asking(subjectsOn(t, cluster, "used up"), yearly(1), yearly(10))
	if err := decide(late, store.Take, reqs[:1]); err != nil {
		t.Fatal(err)
	}
	decisions := make([]store.Decision, 2)
	if err := late.Decide(ctx, store.Take, reqs, decisions); err != nil || decisions[0].Allowed || store.AllAllowed(decisions) ||
		!decisions[1].Unguarded || decisions[1].At != 0 {
		t.Errorf("denied by the first, the second gone: %v, %+v", err, decisions)
	}
}

// Several limits of one subject cannot be decided while some of its keys are at one
// master and some at another. They are when the move ends, once.
func TestLimitsOfASlotThatIsHalfMoved(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	subjects := subjectsOn(t, cluster, "torn")
	reqs := make([]store.Request, 2)
	for i, name := range []string{"here", "there"} {
		reqs[i] = store.Request{Key: store.Key{Subject: subjects[0], Name: name}, Limit: yearly(10), Cost: 1}
	}
	client := clusterClient(t, cluster, redis.ClusterOptions{})
	calls := watchScripts(client)
	backend := newStore(t, client)
	take := func() error { return backend.Decide(ctx, store.Take, reqs, make([]store.Decision, 2)) }
	if err := take(); err != nil {
		t.Fatal(err)
	}
	from, slot := owner(t, cluster, subjects[0])
	if err := cluster.BeginMoveSlot(slot, (from+1)%3, admin.OwnLayout("rl").StoreKey(reqs[1].Key)); err != nil {
		t.Fatal(err)
	}
	if err := take(); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("while it is half moved: %v, want an ErrUnavailable", err)
	}
	wantUsed(t, "while it is half moved", backend, reqs, 1, 1)
	calls.tell(func(n int64) {
		if n == 3 {
			if err := cluster.MoveSlot(slot, (from+1)%3); err != nil {
				t.Error(err)
			}
		}
	})
	if err := take(); err != nil {
		t.Errorf("when the move ends meanwhile: %v", err)
	}
	wantUsed(t, "when it is moved", backend, reqs, 2, 2)
}
