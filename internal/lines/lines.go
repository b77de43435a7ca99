// Package lines reads files line by line. A line may be damaged or far too long: it takes bounded memory, and the
// lines after it are still read.
package lines

import (
	"bufio"
	"errors"
	"io"
)

// Line is one line of a file.
type Line struct {
	// Number counts from 1.
	Number int64
	// Text is the line without its end. It is valid until the next call.
	Text []byte
	// Length is the number of bytes in the line, without its end.
	Length int64
	// TooLong: the line is longer than the bound, and Text is its beginning.
	TooLong bool
	// Torn: the file ends within the line, for example because its writer was stopped.
	Torn bool
}

// Reader reads lines.
type Reader struct {
	in     *bufio.Reader
	most   int
	number int64
	text   []byte
}

// bufferSize is the number of bytes per read.
const bufferSize = 64 << 10

// NewReader returns a Reader of lines of at most most bytes.
func NewReader(in io.Reader, most int) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, bufferSize), most: most}
}

// Next returns the next line, and [io.EOF] after the last. After any other error this line and the rest of the file
// are lost.
func (r *Reader) Next() (Line, error) {
	r.number++
	line := Line{Number: r.number}
	r.text = r.text[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		line.Length += int64(len(part))
		line.TooLong = line.Length > int64(r.most)
		r.text = append(r.text, part[:min(len(part), r.most-len(r.text))]...)
		line.Text = r.text
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && line.Length == 0:
			return Line{}, io.EOF
		case errors.Is(err, io.EOF):
			line.Torn = true
			return line, nil
		default:
			return Line{}, err
		}
	}
}
