package rls

import (
	"cmp"
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
	err := read(message, &r.Overall, func(message []byte) error {
		r.Statuses = append(r.Statuses, Status{})
		return r.Statuses[len(r.Statuses)-1].read(message)
	}, func(message []byte) error {
		h, raw := Header{}, ""
		err := read(message, &h.Name, &h.Value, &raw)
		h.Value = cmp.Or(raw, h.Value) // raw_value replaces value
		r.Headers = append(r.Headers, h)
		return err
	})
	if err != nil {
		return nil, ErrNotAResponse
	}
	return r, nil
}

func (s *Status) read(message []byte) error {
	return read(message, &s.Code, func(message []byte) error {
		s.HasLimit = true
		return read(message, &s.RequestsPerUnit, &s.Unit, &s.Name)
	}, &s.Remaining, func(message []byte) error { // a google.protobuf.Duration
		s.HasReset = true
		nanos := uint64(s.ResetNanos)
		err := read(message, &s.ResetSeconds, &nanos)
		s.ResetNanos = uint32(min(nanos, uint64(time.Second-1)))
		return err
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
