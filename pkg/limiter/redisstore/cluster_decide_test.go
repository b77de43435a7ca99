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

	redisserver "github.com/limitctl/limitctl/internal/redis"
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
		must(t, err)
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

// scriptCalls is a hook of a Cluster's nodes that is told of each script call before it is sent.
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

// decided returns the decisions of requests, which must not fail.
func decided(t *testing.T, backend store.Store, op store.Op, reqs []store.Request) []store.Decision {
	t.Helper()
	decisions := make([]store.Decision, len(reqs))
	if err := backend.Decide(ctx, op, reqs, decisions); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return decisions
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
	_, backend := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs()})
	take := func(reqs []store.Request) []store.Decision { t.Helper(); return decided(t, backend, store.Take, reqs) }

	reqs := asking(subjectsOn(t, cluster, "all"), yearly(10), yearly(20), yearly(30))
	for i, d := range take(reqs) {
		if !d.Allowed || d.Used != 1 || d.Remaining != int64(10*(i+1)-1) {
			t.Errorf("limit %d: %+v", i, d)
		}
	}
	wantUsed(t, "after one take", backend, reqs, 1, 1, 1)

	for at := range 3 { // wherever in the order a limit denies
		limits := []store.Limit{yearly(10), {Algorithm: store.LeakyBucket, Count: 10, Period: store.MaxPeriod},
			yearly(10)}
		limits[at] = yearly(3)
		reqs := asking(subjectsOn(t, cluster, fmt.Sprint("denied", at)), limits...)
		before := []int64{1, 2, 3}
		before[at] = 3
		for i, req := range reqs {
			req.Cost = before[i]
			take([]store.Request{req})
		}
		alone := decided(t, backend, store.Peek, reqs[at:at+1])[0]
		for i, d := range take(reqs) {
			if d.Allowed != (i != at) || d.Used != before[i] || d.Remaining != reqs[i].Limit.Capacity()-before[i] ||
				(d.RetryAfter > 0) != (i == at) || (d.Delay > 0) != (reqs[i].Limit.Algorithm == store.LeakyBucket) {
				t.Errorf("denied by %d: limit %d, with %d used: %+v", at, i, before[i], d)
			}
			if i == at && (d.RetryAfter > alone.RetryAfter || alone.RetryAfter-d.RetryAfter > time.Minute) {
				t.Errorf("retry after %s, and by itself %s", d.RetryAfter, alone.RetryAfter)
			}
		}
		wantUsed(t, fmt.Sprint("denied by ", at), backend, reqs, before...)
	}

	// The first slot has a limit in earnest, and a shadow that does not fit.
	subjects := subjectsOn(t, cluster, "shadows")
	reqs = asking(subjects, yearly(10), yearly(10), yearly(2))
	full := store.Request{Key: store.Key{Subject: subjects[0], Name: "full"}, Limit: yearly(5), Cost: 5}
	take([]store.Request{full})
	full.Shadow, reqs[1].Shadow, full.Cost = true, true, 1
	reqs = append(reqs, full)
	for range 2 {
		for i, d := range take(reqs) {
			if d.Allowed != (i != 3) || d.Shadow != (i == 1 || i == 3) {
				t.Errorf("limit %d: %+v", i, d)
			}
		}
	}
	wantUsed(t, "after two takes", backend, reqs, 2, 2, 2, 5)
	// The last in earnest denies now: no shadow is charged, and what was not charged is not given back.
	d := take(reqs)
	if !d[0].Allowed || !d[1].Allowed || d[2].Allowed || d[3].Allowed || d[0].Used != 2 || d[1].Used != 2 ||
		d[3].Used != 5 {
		t.Errorf("denied by the third: %+v", d)
	}
	wantUsed(t, "after a denial", backend, reqs, 2, 2, 2, 5)
	// One that does not fit in a slot of its own keeps nothing from being charged.
	more := reqs[1]
	more.Cost = 8
	take([]store.Request{more})
	reqs[2].Limit = yearly(10)
	if d := take(reqs); !d[0].Allowed || d[1].Allowed || !d[2].Allowed {
		t.Errorf("beside a full shadow: %+v", d)
	}
	wantUsed(t, "after a take beside full shadows", backend, reqs, 3, 10, 3, 5)

	// Pairs of a user's limit and one of all: never more than either allows, and nothing lost of either.
	t.Run("at the same time", func(t *testing.T) {
		const callers, each, most, ofUser = 32, 20, 300, 12
		everybody := store.Request{Key: store.Key{Subject: "everybody", Name: "limit"}, Limit: yearly(most), Cost: 1}
		pairs, granted := make([]store.Request, callers+1), make([]int64, callers+1)
		pairs[callers] = everybody
		var all sync.WaitGroup
		for n := range callers {
			pairs[n] = store.Request{Key: store.Key{Subject: fmt.Sprint("one:", n), Name: "limit"},
				Limit: yearly(ofUser), Cost: 1}
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
		for _, n := range granted[:callers] {
			if granted[callers] += n; n > ofUser {
				t.Errorf("a user got %d of %d", n, ofUser)
			}
		}
		if granted[callers] > most || granted[callers] < most/2 {
			t.Errorf("%d of %d were granted", granted[callers], most)
		}
		wantUsed(t, "at the end", backend, pairs, granted...)
	})
}

