// Command benchmarks measures limitctl's library side by side with other Go rate limiters, in one run, and prints
// Markdown tables. README.md describes the measurements.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// plan is the length of the measurements.
type plan struct {
	rounds   int
	duration time.Duration // of one cell in one round
	// beside is another build, which is measured in turns if a section can do so.
	beside string
}

// section is a part of the report, which it writes to out.
type section struct {
	name string
	run  func(ctx context.Context, p plan, out io.Writer) error
}

var sections = []section{
	{"redis", redisSection}, {"hotkey", hotKeySection}, {"limits", limitsSection},
	{"start", startSection}, {"serve", serveSection}, {"loadtest", loadtestSection},
	{"simulate", simulateSection}, {"reset", resetSection},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	var p plan
	flags.IntVar(&p.rounds, "rounds", 7, "how often each cell is measured; the tables show medians")
	flags.DurationVar(&p.duration, "duration", 400*time.Millisecond, "how long to measure a cell in each round")
	names := sectionNames()
	only := flags.String("only", "", "run one section: "+names)
	flags.StringVar(&p.beside, "beside", "", "another build of limitctl, to measure in turn by -only start, serve and simulate")
	peer := flags.String("peer", "", "be one of the processes that are measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.rounds < 1 || p.duration <= 0 || flags.NArg() > 0 {
		return errors.New("-rounds and -duration must be positive, and there are no arguments")
	}
	if *peer != "" {
		return peerProcess(ctx, *peer, out)
	}
	found := false
	for _, s := range sections {
		if *only == "" || *only == s.name {
			found = true
			if err := s.run(ctx, p, out); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	if !found {
		return fmt.Errorf("-only %s: there are %s", *only, names)
	}
	return nil
}

func sectionNames() string {
	names := make([]string, len(sections))
	for i, s := range sections {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

// progress reports how far the run is; the report goes to stdout.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
