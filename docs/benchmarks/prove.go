package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A model is what a limit means, written from docs/limits.md for this comparison alone: it keeps every take, and counts
// them anew for each question, in fractions. Times are µs since 1970.
type model struct {
	limit store.Limit
	takes []taken
}

type taken struct{ at, units int64 }

// used returns the units in use at an instant that is not before the last take, rounded up.
func (m *model) used(now int64) int64 {
	period := m.limit.Period.Microseconds()
	switch m.limit.Algorithm {
	case store.TokenBucket, store.LeakyBucket: // count units leave in a period, evenly
		level, before := new(big.Rat), now
		for _, t := range append(m.takes, taken{now, 0}) {
			if level.Sub(level, fraction(m.limit.Count, max(0, t.at-before), period)); level.Sign() < 0 {
				level.SetInt64(0)
			}
			level.Add(level, big.NewRat(t.units, 1))
			before = t.at
		}
		return ceil(level)
	case store.FixedWindow:
		return m.within(now-now%period, now)
	case store.SlidingLog:
		return m.within(now-period+1, now)
	default: // a sliding counter: the slice that leaves the period counts by its share
		step := period / max(1, m.limit.Slices)
		begin := now - now%step - period + step // of the oldest slice that is whole
		return m.within(begin, now) + ceil(fraction(m.within(begin-step, begin-1), step-now%step, step))
	}
}

func (m *model) within(from, through int64) (units int64) {
	for _, t := range m.takes {
		if from <= t.at && t.at <= through {
			units += t.units
		}
	}
	return units
}

// fraction returns a × b ÷ c.
func fraction(a, b, c int64) *big.Rat { return new(big.Rat).Mul(big.NewRat(a, 1), big.NewRat(b, c)) }

func ceil(r *big.Rat) int64 {
	quotient, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	return quotient.Int64() + int64(rest.Sign())
}

// judge makes a take or a check, and returns what is wrong with the answer of a store.
func (m *model) judge(take bool, cost, now int64, d store.Decision) (wrong string) {
	capacity := m.limit.Capacity()
	allowed := m.used(now)+cost <= capacity
	if allowed && take {
		m.takes = append(m.takes, taken{now, cost})
	}
	used, retry, reset := m.used(now), now+d.RetryAfter.Microseconds(), now+d.ResetAfter.Microseconds()
	switch {
	case d.Allowed != allowed:
		return fmt.Sprintf("allowed is %v", allowed)
	case d.Used != used || d.Remaining != capacity-used:
		return fmt.Sprintf("%d are used of %d", used, capacity)
	case allowed != (d.RetryAfter == 0),
		!allowed && (m.used(retry)+cost > capacity || m.used(retry-1)+cost <= capacity):
		return "a retry is allowed at another microsecond"
	case m.used(reset) != 0 || d.ResetAfter > 0 && m.used(reset-1) == 0:
		return "nothing is in use from another microsecond on"
	}
	return ""
}

// randomLimit returns one that is often reached, and sometimes as large as can be.
func randomLimit(r *rand.Rand, kind store.Kind) (store.Limit, error) {
	periods := []time.Duration{time.Millisecond, time.Second, time.Minute, 24 * time.Hour,
		store.MinPeriod * time.Duration(1+r.IntN(1e6))}
	limit := store.Limit{Algorithm: kind.Algorithm(), Count: 1 + r.Int64N(20), Period: periods[r.IntN(len(periods))]}
	if r.IntN(4) == 0 {
		limit.Count = 1 + r.Int64N(limit.Algorithm.MaxCount())
	}
	if limit.Algorithm.HasBurst() && r.IntN(2) == 0 {
		limit.Burst = 1 + r.Int64N(20)
	}
	if kind.HasSlices() {
		limit.Slices = 2 + r.Int64N(59)
		limit.Period *= time.Duration(limit.Slices)
	}
	return limit.Normalize()
}

