package rls

import "google.golang.org/protobuf/encoding/protowire"

// Code is a RateLimitResponse.Code.
type Code uint8

// The codes.
const (
	OK        Code = 1
	OverLimit Code = 2
)

// Status is a DescriptorStatus.
type Status struct {
	Code Code
	// The rest is of one limit, if HasLimit.
	HasLimit        bool
	Name            string
	RequestsPerUnit uint32
	Unit            int32 // see [UnitOf]
	Remaining       uint32
	ResetSeconds    uint64
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
		to = appendVarint(to, 3, uint64(s.Remaining))
		to, start = begin(to, 4)
		to = end(appendVarint(to, 1, s.ResetSeconds), start)
	}
	return end(to, whole)
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

// begin begins a message within a message. Its length is filled in by end.
func begin(to []byte, number protowire.Number) (_ []byte, start int) {
	to = append(protowire.AppendTag(to, number, protowire.BytesType), 0)
	return to, len(to)
}

// end ends what began at start. A length of more than a byte moves what follows it.
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
