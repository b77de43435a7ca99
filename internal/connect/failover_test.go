package connect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const looped = "user:42"

var loopedLimit = store.Limit{Algorithm: store.FixedWindow, Count: 1_000_000, Period: redistest.LongPeriod()}

// loops take one unit after the other, like services and scripts, and record the answers. The answer of an allowed
// take is the usage after it, so all answers of one master differ.
type loops struct {
	t    *testing.T
	url  string
	key  store.Key // for these loops only
	stop chan struct{}
	all  sync.WaitGroup

	mu      sync.Mutex
	allowed map[string]int // by kind of loop
	numbers map[int64]int  // how often each answer came
	unknown int            // takes with an unknown outcome
}

func (l *loops) open() Store {
	backend, _, err := Open(l.url, Options{Prefix: "rl", Timeout: long, ReadFile: os.ReadFile})
	if err != nil {
		panic(err)
	}
	return backend
}

func startLoops(t *testing.T, url, name string) *loops {
	l := &loops{t: t, url: url, key: store.Key{Subject: looped, Name: name}, stop: make(chan struct{}), allowed: map[string]int{},
		numbers: map[int64]int{}}
	lasting := l.open()
	t.Cleanup(func() { lasting.Close() })
	for range 3 {
		l.all.Go(func() { l.run("service", func() error { return l.take("service", lasting) }) })
	}
	l.all.Go(func() {
		l.run("script", func() error { // each take is a run of limitctl consume
			backend := l.open()
			defer backend.Close()
			return l.take("script", backend)
		})
	})
	return l
}

func (l *loops) run(kind string, take func() error) {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		if err := take(); err != nil {
			l.t.Errorf("%s: got %v, want an error that says the store is away", kind, err)
		}
	}
}

func (l *loops) take(kind string, backend Store) error {
	d, err := storecall.New(backend).Take(context.Background(), l.key, loopedLimit, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && !d.Allowed:
		return fmt.Errorf("denied: %+v", d)
	case err == nil:
		l.allowed[kind]++
		l.numbers[d.Used]++
	case errors.Is(err, store.ErrUnavailable):
	case errors.Is(err, store.ErrOutcomeUnknown):
		l.unknown++
	default:
		return err
	}
	return nil
}

// await waits until some more takes of each kind were allowed.
func (l *loops) await() {
	l.t.Helper()
	now := func() (service, script int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.allowed["service"], l.allowed["script"]
	}
	service, script := now()
	for deadline := time.Now().Add(redistest.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if s, c := now(); s >= service+30 && c >= script+10 {
			return
		}
	}
	l.t.Fatal("the loops do not go on")
}

// end stops the loops and checks the record. lossless: the old master handed over all its data.
func (l *loops) end(lossless bool) {
	l.t.Helper()
	close(l.stop)
	l.all.Wait()
	backend := l.open()
	defer backend.Close()
	d, err := storecall.New(backend).Peek(context.Background(), l.key, loopedLimit, 1)
	if err != nil {
		l.t.Fatal(err)
	}
	kept, lost := 0, 0
	for number, times := range l.numbers {
		kept++
		lost += times - 1 // the new master did not know it, and gave it again
		if number > d.Used {
			kept, lost = kept-1, lost+1
		}
		if times > 2 {
			l.t.Errorf("%d was answered %d times", number, times)
		}
	}
	if d.Used < int64(kept) || d.Used > int64(kept+l.unknown) || lossless && lost > 0 {
		l.t.Errorf("%d used, want %d to %d; %d were lost, or admitted twice", d.Used, kept, kept+l.unknown, lost)
	}
}

// Through a failover each take is allowed once and counted once, except those that the old master had not
// replicated, and the loops recover by themselves.
func TestLoopsGoOnThroughAFailover(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartClusterWithReplicas(t)
		url := "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
		slot, err := cluster.SlotOf("{" + looped + "}")
		must(err)
		master, err := cluster.Owner(slot)
		must(err)
		for _, name := range []string{"clean", "killed"} {
			l := startLoops(t, url, name)
			l.await()
			if name == "killed" {
				cluster.Masters[master].Kill()
			}
			must(cluster.Failover(master))
			l.await()
			l.end(name == "clean")
		}
	})
	// A master that Sentinels demote still answers for a moment after its replacement, and then loses these
	// answers.
	for name, failover := range map[string]func(*redistest.Sentinel) (*redistest.Process, error){
		"clean": (*redistest.Sentinel).Failover, "killed": (*redistest.Sentinel).KillMaster,
	} {
		t.Run("sentinel "+name, func(t *testing.T) {
			t.Parallel()
			sentinel := redistest.StartSentinel(t)
			l := startLoops(t, "redis+sentinel://"+strings.Join(sentinel.Addrs(), ",")+"/"+redistest.MasterName, name)
			l.await()
			old, err := failover(sentinel)
			must(err)
			must(sentinel.WaitFailover(old))
			if name == "clean" { // until it is demoted its clients stay connected to it
				client := redis.NewClient(&redis.Options{Network: "unix", Addr: old.Socket, DisableIdentity: true})
				defer client.Close()
				for !strings.Contains(client.Info(context.Background(), "replication").Val(), "role:slave") {
					time.Sleep(5 * time.Millisecond)
				}
			}
			l.await()
			l.end(false)
		})
	}
}
