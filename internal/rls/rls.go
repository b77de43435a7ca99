// Package rls has the messages of Envoy's rate limit service, for servers and clients.
//
// They are those of envoy/service/ratelimit/v3/rls.proto and envoy/extensions/common/ratelimit/v3/ratelimit.proto,
// read and written by hand, without registration. A registration would make every command start more slowly, and
// could conflict with Envoy's own in a program that has both.
package rls

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of a request.
const (
	MaxDescriptors = 64
	MaxEntries     = 64 // of a descriptor
)

// The errors of [ReadRequest].
var (
	errNotAMessage        = errors.New("the request is not a RateLimitRequest")
	ErrTooManyDescriptors = errors.New("the request has too many descriptors; there may be 64")
	ErrTooManyEntries     = errors.New("a descriptor has too many entries; there may be 64")
)

// Request is a RateLimitRequest. Its texts can be any bytes: Envoy passes on header values, which need not be
// UTF-8.
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

// Entry is an entry of a descriptor.
type Entry struct{ Key, Value string }

// LimitOverride is a number of requests per period.
type LimitOverride struct {
	RequestsPerUnit uint32
	Unit            int32  // see [Period]
	Multiplier      uint32 // of the unit; 0 means 1
}

// field is a field of a message: a varint, or bytes with a length. These messages have no others.
type field struct {
	number protowire.Number
	varint bool
	value  uint64
	bytes  []byte
}

// fields calls each for every field of a message, including unknown ones.
func fields(message []byte, each func(f *field) error) error {
	var f field
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 || number > protowire.MaxValidNumber {
			return errNotAMessage
		}
		message = message[n:]
		f = field{number: number, varint: kind == protowire.VarintType}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
			f.number = 0
		}
		if n < 0 {
			return errNotAMessage
		}
		message = message[n:]
		if err := each(&f); err != nil {
			return err
		}
	}
	return nil
}

// ReadRequest reads a RateLimitRequest.
func ReadRequest(message []byte) (*Request, error) {
	r := &Request{}
	err := fields(message, func(f *field) error {
		switch {
		case f.number == 1 && !f.varint:
			r.Domain = string(f.bytes)
		case f.number == 2 && !f.varint:
			if len(r.Descriptors) == MaxDescriptors {
				return ErrTooManyDescriptors
			}
			r.Descriptors = append(r.Descriptors, Descriptor{})
			return r.Descriptors[len(r.Descriptors)-1].read(f.bytes)
		case f.number == 3 && f.varint:
			r.Hits = uint32(f.value)
		}
		return nil
	})
	return r, err
}

func (d *Descriptor) read(message []byte) error {
	return fields(message, func(f *field) error {
		switch {
		case f.number == 1 && !f.varint:
			if len(d.Entries) == MaxEntries {
				return ErrTooManyEntries
			}
			d.Entries = append(d.Entries, Entry{})
			return d.Entries[len(d.Entries)-1].read(f.bytes)
		case f.number == 2 && !f.varint:
			d.HasLimit = true
			return d.Limit.read(f.bytes)
		case f.number == 3 && !f.varint:
			d.HasHits = true
			return readWrapped(f.bytes, &d.Hits)
		case f.number == 4 && f.varint:
			d.Negative = f.value != 0
		}
		return nil
	})
}

func (e *Entry) read(message []byte) error {
	return fields(message, func(f *field) error {
		switch {
		case f.number == 1 && !f.varint:
			e.Key = string(f.bytes)
		case f.number == 2 && !f.varint:
			e.Value = string(f.bytes)
		}
		return nil
	})
}

func (l *LimitOverride) read(message []byte) error {
	return fields(message, func(f *field) error {
		switch {
		case f.number == 1 && f.varint:
			l.RequestsPerUnit = uint32(f.value)
		case f.number == 2 && f.varint:
			l.Unit = int32(f.value)
		case f.number == 3 && !f.varint:
			multiplier := uint64(l.Multiplier)
			err := readWrapped(f.bytes, &multiplier)
			l.Multiplier = uint32(multiplier)
			return err
		}
		return nil
	})
}

// readWrapped reads a google.protobuf.UInt64Value, or UInt32Value.
func readWrapped(message []byte, to *uint64) error {
	return fields(message, func(f *field) error {
		if f.number == 1 && f.varint {
			*to = f.value
		}
		return nil
	})
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
