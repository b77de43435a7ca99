package redisserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// conn is a connection whose answers are bounded in size while they are read, see scanner: a client allocates what an
// answer announces before it arrives, so one line of twenty bytes could fill the machine's memory.
type conn struct {
	net.Conn
	scanner scanner
	broken  error
	heard   bool // something was answered
	// asked is set when an exchange begins: something was written, or a deadline was set. Then the cost is counted
	// from zero. One goroutine can write while another reads.
	asked atomic.Bool
}

// socketConn is a conn of a socket, unlike one inside TLS. The client checks sockets before it reuses them, so it never
// sends on one that the server has closed.
type socketConn struct {
	*conn
	syscall.Conn
}

// bound returns a connection with bounds. It must speak RESP from its first byte on.
func bound(of net.Conn) net.Conn {
	c := &conn{Conn: of}
	if socket, ok := of.(syscall.Conn); ok {
		return &socketConn{c, socket}
	}
	return c
}

// NetConn returns the connection inside, like crypto/tls.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read implements [net.Conn]. It returns the bytes before the line that exceeds a bound, so that complete answers
// to other commands before it still count.
func (c *conn) Read(p []byte) (int, error) {
	if c.broken != nil {
		return 0, c.broken
	}
	n, err := c.Conn.Read(p)
	if err := c.hungUp(err); err != nil {
		return 0, err
	}
	c.heard = c.heard || n > 0
	if c.asked.Swap(false) {
		c.scanner.spent = 0
	}
	sound, broken := c.scanner.scan(p[:n])
	if broken != nil {
		c.broken = broken
		return sound, broken
	}
	return n, err
}

// Write implements [net.Conn]. A server that wants a client's certificate hangs up after the handshake, and its reason
// is lost if this client was writing.
func (c *conn) Write(words []byte) (int, error) {
	c.asked.Store(true)
	n, err := c.Conn.Write(words)
	if _, plain := c.Conn.(*net.TCPConn); !plain {
		err = cmp.Or(c.hungUp(err), err)
	}
	return n, err
}

// hungUp returns what can be wrong if a server ends a connection before it has answered anything, and nil for
// another error.
func (c *conn) hungUp(err error) error {
	var tlsError *net.OpError // a TLS alert says the reason
	alert := errors.As(err, &tlsError) && tlsError.Op == "remote error"
	if c.heard || err == nil || alert || sys.IsTimeout(err) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	switch c.Conn.(type) {
	case *net.TCPConn:
		return netError(errHungUp)
	case *tls.Conn:
		return netError(errNoCertificate)
	}
	return nil
}

// SetReadDeadline implements [net.Conn]. A client sets it once for all answers of a pipeline; a subscriber, which
// writes nothing, sets it for each message.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.asked.Store(true)
	return c.Conn.SetReadDeadline(t)
}

// A port of the other protocol answers nothing: one with TLS hangs up, and one without waits for more.
var (
	errHungUp        = errors.New("it hung up before any answer; does the port speak TLS?")
	errNoCertificate = errors.New("it hung up before any answer; is a client's certificate required (tls_cert, " +
		"tls_key)?")
	errNoHandshake = errors.New("no answer to the TLS handshake in time; does the port speak TLS?")
	errNoTLS       = errors.New("the port does not speak TLS")
)

// dialError returns an error of dialing, which says what can be wrong with a TLS handshake.
func dialError(err error) error {
	var dial *net.OpError
	var header tls.RecordHeaderError
	switch {
	case store.IsAway(err) || errors.Is(err, store.ErrRefused): // it is the limiter's, about Sentinels
	case errors.As(err, &header):
		return netError(errNoTLS)
	case sys.IsTimeout(err) && !errors.As(err, &dial): // it is not about the connection
		return netError(errNoHandshake)
	}
	return err
}

func netError(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }

