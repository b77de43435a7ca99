package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A take charges one unit to a key.
type take func(ctx context.Context, key string) (allowed bool, err error)

// contestant is a rate limiter to measure.
type contestant struct {
	name string
	take take // safe for concurrent use
}

// quota is a limit of count units per period, with a burst of count if the contestant has bursts.
type quota struct {
	count  int
	period time.Duration
}

// manyKeysQuota is never reached in a run. A unit lasts 26 s, so that keys do not expire between two of their
// takes.
var manyKeysQuota = quota{count: 100_000, period: 30 * 24 * time.Hour}

// cell is what a column of a table measures.
type cell struct {
	name       string
	goroutines int
	keys       []string
}

// manyKeys is the number of subjects, unless there is one.
const manyKeys = 100_000

// subjects returns n subjects, in a random order so that processor caches cannot predict the next one.
func subjects(n int) []string {
	keys := make([]string, n)
	for i, number := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		keys[i] = fmt.Sprintf("user:%d", number)
	}
	return keys
}

// results are the takes a second by contestant, cell and round.
type results [][][]float64

// interleave measures all contestants in all cells, round by round and the contestants in turn, so that other load
// on the machine affects them all.
func interleave(ctx context.Context, p plan, contestants []contestant, cells []cell) (results, error) {
	measured := make(results, len(contestants))
	for i := range contestants {
		measured[i] = make([][]float64, len(cells))
		for _, c := range cells {
			if err := fill(ctx, contestants[i], c.keys); err != nil {
				return nil, err
			}
		}
	}
	for round := range p.rounds {
		progress("round %d of %d", round+1, p.rounds)
		for j, c := range cells {
			for i := range contestants {
				perSecond, err := measure(ctx, contestants[i], c, p.duration)
				if err = cmp.Or(err, ctx.Err()); err != nil {
					return nil, err
				}
				measured[i][j] = append(measured[i][j], perSecond)
			}
		}
	}
	return measured, nil
}

// fill takes one unit of every key, so that the usual case is measured: a key that exists.
func fill(ctx context.Context, c contestant, keys []string) error {
	const goroutines = 16
	return parallel(goroutines, func(g int) error {
		for i := g; i < len(keys); i += goroutines {
			if err := takeOne(ctx, c, keys[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// measure returns how many takes there are in a second.
func measure(ctx context.Context, c contestant, in cell, duration time.Duration) (perSecond float64, err error) {
	runtime.GC() // so that garbage of the one before does not count
	var takes atomic.Int64
	var stop atomic.Bool
	start := time.Now()
	timer := time.AfterFunc(duration, func() { stop.Store(true) })
	defer timer.Stop()
	err = parallel(in.goroutines, func(g int) error {
		taken := int64(0)
		defer func() { takes.Add(taken) }()
		for i := g * len(in.keys) / in.goroutines; !stop.Load(); taken++ {
			if err := takeOne(ctx, c, in.keys[i]); err != nil {
				stop.Store(true)
				return err
			}
			if i++; i == len(in.keys) {
				i = 0
			}
		}
		return nil
	})
	return float64(takes.Load()) / time.Since(start).Seconds(), err
}

// takeOne checks that the take is allowed: contestants do less on a denial.
func takeOne(ctx context.Context, c contestant, key string) error {
	allowed, err := c.take(ctx, key)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if !allowed {
		return fmt.Errorf("%s denied a take of %s; measure for a shorter time", c.name, key)
	}
	return nil
}

// parallel runs work in that many goroutines, waits for all and returns one of their errors, which are mostly the
// same.
func parallel(goroutines int, work func(g int) error) error {
	failures := make([]error, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() { failures[g] = work(g) })
	}
	group.Wait()
	return cmp.Or(failures...)
}
