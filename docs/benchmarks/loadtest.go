package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

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

// installPeer builds a peer's command, path@version, into dir, and returns the program.
func installPeer(ctx context.Context, dir, command string) (string, error) {
	progress("building %s", command)
	install := exec.CommandContext(ctx, "go", "install", command)
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if text, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w: %s", command, err, text)
	}
	path, _, _ := strings.Cut(command, "@")
	name := filepath.Base(path)
	if name == "v12" { // of vegeta/v12
		name = "vegeta"
	}
	return filepath.Join(dir, name), nil
}

// loader is a program that sends as many requests to a URL as it can.
type loader struct {
	name string
	run  func(workers int) (requests int, err error)
	// of each number of workers and round: requests a second, and µs of processors of each
	perSecond, cpu [][]float64
}

var workersOfLoaders = []int{4, 16, 64, 256}

// loadtestSection measures load tests of an HTTP server that answers at once: limitctl, which audits every answer, and
// two programs that count answers by status.
func loadtestSection(ctx context.Context, p plan, out io.Writer) error {
	dir, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	bombardier, err := installPeer(ctx, dir, "github.com/codesenberg/bombardier@v1.2.6")
	if err != nil {
		return err
	}
	vegeta, err := installPeer(ctx, dir, "github.com/tsenart/vegeta/v12@v12.13.0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the server
	host, err := startAnswering(ctx)
	if err != nil {
		return err
	}
	url, duration := "http://"+host+"/", max(5*p.duration, time.Second)
	var used time.Duration // of processors, by the program that ran last
	shell := func(answer any, command string, arguments ...string) error {
		cmd := exec.CommandContext(ctx, command, arguments...)
		cmd.Dir = dir
		text, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", cmd, err)
		}
		used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		return json.Unmarshal(text, answer)
	}
	loaders := []*loader{
		{name: "limitctl, every answer audited", run: func(workers int) (int, error) {
			var answer struct{ Runs []*attack }
			err := shell(&answer, program, "loadtest", url+"?{subject}", "--limit", "1000000/1s", "--keys", "1000",
				"--workers", strconv.Itoa(workers), "--duration", duration.String(), "-o", "json", "--no-fail")
			if err != nil {
				return 0, err
			}
			return answer.Runs[0].Requests - answer.Runs[0].Denied - answer.Runs[0].Errors, nil
		}},
		{name: "bombardier", run: func(workers int) (int, error) {
			var answer struct {
				Result struct {
					OK int `json:"req2xx"`
				}
			}
			err := shell(&answer, bombardier, "-c", strconv.Itoa(workers), "-d", duration.String(), "-p", "r", "-o",
				"json", url)
			return answer.Result.OK, err
		}},
		{name: "vegeta", run: func(workers int) (int, error) {
			n := strconv.Itoa(workers)
			targets, results := filepath.Join(dir, "targets"), filepath.Join(dir, "results")
			attack := exec.CommandContext(ctx, vegeta, "attack", "-rate=0", "-max-workers="+n, "-workers="+n,
				"-connections="+n, "-duration="+duration.String(), "-targets="+targets, "-output="+results)
			if err := errors.Join(os.WriteFile(targets, []byte("GET "+url+"\n"), 0o600), attack.Run()); err != nil {
				return 0, err
			}
			var answer struct {
				Codes map[string]int `json:"status_codes"`
			}
			err := shell(&answer, vegeta, "report", "-type=json", results)
			used = attack.ProcessState.UserTime() + attack.ProcessState.SystemTime()
			return answer.Codes["200"], err
		}},
	}
	for round := range p.rounds {
		progress("loadtest: round %d of %d", round+1, p.rounds)
		for j, workers := range workersOfLoaders {
			for _, l := range loaders {
				if round == 0 {
					l.perSecond, l.cpu = append(l.perSecond, nil), append(l.cpu, nil)
				}
				requests, err := l.run(workers)
				if err == nil && requests == 0 {
					err = errors.New("no request was answered")
				}
				if err != nil {
					return fmt.Errorf("%s: %w", l.name, err)
				}
				l.perSecond[j] = append(l.perSecond[j], float64(requests)/duration.Seconds())
				l.cpu[j] = append(l.cpu[j], float64(used.Microseconds())/float64(requests))
			}
		}
	}
	rows := [][]string{{"requests a second, µs of processors of each"}}
	for _, workers := range workersOfLoaders {
		rows[0] = append(rows[0], fmt.Sprintf("%d workers", workers))
	}
	for i, l := range loaders {
		row, ratio := []string{l.name}, []string{"limitctl's µs ÷ " + l.name + "'s"}
		for j := range workersOfLoaders {
			row = append(row, fmt.Sprintf("%s, %s µs", thousands(median(l.perSecond[j])), decimals(median(l.cpu[j]))))
			ratio = append(ratio, ratioOf(loaders[0].cpu[j], l.cpu[j]))
		}
		if rows = append(rows, row); i > 0 {
			rows = append(rows, ratio)
		}
	}
	fmt.Fprint(out, "\n### Load tests of an HTTP server that answers at once\n")
	table(out, rows...)
	return nil
}

// startAnswering starts a process that answers every HTTP request at once, and returns its address.
func startAnswering(ctx context.Context) (host string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	server := exec.CommandContext(ctx, self, "-peer", "answer")
	address, err := server.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := server.Start(); err != nil {
		return "", err
	}
	_, err = fmt.Fscanln(address, &host)
	return host, err
}
