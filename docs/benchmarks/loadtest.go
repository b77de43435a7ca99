package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// loadtestSection measures the load generator itself: its speed with a store that takes no time, how well it keeps
// a schedule, whether it loads Redis as much as a loop that does nothing else, and how fast it simulates a log.
func loadtestSection(ctx context.Context, p plan, out io.Writer) error {
	for _, part := range []func(context.Context, plan, io.Writer) error{generatorSpeed, generatorLag, generatorBesideHarness,
		simulationSpeed} {
		if err := part(ctx, p, out); err != nil {
			return err
		}
	}
	return nil
}

// nothing is a store that allows everything at once. It has no clock, so the audit uses the generator's.
type nothing struct{}

func (nothing) Decide(_ context.Context, _ store.Op, _ []store.Request, decisions []store.Decision) error {
	for i := range decisions {
		decisions[i].Allowed = true
	}
	return nil
}

func (nothing) Close() error { return nil }

// populationOf has one unit of a limit for each of the subjects.
func populationOf(keys []string, q quota) (*loadgen.Population, error) {
	limit := store.Limit{Count: int64(q.count), Period: q.period}
	return loadgen.NewPopulation(len(keys), func(subject int) ([]store.Request, error) {
		return []store.Request{{Key: store.Key{Subject: keys[subject]}, Limit: limit}}, nil
	})
}

// drive runs a load and checks that all of it was allowed. took is the time from its beginning until the last
// answer is audited.
func drive(ctx context.Context, config loadgen.Config) (result *loadgen.Result, took time.Duration, err error) {
	runtime.GC() // so that garbage of the one before does not count
	result = loadgen.Run(ctx, config)
	took = time.Since(result.Started)
	if result.Allowed != result.Requests {
		err = fmt.Errorf("the generator: %d of %d requests were not allowed; measure for a shorter time",
			result.Requests-result.Allowed, result.Requests)
	}
	return result, took, cmp.Or(result.FirstError, err, ctx.Err())
}

// answerTimeout bounds the wait for an answer, as limitctl does by default.
const answerTimeout = 2 * time.Second

// generatorSpeed measures closed loops with a store that takes no time.
func generatorSpeed(ctx context.Context, p plan, out io.Writer) error {
	groups := []struct {
		name  string
		quota quota
		keys  []string
	}{
		{"1 key", oneKeyQuota, subjects(1)},
		{thousands(manyKeys) + " keys", manyKeysQuota, subjects(manyKeys)},
	}
	workers := []int{2, 64, 256}
	perSecond := make([][][]float64, len(groups)) // by group, workers and round
	var populations []*loadgen.Population
	for i, group := range groups {
		population, err := populationOf(group.keys, group.quota)
		if err != nil {
			return err
		}
		populations = append(populations, population)
		perSecond[i] = make([][]float64, len(workers))
	}
	for round := range p.rounds {
		progress("loadtest, no store: round %d of %d", round+1, p.rounds)
		for i, group := range groups {
			for j, n := range workers {
				result, took, err := drive(ctx, loadgen.Config{
					Store: nothing{}, Population: populations[i], Workers: n, Duration: p.duration, Timeout: answerTimeout,
					LateAfter: time.Second,
					Mix:       loadgen.Mix{Subjects: loadgen.Evenly(uint32(len(group.keys))), Costs: loadgen.Costs{Least: 1, Most: 1}},
				})
				if err != nil {
					return err
				}
				perSecond[i][j] = append(perSecond[i][j], float64(result.Requests)/took.Seconds())
			}
		}
	}
	rows := [][]string{{"", "2 workers", "64 workers", "256 workers"}}
	for i, group := range groups {
		row := []string{group.name}
		for j := range workers {
			row = append(row, spread(perSecond[i][j], thousands))
		}
		rows = append(rows, row)
	}
	fmt.Fprint(out, "\n### Load generator: decisions per second in a closed loop, where the store takes no time\n")
	table(out, rows...)
	return nil
}

// spread writes the median of values, with the least and the greatest in brackets.
func spread(values []float64, format func(float64) string) string {
	return fmt.Sprintf("%s (%s–%s)", format(median(values)), format(slices.Min(values)), format(slices.Max(values)))
}

