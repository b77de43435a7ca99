package grpc

import (
	"context"
	"encoding/binary"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/http2"

	"github.com/limitctl/limitctl/internal/panics"
)

// prefixBytes precede a message: whether it is compressed, and its length.
const prefixBytes = 5

// stream is a call. The fields below the blank line are guarded by the connection's mu.
type stream struct {
	id       uint32
	method   Method
	watch    Watch     // instead of method
	dialogue Dialogue  // instead of both
	deadline time.Time // zero for none
	request  []byte    // with its prefix
	received int       // with padding
	data     int64     // without it
	declared int64     // length of data, -1 if unknown
	http     string    // the status for a request that is not gRPC, once it was read; empty for a call
	head     bool      // it may have no body
	answer   []byte    // with its prefix; belongs to the goroutine that decides until it ends

	opened  time.Time
	started bool // the request is complete, or refused
	wasRead bool // the client has ended the request
	cancel  context.CancelFunc
	reset   bool   // the client does not wait for the answer
	window  int64  // what may be sent
	unsent  []byte // of answer, once it is there
	status  *Status
	begun   bool // the headers of the answer were sent
	blocked bool
	hasTurn bool // is in the connection's turns
	lasts   bool // counts among the connection's watches

	state func() []byte // of a watch: its next message
	last  []byte        // the last one
}

