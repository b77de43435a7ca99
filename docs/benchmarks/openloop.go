package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
)

// openLoopRates are the wanted rates per second. The last ones are more than one Redis can do. 0 is the closed
// loop, which shows what it can do.
var openLoopRates = []int{1_000, 10_000, 80_000, 200_000, 0}

const (
	// openLoopTimes is how much longer a load test lasts than a cell, so that its beginning counts little.
	openLoopTimes = 4
	// closedLoopWorkers is the number of workers of the closed loop.
	closedLoopWorkers = 256
)

// openLoopSection measures how well limitctl's load test keeps a rate, and at what cost: limitctl as it is here
// and, if the plan has one, another build in turns.
func openLoopSection(ctx context.Context, p plan, out io.Writer) error {
	dir, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	programs := []string{program}
	if p.beside != "" {
		programs = append(programs, p.beside)
	}
	measured := make([][][]attack, len(programs)) // by program, rate and round
	for i := range measured {
		measured[i] = make([][]attack, len(openLoopRates))
	}
	err = withRedisServer(func(server *redistest.Process, client *redis.Client) error {
		for round := range p.rounds {
			progress("openloop: round %d of %d", round+1, p.rounds)
			for j, rate := range openLoopRates {
				for i := range programs {
					turn := (i + round) % len(programs) // neither is always the first
					result, err := openLoop(ctx, programs[turn], dir, server.Addr, rate, openLoopTimes*p.duration)
					if err = cmp.Or(err, client.FlushAll(ctx).Err()); err != nil {
						return err
					}
					measured[turn][j] = append(measured[turn][j], *result)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	openLoopTable(p, out, measured)
	return nil
}

// openLoop runs a load test at a rate, or a closed loop for 0.
func openLoop(ctx context.Context, program, dir, addr string, rate int, duration time.Duration) (*attack, error) {
	load := []string{"--workers", strconv.Itoa(closedLoopWorkers)}
	if rate > 0 {
		load = []string{"--rate", strconv.Itoa(rate)}
	}
	arguments := append([]string{"loadtest", "--store", "redis://" + addr, "--limit", "1000000000/1m", "--keys", "10000",
		"--duration", duration.String(), "-o", "json"}, load...)
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s loadtest: %w: %s", program, err, text)
	}
	var document struct{ Runs []attack }
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Runs) != 1 || document.Runs[0].Errors > 0 {
		return nil, fmt.Errorf("%s loadtest: not one run without errors: %s", program, text)
	}
	return &document.Runs[0], nil
}

// openLoopTable prints medians, and for two programs also their ratio.
func openLoopTable(p plan, out io.Writer, measured [][][]attack) {
	fmt.Fprintf(out, "\n### Open loop: rates that were asked for and got through one Redis, %d rounds\n", p.rounds)
	figures := []struct {
		name   string
		of     func(attack) float64
		format func(float64) string
	}{
		{"got a second", func(a attack) float64 { return a.PerSecond }, func(f float64) string { return fmt.Sprintf("%.0f", f) }},
		{"CPU a request", func(a attack) float64 { return a.Cost.CPU }, func(f float64) string { return fmt.Sprintf("%.1f µs", f) }},
		{"lag p99", func(a attack) float64 { return a.Lag.P99 }, func(f float64) string { return fmt.Sprintf("%.0f µs", f) }},
	}
	head := []string{"asked"}
	for _, f := range figures {
		head = append(head, f.name)
		if len(measured) > 1 {
			head = append(head, "the other's", "÷ the other's")
		}
	}
	rows := [][]string{head}
	for j, rate := range openLoopRates {
		row := []string{"closed loop"}
		if rate > 0 {
			row[0] = thousands(float64(rate)) + "/s"
		}
		for n, f := range figures {
			if rate == 0 && n == len(figures)-1 {
				break // it has no schedule
			}
			values := make([][]float64, len(measured))
			for i := range measured {
				for _, a := range measured[i][j] {
					values[i] = append(values[i], f.of(a))
				}
				row = append(row, f.format(median(values[i])))
			}
			if len(measured) > 1 {
				row = append(row, ratioOf(values[0], values[1]))
			}
		}
		for len(row) < len(head) {
			row = append(row, "")
		}
		rows = append(rows, row)
	}
	table(out, rows...)
}