// generatorLag measures the lag of an open loop with a store that takes no time.
func generatorLag(ctx context.Context, p plan, out io.Writer) error {
	const rate = 50_000
	length := 5 * p.duration // long enough for a meaningful p99.9
	keys := subjects(manyKeys)
	population, err := populationOf(keys, manyKeysQuota)
	if err != nil {
		return err
	}
	stages := []loadgen.Stage{{Duration: length, From: rate, To: rate}}
	mix := loadgen.Mix{Subjects: loadgen.Evenly(manyKeys), Costs: loadgen.Costs{Least: 1, Most: 1}}
	arrivals := []struct {
		name     string
		schedule func() loadgen.Schedule
	}{
		{"uniform", func() loadgen.Schedule { return loadgen.Uniform(stages) }},
		{"poisson", func() loadgen.Schedule { return loadgen.Poisson(stages, 1) }},
	}
	quantiles := []float64{50, 99, 99.9}
	lags := make([][][]float64, len(arrivals)) // by arrivals, quantile and round
	achieved := make([][]float64, len(arrivals))
	for i := range arrivals {
		lags[i] = make([][]float64, len(quantiles))
	}
	for round := range p.rounds {
		progress("loadtest, lag: round %d of %d", round+1, p.rounds)
		for i := range arrivals {
			result, _, err := drive(ctx, loadgen.Config{
				Store: nothing{}, Population: population, Load: loadgen.NewLoad(arrivals[i].schedule(), mix, 1),
				Workers: 256, Duration: length, Timeout: answerTimeout, LateAfter: time.Second,
			})
			if err != nil {
				return err
			}
			for j, quantile := range quantiles {
				lags[i][j] = append(lags[i][j], float64(result.Lag.ValueAtQuantile(quantile)))
			}
			achieved[i] = append(achieved[i], float64(result.Requests)/max(result.Elapsed, length).Seconds()/rate)
		}
	}
	rows := [][]string{{"arrivals", "lag p50", "p99", "p99.9", "achieved ÷ asked"}}
	for i := range arrivals {
		row := []string{arrivals[i].name}
		for j := range quantiles {
			row = append(row, spread(lags[i][j], func(us float64) string { return thousands(us) + " µs" }))
		}
		rows = append(rows, append(row, spread(achieved[i], func(share float64) string { return fmt.Sprintf("%.4f", share) })))
	}
	fmt.Fprintf(out, "\n### Load generator: how late it is at %s/s, where the store takes no time\n", thousands(rate))
	table(out, rows...)
	return nil
}

// generatorBesideHarness compares the load generator with the loop that measures the peers, with the same calls of
// the same store, on a local Redis.
func generatorBesideHarness(ctx context.Context, p plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		backend, err := redisstore.Own(client)
		if err != nil {
			return err
		}
		keys := subjects(manyKeys)
		population, err := populationOf(keys, manyKeysQuota)
		if err != nil {
			return err
		}
		bare := contestant{"the bare loop", func() take {
			requests, decisions := make([]store.Request, 1), make([]store.Decision, 1)
			limit := store.Limit{Count: int64(manyKeysQuota.count), Period: manyKeysQuota.period}
			return func(ctx context.Context, key string) (bool, error) {
				requests[0] = store.Request{Key: store.Key{Subject: key}, Limit: limit, Cost: 1}
				err := backend.Decide(ctx, store.Take, requests, decisions)
				return decisions[0].Allowed, err
			}
		}}
		generator := contestant{name: "the load generator"}
		var cells []cell
		for _, n := range []int{1, 16, 64, 256} {
			cells = append(cells, cell{name: fmt.Sprintf("%d goroutines", n), goroutines: n, keys: keys})
		}
		cells[0].name = "1 goroutine"
		progress("loadtest, Redis: filling %d keys", len(keys))
		if err := fill(ctx, bare, keys); err != nil {
			return err
		}
		measured := results{make([][]sample, len(cells)), make([][]sample, len(cells))}
		for round := range p.rounds {
			progress("loadtest, Redis: round %d of %d", round+1, p.rounds)
			for j, c := range cells {
				result, took, err := drive(ctx, loadgen.Config{
					Store: backend, Population: population, Workers: c.goroutines, Duration: p.duration, Timeout: answerTimeout,
					LateAfter: time.Second,
					Mix:       loadgen.Mix{Subjects: loadgen.Sequential(manyKeys), Costs: loadgen.Costs{Least: 1, Most: 1}},
				})
				if err != nil {
					return err
				}
				measured[0][j] = append(measured[0][j], sample{perSecond: float64(result.Requests) / took.Seconds()})
				s, err := measure(ctx, bare, c, p.duration)
				if err = cmp.Or(err, ctx.Err()); err != nil {
					return err
				}
				measured[1][j] = append(measured[1][j], s)
			}
		}
		contestants := []contestant{generator, bare}
		fmt.Fprintf(out, "\n### Load generator: takes per second through Redis over %s keys, beside a loop that only takes\n",
			thousands(manyKeys))
		table(out, medians(measured, contestants, cells, func(s sample) float64 { return s.perSecond }, thousands)...)
		table(out, ratios(measured, contestants, cells)...)
		return nil
	})
}

