package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// crowd is the number of processes on one file, and of goroutines in each.
type crowd struct{ processes, goroutines int }

var crowds = []crowd{{1, 1}, {2, 1}, {4, 1}, {16, 1}, {1, 16}, {4, 16}}

// fileKeys is the number of subjects in a file, in measurements with more than one.
const fileKeys = 10_000

// fileTakers are the contestants by the names that workers get.
var fileTakers = map[string]func(path string) (take, io.Closer, error){
	"limitctl": limitctlFile,
	"counter":  counterFile,
}

func limitctlFile(path string) (take, io.Closer, error) {
	backend, err := filestore.New(path)
	if err != nil {
		return nil, nil, err
	}
	l := storecall.New(backend)
	limit := store.Limit{Count: int64(manyKeysQuota.count) * 1000, Period: manyKeysQuota.period}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Take(ctx, store.Key{Subject: key}, limit, 1)
		return d.Allowed, err
	}, backend, nil
}

// counterFile is the usual program without a library: a counter of a window in the same database, increased by one
// statement, which waits for others with SQLite's own means. It returns less than a limit does, and its windows let
// double their count through.
func counterFile(path string) (take, io.Closer, error) {
	db, err := sql.Open("sqlite", "file:"+path+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS counters (key TEXT PRIMARY KEY, used INTEGER, ends INTEGER) " +
		"WITHOUT ROWID"); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	raise, err := db.Prepare(`INSERT INTO counters VALUES (?1, 1, ?2 + ?3) ON CONFLICT (key) DO UPDATE
		SET used = CASE WHEN ends <= ?2 THEN 1 ELSE used + 1 END, ends = CASE WHEN ends <= ?2 THEN ?2 + ?3 ELSE ends END
		RETURNING used`)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return func(ctx context.Context, key string) (bool, error) {
		var used int
		err := raise.QueryRowContext(ctx, key, time.Now().UnixMicro(), manyKeysQuota.period.Microseconds()).Scan(&used)
		return used <= manyKeysQuota.count*1000, err
	}, db, nil
}

// fileSection measures takes of several processes from one file. beside is another build of this program, whose
// workers take turns with this one's; empty for none.
func fileSection(ctx context.Context, p plan, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	type program struct{ name, path, taker string }
	programs := []program{{"limitctl", self, "limitctl"}}
	if p.beside != "" {
		programs = append(programs, program{"limitctl before", p.beside, "limitctl"})
	}
	programs = append(programs, program{"a counter by one SQL statement", self, "counter"})
	contestants := make([]contestant, len(programs))
	for i, program := range programs {
		contestants[i].name = program.name
	}
	for _, keys := range []int{1, fileKeys} {
		cells := make([]cell, len(crowds))
		measured := make(results, len(programs))
		for i := range measured {
			measured[i] = make([][]sample, len(crowds))
		}
		for j, c := range crowds {
			cells[j].name = fmt.Sprintf("%d × %d", c.processes, c.goroutines)
		}
		for round := range p.rounds {
			progress("file: %s keys, round %d of %d", thousands(float64(keys)), round+1, p.rounds)
			for j, c := range crowds {
				for i, program := range programs {
					perSecond, err := measureCrowd(ctx, program.path, program.taker, c, keys, p.duration)
					if err != nil {
						return fmt.Errorf("%s: %w", program.name, err)
					}
					measured[i][j] = append(measured[i][j], sample{perSecond: perSecond})
				}
			}
		}
		fmt.Fprintf(out, "\n### In a file: takes per second by processes × goroutines, %s\n", plural(keys, "key"))
		table(out, medians(measured, contestants, cells, func(s sample) float64 { return s.perSecond }, thousands)...)
		table(out, ratios(measured, contestants, cells)...)
	}
	return nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(float64(n)) + " " + noun + "s"
}

// measureCrowd starts the processes, lets them begin together once all are ready, and adds their takes.
func measureCrowd(ctx context.Context, program, taker string, c crowd, keys int, duration time.Duration) (perSecond float64, err error) {
	dir, err := os.MkdirTemp("", "limitctl-file-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends processes that still run after an error
	type worker struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		out *bufio.Scanner
	}
	workers := make([]worker, c.processes)
	for i := range workers {
		cmd := exec.CommandContext(ctx, program, "-file-worker", strings.Join([]string{taker, filepath.Join(dir, "limits.db"),
			strconv.Itoa(c.goroutines), strconv.Itoa(keys), strconv.Itoa(i), duration.String()}, ","))
		cmd.Stderr = os.Stderr
		in, inErr := cmd.StdinPipe()
		out, outErr := cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
			return 0, err
		}
		defer cmd.Wait()
		workers[i] = worker{cmd, in, bufio.NewScanner(out)}
		if !workers[i].out.Scan() || workers[i].out.Text() != "ready" {
			return 0, fmt.Errorf("a worker did not get ready: %q", workers[i].out.Text())
		}
	}
	for _, w := range workers {
		if err := w.in.Close(); err != nil {
			return 0, err
		}
	}
	for _, w := range workers {
		w.out.Scan()
		rate, err := strconv.ParseFloat(w.out.Text(), 64)
		if err != nil {
			return 0, fmt.Errorf("a worker failed: %q", w.out.Text())
		}
		perSecond += rate
	}
	return perSecond, nil
}

// fileWorker is one of the processes: the first takes a unit of every key, the others of one. It reports that it is
// ready, and begins when its input ends. Then it prints its takes per second.
func fileWorker(ctx context.Context, arguments string, in io.Reader, out io.Writer) error {
	var taker, path string
	var goroutines, keys, number int
	var duration time.Duration
	fields := strings.Split(arguments, ",")
	if len(fields) != 6 {
		return errors.New("-file-worker is for the program itself")
	}
	taker, path = fields[0], fields[1]
	numbers := []*int{&goroutines, &keys, &number}
	for i, field := range fields[2:5] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		*numbers[i] = n
	}
	duration, err := time.ParseDuration(fields[5])
	if err != nil {
		return err
	}
	take, closer, err := fileTakers[taker](path)
	if err != nil {
		return err
	}
	defer closer.Close()
	all := subjects(keys)
	start := number * 7919 % keys
	c := contestant{name: taker, take: shared(take)}
	first := all
	if number > 0 {
		first = all[start : start+1]
	}
	if err := fill(ctx, c, first); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	s, err := measure(ctx, c, cell{goroutines: goroutines, keys: append(all[start:], all[:start]...)}, duration)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, s.perSecond)
	return nil
}
