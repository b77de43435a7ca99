package redisserver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
)

// connect returns both ends of a connection, the first with a budget. What is written to the other is read.
func connect(t *testing.T, budget time.Duration) (net.Conn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	go io.Copy(io.Discard, far)
	return bound(near, budget), far
}

// script and scan are the client's bytes for a script call and for another command.
const (
	script = "*3\r\n$7\r\nevalsha\r\n$1\r\nx\r\n$1\r\n0\r\n"
	scan   = "*2\r\n$4\r\nscan\r\n$1\r\n0\r\n"
)

// An answer later than the budget ends its read. The next exchange has its own budget, and other commands than script
// calls have the client's time-outs.
func TestABudgetIsForOneExchange(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(conn net.Conn) error{
		"looking whether it is sound": func(conn net.Conn) error { return conn.SetDeadline(time.Time{}) },
		"another command":             func(conn net.Conn) error { _, err := io.WriteString(conn, scan); return err },
	} {
		conn, far := connect(t, time.Millisecond)
		for _, patience := range []time.Time{{}, time.Now().Add(time.Hour)} { // without a time-out of the client's, and with one
			io.WriteString(conn, script)
			conn.SetReadDeadline(patience)
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if err := next(conn); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		go io.WriteString(far, "+")
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Errorf("%s: then %v", name, err)
		}
	}
}

// deadlines is a connection that records its write deadline.
type deadlines struct {
	net.Conn
	writing time.Time
}

func (d *deadlines) Write(words []byte) (int, error)    { return len(words), nil }
func (d *deadlines) SetReadDeadline(time.Time) error    { return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.writing = t; return nil }

func TestABudgetKeepsAShorterTimeForWrites(t *testing.T) {
	t.Parallel()
	noted := &deadlines{}
	conn := bound(noted, time.Minute)
	for _, c := range []struct {
		words string
		own   time.Duration // 0 for none
		want  time.Duration
	}{
		{script, 0, time.Minute}, {script, time.Second, time.Second}, {script, time.Hour, time.Minute},
		{scan, time.Second, time.Second}, {script, time.Hour, time.Minute}, {scan, time.Hour, time.Hour},
	} {
		now, own := time.Now(), time.Time{}
		if c.own > 0 {
			own = now.Add(c.own)
		}
		conn.SetWriteDeadline(own)
		io.WriteString(conn, c.words)
		if late := noted.writing.Sub(now.Add(c.want)); late < 0 || late > 10*time.Second {
			t.Errorf("%q with %s of its own: until %s, want %s later than %s", c.words, c.own, noted.writing, c.want, now)
		}
	}
}

// The client checks idle connections before it reuses one. For that they have to be sockets, and they must be found
// healthy, however long ago the budget ended.
func TestTheClientSeesWhichConnectionsAreSound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.Patiently(t, 300*time.Millisecond, func(budget time.Duration) (missing error) {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true, MaxRetries: -1})
		defer client.Close()
		New(client, "").Guard(budget)
		ask := func() error {
			if err := client.EvalSha(context.Background(), "x", nil).Err(); !IsErrorReply(err, "NOSCRIPT") {
				return cmp.Or(err, errors.New("it is answered with success"))
			}
			return nil
		}
		if err := ask(); err != nil {
			return err
		}
		time.Sleep(budget + 50*time.Millisecond) // the budget of the exchange is over, however slow the machine is
		if err := ask(); err != nil {
			return err
		}
		if stats := client.PoolStats(); stats.Misses != 1 || stats.StaleConns != 0 {
			t.Errorf("%d connections were made, and %d given up; want 1 and 0", stats.Misses, stats.StaleConns)
		}
		server.Do("client", "kill", "type", "normal")
		if err := ask(); err != nil { // on a new connection, at once
			return err
		}
		if stats := client.PoolStats(); stats.StaleConns != 1 {
			t.Errorf("%d connections were found dead, want 1", stats.StaleConns)
		}
		return nil
	})
}
