package endpoint

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// maxMessage is the longest answer in bytes.
	maxMessage = 1 << 20
	// lineCalls is the most calls at a time on one connection: what most servers allow. More would wait in this
	// program, and count as slow answers.
	lineCalls = 100
	// redial is the time between two attempts to connect.
	redial = 50 * time.Millisecond
)

// line is a connection to the service, which is opened again after it has ended.
type line struct {
	*grpc.ClientConn
	calls  int                   // under way; guarded by the client's mu
	failed atomic.Pointer[error] // of the last attempt to connect
}

// encrypted is the credentials of a connection that is encrypted already, or not at all.
type encrypted struct {
	credentials.TransportCredentials
	protocol string
}

// Info implements [credentials.TransportCredentials].
func (e encrypted) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: e.protocol}
}

// Clone implements [credentials.TransportCredentials].
func (e encrypted) Clone() credentials.TransportCredentials { return e }

// line returns a connection that has room for a call. The caller has to call leave.
func (c *rlsClient) line() (*line, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if l.calls < lineCalls {
			l.calls++
			return l, nil
		}
	}
	l, security := &line{calls: 1}, encrypted{insecure.NewCredentials(), "insecure"}
	if c.isTLS() {
		security.protocol = "tls"
	}
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := c.open(ctx)
		l.failed.Store(&err)
		return conn, err
	}
	var err error
	l.ClientConn, err = grpc.NewClient("passthrough:///"+c.address,
		grpc.WithContextDialer(dial),
		grpc.WithNoProxy(),
		grpc.WithTransportCredentials(security),
		grpc.WithUserAgent(c.UserAgent),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(maxHead),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: c.timeout(),
			Backoff:           backoff.Config{BaseDelay: redial, Multiplier: 1, MaxDelay: redial},
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rls.Codec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, &sendError{text: "the connection failed", kind: store.ErrUnavailable, cause: err}
	}
	c.lines = append(c.lines, l)
	return l, nil
}

func (c *rlsClient) leave(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.calls--
}

// Close implements [Client].
func (c *rlsClient) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		l.ClientConn.Close()
	}
	c.lines = nil
	return nil
}

// call makes a gRPC call. It fills in the times, the status and, if the call failed, the outcome and the reason.
// Otherwise it returns the answer's message.
func (c *rlsClient) call(ctx context.Context, message []byte, answer *Answer) (response []byte, err error) {
	*answer = Answer{}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	l, err := c.line()
	if err != nil {
		return nil, err
	}
	defer c.leave(l)
	for is := l.GetState(); is == connectivity.Idle || is == connectivity.Connecting; is = l.GetState() {
		if l.Connect(); !l.WaitForStateChange(ctx, is) { // the time of a call has none to connect
			break
		}
	}
	var head, trailer metadata.MD
	var service peer.Peer
	answer.Sent = time.Now()
	err = l.Invoke(metadata.NewOutgoingContext(ctx, c.metadata), rls.Method, message, &response, grpc.Header(&head),
		grpc.Trailer(&trailer), grpc.Peer(&service))
	end := status.Convert(err)
	why := end.Message()
	isHTTP := strings.HasPrefix(why, "unexpected HTTP status code")
	if isHTTP {
		why, _, _ = strings.Cut(why, ";") // after that comes the body
	}
	switch {
	case err == nil:
		answer.Answered = time.Now()
		return response, nil
	case isHTTP || len(head)+len(trailer) > 0:
		answer.Answered, answer.Outcome, answer.Status = time.Now(), Failed, int(end.Code())
		answer.Reason = "answered " + StatusText(answer.Status)
		if why != "" {
			answer.Reason += ": " + why
		}
		return nil, nil
	case service.Addr == nil: // there was no connection
		answer.Sent = time.Time{}
		if why := l.failed.Load(); why != nil && *why != nil {
			return nil, *why
		}
		return nil, failed(ctx, connecting, io.EOF)
	case end.Code() == codes.Unavailable:
		return nil, failed(ctx, awaiting, io.EOF)
	}
	return nil, failed(ctx, awaiting, err)
}
