package redisserver_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// FuzzAnswers reads any bytes of a server with a client's own reader.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", "$3\r\nabc\r\n", "*2\r\n:1\r\n$-1\r\n", "%1\r\n+a\r\n*0\r\n", ">2\r\n+x\r\n+y\r\n+OK\r\n", "$99999999999\r\n",
		"*2147483647\r\n", "%1073741824\r\n", "|1\r\n+a\r\n+b\r\n+OK\r\n", "*1\r\n*1\r\n*1\r\n", "=5\r\ntxt:a\r\n", "(123\r\n",
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
