//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// The frames of HTTP/2 and their flags.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway, frameWindow = 0, 1, 3, 4, 6, 7, 8

	flagAck, flagEndStream, flagEndHeaders = 1, 1, 4

	frameHead = 9 // bytes before the content of a frame
	callHead  = 5 // bytes before a message of gRPC
)

// call is a gRPC call under way.
type call struct {
	due    time.Time
	status int // 0 until its message arrives
}

// grpcRequest is a call of Envoy's rate limit service, without the stream's number. It has a descriptor with one
// entry, in the domain edge.
func grpcRequest(address, subject string) []byte {
	const path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	text := func(to []byte, tag byte, value string) []byte {
		return append(append(to, tag, byte(len(value))), value...)
	} // under 128 bytes
	header := text([]byte{0x83, 0x86}, 0x04, path) // POST, http
	header = text(header, 0x01, address)
	header = text(append(header, 0x0f), 0x10, "application/grpc")
	header = append(text(header, 0, "te"), "\x08trailers"...)
	entry := text(text(nil, 0x0a, "user"), 0x12, subject)
	descriptor := text(nil, 0x0a, string(entry))
	message := text(text(nil, 0x0a, "edge"), 0x12, string(descriptor))
	message = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	return append(frame(frameHeaders, flagEndHeaders, header), frame(frameData, flagEndStream, message)...)
}

// frame is a frame of stream 0.
func frame(kind, flags byte, payload []byte) []byte {
	length := len(payload)
	return append([]byte{byte(length >> 16), byte(length >> 8), byte(length), kind, flags, 0, 0, 0, 0}, payload...)
}

// greet begins HTTP/2, with windows that no load fills.
func (c *connection) greet() error {
	const most, usual = 1<<31 - 1, 1<<16 - 1
	text := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	text = append(text, frame(frameSettings, 0, binary.BigEndian.AppendUint32([]byte{0, 4}, most))...) // of each stream
	text = append(text, frame(frameWindow, 0, binary.BigEndian.AppendUint32(nil, most-usual))...)
	c.calls, c.stream = map[uint32]*call{}, 1
	_, err := unix.Write(c.fd, text)
	return err
}

// call sends a request as the next stream.
func (c *connection) call(request []byte, due time.Time) (int, error) {
	data := frameHead + (int(request[0])<<16 | int(request[1])<<8 | int(request[2]))
	binary.BigEndian.PutUint32(request[5:], c.stream)
	binary.BigEndian.PutUint32(request[data+5:], c.stream)
	c.calls[c.stream] = &call{due: due}
	c.stream += 2
	return unix.Write(c.fd, request)
}

// receiveFrames reads the frames that have arrived, and reports each answered call.
func (c *connection) receiveFrames(answered func(due time.Time, status int)) error {
	data := c.data
	for len(data) >= frameHead {
		length := int(data[0])<<16 | int(data[1])<<8 | int(data[2])
		if len(data) < frameHead+length {
			break
		}
		kind, flags, stream := data[3], data[4], binary.BigEndian.Uint32(data[5:])
		payload := data[frameHead : frameHead+length]
		data = data[frameHead+length:]
		switch under := c.calls[stream]; {
		case (kind == frameSettings || kind == framePing) && flags&flagAck == 0:
			reply := frame(kind, flagAck, nil)
			if kind == framePing {
				reply = frame(kind, flagAck, payload)
			}
			if _, err := unix.Write(c.fd, reply); err != nil {
				return err
			}
		case kind == frameGoAway || kind == frameReset:
			return fmt.Errorf("the server ends stream %d: %x", stream, payload)
		case under == nil:
		case kind == frameData && length >= callHead+2 && under.status == 0:
			if under.status = 429; payload[callHead] == 0x08 && payload[callHead+1] == 1 { // overall_code: OK
				under.status = 200
			}
			fallthrough
		case kind == frameData || kind == frameHeaders:
			if flags&flagEndStream == 0 {
				break
			}
			if under.status == 0 {
				return errors.New("a call ended without a message")
			}
			answered(under.due, under.status)
			delete(c.calls, stream)
		}
	}
	c.data = c.data[:copy(c.data, data)]
	return nil
}
