package rls

import (
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrNotAResponse is the error of [ReadResponse].
var ErrNotAResponse = errors.New("the answer is not a RateLimitResponse")

// Code is a RateLimitResponse.Code.
type Code uint8

// The codes.
const (
	OK        Code = 1
	OverLimit Code = 2
)

// Response is a RateLimitResponse.
type Response struct {
	Overall  Code
	Statuses []Status
	// Headers are its response_headers_to_add.
	Headers []Header
}

// Header is a header field that the service adds to the client's response.
type Header struct{ Name, Value string }

// Status is a DescriptorStatus.
type Status struct {
	Code Code
	// The name, the requests and the unit belong to one limit, if HasLimit.
	HasLimit        bool
	Name            string
	RequestsPerUnit uint32
	Unit            int32 // see [UnitOf] and [UnitPeriod]
	Remaining       uint32
	// ResetSeconds and ResetNanos are its duration_until_reset, if HasReset.
	HasReset     bool
	ResetSeconds uint64
	ResetNanos   uint32
}

// ResetAfter returns the duration until the reset, at most the longest Duration.
func (s *Status) ResetAfter() time.Duration {
	if seconds := s.ResetSeconds; seconds > math.MaxInt64 { // negative
		return 0
	} else if seconds >= uint64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(s.ResetSeconds)*time.Second + time.Duration(s.ResetNanos)
}

// AppendOverall appends the field overall_code of a RateLimitResponse.
func AppendOverall(to []byte, code Code) []byte { return appendVarint(to, 1, uint64(code)) }

// AppendStatus appends one of the statuses of a RateLimitResponse.
func AppendStatus(to []byte, s *Status) []byte {
	to, whole := begin(to, 2)
	to = appendVarint(to, 1, uint64(s.Code))
	if s.HasLimit {
		var start int
		to, start = begin(to, 2)
		to = appendVarint(to, 1, uint64(s.RequestsPerUnit))
		to = appendVarint(to, 2, uint64(s.Unit))
		to = end(appendText(to, 3, s.Name), start)
	}
	to = appendVarint(to, 3, uint64(s.Remaining))
	if s.HasReset {
		var start int
		to, start = begin(to, 4)
		to = end(appendVarint(appendVarint(to, 1, s.ResetSeconds), 2, uint64(s.ResetNanos)), start)
	}
	return end(to, whole)
}

// ReadResponse reads a RateLimitResponse, or returns an [ErrNotAResponse].
func ReadResponse(message []byte) (*Response, error) {
	r := &Response{}
	err := fields(message, func(f *field) error {
		switch {
		case f.number == 1 && f.varint:
			r.Overall = codeOf(f.value)
		case f.number == 2 && !f.varint:
			r.Statuses = append(r.Statuses, Status{})
			return r.Statuses[len(r.Statuses)-1].read(f.bytes)
		case f.number == 3 && !f.varint:
			r.Headers = append(r.Headers, Header{})
			return r.Headers[len(r.Headers)-1].read(f.bytes)
		}
		return nil
	})
	if err != nil {
		return nil, ErrNotAResponse
	}
	return r, nil
}

// codeOf returns the code of a number, 0 if it is unknown.
func codeOf(value uint64) Code {
	if value > uint64(OverLimit) {
		return 0
	}
	return Code(value)
}

func (s *Status) read(message []byte) error {
	return fields(message, func(f *field) error {
		switch {
		case f.number == 1 && f.varint:
			s.Code = codeOf(f.value)
		case f.number == 2 && !f.varint:
			s.HasLimit = true
			return s.readLimit(f.bytes)
		case f.number == 3 && f.varint:
			s.Remaining = uint32(f.value)
		case f.number == 4 && !f.varint:
			s.HasReset = true
			return s.readReset(f.bytes)
		}
		return nil
	})
}

func (s *Status) readLimit(message []byte) error {
	return fields(message, func(f *field) error {
		switch {
		case f.number == 1 && f.varint:
			s.RequestsPerUnit = uint32(f.value)
		case f.number == 2 && f.varint:
			s.Unit = int32(f.value)
		case f.number == 3 && !f.varint:
			s.Name = string(f.bytes)
		}
		return nil
	})
}

// readReset reads a google.protobuf.Duration.
func (s *Status) readReset(message []byte) error {
	return fields(message, func(f *field) error {
		switch {
		case f.number == 1 && f.varint:
			s.ResetSeconds = f.value
		case f.number == 2 && f.varint:
			s.ResetNanos = uint32(min(f.value, uint64(time.Second-1)))
		}
		return nil
	})
}

func (h *Header) read(message []byte) error {
	return fields(message, func(f *field) error {
		switch {
		case f.number == 1 && !f.varint:
			h.Name = string(f.bytes)
		case f.number == 2 && !f.varint, f.number == 3 && !f.varint && len(f.bytes) > 0: // raw_value replaces value
			h.Value = string(f.bytes)
		}
		return nil
	})
}

// AppendHeader appends one of the response_headers_to_add of a RateLimitResponse.
func AppendHeader(to []byte, name, value string) []byte {
	to, start := begin(to, 3)
	return end(appendText(appendText(to, 1, name), 2, value), start)
}

func appendVarint(to []byte, number protowire.Number, value uint64) []byte {
	if value == 0 {
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), value)
}

func appendText(to []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return to
	}
	return protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), text)
}

// begin begins a nested message. end fills in its length.
func begin(to []byte, number protowire.Number) (_ []byte, start int) {
	to = append(protowire.AppendTag(to, number, protowire.BytesType), 0)
	return to, len(to)
}

// end ends the message that began at start. A length of more than a byte moves the content.
func end(to []byte, start int) []byte {
	n := len(to) - start
	more := protowire.SizeVarint(uint64(n)) - 1
	for range more {
		to = append(to, 0)
	}
	if more > 0 {
		copy(to[start+more:], to[start:start+n])
	}
	protowire.AppendVarint(to[:start-1], uint64(n))
	return to
}
