package connect

import (
	"context"
	"errors"
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
	errors  map[string]int
}

func startLoops(t *testing.T, url, name string) *loops {
	t.Helper()
	l := &loops{t: t, url: url, key: store.Key{Subject: looped, Name: name}, stop: make(chan struct{}), allowed: map[string]int{},
		numbers: map[int64]int{}, errors: map[string]int{}}
	options := Options{Prefix: "rl", Timeout: long, ReadFile: os.ReadFile} // nothing hangs in this test
	open := func() (Store, error) { backend, _, err := Open(url, options); return backend, err }
	lasting, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lasting.Close() })
	for range 6 {
		l.run("service", func() (Store, func(), error) { return lasting, func() {}, nil })
	}
	l.run("script", func() (Store, func(), error) { // each take is a run of limitctl consume
		backend, err := open()
		if err != nil {
			return nil, nil, err
		}
		return backend, func() { backend.Close() }, nil
	})
	return l
}

func (l *loops) run(kind string, open func() (Store, func(), error)) {
	l.all.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			default:
			}
			backend, done, err := open()
			if err != nil {
				l.t.Errorf("opening the store: %v", err)
				return
			}
			d, err := storecall.New(backend).Take(context.Background(), l.key, loopedLimit, 1)
			done()
			l.mu.Lock()
			switch {
			case err == nil && d.Allowed:
				l.allowed[kind]++
				l.numbers[d.Used]++
			case err == nil:
				l.t.Errorf("denied: %+v", d)
			case errors.Is(err, store.ErrOutcomeUnknown) && !errors.Is(err, store.ErrUnavailable):
				l.unknown++
			case errors.Is(err, store.ErrUnavailable):
			default:
				l.t.Errorf("got %v, want an error that says the store is away", err)
			}
			if err != nil {
				text, _, _ := strings.Cut(err.Error(), ":")
				l.errors[text]++
			}
			l.mu.Unlock()
		}
	})
}

// await waits until that many more takes of each kind were allowed.
func (l *loops) await(more int) {
	l.t.Helper()
	now := func() (service, script int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.allowed["service"], l.allowed["script"]
	}
	service, script := now()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if s, c := now(); s >= service+more && c >= script+more {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Fatalf("the loops do not go on: %v allowed, errors %v", l.allowed, l.errors)
}

// end stops the loops and checks the record. lossless: the old master handed over all its data.
func (l *loops) end(lossless bool) {
	l.t.Helper()
	close(l.stop)
	l.all.Wait()
	backend, _, err := Open(l.url, Options{Prefix: "rl", Timeout: long, ReadFile: os.ReadFile})
	if err != nil {
		l.t.Fatal(err)
	}
	defer backend.Close()
	d, err := storecall.New(backend).Peek(context.Background(), l.key, loopedLimit, 1)
	if err != nil {
		l.t.Fatal(err)
	}
	acknowledged, lost := 0, 0
	for number, times := range l.numbers {
		acknowledged += times
		lost += times - 1 // the new master did not know it, and gave it again
		if number > d.Used {
			lost++ // it was lost
		}
		if times > 2 {
			l.t.Errorf("%d was answered %d times", number, times)
		}
	}
	l.t.Logf("%d allowed, %d unknown, %d lost with the master, %d used; errors %v", acknowledged, l.unknown, lost, d.Used, l.errors)
	if least, most := int64(acknowledged-lost), int64(acknowledged-lost+l.unknown); d.Used < least || d.Used > most {
		l.t.Errorf("%d used, want %d to %d: %d allowed, %d lost with the master, %d unknown", d.Used, least, most, acknowledged, lost,
			l.unknown)
	}
	if lossless && lost > 0 {
		l.t.Errorf("%d takes were lost, or admitted twice", lost)
	}
}

// Through a failover each take is allowed once and counted once, except those that the old master had not
// replicated, and the loops recover by themselves.
func TestLoopsGoOnThroughAFailover(t *testing.T) {
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.StartClusterWithReplicas(t)
		url := "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
		slot, err := cluster.SlotOf("{" + looped + "}")
		if err != nil {
			t.Fatal(err)
		}
		master, err := cluster.Owner(slot)
		if err != nil {
			t.Fatal(err)
		}
		l := startLoops(t, url, "clean")
		l.await(50)
		if err := cluster.Failover(master); err != nil {
			t.Fatal(err)
		}
		l.await(50)
		l.end(true)

		l = startLoops(t, url, "killed")
		l.await(50)
		cluster.Masters[master].Kill()
		if err := cluster.Failover(master); err != nil {
			t.Fatal(err)
		}
		l.await(50)
		l.end(false)
	})
	// A master that Sentinels demote still answers for a moment after its replacement, and then loses these
	// answers.
	for name, failover := range map[string]func(*redistest.Sentinel) (*redistest.Process, error){
		"clean": (*redistest.Sentinel).Failover, "killed": (*redistest.Sentinel).KillMaster,
	} {
		t.Run("sentinel "+name, func(t *testing.T) {
			sentinel := redistest.StartSentinel(t)
			l := startLoops(t, "redis+sentinel://"+strings.Join(sentinel.Addrs(), ",")+"/"+redistest.MasterName, name)
			l.await(50)
			old, err := failover(sentinel)
			if err != nil {
				t.Fatal(err)
			}
			if err := sentinel.WaitFailover(old); err != nil {
				t.Fatal(err)
			}
			if name == "clean" {
				awaitDemotion(t, old) // until then its clients stay connected to it
			}
			l.await(50)
			l.end(false)
		})
	}
}

func awaitDemotion(t *testing.T, old *redistest.Process) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: old.Socket, DisableIdentity: true})
	defer client.Close()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if text, err := client.Info(context.Background(), "replication").Result(); err == nil && strings.Contains(text, "role:slave") {
			return
		}
	}
	t.Fatal("the old master is not demoted")
}