// compare sends sequences of random takes and checks to a store whose clock is now, under random limits at random
// instants, and judges each answer. It returns how many there were until the first that is wrong, and what is.
func compare(ctx context.Context, backend store.Store, now *time.Time, kind store.Kind, sequences int, seed uint64) (
	answers int, wrong string, err error) {
	const day = int64(24 * time.Hour / time.Microsecond)
	for n := range sequences {
		r := rand.New(rand.NewPCG(seed+uint64(n), uint64(kind)))
		limit, err := randomLimit(r, kind)
		if err != nil {
			return answers, "", err
		}
		m, period := model{limit: limit}, limit.Period.Microseconds()
		at := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC).UnixMicro() + r.Int64N(day)
		for range 20 {
			pauses := []int64{0, 1, r.Int64N(period/limit.Count + 2), r.Int64N(period), period - 1 + r.Int64N(3),
				r.Int64N(3 * period)}
			at += pauses[r.IntN(len(pauses))]
			*now = time.UnixMicro(at)
			op, cost := store.Take, min(limit.Capacity(), 1+r.Int64N(3))
			if r.IntN(4) == 0 {
				op = store.Peek
			}
			if r.IntN(4) == 0 {
				cost = 1 + r.Int64N(limit.Capacity())
			}
			request := store.Request{Key: store.Key{Subject: fmt.Sprint(kind, ":", n)}, Limit: limit, Cost: cost}
			var d [1]store.Decision
			if err := backend.Decide(ctx, op, []store.Request{request}, d[:]); err != nil {
				return answers, "", err
			}
			answers++
			if wrong := m.judge(op == store.Take, cost, at, d[0]); wrong != "" {
				return answers, fmt.Sprintf("%s of %d under %s at %d: %+v, but %s, after takes of %v",
					op, cost, limit, at, d[0], wrong, m.takes), nil
			}
		}
	}
	return answers, "", nil
}

// proveSection repeats what README claims: that each store answers as the model does, and takes in a second beside
// redis_rate. It ends with an error where that is not so.
func proveSection(ctx context.Context, p plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		dir, err := os.MkdirTemp("", "limitctl-prove")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		fmt.Fprintf(out, "Random takes and checks, one after the other, under random limits of all algorithms,\n"+
			"beside a model that counts in fractions (prove.go): allowed, used, remaining, retry\n"+
			"after and reset after, to the microsecond. Again with -seed %d.\n\n", p.seed)
		for _, s := range []struct {
			name string
			open func(clock func() time.Time) (store.Store, error)
		}{
			{"Redis", func(clock func() time.Time) (store.Store, error) {
				return redisstore.New(client, redisstore.WithClock(clock), redisstore.WithBudget(time.Minute))
			}},
			{"a file", func(clock func() time.Time) (store.Store, error) {
				return filestore.New(filepath.Join(dir, "limits.db"), filestore.WithClock(clock))
			}},
			{"memory", func(clock func() time.Time) (store.Store, error) {
				return memorystore.New(memorystore.WithClock(clock)), nil
			}},
		} {
			total := 0
			for _, kind := range store.Kinds() {
				if kind.InCalendar() {
					continue // the model has no calendar
				}
				var now time.Time
				backend, err := s.open(func() time.Time { return now })
				if err != nil {
					return err
				}
				answers, wrong, err := compare(ctx, backend, &now, kind, 100*p.rounds, p.seed)
				if backend.Close(); err != nil {
					return err
				}
				if total += answers; wrong != "" {
					return fmt.Errorf("%s differs after %s answers: %s", s.name, thousands(float64(total)), wrong)
				}
			}
			fmt.Fprintf(out, "  %-8s %7s answers, 0 differences\n", s.name, thousands(float64(total)))
		}
		return proveSpeed(ctx, p, client, out)
	})
}

func proveSpeed(ctx context.Context, p plan, client *redis.Client, out io.Writer) error {
	both, err := redisContestants(client, manyKeysQuota)
	if err != nil {
		return err
	}
	both = both[:2] // redis_rate is the second
	progressTo = io.Discard
	measured, err := interleave(ctx, p, both, []cell{{"", 64, subjects(manyKeys / 10)}})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nTakes a second of 64 callers over %s keys, in turns of %s, medians of %d:\n\n",
		thousands(manyKeys/10), p.duration, p.rounds)
	ours, theirs := measured[0][0], measured[1][0]
	fmt.Fprintf(out, "  %-10s %7s\n  %-10s %7s\n  ratio      %s\n", both[0].name, thousands(median(ours)), both[1].name,
		thousands(median(theirs)), strings.ReplaceAll(ratioOf(ours, theirs), "*", ""))
	fmt.Fprint(out, "\nThe ratio is the median of the rounds' (the least and the greatest of them). Callers of one "+
		"process\n"+
		"share round trips, so one caller alone is level.\n\n"+
		"More, in docs/benchmarks: go run . -only prove -rounds 100; go run . -only redis\n")
	if median(ours) <= median(theirs) {
		return errors.New("limitctl took no more a second than redis_rate")
	}
	return nil
}
