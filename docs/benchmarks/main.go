// Command benchmarks measures limitctl's library side by side with other Go rate limiters, in one run, and prints
// Markdown tables. README.md describes the measurements.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// plan is the length of the measurements.
type plan struct {
	rounds   int
	duration time.Duration // of one cell in one round
	seed     uint64        // of what is random in the proof
}

// section is a part of the report, which it writes to out.
type section struct {
	name string
	run  func(ctx context.Context, p plan, out io.Writer) error
}

var sections = []section{
	{"prove", proveSection}, {"redis", redisSection}, {"memory", memorySection},
	{"serve", serveSection}, {"loadtest", loadtestSection},
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
	flags.Uint64Var(&p.seed, "seed", rand.Uint64N(1e6),
		"what the answers of prove are random by (default another each time)")
	flags.IntVar(&p.rounds, "rounds", 7, "how often each cell is measured; the tables show medians")
	flags.DurationVar(&p.duration, "duration", 400*time.Millisecond, "how long to measure a cell in each round")
	names := sectionNames()
	only := flags.String("only", "", "run one section: "+names)
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
	fmt.Fprintf(progressTo, format+"\n", args...)
}

var progressTo io.Writer = os.Stderr

// table writes a Markdown table.
func table(out io.Writer, rows ...[]string) {
	fmt.Fprintln(out)
	for i, row := range rows {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(out, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
		}
	}
}

// rows makes a table with a column for each cell, and a row for each contestant from that one on. text is what stands
// in it of the contestant's rounds, and of those of the first.
func rows(measured results, contestants []contestant, cells []cell, from int, before string,
	text func(its, ofFirst []float64) string) [][]string {
	all := [][]string{{""}}
	for _, c := range cells {
		all[0] = append(all[0], c.name)
	}
	for i, c := range contestants[from:] {
		row := []string{before + c.name}
		for j := range cells {
			row = append(row, text(measured[from+i][j], measured[0][j]))
		}
		all = append(all, row)
	}
	return all
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// thousands writes n with separators: 12,345.
func thousands(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func decimals(n float64) string { return fmt.Sprintf("%.1f", n) }

// ratioOf returns how many times as large values are as the others of the same rounds: the median, with the least
// and the greatest.
func ratioOf(values, others []float64) string {
	ratios := make([]float64, len(values))
	for round := range values {
		ratios[round] = values[round] / others[round]
	}
	return fmt.Sprintf("**%.2f** (%.2f–%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}
