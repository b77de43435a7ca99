package redisserver_test

import (
	"context"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/hostile"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

const (
	// inTime is the time for an answer that comes, and briefly for one that does not.
	inTime  = time.Minute
	briefly = 100 * time.Millisecond
	// mostMade is the most bytes that a client allocates to read one answer, including garbage.
	mostMade = 32 << 20
)

// answered reports whether a client takes the first answer for one: what follows it is wrong.
// In version 2, messages to subscribers are answers.
func answered(b hostile.Behaviour, protocol int) bool {
	pushes := []string{"pushes without an end", "large pushes without an end"}
	return b.Spoils || b.Name == "messages without an end" ||
		protocol == 2 && slices.Contains(pushes, b.Name)
}

// Whatever a server answers, a guarded client returns in time, with an error if it is no answer, and allocates
// no more than one answer may cost.
func TestHostileAnswersCostABound(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	sound := redistest.Start(t).Addr
	for _, b := range hostile.Behaviours() {
		for _, protocol := range []int{2, 3} {
			made, err := askedOnce(t, hostile.Start(t, sound, b, "GET"), protocol, b.Greets, b.Late &&
				!answered(b, protocol))
			switch {
			case !b.Sound && answered(b, protocol) != (err == nil):
				t.Errorf("%s, RESP%d: it ends with %v", b.Name, protocol, err)
			case b.Late && err != nil && !strings.Contains(err.Error(), "i/o timeout"):
				t.Errorf("%s, RESP%d: it ends with %v, want a time-out", b.Name, protocol, err)
			case made > mostMade:
				t.Errorf("%s, RESP%d: it made %d MB", b.Name, protocol, made>>20)
			}
		}
	}
}

// askedOnce sends one command, and returns the bytes that were allocated for the answer. With hurries the client
// has a short time-out.
func askedOnce(t *testing.T, server *hostile.Server, protocol int, greets, hurries bool) (made uint64, err error) {
	t.Helper()
	defer server.Stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Protocol: protocol, MaxRetries: -1, ReadTimeout: inTime,
		DialTimeout: inTime, PoolTimeout: inTime, DisableIdentity: true})
	defer client.Close()
	redisserver.New(client, "").Guard()
	if !greets { // otherwise nothing is right from the beginning
		must(t, client.Ping(t.Context()).Err())
	}
	asks := client
	if hurries {
		asks = client.WithTimeout(briefly) // over the same connection
	}
	made = heldBy(func() { err = asks.Do(t.Context(), "GET", "x").Err() })
	return made, err
}

// FuzzAnswers reads any bytes of a server with a client's own reader.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", "$3\r\nabc\r\n", "*2\r\n:1\r\n$-1\r\n", "%1\r\n+a\r\n*0\r\n", ">2\r\n+x\r\n+y\r\n+OK\r\n",
		"$99999999999\r\n",
		"*2147483647\r\n", "%1073741824\r\n", "|1\r\n+a\r\n+b\r\n+OK\r\n", "*1\r\n*1\r\n*1\r\n", "=5\r\ntxt:a\r\n",
		"(123\r\n",
		"#t\r\n", ",inf\r\n", "_\r\n", "!3\r\nERR\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		client := redis.NewClient(&redis.Options{
			Protocol: 2, MaxRetries: -1, ReadTimeout: 50 * time.Millisecond, PoolSize: 1, DisableIdentity: true,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go answerOnce(theirs, answer)
				return ours, nil
			},
		})
		defer client.Close()
		redisserver.New(client, "").Guard()
		took := heldBy(func() {
			ctx := context.Background()
			client.Do(ctx, "anything").Result()
			client.Scan(ctx, 0, "", 0).Result()
			client.ClusterShards(ctx).Result()
			client.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Time(ctx)
				p.GetRange(ctx, "k", 0, 1)
				p.ConfigGet(ctx, "x")
				return nil
			})
		})
		if most := uint64(128 << 20); took > most {
			t.Errorf("%q made it take %d MB", answer, took>>20)
		}
	})
}

// answerOnce answers the first command of a client, and closes.
func answerOnce(conn net.Conn, answer []byte) {
	defer conn.Close()
	conn.Read(make([]byte, 4096))
	conn.Write(answer)
}

// heldBy returns how many bytes f held.
func heldBy(f func()) uint64 {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