const (
	// mostMemory is the most bytes that the answers of one exchange may cost: enough for the longest record (12.5 MB)
	// and the 4 MB of others that a script returns with it, or for a Cluster in which each slot is its own range.
	mostMemory = 22 << 20
	// valueCost is the cost of any value in addition to its bytes, and mapCost that of a map in addition to its values:
	// a client allocates 16 to 40 bytes per element of a list, and up to 80 per entry of a map, which is two values.
	valueCost = 32
	mapCost   = 320
	// longestLine is the longest line that does not announce its length. Servers cut the texts of their errors at a
	// few hundred bytes.
	longestLine = 64 << 10
	// deepest is the deepest nesting of lists. Redis needs about six; each level is a nested call in the client.
	deepest = 16
)

// wrong returns why a client must not read on.
func wrong(format string, args ...any) error {
	return &answerError{"its answer is not one that Redis gives: " + fmt.Sprintf(format, args...)}
}

// scanner follows a stream of RESP values, of version 2 or 3, without storing any.
type scanner struct {
	spent   int64 // the cost of the values in this exchange
	payload int64 // the remaining bytes of a text, including its line end

	kind   byte     // of the current line; 0 between lines
	line   int      // bytes of it read after the kind
	last   byte     // the last of them
	length [21]byte // the length that it announces: what does not fit is more than an int64

	depth int
	open  [deepest]int64 // the remaining values of each enclosing list
}

// The kinds of lines that are values themselves, and of those that announce the length of a text or of a list.
const (
	simpleKinds = "+-:,#_("
	textKinds   = "$!="
	listKinds   = "*~%>"
)

func isOneOf(kinds string, kind byte) bool { return strings.IndexByte(kinds, kind) >= 0 }

// scan checks the next bytes. On an error it returns how many of them are sound: those before the end of the wrong
// line.
func (s *scanner) scan(p []byte) (sound int, err error) {
	for i := 0; i < len(p); {
		n := 1
		switch {
		case s.payload > 2: // the text itself does not matter
			n = int(min(s.payload-2, int64(len(p)-i)))
			s.payload -= int64(n)
		case s.payload > 0:
			if p[i] != "\n\r"[s.payload-1] {
				return i, wrong("a text does not end where it should")
			}
			if s.payload--; s.payload == 0 {
				s.valueEnds()
			}
		case s.kind == 0:
			err = s.begin(p[i:])
		case isOneOf(simpleKinds, s.kind):
			n, err = s.simple(p[i:])
		case p[i] == '\n':
			err = s.announced()
		case s.line == len(s.length):
			err = wrong("it announces a length of more than %d characters", len(s.length))
		default:
			s.length[s.line] = p[i]
			s.line++
		}
		if err != nil {
			return i, err
		}
		i += n
	}
	return len(p), nil
}

// begin reads the first byte of a line.
func (s *scanner) begin(p []byte) error {
	switch s.kind, s.line, s.last = p[0], 0, p[0]; {
	case s.kind == '>' && s.depth > 0:
		return wrong("it has a message to subscribers in the middle")
	case isOneOf(simpleKinds, s.kind), isOneOf(textKinds, s.kind), isOneOf(listKinds, s.kind):
		return nil
	}
	// Attributes ('|') are among these: Redis sends them only on request, and clients read any number of them
	// before an answer.
	return wrong("a value begins with %q", p[:min(len(p), 12)])
}

// simple reads a part of a line that is a value itself.
func (s *scanner) simple(p []byte) (n int, err error) {
	part, _, ended := bytes.Cut(p, []byte("\n"))
	if s.line += len(part); s.line > longestLine {
		return 0, wrong("it has a line of more than %d bytes", longestLine)
	}
	if len(part) > 0 {
		s.last = part[len(part)-1]
	}
	switch {
	case !ended:
		return len(part), nil
	case s.last != '\r':
		return 0, wrong("a line does not end as it should")
	}
	s.valueEnds()
	return len(part) + 1, s.spend(int64(s.line))
}

