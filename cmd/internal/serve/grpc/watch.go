package grpc

import (
	"bytes"
	"encoding/binary"
)

var errConnectionEnds = &Status{Unavailable, "the connection ends"}

// startWatch begins a call that watches. The caller holds c.mu.
func (c *conn) startWatch(s *stream) {
	if !c.keep(s) {
		return
	}
	state, err := s.watch(s.request[prefixBytes:])
	if err != nil {
		c.refuseCall(s, statusOf(err))
		return
	}
	c.release(s)
	s.started, s.request, s.state = true, nil, state
	c.tellState(s)
}

// tellState sends the state that s watches, if it differs from the last one. The caller holds c.mu.
func (c *conn) tellState(s *stream) {
	message := s.state()
	if s.last != nil && bytes.Equal(message, s.last) {
		return
	}
	s.last = append([]byte{}, message...)
	s.unsent = append(s.unsent, 0)
	s.unsent = binary.BigEndian.AppendUint32(s.unsent, uint32(len(message)))
	s.unsent = append(s.unsent, message...)
	c.send(s)
	c.signal()
}

// endWatches tells the state for the last time to the calls that watch, and ends them and dialogues: the connection gets no
// more. The caller holds c.mu.
func (c *conn) endWatches() {
	for _, s := range c.streams {
		if !s.goesOn() {
			continue
		}
		if s.state != nil {
			c.tellState(s)
		}
		c.refuseCall(s, errConnectionEnds)
	}
}
