package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// linesOfLogs is the number of lines of each log, and addressesOfLogs that of the addresses that may ask.
const linesOfLogs, addressesOfLogs = 2_000_000, 250_000

// logFormats are the formats of logs, and how each writes one request.
var logFormats = []struct {
	name, header string
	line         func(at time.Time, address string) string
}{
	{"Apache's combined format", "", func(at time.Time, address string) string {
		return fmt.Sprintf("%s - - [%s] \"GET /search?q=shoes HTTP/1.1\" 200 512 \"-\" \"Go-http-client/2.0\"\n", address,
			at.Format("02/Jan/2006:15:04:05 -0700"))
	}},
	{"JSON lines, RFC 3339", "", func(at time.Time, address string) string {
		return fmt.Sprintf(`{"time":"%s","key":"%s","method":"GET","path":"/search?q=shoes","status":200}`+"\n",
			at.Format(milliRFC3339), address)
	}},
	{"CSV, RFC 3339", "time,key,path,status\n", func(at time.Time, address string) string {
		return fmt.Sprintf("%s,%s,/search?q=shoes,200\n", at.Format(milliRFC3339), address)
	}},
}

const milliRFC3339 = "2006-01-02T15:04:05.000Z07:00"

// simulateSection measures limitctl simulate on large logs, as it is here and, if the plan has one, another build in turn.
func simulateSection(ctx context.Context, p plan, out io.Writer) error {
	dir, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	programs := []string{program}
	if p.beside != "" {
		programs = append(programs, p.beside)
	}
	rows := [][]string{{"log", "processors' time", "lines a second of them", "÷ the other's time"}}
	for i, format := range logFormats {
		log := filepath.Join(dir, fmt.Sprintf("log%d", i))
		progress("simulate: writing %d lines of %s", linesOfLogs, format.name)
		if err := writeDay(log, i); err != nil {
			return err
		}
		took := make([][]float64, len(programs))
		for round := range p.rounds {
			for k := range programs {
				turn := (k + round) % len(programs)
				progress("simulate: %s, round %d of %d", format.name, round+1, p.rounds)
				cmd := exec.CommandContext(ctx, programs[turn], "simulate", log, "--limit", "30/1m", "-o", "json")
				cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
				if _, err := cmd.Output(); err != nil {
					return fmt.Errorf("%s: %w", cmd, err)
				}
				took[turn] = append(took[turn], (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
			}
		}
		if err := os.Remove(log); err != nil {
			return err
		}
		row := []string{format.name, fmt.Sprintf("%.2f s", median(took[0])), thousands(linesOfLogs / median(took[0])), ""}
		if len(programs) > 1 {
			row[3] = ratioOf(took[0], took[1])
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(out, "\n### Logs: `limitctl simulate LOG --limit 30/1m -o json`, %s lines\n", thousands(linesOfLogs))
	table(out, rows...)
	return nil
}

// writeDay writes a log of a day, of addresses that ask in proportion to 1 ÷ i^1.05.
func writeDay(path string, format int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	asking := rand.NewZipf(random, 1.05, 20, addressesOfLogs)
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	io.WriteString(w, logFormats[format].header)
	for range linesOfLogs {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(24*time.Hour/linesOfLogs)))
		k := asking.Uint64() * 2654435761 % (1 << 24) // so that neighbours do not ask alike
		io.WriteString(w, logFormats[format].line(at, fmt.Sprintf("10.%d.%d.%d", k>>16&255, k>>8&255, k&255)))
	}
	return w.Flush()
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
