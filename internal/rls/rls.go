// Package rls has the messages of Envoy's rate limit service, for servers and clients.
//
// They are those of envoy/service/ratelimit/v3/rls.proto and envoy/extensions/common/ratelimit/v3/ratelimit.proto,
// read and written by hand, without registration. A registration would make every command start more slowly, and
// could conflict with Envoy's own in a program that has both.
package rls

import (
	"errors"
	"io"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // for the messages of others
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of a request.
const (
	maxDescriptors = 64
	maxEntries     = 64 // of a descriptor
)

// The errors of [ReadRequest].
var (
	errNotAMessage        = errors.New("the request is not a RateLimitRequest")
	ErrTooManyDescriptors = errors.New("the request has too many descriptors; there may be 64")
	ErrTooManyEntries     = errors.New("a descriptor has too many entries; there may be 64")
)

// Request is a RateLimitRequest. Its texts can be any bytes: Envoy passes on header values, which need not be UTF-8.
type Request struct {
	Domain      string
	Descriptors []Descriptor
	Hits        uint32 // 0 means 1
}

// Descriptor is a RateLimitDescriptor.
type Descriptor struct {
	Entries []Entry
	// Limit is the limit in Envoy's route, which replaces the configured one, if HasLimit.
	Limit    LimitOverride
	HasLimit bool
	// Hits replaces the hits of the request for this descriptor, if HasHits; 0 checks without counting.
	Hits    uint64
	HasHits bool
	// Negative: the hits are refunded.
	Negative bool
}

// Text writes a descriptor of a domain as DOMAIN/KEY=VALUE/KEY=VALUE.
func (d *Descriptor) Text(domain string) string {
	for i := range d.Entries {
		domain += "/" + d.Entries[i].Key + "=" + d.Entries[i].Value
	}
	return domain
}

// Entry is an entry of a descriptor.
type Entry struct{ Key, Value string }

// LimitOverride is a number of requests per period.
type LimitOverride struct {
	RequestsPerUnit uint32
	Unit            int32  // see [Period]
	Multiplier      uint32 // of the unit; 0 means 1
}

// read reads a message: fields[0] gets the field with number 1, and so on. A field is a pointer to a number or a text,
// or a function that reads a nested message; nil and further fields are skipped. Of a field that comes again the last
// one counts.
func read(message []byte, fields ...any) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 || number > protowire.MaxValidNumber {
			return errNotAMessage
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return errNotAMessage
		}
		raw := message[:n]
		message = message[n:]
		if int(number) > len(fields) {
			continue
		}
		switch kind {
		case protowire.VarintType:
			value, _ := protowire.ConsumeVarint(raw)
			readVarint(value, fields[number-1])
		case protowire.BytesType:
			text, _ := protowire.ConsumeBytes(raw)
			switch to := fields[number-1].(type) {
			case *string:
				*to = string(text)
			case func([]byte) error:
				if err := to(text); err != nil {
					return err
				}
			}
		default: // a field of another type is not known
		}
	}
	return nil
}

func readVarint(value uint64, field any) {
	switch to := field.(type) {
	case *uint64:
		*to = value
	case *uint32:
		*to = uint32(value)
	case *int32:
		*to = int32(value)
	case *bool:
		*to = value != 0
	case *Code:
		if *to = 0; value <= uint64(OverLimit) { // 0 if it is unknown
			*to = Code(value)
		}
	}
}

// ReadRequest reads a RateLimitRequest.
func ReadRequest(message []byte) (*Request, error) {
	r := &Request{}
	return r, read(message, &r.Domain, func(message []byte) error {
		if len(r.Descriptors) == maxDescriptors {
			return ErrTooManyDescriptors
		}
		r.Descriptors = append(r.Descriptors, Descriptor{})
		return r.Descriptors[len(r.Descriptors)-1].read(message)
	}, &r.Hits)
}

func (d *Descriptor) read(message []byte) error {
	return read(message, func(message []byte) error {
		if len(d.Entries) == maxEntries {
			return ErrTooManyEntries
		}
		d.Entries = append(d.Entries, Entry{})
		e := &d.Entries[len(d.Entries)-1]
		return read(message, &e.Key, &e.Value)
	}, func(message []byte) error {
		d.HasLimit = true
		l := &d.Limit
		return read(message, &l.RequestsPerUnit, &l.Unit, func(message []byte) error { // a google.protobuf.UInt32Value
			return read(message, &l.Multiplier)
		})
	}, func(message []byte) error { // a google.protobuf.UInt64Value
		d.HasHits = true
		return read(message, &d.Hits)
	}, &d.Negative)
}

// AppendRequest appends a RateLimitRequest.
func AppendRequest(to []byte, r *Request) []byte {
	to = appendText(to, 1, r.Domain)
	for i := range r.Descriptors {
		var start int
		to, start = begin(to, 2)
		to = end(r.Descriptors[i].append(to), start)
	}
	return appendVarint(to, 3, uint64(r.Hits))
}

func (d *Descriptor) append(to []byte) []byte {
	var start int
	for i := range d.Entries {
		to, start = begin(to, 1)
		to = end(appendText(appendText(to, 1, d.Entries[i].Key), 2, d.Entries[i].Value), start)
	}
	if d.HasLimit {
		to, start = begin(to, 2)
		to = appendVarint(to, 1, uint64(d.Limit.RequestsPerUnit))
		to = appendVarint(to, 2, uint64(d.Limit.Unit))
		if d.Limit.Multiplier > 0 {
			var wrapped int
			to, wrapped = begin(to, 3)
			to = end(appendVarint(to, 1, uint64(d.Limit.Multiplier)), wrapped)
		}
		to = end(to, start)
	}
	if d.HasHits {
		to, start = begin(to, 3)
		to = end(appendVarint(to, 1, d.Hits), start) // 0 is an empty message
	}
	if d.Negative {
		to = appendVarint(to, 4, 1)
	}
	return to
}

const day = 24 * time.Hour

// units are the units of time by their numbers. A month and a year have the length that
// envoyproxy/ratelimit gives them.
var units = [...]time.Duration{
	1: time.Second, 2: time.Minute, 3: time.Hour, 4: day, 5: 30 * day, 6: 365 * day, 7: 7 * day,
}

// UnitOf returns the unit with exactly that period, or 0 for unknown.
func UnitOf(period time.Duration) int32 {
	for unit, length := range units {
		if length == period && length > 0 {
			return int32(unit)
		}
	}
	return 0
}

// UnitNamed returns the unit of a window of a calendar, as limits have it; 0 for none.
func UnitNamed(window string) int32 {
	return map[string]int32{"1d": 4, "1mo": 5, "1y": 6, "1w": 7}[window]
}

// UnitPeriod returns the length of a unit; 0 for an unknown one.
func UnitPeriod(unit int32) time.Duration {
	if unit < 0 || int(unit) >= len(units) {
		return 0
	}
	return units[unit]
}

// Period returns the limit's period; 0 for an unknown unit, or a period that is too long.
func (l *LimitOverride) Period() time.Duration {
	length, multiplier := UnitPeriod(l.Unit), time.Duration(max(1, l.Multiplier))
	if length == 0 || multiplier > math.MaxInt64/length {
		return 0
	}
	return length * multiplier
}

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
