package envoyclient

import (
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

var update = flag.Bool("update", false, "write the descriptors that the server answers reflection with")

// The descriptors in the program are the published ones of its services, with nothing that these do not need.
func TestReflectionHasThePublishedDescriptors(t *testing.T) {
	want := published()
	files, err := protodesc.NewFiles(want)
	if err != nil {
		t.Fatal(err)
	}
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		sameFields(t, file.Messages())
		return true
	})
	path := filepath.Join("..", "..", "cmd", "internal", "serve", "envoy", "reflection.pb")
	if *update {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var got descriptorpb.FileDescriptorSet
	text, err := os.ReadFile(path)
	if err == nil {
		err = proto.Unmarshal(text, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&got, want) {
		t.Errorf("%s is not what Envoy publishes; run: go test -run %s -update .", path, t.Name())
	}
}

// sameFields checks that stripped messages have the fields of the published ones.
func sameFields(t *testing.T, messages protoreflect.MessageDescriptors) {
	for i := range messages.Len() {
		message := messages.Get(i)
		published, err := protoregistry.GlobalFiles.FindDescriptorByName(message.FullName())
		if err != nil {
			t.Fatal(err)
		}
		fields := published.(protoreflect.MessageDescriptor).Fields()
		if fields.Len() != message.Fields().Len() {
			t.Errorf("%s has %d fields, and %d are published", message.FullName(), message.Fields().Len(), fields.Len())
			continue
		}
		for j := range fields.Len() {
			want, got := fields.Get(j), message.Fields().Get(j)
			if got.FullName() != want.FullName() || got.Number() != want.Number() || got.Kind() != want.Kind() ||
				got.Cardinality() != want.Cardinality() || got.JSONName() != want.JSONName() || got.IsMap() != want.IsMap() ||
				got.IsPacked() != want.IsPacked() || got.HasPresence() != want.HasPresence() {
				t.Errorf("%v is not the published %v", got, want)
			}
		}
		sameFields(t, message.Messages())
	}
}

// unanswered is the method of a service that the server does not have.
const unanswered = "grpc.health.v1.Health.List"

// published returns the descriptors of the server's services, and of all that they need. Each file comes after its imports.
func published() *descriptorpb.FileDescriptorSet {
	n := needed{}
	set := &descriptorpb.FileDescriptorSet{}
	for _, file := range []protoreflect.FileDescriptor{
		rlsv3.File_envoy_service_ratelimit_v3_rls_proto, health.File_grpc_health_v1_health_proto,
		reflectionv1.File_grpc_reflection_v1_reflection_proto, reflectionv1alpha.File_grpc_reflection_v1alpha_reflection_proto,
	} {
		for i := range file.Services().Len() {
			n.add(file.Services().Get(i))
		}
		n.write(file, set, map[string]bool{})
	}
	return set
}

// needed are the names of the descriptors at the top of files that are kept, with the paths of the files that each names.
type needed map[protoreflect.FullName]map[string]bool

// add adds what d is in, and all that it needs. It returns the path of its file.
func (n needed) add(d protoreflect.Descriptor) string {
	for d.Parent() != d.ParentFile() {
		d = d.Parent()
	}
	path := d.ParentFile().Path()
	if n[d.FullName()] != nil {
		return path
	}
	imports := map[string]bool{}
	n[d.FullName()] = imports
	switch d := d.(type) {
	case protoreflect.MessageDescriptor:
		n.addFields(d, imports)
	case protoreflect.ServiceDescriptor:
		for i := range d.Methods().Len() {
			if method := d.Methods().Get(i); method.FullName() != unanswered {
				imports[n.add(method.Input())] = true
				imports[n.add(method.Output())] = true
			}
		}
	}
	delete(imports, path)
	return path
}

func (n needed) addFields(d protoreflect.MessageDescriptor, imports map[string]bool) {
	for i := range d.Fields().Len() {
		if of := d.Fields().Get(i).Message(); of != nil {
			imports[n.add(of)] = true
		}
		if of := d.Fields().Get(i).Enum(); of != nil {
			imports[n.add(of)] = true
		}
	}
	for i := range d.Messages().Len() {
		n.addFields(d.Messages().Get(i), imports)
	}
}

// write appends the needed part of a file to the set, after its imports, unless it is done.
func (n needed) write(file protoreflect.FileDescriptor, set *descriptorpb.FileDescriptorSet, done map[string]bool) {
	for _, other := range set.File {
		done[other.GetName()] = true
	}
	if done[file.Path()] {
		return
	}
	all := protodesc.ToFileDescriptorProto(file)
	part := &descriptorpb.FileDescriptorProto{Name: all.Name, Package: all.Package, Syntax: all.Syntax}
	imports := map[string]bool{}
	keep := func(name string) bool {
		named, is := n[file.Package().Append(protoreflect.Name(name))]
		for path := range named {
			imports[path] = true
		}
		return is
	}
	for _, d := range all.MessageType {
		if keep(d.GetName()) {
			part.MessageType = append(part.MessageType, d)
		}
	}
	for _, d := range all.EnumType {
		if keep(d.GetName()) {
			part.EnumType = append(part.EnumType, d)
		}
	}
	for _, d := range all.Service {
		if keep(d.GetName()) {
			d.Method = slices.DeleteFunc(d.Method, func(m *descriptorpb.MethodDescriptorProto) bool {
				return file.Package()+"."+protoreflect.FullName(d.GetName()+"."+m.GetName()) == unanswered
			})
			part.Service = append(part.Service, d)
		}
	}
	for i := range file.Imports().Len() {
		if of := file.Imports().Get(i); imports[of.Path()] {
			part.Dependency = append(part.Dependency, of.Path())
			n.write(of.FileDescriptor, set, done)
		}
	}
	strip(part.ProtoReflect())
	set.File = append(set.File, part)
}

// strip removes options, reserved names and numbers, and the names in JSON that follow from others.
func strip(m protoreflect.Message) {
	if d, is := m.Interface().(*descriptorpb.DescriptorProto); is && d.GetOptions().GetMapEntry() {
		d.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	} else if options := m.Descriptor().Fields().ByName("options"); options != nil {
		m.Clear(options)
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Name() == "json_name", strings.HasPrefix(string(field.Name()), "reserved_"):
			m.Clear(field)
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				strip(value.List().Get(i).Message())
			}
		}
		return true
	})
}

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

func TestReflectionIsOff(t *testing.T) {
	r := reflectOn(t, serve(t, once, "--store", "memory:").connect(), "v1")
	r.stream.SendMsg(&reflectionv1.ServerReflectionRequest{})
	if err := r.stream.RecvMsg(&reflectionv1.ServerReflectionResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("answered %v", err)
	}
}
