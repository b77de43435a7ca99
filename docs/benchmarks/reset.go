package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	resetKeys   = 1_000_000
	resetTenant = 100_000 // of them
)

// resetting is a way to delete a tenant's keys, as a shell command.
type resetting struct {
	name    string
	command string
}

// resetSection deletes a tenant's keys among those of others with limitctl and with redis-cli, while another client
// sends PINGs, and restores them.
func resetSection(ctx context.Context, p plan, out io.Writer) error {
	t, err := newTenants(ctx, "reset", resetKeys)
	if err != nil {
		return err
	}
	defer t.close()
	client, binary, dir := t.client, t.binary, t.dir
	ways := []resetting{
		{"`limitctl reset`, with its backup", binary + " reset 'tenant:acme:*' --yes -q --backup " + filepath.Join(dir, "backup.jsonl")},
		{"`limitctl reset --no-backup`", binary + " reset 'tenant:acme:*' --yes -q --no-backup"},
		{"`redis-cli --scan … \\| xargs redis-cli unlink`",
			t.cli + " --scan --pattern 'rl:{tenant:acme:*' | xargs " + t.cli + " unlink >" + os.DevNull},
	}
	shell := func(command string) error {
		if text, err := t.shell(ctx, command).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", command, err, text)
		}
		return nil
	}
	seconds, pings := make([][]float64, len(ways)), make([][]time.Duration, len(ways))
	for round := range p.rounds {
		progress("reset: round %d of %d", round+1, p.rounds)
		for i, way := range ways {
			os.Remove(filepath.Join(dir, "backup.jsonl"))
			took, latencies, err := underPings(ctx, t.server.Addr, time.Millisecond, func() error { return shell(way.command) })
			if err != nil {
				return err
			}
			seconds[i] = append(seconds[i], took.Seconds())
			pings[i] = append(pings[i], latencies...)
			if left := client.DBSize(ctx).Val(); left != resetKeys-resetTenant {
				return fmt.Errorf("%s leaves %d keys, want %d", way.name, left, resetKeys-resetTenant)
			}
			if err := fillTenants(ctx, client, 0, resetTenant); err != nil { // the first keys belong to the tenant
				return err
			}
		}
	}
	fmt.Fprintf(out, "### Resetting %d keys of one tenant among %d\n\n"+
		"|  | seconds | redis-cli's ÷ its | PING beside it: p50 | p99 | greatest |\n"+
		"|---|---:|---:|---:|---:|---:|\n", resetTenant, resetKeys)
	for i, way := range ways {
		var ratios []float64
		for round := range seconds[i] {
			ratios = append(ratios, seconds[len(ways)-1][round]/seconds[i][round])
		}
		slices.Sort(pings[i])
		at := func(share float64) string {
			return fmt.Sprintf("%.2f ms", float64(pings[i][int(share*float64(len(pings[i])-1))].Microseconds())/1000)
		}
		fmt.Fprintf(out, "| %s | %.2f | **%.2f** (%.2f–%.2f) | %s | %s | %s |\n", way.name, median(seconds[i]),
			median(ratios), slices.Min(ratios), slices.Max(ratios), at(0.5), at(0.99), at(1))
	}
	fmt.Fprintln(out)
	return restoring(ctx, client, shell, ways[0], filepath.Join(dir, "backup.jsonl"), binary, out)
}

// restoring resets again, restores, and compares each key's value and expiry.
func restoring(ctx context.Context, client *redis.Client, shell func(string) error, way resetting,
	backup, binary string, out io.Writer) error {
	os.Remove(backup)
	before, err := tenantKeys(ctx, client)
	if err != nil {
		return err
	}
	if err := shell(way.command); err != nil {
		return err
	}
	begin := time.Now()
	if err := shell(binary + " restore -q " + backup); err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := tenantKeys(ctx, client)
	if err != nil {
		return err
	}
	if !bytes.Equal(before, after) {
		return fmt.Errorf("restored, the tenant's keys differ from what they were")
	}
	fmt.Fprintf(out, "`limitctl restore` of the %d records took %.2f s; every value, and every expiry to the millisecond, was "+
		"as before.\n\n",
		resetTenant, took.Seconds())
	return nil
}

// tenantKey returns key number i; the tenant's keys come first.
func tenantKey(i int) string {
	if i < resetTenant {
		return fmt.Sprintf("rl:{tenant:acme:user:%d}:api/user", i)
	}
	return fmt.Sprintf("rl:{tenant:t%d:user:%d}:api/user", i%1000, i)
}

// tenantKeys returns the tenant's values and expiries.
func tenantKeys(ctx context.Context, client *redis.Client) ([]byte, error) {
	var all bytes.Buffer
	for first := 0; first < resetTenant; first += 10_000 {
		pipe := client.Pipeline()
		var values []*redis.StringCmd
		var expiries []*redis.DurationCmd
		for i := first; i < first+10_000; i++ {
			values = append(values, pipe.Get(ctx, tenantKey(i)))
			expiries = append(expiries, pipe.PExpireTime(ctx, tenantKey(i)))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, err
		}
		for i := range values {
			fmt.Fprintf(&all, "%x %d\n", values[i].Val(), expiries[i].Val().Milliseconds())
		}
	}
	return all.Bytes(), nil
}

// tenants are a server full of tenants' keys, and the repository's limitctl to work on it.
type tenants struct {
	dir, binary string // binary is in dir
	server      *redistest.Process
	client      *redis.Client
	cli         string // redis-cli for that server
	remove      func()
}

// newTenants starts a server for a section and fills it with that many keys.
func newTenants(ctx context.Context, section string, keys int) (*tenants, error) {
	dir, binary, remove, err := buildLimitctl(ctx)
	if err != nil {
		return nil, err
	}
	server, err := redistest.Launch()
	if err != nil {
		remove()
		return nil, err
	}
	_, port, _ := net.SplitHostPort(server.Addr)
	t := &tenants{dir, binary, server, redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true}),
		"redis-cli -p " + port, remove}
	progress("%s: filling %d keys", section, keys)
	if err := fillTenants(ctx, t.client, 0, keys); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tenants) close() {
	t.client.Close()
	t.server.Stop()
	t.remove()
}

// shell returns a shell command in whose environment the server is limitctl's store.
func (t *tenants) shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = t.dir, append(os.Environ(), "LIMITCTL_STORE=redis://"+t.server.Addr,
		"XDG_STATE_HOME="+filepath.Join(t.dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(t.dir, "config"))
	return cmd
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
func underPings(ctx context.Context, addr string, every time.Duration, do func() error) (
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
