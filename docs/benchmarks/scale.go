package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/terminaltest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	scaleKeys = 2_750_000
	// scaleDenied is how many keys of the tenant were denied before.
	scaleDenied = 500
	// lookedOn is how long somebody looks at the dashboard.
	lookedOn = 20 * time.Second
)

// scaleStep is something that an operator does at night, as a shell command, or how long nobody does anything.
type scaleStep struct {
	name, command string
	before        func() error // what must be so again; nil for nothing
}

// scaleSection does what an operator does on a store of many keys, and the like with redis-cli, one after the other
// while another client sends PINGs.
func scaleSection(ctx context.Context, p plan, out io.Writer) error {
	t, err := newTenants(ctx, "scale", scaleKeys)
	if err != nil {
		return err
	}
	defer t.close()
	client, binary, cli := t.client, t.binary, t.cli
	if err := denySome(ctx, client); err != nil {
		return err
	}
	reset := binary + " reset 'tenant:acme:*' --yes -q --backup " + filepath.Join(t.dir, "backup.jsonl")
	steps := []scaleStep{
		{"nobody does anything", fmt.Sprintf("sleep %.1f", 10*p.duration.Seconds()), nil},
		{"`limitctl denials`", binary + " denials", nil},
		{"`limitctl inspect`, an exact subject", binary + " inspect tenant:acme:user:7", nil},
		{"`limitctl inspect '*' --summary`", binary + " inspect '*' --summary", nil},
		{"`limitctl inspect '*' --at-limit`", binary + " inspect '*' --at-limit", nil},
		{"`redis-cli --scan`, names only", cli + " --scan", nil},
		{"`redis-cli --bigkeys`", cli + " --bigkeys", nil},
		{"`limitctl reset --dry-run`, 100,000 keys of a tenant", binary + " reset 'tenant:acme:*' --dry-run", nil},
		{"`redis-cli --scan --pattern`, the same keys", cli + " --scan --pattern 'rl:{tenant:acme:*'", nil},
		{"`limitctl reset` of them, with a backup", reset, nil},
		{"`limitctl undo` of it", binary + " undo -q --yes", nil},
		{"`redis-cli --scan … \\| xargs redis-cli unlink`",
			cli + " --scan --pattern 'rl:{tenant:acme:*' | xargs " + cli + " unlink", func() error {
				return fillTenants(ctx, client, 0, resetTenant)
			}},
		{fmt.Sprintf("`limitctl dashboard`, 100×30, its first %.0f s", lookedOn.Seconds()), binary + " dashboard", nil},
	}
	fmt.Fprintf(out, "### What operators do on %s keys\n", thousands(scaleKeys))
	rows := [][]string{{"", "seconds", "server CPU", "share of a core", "PING beside it: p50", "p99", "greatest", "client CPU", "RSS"}}
	for i, step := range steps {
		progress("scale: %s", step.name)
		if step.before != nil {
			if err := step.before(); err != nil {
				return err
			}
		}
		cmd := t.shell(ctx, "exec "+step.command)
		cmd.Env = append(cmd.Env, "TERM=xterm", "LC_ALL=C.UTF-8")
		run := cmd.Run
		if i == len(steps)-1 {
			run = func() error { return lookOn(cmd) }
		}
		row, err := scaleRow(ctx, client, t.server.Addr, cmd, run)
		if err != nil {
			return fmt.Errorf("%s: %w", step.command, err)
		}
		rows = append(rows, append([]string{step.name}, row...))
	}
	table(out, rows...)
	fmt.Fprintln(out)
	return nil
}

// scaleRow runs a command and returns what it cost.
func scaleRow(ctx context.Context, client *redis.Client, addr string, cmd *exec.Cmd, run func() error) ([]string, error) {
	before, err := serverCPU(ctx, client)
	if err != nil {
		return nil, err
	}
	took, pings, err := underPings(ctx, addr, 5*time.Millisecond, run)
	if err != nil {
		return nil, err
	}
	after, err := serverCPU(ctx, client)
	if err != nil {
		return nil, err
	}
	slices.Sort(pings)
	at := func(share float64) string {
		return fmt.Sprintf("%.2f ms", milliseconds(pings[int(share*float64(len(pings)-1))]))
	}
	own := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	row := []string{fmt.Sprintf("%.2f", took.Seconds()), fmt.Sprintf("%.2f s", (after - before).Seconds()),
		fmt.Sprintf("%.0f %%", 100*(after-before).Seconds()/took.Seconds()), at(0.5), at(0.99), at(1),
		fmt.Sprintf("%.2f s", own.Seconds()), ""}
	if usage, is := cmd.ProcessState.SysUsage().(*syscall.Rusage); is {
		row[len(row)-1] = fmt.Sprintf("%d MB", usage.Maxrss>>10)
	}
	return row, nil
}

// denySome lets keys of the tenant be denied, as services do that count denials.
func denySome(ctx context.Context, client *redis.Client) error {
	inner, err := redisstore.New(client)
	if err != nil {
		return err
	}
	backend := layers.WithDenialLog(inner, layers.DenialLog{})
	var decisions [1]store.Decision
	for i := range 10 * scaleDenied {
		key := store.Key{Subject: fmt.Sprintf("tenant:acme:user:%d", i%scaleDenied), Name: "api/minute"}
		request := store.Request{Key: key, Limit: store.Limit{Count: 1, Period: time.Hour}, Cost: 1}
		if err := backend.Decide(ctx, store.Take, []store.Request{request}, decisions[:]); err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second) // it writes once a second
	return nil
}

// lookOn shows the dashboard on a terminal for a while and leaves it.
func lookOn(cmd *exec.Cmd) error {
	screen, keyboard, err := terminaltest.Open()
	if err != nil {
		return err
	}
	defer keyboard.Close()
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}); err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	terminaltest.Control(cmd)
	err = cmd.Start()
	screen.Close()
	if err != nil {
		return err
	}
	begun, shown := time.Now(), make(chan time.Duration, 1)
	go func() {
		var drawn []byte
		text := make([]byte, 1<<14)
		for {
			n, err := keyboard.Read(text)
			if err != nil {
				return
			}
			if !bytes.Contains(drawn, []byte("tenant:")) {
				if drawn = append(drawn, text[:n]...); bytes.Contains(drawn, []byte("tenant:")) {
					shown <- time.Since(begun)
				}
			}
		}
	}()
	time.Sleep(lookedOn)
	select {
	case after := <-shown:
		progress("scale: the dashboard showed its first keys after %.2f s", after.Seconds())
	default:
		progress("scale: the dashboard showed no keys")
	}
	if _, err := keyboard.WriteString("q"); err != nil {
		return err
	}
	return cmd.Wait()
}