// announced handles the end of a line that announces a length.
func (s *scanner) announced() error {
	text, ended := bytes.CutSuffix(s.length[:s.line], []byte("\r"))
	length, err := strconv.ParseInt(string(text), 10, 64)
	isText, isNil := isOneOf(textKinds, s.kind), string(text) == "-1" && (s.kind == '$' || s.kind == '*')
	switch {
	case isNil && ended:
		s.valueEnds()
		return nil
	case !ended || err != nil || text[0] < '0' || text[0] > '9':
		return wrong("it announces a length of %q", text)
	}
	cost, values, unit := length, length, "bytes"
	if !isText {
		unit = "values"
	}
	switch {
	case length > mostMemory: // what follows would not fit
	case s.kind == '%':
		values *= 2
		cost = mapCost + values*valueCost
	case !isText:
		cost = (1 + values) * valueCost
	}
	if cost > mostMemory {
		return wrong("it announces %d %s", length, unit)
	}
	switch {
	case isText:
		s.kind, s.payload = 0, length+2
	case values == 0:
		s.valueEnds()
	case s.depth == deepest:
		return wrong("it nests lists more than %d deep", deepest)
	default:
		s.kind = 0
		s.open[s.depth] = values
		s.depth++
	}
	return s.spend(cost)
}

// spend adds the cost of a value.
func (s *scanner) spend(cost int64) error {
	if s.spent += cost; s.spent > mostMemory {
		return wrong("it goes on after %d MB", mostMemory>>20)
	}
	return nil
}

// valueEnds handles the end of a value, and perhaps of lists around it.
func (s *scanner) valueEnds() {
	s.kind = 0
	for s.depth > 0 {
		if s.open[s.depth-1]--; s.open[s.depth-1] > 0 {
			return
		}
		s.depth--
	}
}

// Guard bounds the harm that broken or hostile servers can do to the client. If an answer is not Redis' protocol, or
// announces more than 22 MB for one exchange, the connection ends before memory is allocated for it. A panic of the
// client becomes an error of the command. Errors never contain what the client's provider gives it for a login. Call it
// before the first use of the client: it does not cover existing connections and nodes, nor subscriptions.
func (s *Servers) Guard() {
	hook := guard{s.secrets}
	s.client.AddHook(hook)
	if s.cluster != nil { // its own hook is for panics before a node is reached
		s.cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
	}
}

// guard is a [redis.Hook] for new connections.
type guard struct{ secrets *redact.Secrets }

// DialHook implements [redis.Hook].
func (guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, dialError(err)
		}
		return bound(conn), nil
	}
}

// ProcessHook implements [redis.Hook].
func (g guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return g.run([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (g guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return g.run(cmds, func() error { return next(ctx, cmds) })
	}
}

// run calls process with the commands.
func (g guard) run(cmds []redis.Cmder, process func() error) (err error) {
	defer func() {
		if isPanic(err) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
	}()
	defer panics.Catch(&err)
	for _, cmd := range cmds {
		g.learn(cmd)
	}
	return process()
}

// learn records the password of AUTH [user] password and of HELLO version AUTH user password.
func (g guard) learn(cmd redis.Cmder) {
	name := cmd.Name()
	if name != "hello" && name != "auth" {
		return // do not read its arguments: a take would then count as sent
	}
	words := cmd.Args()
	at := len(words) - 1
	if name == "hello" {
		at = 4
	}
	if at < len(words) {
		if password, is := words[at].(string); is {
			g.secrets.Learn(password)
		}
	}
}

func isPanic(err error) bool {
	var panicked *panics.Error
	return err != nil && errors.As(err, &panicked)
}

// PassHook is a [redis.Hook] that changes nothing. Hooks embed it for what they leave as it is.
type PassHook struct{}

// DialHook implements [redis.Hook].
func (PassHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (PassHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (PassHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
