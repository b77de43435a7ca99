package envoyclient

import (
	"context"
	"io"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// reflected is a stream that asks the server for descriptors. Both versions have the same messages.
type reflected struct {
	t      *testing.T
	stream grpc.ClientStream
}

func reflectOn(t *testing.T, conn *grpc.ClientConn, version string) reflected {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/grpc.reflection."+version+".ServerReflection/ServerReflectionInfo")
	if err != nil {
		t.Fatal(err)
	}
	return reflected{t, stream}
}

func (r reflected) ask(request *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
	r.t.Helper()
	answer := &reflectionv1.ServerReflectionResponse{}
	if err := r.stream.SendMsg(request); err != nil {
		r.t.Fatal(err)
	}
	if err := r.stream.RecvMsg(answer); err != nil {
		r.t.Fatal(err)
	}
	if !proto.Equal(answer.OriginalRequest, request) {
		r.t.Errorf("%v is answered as if it were %v", request, answer.OriginalRequest)
	}
	return answer
}

func (r reflected) services() (names []string) {
	answer := r.ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.Name)
	}
	return names
}

// files returns the file with a symbol, and its imports.
func (r reflected) files(symbol string) *protoregistry.Files {
	r.t.Helper()
	answer := r.ask(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}})
	set := &descriptorpb.FileDescriptorSet{}
	for _, text := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(text, file); err != nil {
			r.t.Fatal(err)
		}
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		r.t.Fatalf("%s: %v", symbol, err)
	}
	return files
}

const once = `
policies:
  edge:
    limits:
      - {name: all, by: [user], limit: 1/1h}
envoy:
  edge:
    - {policy: edge, entries: {user: user}}
`

// Who has only the address learns all that a call needs, as grpcurl does.
func TestReflectionIsEnoughForACall(t *testing.T) {
	conn := serve(t, once, "--store", "memory:", "--grpc-reflection").connect()
	for _, version := range []string{"v1", "v1alpha"} {
		r := reflectOn(t, conn, version)
		services := r.services()
		if got, want := strings.Join(services, " "), rlsv3.RateLimitService_ServiceDesc.ServiceName+" grpc.health.v1.Health "+
			"grpc.reflection.v1.ServerReflection grpc.reflection.v1alpha.ServerReflection"; got != want {
			t.Fatalf("%s: the services are %s", version, got)
		}
		for _, name := range services {
			found, err := r.files(name).FindDescriptorByName(protoreflect.FullName(name))
			if err != nil {
				t.Fatal(err)
			}
			if name != services[0] {
				continue
			}
			method := found.(protoreflect.ServiceDescriptor).Methods().ByName("ShouldRateLimit")
			for _, want := range []string{"OK", "OVER_LIMIT"} {
				asked, answer := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
				text := `{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "` + version + `"}]}]}`
				err := protojson.Unmarshal([]byte(text), asked)
				if err == nil {
					err = conn.Invoke(t.Context(), "/"+name+"/ShouldRateLimit", asked, answer)
				}
				code := method.Output().Fields().ByName("overall_code")
				if got := code.Enum().Values().ByNumber(answer.Get(code).Enum()); err != nil || string(got.Name()) != want {
					t.Errorf("%s: answered %v, %v and not %s", version, answer, err, want)
				}
			}
		}
		missing := r.ask(&reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "no.Such"}})
		if e := missing.GetErrorResponse(); codes.Code(e.GetErrorCode()) != codes.NotFound ||
			e.ErrorMessage != `there is no symbol "no.Such"` {
			t.Errorf("%s: what is missing is answered %v", version, missing)
		}
		if err := r.stream.CloseSend(); err != nil {
			t.Error(err)
		}
		if err := r.stream.RecvMsg(missing); err != io.EOF {
			t.Errorf("%s: it ends with %v", version, err)
		}
	}
}
