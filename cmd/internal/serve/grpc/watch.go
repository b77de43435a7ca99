package grpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
)

var errConnectionEnds = &Status{Unavailable, "the connection ends"}

// startWatch begins a call that watches. The caller holds c.mu.
func (c *conn) startWatch(s *stream) {
	if !c.draining.IsZero() { // the client has not read yet that the connection ends
		c.refuseCall(s, errConnectionEnds)
		return
	}
	if c.watches >= mostWatches {
		c.refuseCall(s, &Status{ResourceExhausted, "the connection watches too much"})
		return
	}
	state, err := s.watch(s.request[prefixBytes:])
	if status, is := errors.AsType[*Status](err); is {
		c.refuseCall(s, status)
		return
	} else if err != nil {
		c.refuseCall(s, &Status{Internal, "internal error"})
		return
	}
	c.release(s)
	s.started, s.request, s.state = true, nil, state
	if c.watches++; c.active == c.watches {
		c.state(http.StateIdle)
	}
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

// endWatches tells the state for the last time to the calls that watch, and ends them: the connection gets no more. The
// caller holds c.mu.
func (c *conn) endWatches() {
	for _, s := range c.streams {
		if s.state == nil {
			continue
		}
		c.tellState(s)
		c.refuseCall(s, errConnectionEnds)
	}
}
