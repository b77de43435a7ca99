package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var (
	ctx      = context.Background()
	user     = store.Key{Subject: "user:42"}
	hundred  = store.Limit{Count: 100, Period: store.MaxPeriod} // nothing of it lapses meanwhile
	everyKey = mustPattern("*")
)

func mustPattern(text string) store.Pattern {
	p, err := store.ParsePattern(text)
	if err != nil {
		panic(err)
	}
	return p
}

// connected returns a limiter on the server, by a client with those options.
func connected(t *testing.T, server *redistest.Server, options redis.Options) *storecall.Caller {
	t.Helper()
	options.Addr, options.DisableIdentity = server.Addr, true
	if options.ReadTimeout == 0 {
		options.ReadTimeout = redistest.Patience
	}
	client := redis.NewClient(&options)
	t.Cleanup(func() { client.Close() })
	return storecall.New(newStore(t, client))
}

func used(t *testing.T, l *storecall.Caller, limit store.Limit) int64 {
	t.Helper()
	d, err := l.Peek(ctx, user, limit, 1)
	must(t, err)
	return d.Used
}

// Law 9: a client that retries by default, a server that stops in the middle of
// a take: one charge at most, and the caller knows that it does not know.
func TestLaw09_NeverChargedTwice(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	t.Parallel()
	for _, killed := range []bool{false, true} {
		server := redistest.Start(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: 3, ReadTimeout: 300 * time.Millisecond,
			DisableIdentity: true})
		// Connections for a retry to be sent on are there before the server stops.
		var warm sync.WaitGroup
		for range 8 {
			warm.Go(func() { client.Do(ctx, "BLPOP", "nothing", 0.1) })
		}
		warm.Wait()
		backend := newStore(t, client)
		defer backend.Close()
		l := storecall.New(backend)
		mustTake(t, l, user, hundred, 1)
		server.Pause()
		failed := make(chan error)
		go func() {
			_, err := l.Take(ctx, user, hundred, 1)
			failed <- err
		}()
		if killed {
			server.Kill()
		}
		err := <-failed
		switch {
		case killed && errors.Is(err, store.ErrUnavailable): // it ended before the request left
		case !errors.Is(err, store.ErrOutcomeUnknown), errors.Is(err, store.ErrUnavailable),
			!strings.Contains(err.Error(), server.Addr):
			t.Errorf("got %v, want an ErrOutcomeUnknown that names %s", err, server.Addr)
		}
		if killed {
			continue
		}
		server.Resume()
		if got := used(t, l, hundred); got < 1 || got > 2 {
			t.Errorf("%d used after one take and one whose outcome is unknown", got)
		}
		if calls := server.CommandCalls("evalsha"); calls > 2 {
			t.Errorf("the server saw %d takes, of which 2 were made", calls)
		}
	}
}

// as returns the options of a client of a user with those rights.
func as(server *redistest.Server, rights ...any) redis.Options {
	server.Do(append([]any{"ACL", "SETUSER", "somebody", "reset", "on", ">pw"}, rights...)...)
	return redis.Options{Addr: server.Addr, Username: "somebody", Password: "pw", DisableIdentity: true}
}

// publication is a change of what is published.
func publication(was, head string, version int64, record string, drop ...int64) *admin.Change {
	c := &admin.Change{Table: admin.ConfigTable, What: "publication", Was: was, Line: "line",
		Set: []admin.TableRecord{{Name: fmt.Sprint(version), Value: record}, {Value: head}}}
	for _, number := range drop {
		c.Drop = append(c.Drop, fmt.Sprint(number))
	}
	return c
}

// A publication that is refused has changed nothing, not even what it would have dropped. In a full server, and in
// place of what is no head, one succeeds.
func TestWhatAPublicationChanges(t *testing.T) {
	server := redistest.Start(t)
	publish := func(was string, version int64, options redis.Options) error {
		backend := newStore(t, redis.NewClient(&options))
		defer backend.Close()
		done, err := backend.Change(ctx, publication(was, fmt.Sprint("head ", version), version, "record", version-1))
		if err == nil && !done {
			t.Errorf("version %d is not published", version)
		}
		return err
	}
	owner := redis.Options{Addr: server.Addr, DisableIdentity: true}
	must(t, publish("", 1, owner))
	before := dump(t, server.Client(), "")
	for _, command := range []string{"getrange", "xrevrange", "unlink", "set", "xadd"} {
		checkNamed(t, publish("head 1", 2, as(server, "~*", "+@all", "-"+command)), command)
		if after := dump(t, server.Client(), ""); after != before {
			t.Errorf("without the right to %s the store changed\nfrom %s\nto   %s", command, before, after)
		}
	}
	server.Do("CONFIG", "SET", "maxmemory", 1)
	must(t, publish("head 1", 2, owner))
	server.Do("CONFIG", "SET", "maxmemory", 0)
	const head = "rl!{config}:head"
	server.Do("SET", head, strings.Repeat("x", admin.MaxConfigHead+1))
	must(t, publish("", 3, owner))
	server.Do("DEL", head)
	server.Do("LPUSH", head, "x")
	must(t, publish("", 4, owner))
	if keys := server.Do("KEYS", "*:v:*"); fmt.Sprint(keys) != "[rl!{config}:v:4]" ||
		server.Do("GET", head) != "head 4" {
		t.Errorf("in the end %v are kept", keys)
	}
}

