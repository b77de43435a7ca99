package grpc

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// The header blocks of answers. They use no dynamic table, so they are the same on every
// connection.
var (
	answerHeaders = appendField([]byte{indexedStatus200}, "content-type", "application/grpc")
	okTrailers    = appendField(nil, "grpc-status", "0")
)

// notGRPC is the answer to a request that is not gRPC.
var notGRPC = []byte("this is a gRPC server; send POST with the content-type application/grpc\n")

const (
	indexedStatus200 = 0x88 // RFC 7541, appendix A: index 8
	literalNewName   = 0x00 // RFC 7541, section 6.2.2: without indexing
	longestMessage   = 2000 // bytes of an error's text, before encoding
)

// appendField appends a header field as RFC 7541 encodes a literal without indexing.
func appendField(block []byte, name, value string) []byte {
	return appendText(appendText(append(block, literalNewName), name), value)
}

// appendText appends a string with its length, an integer with a prefix of 7 bits (RFC 7541,
// section 5.1).
func appendText(block []byte, text string) []byte {
	const prefix = 1<<7 - 1
	n := len(text)
	if n < prefix {
		return append(append(block, byte(n)), text...)
	}
	block = append(block, prefix)
	for n -= prefix; n >= 128; n >>= 7 {
		block = append(block, byte(n&127)|128)
	}
	return append(append(block, byte(n)), text...)
}

// appendStatus appends the fields of a status.
func appendStatus(block []byte, status *Status) []byte {
	block = appendField(block, "grpc-status", strconv.Itoa(int(status.Code)))
	if status.Message != "" {
		block = appendField(block, "grpc-message", percentEncoded(status.Message))
	}
	if status == errCompressed {
		block = appendField(block, "grpc-accept-encoding", "identity")
	}
	return block
}

// percentEncoded encodes a text as gRPC requires in headers: it keeps the bytes from space to ~, except %.
func percentEncoded(text string) string {
	if len(text) > longestMessage {
		text = text[:longestMessage]
	}
	plain := func(b byte) bool { return b >= ' ' && b <= '~' && b != '%' }
	n := 0
	for n < len(text) && plain(text[n]) {
		n++
	}
	if n == len(text) {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		if plain(text[i]) {
			b.WriteByte(text[i])
			continue
		}
		const digits = "0123456789ABCDEF"
		b.WriteByte('%')
		b.WriteByte(digits[text[i]>>4])
		b.WriteByte(digits[text[i]&15])
	}
	return b.String()
}

var errTooLarge = &Status{ResourceExhausted, "the message is too large"}

var errCompressed = &Status{Unimplemented, "the message is compressed; send it as it is"}

// request is the content of a call's headers.
type request struct {
	path string
	// authorization are the values of that metadata.
	authorization []string
	timeout       time.Duration // 0 for none
	length        int64         // in content-length, -1 without one
	// refusal, if not nil, says why there is no call.
	refusal *Status
	// httpStatus, if not empty, is the answer to a request that is not gRPC at all.
	httpStatus string
	// head: its method is HEAD.
	head bool
}

func readRequest(frame *http2.MetaHeadersFrame) (r request) {
	method, contentType := "", ""
	r.length = -1
	for i := range frame.Fields {
		field := &frame.Fields[i]
		switch field.Name {
		case ":method":
			method = field.Value
		case ":path":
			r.path = field.Value
		case "content-type":
			contentType = field.Value
		case "content-length":
			if n, err := strconv.ParseInt(field.Value, 10, 64); err == nil && n >= 0 {
				r.length = n
			}
		case "authorization":
			r.authorization = append(r.authorization, field.Value)
		case "grpc-timeout":
			timeout, ok := parseTimeout(field.Value)
			if !ok {
				r.refusal = &Status{Internal, "grpc-timeout is not valid; it is up to 8 digits and H, M, S, m, u or n"}
			}
			r.timeout = timeout
		}
	}
	r.head = method == "HEAD"
	switch {
	case frame.Truncated:
		r.refusal = &Status{ResourceExhausted, "the headers are too large"}
	case method != "POST":
		r.httpStatus = "405"
	case !isGRPC(contentType):
		r.httpStatus = "415"
	}
	return r
}

// isGRPC reports whether a content type is gRPC's, perhaps with the format of messages or with parameters.
// gRPC-Web, which frames messages in another way, is not.
func isGRPC(contentType string) bool {
	rest, found := strings.CutPrefix(contentType, "application/grpc")
	return found && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// isRequest reports whether a header block begins a request, with the fields that each must have (RFC 9113, section 8.3.1).
func isRequest(frame *http2.MetaHeadersFrame) bool {
	method := frame.PseudoValue("method")
	return method == "CONNECT" || method != "" && frame.PseudoValue("scheme") != "" && frame.PseudoValue("path") != ""
}

// isMalformed reports whether a header block depends on itself, or has fields about a connection, which HTTP/2 forbids
// (RFC 9113, section 8.2.2).
func isMalformed(frame *http2.MetaHeadersFrame) bool {
	if frame.HasPriority() && frame.Priority.StreamDep == frame.StreamID {
		return true
	}
	for i := range frame.Fields {
		switch field := &frame.Fields[i]; field.Name {
		case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
			return true
		case "te":
			if field.Value != "trailers" {
				return true
			}
		}
	}
	return false
}

// parseTimeout reads a grpc-timeout: up to 8 digits and a unit. It returns a nanosecond for zero, which has already
// passed.
func parseTimeout(text string) (time.Duration, bool) {
	if len(text) < 2 || len(text) > 9 {
		return 0, false
	}
	unit := time.Duration(0)
	switch text[len(text)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	}
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if err != nil || unit == 0 {
		return 0, false
	}
	const longest = 24 * time.Hour // so that nothing overflows
	if time.Duration(n) > longest/unit {
		return longest, true
	}
	return max(time.Duration(n)*unit, time.Nanosecond), true
}
