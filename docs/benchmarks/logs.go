package main

import (
	"bufio"
	"bytes"
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
const linesOfLogs, addressesOfLogs = 10_000_000, 250_000

// logFormats are the formats of logs, and how each writes one request.
var logFormats = []struct {
	name, header string
	line         func(at time.Time, address, path string, bytes int) string
}{
	{"Apache's combined format", "", func(at time.Time, address, path string, bytes int) string {
		return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 %d \"-\" \"Go-http-client/2.0\"\n", address,
			at.Format("02/Jan/2006:15:04:05 -0700"), path, bytes)
	}},
	{"JSON lines, RFC 3339", "", func(at time.Time, address, path string, bytes int) string {
		return fmt.Sprintf(`{"time":"%s","key":"%s","method":"GET","path":"%s","status":200,"bytes":%d}`+"\n",
			at.Format(milliRFC3339), address, path, bytes)
	}},
	{"CSV, RFC 3339", "time,key,path,status\n", func(at time.Time, address, path string, _ int) string {
		return fmt.Sprintf("%s,%s,%s,200\n", at.Format(milliRFC3339), address, path)
	}},
}

const milliRFC3339 = "2006-01-02T15:04:05.000Z07:00"

// logsSection measures limitctl simulate on large logs, as it is here and, if the plan has one, another program in turns.
func logsSection(ctx context.Context, p plan, out io.Writer) error {
	dir, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	programs := []string{program}
	if p.beside != "" {
		programs = append(programs, p.beside)
	}
	rows := [][]string{{"log", "processors' time", "of the other", "÷ the other's"}}
	for i, format := range logFormats {
		log := filepath.Join(dir, fmt.Sprintf("log%d", i))
		progress("logs: writing %d lines of %s", linesOfLogs, format.name)
		size, err := writeDay(log, i)
		if err != nil {
			return err
		}
		took := make([][]float64, len(programs))
		for round := range p.rounds {
			var reports [2][]byte
			for k := range programs {
				turn := (k + round) % len(programs)
				progress("logs: %s, round %d of %d", format.name, round+1, p.rounds)
				cmd := exec.CommandContext(ctx, programs[turn], "simulate", log, "--limit", "30/1m", "-o", "json")
				cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
				if reports[turn], err = cmd.Output(); err != nil {
					return fmt.Errorf("%s: %w", cmd, err)
				}
				took[turn] = append(took[turn], (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
			}
			allowed := func(report []byte) []byte { // the rest of a report can differ from version to version
				_, rest, _ := bytes.Cut(report, []byte(`"allowed":`))
				figure, _, _ := bytes.Cut(rest, []byte(","))
				return figure
			}
			if len(programs) > 1 && !bytes.Equal(allowed(reports[0]), allowed(reports[1])) {
				return fmt.Errorf("%s: %s were allowed, and %s by the other", format.name, allowed(reports[0]), allowed(reports[1]))
			}
		}
		if err := os.Remove(log); err != nil {
			return err
		}
		row := []string{fmt.Sprintf("%s, %.2f GB", format.name, float64(size)/1e9), fmt.Sprintf("%.2f s", median(took[0])), "", ""}
		if len(programs) > 1 {
			row[2], row[3] = fmt.Sprintf("%.2f s", median(took[1])), fmt.Sprintf("**%.2f**", median(took[0])/median(took[1]))
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(out, "\n### Logs: `limitctl simulate LOG --limit 30/1m -o json`, %d lines\n", linesOfLogs)
	table(out, rows...)
	return nil
}

// writeDay writes a log of a day, of addresses that ask in proportion to 1 ÷ i^1.05. It returns its size.
func writeDay(path string, format int) (size int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	asking := rand.NewZipf(random, 1.05, 20, addressesOfLogs)
	paths := []string{"/", "/api/v1/items", "/search?q=shoes", "/static/app.js", "/login", "/img/logo.png"}
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	w.WriteString(logFormats[format].header)
	for range linesOfLogs {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(24*time.Hour/linesOfLogs)))
		k := asking.Uint64() * 2654435761 % (1 << 24) // so that neighbours do not ask alike
		address := fmt.Sprintf("10.%d.%d.%d", k>>16&255, k>>8&255, k&255)
		w.WriteString(logFormats[format].line(at, address, paths[random.IntN(len(paths))], random.IntN(90000)))
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return f.Seek(0, io.SeekCurrent)
}