// A missing right is named, and nothing is charged to any limit of the call.
func TestAMissingRightIsNamed(t *testing.T) {
	server := redistest.Start(t)
	owner := connected(t, server, redis.Options{})
	log := store.Limit{Algorithm: store.SlidingLog, Count: 100, Period: time.Hour}
	one := []store.Request{{Key: user, Limit: hundred, Cost: 1}}
	both := append(one, store.Request{Key: user, Limit: log, Cost: 1})
	if _, err := owner.TakeAll(ctx, both...); err != nil {
		t.Fatal(err)
	}
	for command, reqs := range map[string][]store.Request{"evalsha": one, "get": one, "getrange": both, "set": both,
		"time": one} {
		l := connected(t, server, as(server, "~*", "+@all", "-"+command))
		before := dump(t, server.Client(), "")
		_, err := l.TakeAll(ctx, reqs...)
		checkNamed(t, err, command)
		if after := dump(t, server.Client(), ""); after != before {
			t.Errorf("without the right to %s the store changed\nfrom %s\nto   %s", command, before, after)
		}
	}
	for _, command := range []string{"setrange", "pexpireat"} { // a log can do without these
		before := used(t, owner, log)
		if _, err := connected(t, server, as(server, "~*", "+@all", "-"+command)).TakeAll(ctx, both...); err != nil {
			t.Errorf("without the right to %s: %v", command, err)
		}
		if after := used(t, owner, log); after != before+1 {
			t.Errorf("without the right to %s a take of 1 changed what is used from %d to %d", command, before, after)
		}
	}
	// A refund of several limits is not done by half either.
	minute := store.Limit{Count: 10, Period: time.Minute}
	mustTake(t, owner, user, minute, 5)
	partly := []store.Request{{Key: user, Limit: minute, Cost: 1}, {Key: user, Limit: hundred, Cost: 100}}
	for _, command := range []string{"del", "set"} {
		options := as(server, "~*", "+@all", "-"+command)
		backend := newStore(t, redis.NewClient(&options))
		defer backend.Close()
		mustTake(t, owner, user, hundred, 1)
		before := []int64{used(t, owner, minute), used(t, owner, hundred)}
		err := backend.Decide(ctx, store.Refund, partly, make([]store.Decision, 2))
		after := []int64{used(t, owner, minute), used(t, owner, hundred)}
		if err == nil && (after[0] >= before[0] || after[1] != 0) || err != nil && !slices.Equal(before, after) {
			t.Errorf("without the right to %s a refund (%v) changed what is used from %d to %d", command, err, before,
				after)
		}
	}
	options := as(server, "~*", "+@all", "-getrange") // which scripts call, and look at its errors
	operator := newStore(t, redis.NewClient(&options))
	defer operator.Close()
	_, err := operator.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, time.Hour)
	checkNamed(t, err, "getrange")
	_, _, err = operator.Delete(ctx, admin.Records(store.Key{Subject: "a", Name: "n"})...)
	checkNamed(t, err, "getrange")
	options = as(server, "~*", "+@all", "-set")
	writer := newStore(t, redis.NewClient(&options))
	defer writer.Close()
	_, err = writer.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, time.Hour)
	checkNamed(t, err, "set")
	_, err = connected(t, server, as(server, "~other:*", "+@all")).Take(ctx, user, hundred, 1)
	if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "rl:{user:42}:token-bucket/366d") {
		t.Errorf("without the right to the key: %v; want an ErrRefused that names it", err)
	}
}

func checkNamed(t *testing.T, err error, command string) {
	t.Helper()
	text := fmt.Sprintf("the user lacks the right to run %s (ACL SETUSER … +%s)", strings.ToUpper(command), command)
	if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), text) {
		t.Errorf("without the right to %s: %v; want an ErrRefused that names it", command, err)
	}
}

// A replica may be about to become a master, and was one, perhaps, a moment ago.
func TestAReplicaDoesNotServeNow(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := strings.Cut(master.Addr, ":")
	replica.Do("REPLICAOF", host, port)
	l := connected(t, replica, redis.Options{MaxRetries: -1})
	_, err := l.Take(ctx, user, hundred, 1)
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "replica") {
		t.Errorf("got %v, want an ErrUnavailable that says it is a replica", err)
	}
}

// A server older than Redis 7 has no EVALSHA_RO; one is asked once.
func TestPeekOnAnOlderServer(t *testing.T) {
	server := redistest.Start(t, "--rename-command", "EVALSHA_RO", "", "--rename-command", "EVAL_RO", "")
	l := connected(t, server, redis.Options{})
	mustTake(t, l, user, hundred, 3)
	for range 3 {
		if got := used(t, l, hundred); got != 3 {
			t.Errorf("%d used, want 3", got)
		}
	}
	if calls := server.CommandCalls("evalsha"); calls < 4 {
		t.Errorf("%d calls of EVALSHA; want the take and three peeks", calls)
	}
}

func TestScanEndsWhenTheCallerDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	pipe := server.Client().Pipeline()
	for i := range 2000 {
		record := crowdRecord(store.Key{Subject: fmt.Sprint("user:", i), Name: "n"}, time.Now().Add(24*time.Hour))
		pipe.Set(ctx, admin.OwnLayout("rl").StoreKey(record.Key), record.Value, time.Hour)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	backend := newStore(t, server.Client())
	cancelled, cancel := context.WithCancel(ctx)
	defer cancel()
	var last error
	n := 0
	for _, err := range backend.Scan(cancelled, admin.Query{Subjects: everyKey}) {
		if n++; n == 10 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || n >= 2000 {
		t.Errorf("a cancelled scan of 2000 keys yields %d and ends with %v", n, last)
	}
}