// Over several slots each remembers its part of a token, and giving back happens once.
func TestTokenOverSeveralSlots(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	_, backend := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs()})
	reqs := asking(subjectsOn(t, cluster, "token"), yearly(5), yearly(2), yearly(5))
	with := func(token string, cost int64) []store.Request {
		reqs := slices.Clone(reqs)
		for i := range reqs {
			reqs[i].Token, reqs[i].Cost = token, cost
		}
		return reqs
	}
	decide := func(op store.Op, reqs []store.Request) []store.Decision {
		t.Helper()
		return decided(t, backend, op, reqs)
	}
	decide(store.Take, with("a", 1))
	for i, d := range decide(store.Take, with("a", 1)) {
		if !d.Allowed || !d.Repeated || d.Granted != 1 || d.Used != 1 {
			t.Errorf("slot %d again: %+v", i, d)
		}
	}
	wantUsed(t, "after the same twice", backend, reqs, 1, 1, 1)

	// A call that was cut off after the first slot is completed by the next.
	decide(store.Take, with("b", 1)[:1])
	decide(store.Take, with("b", 1))
	wantUsed(t, "after a call that was completed", backend, reqs, 2, 2, 2)

	// A call that got to the first and the last slot, and is denied by the second, gives both back.
	denied := with("c", 1)
	decide(store.Take, denied[:1])
	decide(store.Take, denied[2:])
	wantUsed(t, "before the denial", backend, reqs, 3, 2, 3)
	for range 2 {
		if store.AllAllowed(decide(store.Take, denied)) {
			t.Fatal("it is allowed")
		}
		wantUsed(t, "after the denial", backend, reqs, 2, 2, 2)
	}
	decide(store.Settle, with("a", 3))
	decide(store.Settle, with("a", 3))
	wantUsed(t, "after settling at 3", backend, reqs, 4, 4, 4)
	if err := backend.Decide(ctx, store.TakeUpTo, reqs, make([]store.Decision, 3)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a take of what fits over several slots: %v", err)
	}
	decide(store.Charge, with("d", 1))
	decide(store.Charge, with("d", 1))
	wantUsed(t, "after charging once", backend, reqs, 5, 5, 5)
}

