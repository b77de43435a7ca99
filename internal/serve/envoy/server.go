package envoy

import (
	"context"
	_ "embed"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/rls"
)

// descriptors is the FileDescriptorSet of the services: the published descriptors, with what they need and nothing
// else. The tests with Envoy's client, in docs/envoy-client, write and compare it.
//
//go:embed reflection.pb
var descriptors []byte

// Bounds of what clients can make the server hold.
const (
	messageBytes = 256 << 10 // of a request
	headerBytes  = 16 << 10
	// callWindow and connWindow are what a client may send ahead for a call, and for all calls of a connection.
	callWindow, connWindow = 64 << 10, 1 << 20
	// workers is how many goroutines answer calls, besides new ones if all are busy. A new one has to grow its stack
	// first, which is a fifth of the time of a call.
	workers = 256
	// mostLasting is the most streams that watch the health or ask for descriptors.
	mostLasting = 1000
	// handshakeTime is the time until the client has said that it speaks HTTP/2.
	handshakeTime = 10 * time.Second
	// idleTime is how long a connection may be without a call: Envoy's own bound.
	idleTime = time.Hour
	// A client that is silent for silentTime gets a ping, and has pongTime to answer it.
	silentTime, pongTime = 30 * time.Second, 10 * time.Second
	// pingTime is the least time between two pings of a client that gets no answers.
	pingTime = time.Second
	// ageGrace is the time for the last calls of a connection that has reached its age.
	ageGrace = time.Minute
)

// Server answers the calls of its listeners until it is shut down.
type Server struct {
	*grpc.Server
	options  Options
	answer   func(ctx context.Context, message []byte) ([]byte, error) // of ShouldRateLimit
	health   *health.Server
	lasting  chan struct{} // has an element for each stream that lasts
	stopping context.Context
	stop     context.CancelFunc
	silent   sync.Map // the connections that have sent nothing
	onState  func(net.Conn, http.ConnState)
}

// newServer returns a server that answers ShouldRateLimit with answer.
func newServer(answer func(ctx context.Context, message []byte) ([]byte, error), options Options) *Server {
	s := &Server{options: options, answer: answer, health: health.NewServer()}
	s.lasting = make(chan struct{}, mostLasting)
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.Server = grpc.NewServer(
		grpc.Creds(introduction{insecure.NewCredentials()}),
		grpc.ForceServerCodecV2(rls.Codec{}),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			return status.Error(codes.Unimplemented, "unknown method")
		}),
		grpc.InTapHandle(s.bound),
		grpc.MaxConcurrentStreams(uint32(max(options.Calls, 1))),
		grpc.MaxRecvMsgSize(messageBytes),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.StaticStreamWindowSize(callWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.NumStreamWorkers(workers),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTime, MaxConnectionAge: options.Age, MaxConnectionAgeGrace: ageGrace,
			Time: silentTime, Timeout: pongTime,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingTime, PermitWithoutStream: true}),
	)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: method, Handler: s.shouldRateLimit}},
	}, nil)
	for _, name := range []string{service, peerService} {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(s, &healthServer{Server: s.health})
	if options.Reflection {
		s.reflect()
	}
	return s
}

// shouldRateLimit is the method of the service.
func (s *Server) shouldRateLimit(_ any, ctx context.Context, decode func(any) error, call grpc.UnaryServerInterceptor,
) (any, error) {
	var message []byte
	if err := decode(&message); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{FullMethod: rls.Method}
	return call(ctx, message, info, func(ctx context.Context, _ any) (any, error) {
		if gate := s.options.Gate; gate != nil {
			if !gate.Enter() {
				return nil, status.Error(codes.Unavailable, "too many calls at once")
			}
			defer gate.Leave()
		}
		return s.answer(ctx, message)
	})
}

