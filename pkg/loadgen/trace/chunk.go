package trace

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/readfile"
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
	parsed  chan *parsed
}

func (c *chunk) isBlank() bool { return len(bytes.TrimSpace(c.data)) == 0 }

func (c *chunk) countLines() int64 {
	n := int64(bytes.Count(c.data, []byte{'\n'}))
	if len(c.data) > 0 && c.data[len(c.data)-1] != '\n' {
		n++
	}
	return n
}

var buffers = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// chunker cuts what it reads into chunks.
type chunker struct {
	in     *bufio.Reader
	carry  []byte // the beginning of a line, which the next chunk begins with
	ended  bool
	inLine bool // the beginning of the line was returned, and its end is still to come
	damage string
	size   int64 // in bytes; 0 if it is not known
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
		return &chunker{in: buffered, size: sizeOf(in)}, nil
	}
	unpacked, err := readfile.Gunzip(buffered)
	c := new(chunker)
	if err != nil {
		return c, c.end(err)
	}
	c.in = bufio.NewReaderSize(unpacked, 1<<16)
	return c, nil
}

// end notes the end of the log. It returns an error that is neither that nor damage of a compressed log.
func (c *chunker) end(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		c.damage = "its gzip is cut off"
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &corrupt):
		c.damage = fmt.Sprintf("its gzip is damaged (%s)", err)
	case !errors.Is(err, io.EOF):
		return err
	}
	c.ended = true
	return nil
}

// sizeOf returns the size of a file, and 0 of anything else.
func sizeOf(in io.Reader) int64 {
	file, is := in.(interface{ Stat() (fs.FileInfo, error) })
	if !is {
		return 0
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// next returns the next chunk, or nil at the end.
func (c *chunker) next() (*chunk, error) {
	for c.inLine && !c.ended { // skip to the end of the line
		_, err := c.in.ReadSlice('\n')
		if c.inLine = err != nil; c.inLine && !errors.Is(err, bufio.ErrBufferFull) {
			if err := c.end(err); err != nil {
				return nil, err
			}
		}
	}
	if c.ended {
		return nil, nil
	}
	buffer := buffers.Get().(*[chunkSize]byte)
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
	lines := bytes.LastIndexByte(buffer[:n], '\n') + 1
	next := &chunk{buffer: buffer, parsed: make(chan *parsed, 1)}
	switch {
	case c.ended && c.damage == "":
		lines = n
	case lines == 0 && n == chunkSize:
		next.data, next.tooLong, c.carry, c.inLine = buffer[:], true, nil, true
		return next, nil
	}
	next.data = buffer[:lines]
	c.carry = append(c.carry[:0], buffer[lines:n]...)
	return next, nil
}

// excerpt is the beginning of a line, for a message.
func excerpt(line []byte) string {
	const most = 80
	if len(line) <= most {
		return string(bytes.ToValidUTF8(line, []byte("�")))
	}
	for line = line[:most]; len(line) > most-utf8.UTFMax && !utf8.Valid(line); {
		line = line[:len(line)-1]
	}
	return string(bytes.ToValidUTF8(line, []byte("�"))) + "…"
}