// headers begins a call, or ends a request by its trailers.
func (c *conn) headers(frame *http2.MetaHeadersFrame) error {
	id := frame.StreamID
	if isMalformed(frame) {
		return c.refuse(http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := c.streams[id]; s != nil {
		if s.wasRead || !frame.StreamEnded() {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		if len(frame.PseudoFields()) > 0 {
			c.resetWith(s, http2.ErrCodeProtocol)
			return nil
		}
		s.wasRead = true
		c.start(s)
		return nil
	}
	switch {
	case id <= c.lastID && len(frame.PseudoFields()) > 0:
		return http2.ConnectionError(http2.ErrCodeStreamClosed) // a stream cannot begin again
	case id <= c.lastID || c.lastAsked || c.closing:
		return nil // it has ended, or came after the announced last call
	}
	c.lastID = id
	if !isRequest(frame) && !frame.Truncated {
		if c.idle++; c.idle > idleFrames {
			return c.calm("too many malformed frames")
		}
		frames{&c.out}.reset(id, http2.ErrCodeProtocol)
		c.signal()
		return nil
	}
	now := time.Now()
	c.lastUse = now
	if c.active >= c.server.options.Bounds.Streams {
		c.idle++
		frames{&c.out}.reset(id, http2.ErrCodeRefusedStream)
		c.signal()
		return nil
	}
	r := readRequest(frame)
	s := &stream{id: id, opened: now, window: c.initialWindow, wasRead: frame.StreamEnded(), declared: r.length,
		http: r.httpStatus, head: r.head}
	c.streams[id] = s
	if c.active++; c.active == c.watches+1 {
		c.state(http.StateActive)
	}
	if r.httpStatus != "" {
		if s.wasRead {
			c.start(s)
		}
		return nil
	}
	if r.timeout > 0 {
		s.deadline = now.Add(r.timeout)
	}
	options := &c.server.options
	s.method, s.watch, s.dialogue = options.Methods[r.path], options.Watches[r.path], options.Dialogues[r.path]
	switch refusal := c.server.refusal(&r); {
	case refusal != nil:
		c.refuseCall(s, refusal)
	case s.method == nil && s.watch == nil && s.dialogue == nil:
		c.refuseCall(s, &Status{Unimplemented, "unknown method"})
	case s.dialogue != nil && !c.keep(s):
	case s.wasRead:
		c.start(s)
	}
	return nil
}

// data handles a part of a request.
func (c *conn) data(frame *http2.DataFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := int(frame.Length)
	if c.taken += size; c.taken >= connectionWindow/2 {
		frames{&c.out}.windowUpdate(0, uint32(c.taken))
		c.taken = 0
		c.signal()
	}
	s := c.streams[frame.StreamID]
	if s == nil || s.wasRead {
		return c.dataOfClosed(s, frame)
	}
	if size == 0 && !frame.StreamEnded() {
		if c.idle++; c.idle > idleFrames {
			return c.calm("too many empty DATA frames")
		}
	}
	s.wasRead = frame.StreamEnded()
	if s.received += size; s.received > c.streamWindow() {
		c.resetWith(s, http2.ErrCodeFlowControl)
		return nil
	}
	if s.started {
		return nil // it was refused
	}
	data := frame.Data()
	s.data += int64(len(data))
	if s.http != "" {
		if s.wasRead {
			c.start(s)
		} else if s.data > int64(c.server.options.Bounds.MessageBytes) {
			c.answerHTTP(s) // whose window for more is not opened
		}
		return nil
	}
	if c.server.buffered.Add(int64(len(data))) > c.server.options.Bounds.BufferedBytes {
		c.server.buffered.Add(-int64(len(data)))
		c.refuseCall(s, &Status{ResourceExhausted, "too much of unfinished requests is held; send this one later"})
		return nil
	}
	s.request = append(s.request, data...)
	if n := c.server.options.Bounds.MessageBytes; len(s.request) >= prefixBytes && s.length() > n {
		c.refuseCall(s, errTooLarge)
	} else if s.wasRead {
		c.start(s)
	} else if s.dialogue != nil {
		c.converse(s)
	}
	return nil
}

// dataOfClosed handles data of a request that has ended; s is nil if it was answered. Data that is on its way when a request
// is refused is no mistake of the client, which ignores another reset. The caller holds c.mu.
func (c *conn) dataOfClosed(s *stream, frame *http2.DataFrame) error {
	switch {
	case c.lastAsked:
		return nil
	case frame.StreamID > c.lastID:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case frame.Length == 0 && frame.StreamEnded() && s == nil:
		return nil
	case frame.Length == 0:
		if c.idle++; c.idle > idleFrames {
			return c.calm("too many empty DATA frames")
		}
	}
	if s != nil {
		c.resetWith(s, http2.ErrCodeStreamClosed)
		return nil
	}
	frames{&c.out}.reset(frame.StreamID, http2.ErrCodeStreamClosed)
	c.signal()
	return nil
}

// length is the length of the message in its prefix.
func (s *stream) length() int { return int(binary.BigEndian.Uint32(s.request[1:prefixBytes])) }

// start decides a call whose request is complete. The caller holds c.mu.
func (c *conn) start(s *stream) {
	if s.started {
		return
	}
	if s.declared >= 0 && s.declared != s.data {
		c.resetWith(s, http2.ErrCodeProtocol)
		return
	}
	if s.http != "" {
		c.answerHTTP(s)
		return
	}
	if s.dialogue != nil {
		c.converse(s)
		return
	}
	switch {
	case len(s.request) < prefixBytes:
		c.refuseCall(s, &Status{Internal, "the request has no message"})
		return
	case s.request[0] != 0:
		c.refuseCall(s, errCompressed)
		return
	case s.length() != len(s.request)-prefixBytes:
		c.refuseCall(s, &Status{Internal, "the request is not one message"})
		return
	}
	if s.watch != nil {
		c.startWatch(s)
		return
	}
	if gate := c.server.options.Gate; gate != nil && !gate.Enter() {
		c.refuseCall(s, &Status{Unavailable, "too many calls at once"})
		return
	}
	c.release(s)
	s.started = true
	ctx := context.Background()
	if s.deadline.IsZero() {
		ctx, s.cancel = context.WithCancel(ctx)
	} else {
		ctx, s.cancel = context.WithDeadline(ctx, s.deadline)
	}
	message := s.request[prefixBytes:]
	panics.Go(func() (err error) {
		s.answer, err = s.method(ctx, message, make([]byte, prefixBytes, 512))
		return err
	}, func(err error) { c.finish(s, err) })
}

// release removes s from the incomplete requests.
func (c *conn) release(s *stream) {
	if !s.started {
		c.server.buffered.Add(-int64(len(s.request)))
	}
}

// refuseCall answers a call without a decision. The caller holds c.mu.
func (c *conn) refuseCall(s *stream, status *Status) {
	c.release(s)
	s.started, s.status, s.request, s.unsent = true, status, nil, nil
	c.server.ended(status)
	c.send(s)
	c.signal()
}

// answerHTTP answers a request that is not gRPC. The caller holds c.mu.
func (c *conn) answerHTTP(s *stream) {
	s.started = true
	if !s.head {
		s.unsent = notGRPC
	}
	c.send(s)
	c.signal()
}

// finish sends the answer of a decided call.
func (c *conn) finish(s *stream, err error) {
	if gate := c.server.options.Gate; gate != nil {
		gate.Leave()
	}
	c.server.told(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.cancel()
	s.request = nil
	if err == nil && len(s.answer) >= prefixBytes {
		binary.BigEndian.PutUint32(s.answer[1:prefixBytes], uint32(len(s.answer)-prefixBytes))
		s.unsent = s.answer
	} else {
		s.status = statusOf(err)
	}
	s.answer = nil
	c.server.ended(s.status)
	if s.reset || c.dead {
		delete(c.streams, s.id) // otherwise cancelAll would end it again
		c.less()
		return
	}
	c.send(s)
	c.signal()
}

// send sends as much of the answer to s as the windows allow. The caller holds c.mu.
func (c *conn) send(s *stream) {
	out := frames{&c.out}
	if s.status != nil {
		block := answerHeaders[:len(answerHeaders):len(answerHeaders)]
		if s.begun {
			block = nil
		}
		out.headers(s.id, appendStatus(block, s.status), true)
		c.end(s)
		return
	}
	if !s.begun {
		s.begun = true
		block := answerHeaders
		if s.http != "" {
			block = appendField(appendField(nil, ":status", s.http), "content-type", "text/plain")
		}
		out.headers(s.id, block, false)
	}
	for len(s.unsent) > 0 {
		n := min(int64(len(s.unsent)), frameBytes, c.window, s.window)
		if n <= 0 {
			c.block(s)
			return
		}
		out.data(s.id, s.unsent[:n])
		s.unsent = s.unsent[n:]
		c.window -= n
		s.window -= n
	}
	if s.blocked = false; s.goesOn() {
		return
	}
	if s.http != "" {
		out.lastData(s.id)
	} else {
		out.headers(s.id, okTrailers, true)
	}
	c.end(s)
}

// block makes s wait for a window. The caller holds c.mu.
func (c *conn) block(s *stream) {
	if !s.blocked {
		s.blocked = true
		s.opened = time.Now() // sweep bounds the time until the client makes room
	}
	if s.window > 0 && !s.hasTurn {
		s.hasTurn = true
		c.turns = append(c.turns, s)
	}
}

// sendWaiting sends what was waiting for the connection's window. The caller holds c.mu.
func (c *conn) sendWaiting() {
	for c.window > 0 && len(c.turns) > 0 {
		s := c.turns[0]
		c.turns[0] = nil
		c.turns = c.turns[1:]
		s.hasTurn = false
		c.send(s)
		c.signal()
	}
}

// unblock ends the wait of s. The caller holds c.mu.
func (c *conn) unblock(s *stream) {
	if s.hasTurn {
		i := slices.Index(c.turns, s)
		c.turns = slices.Delete(c.turns, i, i+1)
		s.hasTurn = false
	}
}

// end removes an answered stream. The caller holds c.mu.
func (c *conn) end(s *stream) {
	if !s.wasRead { // the rest of the request is not needed
		frames{&c.out}.reset(s.id, http2.ErrCodeNo)
	}
	c.unblock(s)
	c.idle = max(0, c.idle-1)
	delete(c.streams, s.id)
	if s.lasts {
		c.watches--
	}
	c.less()
}

// reset removes a stream that the client gave up. The caller holds c.mu.
func (c *conn) reset(s *stream) {
	if s == nil {
		return
	}
	delete(c.streams, s.id)
	c.unblock(s)
	if s.cancel != nil && s.unsent == nil {
		s.reset = true // finish ends it
		s.cancel()
		return
	}
	if s.lasts {
		c.watches--
	}
	c.release(s)
	c.less()
}

// resetWith fails a call. The caller holds c.mu.
func (c *conn) resetWith(s *stream, code http2.ErrCode) {
	frames{&c.out}.reset(s.id, code)
	c.reset(s)
	c.signal()
}

// refuse answers a frame that is wrong only for its stream.
func (c *conn) refuse(failed http2.StreamError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle++; c.idle > idleFrames {
		return c.calm("too many malformed frames")
	}
	c.lastID = max(c.lastID, failed.StreamID)
	frames{&c.out}.reset(failed.StreamID, failed.Code)
	c.reset(c.streams[failed.StreamID])
	c.signal()
	return nil
}
