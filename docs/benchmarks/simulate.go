package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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
