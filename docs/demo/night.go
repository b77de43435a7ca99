//go:build demo

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// users is how many keys the reset deletes.
const users = 20_000

// night resets a tenant, is killed in the middle of it, and brings everything back.
func (d *demo) night(ctx context.Context) error {
	heading("3. The night", "A user is denied. Somebody resets all users of the tenant, and is killed.")
	if err := d.fill(ctx); err != nil {
		return err
	}
	denied := []string{"consume", "tenant:acme:user:7", "--limit", "60/1h", "--cost", "60"}
	for exit, args := range [][]string{denied, denied} { // the first is allowed
		if err := d.runs(ctx, exit, args...); err != nil {
			return err
		}
	}
	if err := d.runs(ctx, 0, "denials"); err != nil {
		return err
	}
	before, all, err := d.digest(ctx)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		killed, err := d.killedReset(ctx)
		if err != nil {
			return err
		}
		_, left, err := d.digest(ctx)
		if err != nil {
			return err
		}
		fmt.Println()
		share("before", all, all, "digest "+before)
		share(map[bool]string{true: "after kill -9", false: "not killed"}[killed], left, all, "")
		if err := d.runs(ctx, 0, "undo", "--yes"); err != nil {
			return err
		}
		after, brought, err := d.digest(ctx)
		if err != nil {
			return err
		}
		fmt.Println()
		share("after undo", brought, all, "digest "+after)
		if after != before {
			return errors.New("what came back is not what was there")
		}
		fmt.Println(in(green, "✓ the same"))
		if killed || attempt == 3 {
			break
		}
		fmt.Println("\nThat was too fast to be killed. Once more:")
	}
	fmt.Println("A digest is of the name, the content and the expiry of every key.")
	return nil
}

// fill makes the keys of many users of the tenant.
func (d *demo) fill(ctx context.Context) error {
	failures := make([]error, callers)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for n := c; n < users && failures[c] == nil; n += callers {
				_, failures[c] = d.limits.Charge(ctx, ofUser(n).N(30))
			}
		})
	}
	all.Wait()
	return cmp.Or(failures...)
}

// ofUser is a request of one of the users, in whose order a file has them.
func ofUser(n int) limiter.Request {
	return limiter.Per("token-bucket/1h", 60, time.Hour).For("tenant", "acme", "user", fmt.Sprint(100_000+n))
}

// killedReset starts a reset of the tenant, and kills it when some keys are deleted and others are not. It returns
// whether the reset was not over by then.
func (d *demo) killedReset(ctx context.Context) (killed bool, err error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	midway, err := d.midway(watching)
	if err != nil {
		return false, err
	}
	args := []string{"reset", "tenant:acme:*", "--yes", "--reason", "a runaway job"}
	showCommand(args...)
	cmd := d.command(ctx, args...)
	if err := cmd.Start(); err != nil {
		return false, err
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	select {
	case <-midway:
		cmd.Process.Kill()
		err = <-over
		killed = !cmd.ProcessState.Exited() // but killed
	case err = <-over:
	}
	d.midwayBelow.Store(0)
	if killed {
		fmt.Printf("%s kill -9 %d\n", in(bold, "$"), cmd.Process.Pid)
		err = nil
	}
	return killed, errors.Join(err, ctx.Err())
}

// isMidway reports whether the gate is to shut.
func (d *demo) isMidway() bool {
	below := d.midwayBelow.Load()
	if below == 0 {
		return false
	}
	keys, err := d.keys.DBSize(context.Background()).Result()
	return err == nil && keys < below
}

// midway returns what is closed when some keys are deleted. Then the gate passes on no more requests to a Redis. A file
// goes on, so its reset is over if we are late.
func (d *demo) midway(ctx context.Context) (<-chan struct{}, error) {
	if d.gate != nil {
		all, err := d.keys.DBSize(ctx).Result()
		d.midwayBelow.Store(all - users/3)
		return d.gate.Shut, err
	}
	begun := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			if at, err := d.limits.Peek(ctx, ofUser(users/3)); err == nil && at.At(0).Used == 0 {
				close(begun)
				return
			}
			time.Sleep(100 * time.Microsecond)
		}
	}()
	return begun, nil
}

// digest returns one of all keys with what they hold until when, and how many keys there are.
func (d *demo) digest(ctx context.Context) (digest string, keys int, err error) {
	space, _ := admin.KeyspaceOf(d.limits.Store())
	tenant, err := store.ParsePattern("tenant:acme:*")
	if err != nil {
		return "", 0, err
	}
	var lines []string
	for e, err := range space.Scan(ctx, admin.Query{Subjects: tenant, Records: true}) {
		if err != nil {
			return "", 0, err
		}
		lines = append(lines, fmt.Sprintf("%s %x %d\n", e.StoreKey, e.Record.Value, e.Record.Expires.UnixMilli()))
	}
	slices.Sort(lines)
	sum := sha256.New()
	for _, line := range lines {
		fmt.Fprint(sum, line)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:4]), len(lines), nil
}
