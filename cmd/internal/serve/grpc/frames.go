package grpc

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// frames appends the frames of a server (RFC 9113, section 6).
type frames struct{ to *[]byte }

// header appends the header of a frame whose payload of n bytes follows.
func (f frames) header(n int, kind http2.FrameType, flags http2.Flags, stream uint32) {
	*f.to = append(*f.to, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags))
	*f.to = binary.BigEndian.AppendUint32(*f.to, stream)
}

// headers appends a header block, which must fit into one frame.
func (f frames) headers(stream uint32, block []byte, last bool) {
	flags := http2.FlagHeadersEndHeaders
	if last {
		flags |= http2.FlagHeadersEndStream
	}
	f.header(len(block), http2.FrameHeaders, flags, stream)
	*f.to = append(*f.to, block...)
}

// data appends bytes of an answer; trailers follow it.
func (f frames) data(stream uint32, bytes []byte) {
	f.header(len(bytes), http2.FrameData, 0, stream)
	*f.to = append(*f.to, bytes...)
}

// lastData ends an answer without trailers.
func (f frames) lastData(stream uint32) {
	f.header(0, http2.FrameData, http2.FlagDataEndStream, stream)
}

func (f frames) reset(stream uint32, code http2.ErrCode) {
	f.header(4, http2.FrameRSTStream, 0, stream)
	*f.to = binary.BigEndian.AppendUint32(*f.to, uint32(code))
}

func (f frames) settings(settings ...http2.Setting) {
	f.header(6*len(settings), http2.FrameSettings, 0, 0)
	for _, s := range settings {
		*f.to = binary.BigEndian.AppendUint16(*f.to, uint16(s.ID))
		*f.to = binary.BigEndian.AppendUint32(*f.to, s.Val)
	}
}

func (f frames) settingsAck() { f.header(0, http2.FrameSettings, http2.FlagSettingsAck, 0) }

func (f frames) ping(ack bool, data [8]byte) {
	flags := http2.Flags(0)
	if ack {
		flags = http2.FlagPingAck
	}
	f.header(8, http2.FramePing, flags, 0)
	*f.to = append(*f.to, data[:]...)
}

func (f frames) goAway(last uint32, code http2.ErrCode, why string) {
	f.header(8+len(why), http2.FrameGoAway, 0, 0)
	*f.to = binary.BigEndian.AppendUint32(*f.to, last)
	*f.to = binary.BigEndian.AppendUint32(*f.to, uint32(code))
	*f.to = append(*f.to, why...)
}

func (f frames) windowUpdate(stream uint32, increment uint32) {
	f.header(4, http2.FrameWindowUpdate, 0, stream)
	*f.to = binary.BigEndian.AppendUint32(*f.to, increment)
}