// simulationSpeed measures the time to read and decide a log of a million lines.
func simulationSpeed(ctx context.Context, p plan, out io.Writer) error {
	const lines, addresses = 1_000_000, 20_000
	dir, err := os.MkdirTemp("", "limitctl-benchmarks")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "access.log")
	if err := writeLog(path, lines, addresses); err != nil {
		return err
	}
	rows := [][]string{{"", "lines per second", "reading: seconds", "deciding and auditing: seconds"}}
	limits := make([]store.Limit, 0, 5)
	for _, algorithm := range store.Algorithms() {
		limits = append(limits, store.Limit{Algorithm: algorithm, Count: 30, Period: time.Minute})
	}
	perSecond, reading, deciding := make([][]float64, len(limits)), make([][]float64, len(limits)), make([][]float64, len(limits))
	for round := range p.rounds {
		progress("loadtest, simulate: round %d of %d", round+1, p.rounds)
		for i, limit := range limits {
			runtime.GC()
			begin := time.Now()
			log, err := readLog(ctx, path)
			if err != nil {
				return err
			}
			read := time.Now()
			simulation, err := loadgen.Simulate(ctx, log, loadgen.UnderLimits([]int{0}, limit), loadgen.SimulateOptions{})
			if err != nil {
				return err
			}
			end := time.Now()
			if n := simulation.Tally.Requests(); n != lines {
				return fmt.Errorf("%d of %d lines were decided", n, lines)
			}
			perSecond[i] = append(perSecond[i], lines/end.Sub(begin).Seconds())
			reading[i] = append(reading[i], read.Sub(begin).Seconds())
			deciding[i] = append(deciding[i], end.Sub(read).Seconds())
		}
	}
	seconds := func(s float64) string { return fmt.Sprintf("%.2f", s) }
	for i, limit := range limits {
		rows = append(rows, []string{limit.Algorithm.String(), spread(perSecond[i], thousands), spread(reading[i], seconds),
			spread(deciding[i], seconds)})
	}
	fmt.Fprintf(out, "\n### Simulation: %s lines of an access log under 30/1m by address\n", thousands(lines))
	table(out, rows...)
	return nil
}

func readLog(ctx context.Context, path string) (*trace.Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return trace.Read(ctx, file, trace.Options{})
}

// writeLog writes lines of the combined format over three hours. Address i, from 1, occurs in proportion to 1 ÷ i.
func writeLog(path string, lines, addresses int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	random := rand.New(rand.NewPCG(1, 2))
	busy := rand.NewZipf(random, 1.01, 1, uint64(addresses-1))
	begin := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for i := range lines {
		at := begin.Add(time.Duration(float64(i) / float64(lines) * float64(3*time.Hour)))
		address := busy.Uint64()
		fmt.Fprintf(out, "10.%d.%d.%d - - [%s] \"GET /articles/%d?page=%d HTTP/1.1\" 200 %d \"https://www.example.com/\" \"Mozilla/5.0 "+
			"(X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n",
			address>>16, address>>8&255, address&255, at.Format("02/Jan/2006:15:04:05 -0700"), random.IntN(5000), random.IntN(9),
			random.IntN(100_000))
	}
	return cmp.Or(out.Flush(), file.Close())
}
