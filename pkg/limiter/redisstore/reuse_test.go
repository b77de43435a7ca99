package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What a decision works with is used again. Callers that leave at any moment, and answers
// that come when they have left, disturb nobody: each caller has a limit of its own, and
// every answer must be about that one, with the count of its own takes.
func TestMergedCallersThatLeaveDisturbNobody(t *testing.T) {
	server := redistest.Start(t)
	backend := openPatient(t, server)
	l := storecall.New(backend)
	const callers, takes = 48, 400
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			key, limit := store.Key{Subject: fmt.Sprintf("user:%d", i)}, neverLapsing(int64(1_000_000+i))
			least, most := int64(0), int64(0) // what can be in use
			for n := range takes {
				ctx, cancel := context.WithCancel(context.Background())
				if random.IntN(2) == 0 {
					ctx, cancel = context.WithTimeout(context.Background(), time.Duration(random.IntN(1500))*time.Microsecond)
				}
				if i == 0 && n%20 == 0 { // so that whole exchanges are left
					server.Do("EVAL", "for _ = 1, 300000 do end", 0)
				}
				d, err := l.Take(ctx, key, limit, 1)
				cancel()
				switch {
				case err == nil:
					least, most = least+1, most+1
					if !d.Allowed || d.Used < least || d.Used > most || d.Used+d.Remaining != limit.Count {
						t.Errorf("user:%d: %+v; want %d to %d used of %d", i, d, least, most, limit.Count)
						return
					}
					least = d.Used // a take whose outcome is unknown may still come
				case errors.Is(err, store.ErrOutcomeUnknown):
					most++
				case !errors.Is(err, store.ErrGaveUp):
					t.Errorf("user:%d: %v", i, err)
				}
			}
			d, err := l.Peek(context.Background(), key, limit, 1)
			if err != nil || d.Used < least || d.Used > most {
				t.Errorf("user:%d: %d used (%v), want %d to %d", i, d.Used, err, least, most)
			}
		})
	}
	all.Wait()
	awaitState(backend, "", 0, 0)
}
