package envoy

import (
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages are those of envoy/service/ratelimit/v3/rls.proto and
// envoy/extensions/common/ratelimit/v3/ratelimit.proto, read and written by hand: nothing of them
// is registered, which would cost every command of the program some of its start.

// Bounds of a request.
const (
	maxDescriptors = 64
	maxEntries     = 64 // of a descriptor
)

var (
	errNotAMessage        = errors.New("the request is not a RateLimitRequest")
	errTooManyDescriptors = errors.New("too many descriptors; there may be 64")
	errTooManyEntries     = errors.New("too many entries in a descriptor; there may be 64")
)

// request is a RateLimitRequest. Its texts may be any bytes: Envoy passes on header values, which
// need not be UTF-8.
type request struct {
	domain      string
	descriptors []descriptor
	hits        uint32 // 0 stands for 1
}

type descriptor struct {
	entries []entry
	// limit is what Envoy's route says instead of the configured limit, if hasLimit.
	limit    limitOverride
	hasLimit bool
	// hits are what this descriptor asks for, if hasHits; 0 asks without counting.
	hits     uint64
	hasHits  bool
	negative bool // the hits are given back
}

type entry struct{ key, value string }

type limitOverride struct {
	requestsPerUnit uint32
	unit            int32
	multiplier      uint32 // of the unit; 0 stands for 1
}

// fields calls each with the fields of a message. Of a field, value is the varint, or bytes is
// what has a length. Other kinds of values are skipped, as no message here has them.
func fields(message string, each func(number protowire.Number, varint bool, value uint64, bytes string) error) error {
	for len(message) > 0 {
		// The conversions copy nothing that outlives the call.
		number, kind, n := protowire.ConsumeTag([]byte(message[:min(len(message), 10)]))
		if n < 0 {
			return errNotAMessage
		}
		message = message[n:]
		switch kind {
		case protowire.VarintType:
			value, n := protowire.ConsumeVarint([]byte(message[:min(len(message), 10)]))
			if n < 0 {
				return errNotAMessage
			}
			message = message[n:]
			if err := each(number, true, value, ""); err != nil {
				return err
			}
		case protowire.BytesType:
			length, n := protowire.ConsumeVarint([]byte(message[:min(len(message), 10)]))
			if n < 0 || length > uint64(len(message)-n) {
				return errNotAMessage
			}
			value := message[n : n+int(length)]
			message = message[n+int(length):]
			if err := each(number, false, 0, value); err != nil {
				return err
			}
		default:
			n := protowire.ConsumeFieldValue(number, kind, []byte(message))
			if n < 0 {
				return errNotAMessage
			}
			message = message[n:]
		}
	}
	return nil
}

// readRequest reads a RateLimitRequest. Its error is one of those above.
func readRequest(message []byte) (*request, error) {
	r := &request{}
	err := fields(string(message), func(number protowire.Number, varint bool, value uint64, bytes string) error {
		switch {
		case number == 1 && !varint:
			r.domain = bytes
		case number == 2 && !varint:
			if len(r.descriptors) == maxDescriptors {
				return errTooManyDescriptors
			}
			r.descriptors = append(r.descriptors, descriptor{})
			return r.descriptors[len(r.descriptors)-1].read(bytes)
		case number == 3 && varint:
			r.hits = uint32(value)
		}
		return nil
	})
	return r, err
}

func (d *descriptor) read(message string) error {
	return fields(message, func(number protowire.Number, varint bool, value uint64, bytes string) error {
		switch {
		case number == 1 && !varint:
			if len(d.entries) == maxEntries {
				return errTooManyEntries
			}
			d.entries = append(d.entries, entry{})
			return d.entries[len(d.entries)-1].read(bytes)
		case number == 2 && !varint:
			d.hasLimit = true
			return d.limit.read(bytes)
		case number == 3 && !varint:
			d.hasHits = true
			return readWrapped(bytes, &d.hits)
		case number == 4 && varint:
			d.negative = value != 0
		}
		return nil
	})
}

func (e *entry) read(message string) error {
	return fields(message, func(number protowire.Number, varint bool, _ uint64, bytes string) error {
		switch {
		case number == 1 && !varint:
			e.key = bytes
		case number == 2 && !varint:
			e.value = bytes
		}
		return nil
	})
}

func (l *limitOverride) read(message string) error {
	return fields(message, func(number protowire.Number, varint bool, value uint64, bytes string) error {
		switch {
		case number == 1 && varint:
			l.requestsPerUnit = uint32(value)
		case number == 2 && varint:
			l.unit = int32(value)
		case number == 3 && !varint:
			multiplier := uint64(l.multiplier)
			err := readWrapped(bytes, &multiplier)
			l.multiplier = uint32(multiplier)
			return err
		}
		return nil
	})
}

// readWrapped reads a google.protobuf.UInt64Value, or UInt32Value.
func readWrapped(message string, to *uint64) error {
	return fields(message, func(number protowire.Number, varint bool, value uint64, _ string) error {
		if number == 1 && varint {
			*to = value
		}
		return nil
	})
}

// code is a RateLimitResponse.Code.
type code uint64

const (
	codeOK        code = 1
	codeOverLimit code = 2
)

// status is a DescriptorStatus.
type status struct {
	code code
	// The rest is of the limit that is nearest to its end, if hasLimit.
	hasLimit        bool
	name            string
	requestsPerUnit uint32
	unit            int32
	remaining       uint32
	resetSeconds    int64
}

// appendStatus appends the field statuses of a RateLimitResponse.
func appendStatus(to []byte, s *status) []byte {
	to, start := begin(to, 2)
	to = appendVarint(to, 1, uint64(s.code))
	if s.hasLimit {
		var limit int
		to, limit = begin(to, 2)
		to = appendVarint(to, 1, uint64(s.requestsPerUnit))
		to = appendVarint(to, 2, uint64(s.unit))
		to = appendText(to, 3, s.name)
		to = end(to, limit)
		to = appendVarint(to, 3, uint64(s.remaining))
		var reset int
		to, reset = begin(to, 4)
		to = appendVarint(to, 1, uint64(s.resetSeconds))
		to = end(to, reset)
	}
	return end(to, start)
}

// appendHeader appends the field response_headers_to_add of a RateLimitResponse.
func appendHeader(to []byte, name, value string) []byte {
	to, start := begin(to, 3)
	to = appendText(to, 1, name)
	to = appendText(to, 2, value)
	return end(to, start)
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
	extra := protowire.SizeVarint(uint64(n)) - 1
	for range extra {
		to = append(to, 0)
	}
	if extra > 0 {
		copy(to[start+extra:], to[start:start+n])
	}
	protowire.AppendVarint(to[:start-1], uint64(n))
	return to
}

// clamped returns n as a uint32.
func clamped(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }
