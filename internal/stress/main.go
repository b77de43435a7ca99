//go:build linux

// Stress runs tests under conditions in which they fail if they depend on anything but the code: as another user,
// in another zone and locale, in another order, beside busy loops, and with the clock moved to where days, windows
// and summer time begin or end. There, each long test also runs alone, so that the instant is in its middle. `make
// stress` calls it.
//
//	stress [FLAG...] PACKAGE...    as for go test
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == oneBinary {
		os.Exit(runBinary(os.Args[2], os.Args[3:]))
	}
	if err := stress(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stress:", err)
		os.Exit(1)
	}
}

// A run is one run of the tests.
type run struct {
	name   string
	zone   string
	loops  int
	moment time.Time     // to which the clock is moved; zero for none
	lead   time.Duration // how much earlier test binaries start
}

const (
	ofAll        = 2 * time.Hour    // the longest time for the tests of a package
	ofOne        = 30 * time.Minute // the same for each run of the binary
	shuffledRuns = 3
	aYear        = 366 * 24 * time.Hour // the longest window
)

// runsAt returns all runs for the time now.
func runsAt(now time.Time) (all []run, err error) {
	loops := 4 * runtime.NumCPU()
	for i := range shuffledRuns {
		all = append(all, run{
			name: fmt.Sprintf("shuffled, beside %d busy loops, %d of %d", loops, i+1, shuffledRuns), zone: "Asia/Kolkata", loops: loops,
		})
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		return nil, err
	}
	forward, err := nextChange(now, berlin, true)
	if err != nil {
		return nil, err
	}
	back, err := nextChange(now, berlin, false)
	if err != nil {
		return nil, err
	}
	return append(all,
		run{name: "at midnight", zone: "UTC", moment: windowEnd(now, 24*time.Hour), lead: 10 * time.Second},
		run{name: "at the end of a window of 366 days", zone: "Asia/Kolkata", moment: windowEnd(now, aYear), lead: 2 * time.Second},
		run{name: "where summer time begins", zone: berlin.String(), moment: forward, lead: 2 * time.Second},
		run{name: "where summer time ends", zone: berlin.String(), moment: back, lead: 2 * time.Second},
	), nil
}

func stress(args []string) (err error) {
	ownMount, err := enterOwnMounts()
	if err != nil {
		return err
	}
	if err := adopt(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	dir, err := os.MkdirTemp("", "stress")
	if err != nil {
		return err
	}
	p := &place{dir: dir, ownMount: ownMount}
	defer func() { err = errors.Join(err, endAll(), os.RemoveAll(dir)) }()
	if err := p.settle(); err != nil {
		return err
	}
	clocks, err := newClockwork(dir, p.goroot)
	if err != nil {
		return err
	}
	runs, err := runsAt(time.Now())
	if err != nil {
		return err
	}
	var failed []string
	for _, r := range runs {
		began := time.Now()
		fmt.Printf("%s … ", r.title())
		output, err := p.run(ctx, r, clocks, args)
		if ctx.Err() != nil {
			fmt.Println("interrupted")
			return ctx.Err()
		}
		if err == nil {
			fmt.Printf("ok, %.0f s\n", time.Since(began).Seconds())
			continue
		}
		fmt.Printf("FAILED, %.0f s: %v\n%s", time.Since(began).Seconds(), err, failures(output))
		failed = append(failed, r.title())
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d runs failed:\n\t%s", len(failed), len(runs), strings.Join(failed, "\n\t"))
	}
	fmt.Printf("all %d runs passed\n", len(runs))
	return nil
}

func (r *run) title() string {
	if r.moment.IsZero() {
		return r.name
	}
	return r.name + ", " + r.moment.Format("2006-01-02 15:04 MST")
}

// run does one run of the tests in args. An error comes with the output.
func (p *place) run(ctx context.Context, r run, clocks *clockwork, args []string) (output string, err error) {
	zone, err := p.inZone(r.zone)
	if err != nil {
		return "", err
	}
	flags := "-buildvcs=false" // the checkout belongs to another user
	o := order{Dir: p.dir, User: p.user, Moment: r.moment, Lead: r.lead}
	if !r.moment.IsZero() {
		flags += " -overlay=" + clocks.Overlay
		o.Clocks = clocks
	}
	env := append(zone, "LC_ALL=C", "GOFLAGS="+flags)
	if err := p.tryUser(env); err != nil {
		return "", err
	}
	o.User, o.Env = p.user, slices.Concat(p.env, env)
	text, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	tests := exec.CommandContext(ctx, "go", slices.Concat([]string{
		"test", "-count=1", "-shuffle=on", "-exec", fmt.Sprintf("'%s' %s", self, oneBinary),
	}, args, []string{"-timeout=" + ofAll.String()})...)
	tests.Env = append(os.Environ(), "GOFLAGS="+flags, orderVariable+"="+string(text))
	tests.SysProcAttr = attributesOf(0)
	tests.WaitDelay = 5 * time.Second // a leftover process can have the output open
	stop := busyLoops(r.loops)
	out, err := tests.CombinedOutput()
	stop()
	left, wrong := leftBehind()
	for _, l := range left {
		err = errors.Join(err, fmt.Errorf("process %d is left behind: %s", l.id, l.name))
	}
	return string(out), errors.Join(err, wrong)
}

// failures returns the output of go test without the packages that passed.
func failures(output string) string {
	var lines strings.Builder
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "ok  \t") && !strings.HasPrefix(line, "?   \t") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}
