// Package hostile is a Redis server for tests that answers as no server should. It passes commands to a sound
// server, except some or all, to which it is hostile.
package hostile

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/limitctl/limitctl/internal/panics"
)

// A Behaviour is a way to be hostile.
type Behaviour struct {
	Name string
	// Answer answers a command of a client. If it returns true the connection stays open.
	Answer func(c *Client) (goOn bool)
	// Greets: it answers before the first command.
	Greets bool
	// Sound: RESP allows the answer, and to some commands it means something.
	Sound bool
	// Spoils: more answers follow the first, so that the next command on the connection gets one of them.
	Spoils bool
	// Late: the answer never ends, so only a time-out ends it.
	Late bool
	// Usual are commands that it answers like servers of its kind, although the sound one is of another kind. Their
	// answers are not hostile.
	Usual map[string]Behaviour
}

// Client is a connection to a hostile server.
type Client struct {
	net.Conn
	// Words are the words of the command.
	Words []string
	ended <-chan struct{}
}

// Server is a hostile server.
type Server struct {
	Addr     string
	upstream string
	is       Behaviour
	to       []string
	stop     func()
	met      atomic.Int64
	mu       sync.Mutex // guards passed
	passed   map[string]bool
}

// Start runs a server on a free port of the loopback interface until the test ends. It passes commands to the
// server at upstream, and is hostile to those with names in to; without any, to all.
func Start(tb testing.TB, upstream string, is Behaviour, to ...string) *Server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{Addr: listener.Addr().String(), upstream: upstream, is: is, to: to, passed: map[string]bool{}}
	ctx, end := context.WithCancel(context.Background())
	var serving panics.Group
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { conn.Close() })
			serving.Go(func() {
				defer conn.Close()
				s.serve(&Client{Conn: conn, ended: ctx.Done()})
			})
		}
	})
	s.stop = sync.OnceFunc(func() {
		end()
		listener.Close()
		if err := serving.Wait(); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(s.stop)
	return s
}

// Stop ends the server before the test does, for tests that start thousands.
func (s *Server) Stop() { s.stop() }

// Met returns how often the server was hostile so far. If it is 0 the test has tested nothing: it may have ended
// early, for example by a timeout.
func (s *Server) Met() int { return int(s.met.Load()) }

// Passed returns the names of the commands that the sound server has answered, sorted.
func (s *Server) Passed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.passed))
}

// answer gives one hostile answer.
func (s *Server) answer(client *Client) (goOn bool) {
	s.met.Add(1)
	return s.is.Answer(client)
}

func (s *Server) serve(client *Client) {
	if s.is.Greets && !s.answer(client) {
		return
	}
	commands := bufio.NewReader(client)
	var upstream net.Conn
	var answers *bufio.Reader
	for {
		words, raw, err := readCommand(commands)
		if err != nil {
			return
		}
		client.Words = words
		name := strings.ToUpper(words[0])
		answer := s.answer
		if usual, is := s.is.Usual[name]; is {
			answer = usual.Answer
		} else if s.is.Greets || len(s.to) > 0 && !slices.Contains(s.to, name) {
			answer = nil
		}
		if answer != nil {
			if !answer(client) {
				return
			}
			continue
		}
		if upstream == nil {
			if upstream, err = net.Dial("tcp", s.upstream); err != nil {
				return
			}
			defer upstream.Close()
			answers = bufio.NewReader(upstream)
		}
		s.mu.Lock()
		s.passed[name] = true
		s.mu.Unlock()
		if _, err := upstream.Write(raw); err != nil {
			return
		}
		passed, err := readAnswer(answers, nil)
		if err != nil || !client.write(passed) {
			return
		}
	}
}

// readCommand reads a command, and returns its words and its bytes.
func readCommand(r *bufio.Reader) (words []string, raw []byte, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, nil, err
	}
	raw = []byte(line)
	n, err := strconv.Atoi(strings.Trim(line, "*\r\n"))
	if err != nil || n < 1 {
		return nil, nil, fmt.Errorf("%q is not a command", line)
	}
	for range n {
		if line, err = r.ReadString('\n'); err != nil {
			return nil, nil, err
		}
		length, err := strconv.Atoi(strings.Trim(line, "$\r\n"))
		if err != nil {
			return nil, nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, nil, err
		}
		raw = append(append(raw, line...), word...)
		words = append(words, string(word[:length]))
	}
	return words, raw, nil
}

// readAnswer appends one answer of a sound server to raw.
func readAnswer(r *bufio.Reader, raw []byte) ([]byte, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	raw = append(raw, line...)
	n, err := strconv.Atoi(strings.Trim(line[1:], "\r\n"))
	values := n
	switch line[0] {
	case '$', '=', '!':
		if err != nil || n < 0 {
			return raw, err
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return append(raw, text...), err
	case '%':
		values = 2 * n
	case '*', '~', '>':
	default:
		return raw, nil
	}
	for range max(0, values) {
		if raw, err = readAnswer(r, raw); err != nil {
			return nil, err
		}
	}
	return raw, err
}
