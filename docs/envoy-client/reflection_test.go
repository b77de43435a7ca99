package envoyclient

import (
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Who has only the address learns all that a call needs, as grpcurl does. Both versions have the same messages.
func TestReflectionIsEnoughForACall(t *testing.T) {
	conn := serve(t, configuration, "--store", "memory:", "--grpc-reflection").connect()
	service := rlsv3.RateLimitService_ServiceDesc.ServiceName
	for _, version := range []string{"v1", "v1alpha"} {
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
			"/grpc.reflection."+version+".ServerReflection/ServerReflectionInfo")
		if err != nil {
			t.Fatal(err)
		}
		answers := make([]reflectionv1.ServerReflectionResponse, 2)
		for i, request := range []*reflectionv1.ServerReflectionRequest{
			{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}},
			{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}},
		} {
			if err := stream.SendMsg(request); err != nil {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(&answers[i]); err != nil || !proto.Equal(answers[i].OriginalRequest, request) {
				t.Fatalf("%v is answered %v, %v", request, &answers[i], err)
			}
		}
		if listed := answers[0].GetListServicesResponse().GetService(); len(listed) != 4 || listed[0].Name != service {
			t.Fatalf("%s: the services are %v", version, listed)
		}
		set := &descriptorpb.FileDescriptorSet{}
		for _, text := range answers[1].GetFileDescriptorResponse().GetFileDescriptorProto() {
			file := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(text, file); err != nil {
				t.Fatal(err)
			}
			set.File = append(set.File, file)
		}
		files, err := protodesc.NewFiles(set) // which needs all imports
		if err != nil {
			t.Fatal(err)
		}
		found, err := files.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil {
			t.Fatal(err)
		}
		method := found.(protoreflect.ServiceDescriptor).Methods().ByName("ShouldRateLimit")
		asked, answer := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
		err = protojson.Unmarshal([]byte(
			`{"domain": "edge", "descriptors": [{"entries": [{"key": "tenant", "value": "a"}]}]}`), asked)
		if err == nil {
			err = conn.Invoke(t.Context(), "/"+service+"/ShouldRateLimit", asked, answer)
		}
		code := method.Output().Fields().ByName("overall_code")
		if got := code.Enum().Values().ByNumber(answer.Get(code).Enum()); err != nil || got.Name() != "OK" {
			t.Errorf("%s: answered %v, %v", version, answer, err)
		}
	}
}
