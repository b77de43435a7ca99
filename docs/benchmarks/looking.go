package main

import (
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
)

// lookedKeys is the number of keys that are looked at.
const lookedKeys = 2_000_000

// lookCosts are what a way to look costs: one value for each round, but pings of all rounds.
type lookCosts struct {
	seconds, server, own, median []float64 // server and own: µs of processors' time for a key; median: ms of a PING
	pings                        []time.Duration
}

// lookingSection looks at all keys of a store in several ways, in turn, while another client sends PINGs.
func lookingSection(ctx context.Context, p plan, out io.Writer) error {
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
	progress("looking: filling %d keys", lookedKeys)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true})
	defer client.Close()
	if err := fillTenants(ctx, client, 0, lookedKeys); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(server.Addr)
	ways := [][2]string{
		{"`redis-cli --scan`, names only", "redis-cli -p " + port + " --scan"},
		{"nobody looks", fmt.Sprintf("sleep %.1f", 10*p.duration.Seconds())},
		{"`limitctl inspect '*' --summary`", binary + " inspect '*' --summary"},
	}
	if p.beside != "" {
		ways = append(ways, [2]string{"the same, the other build", p.beside + " inspect '*' --summary"})
	}
	costs := make([]lookCosts, len(ways))
	for round := range p.rounds {
		for n := range ways {
			i := (n + round) % len(ways) // none is always the first
			progress("looking: round %d of %d, %s", round+1, p.rounds, ways[i][0])
			cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+ways[i][1])
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "LIMITCTL_STORE=redis://"+server.Addr,
				"XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
			if err := costs[i].add(ctx, client, server.Addr, cmd); err != nil {
				return fmt.Errorf("%s: %w", ways[i][1], err)
			}
		}
	}
	writeLooking(out, ways, costs)
	return nil
}

// add runs a command and adds what it cost.
func (c *lookCosts) add(ctx context.Context, client *redis.Client, addr string, cmd *exec.Cmd) error {
	before, err := serverCPU(ctx, client)
	if err != nil {
		return err
	}
	took, pings, err := underPings(ctx, addr, 5*time.Millisecond, cmd.Run)
	if err != nil {
		return err
	}
	after, err := serverCPU(ctx, client)
	if err != nil {
		return err
	}
	c.seconds = append(c.seconds, took.Seconds())
	c.server = append(c.server, float64((after-before).Microseconds())/lookedKeys)
	own := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	c.own = append(c.own, float64(own.Microseconds())/lookedKeys)
	slices.Sort(pings)
	c.median = append(c.median, milliseconds(pings[len(pings)/2]))
	c.pings = append(c.pings, pings...)
	return nil
}

func writeLooking(out io.Writer, ways [][2]string, costs []lookCosts) {
	fmt.Fprintf(out, "### Looking at %s keys\n", thousands(lookedKeys))
	rows := [][]string{{"", "seconds", "server CPU a key", "client CPU a key", "PING beside it: p50", "p99", "greatest",
		"p50 ÷ redis-cli's", "server CPU ÷ the other build's"}}
	last := costs[len(costs)-1]
	for i, way := range ways {
		c := costs[i]
		slices.Sort(c.pings)
		at := func(share float64) string {
			return fmt.Sprintf("%.2f ms", milliseconds(c.pings[int(share*float64(len(c.pings)-1))]))
		}
		row := []string{way[0], fmt.Sprintf("%.1f", median(c.seconds)), fmt.Sprintf("%.2f µs", median(c.server)),
			fmt.Sprintf("%.2f µs", median(c.own)), at(0.5), at(0.99), at(1), ratioOf(c.median, costs[0].median), ""}
		if len(ways) > 3 && i > 1 {
			row[8] = ratioOf(c.server, last.server)
		}
		rows = append(rows, row)
	}
	table(out, rows...)
	fmt.Fprintln(out)
}
