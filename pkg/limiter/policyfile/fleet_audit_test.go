package policyfile_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// fewest is the count of version 0, so that the count of a limit says which version it is of.
const fewest = 20

// version is the configuration number n: the count of both limits says which it is. The second limit of some versions counts
// otherwise than that of others.
func version(n int64) string {
	algorithm := [...]string{"fixed-window", "token-bucket", "sliding-log"}[n%3]
	return fmt.Sprintf("policies:\n  llm:\n    limits:\n      - {name: one, by: [team], limit: 'fixed-window:%d/%s'}\n"+
		"      - {name: two, by: [team], limit: '%s:%d/1h'}\n", fewest+n, redistest.LongPeriod(), algorithm, fewest+n)
}

// versionOf returns the version of the limits of a policy, which begin reqs. Limits of several versions are a mixture.
func versionOf(reqs []store.Request) (n int64, err error) {
	if len(reqs) != 2 {
		return 0, fmt.Errorf("%d limits decide", len(reqs))
	}
	one, two := &reqs[0], &reqs[1]
	n = one.Limit.Count - fewest
	want := [...]store.Algorithm{store.FixedWindow, store.TokenBucket, store.SlidingLog}[((n%3)+3)%3]
	if one.Key.Name != "llm/one" || two.Key.Name != "llm/two" || two.Limit.Count != one.Limit.Count ||
		one.Limit.Algorithm != store.FixedWindow || two.Limit.Algorithm != want {
		return n, fmt.Errorf("a mixture decides: %s by %v and %s by %v", one.Key.Name, one.Limit, two.Key.Name, two.Limit)
	}
	return n, nil
}

// recorder is the store of a process. It records what the process asks, and how the store answers.
type recorder struct {
	store.Store
	admin.ConfigTable
	book    *book
	inForce func() string // the name of the file in force

	mu    sync.Mutex
	looks []look
}

// look is a look at the head.
type look struct {
	inForce string // when it began
	failed  bool   // the store did not answer all of it
}

// Decide records a take.
func (r *recorder) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	err := r.Store.Decide(ctx, op, reqs, decisions)
	if op == store.Take {
		r.book.add(reqs, decisions, err)
	}
	return err
}

// ConfigHead records the beginning of a look.
func (r *recorder) ConfigHead(ctx context.Context) (string, error) {
	r.mu.Lock()
	r.looks = append(r.looks, look{inForce: r.inForce()})
	r.mu.Unlock()
	text, err := r.ConfigTable.ConfigHead(ctx)
	r.record(err)
	return text, err
}

// ConfigVersion records whether the store answered.
func (r *recorder) ConfigVersion(ctx context.Context, number int64) (string, error) {
	text, err := r.ConfigTable.ConfigVersion(ctx, number)
	r.record(err)
	return text, err
}

func (r *recorder) record(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := &r.looks[len(r.looks)-1]
	last.failed = last.failed || err != nil
}

// from returns the looks from the one of a number on.
func (r *recorder) from(number int) []look {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.looks[number:])
}

func (r *recorder) looked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.looks)
}

// book has the takes of all processes.
type book struct {
	mu    sync.Mutex
	takes []taken
	// unknown are the subjects with a take of which nobody knows whether it was charged.
	unknown map[string]bool
}

// taken is a take that the store answered.
type taken struct {
	reqs      []store.Request
	decisions []store.Decision
}

func (b *book) add(reqs []store.Request, decisions []store.Decision, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.takes = append(b.takes, taken{slices.Clone(reqs), slices.Clone(decisions)})
	case !errors.Is(err, limiter.ErrUnavailable) && !errors.Is(err, limiter.ErrRefused):
		b.unknown[reqs[0].Key.Subject] = true
	}
}

// audited is what an audit has seen.
type audited struct{ takes, denied, doubtful int }

// audit decides all takes once more in the order in which the store decided them, each by a model of the version that the
// process had, and compares what the store answered. It also checks that each take was decided by one version alone, which was
// sound.
func (b *book) audit(t *testing.T, sound map[int64]bool) (a audited) {
	t.Helper()
	teams := map[string][]taken{}
	for _, take := range b.takes {
		subject := take.reqs[0].Key.Subject
		teams[subject] = append(teams[subject], take)
		if n, err := versionOf(take.reqs); err != nil || !sound[n] {
			t.Fatalf("version %d decides for %s: %v", n, subject, err)
		}
	}
	for subject, takes := range teams {
		if b.unknown[subject] {
			a.doubtful += len(takes)
			continue
		}
		// Of one instant, what left less in use was first, and a denial was after what it was denied for.
		slices.SortFunc(takes, func(a, b taken) int {
			return cmp.Or(cmp.Compare(a.decisions[0].At, b.decisions[0].At), cmp.Compare(a.decisions[0].Used, b.decisions[0].Used),
				-cmp.Compare(a.decisions[0].Granted, b.decisions[0].Granted))
		})
		var now time.Time
		model := memorystore.New(memorystore.WithClock(func() time.Time { return now }))
		defer model.Close()
		for i, take := range takes {
			now = take.decisions[0].At.Time()
			want := make([]store.Decision, len(take.reqs))
			if err := model.Decide(t.Context(), store.Take, take.reqs, want); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(take.decisions, want) {
				t.Fatalf("take %d of %s, %+v:\nthe store answers %+v\nthe model        %+v", i, subject, take.reqs, take.decisions, want)
			}
			a.takes++
			if !store.AllAllowed(take.decisions) {
				a.denied++
			}
		}
	}
	return a
}
