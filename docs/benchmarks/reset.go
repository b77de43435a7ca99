package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	tenantsKeys = 1_000_000
	tenantKeys  = 100_000 // of them, of one tenant
)

// resetSection looks at many keys, and deletes those of a tenant, with limitctl and with redis-cli, while another
// client sends PINGs.
func resetSection(ctx context.Context, p plan, out io.Writer) error {
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
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	progress("reset: filling %d keys", tenantsKeys)
	if err := fillTenants(ctx, client, 0, tenantsKeys); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(server.Addr)
	cli := "redis-cli -p " + port
	if err := beside(ctx, p, out, fmt.Sprintf("Looking at %s keys", thousands(tenantsKeys)), server.Addr, dir, nil,
		[2]string{"`limitctl inspect '*' --summary`", binary + " inspect '*' --summary"},
		[2]string{"`redis-cli --scan`, names only", cli + " --scan"}); err != nil {
		return err
	}
	refill := func() error {
		// limitctl keeps a journal of what it changes in a few keys
		const others, journal = tenantsKeys - tenantKeys, 10
		if left := client.DBSize(ctx).Val(); left < others || left > others+journal {
			return fmt.Errorf("%d keys are left, want %d", left, others)
		}
		return fillTenants(ctx, client, 0, tenantKeys) // the first keys belong to the tenant
	}
	return beside(ctx, p, out, fmt.Sprintf("Resetting %s of them", thousands(tenantKeys)), server.Addr, dir, refill,
		[2]string{"`limitctl reset`, with its backup", binary + " reset 'tenant:acme:*' --yes -q"},
		[2]string{"`limitctl reset --no-backup`", binary + " reset 'tenant:acme:*' --yes -q --no-backup"},
		[2]string{"`redis-cli --scan … \\| xargs redis-cli unlink`",
			cli + " --scan --pattern 'rl:{tenant:acme:*' | xargs " + cli + " unlink"})
}

// beside runs shell commands in turn, each with a name, and writes how long they take and what a PING takes meanwhile;
// ratios are to the last one. between, if any, is called after each.
func beside(ctx context.Context, p plan, out io.Writer, title, addr, dir string, between func() error,
	ways ...[2]string) error {
	seconds, p50 := make([][]float64, len(ways)), make([][]float64, len(ways))
	pings := make([][]time.Duration, len(ways))
	for round := range p.rounds {
		progress("reset: %s, round %d of %d", title, round+1, p.rounds)
		for i, way := range ways {
			cmd := exec.CommandContext(ctx, "sh", "-c", way[1]+" >"+os.DevNull)
			cmd.Env = append(os.Environ(), "LIMITCTL_STORE=redis://"+addr, "HOME="+dir,
				"XDG_STATE_HOME="+dir+"/state", "XDG_CONFIG_HOME="+dir+"/config")
			took, latencies, err := underPings(addr, time.Millisecond, cmd.Run)
			if err == nil && between != nil {
				err = between()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", way[0], err)
			}
			slices.Sort(latencies)
			seconds[i], p50[i] = append(seconds[i], took.Seconds()),
				append(p50[i], milliseconds(latencies[len(latencies)/2]))
			pings[i] = append(pings[i], latencies...)
		}
	}
	rows := [][]string{{"", "seconds", "redis-cli's ÷ its", "PING beside it: p50", "÷ that beside redis-cli", "p99"}}
	last := len(ways) - 1
	for i, way := range ways {
		slices.Sort(pings[i])
		rows = append(rows, []string{way[0], fmt.Sprintf("%.2f", median(seconds[i])),
			ratioOf(seconds[last], seconds[i]),
			fmt.Sprintf("%.2f ms", median(p50[i])), ratioOf(p50[i], p50[last]),
			fmt.Sprintf("%.2f ms", milliseconds(pings[i][len(pings[i])*99/100]))})
	}
	fmt.Fprintf(out, "\n### %s\n", title)
	table(out, rows...)
	return nil
}

// tenantKey returns key number i; the tenant's keys come first.
func tenantKey(i int) string {
	if i < tenantKeys {
		return fmt.Sprintf("rl:{tenant:acme:user:%d}:api/user", i)
	}
	return fmt.Sprintf("rl:{tenant:t%d:user:%d}:api/user", i%1000, i)
}

// fillTenants writes the keys from first on, as after half a day's use of a limit.
func fillTenants(ctx context.Context, client *redis.Client, first, last int) error {
	limit, err := store.Limit{Count: 100, Period: 24 * time.Hour}.Normalize()
	if err != nil {
		return err
	}
	now := time.Now()
	var state store.State
	state.Charge(limit, 50, store.InstantOf(now))
	record := state.AppendRecord(nil)
	for first < last {
		pipe := client.Pipeline()
		for n := min(10_000, last-first); n > 0; n-- {
			expiry := now.Add(12 * time.Hour).Add(time.Duration(first) * time.Millisecond)
			pipe.SetArgs(ctx, tenantKey(first), record, redis.SetArgs{ExpireAt: expiry})
			first++
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// underPings runs do while another connection sends a PING every so often, and returns the time of each.
func underPings(addr string, every time.Duration, do func() error) (
	took time.Duration, latencies []time.Duration, err error,
) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	done, pinged := make(chan struct{}), make(chan error, 1)
	go func() {
		answer := make([]byte, 64)
		for {
			begin := time.Now()
			if _, err := conn.Write([]byte("PING\r\n")); err != nil {
				pinged <- err
				return
			}
			if _, err := conn.Read(answer); err != nil {
				pinged <- err
				return
			}
			latencies = append(latencies, time.Since(begin))
			select {
			case <-done:
				pinged <- nil
				return
			case <-time.After(every):
			}
		}
	}()
	begin := time.Now()
	err = do()
	took = time.Since(begin)
	close(done)
	if pingErr := <-pinged; err == nil {
		err = pingErr
	}
	return took, latencies, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
