package rls

import (
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // for the messages of others
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/mem"
)

// gRPC's own log would be among the output of the program.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }

// Method is the path of the method of the service.
const Method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// codeWords are the codes of gRPC in its documents.
var codeWords = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// CodeWord returns the name of a gRPC code in its documents. That of an unknown code is UNKNOWN.
func CodeWord(code codes.Code) string {
	if int(code) >= len(codeWords) {
		code = codes.Unknown
	}
	return codeWords[code]
}

// Codec is a codec of gRPC that passes on a message of this package as its bytes: it writes a []byte, and reads into
// a *[]byte. Other messages are written and read as protobuf does.
type Codec struct{}

// Name implements [encoding.CodecV2].
func (Codec) Name() string { return "proto" }

// Marshal implements [encoding.CodecV2].
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if message, is := v.([]byte); is {
		return mem.BufferSlice{mem.SliceBuffer(message)}, nil
	}
	return encoding.GetCodecV2(c.Name()).Marshal(v)
}

// Unmarshal implements [encoding.CodecV2].
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if message, is := v.(*[]byte); is {
		*message = data.Materialize()
		return nil
	}
	return encoding.GetCodecV2(c.Name()).Unmarshal(data, v)
}
