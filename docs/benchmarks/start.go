package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// startCommands are commands that do almost nothing, so that the start and the end of the process are measured.
var startCommands = [][]string{
	{"check", "u", "--limit", "3/10s", "--store", "memory:", "-q"},
	{"consume", "u", "--limit", "3/10s", "--store", "memory:", "-q"},
	{"inspect", "u"},
	{"version"},
	{"--help"},
}

// startRuns is the number of runs of each command per round.
const startRuns = 50

// startSection measures whole processes, from start to end: limitctl as it is here and, if the plan has one,
// another program in turns.
func startSection(ctx context.Context, p plan, out io.Writer) error {
	dir, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	programs := []string{program}
	if p.beside != "" {
		programs = append(programs, p.beside)
	}
	rows := [][]string{{"", "median", "least", "processors' time", "median ÷ the other's", "least ÷ the other's",
		"processors' time ÷ the other's"}}
	for _, command := range startCommands {
		progress("start: %s, %d times", command[0], p.rounds*startRuns)
		took, worked := make([][]float64, len(programs)), make([][]float64, len(programs))
		for run := range p.rounds * startRuns {
			for i := range programs {
				turn := (i + run) % len(programs) // neither is always the first
				begin := time.Now()
				cmd := exec.CommandContext(ctx, programs[turn], command...)
				cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
				var exit *exec.ExitError
				if err := cmd.Run(); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
					return fmt.Errorf("%s %s: %w", programs[turn], command[0], err)
				}
				took[turn] = append(took[turn], milliseconds(time.Since(begin)))
				worked[turn] = append(worked[turn], milliseconds(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
			}
		}
		row := []string{"`" + command[0] + "`", fmt.Sprintf("%.2f ms", median(took[0])), fmt.Sprintf("%.2f ms", slices.Min(took[0])),
			fmt.Sprintf("%.2f ms", median(worked[0])), "", "", ""}
		if len(programs) > 1 {
			row[4] = fmt.Sprintf("**%.3f**", median(took[0])/median(took[1]))
			row[5] = fmt.Sprintf("%.3f", slices.Min(took[0])/slices.Min(took[1]))
			row[6] = fmt.Sprintf("%.3f", median(worked[0])/median(worked[1]))
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(out, "\n### Start: whole processes, %d of each\n", p.rounds*startRuns)
	table(out, rows...)
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// buildLimitctl builds the repository's limitctl like `make build`, in a folder of its own. remove deletes the folder.
func buildLimitctl(ctx context.Context) (dir, program string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "limitctl-benchmarks"); err != nil {
		return "", "", nil, err
	}
	program = filepath.Join(dir, "limitctl")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	build.Dir = filepath.Join("..", "..")
	if text, err := build.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", "", nil, fmt.Errorf("go build: %w: %s", err, text)
	}
	return dir, program, func() { os.RemoveAll(dir) }, nil
}