// reflect tells clients the services and their messages.
func (s *Server) reflect() {
	set := &descriptorpb.FileDescriptorSet{}
	err := proto.Unmarshal(descriptors, set)
	files, failed := protodesc.NewFiles(set)
	if err != nil || failed != nil {
		panic("the descriptors of the program are damaged")
	}
	options := reflection.ServerOptions{Services: s, DescriptorResolver: files}
	reflectionv1.RegisterServerReflectionServer(s, reflection.NewServerV1(options))
	reflectionv1alpha.RegisterServerReflectionServer(s, reflection.NewServer(options))
}

// healthServer does not keep the names that clients make up, as the embedded one does.
type healthServer struct{ *health.Server }

// Watch implements [healthpb.HealthServer].
func (h *healthServer) Watch(r *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	if _, err := h.Check(stream.Context(), r); err != nil {
		return err
	}
	return h.Server.Watch(r, stream)
}

// bound bounds the time of a call, from its headers on. It is called for each, and must be quick.
func (s *Server) bound(ctx context.Context, info *tap.Info) (context.Context, error) {
	if end, bounded := ctx.Deadline(); info.FullMethodName != rls.Method || bounded &&
		time.Until(end) <= s.options.Time {
		return ctx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Time)
	_ = cancel // the end of the call cancels the context above
	return ctx, nil
}

// unary answers a call of one message.
func (s *Server) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (answer any, err error) {
	if from, has := peer.FromContext(ctx); has {
		c := from.AuthInfo.(*conn)
		c.call(1)
		defer c.call(-1)
	}
	err = s.call(ctx, info.FullMethod, info.FullMethod != rls.Method, func() (err error) {
		answer, err = handle(ctx, request)
		return err
	})
	return answer, err
}

// stream answers a call that lasts, which the end of the server does not wait for.
func (s *Server) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	return s.call(stream.Context(), info.FullMethod, server != nil, func() error {
		select {
		case s.lasting <- struct{}{}:
			defer func() { <-s.lasting }()
		default:
			return status.Error(codes.ResourceExhausted, "too many calls that last")
		}
		ended := make(chan error, 1)
		panics.Go(func() error { return handle(server, stream) }, func(err error) { ended <- err })
		select {
		case err := <-ended:
			return err
		case <-s.stopping.Done():
			return status.Error(codes.Unavailable, "the server ends")
		}
	})
}

// call makes a call and tells its end. Unless it is open, it needs what Admits wants.
func (s *Server) call(ctx context.Context, path string, open bool, f func() error) error {
	begun := time.Now()
	var authorization []string
	var err error
	if s.options.Admits != nil {
		if authorization = metadata.ValueFromIncomingContext(ctx, "authorization"); !open {
			err = s.options.Admits(authorization)
		}
	}
	if err == nil {
		if err = panics.Call(f); err != nil {
			err = s.told(err)
		}
	}
	if from, has := peer.FromContext(ctx); has && s.options.OnCall != nil {
		s.options.OnCall(path, status.Code(err), time.Since(begun), from.Addr.String(), authorization)
	}
	return err
}

// told is what the caller is told of an error: nothing of one that is a bug.
func (s *Server) told(err error) error {
	if bug, is := errors.AsType[*panics.Error](err); is && s.options.OnBug != nil {
		s.options.OnBug(bug)
	}
	if _, is := status.FromError(err); is {
		return err
	}
	return status.Error(codes.Internal, "internal error")
}

// Draining tells who watches the health that the server ends.
func (s *Server) Draining() { s.health.Shutdown() }

// ConnState sets a function that gets each connection as active when it gets its first call, and as idle when it has
// none any more. Call it before Serve.
func (s *Server) ConnState(onState func(net.Conn, http.ConnState)) { s.onState = onState }

// Serve answers the connections of a listener.
func (s *Server) Serve(listener net.Listener) error { return s.Server.Serve(&door{listener, s}) }

// Shutdown takes no more connections and calls, and waits for the calls under way, at most until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Draining()
	s.stop()
	s.silent.Range(func(c, _ any) bool { c.(*conn).Close(); return true }) // grpc-go would wait for them
	done := make(chan struct{})
	panics.Go(func() error { s.GracefulStop(); return nil }, func(error) { close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all calls.
func (s *Server) Close() error {
	s.stop()
	s.Stop()
	return nil
}