// A slot whose master is away keeps nothing charged in the others, and the error says whether anything may be charged.
func TestALaterSlotIsAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000") // the others go on
	decide := func(backend store.Store, op store.Op, reqs []store.Request) error {
		return backend.Decide(ctx, op, reqs, make([]store.Decision, len(reqs)))
	}
	judge := func(when string, err, want, not error) error {
		if !errors.Is(err, want) || errors.Is(err, not) {
			return fmt.Errorf("%s: %w; want one that is %q and not %q", when, err, want, not)
		}
		return nil
	}
	check := func(when string, err, want, not error) {
		t.Helper()
		if wrong := judge(when, err, want, not); wrong != nil {
			t.Error(wrong)
		}
	}
	// between is a take over two slots, before whose second happens something.
	between := func(timeout time.Duration, what string, happens func()) (reqs []store.Request, notReady, err error) {
		reqs = asking(subjectsOn(t, cluster, fmt.Sprint(what, timeout)), yearly(10), yearly(10))
		backend, notReady := interrupted(t, cluster, redis.ClusterOptions{ReadTimeout: timeout, DialTimeout: timeout},
			reqs, happens)
		if notReady == nil {
			err = decide(backend, store.Take, reqs)
		}
		return reqs, notReady, err
	}

	// It may have been charged where there was no answer, and only there.
	_, patient := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs()})
	wantUsed(t, "before", patient, asking(subjectsOn(t, cluster, "before"), yearly(10)), 0)
	redistest.Patiently(t, 300*time.Millisecond, func(timeout time.Duration) (missing error) {
		defer cluster.Masters[1].Resume()
		reqs, notReady, err := between(timeout, "paused for ", cluster.Masters[1].Pause)
		if notReady != nil {
			return notReady
		}
		missing = judge("hung", err, store.ErrOutcomeUnknown, store.ErrUnavailable)
		if got := inUse(t, patient, reqs[:1]); missing == nil && got[0] != 0 {
			missing = fmt.Errorf("while the second is hung %d units of the first are used", got[0])
		}
		return missing
	})

	// What cannot be given back may be charged, although the other cannot be.
	killed := false
	redistest.Patiently(t, 300*time.Millisecond, func(timeout time.Duration) (missing error) {
		_, notReady, err := between(timeout, "gone for ", func() {
			cluster.Masters[0].Pause()
			cluster.Masters[1].Kill()
			killed = true
		})
		if !killed {
			return fmt.Errorf("the second was not asked: %w", errors.Join(notReady, err))
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
	check("gone, for a refund that began", decide(late, store.Refund, reqs), store.ErrOutcomeUnknown,
		store.ErrUnavailable)
	check("gone, for a peek", decide(late, store.Peek, reqs), store.ErrUnavailable, store.ErrOutcomeUnknown)

	// What an earlier limit denies is denied, whoever is away.
	reqs = asking(subjectsOn(t, cluster, "used up"), yearly(1), yearly(10))
	decided(t, late, store.Take, reqs[:1])
	if d := decided(t, late, store.Take, reqs); d[0].Allowed || store.AllAllowed(d) || !d[1].Unguarded || d[1].At != 0 {
		t.Errorf("denied by the first, the second gone: %+v", d)
	}
}

// Several limits of one subject cannot be decided while some of its keys are at one
// master and some at another. They are when the move ends, once.
func TestLimitsOfASlotThatIsHalfMoved(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	subject := subjectsOn(t, cluster, "torn")[0]
	var reqs []store.Request
	for _, name := range []string{"here", "there"} {
		reqs = append(reqs, store.Request{Key: store.Key{Subject: subject, Name: name}, Limit: yearly(10), Cost: 1})
	}
	client := clusterClient(t, cluster, redis.ClusterOptions{})
	calls := watchScripts(client)
	backend := newStore(t, client)
	decided(t, backend, store.Take, reqs)
	from, slot := owner(t, cluster, subject)
	must(t, cluster.BeginMoveSlot(slot, (from+1)%3, admin.OwnLayout("rl").StoreKey(reqs[1].Key)))
	err := backend.Decide(ctx, store.Take, reqs, make([]store.Decision, 2))
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) {
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
	decided(t, backend, store.Take, reqs) // the move ends meanwhile
	wantUsed(t, "when it is moved", backend, reqs, 2, 2)
}
