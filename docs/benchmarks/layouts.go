package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
)

// layoutKeys is the number of keys of each kind.
const layoutKeys = 1_000_000

// layoutKind is a kind of keys in its own database.
type layoutKind struct {
	name    string
	options string // of a command that reads them
	limits  int    // the number of limits of the keys
	fill    func(pipe redis.Pipeliner, i int, now time.Time)
}

// layoutKinds are the kinds to compare. The first is our own.
func layoutKinds() []layoutKind {
	ahead := func() time.Duration { return 2*time.Hour + rand.N(2*time.Hour) }
	return []layoutKind{
		{"limitctl's own", "", layoutKeys, nil},
		{"redis_rate: a string", " --layout redis_rate --limit 100/4h", layoutKeys, func(pipe redis.Pipeliner, i int, now time.Time) {
			left := ahead()
			arrival := float64(now.Add(left).UnixMicro())/1e6 - 1_483_228_800
			pipe.SetArgs(context.Background(), fmt.Sprintf("rate:user:%d", i), strconv.FormatFloat(arrival, 'f', 6, 64),
				redis.SetArgs{ExpireAt: now.Add(left + time.Second)})
		}},
		{"spring-cloud-gateway: two strings", " --layout spring-cloud-gateway --limit 1/1m,burst=300", layoutKeys / 2,
			func(pipe redis.Pipeliner, i int, now time.Time) {
				if i%2 == 1 {
					return
				}
				name := fmt.Sprintf("request_rate_limiter.{route.user%d}.", i/2)
				pipe.Set(context.Background(), name+"tokens", rand.IntN(100), 10*time.Hour)
				pipe.Set(context.Background(), name+"timestamp", now.Unix(), 10*time.Hour)
			}},
		{"traefik: a hash", " --layout traefik --limit 1/1m,burst=300", layoutKeys, func(pipe redis.Pipeliner, i int, now time.Time) {
			storeKey := fmt.Sprintf("rate:limit@file:user%d", i)
			pipe.HSet(context.Background(), storeKey, "last", now.UnixMicro(), "tokens", 100*rand.Float64())
			pipe.Expire(context.Background(), storeKey, 10*time.Hour)
		}},
	}
}

// layoutsSection reads and resets keys of other limiters and as many of our own, on one server and in turns.
func layoutsSection(ctx context.Context, p plan, out io.Writer) error {
	dir, binary, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	server, err := redistest.Launch()
	if err != nil {
		return err
	}
	defer server.Stop()
	kinds := layoutKinds()
	commands := []string{"inspect '*' --summary", "reset '*' --yes"}
	costs := make([][][]layoutCost, len(commands)) // by command, kind and round
	for c := range commands {
		costs[c] = make([][]layoutCost, len(kinds))
	}
	for round := range p.rounds {
		for k := range kinds { // after a reset
			progress("layouts: round %d of %d, filling %s", round+1, p.rounds, kinds[k].name)
			if err := kinds[k].plant(ctx, server.Addr, k); err != nil {
				return err
			}
		}
		for c, command := range commands {
			for n := range kinds {
				k := (n + round) % len(kinds)
				text := binary + " " + command + kinds[k].options + " --store redis://" + server.Addr + "/" + strconv.Itoa(k)
				cost, err := layoutRun(ctx, dir, server.Addr, text, kinds[k].limits)
				if err != nil {
					return err
				}
				costs[c][k] = append(costs[c][k], cost)
			}
		}
	}
	for c, title := range []string{"`inspect '*' --summary`", "`reset '*'`, with its backup"} {
		fmt.Fprintf(out, "#### %s of %d keys\n\n|  | seconds | its ÷ ours | CPU of limitctl | of Redis | both ÷ ours | memory "+
			"of limitctl |\n"+
			"|---|---:|---:|---:|---:|---:|---:|\n", title, layoutKeys)
		for k := range kinds {
			writeLayoutCosts(out, kinds[k].name, costs[c][k], costs[c][0])
		}
		fmt.Fprintln(out)
	}
	return nil
}

// layoutCost is the cost of a command: seconds of wall time, of processor time in limitctl and in Redis, and KiB of
// memory.
type layoutCost struct {
	seconds, own, server float64
	resident             int64
}

// writeLayoutCosts writes the costs of a kind compared with our own.
func writeLayoutCosts(out io.Writer, name string, costs, ours []layoutCost) {
	var seconds, own, server, slower, dearer []float64
	var resident int64
	for i, c := range costs {
		seconds, own, server = append(seconds, c.seconds), append(own, c.own), append(server, c.server)
		slower = append(slower, c.seconds/ours[i].seconds)
		dearer = append(dearer, (c.own+c.server)/(ours[i].own+ours[i].server))
		resident = max(resident, c.resident)
	}
	spread := func(ratios []float64) string {
		return fmt.Sprintf("**%.2f** (%.2f–%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
	}
	fmt.Fprintf(out, "| %s | %.2f | %s | %.2f s | %.2f s | %s | %d MiB |\n", name, median(seconds), spread(slower),
		median(own), median(server), spread(dearer), resident>>10)
}

// plant empties a database and writes the keys of a kind into it.
func (k *layoutKind) plant(ctx context.Context, addr string, database int) error {
	client := redis.NewClient(&redis.Options{Addr: addr, DB: database, DisableIdentity: true, ReadTimeout: time.Minute})
	defer client.Close()
	if err := client.FlushDB(ctx).Err(); err != nil {
		return err
	}
	if k.fill == nil {
		return fillTenants(ctx, client, 0, layoutKeys)
	}
	now := time.Now()
	for first := 0; first < layoutKeys; first += 10_000 {
		pipe := client.Pipeline()
		for i := first; i < first+10_000; i++ {
			k.fill(pipe, i, now)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	if keys := client.DBSize(ctx).Val(); keys != layoutKeys {
		return fmt.Errorf("%s has %d keys, want %d", k.name, keys, layoutKeys)
	}
	return nil
}

// layoutRun runs a command that has to find that many limits, and returns its cost.
func layoutRun(ctx context.Context, dir, addr, command string, limits int) (cost layoutCost, err error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	client := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer client.Close()
	before, err := serverCPU(ctx, client)
	if err != nil {
		return cost, err
	}
	begin := time.Now()
	text, err := cmd.CombinedOutput()
	cost.seconds = time.Since(begin).Seconds()
	if err != nil {
		return cost, fmt.Errorf("%s: %w\n%s", command, err, text)
	}
	if !strings.Contains(string(text), strconv.Itoa(limits)) {
		return cost, fmt.Errorf("%s did not find %d limits:\n%s", command, limits, text)
	}
	after, err := serverCPU(ctx, client)
	if err != nil {
		return cost, err
	}
	cost.own, cost.server = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), (after - before).Seconds()
	if usage, is := cmd.ProcessState.SysUsage().(*syscall.Rusage); is {
		cost.resident = usage.Maxrss
	}
	return cost, os.RemoveAll(filepath.Join(dir, "state"))
}
