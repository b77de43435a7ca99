package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// loadtestSection measures load tests of an HTTP server that answers at once, beside vegeta: the highest number of
// requests, over the best number of connections for each. limitctl audits every answer.
func loadtestSection(ctx context.Context, p plan, out io.Writer) error {
	_, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	server := exec.CommandContext(ctx, self, "-peer", "answer")
	address, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		cancel()
		return err
	}
	defer server.Wait() //nolint:errcheck // it is killed
	defer cancel()
	var host string
	if _, err := fmt.Fscanln(address, &host); err != nil {
		return err
	}
	url, duration := "http://"+host+"/?", max(5*p.duration, time.Second)
	names := []string{"limitctl, every answer audited", "vegeta, answers counted"}
	runs := []func(workers string) (*attack, error){
		func(workers string) (*attack, error) {
			return loadtest(ctx, program, duration, []string{
				url + "{subject}", "--limit", "1000000/1s", "--keys", "1000", "--workers", workers,
			})
		},
		func(workers string) (*attack, error) {
			text, err := exec.CommandContext(ctx, self, "-peer", fmt.Sprintf("vegeta,%s,%s,%suser", workers, duration, url)).Output()
			result := &attack{}
			if err = errors.Join(err, json.Unmarshal(text, result)); err == nil && result.Errors > 0 {
				err = fmt.Errorf("vegeta: %d errors", result.Errors)
			}
			return result, err
		},
	}
	workers := []int{4, 16, 64, 256}
	perSecond, cpu := make([][][]float64, len(names)), make([][][]float64, len(names)) // by contestant, workers and round
	best := make([][]float64, len(names))                                              // by contestant and round
	for i := range names {
		perSecond[i], cpu[i] = make([][]float64, len(workers)), make([][]float64, len(workers))
		best[i] = make([]float64, p.rounds)
	}
	for round := range p.rounds {
		progress("loadtest: round %d of %d", round+1, p.rounds)
		for j, n := range workers {
			for i, run := range runs {
				result, err := run(strconv.Itoa(n))
				if err != nil {
					return err
				}
				perSecond[i][j], cpu[i][j] = append(perSecond[i][j], result.PerSecond), append(cpu[i][j], result.Cost.CPU)
				best[i][round] = max(best[i][round], result.PerSecond)
			}
		}
	}
	rows := [][]string{{"requests per second, and µs of processors of each"}, {names[0]}, {names[1]}, {"ratio"}}
	for j, n := range workers {
		rows[0] = append(rows[0], fmt.Sprintf("%d workers", n))
		for i := range names {
			rows[1+i] = append(rows[1+i], fmt.Sprintf("%s, %s µs", spread(perSecond[i][j], thousands), decimals(median(cpu[i][j]))))
		}
		rows[3] = append(rows[3], ratioOf(perSecond[0][j], perSecond[1][j]))
	}
	rows[0], rows[3] = append(rows[0], "at its best"), append(rows[3], ratioOf(best[0], best[1]))
	for i := range names {
		rows[1+i] = append(rows[1+i], spread(best[i], thousands))
	}
	fmt.Fprint(out, "\n### Load tests of an HTTP server that answers at once\n")
	table(out, rows...)
	return nil
}
