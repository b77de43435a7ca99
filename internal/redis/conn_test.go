package redisserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
)

// stream is a connection from which one text can be read.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(p []byte) (int, error)        { return s.Reader.Read(p) }
func (s stream) Write(p []byte) (int, error)       { return len(p), nil }
func (s stream) SetReadDeadline(_ time.Time) error { return nil }

func read(answer io.Reader) ([]byte, error) {
	return io.ReadAll(bound(stream{Reader: answer}))
}

// sound are answers of normal servers, which must pass unchanged.
var sound = map[string]string{
	"error":          "-ERR unknown command 'x'\r\n",
	"text":           "$3\r\nabc\r\n",
	"no text":        "$-1\r\n",
	"list":           "*2\r\n$1\r\na\r\n:5\r\n",
	"map":            "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n",
	"longest record": "*4\r\n" + text(12_500_057) + ":-1\r\n" + text(4<<20) + ":-1\r\n",
}

func text(n int) string { return "$" + strconv.Itoa(n) + "\r\n" + strings.Repeat("x", n) + "\r\n" }

// large are the largest answers of normal servers.
func large() map[string]string {
	node := "*4\r\n$15\r\n255.255.255.255\r\n:65535\r\n" + text(40) + "*2\r\n$8\r\nhostname\r\n" + text(30)
	return map[string]string{
		"CLUSTER SLOTS, each slot a range": "*16384\r\n" + strings.Repeat(
			"*5\r\n:16383\r\n:16383\r\n"+strings.Repeat(node, 3), 16384),
		"COMMAND": "*500\r\n" + strings.Repeat("*10\r\n"+text(20)+":-2\r\n~5\r\n"+strings.Repeat("+readonly\r\n", 5)+
			":1\r\n:1\r\n:1\r\n~2\r\n+@read\r\n+@slow\r\n*0\r\n*0\r\n*20\r\n"+strings.Repeat("*2\r\n+a\r\n+b\r\n", 20),
			500),
		"SCAN of long keys":             "*2\r\n$1\r\n0\r\n*1100\r\n" + strings.Repeat(text(2000), 1100),
		"a pipeline of values and TTLs": strings.Repeat(text(512)+":1\r\n:100\r\n", 250),
	}
}

func TestSoundAnswersComeThrough(t *testing.T) {
	all := large()
	maps.Copy(all, sound)
	for name, answer := range all {
		readers := map[string]io.Reader{"whole": strings.NewReader(answer)}
		if len(answer) < 1000 {
			readers["by the byte"] = iotest.OneByteReader(strings.NewReader(answer))
		}
		for how, reader := range readers {
			if got, err := read(reader); err != nil || string(got) != answer {
				t.Errorf("%s, %s: %d of %d bytes, %v", name, how, len(got), len(answer), err)
			}
		}
	}
}

// broken are answers and the errors about them. A bar precedes the wrong line.
var broken = map[string][2]string{
	"text a little too long": {"|$23068673\r\n", "announces 23068673 bytes"},
	"length of many digits":  {"|$99999999999999999999\r\n", `a length of "99999999999999999999"`},
	"endless zeros":          {"|$" + strings.Repeat("0", 100), "more than 21 characters"},
	"list too long":          {"|*2147483647\r\n", "announces 2147483647 values"},
	"map whose double wraps": {"|%9223372036854775807\r\n", "announces 9223372036854775807 values"},
	"nested too deep":        {strings.Repeat("*1\r\n", 16) + "|*1\r\n", "nests lists more than 16 deep"},
	"many lists in a list":   {"*400000\r\n*0\r\n*200000\r\n:1\r\n|*200000\r\n", "goes on after 22 MB"},
	"many texts":             {"*3\r\n" + text(10<<20) + text(10<<20) + "|" + text(10<<20), "goes on after 22 MB"},
	"endless line":           {"|+" + strings.Repeat("x", 100_000), "a line of more than 65536 bytes"},
	"negative length":        {"|$-2\r\n", `a length of "-2"`},
	"streamed text":          {"|$?\r\n;4\r\nabcd\r\n;0\r\n", `a length of "?"`},
	"attribute":              {"||1\r\n+a\r\n:1\r\n+OK\r\n", `begins with "|1`},
	"HTTP":                   {"|HTTP/1.1 400 Bad Request\r\n", `begins with "HTTP/1.1 400`},
	"lone line feed":         {"|+OK\n", "does not end as it should"},
	"text shorter than said": {"$3\r\na\r\n|+OK\r\n", "a text does not end"},
	"push inside":            {"*2\r\n:1\r\n|>1\r\n:1\r\n", "in the middle"},
}

func TestBrokenAnswersEndBeforeTheLine(t *testing.T) {
	for name, c := range broken {
		before, after, _ := strings.Cut(c[0], "|")
		for how, reader := range map[string]io.Reader{
			"whole":       strings.NewReader(before + after),
			"by the byte": bufio.NewReaderSize(strings.NewReader(before+after), 16),
		} {
			conn := bound(stream{Reader: reader})
			got, err := io.ReadAll(conn)
			if _, again := conn.Read(make([]byte, 1)); again != err {
				t.Errorf("%s, %s: then the error is %v", name, how, again)
			}
			var wrong *answerError
			if !errors.As(err, &wrong) || !strings.Contains(wrong.Error(), c[1]) {
				t.Errorf("%s, %s: error %v, want one with %q", name, how, err, c[1])
				continue
			}
			// The end of the wrong line must not pass; without it no client uses the line.
			if rest, ok := bytes.CutPrefix(got, []byte(before)); !ok || bytes.ContainsRune(rest, '\n') {
				t.Errorf("%s, %s: %.50q went through of %.50q", name, how, got, before)
			}
		}
	}
}

// A stream of answers without an end is one exchange, and is bounded.
func TestEachExchangeIsCountedAnew(t *testing.T) {
	answer := text(5 << 20)
	for name, begin := range map[string]func(net.Conn) error{
		"write":    func(c net.Conn) error { _, err := c.Write([]byte("x")); return err },
		"deadline": func(c net.Conn) error { return c.SetReadDeadline(time.Time{}) },
		"neither":  nil,
	} {
		conn := bound(stream{Reader: strings.NewReader(strings.Repeat(answer, 10))})
		room := make([]byte, len(answer))
		var err error
		read := 0
		for ; read < 10 && err == nil; read++ {
			if begin != nil {
				if err := begin(conn); err != nil {
					t.Fatal(err)
				}
			}
			_, err = io.ReadFull(conn, room)
		}
		if want := begin == nil; (err != nil) != want {
			t.Errorf("%s: %d answers, then %v", name, read, err)
		}
	}
}

// The client finds a dead connection before it reuses it. For that it has to be a socket.
func TestTheClientSeesWhichConnectionsAreSound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	New(client, "").Guard()
	for stale := range uint32(2) {
		for range 2 {
			if err := client.Get(t.Context(), "x").Err(); !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
		}
		if stats := client.PoolStats(); stats.Misses != stale+1 || stats.StaleConns != stale {
			t.Errorf("%d connections were made, and %d given up; want %d and %d", stats.Misses, stats.StaleConns,
				stale+1, stale)
		}
		server.Do("client", "kill", "type", "normal")
	}
}
