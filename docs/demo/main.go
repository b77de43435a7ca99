//go:build demo

// Command demo shows in a minute what limitctl is for, on a Redis of its own if redis-server is installed, and on a
// file otherwise. `make demo` runs it at the top of the repository:
//
//	go run -tags demo ./docs/demo bin/limitctl
//
// With the path of an SVG after that it writes the picture of the second part to it, and shows nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:])
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "demo: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("want the path of limitctl, and at most that of a picture")
	}
	d, err := open(args[0])
	if err != nil {
		return err
	}
	defer d.close()
	if len(args) == 2 {
		return d.writeFigure(ctx, args[1])
	}
	begin := time.Now()
	for _, part := range []func(context.Context) error{d.leak, d.figure, d.night} {
		if err := part(ctx); err != nil {
			return err
		}
		pause(ctx)
	}
	whereToLook(time.Since(begin))
	return nil
}

// A demo has a store, and commands that work on it.
type demo struct {
	limitctl, home string // paths
	store          string // its URL, as commands have it
	limits         *limiter.Limiter
	keys           *redis.Client   // of the Redis; nil for a file
	gate           *redistest.Gate // before the Redis; nil for a file
	midwayBelow    atomic.Int64    // the number of keys, of a Redis; 0 for never
	ends           []func()        // what close calls, the last first
}

func open(limitctl string) (d *demo, err error) {
	d = new(demo)
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.limitctl, err = exec.LookPath(limitctl); err == nil {
		d.limitctl, err = filepath.Abs(d.limitctl)
	}
	if err != nil {
		return d, err
	}
	if d.home, err = os.MkdirTemp("", "limitctl-demo"); err != nil {
		return d, err
	}
	d.ends = append(d.ends, func() { os.RemoveAll(d.home) })
	var store limiter.Store
	if _, missing := exec.LookPath("redis-server"); missing != nil {
		path := filepath.Join(d.home, "limits.db")
		fmt.Println("redis-server is not installed: the limits are in a file")
		d.store = "file:" + path
		store, err = filestore.New(path)
	} else {
		store, err = d.openRedis()
	}
	if err != nil {
		return d, err
	}
	d.limits, err = limiter.New(store)
	d.ends = append(d.ends, func() { store.Close() })
	return d, err
}

func (d *demo) openRedis() (limiter.Store, error) {
	server, err := redistest.Launch()
	if err != nil {
		return nil, err
	}
	d.ends = append(d.ends, server.Stop)
	d.keys = redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute})
	d.ends = append(d.ends, func() { d.keys.Close() })
	if d.gate, err = redistest.NewGate(server.Addr, d.isMidway); err != nil {
		return nil, err
	}
	d.ends = append(d.ends, d.gate.Close)
	d.store = "redis://" + d.gate.Addr
	return redisstore.Open(redis.UniversalOptions{Addrs: []string{server.Addr},
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute})
}

func (d *demo) close() {
	for _, end := range slices.Backward(d.ends) {
		end()
	}
}

// command is a command of limitctl on the store, which has its files in home.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.limitctl, append([]string{"--timeout", "1m"}, args...)...) // for slow machines
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.home, os.Stdout, os.Stderr
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LIMITCTL_") })
	cmd.Env = append(cmd.Env, "LIMITCTL_STORE="+d.store,
		"HOME="+d.home, "XDG_STATE_HOME="+d.home, "XDG_CONFIG_HOME="+d.home)
	return cmd
}

// runs shows a command and runs it. It is an error if the exit code is not want.
func (d *demo) runs(ctx context.Context, want int, args ...string) error {
	showCommand(args...)
	err := d.command(ctx, args...).Run()
	if ended := new(exec.ExitError); errors.As(err, &ended) && ended.ExitCode() == want || err == nil && want == 0 {
		return ctx.Err()
	}
	return fmt.Errorf("limitctl %s: the exit code should be %d: %w", args[0], want, errors.Join(err, ctx.Err()))
}
