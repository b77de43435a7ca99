package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
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
	t, err := newTenants(ctx, "looking", lookedKeys)
	if err != nil {
		return err
	}
	defer t.close()
	ways := [][2]string{
		{"`redis-cli --scan`, names only", t.cli + " --scan"},
		{"nobody looks", fmt.Sprintf("sleep %.1f", 10*p.duration.Seconds())},
		{"`limitctl inspect '*' --summary`", t.binary + " inspect '*' --summary"},
	}
	if p.beside != "" {
		ways = append(ways, [2]string{"the same, the other build", p.beside + " inspect '*' --summary"})
	}
	costs := make([]lookCosts, len(ways))
	for round := range p.rounds {
		for n := range ways {
			i := (n + round) % len(ways) // none is always the first
			progress("looking: round %d of %d, %s", round+1, p.rounds, ways[i][0])
			if err := costs[i].add(ctx, t.client, t.server.Addr, t.shell(ctx, "exec "+ways[i][1])); err != nil {
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
