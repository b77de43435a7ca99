// Package hostile is a Redis server for tests that answers as no server should. It passes
// commands on to a sound server, except those that it is hostile to, which may be all.
package hostile

import (
	"bufio"
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

	"github.com/limitctl/limitctl/internal/goroutines"
)

// A Behaviour is how a server is hostile.
type Behaviour struct {
	Name string
	// Answer writes to a client that has asked for something. When it returns true the
	// connection goes on, and else it is closed.
	Answer func(c *Client) (goOn bool)
	// Greets: it answers before it is asked.
	Greets bool
	// Sound says that RESP allows it: as the answer to some questions it means something.
	Sound bool
	// Spoils says that its answer goes on with others, so that who asks something else over the
	// same connection gets one of those.
	Spoils bool
	// Late says that its answer has no end for as long as anybody waits, so that only time ends it.
	Late bool
	// Usual are commands that it answers as servers of its kind do, though the sound one
	// is not of that kind. Their answers are not hostile.
	Usual map[string]Behaviour
}

// Client is a connection to a hostile server.
type Client struct {
	net.Conn
	// Words are what was asked, and Command the same with the name in capitals.
	Words, Command []string
	// nth counts the answers of the server, of which it is the first, the second, ...
	nth   int
	ended <-chan struct{}
}

// Server is a hostile server.
type Server struct {
	Addr     string
	upstream string
	is       Behaviour
	to       []string
	ended    chan struct{}
	stop     func()
	met      atomic.Int64
	mu       sync.Mutex
	conns    map[net.Conn]bool
	passed   map[string]bool
}

// Start runs a server on a free port of the loopback interface until the test ends. It
// has the answers of the server at upstream, but for commands of those names to which
// it is hostile; without any it is to all.
func Start(tb testing.TB, upstream string, is Behaviour, to ...string) *Server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{Addr: listener.Addr().String(), upstream: upstream, is: is, to: to, ended: make(chan struct{}),
		conns: map[net.Conn]bool{}, passed: map[string]bool{}}
	var serving goroutines.Group
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if !s.keep(conn) {
				conn.Close()
				return
			}
			serving.Go(func() {
				defer s.drop(conn)
				s.serve(conn)
			})
		}
	})
	s.stop = sync.OnceFunc(func() {
		close(s.ended)
		listener.Close()
		s.mu.Lock()
		for conn := range s.conns {
			conn.Close()
		}
		s.conns = nil
		s.mu.Unlock()
		if err := serving.Wait(); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(s.stop)
	return s
}

// Stop ends the server before the test does. A test that starts thousands keeps few open.
func (s *Server) Stop() { s.stop() }

// Met returns how often the server was hostile so far. A test whose server was never met
// has tested nothing: it may have ended before, of a timeout.
func (s *Server) Met() int { return int(s.met.Load()) }

// Passed returns the names of the commands that the sound server has answered, in alphabetical order.
func (s *Server) Passed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.passed))
}

// answer is hostile to a client once.
func (s *Server) answer(client *Client) (goOn bool) {
	client.nth = int(s.met.Add(1))
	return s.is.Answer(client)
}

func (s *Server) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns != nil {
		s.conns[conn] = true
	}
	return s.conns != nil
}

func (s *Server) drop(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	conn.Close()
}

func (s *Server) serve(conn net.Conn) {
	client := &Client{Conn: conn, ended: s.ended}
	if s.is.Greets && !s.answer(client) {
		return
	}
	commands := bufio.NewReader(conn)
	var upstream net.Conn
	var answers *bufio.Reader
	for {
		words, raw, err := readCommand(commands)
		if err != nil {
			return
		}
		client.Words, client.Command = words, slices.Clone(words)
		client.Command[0] = strings.ToUpper(words[0])
		if usual, is := s.is.Usual[client.Command[0]]; is {
			if !usual.Answer(client) {
				return
			}
			continue
		}
		if !s.is.Greets && s.isHostileTo(client.Command[0]) {
			if !s.answer(client) {
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
		s.passed[client.Command[0]] = true
		s.mu.Unlock()
		if _, err := upstream.Write(raw); err != nil {
			return
		}
		answer, err := readAnswer(answers, nil)
		if err != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

func (s *Server) isHostileTo(name string) bool { return len(s.to) == 0 || slices.Contains(s.to, name) }

// readCommand reads what a client asks, and returns its words and its bytes.
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

// readAnswer appends the bytes of one answer of a sound server to raw.
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
