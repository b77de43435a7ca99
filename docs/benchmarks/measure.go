package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
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
	server     *redis.Client // to read its processor time; nil if there is none
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

// sample is one round of a contestant in a cell.
type sample struct {
	perSecond   float64
	allocations float64 // per take
	clientCPU   float64 // µs of this process' processors, per take
	serverCPU   float64 // µs of the server's main thread, per take
}

// results are the samples by contestant, cell and round.
type results [][][]sample

// interleave measures all contestants in all cells, round by round and the contestants in turn, so that other load
// on the machine affects them all.
func interleave(ctx context.Context, p plan, contestants []contestant, cells []cell) (results, error) {
	measured := make(results, len(contestants))
	for i := range contestants {
		measured[i] = make([][]sample, len(cells))
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
				s, err := measure(ctx, contestants[i], c, p.duration)
				if err = cmp.Or(err, ctx.Err()); err != nil {
					return nil, err
				}
				measured[i][j] = append(measured[i][j], s)
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

func measure(ctx context.Context, c contestant, in cell, duration time.Duration) (sample, error) {
	runtime.GC() // so that garbage of the one before does not count
	var takes atomic.Int64
	var stop atomic.Bool
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	server, err := in.serverCPU(ctx)
	if err != nil {
		return sample{}, err
	}
	own := ownCPU()
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
	elapsed := time.Since(start)
	own = ownCPU() - own
	runtime.ReadMemStats(&after)
	serverAfter, failed := in.serverCPU(ctx)
	err = cmp.Or(err, failed)
	n := float64(takes.Load())
	return sample{
		perSecond:   n / elapsed.Seconds(),
		allocations: float64(after.Mallocs-before.Mallocs) / n,
		clientCPU:   float64(own.Nanoseconds()) / 1000 / n,
		serverCPU:   float64((serverAfter - server).Nanoseconds()) / 1000 / n,
	}, err
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

// ownCPU returns the processor time of this process.
func ownCPU() time.Duration {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used) // cannot fail for the own process
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// serverCPU returns the processor time of the main thread of the cell's server.
func (c cell) serverCPU(ctx context.Context) (time.Duration, error) {
	if c.server == nil {
		return 0, nil
	}
	info, err := c.server.Info(ctx, "cpu").Result()
	var seconds float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys_main_thread" || name == "used_cpu_user_main_thread" {
			used, _ := strconv.ParseFloat(value, 64)
			seconds += used
		}
	}
	if err == nil && seconds == 0 {
		err = errors.New("the server does not say what its main thread used: Redis 6.2 or later is needed")
	}
	return time.Duration(seconds * float64(time.Second)), err
}
