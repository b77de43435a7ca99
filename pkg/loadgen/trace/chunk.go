package trace

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"sync"

	"github.com/limitctl/limitctl/internal/readfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// chunkSize is the size of the parts in which a log is parsed. A longer line is a bad line, so that a log without
// line ends takes bounded memory.
const chunkSize = 1 << 20

// tooLong is what such a line is.
const tooLong = "longer than 1048576 bytes"

// chunk is some whole lines of a log.
type chunk struct {
	data []byte
	// tooLong: data is the beginning of a line that is too long.
	tooLong bool
	buffer  *[chunkSize]byte
}

var buffers = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// chunker cuts what it reads into chunks.
type chunker struct {
	in     io.Reader
	carry  []byte // the beginning of a line, which the next chunk begins with
	ended  bool
	inLine bool // the beginning of the line was returned, and its end is still to come
}

// newChunker returns a chunker of in, which it unpacks if it is compressed.
func newChunker(in io.Reader) (*chunker, error) {
	buffered := bufio.NewReaderSize(in, 1<<16)
	magic, err := buffered.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) {
		if bytes.Equal(magic, []byte("\ufeff")) { // a byte order mark
			buffered.Discard(len(magic))
		}
		return &chunker{in: buffered}, nil
	}
	unpacked, err := readfile.Gunzip(buffered)
	c := &chunker{in: unpacked}
	if err != nil {
		err = c.end(err)
	}
	return c, err
}

// end notes the end of the log. It returns an error that is not that.
func (c *chunker) end(err error) error {
	var corrupt flate.CorruptInputError
	switch c.ended = true; {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return store.Invalidf("its gzip is cut off")
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &corrupt):
		return store.Invalidf("its gzip is damaged (%s)", err)
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// next returns the next chunk, or nil at the end.
func (c *chunker) next() (*chunk, error) {
	buffer := buffers.Get().(*[chunkSize]byte)
	for !c.ended {
		n := copy(buffer[:], c.carry)
		for n < chunkSize && !c.ended {
			read, err := c.in.Read(buffer[n:])
			n += read
			if err != nil {
				if err := c.end(err); err != nil {
					return nil, err
				}
			}
		}
		data := buffer[:n]
		if c.inLine {
			var ends bool
			if _, data, ends = bytes.Cut(data, []byte{'\n'}); !ends {
				continue
			}
			c.inLine = false
		}
		lines := bytes.LastIndexByte(data, '\n') + 1
		if c.ended {
			lines = len(data)
		}
		c.carry = append(c.carry[:0], data[lines:]...)
		switch {
		case lines > 0:
			return &chunk{data: data[:lines], buffer: buffer}, nil
		case len(data) == chunkSize:
			c.carry, c.inLine = nil, true
			return &chunk{data: data, tooLong: true, buffer: buffer}, nil
		}
	}
	return nil, nil
}

// excerpt is the beginning of a line, for a message.
func excerpt(line []byte) string {
	const most = 80
	if len(line) > most {
		return string(bytes.ToValidUTF8(line[:most], nil)) + "…"
	}
	return string(bytes.ToValidUTF8(line, []byte("�")))
}
