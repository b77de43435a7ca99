package grpc

import (
	"encoding/binary"
	"net/http"
	"time"
)

const (
	// mostWatches is the most calls of a connection that last at a time: those that watch, and dialogues.
	mostWatches = 16
	// dialogueBytes is the most bytes of a message in a dialogue.
	dialogueBytes = 4 << 10
	// mostAhead is the most bytes that can wait to be written when a dialogue goes on: a short question can have a long answer.
	mostAhead = 64 << 10
)

// keep counts a call that lasts, or refuses it. The caller holds c.mu.
func (c *conn) keep(s *stream) bool {
	if !c.draining.IsZero() { // the client has not read yet that the connection ends
		c.refuseCall(s, errConnectionEnds)
		return false
	}
	if c.watches >= mostWatches {
		c.refuseCall(s, &Status{ResourceExhausted, "the connection has too many calls that last"})
		return false
	}
	s.lasts = true
	if c.watches++; c.active == c.watches {
		c.state(http.StateIdle)
	}
	return true
}

// goesOn reports whether a call gets more than what is to be sent.
func (s *stream) goesOn() bool { return s.state != nil || s.dialogue != nil && !s.started }

// converse answers the messages of a dialogue that have arrived. The caller holds c.mu.
func (c *conn) converse(s *stream) {
	for len(s.request) >= prefixBytes {
		n := s.length()
		if s.request[0] != 0 {
			c.refuseCall(s, errCompressed)
			return
		}
		if n < 0 || n > dialogueBytes {
			c.refuseCall(s, errTooLarge)
			return
		}
		if n += prefixBytes; n > len(s.request) {
			break
		}
		if len(s.unsent) > 0 || len(c.out) > mostAhead {
			c.refuseCall(s, &Status{ResourceExhausted, "read the answers before you send more"})
			return
		}
		answer, err := s.dialogue(s.request[prefixBytes:n], make([]byte, prefixBytes, 512))
		if err != nil {
			c.refuseCall(s, statusOf(err))
			return
		}
		c.server.buffered.Add(-int64(n))
		s.request = s.request[n:]
		binary.BigEndian.PutUint32(answer[1:prefixBytes], uint32(len(answer)-prefixBytes))
		s.unsent = answer
		c.send(s)
		s.opened = time.Now() // the next message has its own time
	}
	switch {
	case !s.wasRead:
		if n := s.received - len(s.request); n > 0 {
			frames{&c.out}.windowUpdate(s.id, uint32(n))
			s.received = len(s.request)
		}
	case len(s.request) > 0:
		c.refuseCall(s, &Status{Internal, "the request ends within a message"})
	default:
		s.started = true
		c.server.ended(nil)
		c.send(s)
	}
	c.signal()
}
